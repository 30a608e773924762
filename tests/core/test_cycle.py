"""One cycle, rule by rule, in cases a person would put to us. (The recorded decisions are in test_oracle.)"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from api.names import PODS_RESOURCE
from core.model import (
    Admission,
    AdmissionCheck,
    CheckRule,
    CheckState,
    ClusterQueue,
    Cohort,
    Condition,
    Decision,
    FlavorResource,
    Fungibility,
    Key,
    Placement,
    Plan,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueueingStrategy,
    Quota,
    Requeue,
    Requirement,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    StayPending,
    Taint,
    Workload,
    messages,
)
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.scheduling.cycle import schedule
from core.state.drain import drain
from core.state.state import State
from core.wire.conditions import raw_admission
from tests.builders import CPU, DEFAULT, FAIR, NOW, SPOT, TWO, cluster_queue, cycle, put, reserved, state, workload


def two_flavors(name: str, first: int, second: int, **fields: Any) -> ClusterQueue:
    return cluster_queue(name, groups=TWO, quotas={DEFAULT: Quota(first), SPOT: Quota(second)}, **fields)


def flavors_of(decision: Decision) -> list[str]:
    assert isinstance(decision, Reserve)
    return [flavor for pod_set in decision.admission.pod_sets for flavor in pod_set.flavors.values()]


def victims_of(decision: Decision) -> dict[str, str]:
    assert isinstance(decision, StayPending)
    return {victim.workload.key.name: victim.reason for victim in decision.victims}


def why(decision: Decision) -> tuple[str, str, Requeue]:
    assert isinstance(decision, StayPending)
    return decision.reason, decision.message, decision.requeue


def test_what_fits_is_admitted_and_counts_at_once() -> None:
    found = put(state(cluster_queue("a", 5000)), workload("w", 3000))
    decision = cycle(found)["w"]
    assert isinstance(decision, Reserve)
    assert (decision.admitted, decision.admission.pod_sets[0].usage) == (True, {CPU: 3000})
    assert found.reservations.arenas["queue/a"].queues["a"].available(DEFAULT) == 2000


def test_a_request_above_the_whole_quota_is_reported_with_numbers_and_parked() -> None:
    found = put(state(cluster_queue("a", 5000)), workload("w", 7500))
    assert why(cycle(found)["w"]) == (
        "ExceedsMaxQuota",
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
        "podsets requests (0) + current podset request (7500m) > maximum capacity (5)",
        Requeue.PARKED,
    )


def test_a_request_above_the_free_quota_is_reported_with_the_missing_amount() -> None:
    found = put(state(cluster_queue("a", 5000)), reserved("run", 4000, "a"), workload("w", 3000))
    reason, message, _ = why(cycle(found)["w"])
    assert (reason, message) == (
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed",
    )


def test_a_later_smaller_workload_overtakes_unless_order_is_strict() -> None:
    for strategy, expected in ((QueueingStrategy.BEST_EFFORT_FIFO, True), (QueueingStrategy.STRICT_FIFO, False)):
        found = state(cluster_queue("a", 5, strategy=strategy))
        put(found, workload("big", 9), workload("small", 1, created=1.0))
        admitted = {
            d.workload.key.name for p in drain(found, found.policy, NOW) for d in p.decisions if isinstance(d, Reserve)
        }
        assert admitted == ({"small"} if expected else set())


def test_a_queue_that_does_not_borrow_goes_before_one_that_does_whatever_the_priority() -> None:
    found = state(cluster_queue("a", 0, cohort="all"), cluster_queue("b", 5, cohort="all"))
    put(found, workload("borrows", 5, priority=9), workload("own", 5, queue="b", created=9.0))
    decisions = cycle(found)
    assert list(decisions) == ["own", "borrows"]
    assert why(decisions["borrows"])[1] == "Workload no longer fits after processing another workload"


def test_among_borrowers_priority_decides_and_without_it_time() -> None:
    for policy, first in (
        (SchedulingPolicy(), "late"),
        (SchedulingPolicy(priority_sorting_within_cohort=False), "early"),
    ):
        queues = [cluster_queue(name, nominal, cohort="all") for name, nominal in (("a", 0), ("b", 0), ("c", 5))]
        found = state(*queues, policy=policy)
        put(
            found, workload("early", 5, queue="a", created=1.0), workload("late", 5, queue="b", created=2.0, priority=1)
        )
        assert isinstance(cycle(found)[first], Reserve)


def test_a_borrowing_limit_binds() -> None:
    found = state(cluster_queue("a", 5, cohort="all", borrowing=2), cluster_queue("b", 9, cohort="all"))
    put(found, workload("w", 8))
    assert why(cycle(found)["w"])[0] == "ExceedsMaxQuota"


def test_flavors_are_tried_in_order_and_the_first_that_fits_is_taken() -> None:
    found = state(two_flavors("a", 2, 9))
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, workload("w", 5))
    assert flavors_of(cycle(found)["w"]) == ["spot"]


@pytest.mark.parametrize(("can_borrow", "flavor"), [("MayStopSearch", "default"), ("TryNextFlavor", "spot")])
def test_fungibility_says_whether_to_borrow_or_to_try_the_next_flavor(can_borrow: str, flavor: str) -> None:
    rules = Fungibility(when_can_borrow=can_borrow)
    found = state(two_flavors("a", 2, 9, cohort="all", fungibility=rules), cluster_queue("b", 9, cohort="all"))
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, workload("w", 5))
    assert flavors_of(cycle(found)["w"]) == [flavor]


@pytest.mark.parametrize(("can_preempt", "expected"), [("MayStopSearch", ["low"]), ("TryNextFlavor", [])])
def test_fungibility_says_whether_to_preempt_or_to_try_the_next_flavor(can_preempt: str, expected: list[str]) -> None:
    rules = Fungibility(when_can_preempt=can_preempt)
    found = state(two_flavors("a", 5, 9, fungibility=rules, preemption=Preemption("LowerPriority")))
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, reserved("low", 5, "a"), workload("w", 5, priority=1))
    decision = cycle(found)["w"]
    assert list(victims_of(decision) if isinstance(decision, StayPending) else []) == expected


def outrun(policy: SchedulingPolicy | None = None) -> State:
    """Two that borrow the same flavor: one has it, the other's search stopped there, and then the first one leaves."""
    queues = [cluster_queue(name, cohort="all", groups=TWO, quotas={}) for name in "ab"]
    found = state(*queues, two_flavors("c", 5, 5, cohort="all"), policy=policy)
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, workload("w1", 5, queue="a", created=1.0), workload("w2", 5, queue="b", created=2.0))
    decisions = cycle(found)
    assert flavors_of(decisions["w1"]) == ["default"]
    assert why(decisions["w2"])[1] == "Workload no longer fits after processing another workload"
    found.set_workload(Key("ns", "w1"), None)
    return found


