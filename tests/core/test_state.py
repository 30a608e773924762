"""How State handles changes: where workloads wait, which are heads, and what requeues them."""

import itertools
from collections.abc import Generator

import pytest

from core.model import (
    Admission,
    Cohort,
    Condition,
    FlavorResource,
    Key,
    LocalQueue,
    Plan,
    PodSet,
    PodSetAssignment,
    QueueingStrategy,
    Quota,
    Requeue,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    StayPending,
    StopPolicy,
    Tried,
    Workload,
)
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.scheduling.snapshot import Head
from core.state.drain import IDLE_CYCLES, drain
from core.state.state import State
from core.state.wake_ups import fits
from core.workload import transitions
from tests.builders import CPU, DEFAULT, SPOT, TWO, cluster_queue, put, reserved, state, workload


def names(found: State, now: float = 0.0) -> list[str]:
    return [head.workload.key.name for head in found.heads(now)]


def turn_away(found: State, now: float = 0.0) -> None:
    """Plan that nothing fits."""
    waits = [
        StayPending(h.workload, h.cluster_queue, "WaitingForQuota", "", Requeue.PARKED, alike=True)
        for h in found.heads(now)
    ]
    found.apply(Plan(tuple(waits)))


def settle(found: State, now: float = 0.0) -> None:
    """Applies plans in which nothing fits, until there is no head."""
    for _ in range(10):
        if not found.heads(now):
            return
        turn_away(found, now)
    raise AssertionError("somebody is looked at for ever")


def test_the_head_is_of_highest_priority_then_oldest_then_first_by_uid() -> None:
    found = state(cluster_queue("a", 5))
    for name, priority, created in (("old", 0, 1.0), ("high", 9, 5.0), ("older", 0, 1.0), ("b", 9, 5.0)):
        found.set_workload(Key("ns", name), workload(name, 1, priority=priority, created=created))
    order = []
    while heads := found.heads(0.0):
        order.append(heads[0].workload.key.name)
        found.set_workload(heads[0].workload.key, None)
    assert order == ["b", "high", "old", "older"]


def test_workloads_alike_are_parked_together_and_woken_when_quota_is_released() -> None:
    found = state(cluster_queue("a", 5, cohort="all"), cluster_queue("b", 5, cohort="all"))
    found.set_workload(Key("ns", "run"), reserved("run", 5, "b"))
    for name in ("one", "two"):
        found.set_workload(Key("ns", name), workload(name, 7))
    found.set_workload(Key("ns", "small"), workload("small", 6, created=3.0))
    turn_away(found)
    assert names(found) == ["small"]
    assert found.pending.queues["a"].active == 1
    found.set_workload(Key("ns", "run"), None)
    assert names(found) == ["one"]
    assert found.pending.queues["a"].active == 3
    found.check()


def full(*heads: Workload, strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO) -> State:
    """Both queues of a cohort are in full use, `high` of queue `a` is parked, and these arrive after it in `b`."""
    found = state(cluster_queue("a", 5, cohort="all"), cluster_queue("b", 5, cohort="all", strategy=strategy))
    for name in "ab":
        found.set_workload(Key("ns", f"run-{name}"), reserved(f"run-{name}", 5, name))
    found.set_workload(Key("ns", "high"), workload("high", 5, priority=9))
    turn_away(found)
    for head in heads:
        found.set_workload(head.key, head)
    return found


def test_released_quota_is_offered_to_a_parked_workload_together_with_what_has_just_arrived() -> None:
    """Otherwise the arrivals would borrow the quota of queue `a`, and be preempted for `high` immediately after."""
    found = full(workload("same-queue", 1), workload("borrows", 1, queue="b", priority=9))
    assert names(found) == ["same-queue", "borrows"]
    found.set_workload(Key("ns", "run-a"), None)
    plan = next(iter(drain(found, found.policy, 0.0)))
    assert {decision.workload.key.name: type(decision) for decision in plan.decisions} == {
        "high": Reserve,
        "borrows": StayPending,
    }


def test_released_quota_is_offered_to_the_head_of_a_strict_queue_before_parked_workloads() -> None:
    found = full(workload("first", 1, queue="b"), strategy=QueueingStrategy.STRICT_FIFO)
    found.set_workload(Key("ns", "run-a"), None)
    assert names(found) == ["first"]
    found.set_workload(Key("ns", "first"), None)
    assert names(found) == ["high"]


