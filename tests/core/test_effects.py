"""Whom an administrator's change hits: what is said agrees with what the cycle then does."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from api.names import PreemptionPolicy
from api.objects import Key
from core.forecast.effects import effects, with_forecasts
from core.forecast.forecast import forecast
from core.forecast.run_times import constant
from core.forecast.situation import Situation, around
from core.model import ClusterQueue, Preemption, StopPolicy
from core.model.effects import Effects
from core.state.state import State
from tests.builders import cluster_queue, put, reserved, state, workload

NOW = 1_000_000.0
RECLAIMS = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)


def of(found: State, *local_queues: Key) -> Situation:
    return around(found, found.reservations.arenas, local_queues, NOW)


def with_queue(before: Situation, queue: ClusterQueue | None, name: str = "") -> Situation:
    queues = {key: each for key, each in before.cluster_queues.items() if key != name}
    return dataclasses.replace(before, cluster_queues=queues | ({queue.name: queue} if queue is not None else {}))


def names(keys: object) -> list[str]:
    return [key.name for key in keys]  # type: ignore[attr-defined]


def two_teams() -> State:
    """Two ClusterQueues of 4 cpu in one cohort; `a` uses 4 (two of 2), one of `b` waits for 5."""
    found = state(
        cluster_queue("a", 4, cohort="all", preemption=RECLAIMS),
        cluster_queue("b", 4, cohort="all", preemption=RECLAIMS),
    )
    return put(
        found,
        reserved("old", 2, "a", since=1.0, queue="a"),
        reserved("young", 2, "a", since=2.0, queue="a"),
        workload("large", 5, queue="b"),
    )


def test_a_lower_quota_exposes_the_workload_that_is_preempted_first() -> None:
    before = of(two_teams())
    found = effects(before, with_queue(before, cluster_queue("a", 2, cohort="all", preemption=RECLAIMS)))
    assert names(found.exposed) == ["young"]
    assert not found.stopped
    assert names(found.never) == [], "the cohort still has 6 cpu"
    assert (found.running, found.waiting) == (2, 1)


def test_nothing_is_exposed_where_nobody_may_reclaim() -> None:
    lone = put(state(cluster_queue("a", 4)), reserved("old", 2, "a"), reserved("young", 2, "a", since=2.0))
    before = of(lone)
    assert effects(before, with_queue(before, cluster_queue("a", 2))).exposed == ()


def test_what_can_then_never_start_is_named_and_what_starts_at_once() -> None:
    before = of(two_teams())
    smaller = effects(before, with_queue(before, cluster_queue("b", 0, cohort="all", preemption=RECLAIMS)))
    assert names(smaller.never) == ["large"]
    assert smaller.harmful
    larger = effects(before, with_queue(before, cluster_queue("b", 5, cohort="all", preemption=RECLAIMS)))
    assert names(larger.starting) == ["large"]
    assert not larger.harmful
    assert larger.any


def test_the_same_situation_has_no_effects() -> None:
    before = of(two_teams())
    assert effects(before, before) == Effects(running=2, waiting=1)


def test_hold_and_drain_stops_what_runs_and_what_waits_never_starts() -> None:
    found = put(state(cluster_queue("a", 4)), reserved("runs", 4, "a"), workload("waits", 1))
    before = of(found)
    after = with_queue(before, cluster_queue("a", 4, stop_policy=StopPolicy.HOLD_AND_DRAIN))
    told = effects(before, after)
    assert [stop.key.name for stop in told.stopped] == ["runs"]
    assert names(told.never) == ["waits"]


def test_more_quota_for_a_preemptor_names_its_victims() -> None:
    found = put(
        state(
            cluster_queue("a", 2, cohort="all", preemption=RECLAIMS),
            cluster_queue("b", 2, cohort="all", preemption=RECLAIMS),
        ),
        reserved("borrows", 4, "a", queue="a"),
        workload("waits", 3, queue="b"),
    )
    before = of(found)
    told = effects(before, with_queue(before, cluster_queue("b", 3, cohort="all", preemption=RECLAIMS)))
    assert [(stop.key.name, stop.preemptor) for stop in told.stopped] == [("borrows", Key("ns", "waits"))]
    assert names(told.starting) == ["waits"]


def test_a_new_cluster_queue_makes_starts_possible_of_what_waits_for_it() -> None:
    found = state(cluster_queue("other", 1), local={"lq": "new"})
    put(found, workload("waits", 1), workload("large", 9))
    before = of(found, Key("ns", "lq"))
    told = effects(before, with_queue(before, cluster_queue("new", 1)))
    assert names(told.starting) == ["waits"]
    assert names(told.never) == names(told.possible) == []


def test_a_deleted_cluster_queue_leaves_its_line_without_a_start() -> None:
    found = put(state(cluster_queue("a", 1), cluster_queue("b", 1)), workload("waits", 1), workload("runs", 1))
    found.set_workload(Key("ns", "runs"), reserved("runs", 1, "a"))
    before = of(found)
    assert names(effects(before, with_queue(before, None, "a")).never) == ["waits"]


def test_starts_that_move_are_known_from_two_forecasts() -> None:
    found = put(state(cluster_queue("a", 2)), reserved("runs", 2, "a", since=NOW), workload("x", 2), workload("y", 2))
    before = of(found)
    after = with_queue(before, cluster_queue("a", 4))
    told = with_forecasts(
        effects(before, after), [forecast(before, constant(600.0))], [forecast(after, constant(600.0))]
    )
    assert names(told.starting) == ["x"]
    assert [(move.key.name, move.before, move.after) for move in told.sooner] == [("y", 1200.0, 600.0)]
    assert told.later == ()


def test_a_priority_that_falls_moves_a_start_to_later() -> None:
    found = put(state(cluster_queue("a", 2)), reserved("runs", 2, "a", since=NOW))
    put(found, workload("x", 2, priority=1, created=5.0), workload("y", 2, created=1.0))
    before = of(found)
    after = dataclasses.replace(
        before, waiting=tuple(replace(each, priority=0) if each.key.name == "x" else each for each in before.waiting)
    )
    told = with_forecasts(
        effects(before, after), [forecast(before, constant(600.0))], [forecast(after, constant(600.0))]
    )
    assert [(move.key.name, move.before, move.after) for move in told.later] == [("x", 600.0, 1200.0)]
    assert names(move.key for move in told.sooner) == ["y"]
