"""Rules of quota, flavors, preemption and shares that a person would ask about, each as a table of cases."""

from __future__ import annotations

from typing import Any

import pytest

from core.model import (
    Admission,
    Cohort,
    Decision,
    FlavorResource,
    Fungibility,
    Key,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueueingStrategy,
    Quota,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    StayPending,
    Workload,
)
from core.model.policy import SchedulingPolicy, Strategy
from core.scheduling.cycle import schedule
from core.state.drain import drain
from core.state.queue_status import cluster_queue_status
from core.state.state import State
from tests.builders import CPU, DEFAULT, FAIR, NOW, SPOT, TWO, cluster_queue, cycle, put, reserved, state, workload


def in_words(decision: Decision) -> str:
    """`in default`, `preempts x`, or the reason for waiting."""
    if isinstance(decision, Reserve):
        return "in " + " and ".join(f for each in decision.admission.pod_sets for f in each.flavors.values())
    if decision.victims:
        return "preempts " + " and ".join(victim.workload.key.name for victim in decision.victims)
    return decision.reason


def admitted(found: State) -> list[str]:
    decisions = (d for plan in drain(found, found.policy, NOW) for d in plan.decisions)
    return [d.workload.key.name for d in decisions if isinstance(d, Reserve)]


# Quota.


@pytest.mark.parametrize("unit", [1, 2**63, 10**40], ids=["small", "beyond 64 bits", "beyond any float"])
def test_amounts_are_exact_however_large(unit: int) -> None:
    found = state(cluster_queue("a", 3 * unit, cohort="all"), cluster_queue("b", 2 * unit + 1, cohort="all"))
    put(found, reserved("run", 3 * unit, "a"), workload("just", 2 * unit + 1))
    assert in_words(cycle(found)["just"]) == "in default"
    found = put(state(cluster_queue("a", 5 * unit)), reserved("run", 3 * unit, "a"), workload("over", 2 * unit + 1))
    decision = cycle(found)["over"]
    assert isinstance(decision, StayPending)
    assert decision.message.endswith("1m more needed")


@pytest.mark.parametrize("depth", [1, 2, 30])
def test_quota_is_borrowed_through_a_tree_of_any_depth(depth: int) -> None:
    found = state(cluster_queue("a", 0, cohort="c0"), cluster_queue("b", 4, cohort=f"c{depth}"))
    for number in range(depth):
        found.set_cohort(f"c{number}", Cohort(f"c{number}", f"c{number + 1}"))
    put(found, workload("w", 4), workload("v", 1, created=1.0))
    assert admitted(found) == ["w"]


@pytest.mark.parametrize(
    ("quota", "borrowed"),
    [
        (Quota(0), 6),
        (Quota(0, borrowing_limit=2), 2),
        (Quota(0, borrowing_limit=0), 0),
        (Quota(3, borrowing_limit=2), 5),
    ],
    ids=["no limit", "limit of 2", "limit of 0", "3 of its own and a limit of 2"],
)
def test_a_cohort_bounds_what_all_its_queues_together_borrow(quota: Quota, borrowed: int) -> None:
    found = state(
        cluster_queue("a", 0, cohort="team"), cluster_queue("b", 0, cohort="team"), cluster_queue("c", 6, cohort="all")
    )
    found.set_cohort("team", Cohort("team", "all", {DEFAULT: quota}))
    put(found, *(workload(f"{queue}{n}", 1, queue=queue) for n in range(6) for queue in "ab"))
    assert len(admitted(found)) == borrowed


def test_a_cohort_lends_no_more_than_its_lending_limit_of_what_is_below_it() -> None:
    found = state(cluster_queue("a", 0, cohort="all"), cluster_queue("b", 6, cohort="team"))
    found.set_cohort("team", Cohort("team", "all", {DEFAULT: Quota(0, lending_limit=2)}))
    put(found, *(workload(f"w{n}", 1) for n in range(6)))
    assert len(admitted(found)) == 2


def test_a_cycle_of_parents_stops_only_their_queues_with_a_message() -> None:
    found = state(cluster_queue("a", 5, cohort="egg"), cluster_queue("b", 5, cohort="other"))
    found.set_cohort("egg", Cohort("egg", "hen"))
    found.set_cohort("hen", Cohort("hen", "egg"))
    put(found, reserved("run", 1, "a"), workload("w", 1), workload("v", 1, queue="b"))
    assert admitted(found) == ["v"]
    (active,) = cluster_queue_status(found, "a", {}, NOW)["conditions"]
    assert (active["type"], active["status"], active["reason"]) == ("Active", "False", "CohortCycle")
    assert active["message"] == "Can't admit new workloads: the parents of cohort egg form a cycle."
    found.set_cohort("hen", Cohort("hen"))
    assert admitted(found) == ["w"]


@pytest.mark.parametrize(("pods", "expected"), [(3, "in default and default"), (4, "ExceedsMaxQuota")])
def test_pods_are_counted_if_a_queue_covers_them_without_a_request(pods: int, expected: str) -> None:
    groups = (ResourceGroup((CPU, "pods"), ("default",)),)
    quotas = {DEFAULT: Quota(100), FlavorResource("default", "pods"): Quota(3)}
    found = state(cluster_queue("a", groups=groups, quotas=quotas))
    put(found, workload("w", 0, pod_sets=(PodSet("main", pods, {CPU: 1}),)))
    assert in_words(cycle(found)["w"]) == expected


