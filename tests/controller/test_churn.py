"""An object that is created again and again is created less and less often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.resources import LOCAL_QUEUES, WORKLOADS
from controller.cache.churn import FIRST_SECONDS, FORGOTTEN_SECONDS, FREE, LONGEST_SECONDS, Churn
from core.model import Key

LOOPS, OTHER = Key("ns", "loops"), Key("ns", "other")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looped(times: int) -> tuple[Churn, Clock, list[float]]:
    """A Workload that is deleted whenever it was created, and how long each creation waited."""
    clock, waits = Clock(), []
    found = Churn(clock)
    for _ in range(times):
        waits.append(found.wait(WORKLOADS, LOOPS))
        clock.now += waits[-1]
        found.created(WORKLOADS, LOOPS)
    return found, clock, waits


def test_a_loop_backs_off_to_one_creation_a_minute() -> None:
    _, _, waits = looped(FREE + 9)
    assert waits == [0.0] * FREE + [FIRST_SECONDS * 2**n for n in range(6)] + [LONGEST_SECONDS] * 3


def test_the_loop_of_one_workload_delays_no_other() -> None:
    found, _, _ = looped(20)
    assert (found.wait(WORKLOADS, OTHER), found.wait(LOCAL_QUEUES, LOOPS)) == (0.0, 0.0)


def test_a_workload_that_was_left_alone_begins_anew() -> None:
    found, clock, _ = looped(20)
    clock.now += FORGOTTEN_SECONDS
    assert found.wait(WORKLOADS, LOOPS) == 0.0
    found.created(WORKLOADS, LOOPS)
    assert (found.times(WORKLOADS, LOOPS), found.wait(WORKLOADS, LOOPS)) == (0, 0.0)


def test_only_a_loop_is_reported() -> None:
    assert [looped(times)[0].times(WORKLOADS, LOOPS) for times in (FREE - 1, FREE, FREE + 1)] == [0, FREE, FREE + 1]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.floats(0, 400)), max_size=40))
def test_what_is_remembered_is_recent(creations: list[tuple[str, float]]) -> None:
    clock = Clock()
    found = Churn(clock)
    for name, pause in creations:
        clock.now += pause
        found.created(WORKLOADS, Key("ns", name))
        assert all(clock.now - each.last < FORGOTTEN_SECONDS for each in found._created.values())
        assert 0.0 <= found.wait(WORKLOADS, Key("ns", name)) <= LONGEST_SECONDS
