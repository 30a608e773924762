"""The forecast agrees with what the cycle then does, is unknown where it cannot be known, and ends in bounded time."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from api.objects import Key
from core.forecast import forecast as forecasts
from core.forecast.forecast import forecast, forecast_in_steps
from core.forecast.run_times import UNKNOWN, RunTime, RunTimes, constant, elapsed, known, limit
from core.forecast.situation import situation, with_workloads
from core.model import AdmissionCheck, CheckRule, Preemption, StayPending, Workload
from core.model.forecast import StartForecast
from core.scheduling.cycle import schedule
from core.simulation.simulation import Arrival, Simulation
from core.state.drain import drain
from core.state.state import State
from tests.builders import cluster_queue, put, reserved, state, workload
from tests.core.worlds import worlds

START = 1_000_000.0


def starts_of(found: State, run_times: RunTimes | None = None, budget: int | None = None) -> dict[str, StartForecast]:
    """The forecasts of a State with one arena, by the workload's name."""
    (arena,) = found.reservations.arenas
    starts = forecast(situation(found, arena, START), run_times or constant(60.0), budget=budget).starts
    return {key.name: each for key, each in starts.items()}


def line(*names: str, cpu: int = 1) -> list[Workload]:
    return [workload(name, cpu, created=float(number)) for number, name in enumerate(names)]


@settings(max_examples=100, deadline=None, phases=[Phase.generate])  # a world takes minutes to shrink
@given(worlds(occupied=False), st.data())
def test_with_known_run_times_each_workload_starts_in_the_second_of_the_forecast(
    lived: State, data: st.DataObject
) -> None:
    workloads = [replace(each, created=START + each.created) for each in lived.workloads.values()]
    for key in list(lived.workloads):
        lived.set_workload(key, None)
    total = {each.key: float(data.draw(st.integers(1, 50))) for each in workloads}
    simulation = Simulation(lived, [Arrival(0.0, each, total[each.key]) for each in workloads], start=START)
    until, now = data.draw(st.integers(0, 60)), 0.0
    while (at := simulation.next(now)) is not None and at <= until:
        now = at
        simulation.advance(now)
        simulation.schedule(now)
    run_times = known(lambda each: total[each.key])
    told: dict[Key, StartForecast] = {}
    for arena in lived.reservations.arenas:
        told |= forecast(situation(lived, arena, START + now), run_times).starts
    begun = {key: len(course.attempts) for key, course in simulation.timeline.courses.items()}
    moment, played = now, 0
    while (at := simulation.next(now)) is not None and played < 500:
        now, played = at, played + 1
        simulation.advance(now)
        simulation.schedule(now)
    if played == 500 or max(len(course.attempts) for course in simulation.timeline.courses.values()) > 5:
        return  # workloads preempt each other again and again: State delays them, and a restart forgets that
    for key, each in told.items():
        later = simulation.timeline.courses[key].attempts[begun[key] :]
        assert each.p50 == (later[0].started - moment if later else None), each


@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(worlds(occupied=False), st.data())
def test_what_a_long_forecast_does_not_decide_again_could_not_start(lived: State, data: st.DataObject) -> None:
    for arena in lived.reservations.arenas:
        about = situation(lived, arena, START)
        quick = about.state(explains=False)
        there = [Arrival(0.0, each, float(data.draw(st.integers(1, 50)))) for each in about.waiting]
        simulation, now, played = Simulation(quick, there, start=START), 0.0, 0
        while (at := simulation.next(now)) is not None and played < 100:
            now, played = at, played + 1
            simulation.advance(now)
            simulation.schedule(now)
            quick.check()
            if quick.next_wake(START + now) is not None:
                continue  # something is put off, which another State does not know
            found = situation(quick, arena, START + now)
            again = found.state()
            for each in (*found.holding, *found.waiting):
                again.set_workload(each.key, each)
            for plan in drain(again, again.policy, START + now):
                assert not [each for each in plan.decisions if not isinstance(each, StayPending) or each.victims]