def test_a_stopped_search_continues_after_the_flavor_in_the_next_cycle() -> None:
    assert flavors_of(cycle(outrun())["w2"]) == ["spot"]


def test_a_stopped_search_starts_again_if_the_cluster_has_changed() -> None:
    found = outrun()
    found.apply(Plan())  # a cycle for others
    assert flavors_of(cycle(found)["w2"]) == ["default"]


@pytest.mark.parametrize(("keeps", "flavor"), [(True, "spot"), (False, "default")])
def test_a_search_that_lost_its_quota_to_another_goes_on_where_its_gate_is_on(keeps: bool, flavor: str) -> None:
    assert flavors_of(cycle(outrun(SchedulingPolicy(keeps_progress=keeps)))["w2"]) == [flavor]


def quota_is_released(found: State) -> None:
    found.set_workload(Key("ns", "elsewhere"), None)


def it_is_changed(found: State) -> None:
    put(found, replace(waits_in_two_flavors(), resource_version="2"))


def waits_in_two_flavors() -> Workload:
    """Its second pod set fits only the first flavor, and only if the first pod set goes on to the second one."""
    return workload("w", 0, pod_sets=(PodSet("small", 1, {CPU: 1}), PodSet("large", 1, {CPU: 5})), created=1.0)


@pytest.mark.parametrize("event", [quota_is_released, it_is_changed])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_search_goes_on_whatever_happens_meanwhile_where_its_gate_is_on(
    keeps: bool, event: Callable[[State], None]
) -> None:
    queues = (
        two_flavors("a", 5, 1, cohort="all"),
        cluster_queue("b", 0, cohort="all", quotas={SPOT: Quota(1)}, groups=TWO),
    )
    found = state(*queues, policy=SchedulingPolicy(keeps_progress=keeps), local={"lq": "a", "b": "b"})
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, reserved("elsewhere", 0, "b", queue="b"), waits_in_two_flavors())
    assert isinstance(cycle(found)["w"], StayPending)
    event(found)
    assert isinstance(cycle(found)["w"], Reserve if keeps else StayPending)


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
def test_endless_flavor_searches_of_pod_sets_end(strategy: QueueingStrategy) -> None:
    found = state(two_flavors("a", 1, 1, strategy=strategy))
    found.set_flavor("spot", ResourceFlavor("spot"))
    pod_sets = (PodSet("first", 1, {CPU: 1}), PodSet("second", 1, {CPU: 1}), PodSet("third", 1, {CPU: 9}))
    put(found, workload("round", 0, pod_sets=pod_sets, created=1.0), workload("behind", 1, created=2.0))
    plans = list(islice(drain(found, found.policy, NOW), 9))
    assert len(plans) < 9
    admitted = [
        str(decision.workload.key) for plan in plans for decision in plan.decisions if isinstance(decision, Reserve)
    ]
    assert admitted == ([] if strategy is QueueingStrategy.STRICT_FIFO else ["ns/behind"])


