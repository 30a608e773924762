"""A LocalQueue to submit jobs to, and a job that was submitted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from seiretsu.client.estimate import Estimate, epoch, estimate, waits
from seiretsu.client.http import Api, ApiError, Configuration
from seiretsu.client.state import Phase, State, state_of

Raw = dict[str, Any]

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
JOB_UID = "kueue.x-k8s.io/job-uid"
POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
_MANY_WORKLOADS = ("CronJob", "Deployment", "LeaderWorkerSet")
"""Kinds without one Workload: their Jobs, pods or groups have one each."""
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
_WATCH_SECONDS = 300.0
_UNREACHABLE_SECONDS = 300.0
_PAUSE_SECONDS = 2.0
_GONE = 410
"""The HTTP code for a version that is too old to be watched from."""


class WaitTimeoutError(TimeoutError):
    """The job did not get there in time; ``state`` is its last one, and the text says why it waits."""

    def __init__(self, state: State) -> None:
        super().__init__(str(state))
        self.state = state


@dataclass
class Queue:
    """A LocalQueue in a namespace."""

    api: Api
    name: str
    namespace: str = "default"
    _plurals: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, configuration: Configuration, name: str, namespace: str = "default") -> Queue:
        """With the configuration of the official ``kubernetes`` package."""
        return cls(Api.of(configuration), name, namespace)

    @classmethod
    def in_cluster(cls, name: str, namespace: str) -> Queue:
        """With the service account of the pod that this runs in."""
        return cls(Api.in_cluster(), name, namespace)

    def submit(self, manifest: Raw) -> Job:
        """Create a job of any kind in this queue; ``ApiError`` where it is refused.

        The answer's ``warnings`` are what kubectl would print about it, for example that it can never start.
        """
        body = deepcopy(manifest)
        metadata = body.setdefault("metadata", {})
        metadata["namespace"] = self.namespace
        metadata["labels"] = {**(metadata.get("labels") or {}), QUEUE_NAME: self.name}
        answer = self.api.create(self._path(body["apiVersion"], body["kind"]), body)
        return Job(self, answer.body, answer.warnings)

    def find(self, name: str, *, api_version: str = "batch/v1", kind: str = "Job") -> Job:
        """The job of that name which is in the cluster already."""
        return Job(self, self.api.get(f"{self._path(api_version, kind)}/{name}"))

    def _path(self, api_version: str, kind: str) -> str:
        """The URL path of the objects of a kind in the namespace."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        if (api_version, kind) not in self._plurals:
            served = self.api.get(root)["resources"]
            found = [each["name"] for each in served if each["kind"] == kind and "/" not in each["name"]]
            if not found:
                raise ApiError(404, "NotFound", f"the cluster has no kind {kind} in {api_version}")
            self._plurals[api_version, kind] = found[0]
        return f"{root}/namespaces/{self.namespace}/{self._plurals[api_version, kind]}"


@dataclass
class Job:
    """A job in a queue. ``manifest`` is as it was stored, ``warnings`` are what the API server said about it."""

    queue: Queue
    manifest: Raw
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The uid of the job."""
        return str(self.manifest["metadata"]["uid"])

    def state(self) -> State:
        """Where it stands now, and why."""
        found = self._workloads()["items"]
        return state_of(_newest(found), () if found else self._events())

    def why(self) -> str:
        """The sentence that says where it stands, and why it waits."""
        return str(self.state())

    def changes(self, timeout: float | None = None) -> Iterator[State]:
        """Its state now, then each change of it, until it has ended or that many seconds have passed."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        last: State | None = None
        for state in self._states(end):
            if state != last:
                yield state
            last = state
            if state.phase.ended:
                return

    def _states(self, end: float) -> Iterator[State]:
        """Its state whenever something about its Workload may have changed, until that time."""
        while True:
            listed = self._listed(end)
            found = {each["metadata"]["uid"]: each for each in listed["items"]}
            yield state_of(_newest(found.values()), () if found else self._events())
            left = min(_WATCH_SECONDS, end - time.monotonic())
            if left <= 0:
                return
            for event in self._watched(left, listed["metadata"]["resourceVersion"]):
                workload = event["object"]
                found.pop(workload["metadata"]["uid"], None)
                if event["type"] != "DELETED":
                    found[workload["metadata"]["uid"]] = workload
                yield state_of(_newest(found.values()))

    def _listed(self, end: float) -> Raw:
        """Its Workloads; an API server that cannot be reached is asked again, for as long as the caller waits, but not
        longer than some minutes.
        """
        given_up = min(end, time.monotonic() + _UNREACHABLE_SECONDS)
        while True:
            try:
                return self._workloads()
            except OSError:
                if time.monotonic() >= given_up:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _watched(self, left: float, version: str) -> Iterator[Raw]:
        """The changes of its Workloads since a version; ends early where the list has to be read anew."""
        path = _WORKLOADS.format(self.queue.namespace)
        try:
            for event in self.queue.api.watch(path, left, resourceVersion=version, **self._selector()):
                if event["type"] == "ERROR":
                    return  # the version is too old by now
                yield event
        except (OSError, HTTPException):
            return  # the connection broke
        except ApiError as error:
            if error.status != _GONE:
                raise

    def wait(
        self,
        until: Phase | None = None,
        *,
        timeout: float | None = None,
        progress: Callable[[State], object] | None = None,
    ) -> State:
        """Wait at most ``timeout`` seconds until the job has ended, or has got to a phase; ``progress`` is called with
        each change.

        Returns its state then; one that has ended does not get to another phase. Raises ``WaitTimeoutError``.
        """
        state = State(Phase.SUBMITTED)
        for state in self.changes(timeout):
            if progress is not None:
                progress(state)
            if state.phase.ended or state.phase is until:
                return state
        raise WaitTimeoutError(state)

    def estimate(self) -> Estimate | None:
        """How long it will probably wait from now, from the waits of other jobs in its queue; None where too few are
        known, or where it does not wait.
        """
        mine = self._workloads()["items"]
        if not mine or state_of(_newest(mine)).phase is not Phase.WAITING:
            return None
        everybody = self.queue.api.get(_WORKLOADS.format(self.queue.namespace))["items"]
        waited = time.time() - min(epoch(each["metadata"]["creationTimestamp"]) for each in mine)
        return estimate(waited, waits(everybody, self.queue.name))

    def delete(self) -> None:
        """Delete the job, and with it what it owns."""
        path = self.queue._path(self.manifest["apiVersion"], self.manifest["kind"])
        self.queue.api.delete(f"{path}/{self.name}")

    def _workloads(self) -> Raw:
        path = _WORKLOADS.format(self.queue.namespace)
        return self.queue.api.get(path, **self._selector())

    def _selector(self) -> dict[str, str]:
        """The query for its Workload: that of its group for a pod in a group."""
        kind = self.manifest["kind"]
        if kind in _MANY_WORKLOADS:
            raise ValueError(f"a {kind} has no Workload of its own: look at the jobs or pods that it makes")
        group = (self.manifest["metadata"].get("labels") or {}).get(POD_GROUP_NAME) if kind == "Pod" else None
        return {"fieldSelector": f"metadata.name={group}"} if group else {"labelSelector": f"{JOB_UID}={self.uid}"}

    def _events(self) -> list[Raw]:
        path = f"/api/v1/namespaces/{self.queue.namespace}/events"
        found: list[Raw] = self.queue.api.get(path, fieldSelector=f"involvedObject.uid={self.uid}")["items"]
        return found


def _newest(workloads: Iterable[Raw]) -> Raw | None:
    return max(workloads, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
