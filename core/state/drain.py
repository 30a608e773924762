"""Cycle after cycle on State, until no head makes progress."""

from __future__ import annotations

from collections.abc import Iterator

from core.model import Decision, Plan, Requeue, StayPending
from core.model.policy import SchedulingPolicy
from core.scheduling.cycle import schedule_in_steps
from core.state.state import State

IDLE_CYCLES = 1_000
"""A drain ends after this number of consecutive cycles without a reservation, a preemption or a parked workload.
Searches for flavors stop much earlier, when they reach a flavor for the second time (``QueueEntry.continue_search``).
"""


def drain(state: State, policy: SchedulingPolicy, now: float) -> Iterator[Plan]:
    """Plan after plan, each applied to ``state``, until no head makes progress."""
    return (step for step in drain_in_steps(state, policy, now) if step is not None)


def drain_in_steps(state: State, policy: SchedulingPolicy, now: float) -> Iterator[Plan | None]:
    """As ``drain``, in steps: yields None after every nominated head and every applied decision, and a plan at the end
    of every cycle.

    After a None the caller may change ``state``: the cycle continues on its snapshot, and a decision about a workload
    that changed meanwhile is void (``State.apply``). The caller may stop after any plan and drain again later. After
    ``IDLE_CYCLES`` cycles without progress the arenas are idle until something in them changes.
    """
    idle = 0
    while idle < IDLE_CYCLES:
        heads = state.heads(now)
        if not heads:
            return
        snapshot = state.snapshot()
        plan = yield from schedule_in_steps(snapshot, heads, policy)
        state.release(snapshot)
        yield from state.applying(plan)
        yield plan
        idle = idle + 1 if all(_idle(decision) for decision in plan.decisions) else 0
    state.stop_until_changed()


def _idle(decision: Decision) -> bool:
    return isinstance(decision, StayPending) and not decision.victims and decision.requeue is Requeue.HEAP