def test_taints_and_labels_keep_workloads_from_flavors() -> None:
    found = state(two_flavors("a", 9, 9))
    found.set_flavor("default", ResourceFlavor("default", node_taints=(Taint("gpu", "yes", "NoSchedule"),)))
    found.set_flavor("spot", ResourceFlavor("spot", node_labels={"zone": "b"}))
    placed = PodSet("main", 1, {CPU: 1}, placement=Placement(node_selector={"zone": "a"}))
    put(found, workload("w", 1, pod_sets=(placed,)))
    assert why(cycle(found)["w"])[:2] == (
        "NoMatchingFlavor",
        "couldn't assign flavors to pod set main: flavor spot doesn't match node affinity, "
        "untolerated taint {gpu yes NoSchedule <nil>} in flavor default",
    )


def test_pods_with_a_malformed_affinity_are_reported_with_any_flavors() -> None:
    found = state(two_flavors("a", 9, 9))
    found.set_flavor("default", ResourceFlavor("default", node_labels={"gen": "3"}))
    found.set_flavor("spot", ResourceFlavor("spot"))
    newer = Placement(affinity=((Requirement("gen", "Gt", ("many",)),),))
    put(found, workload("w", 1, pod_sets=(PodSet("main", 1, {CPU: 1}, placement=newer),)))
    assert why(cycle(found)["w"])[:2] == (
        "NoMatchingFlavor",
        "failed to assign flavors to pod set main: nodeSelectorTerms[0].matchExpressions[0].values[0]: "
        "Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be an integer",
    )


def test_pod_sets_share_a_flavor_and_all_must_fit() -> None:
    found = state(cluster_queue("a", 5))
    both = (PodSet("driver", 1, {CPU: 2}), PodSet("workers", 2, {CPU: 2}))
    put(found, workload("w", 0, pod_sets=both))
    assert why(cycle(found)["w"])[1] == (
        "couldn't assign flavors to pod set workers: insufficient quota for cpu in flavor default, "
        "previously considered podsets requests (2m) + current podset request (4m) > maximum capacity (5m)"
    )


