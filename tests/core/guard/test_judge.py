"""What runs of a job, compared with what its Workloads grant."""

from __future__ import annotations

from typing import Any

import pytest

from core.guard.grants import NOTHING, STOPS_SECONDS, Grant, granted, job_ended, reserved
from core.guard.judge import Charged, Excess, GuardVerdict, excess, judge, shapes_of
from core.guard.overlap import AGAIN_SECONDS, OverlapBudget
from core.guard.pods import Accounting, Lean, RunningPod
from core.model import Admission, Condition, Key, PodSet, PodSetAssignment, Raw, Workload
from core.model.workload import replace
from core.wire.pod_requests import RequestRules

NOW = 1000.0
LEAN = Lean(RequestRules())


def pod(
    name: str,
    cpu: str = "1",
    *,
    deleted: str = "",
    grace: int = 30,
    containers: tuple[str, ...] = ("main",),
    metadata: Raw | None = None,
    **more: Any,
) -> RunningPod:
    """A pod that runs; ``deleted`` is its deletion timestamp, when its grace period ends."""
    each = [{"name": name, "resources": {"requests": {"cpu": cpu}}} for name in containers]
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7", **(metadata or {})}
    if deleted:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace}
    return LEAN({"metadata": metadata, "spec": {"containers": each, **more}})


def workload(name: str = "w", *, count: int = 3, cpu: int = 1000, evicted: float = 0.0, **fields: Any) -> Workload:
    """An admitted Workload of so many pods."""
    conditions = [Condition("QuotaReserved", True), Condition("Admitted", True)]
    if evicted:
        conditions.append(Condition("Evicted", True, since=evicted))
    if fields.pop("finished", False):
        conditions.append(Condition("Finished", True))
    assigned = PodSetAssignment("main", {"cpu": "default"}, {"cpu": cpu * count}, count)
    fields.setdefault("pod_sets", (PodSet("main", count, {"cpu": cpu}),))
    fields.setdefault("admission", Admission("cq", (assigned,)))
    return replace(Workload(Key("ns", name), name, 0.0, "lq", 0, (), tuple(conditions)), **fields)


def verdict(
    *charged: Charged, of: tuple[Workload, ...] = (), spent: float = 0.0, has: Grant | None = None, **options: Any
) -> GuardVerdict | None:
    """A job may overlap for 60 s; it has for ``spent``."""
    budget = OverlapBudget(reserved(of), spent, 60.0)
    return judge(charged, has or granted(of, NOW), of, NOW, budget=budget, terminating_seconds=300.0, **options)


def own(*pods: RunningPod) -> list[Charged]:
    return [Charged(each) for each in pods]


@pytest.mark.parametrize(
    ("found", "grant"),
    [
        ([workload()], Grant(3, {"cpu": 3000})),
        ([workload(reclaimable={"main": 1})], Grant(2, {"cpu": 2000})),
        ([workload(pod_sets=(PodSet("main", 5, {"cpu": 1000}),))], Grant(3, {"cpu": 3000})),
        ([workload(pod_sets=(PodSet("main", 2, {"cpu": 1000}),))], Grant(2, {"cpu": 2000})),
        ([workload(), workload("replacement", count=5)], Grant(5, {"cpu": 5000})),
        ([workload(admission=None)], NOTHING),
        ([workload(finished=True)], NOTHING),
        ([workload(evicted=NOW - STOPS_SECONDS + 1)], Grant(3, {"cpu": 3000})),
        ([workload(evicted=NOW - STOPS_SECONDS)], NOTHING),
        ([workload(pod_sets=(PodSet("main", 3, {"cpu": 1200}),))], Grant(3, {"cpu": 3600})),
        ([], NOTHING),
    ],
    ids=[
        "an admission",
        "without pods that were reclaimed",
        "a part was admitted",
        "an elastic job became smaller",
        "of two slices the larger one",
        "no quota",
        "finished",
        "evicted a moment ago",
        "evicted, and its job does not stop",
        "the LimitRange gives new pods more than those that were admitted",
        "no Workload",
    ],
)
def test_what_is_granted(found: list[Workload], grant: Grant) -> None:
    assert granted(found, NOW) == grant


def test_as_many_pods_as_admitted_are_left_alone() -> None:
    assert verdict(*own(pod("a"), pod("b"), pod("c")), of=(workload(),)) is None


def test_fewer_and_larger_pods_within_the_quota_are_left_alone() -> None:
    assert verdict(*own(pod("a", "2"), pod("b", "1")), of=(workload(),)) is None


