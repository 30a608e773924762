"""In which worker cluster a workload of the manager starts, when, and why not in the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from api.names import MULTIKUEUE_CONTROLLER, Label
from api.objects import Raw
from core.jobs.kinds import BATCH_JOB
from core.model import AdmissionCheck, Key, Preemption, Workload
from core.model.policy import SchedulingPolicy
from core.model.queues import CheckRule
from core.multikueue.group import Policy
from core.simulation.fleet import FleetTimeline, Origin, PlayedCluster, simulate_fleet
from core.simulation.simulation import Arrival, simulate
from core.state.state import State
from core.wire import decode
from core.wire.decode import WorkloadContext
from core.wire.timestamps import stamp
from tests.builders import cluster_queue, state
from tests.effort import cases

INCREMENTAL = Policy(dispatcher="kueue.x-k8s.io/multikueue-dispatcher-incremental", step_size=1)
ONE_BY_ONE = Policy(orchestrated=True)
LOWER = Preemption("LowerPriority")
GATES = WorkloadContext(preemption_gates=True)


def raw(name: str, cpu: int, *, priority: int = 0, copy: bool = False, at: float = 0.0) -> Raw:
    labels = {Label.MULTIKUEUE_ORIGIN: "multikueue"} if copy else {}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": stamp(at), "labels": labels}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}]}}
    spec = {"queueName": "lq", "priority": priority, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}


def read(found: Raw) -> Workload:
    return decode.workload(found, GATES)


def arrival(name: str, cpu: int, *, at: float = 0.0, run_for: float = 10.0, priority: int = 0) -> Arrival:
    return Arrival(at, read(raw(name, cpu, priority=priority, at=at)), run_for)


def queues(cpu: int, *, checks: tuple[str, ...] = (), **fields: Any) -> State:
    found = state(cluster_queue("cq", cpu, checks=tuple(map(CheckRule, checks)), **fields), policy=SchedulingPolicy())
    for check in checks:
        found.set_admission_check(check, AdmissionCheck(check, MULTIKUEUE_CONTROLLER, active=True))
    return found


def worker(cpu: int, *own: Arrival, preemption: Preemption | None = None) -> PlayedCluster:
    return PlayedCluster(queues(cpu, preemption=preemption or Preemption()), own, read=read)


def job(managed_by: str = MULTIKUEUE_CONTROLLER) -> Raw:
    return {"metadata": {"name": "j", "namespace": "ns"}, "spec": {"managedBy": managed_by}}


def play(
    jobs: list[Arrival],
    workers: dict[str, PlayedCluster],
    *,
    policy: Policy | None = None,
    manager: State | None = None,
    configured: tuple[str, ...] = (),
    of: Origin | None = None,
    until: float | None = None,
) -> FleetTimeline:
    origins = {
        each.workload.key: of
        or Origin(
            raw(each.workload.key.name, each.workload.pod_sets[0].requests["cpu"], priority=each.workload.priority),
            BATCH_JOB,
            "batch/v1, Kind=Job",
            job(),
        )
        for each in jobs
    }
    here = PlayedCluster(manager or queues(1000, checks=("mk",)), tuple(jobs), read=read)
    return simulate_fleet(here, workers, origins, {"mk": configured or tuple(workers)}, policy or Policy(), until=until)


def where(told: FleetTimeline, name: str = "a") -> list[tuple[str, float]]:
    return [(each.worker, each.at) for each in told.choices.get(Key("ns", name), [])]


def others(told: FleetTimeline, name: str = "a") -> dict[str, str]:
    return told.choices[Key("ns", name)][-1].others


def ended(told: FleetTimeline, name: str = "a") -> float | None:
    return told.manager.courses[Key("ns", name)].finished


def test_the_worker_with_room_runs_it_and_the_reason_of_the_other_one_is_given() -> None:
    told = play([arrival("a", 6)], {"w1": worker(8, arrival("own", 4, run_for=99)), "w2": worker(8)})
    assert (where(told), ended(told)) == ([("w2", 0)], 10)
    assert "insufficient unused quota for cpu in flavor default, 2m more needed" in others(told)["w1"]


def test_of_two_with_room_the_first_of_the_configuration_runs_it_and_the_next_job_runs_in_the_other() -> None:
    told = play([arrival("a", 8), arrival("b", 8)], {"w1": worker(8), "w2": worker(8)}, configured=("w2", "w1"))
    assert (where(told, "a"), where(told, "b")) == ([("w2", 0)], [("w1", 0)])
    assert others(told, "a") == {"w1": "can admit it, too: w2 is first"}
    assert [len(each.courses[Key("ns", "a")].attempts) for each in told.workers.values()] == [0, 1]


def test_a_job_waits_for_the_worker_whose_quota_is_free_first() -> None:
    busy = {"w1": worker(8, arrival("x", 8, run_for=20)), "w2": worker(8, arrival("y", 8, run_for=15))}
    told = play([arrival("a", 1)], busy)
    assert (where(told), ended(told)) == ([("w2", 15)], 25)


def test_the_incremental_dispatcher_offers_it_to_the_next_worker_after_five_minutes() -> None:
    busy = worker(8, arrival("x", 8, run_for=9999))
    told = play([arrival("a", 1)], {"w1": busy, "w2": worker(8), "w3": worker(8)}, policy=INCREMENTAL)
    assert where(told) == [("w2", 300)]
    assert others(told)["w3"] == "not offered yet"


def test_a_job_that_is_preempted_in_its_worker_starts_again_in_another_one() -> None:
    urgent = arrival("urgent", 8, at=4, run_for=100, priority=9)
    told = play([arrival("a", 8)], {"w1": worker(8, urgent, preemption=LOWER), "w2": worker(8)})
    assert (where(told), ended(told)) == ([("w1", 0), ("w2", 4)], 14)
    (attempt,) = told.workers["w1"].courses[Key("ns", "a")].attempts
    assert (attempt.ended, attempt.preemptor) == (4, Key("ns", "urgent"))


def test_a_job_that_is_preempted_in_the_manager_leaves_its_worker() -> None:
    jobs = [arrival("a", 8), arrival("urgent", 8, at=4, priority=9)]
    told = play(jobs, {"w1": worker(8)}, manager=queues(8, checks=("mk",), preemption=LOWER))
    assert (where(told), where(told, "urgent")) == ([("w1", 0), ("w1", 14)], [("w1", 4)])
    first, _ = told.workers["w1"].courses[Key("ns", "a")].attempts
    assert (first.started, first.ended, first.reason) == (0, 4, "Withdrawn")


def test_a_job_that_no_worker_can_ever_take_waits_with_the_reason_of_each() -> None:
    told = play([arrival("a", 9)], {"w1": worker(8), "w2": worker(4)})
    assert (where(told), ended(told)) == ([("", 0)], None)
    assert others(told) == {
        "w1": "asks for 9m cpu, at most 8m is allowed",
        "w2": "asks for 9m cpu, at most 4m is allowed",
    }


def test_a_worker_that_is_not_simulated_counts_as_lost() -> None:
    told = play([arrival("a", 9)], {"w1": worker(8)}, configured=("w1", "lost"))
    assert others(told)["lost"] == "not connected"


def test_a_worker_with_another_workload_of_that_name_does_not_take_it() -> None:
    told = play([arrival("a", 1)], {"w1": worker(8, arrival("a", 1, run_for=99)), "w2": worker(8)})
    assert (where(told), others(told)) == ([("w2", 0)], {"w1": "has another Workload of that name"})


@pytest.mark.parametrize(
    "origin",
    [
        Origin(raw("a", 1), None, "example.com/v1, Kind=Strange", job()),
        Origin(raw("a", 1), BATCH_JOB, "batch/v1, Kind=Job", job("example.com/other")),
    ],
    ids=["its kind cannot run in another cluster", "another controller runs it"],
)
def test_a_job_that_may_not_run_in_a_worker_is_rejected(origin: Origin) -> None:
    told = play([arrival("a", 1)], {"w1": worker(8)}, of=origin)
    assert (where(told), told.manager.courses[Key("ns", "a")].attempts) == ([], [])
    assert told.manager.courses[Key("ns", "a")].waits[-1][1:] == ("Deactivated", "The workload is deactivated")


def test_a_job_that_already_runs_in_a_worker_goes_on_there() -> None:
    first = play([arrival("a", 8)], {"w1": worker(8)}, until=4)
    assert first.manager.courses[Key("ns", "a")].finished is None
    copy = raw("a", 8, copy=True)
    running = replace(worker(8, _admitted("a", 8, run_for=7)), copies={Key("ns", "a"): copy})
    mine = _admitted("a", 8, run_for=99, cluster="w1")
    told = play([mine, arrival("b", 8)], {"w1": running})
    assert (where(told), ended(told), where(told, "b")) == ([("w1", 0)], 7, [("w1", 7)])


def _admitted(name: str, cpu: int, *, run_for: float, cluster: str = "") -> Arrival:
    """A Workload that holds quota, and in the manager runs in a cluster."""
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": stamp(0.0)}
        for kind in ("QuotaReserved", "Admitted")
    ]
    usage = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": f"{cpu}m"}, "count": 1}
    status: Raw = {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": [usage]}}
    if cluster:
        check = {"name": "mk", "state": "Ready", "message": "", "lastTransitionTime": stamp(0.0)}
        status |= {"clusterName": cluster, "admissionChecks": [check]}
    return Arrival(0.0, read(raw(name, cpu) | {"status": status}), run_for)


@pytest.mark.parametrize(("policy", "stopped"), [(None, 2), (ONE_BY_ONE, 1)], ids=["at once", "one by one"])
def test_with_preemption_gates_only_one_worker_preempts_for_a_job(policy: Policy | None, stopped: int) -> None:
    busy = {
        name: worker(8, arrival(f"low-{name}", 8, run_for=50, priority=-1), preemption=LOWER) for name in ("w1", "w2")
    }
    told = play([arrival("a", 8, at=1)], busy, policy=policy)
    assert where(told) == [("w1", 1)]
    low = [each.courses[Key("ns", f"low-{name}")] for name, each in told.workers.items()]
    assert sum(len(course.attempts) > 1 for course in low) == stopped


JOBS = some.lists(
    some.builds(
        lambda at, cpu, run_for, priority: (float(at), cpu, float(run_for), priority),
        some.integers(0, 20),
        some.integers(1, 9),
        some.integers(1, 20),
        some.integers(0, 2),
    ),
    max_size=8,
)


def arrivals(jobs: list[tuple[float, int, float, int]]) -> list[Arrival]:
    return [
        arrival(f"j{number}", cpu, at=at, run_for=run_for, priority=priority)
        for number, (at, cpu, run_for, priority) in enumerate(jobs)
    ]


@given(JOBS, some.sampled_from([Preemption(), LOWER]))
@settings(max_examples=cases(60, 1500))
def test_with_one_worker_each_job_starts_when_it_would_start_without_a_manager(
    jobs: list[tuple[float, int, float, int]], preemption: Preemption
) -> None:
    alone = simulate(queues(8, preemption=preemption), arrivals(jobs))
    told = play(
        arrivals(jobs),
        {"w1": worker(8, preemption=preemption)},
        manager=queues(8, checks=("mk",), preemption=preemption),
    )

    def starts(timeline: Any) -> dict[Key, Any]:
        return {key: ([each.started for each in c.attempts], c.finished) for key, c in timeline.courses.items()}

    assert starts(told.manager) == starts(alone)


@given(
    JOBS,
    JOBS,
    some.lists(some.integers(1, 9), min_size=1, max_size=3),
    some.sampled_from([Policy(), INCREMENTAL, ONE_BY_ONE]),
)
@settings(max_examples=cases(80, 2000))
def test_each_job_runs_in_one_worker_at_a_time_and_ends_once(
    jobs: list[tuple[float, int, float, int]],
    own: list[tuple[float, int, float, int]],
    sizes: list[int],
    policy: Policy,
) -> None:
    mine = [arrival(f"own{n}", cpu, at=at, run_for=run, priority=p) for n, (at, cpu, run, p) in enumerate(own)]
    workers = {f"w{n}": worker(cpu, *(mine if not n else ()), preemption=LOWER) for n, cpu in enumerate(sizes)}
    fitting = [(at, min(cpu, max(sizes)), run_for, priority) for at, cpu, run_for, priority in jobs]
    told = play(arrivals(fitting), workers, policy=policy, manager=queues(12, checks=("mk",), preemption=LOWER))
    for each in (*told.workers.values(), told.manager):
        for level in each.levels:
            assert sum(level.used.values()) <= (12 if each is told.manager else max(sizes))
    for key, course in told.manager.courses.items():
        runs = sorted(
            (attempt.started, attempt.ended or 0.0)
            for timeline in told.workers.values()
            if key in timeline.courses
            for attempt in timeline.courses[key].attempts
        )
        assert [(each.started, each.ended) for each in course.attempts] == runs
        assert course.finished is not None
        assert all(before[1] <= after[0] for before, after in pairwise(runs))
    for name, cluster in workers.items():
        cluster.state.check()
        assert not [key for key in cluster.state.workloads if key in told.manager.courses], f"a copy is left in {name}"