def test_partial_admission_takes_as_many_pods_as_fit_but_not_fewer_than_asked() -> None:
    for nominal, expected in ((7, 7), (3, 3), (2, None)):
        found = state(cluster_queue("a", nominal))
        put(found, workload("w", 0, pod_sets=(PodSet("main", 9, {CPU: 1}, min_count=3),)))
        decision = cycle(found)["w"]
        counts = [each.count for each in decision.admission.pod_sets] if isinstance(decision, Reserve) else None
        assert counts == (None if expected is None else [expected])


def test_pods_that_are_reclaimable_are_not_asked_for() -> None:
    found = state(cluster_queue("a", 3))
    put(found, workload("w", 0, pod_sets=(PodSet("main", 9, {CPU: 1}),), reclaimable={"main": 6}))
    decision = cycle(found)["w"]
    assert isinstance(decision, Reserve) and decision.admission.pod_sets[0].count == 3


def test_the_number_of_pods_is_a_resource() -> None:
    pods = FlavorResource("default", "pods")
    groups = (ResourceGroup((CPU, "pods"), ("default",)),)
    found = state(cluster_queue("a", groups=groups, quotas={DEFAULT: Quota(99), pods: Quota(3)}))
    put(found, workload("w", 0, pod_sets=(PodSet("main", 4, {CPU: 1}),)))
    assert "insufficient quota for pods in flavor default" in why(cycle(found)["w"])[1]


def test_admission_waits_for_the_checks_of_the_flavors_it_got() -> None:
    rules = (CheckRule("prov", frozenset({"spot"})), CheckRule("budget"))
    found = state(cluster_queue("a", 9, checks=rules))
    for name in ("prov", "budget"):
        found.set_admission_check(name, AdmissionCheck(name, "example.com/c", True))
    put(found, workload("w", 1))
    first = cycle(found)["w"]
    assert isinstance(first, Reserve) and not first.admitted
    found.unassume(Key("ns", "w"))
    put(found, workload("w", 1, checks=(CheckState("budget", "Ready"),)))
    second = cycle(found)["w"]
    assert isinstance(second, Reserve) and second.admitted


def test_a_workload_with_a_failed_check_is_not_considered_until_the_check_changes() -> None:
    found = put(state(cluster_queue("a", 9)), workload("w", 1, checks=(CheckState("budget", "Retry"),)))
    assert why(cycle(found)["w"])[0] == "PendingEvaluation"
    assert found.heads(NOW) == ()
    put(found, workload("w", 1, checks=(CheckState("budget", "Pending"),)))
    assert isinstance(cycle(found)["w"], Reserve)


def test_a_namespace_that_is_not_selected_is_turned_away_until_its_labels_change() -> None:
    selector = Selector((Requirement("team", "In", ("a",)),))
    found = put(state(cluster_queue("a", 9, namespace_selector=selector)), workload("w", 1))
    assert why(cycle(found)["w"]) == (
        "Misconfigured",
        "workload namespace doesn't match ClusterQueue selector",
        Requeue.PARKED,
    )
    assert found.heads(NOW) == ()
    found.set_namespace("ns", {"team": "a"})
    assert isinstance(cycle(found)["w"], Reserve)


def test_preemption_within_the_queue_takes_the_lowest_priority_then_the_latest() -> None:
    found = state(cluster_queue("a", 6, preemption=Preemption("LowerPriority")))
    put(found, *(reserved(n, 2, "a", priority=p, since=s) for n, p, s in (("x", 1, 1.0), ("y", 0, 1.0), ("z", 0, 2.0))))
    put(found, workload("w", 2, priority=5))
    decision = cycle(found)["w"]
    assert victims_of(decision) == {"z": "InClusterQueue"}
    assert why(decision)[0] == "WaitingForPreemptedWorkloads"
    assert why(decision)[1].endswith("2m more needed. Pending the preemption of 1 workload(s)")


