"""A workload with a closed preemption gate is admitted to free quota, and preempts nobody."""

from __future__ import annotations

from typing import Any

import pytest

from core.actions import Patch
from core.model import GateState, Preemption, Requeue, Reserve, StayPending
from core.model.workload import replace
from core.quota.usage import Freed
from core.state.drain import drain
from core.state.state import State
from core.state.surroundings import surroundings
from core.wire import decode
from core.wire.conditions import status_patch
from core.workload import transitions
from core.workload.lifecycle import next_step
from tests.builders import NOW, cluster_queue, cycle, put, reserved, state, workload

GATE = "kueue.x-k8s.io/multikueue"
OTHER = "example.com/gate"


def opened(*names: str) -> tuple[GateState, ...]:
    return tuple(GateState(name, open=True) for name in names)


GATED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "without gates": ({}, ()),
    "a gate without a state is closed": ({"preemption_gates": (GATE,)}, (GATE,)),
    "a closed gate": ({"preemption_gates": (GATE,), "gate_states": (GateState(GATE, open=False),)}, (GATE,)),
    "an open gate": ({"preemption_gates": (GATE,), "gate_states": opened(GATE)}, ()),
    "one of two is closed": ({"preemption_gates": (GATE, OTHER), "gate_states": opened(GATE)}, (OTHER,)),
    "a state without a gate": ({"gate_states": (GateState(GATE, open=False),)}, ()),
}


@pytest.mark.parametrize("case", GATED)
def test_a_workload_preempts_if_all_its_gates_are_open(case: str) -> None:
    fields, closed = GATED[case]
    found = state(cluster_queue("a", 2, preemption=Preemption("LowerPriority")))
    put(found, reserved("low", 2, "a"), workload("high", 2, priority=1, **fields))
    decision = cycle(found)["high"]
    assert isinstance(decision, StayPending)
    assert decision.workload.closed_gates == closed
    if not closed:
        assert [victim.workload.key.name for victim in decision.victims] == ["low"]
        return
    assert (decision.victims, decision.gated, decision.requeue) == ((), True, Requeue.PARKED)
    assert (decision.reason, decision.message) == ("AdmissionGated", "Workload requires preemption, but it's gated")


def idle(found: State) -> None:
    """Decides until all are parked."""
    for _ in drain(found, found.policy, NOW):
        pass
    assert cycle(found) == {}


def test_a_gated_workload_takes_free_quota() -> None:
    found = put(state(cluster_queue("a", 2)), workload("w", 2, preemption_gates=(GATE,)))
    assert isinstance(cycle(found)["w"], Reserve)


def test_a_gated_workload_is_decided_again_when_its_gate_opens() -> None:
    found = state(cluster_queue("a", 2, preemption=Preemption("LowerPriority")))
    gated = workload("high", 2, priority=1, preemption_gates=(GATE,))
    put(found, reserved("low", 2, "a"), gated)
    idle(found)
    put(found, replace(gated, gate_states=opened(GATE)))
    decision = cycle(found)["high"]
    assert isinstance(decision, StayPending)
    assert len(decision.victims) == 1


def test_a_gated_workload_takes_quota_that_is_released_while_it_waits() -> None:
    found = state(cluster_queue("a", 2, preemption=Preemption("LowerPriority")))
    low = reserved("low", 2, "a")
    put(found, low, workload("high", 2, priority=1, preemption_gates=(GATE,)))
    idle(found)
    assert found.pending.queues["a"].wake(Freed(frozenset({"memory"}))) is False, "it does not ask for that"
    found.set_workload(low.key, None)
    assert isinstance(cycle(found)["high"], Reserve)


def test_a_gated_workload_that_left_or_whose_gate_opened_is_not_woken_again() -> None:
    found = state(cluster_queue("a", 2, preemption=Preemption("LowerPriority")))
    gated = [workload(name, 2, priority=1, preemption_gates=(GATE,)) for name in ("first", "second")]
    put(found, reserved("low", 2, "a"), *gated)
    idle(found)
    put(found, replace(gated[0], gate_states=opened(GATE)))
    found.set_workload(gated[1].key, None)
    found.check()
    assert found.pending.queues["a"].wake(Freed(frozenset({"cpu"}))) is False


def test_gates_get_a_state_and_states_without_a_gate_disappear() -> None:
    found = state(cluster_queue("a", 2))
    gated = workload("w", 1, preemption_gates=(GATE, OTHER), gate_states=opened(GATE, "gone"), resource_version="1")
    step = next_step(gated, surroundings(found, gated, NOW))
    assert isinstance(step, Patch) and step.after is not None
    assert step.after.gate_states == (GateState(GATE, open=True), GateState(OTHER, open=False, since=NOW))
    patch = status_patch(gated, step.after)
    assert patch is not None
    assert patch["status"]["preemptionGates"][1] == {
        "name": OTHER,
        "position": "Closed",
        "lastTransitionTime": "1970-01-01T00:16:40Z",
    }


def test_what_the_cycle_reports_of_a_preemption_gate_stays_and_is_no_admission_gate() -> None:
    found = put(state(cluster_queue("a", 2)), gated := workload("w", 1, preemption_gates=(GATE,)))
    gated = transitions.with_gate_states(replace(gated, resource_version="1"), NOW)
    waits = transitions.waiting(gated, "AdmissionGated", "Workload requires preemption, but it's gated", NOW)
    waits = transitions.preemption_gated(waits, "Workload requires preemption, but it's gated", NOW)
    blocked = waits.condition("BlockedOnPreemptionGates")
    assert blocked is not None
    assert (blocked.status, blocked.reason) == (True, "PreemptionGated")
    assert not isinstance(next_step(waits, surroundings(found, waits, NOW)), Patch)


def test_an_eviction_closes_all_gates() -> None:
    held = replace(reserved("w", 1, "a"), preemption_gates=(GATE,), gate_states=opened(GATE))
    after = transitions.evicted(held, "Preempted", "", NOW)
    assert after.gate_states == (GateState(GATE, open=False, since=NOW),)


def test_gates_are_read_only_with_the_feature() -> None:
    raw = {
        "metadata": {"namespace": "ns", "name": "w"},
        "spec": {"preemptionGates": [{"name": GATE}]},
        "status": {
            "preemptionGates": [{"name": GATE, "position": "Open", "lastTransitionTime": "1970-01-01T00:00:01Z"}]
        },
    }
    on, off = (decode.workload(raw, decode.WorkloadContext(preemption_gates=given)) for given in (True, False))
    assert (on.preemption_gates, on.gate_states) == ((GATE,), (GateState(GATE, open=True, since=1.0),))
    assert (off.preemption_gates, off.gate_states) == ((), ())
