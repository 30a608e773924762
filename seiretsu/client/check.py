"""A controller of admission checks: it watches Workloads, asks a function for each that waits, and writes its verdict.

All state is that of the API objects, so a restart at any moment loses nothing: what waits is asked again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NamedTuple

from seiretsu.client.http import Api, ApiError, Configuration
from seiretsu.client.verdict import Question, Raw, Verdict, activated, answered, mine, newer, questions

log = logging.getLogger("seiretsu.check")

Decide = Callable[[Question], Verdict]

_GROUP = "/apis/kueue.x-k8s.io/v1beta2"
_CHECKS, _WORKLOADS = f"{_GROUP}/admissionchecks", f"{_GROUP}/workloads"
_WATCH_SECONDS = 300.0
_PAUSE_SECONDS = 2.0
_AGAIN_SECONDS = 10.0
"""When a Workload is asked again about which the function failed or the write was refused."""
_UNCHANGED = (404, 409)
"""The codes for an object that is gone or has changed: the watch reports it, and it is asked again."""

_Key = tuple[str, str]


class _News(NamedTuple):
    """What a watch reports: all objects (``listed``), or one that changed."""

    path: str
    listed: list[Raw] | None = None
    changed: Raw | None = None
    deleted: bool = False


@dataclass
class CheckController:
    """The controller of all AdmissionChecks with that ``spec.controllerName``. Run one at a time.

    ``usable`` returns why an AdmissionCheck cannot be used, for example because its parameters are wrong, '' if it can:
    it becomes the condition Active. ``workloads`` are all Workloads of the cluster as they are known now, with the
    verdicts that were already written.
    """

    api: Api
    name: str
    usable: Callable[[Raw], str] = lambda check: ""
    workloads: dict[_Key, Raw] = field(default_factory=dict, repr=False)
    _checks: dict[str, Raw] = field(default_factory=dict, repr=False)
    _news: queue.SimpleQueue[_News] = field(default_factory=queue.SimpleQueue, repr=False)
    _due: dict[_Key, float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, configuration: Configuration, name: str, **options: Any) -> CheckController:
        """With the configuration of the official ``kubernetes`` package."""
        return cls(Api.of(configuration), name, **options)

    @classmethod
    def in_cluster(cls, name: str, **options: Any) -> CheckController:
        """With the service account of the pod that this runs in."""
        return cls(Api.in_cluster(), name, **options)

    def run(self, decide: Decide) -> None:
        """Asks ``decide`` about each Workload that waits for one of the checks, one after the other, without end."""
        for path in (_CHECKS, _WORKLOADS):
            threading.Thread(target=self._follow, args=(path,), daemon=True).start()
        while True:
            self.step(decide)

    def step(self, decide: Decide) -> None:
        """Waits for the next change, or the next time at which a Workload is to be asked again, and decides."""
        wait = min(self._due.values()) - time.monotonic() if self._due else None
        try:
            changed = self._entered(self._news.get(timeout=None if wait is None else max(0.0, wait)))
        except queue.Empty:
            changed = []
        due = [key for key, at in self._due.items() if at <= time.monotonic()]  # also while changes never end
        for key in dict.fromkeys([*changed, *due]):
            self._ask(key, decide)

    def _entered(self, news: _News) -> list[_Key]:
        """Takes over a change; returns the Workloads that may have to be asked."""
        if news.path == _CHECKS:
            return self._entered_checks(news)
        if news.listed is not None:
            found = {_key(each): each for each in news.listed}
            self.workloads = {key: self._newest(key, each) for key, each in found.items()}
            return list(self.workloads)
        assert news.changed is not None
        key = _key(news.changed)
        if news.deleted:
            self.workloads.pop(key, None)
            self._due.pop(key, None)
        else:
            self.workloads[key] = self._newest(key, news.changed)
        return [key]

    def _newest(self, key: _Key, found: Raw) -> Raw:
        known = self.workloads.get(key)
        return found if known is None or newer(known, found) else known

    def _entered_checks(self, news: _News) -> list[_Key]:
        if news.listed is not None:
            self._checks = mine(news.listed, self.name)
        else:
            assert news.changed is not None
            self._checks.pop(news.changed["metadata"]["name"], None)
            self._checks |= {} if news.deleted else mine([news.changed], self.name)
        for check in self._checks.values():
            patch = activated(check, self.usable(check), time.time())
            if patch is not None:
                self._written(f"{_CHECKS}/{check['metadata']['name']}/status", patch)
        return list(self.workloads)

    def _ask(self, key: _Key, decide: Decide) -> None:
        self._due.pop(key, None)
        usable: Mapping[str, Raw] = {name: raw for name, raw in self._checks.items() if not self.usable(raw)}
        for question in questions(self.workloads[key], usable) if key in self.workloads else ():
            try:
                verdict = decide(question)
            except Exception:
                log.exception("%s: no verdict on %s/%s", question.check, *key)
                self._due[key] = time.monotonic() + _AGAIN_SECONDS
                continue
            if verdict.again_after is not None:
                self._due[key] = time.monotonic() + verdict.again_after
            patch = answered(self.workloads[key], question.check, verdict, time.time())
            if patch is None:
                continue
            path = f"{_GROUP}/namespaces/{key[0]}/workloads/{key[1]}/status"
            written = self._written(path, patch)
            if written is None:
                self._due[key] = time.monotonic() + _AGAIN_SECONDS
                return
            self.workloads[key] = written
            log.info("%s: %s/%s is %s: %s", question.check, *key, verdict.state, verdict.message)

    def _written(self, path: str, patch: Raw) -> Raw | None:
        """The object after the patch; None if it was refused or changed meanwhile, or nobody answered."""
        try:
            return self.api.patch(path, patch).body
        except ApiError as error:
            if error.status not in _UNCHANGED:
                log.warning("%s: %s", path, error)
        except (OSError, HTTPException, ValueError) as error:  # e.g. an answer that is not JSON
            log.warning("%s: %s", path, error)
        return None

    def _follow(self, path: str) -> None:
        """Reports the objects at a path and every change, without end."""
        while True:
            try:
                listed = self.api.get(path)
                self._news.put(_News(path, listed["items"]))
                for news in self._watched(path, listed["metadata"]["resourceVersion"]):
                    self._news.put(news)
            except (ApiError, OSError, HTTPException, ValueError, KeyError, TypeError) as error:  # e.g. not JSON
                log.warning("%s cannot be read: %s", path, error)
                time.sleep(_PAUSE_SECONDS)

    def _watched(self, path: str, version: str) -> Iterator[_News]:
        for event in self.api.watch(path, _WATCH_SECONDS, resourceVersion=version):
            if event["type"] == "ERROR":
                return  # the version is too old by now
            yield _News(path, None, event["object"], event["type"] == "DELETED")


def _key(raw: Raw) -> _Key:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]