def test_only_as_many_are_preempted_as_needed() -> None:
    found = state(cluster_queue("a", 10, preemption=Preemption("LowerPriority")))
    put(found, reserved("small", 2, "a", since=9.0), reserved("big", 8, "a", since=1.0), workload("w", 8, priority=1))
    assert victims_of(cycle(found)["w"]) == {"big": "InClusterQueue"}


def test_equal_priority_is_preempted_only_where_newer_ones_may_be() -> None:
    for policy, expected in (("LowerPriority", {}), ("LowerOrNewerEqualPriority", {"new": "InClusterQueue"})):
        found = state(cluster_queue("a", 2, preemption=Preemption(policy)))
        put(found, reserved("new", 2, "a", created=9.0), workload("w", 2, created=1.0))
        assert victims_of(cycle(found)["w"]) == expected


def test_lent_quota_is_reclaimed_only_from_queues_that_borrow() -> None:
    reclaims = Preemption(reclaim_within_cohort="Any")
    queues = [cluster_queue(name, 4, cohort="all", preemption=reclaims) for name in "abc"]
    found = put(state(*queues), reserved("borrower", 8, "b", priority=9), reserved("own", 4, "c"), workload("w", 4))
    assert victims_of(cycle(found)["w"]) == {"borrower": "InCohortReclamation"}


def test_borrowing_while_preempting_spares_priorities_above_the_threshold() -> None:
    for threshold, expected in ((5, {"run": "InCohortReclaimWhileBorrowing"}), (1, {})):
        rules = Preemption("Never", "LowerPriority", "LowerPriority", threshold)
        found = state(
            cluster_queue("a", 1, cohort="all", preemption=rules),
            cluster_queue("b", 1, cohort="all"),
            cluster_queue("c", 6, cohort="all"),
        )
        put(found, reserved("run", 8, "b", priority=3), workload("w", 4, priority=9))
        assert victims_of(cycle(found)["w"]) == expected


def test_quota_of_the_own_branch_of_the_tree_is_reclaimed_whatever_the_borrowing_policy() -> None:
    cohorts = {"left": Cohort("left", "root"), "right": Cohort("right", "root"), "root": Cohort("root")}
    reclaims = Preemption(reclaim_within_cohort="Any")
    found = state(
        cluster_queue("a", 2, cohort="left", preemption=reclaims),
        cluster_queue("b", 4, cohort="left"),
        cluster_queue("c", 2, cohort="right"),
    )
    for name, cohort in cohorts.items():
        found.set_cohort(name, cohort)
    put(found, reserved("far", 8, "c", priority=9), workload("w", 5))
    assert victims_of(cycle(found)["w"]) == {"far": "InCohortReclamation"}


def test_two_that_need_the_same_victims_do_not_both_preempt_them() -> None:
    reclaims = Preemption(reclaim_within_cohort="Any")
    queues = [cluster_queue(name, 4, cohort="all", preemption=reclaims) for name in "ab"]
    found = put(state(*queues, cluster_queue("c", 0, cohort="all")), reserved("run", 8, "c"))
    put(found, workload("first", 4, queue="a", created=1.0), workload("second", 4, queue="b", created=2.0))
    decisions = cycle(found)
    assert victims_of(decisions["first"]) == {"run": "InCohortReclamation"}
    assert why(decisions["second"])[:2] == (
        "WaitingForPreemptedWorkloads",
        "Workload has overlapping preemption targets with another workload, but will fit after these "
        "preemptions complete",
    )


def test_a_preemptor_keeps_its_place_and_what_it_waits_for() -> None:
    found = state(cluster_queue("a", 4, preemption=Preemption("LowerPriority")))
    put(found, reserved("run", 3, "a"), workload("w", 4, priority=1))
    assert victims_of(cycle(found)["w"]) == {"run": "InClusterQueue"}
    put(found, workload("sneaks", 1, priority=2, created=5.0))
    assert all(isinstance(d, StayPending) for p in drain(found, found.policy, NOW) for d in p.decisions)
    found.set_workload(Key("ns", "run"), None)
    assert isinstance(cycle(found)["w"], Reserve)


