"""A Workload, its manager and two workers in any order of events: views are late, workers are lost and come back, the
manager forgets everything between any two writes. The job never has two live copies, and in the end it has run.

The rules read nothing but objects, so each order of steps is also a list of crash points.
"""

from __future__ import annotations

import copy as copies
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from api.names import CheckState, Condition
from api.objects import Raw
from core.actions import Create, Patch, Wait, Writes
from core.jobs.kinds import BATCH_JOB
from core.model import Admission, PodSetAssignment, Workload
from core.multikueue import here, there
from core.multikueue.group import Group, Policy, Worker
from core.wire import decode
from core.wire.active import condition_of
from core.wire.conditions import status_patch
from core.wire.decode import WorkloadContext
from core.wire.merge import merged
from core.wire.timestamps import stamp
from core.workload import transitions
from tests.core.multikueue.groups import NOW, job, manifests, withdrawn, workload

POLICY = Policy()
COMPLETE: Raw = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
ADMISSION = Admission("cq", (PodSetAssignment("main", {}, {}, 1),))


@dataclass
class Remote:
    """A worker: what it has, and what the manager sees of that."""

    name: str
    has: dict[str, Raw] = field(default_factory=dict)
    seen: dict[str, Raw] = field(default_factory=dict)
    lost_since: float | None = None

    def look(self) -> None:
        if self.lost_since is None:
            self.seen = copies.deepcopy(self.has)

    def worker(self) -> Worker:
        if self.lost_since is not None:
            return Worker(self.name, connected=False, lost_since=self.lost_since)
        jobs = (self.seen["job"],) if "job" in self.seen else ()
        return Worker(self.name, workload=self.seen.get("workload"), jobs=jobs)

    def true(self, kind: str) -> bool:
        found = condition_of(self.has.get("workload"), kind)
        return found is not None and found["status"] == "True"

    def set(self, now: float, **found: str) -> None:
        status = self.has["workload"]["status"] = dict(self.has["workload"].get("status") or {})
        others = [each for each in status.get("conditions") or () if each["type"] not in found]
        new = [
            {"type": kind, "status": text, "reason": "Succeeded", "message": "", "lastTransitionTime": stamp(now)}
            for kind, text in found.items()
        ]
        status["conditions"] = [*others, *new]
        self.changed("workload")

    def changed(self, what: str) -> None:
        metadata = self.has[what]["metadata"]
        self.has[what]["metadata"] = {**metadata, "resourceVersion": str(int(metadata["resourceVersion"]) + 1)}


