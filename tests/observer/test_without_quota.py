"""The observer finds pods that run without quota, by their Workload, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from observer.decode import Job, Pod, Workload
from observer.without_quota import WithoutQuota

PATIENCE = 1.0


def workload(*, pods: int = 2, name: str = "w", holds: bool = True, **more: Any) -> Workload:
    fields = {"job": "job", "owner": "Job", "queue": "q", "usage": {}, "evicted": False, "finished": False, **more}
    return Workload(f"team/{name}", f"uid-{name}", **fields, reserved=holds, admitted=holds, pods=pods)


def pod(name: str, **more: Any) -> Pod:
    return Pod(f"team/{name}", f"uid-{name}", "", {}, **{"owner": "job", "runs": True, **more})


def job(**more: Any) -> Job:
    return Job(**{"name": "team/j", "uid": "job", "queued": True, "runs": True, "ended": False, **more})


class Watched(WithoutQuota):
    """Takes states; each is read at a time."""

    def __init__(self) -> None:
        super().__init__(PATIENCE)
        self.known: dict[str, Any] = {}

    def see(self, *states: Pod | Workload | Job, at: float = 0.0) -> list[str]:
        for state in states:
            before = self.known.get(state.name)
            self.known[state.name] = state
            match state:
                case Pod():
                    self.see_pod(before, state, at)
                case Workload():
                    self.see_workload(before, state, at)
                case Job():
                    self.see_job(state)
        return list(self.broken(at))

    def at(self, seconds: float) -> list[str]:
        return list(self.broken(seconds))


@pytest.mark.parametrize(
    "states",
    [
        [job(), workload(), pod("a"), pod("b")],
        [job(), workload(pods=1), pod("a", runs=False), pod("b")],
        [job(uid="kid", owner="job"), workload(), pod("a", owner="kid")],
        [workload(pods=1, holds=False), workload(name="larger"), pod("a"), pod("b")],
        [workload(job="", group=True, name="g"), pod("a", owner="", group="team/g")],
        [pod("a")],
        [job(queued=False), pod("a")],
    ],
    ids=[
        "as many as are admitted",
        "one that has ended or terminates does not count",
        "of a child",
        "of an elastic job whose slice was replaced",
        "of a group",
        "nothing is known of its job",
        "its job is not queued",
    ],
)
def test_no_pod_runs_without_quota(states: list[Pod | Workload | Job]) -> None:
    watched = Watched()
    watched.see(*states)
    assert watched.at(1000.0) == []
    assert watched.longest == 0.0


@pytest.mark.parametrize(
    ("states", "admitted"),
    [
        ([job(), workload(pods=1), pod("a"), pod("b")], 1),
        ([job(), workload(holds=False), pod("a")], 0),
        ([job(), workload(finished=True), pod("a")], 0),
        ([job(), pod("a")], 0),
        ([pod("a", owner="", managed=True)], 0),
        ([workload(pods=1), job(uid="kid", owner="job"), pod("a"), pod("b", owner="kid")], 1),
    ],
    ids=["one more", "it has none", "its job has ended", "no Workload", "a pod of its own", "scaled below the job"],
)
def test_pods_without_quota_are_reported_once_after_the_patience(
    states: list[Pod | Workload | Job], admitted: int
) -> None:
    watched = Watched()
    assert watched.see(*states) == []
    assert watched.at(PATIENCE) == []
    (sentence,) = watched.at(PATIENCE + 0.5)
    assert sentence.startswith(f"for 1.5 s more pods run than the {admitted} that are admitted: team/a")
    assert watched.at(PATIENCE + 1) == []


def test_a_moment_without_quota_is_no_fault_and_is_measured() -> None:
    watched = Watched()
    watched.see(job(), workload(), pod("a"))
    watched.see(workload(holds=False), at=10.0)
    watched.see(pod("a", runs=False), at=10.5)
    assert (watched.at(20.0), watched.longest) == ([], 0.5)