def test_quota_that_a_preemptor_does_not_need_may_be_reserved_while_its_victims_stop() -> None:
    """As in Kueue: heads of one cycle that come after a preemptor are judged as if its victims were gone. Until these
    have stopped, more is reserved than the quota.
    """
    reclaims = Preemption(reclaim_within_cohort="Any")
    found = state(*(cluster_queue(name, 10_000, cohort="all", preemption=reclaims) for name in "abc"))
    put(found, reserved("large", 20_000, "c"), reserved("other", 9_000, "b"))
    put(found, workload("preemptor", 5000, queue="a"), workload("one", 1000, queue="b", created=1.0))
    put(found, workload("two", 1000, queue="c", created=2.0))
    decisions = cycle(found)
    assert list(victims_of(decisions["preemptor"])) == ["large"]
    assert isinstance(decisions["one"], Reserve)
    assert isinstance(decisions["two"], Reserve), "one cpu is free, two are reserved"
    (arena,) = found.reservations.arenas.values()
    assert sum(queue.usage.get(DEFAULT, 0) for queue in arena.queues.values()) == 31_000


def test_the_message_to_victims_names_the_preemptor_and_its_queue() -> None:
    found = state(cluster_queue("a", 2, cohort="team", preemption=Preemption("LowerPriority")))
    found.set_cohort("team", Cohort("team", "org"))
    put(found, reserved("run", 2, "a"), workload("w", 2, priority=1, job_uid="j"))
    decision = cycle(found)["w"]
    assert isinstance(decision, StayPending)
    assert decision.victims[0].message == (
        "Preempted to accommodate a workload (UID: uid-w, JobUID: j) due to prioritization in the ClusterQueue; "
        "preemptor path: /org/team/a; preemptee path: /org/team/a"
    )


@pytest.mark.parametrize("policy", [SchedulingPolicy(), FAIR], ids=["by borrowing and priority", "by shares"])
@pytest.mark.parametrize("gate", [False, True], ids=["off", "on"])
def test_with_its_gate_a_preemptor_gets_what_its_victims_leave_before_a_higher_priority(
    policy: SchedulingPolicy, gate: bool
) -> None:
    policy = dataclasses.replace(policy, prioritize_preemptors=gate)
    found = state(
        cluster_queue("a", 1000, cohort="all", preemption=Preemption("LowerPriority")),
        cluster_queue("b", 1000, cohort="all"),
        cluster_queue("borrower", 0, cohort="all"),
        policy=policy,
    )
    put(found, reserved("victim", 1000, "a"), reserved("borrows", 1000, "borrower"))
    put(found, workload("preemptor", 1000, queue="a", priority=1))
    assert victims_of(cycle(found)["preemptor"]) == {"victim": "InClusterQueue"}
    found.set_workload(Key("ns", "victim"), None)
    put(found, workload("urgent", 1000, queue="b", priority=5))
    decided = cycle(found)
    winner = "preemptor" if gate else "urgent"
    assert [name for name, decision in decided.items() if isinstance(decision, Reserve)] == [winner]


def test_fair_sharing_admits_the_queue_with_the_smaller_share_first() -> None:
    queues = [cluster_queue(name, nominal, cohort="all") for name, nominal in (("a", 0), ("b", 0), ("c", 9))]
    found = put(state(*queues, policy=FAIR), reserved("run", 4, "a"))
    put(found, workload("more", 3, queue="a", created=1.0), workload("less", 3, queue="b", created=2.0))
    decisions = cycle(found)
    assert [name for name, d in decisions.items() if isinstance(d, Reserve)] == ["less"]


def test_fair_sharing_counts_a_heavier_weight_as_a_smaller_share() -> None:
    queues = [
        cluster_queue("a", 0, cohort="all", weight=5.0),
        cluster_queue("b", 0, cohort="all"),
        cluster_queue("c", 9, cohort="all"),
    ]
    found = put(state(*queues, policy=FAIR), reserved("ra", 4, "a"), reserved("rb", 2, "b"))
    put(found, workload("wa", 3, queue="a", created=2.0), workload("wb", 3, queue="b", created=1.0))
    assert isinstance(cycle(found)["wa"], Reserve)


