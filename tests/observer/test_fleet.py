"""The observer of several clusters finds a Job that runs twice, that is lost, and what is left in a worker."""

from __future__ import annotations

import pytest

from observer.decode import Decoded, Job, Pod
from observer.fleet import MANAGER, Fleet
from observer.rules import Change
from tests.observer.test_rules import PREFIX, workload

Step = tuple[str, Decoded] | tuple[str, Decoded, None]
"""A state of an object in a cluster; with None it is deleted."""


def job(uid: str, *, ended: bool = False, pods: int = 1) -> Job:
    return Job("team/a", uid, queued=True, runs=not ended, ended=ended, pods=pods)


def pod(uid: str, job: str) -> Pod:
    return Pod(f"team/{uid}", uid, job, {})


def judged(*steps: Step) -> Fleet:
    fleet = Fleet({"team"})
    for revision, (cluster, value, *deleted) in enumerate(steps):
        key = f"/registry/{PREFIX[type(value)]}{value.name}"
        fleet.see(cluster, Change(revision, type(value).__name__, key, None if deleted else value))
    return fleet


WANTED, ENDED = (MANAGER, job("m")), (MANAGER, job("m", ended=True))
RUN: tuple[Step, ...] = (("w1", job("u1")), ("w1", pod("p1", "u1")))
CASES: dict[str, tuple[tuple[Step, ...], list[str], list[str]]] = {
    "a Job that runs once, and of which nothing is left": ((WANTED, *RUN, ENDED, ("w1", job("u1"), None)), [], []),
    "a Job that waits in a worker, and runs in another": (
        (WANTED, ("w2", job("u2")), ("w2", job("u2"), None), *RUN, ENDED, ("w1", job("u1"), None)),
        [],
        [],
    ),
    "a Job that runs in two workers": (
        (WANTED, *RUN, ("w2", job("u2")), ("w2", pod("p2", "u2")), ENDED, *((w, job(w), None) for w in ("w1", "w2"))),
        ["Job team/a runs again: w1, then w2"],
        [],
    ),
    "a Job that is created and runs again in its worker": (
        (WANTED, *RUN, ("w1", job("u2")), ("w1", pod("p2", "u2")), ENDED, ("w1", job("u2"), None)),
        ["Job team/a runs again: w1, then w1"],
        [],
    ),
    "more pods than it asks for": (
        (WANTED, *RUN, ("w1", pod("p2", "u1")), ENDED, ("w1", job("u1"), None)),
        ["Job team/a has 2 pods in w1, and asks for 1"],
        [],
    ),
    "as many pods as it asks for": (
        (WANTED, ("w1", job("u1", pods=2)), *RUN[1:], ("w1", pod("p2", "u1")), ENDED, ("w1", job("u1"), None)),
        [],
        [],
    ),
    "a Job that ended before": ((ENDED,), [], []),
    "a pod in the manager": (
        (WANTED, *RUN, ENDED, (MANAGER, pod("p", "m"))),
        ["pod team/p runs in the manager"],
        ["Job team/a is left in w1"],
    ),
    "a Job that never ran": ((WANTED, ENDED), [], ["Job team/a has run in no worker"]),
    "a Job that has not ended": (
        (WANTED, *RUN, ("w1", job("u1"), None)),
        [],
        ["Job team/a has not ended in the manager"],
    ),
    "a job and a copy that are left": (
        (WANTED, *RUN, ENDED, ("w2", workload("c"))),
        [],
        ["Job team/a is left in w1", "Workload team/c is left in w2"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_several_clusters(name: str) -> None:
    steps, broken, left = CASES[name]
    fleet = judged(*steps)
    assert fleet.broken == broken
    assert fleet.at_rest() == left
