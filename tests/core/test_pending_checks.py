"""Preemption of and by a workload that has reserved quota and waits for its checks: as for one that is admitted."""

from __future__ import annotations

import pytest

from core.model import AdmissionCheck, CheckRule, CheckState, Condition, Key, Preemption, Reserve, StayPending, Workload
from core.model.workload import replace
from core.state.state import State
from core.workload import transitions
from tests.builders import NOW, cluster_queue, cycle, put, reserved, state, workload

PENDING = (CheckState("nodes", "Pending"),)


def queues(nominal: int = 2) -> State:
    """A ClusterQueue with a check, in which workloads of higher priority preempt others."""
    rules = (CheckRule("nodes"),)
    found = state(cluster_queue("a", nominal, preemption=Preemption("LowerPriority"), checks=rules))
    found.set_admission_check("nodes", AdmissionCheck("nodes", "controller", active=True))
    return found


def checked(name: str, cpu: int = 2, *, state: str = "Pending", priority: int = 0, since: float = 0.0) -> Workload:
    """A workload that holds quota, and has not been admitted because of its check."""
    held = reserved(name, cpu, "a", priority=priority, checks=(CheckState("nodes", state),))
    return replace(held, conditions=(Condition("QuotaReserved", True, since=since),))


def victims(decision: object) -> list[str]:
    assert isinstance(decision, StayPending)
    return [victim.workload.key.name for victim in decision.victims]


def test_a_workload_that_waits_for_its_checks_is_preempted() -> None:
    found = put(queues(), checked("low"), workload("high", 2, priority=1))
    assert victims(cycle(found)["high"]) == ["low"]


def test_its_checks_begin_again_after_the_preemption() -> None:
    after = transitions.preempted(checked("low", state="Ready"), "InClusterQueue", "for another", NOW)
    assert [(each.state, each.retry_count) for each in after.checks] == [("Pending", 0)]
    assert after.holds("QuotaReserved")
    assert not transitions.released(after, NOW).holds("QuotaReserved")


@pytest.mark.parametrize(
    ("waits", "runs", "victim"),
    [
        pytest.param({"priority": 0}, {"priority": 1}, "waits", id="the lower priority goes first"),
        pytest.param({"priority": 1}, {"priority": 0}, "runs", id="although the other one runs already"),
        pytest.param({"since": 1.0}, {"since": 2.0}, "runs", id="of one priority the later reservation"),
        pytest.param({"since": 2.0}, {"since": 1.0}, "waits", id="which may be the one that waits"),
    ],
)
def test_no_victim_is_preferred_because_it_waits_for_checks(
    waits: dict[str, float], runs: dict[str, float], victim: str
) -> None:
    given = checked("waits", 2, priority=int(waits.get("priority", 0)), since=waits.get("since", 0.0))
    running = reserved("runs", 2, "a", priority=int(runs.get("priority", 0)), since=runs.get("since", 0.0))
    found = put(queues(4), given, running, workload("high", 2, priority=9))
    assert victims(cycle(found)["high"]) == [victim]


def test_a_workload_preempts_others_before_its_checks_are_ready() -> None:
    """The checks are asked when quota is reserved, which needs the preemption."""
    found = put(queues(), reserved("low", 2, "a"), workload("high", 2, priority=1, checks=PENDING))
    assert victims(cycle(found)["high"]) == ["low"]
    found.set_workload(Key("ns", "low"), None)
    decision = cycle(found)["high"]
    assert isinstance(decision, Reserve)
    assert not decision.admitted


@pytest.mark.parametrize("failed", ["Retry", "Rejected"])
def test_a_workload_with_a_failed_check_preempts_nobody(failed: str) -> None:
    checks = (CheckState("nodes", failed),)
    found = put(queues(), reserved("low", 2, "a"), workload("high", 2, priority=1, checks=checks))
    decision = cycle(found)["high"]
    assert victims(decision) == []


def test_a_workload_that_waits_for_its_checks_preempts_nobody_more() -> None:
    found = put(queues(), checked("high", priority=9), workload("low", 2))
    decisions = cycle(found)
    assert list(decisions) == ["low"]
    assert victims(decisions["low"]) == []