class Clusters:
    """All of it; each method is one step that the outside may make at any time."""

    def __init__(self) -> None:
        self.now = NOW
        self.raw = workload()
        self.job = job()
        self.remotes = [Remote("w1"), Remote("w2")]
        self.uids = 0

    @property
    def local(self) -> Workload:
        return decode.workload(self.raw, WorkloadContext())

    def group(self) -> Group:
        local = self.local
        return Group(
            now=self.now,
            local=local,
            raw=self.raw,
            check=next((each for each in local.checks if each.name == "mk"), None),
            kind=BATCH_JOB,
            job=self.job,
            workers=tuple(each.worker() for each in self.remotes),
            policy=POLICY,
        )

    def write_here(self) -> None:
        action = here.decide(self.group())
        match action:
            case Patch(after=Workload()):
                assert action.after is not None
                self.become(action.after)
            case Patch(why="copy"):
                self.job = merged(self.job, {"status": action.body["status"]})

    def become(self, after: Workload) -> None:
        patch = status_patch(self.local, after)
        if patch is not None:
            self.raw = merged(self.raw, patch)
            version = int(self.raw["metadata"]["resourceVersion"]) + 1
            self.raw = merged(self.raw, {"metadata": {"resourceVersion": str(version)}})

    def queueing(self) -> None:
        """The rest of the manager: reserves quota, admits, evicts, starts and stops the job here."""
        value = self.local
        if value.holds(Condition.FINISHED):
            return
        retried = any(each.state == CheckState.RETRY for each in value.checks)
        if not value.holds(Condition.QUOTA_RESERVED):
            self.become(transitions.reserved(value, ADMISSION, self.now, required_checks=["mk"]))
        elif retried and not value.holds(Condition.EVICTED):
            self.become(transitions.evicted(value, "AdmissionCheck", "", self.now))
        elif value.holds(Condition.EVICTED):
            self.job = merged(self.job, {"spec": {"suspend": True}})
            if not BATCH_JOB.active(self.job):
                self.become(transitions.released(value, self.now))
        else:
            self.become(transitions.admitted_in_step(value, self.now))
            if self.local.holds(Condition.ADMITTED):
                self.job = merged(self.job, {"spec": {"suspend": False}})

    def preempt(self) -> None:
        value = self.local
        if value.holds(Condition.QUOTA_RESERVED) and not value.holds(Condition.EVICTED):
            self.become(transitions.evicted(value, "Preempted", "", self.now))

    def write_there(self, remote: Remote) -> None:
        action = there.decide(self.group(), remote.worker())
        match action:
            case Create() if "workload" not in remote.has:
                remote.has["workload"] = self.created(action.manifest)
            case Writes(why="begin") if "job" not in remote.has:
                (made,) = manifests(action)
                remote.has["job"] = self.created(made)
                self.check_one_copy()
            case Patch(target=None) if self.current(remote, action.body["metadata"]):
                remote.has["workload"] = merged(remote.has["workload"], action.body)
                remote.changed("workload")
            case Writes(why="withdraw"):
                jobs, workload = withdrawn(action)
                for what, gone in (("job", next(iter(jobs), "")), ("workload", workload)):
                    now = remote.has.get(what)
                    if now is not None and now["metadata"]["uid"] == gone:
                        del remote.has[what]
        if not isinstance(action, Wait):
            remote.look()  # the answer of a write enters the store

    def created(self, manifest: Raw) -> Raw:
        self.uids += 1
        return merged(manifest, {"metadata": {"uid": f"u{self.uids}", "resourceVersion": "1"}})

    def current(self, remote: Remote, guard: Raw) -> bool:
        found = remote.has.get("workload")
        return found is not None and all(found["metadata"].get(key) == value for key, value in guard.items())

    def live(self, remote: Remote) -> None:
        """The worker admits the copy, starts its job, and stops both when the copy is deactivated."""
        if "workload" not in remote.has:
            return
        if remote.true(Condition.DEACTIVATION_TARGET) and not remote.true(Condition.EVICTED):
            self.evict(remote)
        elif not remote.true(Condition.ADMITTED) and not remote.true(Condition.FINISHED):
            if remote.has["workload"]["spec"]["active"]:
                remote.set(self.now, QuotaReserved="True", Admitted="True", Evicted="False")
        elif remote.true(Condition.ADMITTED) and "job" in remote.has and not remote.true(Condition.FINISHED):
            remote.has["job"] = merged(remote.has["job"], {"spec": {"suspend": False}, "status": {"active": 1}})
            remote.changed("job")

    def evict(self, remote: Remote) -> None:
        if "workload" in remote.has and not remote.true(Condition.FINISHED):
            if remote.true(Condition.DEACTIVATION_TARGET):
                remote.has["workload"] = merged(remote.has["workload"], {"spec": {"active": False}})
            remote.set(self.now, Evicted="True", Admitted="False", QuotaReserved="False")
            if "job" in remote.has:
                stopped = {"spec": {"suspend": True}, "status": {"active": 0}}
                remote.has["job"] = merged(remote.has["job"], stopped)
                remote.changed("job")

    def end(self, remote: Remote) -> None:
        if "workload" in remote.has and BATCH_JOB.active(remote.has.get("job", {})):
            remote.has["job"] = merged(remote.has["job"], {"status": {**COMPLETE, "active": None}})
            remote.changed("job")
            remote.set(self.now, Finished="True")

    def lose(self, remote: Remote) -> None:
        remote.lost_since = self.now if remote.lost_since is None else remote.lost_since

    def come_back(self, remote: Remote) -> None:
        remote.lost_since = None
        remote.look()

    def check_one_copy(self) -> None:
        """A job may have another copy only in a worker that was lost for longer than ``workerLostTimeout``."""
        left = [each for each in self.remotes if "job" in each.has]
        given_up = [each for each in left if self.given_up(each)]
        assert len(left) - len(given_up) <= 1, [each.name for each in left]

    def given_up(self, remote: Remote) -> bool:
        return remote.lost_since is not None and self.now - remote.lost_since >= POLICY.worker_lost_timeout

    def step(self, number: int) -> None:
        remote = self.remotes[number % 2]
        self.now += 1.0
        match number // 2:
            case 0:
                self.lose(remote)
            case 1:
                self.come_back(remote)
            case 2:
                self.now += POLICY.worker_lost_timeout / 2
            case 3:
                self.evict(remote)
            case 4:
                self.preempt() if number % 2 else self.end(remote)
            case 5 | 6:
                self.live(remote)
            case 7 | 8:
                remote.look()
            case 9 | 10:
                self.queueing()
            case 11 | 12 | 13:
                self.write_there(remote)
            case _:
                self.write_here()

    def settle(self) -> None:
        """Everything is reachable, and the job may run to its end."""
        for _ in range(60):
            self.now += 1.0
            for remote in self.remotes:
                self.come_back(remote)
                self.live(remote)
                self.end(remote)
                remote.look()
                self.write_there(remote)
            self.queueing()
            self.write_here()


@given(st.lists(st.integers(0, 31), min_size=30, max_size=120))
def test_in_any_order_the_job_has_one_copy_and_runs_to_its_end(steps: list[int]) -> None:
    clusters = Clusters()
    for number in steps:
        clusters.step(number)
    clusters.settle()
    assert clusters.local.holds(Condition.FINISHED)
    assert BATCH_JOB.finished(clusters.job) is not None
    assert [each.has for each in clusters.remotes] == [{}, {}]


@given(st.lists(st.integers(6, 31), min_size=30, max_size=120))
def test_while_no_worker_is_given_up_no_copy_begins_beside_another(steps: list[int]) -> None:
    clusters = Clusters()
    for number in steps:
        clusters.step(number)
        clusters.check_one_copy()