@pytest.mark.parametrize("vain", range(8))
def test_a_parked_workload_that_fits_is_in_the_next_cycle_however_often_its_tree_was_woken_in_vain(vain: int) -> None:
    found = state(cluster_queue("a", 10))
    found.set_workload(Key("ns", "run"), reserved("run", 9, "a"))
    found.set_workload(Key("ns", "high"), workload("high", 8, priority=9))
    turn_away(found)
    for number in range(vain):
        low = workload(f"low-{number}", 2, priority=-number)
        found.set_workload(low.key, low)
        found.set_workload(Key("ns", "little"), reserved("little", 1, "a"))
        found.set_workload(Key("ns", "little"), None)
        turn_away(found)
    low = workload("newest", 2)
    found.set_workload(low.key, low)
    found.set_workload(Key("ns", "run"), None)
    assert names(found) == ["high"]
    found.check()


TWICE = tuple(PodSet(name, 1, {CPU: 4}) for name in ("leader", "worker"))
FITTING = {
    "one pod set": workload("high", 4),
    "each pod set in another flavor": workload("high", 0, pod_sets=TWICE),
    "with fewer pods": workload("high", 0, pod_sets=(PodSet("main", 12, {CPU: 1}, 4),)),
    "with a resource that is ignored": workload("high", 0, pod_sets=(PodSet("main", 1, {CPU: 4, "gpu": 1}),)),
    "in place of a slice": workload("high", 7, replaces=Key("ns", "old")),
}


@pytest.mark.parametrize("high", FITTING.values(), ids=FITTING)
def test_a_parked_workload_that_fits_in_any_way_comes_before_one_of_lower_priority(high: Workload) -> None:
    quotas = {DEFAULT: Quota(7), SPOT: Quota(4)}
    found = state(cluster_queue("a", groups=TWO, quotas=quotas), policy=SchedulingPolicy(ignore_undeclared=True))
    found.set_flavor("spot", ResourceFlavor("spot"))
    in_spot = Admission("a", (PodSetAssignment("main", {CPU: "spot"}, {CPU: 4}, 1),))
    running = reserved("run", 4, "a"), replace(reserved("other", 4, "a"), admission=in_spot)
    put(found, reserved("old", 2, "a"), *running, replace(high, priority=9))
    turn_away(found)
    put(found, reserved("little", 1, "a"), workload("low", 2))
    found.set_workload(Key("ns", "little"), None)
    assert names(found) == ["high"], "the first time, all that are parked are woken"
    turn_away(found)
    put(found, workload("newest", 3))
    for held in running:
        found.set_workload(held.key, None)
    plan = next(iter(drain(found, found.policy, 0.0)))
    assert {decision.workload.key.name: type(decision) for decision in plan.decisions} == {"high": Reserve}


@pytest.mark.parametrize("nominal, spot, offered", [(4, 5, True), (9, 0, True), (4, 4, False), (5, 3, False)])
def test_pod_sets_that_do_not_fit_separately_and_together_are_not_offered_quota(
    nominal: int, spot: int, offered: bool
) -> None:
    """An offer in vain is the last one for a while."""
    found = state(cluster_queue("a", groups=TWO, quotas={DEFAULT: Quota(nominal), SPOT: Quota(spot)}))
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, workload("group", 0, pod_sets=(PodSet("leader", 1, {CPU: 5}), PodSet("worker", 1, {CPU: 4}))))
    (head,) = found.heads(0.0)
    tree = found.reservations.arenas[found.reservations.arena_of["a"]]
    assert fits(tree.queues["a"], head.demand) is offered


@pytest.mark.parametrize("seconds", [0.01, 0.1])
@pytest.mark.parametrize("cpu", [7, 5])
def test_workloads_of_low_priority_are_decided_although_quota_is_released_in_every_cycle(
    seconds: float, cpu: int
) -> None:
    """Also if those of higher priority would fit, but something else than quota keeps them from starting."""
    found = state(cluster_queue("a", 5))
    for name, priority in (("high", 9), ("middle", 5), ("low", 0)):
        found.set_workload(Key("ns", name), workload(name, cpu, priority=priority))
    decided = []
    for number in range(32):
        found.set_workload(Key("ns", "run"), reserved("run", 5, "a"))
        found.set_workload(Key("ns", "run"), None)
        decided += names(found, number * seconds)
        turn_away(found, number * seconds)
    assert decided.count("high") >= 16
    assert {"middle", "low"} <= set(decided)