# Flavors.

STOP, NEXT = "MayStopSearch", "TryNextFlavor"


def taken(rules: Fungibility, quotas: tuple[int, int], low: Workload, policy: SchedulingPolicy | None = None) -> str:
    """What becomes of 5 cpu in `a`, of whose two flavors one is its own and taken by `low`, the other free in `b`."""
    mine, others = ({DEFAULT: Quota(first), SPOT: Quota(second)} for first, second in (quotas, quotas[::-1]))
    found = state(
        cluster_queue(
            "a", groups=TWO, quotas=mine, cohort="all", fungibility=rules, preemption=Preemption("LowerPriority")
        ),
        cluster_queue("b", groups=TWO, quotas=others, cohort="all"),
        policy=policy,
    )
    found.set_flavor("spot", ResourceFlavor("spot"))
    put(found, low, workload("w", 5, priority=1))
    return in_words(cycle(found)["w"])


@pytest.mark.parametrize(
    ("can_borrow", "can_preempt", "preference", "expected"),
    [
        (STOP, STOP, "", "preempts low"),
        (STOP, NEXT, "", "in spot"),
        (NEXT, STOP, "", "preempts low"),
        (NEXT, NEXT, "", "in spot"),
        (NEXT, NEXT, "BorrowingOverPreemption", "in spot"),
        (NEXT, NEXT, "PreemptionOverBorrowing", "preempts low"),
    ],
)
def test_preempt_in_the_first_flavor_or_borrow_in_the_second(
    can_borrow: str, can_preempt: str, preference: str, expected: str
) -> None:
    rules = Fungibility(can_borrow, can_preempt, preference)
    assert taken(rules, (5, 0), reserved("low", 5, "a")) == expected


@pytest.mark.parametrize(
    ("can_borrow", "can_preempt", "preference", "expected"),
    [
        (STOP, STOP, "", "in default"),
        (STOP, NEXT, "", "in default"),
        (NEXT, STOP, "", "preempts low"),
        (NEXT, NEXT, "", "in default"),
        (NEXT, NEXT, "BorrowingOverPreemption", "in default"),
        (NEXT, NEXT, "PreemptionOverBorrowing", "preempts low"),
    ],
)
def test_borrow_in_the_first_flavor_or_preempt_in_the_second(
    can_borrow: str, can_preempt: str, preference: str, expected: str
) -> None:
    rules = Fungibility(can_borrow, can_preempt, preference)
    assert taken(rules, (0, 5), in_spot("low", 5, "a")) == expected


@pytest.mark.parametrize(("on", "expected"), [(True, "preempts low"), (False, "in default")])
def test_without_flavor_fungibility_the_first_flavor_that_fits_is_taken(*, on: bool, expected: str) -> None:
    """The feature gate: off, spec.flavorFungibility has no effect, and borrowing is no reason to go on."""
    rules = Fungibility(NEXT, STOP, "PreemptionOverBorrowing")
    assert taken(rules, (0, 5), in_spot("low", 5, "a"), SchedulingPolicy(flavor_fungibility=on)) == expected


def in_spot(name: str, cpu: int, queue: str, **fields: Any) -> Workload:
    given = reserved(name, cpu, queue, **fields)
    admission = Admission(queue, (PodSetAssignment("main", {CPU: "spot"}, {CPU: cpu}, 1),))
    return workload(name, cpu, admission=admission, conditions=given.conditions)


# Preemption.


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("Never", "WaitingForQuota"),
        ("LowerPriority", "preempts low"),
        ("LowerOrNewerEqualPriority", "preempts low"),
    ],
)
def test_the_policy_for_preemption_within_a_queue(within: str, expected: str) -> None:
    found = state(cluster_queue("a", 4, preemption=Preemption(within)))
    put(found, reserved("low", 2, "a", created=1.0), reserved("equal", 2, "a", priority=1, created=9.0))
    put(found, workload("w", 2, priority=1, created=5.0))
    assert in_words(cycle(found)["w"]) == expected


@pytest.mark.parametrize(
    ("reclaim", "priority", "expected"),
    [
        ("Never", 9, "WaitingForQuota"),
        ("LowerPriority", 1, "WaitingForQuota"),
        ("LowerPriority", 9, "preempts borrower"),
        ("Any", 1, "preempts borrower"),
    ],
)
def test_the_policy_for_reclaiming_lent_quota(reclaim: str, priority: int, expected: str) -> None:
    rules = Preemption(reclaim_within_cohort=reclaim)
    found = state(cluster_queue("a", 4, cohort="all", preemption=rules), cluster_queue("b", 0, cohort="all"))
    put(found, reserved("borrower", 4, "b", priority=5), workload("w", 4, priority=priority))
    assert in_words(cycle(found)["w"]) == expected


