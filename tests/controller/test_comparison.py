"""Another quota is played in a process of its own: whom it hits at once, and whose start it moves."""

from __future__ import annotations

import dataclasses
import io
import sys

import pytest
from msgspec.structs import replace

from api.objects import Key
from controller.forecasts.comparison import _ask, compared
from controller.forecasts.messages import AT_ONCE, Compare, Nodes
from controller.forecasts.process import WorkerLostError
from controller.forecasts.worker import ForecastProcess, comparable
from core.forecast.edits import ObjectEdit, arenas, before_edit
from core.forecast.forecast import Forecast
from core.forecast.situation import Situation
from core.model import Node
from tests.controller.test_forecasts import START, Place, SentAlone
from tests.eventually import PATIENCE

NEXT, THIRD = Key("ns", "next"), Key("ns", "third")


def doubled(times: int = 2) -> tuple[Place, Situation, ObjectEdit]:
    """One workload runs, two wait for its quota; what if there were twice as much, or so many times as much?"""
    place = Place()
    place.put("third", "4")
    state = place.caches.state
    old = state.reservations.cluster_queues["cq"]
    new = replace(old, quotas={fr: replace(quota, nominal=times * quota.nominal) for fr, quota in old.quotas.items()})
    edit = ObjectEdit(old, new)
    before = before_edit(state, edit, arenas(state, edit), START)
    return place, before, edit


async def test_whose_start_moves_is_known_from_the_run_times() -> None:
    place, before, edit = doubled()
    place.learn(600.0)
    found, starts = await compared(before, edit, place.forecasts.run_times, seconds=PATIENCE)
    assert starts
    assert found.starting == (NEXT,)
    (moved,) = found.sooner
    assert moved.key == THIRD
    assert moved.before == pytest.approx(1200, rel=0.01)
    assert moved.after == pytest.approx(600, rel=0.01)


async def test_who_starts_at_once_after_the_edit_is_compared_although_no_more_runs_are_played_then() -> None:
    place, before, edit = doubled(3)
    for seconds in (300.0, 600.0, 900.0):
        place.learn(seconds)
    found, starts = await compared(before, edit, place.forecasts.run_times, seconds=PATIENCE)
    assert (found.starting, starts) == ((NEXT, THIRD), True)


def answers(*numbers: int, final: bool = True) -> dict[int, Forecast]:
    """Answers after so many runs, the last of them final."""
    return {runs: Forecast("a", START, {}, runs, final and runs == numbers[-1]) for runs in numbers}


def test_answers_of_equally_many_runs_are_compared_or_of_one_that_is_like_all_others() -> None:
    spread, blind, alike = answers(1, 2, 4, 8), answers(2, 4, 6), answers(1)
    assert comparable(spread, blind) == (spread[4], blind[4])
    assert comparable(blind, alike) == (blind[6], alike[1])
    assert comparable(alike, spread) == (alike[1], spread[8])
    assert comparable(answers(1, final=False), blind) is None
    assert comparable({}, alike) is None


async def test_without_run_times_it_is_known_who_is_hit_at_once() -> None:
    _, before, edit = doubled()
    found, starts = await compared(before, edit, seconds=PATIENCE)
    assert (found.starting, found.sooner, starts) == ((NEXT,), (), False)


async def test_nodes_are_sent_in_parts() -> None:
    """All in one message would hold up the event loop."""
    _, before, edit = doubled()
    names = [f"n{number}" for number in range(AT_ONCE + 20)]
    placed = dataclasses.replace(before, nodes={name: Node(name) for name in names}, others={"n1": {"cpu": 1}})
    process = SentAlone()
    await _ask(process, placed, edit, None)
    assert [len(found.nodes) for found in process.sent if isinstance(found, Nodes)] == [AT_ONCE, 20]
    (asked,) = (found for found in process.sent if isinstance(found, Compare))
    assert not asked.about.nodes
    assert not asked.about.others
    worker = ForecastProcess(io.BytesIO())
    for message in process.sent[:-1]:
        worker.take(message)
    assert worker._complete(asked.about, placed=True) == placed


@pytest.mark.parametrize("program", ["", "import sys; sys.stdin.read()"], ids=["it ends", "it does not answer"])
async def test_no_answer_in_time_is_an_error(program: str) -> None:
    _, before, edit = doubled()
    with pytest.raises(WorkerLostError):
        await compared(before, edit, command=(sys.executable, "-S", "-c", program), seconds=0.5)