def test_fair_sharing_preempts_in_the_queue_that_has_borrowed_more() -> None:
    reclaims = Preemption(reclaim_within_cohort="Any")
    queues = [
        cluster_queue(name, nominal, cohort="all", preemption=reclaims)
        for name, nominal in (("a", 0), ("b", 0), ("c", 8))
    ]
    found = put(state(*queues, policy=FAIR), *(reserved(f"r{n}", 2, "a", since=float(n)) for n in range(4)))
    put(found, workload("w", 2, queue="b"))
    assert victims_of(cycle(found)["w"]) == {"r3": "InCohortFairSharing"}


def test_one_queue_deep_in_workloads_drains_as_far_as_it_fits() -> None:
    found = put(state(cluster_queue("a", 50)), *(workload(f"w{n:03}", 1, created=float(n)) for n in range(80)))
    admitted = [
        d.workload.key.name for p in drain(found, found.policy, NOW) for d in p.decisions if isinstance(d, Reserve)
    ]
    assert admitted == [f"w{n:03}" for n in range(50)]
    assert found.heads(NOW) == ()


def test_a_changed_priority_takes_effect_at_once() -> None:
    found = put(state(cluster_queue("a", 1)), workload("w", 1), workload("v", 1, created=5.0))
    put(found, replace(workload("v", 1, created=5.0), priority=3))
    assert isinstance(cycle(found)["v"], Reserve)


def test_with_block_admission_one_workload_is_admitted_until_its_pods_are_ready() -> None:
    found = state(cluster_queue("a", 5), policy=SchedulingPolicy(block_admission=True))
    put(found, workload("w1", 1), workload("w2", 1, created=1.0))
    admitted = [
        d.workload.key.name for p in drain(found, found.policy, NOW) for d in p.decisions if isinstance(d, Reserve)
    ]
    assert admitted == ["w1"]
    running = reserved("w1", 1, "a")
    put(found, replace(running, conditions=(*running.conditions, Condition("PodsReady", True))))
    assert isinstance(cycle(found)["w2"], Reserve)


def unready(name: str, queue: str) -> Workload:
    running = reserved(name, 1, queue)
    return replace(running, conditions=(*running.conditions, Condition("PodsReady", False)))


@pytest.mark.parametrize(
    "policy", [SchedulingPolicy(block_admission=True), dataclasses.replace(FAIR, block_admission=True)]
)
@pytest.mark.parametrize("queue", ["a", "b"])
@pytest.mark.parametrize("strategy", list(QueueingStrategy))
def test_a_workload_that_waits_only_for_pods_of_others_precedes_requeued_workloads(
    strategy: QueueingStrategy, queue: str, policy: SchedulingPolicy
) -> None:
    """As in Kueue, whose cycle waits with it: neither priority nor creation time puts an evicted one before it."""
    queues = [cluster_queue(name, 5, cohort="all", strategy=strategy) for name in "ab"]
    found = put(state(*queues, policy=policy, local={"a": "a", "b": "b"}), unready("evicted", "a"))
    put(found, workload("waits", 1, queue=queue, created=5.0))
    assert why(cycle(found)["waits"])[0] == "WaitingForPodsReady"
    put(found, workload("evicted", 1, queue="a", priority=9))
    admitted = [
        d.workload.key.name for p in drain(found, found.policy, NOW) for d in p.decisions if isinstance(d, Reserve)
    ]
    assert admitted == ["waits"]