def test_a_long_forecast_decides_again_who_could_preempt() -> None:
    found = put(
        state(cluster_queue("q", 2, preemption=Preemption("LowerPriority"))),
        reserved("runs", 1, "q", since=START, priority=1),
        workload("high", 2, priority=1),
        workload("low", 1),
    )
    (arena,) = found.reservations.arenas
    quick = situation(found, arena, START).state(explains=False)
    there = [Arrival(0.0, each, 10.0 if each.key.name == "runs" else 90.0) for each in found.workloads.values()]
    simulation, now = Simulation(quick, there, start=START), 0.0
    while (at := simulation.next(now)) is not None and at < 50.0:
        now = at
        simulation.advance(now)
        simulation.schedule(now)
    started = {key.name: course.attempts[0].started for key, course in simulation.timeline.courses.items()}
    assert started == {"runs": 0.0, "low": 0.0, "high": 10.0}


def test_those_behind_others_start_one_after_the_other() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START - 10), *line("a", "b"))
    told = starts_of(found, known(lambda each: 40.0))
    assert [told[name].p50 for name in "ab"] == [30.0, 70.0]
    assert [told[name].after for name in "ab"] == [Key("ns", "runs"), Key("ns", "a")]
    assert told["a"].flavors == ("default",)
    assert "1m more needed" in told["a"].waits_for
    assert not found.workloads[Key("ns", "a")].conditions, "State is not changed"


def test_of_run_times_that_spread_the_start_is_an_interval() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START), *line("a", "b"))
    told = starts_of(found, lambda each, ran: RunTime((100.0, 200.0, 300.0), "others"))
    first = told["a"]
    assert first.p10 is not None and first.p50 is not None and first.p90 is not None
    assert 100 <= first.p10 < 160 < first.p50 < 240 < first.p90 <= 300
    assert (told["b"].p90 or 0) > first.p90
    assert first.rests_on == "others"


def test_what_starts_at_once_is_known_after_one_run() -> None:
    found = put(state(cluster_queue("q", 2)), reserved("runs", 1, "q", since=START), *line("a"))
    (arena,) = found.reservations.arenas
    asked, spread = situation(found, arena, START), RunTime((100.0, 300.0), "others")
    told = forecast(asked, lambda each, ran: spread)
    assert (told.runs, told.final) == (1, True)
    assert [told.starts[Key("ns", "a")].p10, told.starts[Key("ns", "a")].p90] == [0.0, 0.0]
    over = RunTime((0.0, 300.0), "others")
    assert forecast(asked, lambda each, ran: over).runs > 1, "the other may have ended by then"
    put(found, workload("b", 1, created=9.0))
    assert forecast(situation(found, arena, START), lambda each, ran: spread).runs > 1, "one of them waits"


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(worlds(), st.data())
def test_for_those_that_start_at_once_one_run_is_as_good_as_many(lived: State, data: st.DataObject) -> None:
    drawn = st.sampled_from([UNKNOWN, RunTime((10.0, 90.0), "others"), RunTime((0.0, 90.0), "others")])
    lasts = [data.draw(drawn) for _ in range(3)]
    run_times = lambda each, ran: lasts[sum(map(ord, each.key.name)) % 3]  # noqa: E731
    for arena in lived.reservations.arenas:
        about = situation(lived, arena, START)
        only = {each.key for each in about.waiting if data.draw(st.booleans())}
        told = forecast(about, run_times, only=only)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecasts._Forecasting, "_at_once", lambda self, run: False)
            many = forecast(about, run_times, only=only)
        assert told.starts == many.starts
        assert told.runs in (1, many.runs)


def test_what_depends_on_an_unknown_run_time_is_unknown_and_nothing_else_is() -> None:
    found = state(cluster_queue("q", 2))
    put(found, reserved("mystery", 1, "q", since=START), reserved("runs", 1, "q", since=START), *line("a", "b", cpu=1))
    put(found, workload("wide", 2, created=9.0))
    told = starts_of(found, lambda each, ran: UNKNOWN if each.key.name == "mystery" else RunTime((60.0,), "known"))
    assert told["wide"].p50 is None
    assert told["wide"].unknown == "it depends on how long 1 workload will run, of which nothing is known"
    assert (told["b"].p10, told["b"].p90) == (60.0, 120.0), "with the mystery ending at once, and never"


