"""Who arrived lately is taken to arrive again: as often, in the same bursts, at other moments in each run."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.objects import Key
from core.forecast import arrivals as module
from core.forecast.arrivals import LEAST_SECONDS, MOST_OF_A_QUEUE, WINDOW_SECONDS, RecentArrivals
from core.forecast.forecast import MOST_ARRIVALS, Forecast, forecast
from core.forecast.run_times import UNKNOWN, RunTime, RunTimes, constant
from core.forecast.situation import situation
from core.forecast.sizes import SizeIndex
from core.model import Workload
from core.model.workload import replace as changed
from tests.builders import cluster_queue, put, reserved, state, workload

START = 1_000_000.0
QUEUE = Key("ns", "lq")


def arrived(*ages: float, priority: int = 0, since: float = WINDOW_SECONDS, cpu: int = 1) -> RecentArrivals:
    """What is known after workloads were created so many seconds ago."""
    found = RecentArrivals(START - since)
    for number, age in enumerate(ages):
        found.add(workload(f"old{number}", cpu, created=START - age, priority=priority))
    return found


def named(name: str, namespace: str = "ns", at: float = START) -> Workload:
    return replace(workload(name, 1, created=at), key=Key(namespace, name))


def test_the_rate_is_that_of_the_last_hours() -> None:
    (rate,) = arrived(7200, 3600, 60).rates([QUEUE, Key("ns", "other")], START).queues
    assert (rate.local_queue, rate.per_second) == (QUEUE, 3 / WINDOW_SECONDS)
    assert arrived(WINDOW_SECONDS - 10, since=WINDOW_SECONDS).rates([QUEUE], START + 20).queues == ()


def test_workloads_that_were_created_together_arrive_together() -> None:
    (rate,) = arrived(700.5, 700, 60).rates([QUEUE], START).queues
    assert [len(burst) for burst in rate.bursts] == [2, 1]
    assert rate.per_second == 2 / WINDOW_SECONDS
    drawn = list(islice(arrived(700.5, 700).rates([QUEUE], START).drawn("seed"), 10))
    assert [at for at, _ in drawn[::2]] == [at for at, _ in drawn[1::2]]


def test_nothing_is_known_of_a_short_time_and_of_what_was_created_before_it() -> None:
    assert arrived(10, since=LEAST_SECONDS - 1).rates([QUEUE], START).queues == ()
    assert len(arrived(LEAST_SECONDS + 10, since=LEAST_SECONDS)) == 0


def test_slices_and_variants_of_others_do_not_arrive() -> None:
    found = RecentArrivals(START)
    found.add(changed(named("slice"), replaces=Key("ns", "first")))
    found.add(changed(named("variant"), variant_of="parent"))
    assert len(found) == 0


def test_a_local_queue_with_many_has_the_rate_of_the_last_of_them() -> None:
    found = RecentArrivals(START - 3600)
    for number in range(MOST_OF_A_QUEUE + 50):
        found.add(named(f"w{number:03}", at=START - 1500 + 10 * number))
    assert len(found) == MOST_OF_A_QUEUE
    (rate,) = found.rates([QUEUE], START).queues
    assert rate.per_second == pytest.approx(0.1, rel=0.02)


def test_above_the_limit_the_local_queue_that_has_most_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    found = RecentArrivals(START)
    found.add(named("mine", "small"))
    for number in range(30):
        found.add(named(f"w{number}", "large"))
    assert len(found) == 10
    assert [each.key for each in found if each.key.namespace == "small"] == [Key("small", "mine")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_the_largest_is_one_that_has_most(changes: list[tuple[str, bool]]) -> None:
    sizes, counts = SizeIndex[str](), dict.fromkeys("abc", 0)
    for name, more in changes:
        if more or counts[name]:
            counts[name] += 1 if more else -1
            sizes.change(name, 1 if more else -1)
        assert sizes.total == sum(counts.values())
        if sizes.total:
            assert counts[sizes.largest()] == max(counts.values())


@given(st.integers(0, 100))
def test_arrivals_come_in_order_and_the_opposite_ones_make_up_for_them(seed: int) -> None:
    rates = arrived(*range(100, 8000, 100)).rates([QUEUE], START)
    both = [[at for at, _ in islice(rates.drawn(str(seed), opposite=odd), 400)] for odd in (False, True)]
    assert all(times == sorted(times) for times in both)
    mean = sum(times[-1] for times in both) / 2
    assert mean == pytest.approx(400 / rates.queues[0].per_second, rel=0.15)


def asked(recent: RecentArrivals, run_times: RunTimes | None = None, *, priority: int = 0) -> Forecast:
    """The forecast of one workload that waits until another one has ended."""
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START))
    put(found, workload("a", 1, created=START, priority=priority))
    (arena,) = found.reservations.arenas
    about = situation(found, arena, START)
    return forecast(about, run_times or constant(600.0), rates=recent.rates(about.local_queues, START))


def test_those_that_come_first_are_in_the_interval() -> None:
    alone = asked(RecentArrivals(START)).starts[Key("ns", "a")]
    assert (alone.p10, alone.p50, alone.p90) == (600.0, 600.0, 600.0)
    urgent = asked(arrived(*range(600, 14_400, 1800), priority=1)).starts[Key("ns", "a")]
    assert urgent.p10 == 600.0
    assert urgent.p90 is not None and urgent.p90 > 1200.0
    behind = asked(arrived(*range(600, 14_400, 1800), priority=1), priority=2).starts[Key("ns", "a")]
    assert (behind.p10, behind.p90) == (600.0, 600.0), "whoever arrives comes after it"


def test_of_whose_length_nothing_is_known_does_not_arrive() -> None:
    recent = arrived(*range(600, 14_400, 1800), priority=1)
    known: RunTimes = lambda each, ran: UNKNOWN if each.key.name.startswith("old") else RunTime((600.0,), "known")  # noqa: E731
    assert asked(recent, known).starts[Key("ns", "a")].p90 == 600.0


def test_a_workload_that_waits_behind_all_that_arrive_has_a_start_in_bounded_time() -> None:
    crowd = asked(arrived(*range(10, 14_400, 200), priority=1))
    start = crowd.starts[Key("ns", "a")]
    assert start.p50 is not None and 600 <= start.p50 <= 600.0 * MOST_ARRIVALS


def test_the_same_seed_draws_the_same_arrivals() -> None:
    recent = arrived(*range(600, 14_400, 1800), priority=1)
    assert asked(recent) == asked(recent)