def test_candidates_go_by_eviction_then_other_queues_then_priority_then_latest_reservation() -> None:
    rules = Preemption("LowerPriority", "Any")
    found = state(cluster_queue("a", 4, cohort="all", preemption=rules), cluster_queue("b", 0, cohort="all"))
    put(
        found,
        reserved("mine-low", 1, "a", priority=0, since=1.0),
        reserved("mine", 1, "a", priority=1, since=9.0),
        reserved("other-late", 1, "b", priority=1, since=5.0),
        reserved("other-early", 1, "b", priority=1, since=4.0),
    )
    order = []
    for asked in (1, 2, 3, 4):
        (head,) = put(found, workload("w", asked, priority=5)).heads(NOW)
        (decision,) = schedule(found.snapshot(), [head], found.policy, NOW).decisions
        assert isinstance(decision, StayPending)
        order.append({victim.workload.key.name for victim in decision.victims})
    assert order == [
        {"other-late"},
        {"other-late", "other-early"},
        {"other-late", "other-early", "mine-low"},
        {"other-late", "other-early", "mine-low", "mine"},
    ]


# Fair sharing.


def test_a_weight_of_zero_goes_last_and_is_preempted_first() -> None:
    rules = Preemption(reclaim_within_cohort="Any")
    queues = [
        cluster_queue("free", 0, cohort="all", weight=0.0, preemption=rules),
        cluster_queue("fair", 0, cohort="all", preemption=rules),
        cluster_queue("new", 0, cohort="all", preemption=rules),
        cluster_queue("lender", 8, cohort="all"),
    ]
    found = state(*queues, policy=FAIR)
    put(found, *(reserved(f"guest-{n}", 1, "free", since=float(n)) for n in range(2)))
    put(found, *(reserved(f"f{n}", 1, "fair", since=float(n)) for n in range(6)))
    put(found, workload("w", 1, queue="new"))
    assert in_words(cycle(found)["w"]) == "preempts guest-1"
    found = state(*queues, policy=FAIR)
    put(found, workload("zero", 8, queue="free", priority=9), workload("one", 8, queue="fair", created=5.0))
    assert admitted(found) == ["one"]


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        (tuple(Strategy), "preempts big"),
        ((Strategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,), "WaitingForQuota"),
        ((Strategy.LESS_THAN_INITIAL_SHARE,), "preempts big"),
    ],
    ids=["both", "only while the other keeps as much", "only who has more than it would have"],
)
def test_strategies_say_whether_one_large_workload_may_be_preempted_for_a_smaller_one(
    strategies: tuple[Strategy, ...], expected: str
) -> None:
    rules = Preemption(reclaim_within_cohort="Any")
    queues = [cluster_queue(name, 0, cohort="all", preemption=rules) for name in ("a", "b")]
    found = state(*queues, cluster_queue("lender", 8, cohort="all"), policy=SchedulingPolicy(fair_sharing=strategies))
    put(found, reserved("big", 8, "b"), workload("w", 3, queue="a"))
    assert in_words(cycle(found)["w"]) == expected


def test_shares_are_compared_cohort_by_cohort_down_the_tree() -> None:
    queues = [
        cluster_queue("rich", 0, cohort="left"),
        cluster_queue("poor", 0, cohort="left"),
        cluster_queue("lone", 0, cohort="right"),
        cluster_queue("lender", 9, cohort="all"),
    ]
    found = state(*queues, policy=FAIR)
    for name in ("left", "right"):
        found.set_cohort(name, Cohort(name, "all"))
    put(found, reserved("run", 4, "rich"), reserved("ran", 3, "lone"))
    for queue in ("rich", "poor", "lone"):
        put(found, workload(f"of-{queue}", 2, queue=queue))
    first = next(name for name, decision in cycle(found).items() if isinstance(decision, Reserve))
    assert first == "of-lone", "its cohort has less than the other, though poor has nothing"


# Order.


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(QueueingStrategy.BEST_EFFORT_FIFO, ["second", "third"]), (QueueingStrategy.STRICT_FIFO, [])],
)
def test_whether_others_pass_a_head_that_does_not_fit(strategy: QueueingStrategy, expected: list[str]) -> None:
    found = state(cluster_queue("a", 4, strategy=strategy))
    put(found, reserved("run", 2, "a"), workload("first", 3), workload("second", 1, created=1.0))
    put(found, workload("third", 1, created=2.0))
    assert admitted(found) == expected


def test_a_workload_waits_untouched_until_something_that_could_let_it_in_changes() -> None:
    found = state(cluster_queue("a", 4), cluster_queue("b", 4))
    put(found, reserved("run", 3, "a"), reserved("else", 3, "b"), workload("w", 2))
    assert admitted(found) == []
    for change in (
        lambda: found.set_workload(Key("ns", "else"), None),
        lambda: put(found, workload("later", 9, queue="b")),
        lambda: found.set_flavor("unused", ResourceFlavor("unused")),
    ):
        change()
        assert "w" not in {head.workload.key.name for head in found.heads(NOW)}
        assert admitted(found) == []
    found.set_workload(Key("ns", "run"), None)
    assert admitted(found) == ["w"]
