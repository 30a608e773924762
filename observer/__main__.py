"""The observer as a process: ``python -m observer --etcd http://127.0.0.1:2379 [--namespace team]...``.

With ``--worker worker1=URL``, repeatable, that etcd is a manager's, and those of its worker clusters are observed, too.

Prints ``observing`` when it follows etcd. At the line ``end`` on its standard input it waits until all rules for a
quiet cluster hold, at most ``--patience`` seconds, and prints one JSON object: ``broken`` (a sentence for each moment
at which a rule did not hold), ``changes``, ``admissions``, ``admitted_again``, ``evictions``, ``finished``, ``most``,
``workloads`` (the name of each that was made), ``ran`` (with workers, how many Jobs have had pods there),
``without_quota`` (the longest time in seconds that a pod ran without quota, which may be ``--without-quota``).
The line ``look`` prints the same at once, without these rules and ``workloads``: it may be asked often. Its exit code
is 1 if anything is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from observer.decode import FIRST_KEY, LAST_KEY, decoded, kind_of
from observer.etcd import Entry, Etcd
from observer.fleet import MANAGER, Fleet
from observer.rules import Change, Judge

PATIENCE_SECONDS = 60.0
WITHOUT_QUOTA_SECONDS = 60.0
"""How long pods may run without quota on a machine that may be busy; a promise in seconds needs ``--without-quota``."""
POLL_SECONDS = 0.25

ORDER = ("ClusterQueue", "Cohort", "Node", "Workload", "Job", "Pod", "")
"""In which order the objects of the first list are judged."""


class Follower:
    """Gives every change of etcd to the judge, and to ``also``, in a thread of its own. ``lock`` is held while it
    does.
    """

    def __init__(
        self, etcd: Etcd, judge: Judge, cluster: str = "", also: Callable[[str, Change], None] = lambda *_: None
    ) -> None:
        self.lock = threading.Lock()
        self.judge = judge
        self.changes = 0
        self.cluster = cluster
        self._also = also
        self._etcd = etcd
        self._versions: dict[str, tuple[int, int]] = {}
        revision, entries = etcd.list()
        for entry in sorted(entries, key=lambda each: ORDER.index(kind_of(each.key))):
            self._take(entry)
        self._revision = revision

    def follow(self) -> None:
        """Takes every change from now on; ends the process with 2 where that is impossible: nothing may be missed."""
        try:
            for entry in self._etcd.watch(self._revision + 1):
                with self.lock:
                    self._take(entry)
        except Exception:
            traceback.print_exc()
            os._exit(2)

    def up_to_date(self) -> bool:
        """Whether it has seen every write that etcd has now: each key's count of writes is the same."""
        _, entries = self._etcd.list()
        there = {each.key: (each.revision, each.version) for each in entries if kind_of(each.key)}
        with self.lock:
            return there == self._versions

    def _take(self, entry: Entry) -> None:
        kind = kind_of(entry.key)
        if not kind:
            return
        self.changes += 1
        known = self._versions.get(entry.key, (0, 0))[1]
        if entry.value is None:
            self._versions.pop(entry.key, None)
        else:
            if known and entry.version not in (known + 1, 1):
                raise ValueError(f"{entry.key}: version {entry.version} follows {known}: a change was missed")
            self._versions[entry.key] = (entry.revision, entry.version)
        value = None if entry.value is None else decoded(kind, entry.value)
        change = Change(entry.revision, kind, entry.key, value, time.monotonic())
        self.judge.see(change)
        self._also(self.cluster, change)

    def titled(self, sentences: list[str]) -> list[str]:
        """The sentences with the name of the cluster, if there are several."""
        return [f"{self.cluster}: {each}" for each in sentences] if self.cluster else sentences


def quiet(followers: Sequence[Follower], fleet: Fleet, patience: float, *, drained: bool) -> list[str]:
    """Waits until all rules for quiet clusters hold; returns a sentence for each that does not."""
    end = time.monotonic() + patience
    while True:
        current = all(each.up_to_date() for each in followers)
        broken = fleet.at_rest() if len(followers) > 1 else []
        for each in followers:
            with each.lock:
                broken += each.titled(each.judge.at_rest(drained=drained))
        if (current and not broken) or time.monotonic() > end:
            return broken if current else ["etcd changes faster than it can be followed", *broken]
        time.sleep(POLL_SECONDS)


def report(followers: Sequence[Follower], fleet: Fleet, more: list[str]) -> dict[str, Any]:
    """Returns what was seen until now: in the first cluster, but what is broken, changes and evictions in all."""
    first = followers[0]
    for each in followers:
        with each.lock:
            each.judge.passed(time.monotonic())
    with first.lock:
        judge = first.judge
        return {
            "broken": [*(text for each in followers for text in each.titled(each.judge.broken)), *fleet.broken, *more],
            "changes": sum(each.changes for each in followers),
            "admissions": judge.admitted.total(),
            "admitted_again": sorted(name for name, count in judge.admitted.items() if count > 1),
            "evictions": sum(each.judge.evictions for each in followers),
            "finished": len(judge.finished),
            "most": {resource: float(amount) for resource, amount in judge.most.items()},
            "ran": fleet.ran,
            "without_quota": max(each.judge.without_quota.longest for each in followers),
        }


def main() -> None:
    """Observes until the standard input ends."""
    parser = argparse.ArgumentParser(prog="observer", description="Checks in etcd what the queue promises.")
    parser.add_argument("--etcd", required=True, help="client URL of etcd")
    parser.add_argument("--worker", action="append", default=[], help="NAME=URL of a worker's etcd (repeatable)")
    parser.add_argument("--namespace", action="append", default=[], help="observe only this namespace (repeatable)")
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS, help="seconds to wait for quiet at the end")
    parser.add_argument("--drained", action="store_true", help="at the end every Job must have ended")
    parser.add_argument(
        "--without-quota", type=float, default=WITHOUT_QUOTA_SECONDS, help="seconds that a pod may run without quota"
    )
    chosen = parser.parse_args()
    namespaces = frozenset(chosen.namespace)
    fleet = Fleet(namespaces)
    workers = dict(each.split("=", 1) for each in chosen.worker)
    clusters = {MANAGER: chosen.etcd, **workers} if workers else {"": chosen.etcd}
    followers = [
        Follower(
            Etcd(url, FIRST_KEY, LAST_KEY),
            Judge(namespaces, chosen.without_quota),
            name,
            fleet.see if workers else lambda *_: None,
        )
        for name, url in clusters.items()
    ]
    for each in followers:
        threading.Thread(target=each.follow, daemon=True).start()
    print("observing", flush=True)
    broken = False
    for line in sys.stdin:
        ending = line.strip() == "end"
        more = quiet(followers, fleet, chosen.patience, drained=chosen.drained) if ending else []
        found = report(followers, fleet, more)
        broken = bool(found["broken"])
        if ending:
            found["workloads"] = sorted(followers[0].judge.made.values())
        print(json.dumps(found), flush=True)
        if ending:
            break
    sys.stdout.flush()
    os._exit(broken)


if __name__ == "__main__":
    main()
