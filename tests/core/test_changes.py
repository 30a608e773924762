"""After any changes in any order, State is consistent, cycles end, and no workload that fits is left waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.model import (
    AdmissionCheck,
    CheckRule,
    Cohort,
    Condition,
    Decision,
    FlavorResource,
    Key,
    LocalQueue,
    Quota,
    Requirement,
    Reserve,
    ResourceFlavor,
    Selector,
    StayPending,
    StopPolicy,
)
from core.model.workload import replace
from core.scheduling.cycle import schedule
from core.state.drain import drain, drain_in_steps
from core.state.state import State
from tests.core.worlds import FLAVORS, RESOURCES, cluster_queues, copy, quotas, workloads, worlds
from tests.effort import cases

NOW = 100.0


def some(draw: st.DrawFn, table: dict[Any, Any]) -> Any:
    return draw(st.sampled_from(sorted(table)))


def comes(draw: st.DrawFn, state: State) -> None:
    workload = draw(workloads(draw(st.integers(20, 40)), f"q{draw(st.integers(0, 4))}"))
    state.set_workload(workload.key, workload)


def goes(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        state.set_workload(some(draw, state.workloads), None)


def is_evicted(draw: st.DrawFn, state: State) -> None:
    """A workload loses its quota, as its object shows it."""
    if state.workloads:
        key = some(draw, state.workloads)
        state.unassume(key)
        state.set_workload(key, replace(state.workloads[key], admission=None, conditions=()))


def is_deactivated(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        key = some(draw, state.workloads)
        state.set_workload(key, replace(state.workloads[key], active=not state.workloads[key].active))


def is_prioritized(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        key = some(draw, state.workloads)
        state.set_workload(key, replace(state.workloads[key], priority=draw(st.integers(0, 5))))


def finishes(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        key = some(draw, state.workloads)
        done = (*state.workloads[key].conditions, Condition("Finished", True))
        state.set_workload(key, replace(state.workloads[key], conditions=done))


def backs_off(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        key = some(draw, state.workloads)
        at = draw(st.sampled_from([50.0, 150.0]))
        state.set_workload(key, replace(state.workloads[key], requeue_at=at))


def queue_changes(draw: st.DrawFn, state: State) -> None:
    name = f"q{draw(st.integers(0, 4))}"
    state.set_cluster_queue(name, draw(st.none() | cluster_queues(name)))


def queue_stops(draw: st.DrawFn, state: State) -> None:
    key = Key("ns", f"q{draw(st.integers(0, 4))}")
    stop = draw(st.sampled_from(list(StopPolicy)))
    state.set_local_queue(key, LocalQueue(key, key.name, stop_policy=stop))


def cohort_changes(draw: st.DrawFn, state: State) -> None:
    name = draw(st.sampled_from(["c0", "c1", "c2"]))
    parent = draw(st.sampled_from(["", "c0", "c1", "c2"]))
    state.set_cohort(name, draw(st.none() | st.builds(Cohort, st.just(name), st.just(parent), quotas())))


def cohort_lends(draw: st.DrawFn, state: State) -> None:
    """A Cohort that no ClusterQueue is in brings quota into a tree, or takes it away."""
    parent = draw(st.sampled_from(["", "c0", "c1", "c2"]))
    plenty = {FlavorResource(flavor, resource): Quota(9) for flavor in FLAVORS for resource in RESOURCES}
    state.set_cohort("bank", draw(st.sampled_from([None, Cohort("bank", parent, plenty)])))


def namespace_changes(draw: st.DrawFn, state: State) -> None:
    state.set_namespace("ns", draw(st.sampled_from([None, {}, {"team": "a"}])))


def check_changes(draw: st.DrawFn, state: State) -> None:
    check = st.builds(AdmissionCheck, st.just("check"), st.just("example.com/check"), st.booleans())
    state.set_admission_check("check", draw(st.none() | check))


def queue_is_respecified(draw: st.DrawFn, state: State) -> None:
    """What a ClusterQueue asks for beside quota."""
    if state.reservations.cluster_queues:
        name = some(draw, dict(state.reservations.cluster_queues))
        queue = state.reservations.cluster_queues[name]
        change: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"checks": (CheckRule("check"),)},
                    {"checks": ()},
                    {"namespace_selector": Selector((Requirement("team", "In", ("a",)),))},
                    {"namespace_selector": Selector()},
                    {"stop_policy": StopPolicy.HOLD},
                    {"stop_policy": StopPolicy.NONE},
                    {"deleting": True},
                    {"deleting": False},
                ]
            )
        )
        state.set_cluster_queue(name, replace(queue, **change))


def local_queue_moves(draw: st.DrawFn, state: State) -> None:
    key = Key("ns", f"q{draw(st.integers(0, 4))}")
    state.set_local_queue(key, draw(st.none() | st.builds(LocalQueue, st.just(key), st.sampled_from(["q0", "q1"]))))


def pods_get_ready(draw: st.DrawFn, state: State) -> None:
    for key, workload in list(state.workloads.items()):
        if workload.holds("Admitted") and not workload.holds("PodsReady"):
            ready = (*workload.conditions, Condition("PodsReady", True))
            state.set_workload(key, replace(workload, conditions=ready))


def write_fails(draw: st.DrawFn, state: State) -> None:
    if state.workloads:
        state.unassume(some(draw, state.workloads))


def flavor_changes(draw: st.DrawFn, state: State) -> None:
    state.set_flavor("fb", draw(st.sampled_from([None, ResourceFlavor("fb"), ResourceFlavor("fb", {"a": "b"})])))


def time_passes(draw: st.DrawFn, state: State) -> None:
    for _ in drain(state, state.policy, NOW):
        state.check()


def something_changes_during_a_cycle(draw: st.DrawFn, state: State) -> None:
    """As in the controller, which lets others run between two looks at heads."""
    left = draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(CHANGES[:-2])), min_size=1, max_size=3))
    for step in drain_in_steps(state, state.policy, NOW):
        if left and step is None:
            patience, change = left[0]
            if patience:
                left[0] = (patience - 1, change)
            else:
                change(draw, state)
                state.check()
                left.pop(0)


CHANGES: list[Callable[[st.DrawFn, State], None]] = [
    comes,
    comes,
    goes,
    is_evicted,
    is_deactivated,
    is_prioritized,
    finishes,
    backs_off,
    queue_changes,
    queue_stops,
    cohort_changes,
    cohort_lends,
    flavor_changes,
    namespace_changes,
    check_changes,
    queue_is_respecified,
    local_queue_moves,
    pods_get_ready,
    write_fails,
    time_passes,
    something_changes_during_a_cycle,
]


@st.composite
def histories(draw: st.DrawFn) -> State:
    state = draw(worlds())
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=12)):
        change(draw, state)
        state.check()
    return state


def comes_to_rest(state: State) -> None:
    """Run cycles until nothing comes of them; victims go at once."""
    for _ in range(40):
        victims = [
            victim.workload.key
            for plan in drain(state, state.policy, NOW + 2)
            for decision in plan.decisions
            if isinstance(decision, StayPending)
            for victim in decision.victims
        ]
        if not victims:
            break
        for key in victims:
            state.set_workload(key, None)
        state.check()
    else:
        raise AssertionError("preemption goes on and on")
    while list(drain(state, state.policy, NOW + 10)):  # what was to be woken a second later
        state.check()


def next_cycle(state: State) -> tuple[Decision, ...]:
    """What a State built afresh from the same objects decides next."""
    anew = copy(state)
    for key in state.workloads:
        held = state.reservations.get(key)
        if held is not None:
            anew.set_workload(key, held.workload)
    return schedule(anew.snapshot(), anew.heads(NOW + 10), anew.policy, NOW + 10).decisions


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_after_any_history_cycles_come_to_rest_and_nobody_who_fits_is_left_waiting(state: State) -> None:
    comes_to_rest(state)
    left = [decision.workload.key for decision in next_cycle(state) if isinstance(decision, Reserve)]
    assert left == [], f"{left} would fit, and wait"


@settings(max_examples=cases(20, 200), suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.data())
def test_whatever_changes_all_who_would_be_admitted_by_a_state_built_afresh_are_looked_at(
    state: State, data: st.DataObject
) -> None:
    """Each change comes when all that wait are parked: it must wake those that it lets in by itself."""
    for change in CHANGES[1:-2]:
        lived = copy(state)
        comes_to_rest(lived)
        change(data.draw, lived)  # type: ignore[arg-type]  # hypothesis has no public name for this
        comes_to_rest(lived)
        found = [each.workload.key for each in next_cycle(lived) if isinstance(each, Reserve) or each.victims]
        assert found == [], f"not looked at after {change.__name__}"