def test_a_limit_of_the_execution_time_is_an_upper_limit_of_what_is_known() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START - 10, max_execution=100), *line("a"))
    told = starts_of(found, lambda each, ran: RunTime((500.0,), "others") if each.key.name == "runs" else UNKNOWN)
    assert told["a"].p50 == 90.0
    told = starts_of(found, lambda each, ran: UNKNOWN)
    assert told["a"].p90 is not None and 45 < told["a"].p90 <= 90


def test_the_limit_counts_earlier_admissions() -> None:
    runs = reserved("runs", 1, "q", since=START - 10, max_execution=100, past_execution=30)
    assert limit(runs, elapsed(runs, START)) == 60.0


def test_what_never_starts_says_why() -> None:
    told = starts_of(put(state(cluster_queue("q", 1)), workload("large", 2)))
    assert told["large"].p50 is None
    assert told["large"].unknown.startswith("it does not start as things are: ")
    assert "insufficient quota" in told["large"].unknown


def test_what_starts_in_a_worker_cluster_is_unknown_here() -> None:
    found = state(cluster_queue("q", 1, checks=(CheckRule("workers"),)))
    found.set_admission_check("workers", AdmissionCheck("workers", "kueue.x-k8s.io/multikueue", active=True))
    told = starts_of(put(found, workload("a", 1)))
    assert told["a"].unknown == "it starts in a worker cluster"


def test_the_budget_ends_a_forecast_and_what_was_not_reached_is_unknown() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START), *line(*"abcdef"))
    told = starts_of(found, budget=3)
    assert told["a"].p50 == 60.0
    assert told["f"].unknown == "the forecast was not played to its end"


def test_a_long_queue_has_a_coarse_answer_first_and_an_exact_one_then() -> None:
    names = [f"w{number:04}" for number in range(forecasts.LONG_QUEUE + 1)]
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START), *line(*names))
    (arena,) = found.reservations.arenas
    steps = forecast_in_steps(situation(found, arena, START), constant(61.0))
    first, last = (step for step in steps if step is not None)
    exact = [last.starts[Key("ns", name)].p50 for name in names]
    assert exact == [61.0 * (place + 1) for place in range(len(names))]
    rough = [first.starts[Key("ns", name)] for name in names]
    assert all(each.coarse for each in rough)
    assert all(abs((each.p50 or 0) - (true or 0)) <= 0.2 * (true or 0) for each, true in zip(rough, exact, strict=True))
    assert first.final is False and last.final is True


def test_the_same_seed_gives_the_same_forecast_and_another_one_another() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START), *line("a"))
    (arena,) = found.reservations.arenas
    asked = situation(found, arena, START)
    spread = lambda each, ran: RunTime((100.0, 300.0), "others")  # noqa: E731
    assert forecast(asked, spread, 1) == forecast(asked, spread, 1) != forecast(asked, spread, 2)


def test_a_job_that_does_not_exist_yet_can_be_asked_about() -> None:
    found = put(state(cluster_queue("q", 1)), reserved("runs", 1, "q", since=START))
    (arena,) = found.reservations.arenas
    asked = with_workloads(situation(found, arena, START), [workload("new", 1, created=START)])
    told = forecast(asked, constant(60.0)).starts[Key("ns", "new")]
    assert told.p50 == 60.0
    assert told.remaining(START + 20) == (40.0, 40.0, 40.0)


def test_a_workload_that_is_being_preempted_waits_and_its_quota_is_free() -> None:
    found = put(
        state(cluster_queue("q", 1, preemption=Preemption("LowerPriority"))), reserved("low", 1, "q", since=START)
    )
    put(found, workload("high", 1, priority=1))
    plan = schedule(found.snapshot(), found.heads(START), found.policy, START)
    found.apply(plan)
    told = starts_of(found)
    assert told["high"].p50 == 0.0