def test_parked_workloads_wait_for_victims_to_go_but_not_longer_than_a_second() -> None:
    found = state(cluster_queue("a", 5))
    found.set_workload(Key("ns", "run"), reserved("run", 3, "a"))
    found.set_workload(Key("ns", "gone"), reserved("gone", 1, "a"))
    found.set_workload(Key("ns", "big"), workload("big", 7))
    settle(found)
    found.set_workload(Key("ns", "run"), transitions.evicted(reserved("run", 3, "a"), "Preempted", "", 0.0))
    found.set_workload(Key("ns", "gone"), None)
    assert (names(found, 10.0), found.next_wake(10.0)) == ([], 11.0)
    assert names(found, 11.0) == ["big"]
    assert found.next_wake(11.0) is None


def test_deleting_a_workload_requeues_the_workloads_parked_behind_it() -> None:
    found = state(cluster_queue("a", 5))
    for name in ("one", "two"):
        found.set_workload(Key("ns", name), workload(name, 7))
    settle(found)
    found.set_workload(Key("ns", "one"), None)
    assert names(found) == ["two"]


def test_a_workload_that_could_never_fit_is_requeued_by_more_quota_but_not_by_released_quota() -> None:
    found = state(cluster_queue("a", 5))
    found.set_workload(Key("ns", "run"), reserved("run", 5, "a"))
    found.set_workload(Key("ns", "huge"), workload("huge", 7))
    assert len(list(drain(found, found.policy, 0.0))) > 0
    found.set_workload(Key("ns", "run"), None)
    assert names(found) == []
    found.set_cluster_queue("a", cluster_queue("a", 9))
    assert names(found) == ["huge"]


def test_a_strict_queue_keeps_its_head_and_is_not_tried_until_something_changes() -> None:
    found = state(cluster_queue("a", 5, strategy=QueueingStrategy.STRICT_FIFO))
    found.set_workload(Key("ns", "big"), workload("big", 9))
    found.set_workload(Key("ns", "small"), workload("small", 1, created=1.0))
    (head,) = found.heads(0.0)
    found.apply(Plan((StayPending(head.workload, "a", "WaitingForQuota", "", Requeue.HEAP),)))
    assert names(found) == []
    found.set_cluster_queue("a", cluster_queue("a", 9, strategy=QueueingStrategy.STRICT_FIFO))
    assert names(found) == ["big"]


def test_a_workload_in_backoff_waits_until_its_time_without_polling() -> None:
    found = state(cluster_queue("a", 5))
    found.set_workload(Key("ns", "w"), workload("w", 1, requeue_at=60.0))
    assert (names(found, 1.0), found.next_wake(1.0)) == ([], 60.0)
    assert (names(found, 60.0), found.next_wake(60.0)) == (["w"], None)


def test_a_workload_that_comes_back_while_its_like_are_parked_waits_for_what_they_wait_for() -> None:
    """Kueue calls that bypassed: a workload in a LocalQueue that was stopped and resumed is not considered again."""
    found = state(cluster_queue("a", 1))
    found.set_workload(Key("ns", "big"), workload("big", 2))
    list(drain(found, found.policy, 0.0))
    assert found.pending.bypassed(Key("ns", "big")) == "", "it was told itself"
    running = LocalQueue(Key("ns", "lq"), "a")
    found.set_local_queue(running.key, LocalQueue(running.key, "a", stop_policy=StopPolicy.HOLD))
    assert found.pending.bypassed(Key("ns", "big")) == "", "it is in no line"
    found.set_local_queue(running.key, running)
    assert (found.heads(0.0), found.pending.bypassed(Key("ns", "big"))) == ((), "ExceedsMaxQuota")
    found.set_cluster_queue("a", cluster_queue("a", 2))
    assert [head.workload.key.name for head in found.heads(0.0)] == ["big"]
    assert found.pending.bypassed(Key("ns", "big")) == ""


