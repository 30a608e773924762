"""What a cycle costs follows the heads that are looked at, not those that wait behind them. (Ratios of one run.)"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from bench.cycle import NOW, cluster
from core.cycle import schedule
from core.state import State


def looking(state: State) -> Callable[[], None]:
    """A whole cycle, heads and snapshot and plan, that is not applied."""

    def look() -> None:
        heads = state.heads(NOW)
        assert heads
        assert len(schedule(state.snapshot(), heads, state.policy, NOW).decisions) == len(heads)

    return look


def times(one: Callable[[], None], other: Callable[[], None]) -> tuple[float, float]:
    """The least CPU time of each, taken by turns so that the machine does to both what it does."""
    least = [float("inf"), float("inf")]
    gc.collect()
    gc.disable()
    try:
        for _ in range(15):
            for index, look in enumerate((one, other)):
                start = time.process_time()
                look()
                least[index] = min(least[index], time.process_time() - start)
    finally:
        gc.enable()
    return least[0], least[1]


def test_a_hundred_times_as_many_pending_workloads_do_not_make_a_cycle_dearer() -> None:
    few, many = (cluster(queues=100, cohorts=5, pending=pending, admitted=2_000) for pending in (300, 30_000))
    small, large = times(looking(few), looking(many))
    assert large < 1.5 * small, f"{large * 1000:.2f} ms with 30,000 pending, {small * 1000:.2f} ms with 300"


def test_a_cycle_costs_in_proportion_to_the_heads_it_looks_at() -> None:
    few, many = (cluster(queues=queues, cohorts=5, pending=queues * 3, admitted=queues) for queues in (50, 500))
    small, large = times(looking(few), looking(many))
    assert large < 2 * 10 * small, f"{large * 1000:.2f} ms for 500 heads, {small * 1000:.2f} ms for 50"