def test_a_workload_that_waited_for_pods_of_others_and_no_longer_fits_is_overtaken() -> None:
    found = put(state(cluster_queue("a", 5), policy=SchedulingPolicy(block_admission=True)), unready("runs", "a"))
    put(found, workload("waits", 4, created=5.0))
    assert why(cycle(found)["waits"])[0] == "WaitingForPodsReady"
    put(found, workload("urgent", 1, priority=9))
    assert cycle(found) == {}
    found.set_cluster_queue("a", cluster_queue("a", 2))
    assert why(cycle(found)["waits"])[0] == "ExceedsMaxQuota"
    assert why(cycle(found)["urgent"])[0] == "WaitingForPodsReady"


def test_whom_to_preempt_where_the_number_of_pods_is_short_is_looked_for_by_what_the_pods_ask_for() -> None:
    """As in Kueue: room is found for their cpu, and only then they turn out to be too many."""
    pods = FlavorResource("default", PODS_RESOURCE)
    queue = cluster_queue(
        "cq",
        groups=(ResourceGroup((CPU, PODS_RESOURCE), ("default",)),),
        quotas={DEFAULT: Quota(10), pods: Quota(2)},
        preemption=Preemption("LowerPriority"),
    )
    found = state(queue)
    for name, priority in (("small", 0), ("equal", 5)):
        assigned = PodSetAssignment("main", {CPU: "default", PODS_RESOURCE: "default"}, {CPU: 1, PODS_RESOURCE: 1}, 1)
        put(found, replace(reserved(name, 1, "cq", priority=priority), admission=Admission("cq", (assigned,))))
    put(found, workload("two", 1, priority=5, pod_sets=(PodSet("main", 2, {CPU: 1}),)))
    for _ in range(2):  # the second look remembers the first
        head = found.heads(NOW)
        (decision,) = schedule(found.snapshot(), head, found.policy, NOW).decisions
        assert why(decision) == ("WaitingForQuota", messages.NO_LONGER_FITS, Requeue.HEAP)


def test_a_workload_that_begins_to_borrow_comes_after_those_that_do_not() -> None:
    found = state(cluster_queue("a", 4, cohort="all"), cluster_queue("b", 4, cohort="all"), local={"a": "a", "b": "b"})
    put(found, *(workload(f"a{n}", 2, queue="a", created=float(n)) for n in range(3)))
    for name in ("a0", "a1"):
        assert isinstance(cycle(found)[name], Reserve)
    put(found, workload("late", 4, queue="b", created=9.0))
    decisions = cycle(found)
    assert isinstance(decisions["late"], Reserve)
    assert why(decisions["a2"]) == ("WaitingForQuota", messages.NO_LONGER_FITS, Requeue.HEAP)


@pytest.mark.parametrize(
    ("covered", "asked", "flavors"),
    [
        pytest.param(("cpu",), {}, {}, id="a pod set that asks for nothing is admitted without flavors"),
        pytest.param(("cpu",), {"memory": 0}, {}, id="nothing of a resource that is not covered asks for no flavor"),
        pytest.param(("cpu",), {"cpu": 0}, {"cpu": "default"}, id="nothing of a resource that is covered has a flavor"),
        pytest.param(("cpu", "pods"), {}, {"pods": "default"}, id="pods are asked for where they are covered"),
        pytest.param((), {}, {}, id="a ClusterQueue without quota admits a pod set that asks for nothing"),
    ],
)
def test_flavors_are_assigned_to_what_a_pod_set_asks_for(
    covered: tuple[str, ...], asked: dict[str, int], flavors: dict[str, str]
) -> None:
    quotas = {FlavorResource("default", resource): Quota(10) for resource in covered}
    groups = (ResourceGroup(covered, ("default",)),) if covered else ()
    found = state(cluster_queue("a", groups=groups, quotas=quotas))
    key = Key("ns", "w")
    found.set_workload(key, workload("w", 0, pod_sets=(PodSet("main", 2, asked),)))
    (decision,) = schedule(found.snapshot(), found.heads(0.0), found.policy, 0.0).decisions
    assert isinstance(decision, Reserve)
    (written,) = raw_admission(decision.admission)["podSetAssignments"]
    assert written.get("flavors", {}) == flavors
    assert ("flavors" in written, written["count"]) == (bool(flavors), 2)