def test_a_workload_keeps_its_position_among_equal_ones_however_often_it_changes() -> None:
    found = put(state(cluster_queue("a", 5)), *(workload(name, 1, created=1.0) for name in "abc"))
    for since in (1.0, 2.0, 3.0):
        for name in "bca":
            requeued = Condition("Requeued", True, since=since)
            put(found, workload(name, 1, created=1.0, conditions=(requeued,)))
            found.check()
        assert names(found) == ["a"]


def test_a_deactivated_workload_holds_its_quota_until_its_job_has_stopped() -> None:
    """Others would use it together with its pods, which have time to terminate."""
    found = state(cluster_queue("a", 5))
    run = replace(reserved("run", 5, "a"), owner=Owner("batch", "Job", "ns", "run"))
    found.set_workload(run.key, run)
    found.set_workload(Key("ns", "next"), workload("next", 5))
    turn_away(found)
    found.set_workload(run.key, replace(run, active=False))
    assert found.reservations.get(run.key) is not None and names(found) == []
    found.set_workload(run.key, replace(run, active=False, conditions=(), admission=None))
    assert found.reservations.get(run.key) is None and names(found) == ["next"]
    found.check()


def test_a_deactivated_workload_without_an_owner_holds_no_quota() -> None:
    found = state(cluster_queue("a", 5))
    run = reserved("run", 5, "a")
    found.set_workload(run.key, run)
    found.set_workload(run.key, replace(run, active=False))
    assert found.reservations.get(run.key) is None


def test_a_stopped_local_queue_offers_nothing_until_it_is_resumed() -> None:
    found = state(cluster_queue("a", 5))
    found.set_workload(Key("ns", "w"), workload("w", 1))
    stopped = LocalQueue(Key("ns", "lq"), "a", stop_policy=StopPolicy.HOLD)
    found.set_local_queue(Key("ns", "lq"), stopped)
    assert names(found) == []
    found.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "a"))
    assert names(found) == ["w"]


def test_objects_may_come_in_any_order() -> None:
    found = State()
    found.set_workload(Key("ns", "w"), workload("w", 1))
    found.set_workload(Key("ns", "run"), reserved("run", 2, "a"))
    found.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "a"))
    found.set_cluster_queue("a", cluster_queue("a", 5))
    assert names(found) == []
    assert found.reservations.active_condition("a").message == (
        "Can't admit new workloads: references missing ResourceFlavor(s): default."
    )
    ready = state(cluster_queue("a", 5))
    found.set_flavor("default", ready.reservations.flavors["default"])
    assert names(found) == ["w"]
    assert found.reservations.arenas["queue/a"].queues["a"].usage == {("default", "cpu"): 2}


def test_workloads_of_a_restarted_queue_are_requeued_before_their_status_is_written() -> None:
    found = state(cluster_queue("a", 5))
    stopped = Condition("Requeued", False, "LocalQueueStopped")
    key = Key("ns", "lq")
    found.set_local_queue(key, LocalQueue(key, "a", stop_policy=StopPolicy.HOLD_AND_DRAIN))
    found.set_workload(Key("ns", "evicted"), workload("evicted", 1, priority=9, conditions=(stopped,)))
    found.set_workload(Key("ns", "other"), workload("other", 1))
    assert names(found) == []
    found.set_local_queue(key, LocalQueue(key, "a"))
    assert names(found) == ["evicted"]
    found.set_workload(Key("ns", "evicted"), workload("evicted", 1, priority=9, conditions=(stopped,), gates=()))
    assert names(found) == ["evicted"], "an update of its object does not put it to sleep"
    found.check()


def test_a_drained_workload_keeps_its_position_before_later_workloads() -> None:
    found = state(cluster_queue("a", 1, stop_policy=StopPolicy.HOLD_AND_DRAIN))
    stopped = Condition("Requeued", False, "ClusterQueueStopped")
    found.set_workload(Key("ns", "drained"), workload("drained", 1, created=1.0, conditions=(stopped,)))
    found.set_workload(Key("ns", "younger"), workload("younger", 1, created=2.0))
    assert names(found) == []
    assert found.pending.queues["a"].active == 1, "what was drained is not looked at"
    found.set_cluster_queue("a", cluster_queue("a", 1))
    assert names(found) == ["drained"], "although nobody has written yet that it is requeued"
    found.check()