def test_one_pod_more_evicts_the_workload() -> None:
    found = verdict(*own(pod("a"), pod("b")), of=(workload(count=1),))
    text = "Pods run without quota: 2 pods run, 1 admitted; the pods request 2 cpu, 1 admitted"
    assert found == GuardVerdict(text, evict=(Key("ns", "w"),))


def test_as_many_pods_that_request_more_evict_the_workload() -> None:
    found = verdict(*own(pod("a", "8")), of=(workload(count=1, cpu=10),))
    assert found is not None and found.evict == (Key("ns", "w"),)
    assert found.sentence == "Pods run without quota: the pods request 8 cpu, 10m admitted"


def test_a_resource_that_was_not_admitted_evicts_the_workload() -> None:
    init = [{"name": "first", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    found = excess(shapes_of([pod("a", initContainers=init)]), Grant(1, {"cpu": 1000}))
    assert found == (Excess("nvidia.com/gpu", 1, 0),)


@pytest.mark.parametrize(("limited", "found"), [({"cpu"}, ()), ({"cpu", "memory"}, (Excess("memory", 2**30, 0),))])
def test_a_resource_of_which_there_is_no_quota_is_no_excess(limited: set[str], found: tuple[Excess, ...]) -> None:
    """Others add requests of it to pods; no ClusterQueue covers it."""
    init = [{"name": "main", "resources": {"requests": {"memory": "1Gi"}}}]
    shapes = shapes_of([pod("a", initContainers=init)])
    assert excess(shapes, Grant(1, {"cpu": 1000}), accounting=Accounting(limited=frozenset(limited))) == found


def test_a_pod_that_terminates_has_given_its_place_to_another() -> None:
    leaving = pod("a", deleted="1970-01-01T00:16:50Z")  # a grace period of 30 s, requested 20 s ago
    assert verdict(*own(leaving, pod("b")), of=(workload(count=1),)) is None


def test_a_pod_that_terminates_for_too_long_is_ended() -> None:
    leaving = pod("a", deleted="1970-01-01T00:11:40Z")
    found = verdict(*own(leaving, pod("b")), of=(workload(count=1),))
    assert found is not None and (found.evict, found.delete, found.end) == ((), (), (leaving,))


def test_a_pod_that_only_a_label_counts_is_deleted_alone() -> None:
    stray = pod("stray")
    found = verdict(*own(pod("a")), Charged(stray, stray=True), of=(workload(count=1),))
    assert found is not None and (found.evict, found.delete) == ((), (stray,))


def test_what_another_controller_creates_for_the_job_stops_it() -> None:
    """That of a DaemonSet in an AppWrapper: deleted alone, its pods would come back without end."""
    above = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "uid-d", "controller": True}
    pods = [pod(each, metadata={"ownerReferences": [above]}) for each in "ab"]
    charged = [Charged(each, stray=True) for each in pods]
    found = verdict(*charged, of=(workload(count=1),))
    assert found is not None and (found.evict, found.delete) == ((Key("ns", "w"),), tuple(pods))
    assert verdict(*charged, of=(workload(count=2),)) is None


def test_what_a_pod_of_the_job_created_is_deleted_at_once() -> None:
    """The controller of the job, which is stopped, does not know it."""
    above = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": True}
    kid = pod("kid", metadata={"ownerReferences": [above]})
    for of in (workload(count=1), workload(count=1, evicted=NOW - 1)):
        found = verdict(*own(pod("a"), kid), of=(of,))
        assert found is not None and found.delete == (kid,)
    assert verdict(*own(pod("a"), kid), of=(workload(count=2),)) is None


def test_a_stray_and_a_job_that_grew_are_both_stopped() -> None:
    stray = pod("stray")
    found = verdict(*own(pod("a"), pod("b")), Charged(stray, stray=True), of=(workload(count=1),))
    assert found is not None and (found.evict, found.delete) == ((Key("ns", "w"),), (stray,))


@pytest.mark.parametrize("of", [(), (workload(finished=True),), (workload(evicted=1.0),)])
def test_pods_of_a_job_without_quota_are_deleted(of: tuple[Workload, ...]) -> None:
    """Also those of an evicted one that does not stop."""
    each = pod("a")
    found = verdict(Charged(each), of=of)
    assert found is not None and (found.evict, found.delete) == ((), (each,))


def test_a_job_that_is_being_stopped_has_its_time() -> None:
    assert verdict(*own(pod("a"), pod("b")), of=(workload(count=1, evicted=NOW - 1),)) is None


def test_containers_that_others_add_may_request_a_little_more() -> None:
    meshed = own(pod("a", "300m", containers=("main", "proxy")))
    options: Any = {"accounting": Accounting({"cpu": 500}, frozenset({"main"}))}
    assert verdict(*meshed, of=(workload(count=1, cpu=300),), **options) is None
    assert verdict(*meshed, of=(workload(count=1, cpu=50),), **options) is not None
    assert verdict(*own(pod("a", "600m")), of=(workload(count=1, cpu=300),), **options) is not None


def leaving(name: str, seconds: int = 20, *, grace: int = 3600) -> RunningPod:
    """A pod that was deleted so many seconds ago, with an hour to go."""
    ends = int(NOW) - seconds + grace
    return pod(name, deleted=f"1970-01-01T{ends // 3600:02}:{ends // 60 % 60:02}:{ends % 60:02}Z", grace=grace)


RUNNING = [pod("a"), pod("b")]


@pytest.mark.parametrize(
    ("pods", "spent", "ended"),
    [
        ([*RUNNING, leaving("x"), leaving("y")], 59.0, []),
        ([*RUNNING, leaving("x", 20), leaving("y", 21), leaving("z", 22)], 0.0, ["z"]),
        ([*RUNNING, leaving("x", 20), leaving("y", 21)], 60.0, ["y", "x"]),
        ([RUNNING[0], leaving("x", 20), leaving("y", 21)], 60.0, ["y"]),
        ([leaving("x"), leaving("y")], 999.0, []),
        ([*RUNNING, leaving("x", 1, grace=2), leaving("y"), leaving("z")], 0.0, ["x"]),
        ([*RUNNING, leaving("x", 90, grace=90)], 60.0, []),
    ],
    ids=[
        "as many again as were admitted, for a time",
        "of more than that, those that were deleted first",
        "all that others replace, when the time is used up",
        "a place that nobody took may terminate in peace",
        "none where nobody took their places",
        "those that end at once before others",
        "none whose grace period has ended",
    ],
)
def test_pods_that_terminate_beside_others_are_ended(pods: list[RunningPod], spent: float, ended: list[str]) -> None:
    found = verdict(*own(*pods), of=(workload(count=2),), spent=spent)
    assert [each.name for each in (found.end if found else ())] == ended
    assert found is None or (found.evict, found.delete) == ((), ())


def test_a_job_whose_pods_are_deleted_again_and_again_is_stopped() -> None:
    pods = own(*RUNNING, leaving("x"))
    found = verdict(*pods, of=(workload(count=2),), spent=60.0 + AGAIN_SECONDS)
    assert found is not None and (found.evict, [each.name for each in found.end]) == ((Key("ns", "w"),), ["x"])
    assert found.sentence == (
        "Pods run without quota: 3 pods run, 2 admitted; the pods request 3 cpu, 2 admitted; 1 of the pods terminates,"
        " again and again: pods that replace them start before these have terminated (a Job with podReplacementPolicy:"
        " Failed waits for that)"
    )


def test_pods_of_an_evicted_job_terminate_with_the_quota_that_it_holds() -> None:
    assert verdict(*own(leaving("x"), leaving("y")), of=(workload(count=2, evicted=1.0),), spent=999.0) is None


def test_a_pod_that_nobody_controls_has_no_time_after_its_job() -> None:
    """Its controller will not delete it, as it does with the others."""
    stray, others = pod("stray"), own(pod("a"))
    ended = (workload(finished=True),)
    found = verdict(*others, Charged(stray, stray=True), of=ended, has=Grant(2, {"cpu": 2000}), current=NOTHING)
    assert found is not None and (found.evict, found.delete) == ((), (stray,))
    assert verdict(*others, of=ended, has=Grant(2, {"cpu": 2000}), current=NOTHING) is None


RELEASED = replace(
    workload(), admission=None, conditions=(Condition("QuotaReserved", False), Condition("Evicted", True, since=NOW))
)


def finished(reason: str) -> Workload:
    return replace(workload(), conditions=(Condition("QuotaReserved", True), Condition("Finished", True, reason)))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ((finished("Succeeded"),), True),
        ((finished("Failed"),), True),
        ((finished("WorkloadSliceReplaced"), finished("Succeeded")), True),
        ((finished("WorkloadSliceReplaced"), RELEASED), False),
        ((finished("OutOfSync"),), False),
        ((finished("FailedToStart"),), False),
        ((workload(),), False),
        ((workload(evicted=NOW),), False),
        ((RELEASED,), False),
        ((replace(workload(), reclaimable={"main": 3}),), False),
        ((), False),
    ],
    ids=[
        *("succeeded", "failed", "after another slice", "its new slice waits", "out of sync", "failed to start"),
        *("admitted", "evicted", "released", "all pods reclaimed", "no Workload"),
    ],
)
def test_a_job_has_ended_when_no_workload_of_it_may_run(of: tuple[Workload, ...], said: bool) -> None:
    assert job_ended(of) is said