def test_a_workload_that_left_a_stopped_queue_is_queued() -> None:
    found = state(cluster_queue("a", 1, stop_policy=StopPolicy.HOLD), cluster_queue("b", 1))
    stopped = Condition("Requeued", False, "ClusterQueueStopped")
    key = Key("ns", "moved")
    found.set_workload(key, workload("moved", 1, conditions=(stopped,)))
    assert names(found) == []
    found.set_local_queue(Key("ns", "lq-b"), LocalQueue(Key("ns", "lq-b"), "b"))
    found.set_workload(key, workload("moved", 1, queue="lq-b", conditions=(stopped,)))
    assert names(found) == ["moved"]


def test_a_backoff_outlasts_the_stop_of_a_queue() -> None:
    found = state(cluster_queue("a", 1, stop_policy=StopPolicy.HOLD))
    timeout = Condition("Requeued", False, "PodsReadyTimeout")
    found.set_workload(Key("ns", "late"), workload("late", 1, conditions=(timeout,)))
    found.set_cluster_queue("a", cluster_queue("a", 1))
    assert names(found) == []


def test_searches_that_wander_for_ever_end_a_drain_and_rest_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = state(cluster_queue("a", 5))
    found.set_workload(Key("ns", "w"), workload("w", 7))
    turns = itertools.count()

    def circling(cycle: object, heads: tuple[Head, ...]) -> Generator[None, None, Plan]:
        (head,) = heads
        yield
        tried = Tried(({"cpu": next(turns)},), 0, 0)  # never where it stopped before
        return Plan((StayPending(head.workload, "a", "WaitingForQuota", "", Requeue.HEAP, tried=tried),))

    monkeypatch.setattr("core.scheduling.cycle._Cycle.run", circling)
    assert len(list(drain(found, found.policy, 0.0))) == IDLE_CYCLES
    assert (found.heads(0.0), found.next_wake(0.0)) == ((), None)
    found.set_workload(Key("ns", "w"), workload("w", 7, priority=1))
    assert names(found) == ["w"]


def test_a_cohort_without_queues_that_brings_quota_into_a_tree_wakes_those_that_wait_in_it() -> None:
    found = state(cluster_queue("a", 1, cohort="team"))
    found.set_workload(Key("ns", "w"), workload("w", 5))
    settle(found)
    assert names(found) == []
    found.set_cohort("bank", Cohort("bank", parent="team", quotas={DEFAULT: Quota(10)}))
    assert names(found) == ["w"]


def test_quota_that_is_released_in_the_middle_of_a_search_for_flavors_is_offered_once_the_search_has_ended() -> None:
    """Also when its wake-up is due in the very cycle that ends the search, and so finds nothing parked."""
    flavors = {name: FlavorResource(name, CPU) for name in ("one", "two")}
    quotas = {flavors["one"]: Quota(3), flavors["two"]: Quota(0)}
    found = state(cluster_queue("a", groups=(ResourceGroup((CPU,), tuple(flavors)),), quotas=quotas))
    for flavor in flavors:
        found.set_flavor(flavor, ResourceFlavor(flavor))
    for name, cpu in (("small", 1), ("large", 2)):
        held = reserved(name, cpu, "a")
        assigned = PodSetAssignment("main", {CPU: "one"}, {CPU: cpu}, 1)
        put(found, replace(held, admission=Admission("a", (assigned,))))
    pods = tuple(PodSet(name, 1, {CPU: 1}) for name in ("leader", "worker"))
    put(found, workload("group", 0, pod_sets=pods))
    found.set_workload(Key("ns", "small"), None)
    (first,) = itertools.islice(drain(found, found.policy, 100.0), 1)
    found.set_workload(Key("ns", "large"), None)
    (second,) = itertools.islice(drain(found, found.policy, 102.0), 1)
    assert [(each.decisions[0].requeue, each.decisions[0].reason) for each in (first, second)] == [  # type: ignore[union-attr]
        (Requeue.HEAP, "WaitingForQuota"),
        (Requeue.PARKED, "ExceedsMaxQuota"),
    ]
    for _ in drain(found, found.policy, 102.0):
        pass
    assert found.assumed(Key("ns", "group"))
