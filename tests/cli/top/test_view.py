"""What the page shows and what the keys do, without a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from api.objects import Key
from cli.top import view as shown
from cli.top.model import Board, RecordChange, line, queue
from cli.top.view import Rows, View, page, pressed, scrolled
from tests.cli.top.objects import cluster_queue, condition, local_queue, running, waiting, workload

NOW = 1_577_836_800.0 + 300


def board(*lines: Any) -> Board:
    made = Board()
    queues = [queue(each) for each in (cluster_queue("cq", waiting=2, running=1), local_queue("main", "cq"))]
    made.apply([RecordChange("queue", each.key, each) for each in queues])
    made.apply([RecordChange("line", each.key, each) for each in map(line, lines)])
    return made


def screen(made: Board, view: View, width: int = 120, height: int = 14, notice: str = "") -> list[str]:
    return [
        each.text.rstrip() for each in page(made, view, Rows(lambda: 0.0).of(made, view), NOW, width, height, notice)
    ]


def keys(made: Board, *pressed_keys: str, view: View | None = None, height: int = 10) -> View:
    now = view or View()
    for each in pressed_keys:
        now = pressed(now, each, Rows(lambda: 0.0).of(made, now), height)
    return now


def test_the_first_page_has_the_queues_with_their_use() -> None:
    found = screen(board(running("r")), View())
    assert found[0].startswith("seiretsu top: queues  |  1 rows, by name")
    assert found[2].split()[:5] == ["QUEUE", "COHORT", "WAIT", "RUN", "STATE"]
    assert found[3].split() == ["cq", "all", "2", "1", "active", "cpu", "6/8", "(+2", "borrowed)", "default"]
    assert found[-1].startswith("Enter open")


def test_enter_opens_a_queue_with_who_runs_and_who_waits_and_why() -> None:
    made = board(waiting("w", "2 cpu more needed"), running("r"))
    made.positions = {Key("team-a", "job-w"): 1}
    found = screen(made, keys(made, "enter"))
    assert found[0].startswith("seiretsu top: queue cq  |  2 rows, by line")
    assert found[3].split() == ["r", "team-a", "main", "0", "running", "5m", "default"]
    assert found[4].split() == ["w", "team-a", "main", "0", "waiting", "1", "5m", "2", "cpu", "more", "needed"]


def test_enter_opens_a_job_and_escape_goes_back() -> None:
    made = board(waiting("w", "2 cpu more needed " * 20), running("r"))
    job = keys(made, "enter", "down", "enter")
    found = screen(made, job, width=60, height=24)
    assert "  workload   team-a/job-w" in found
    assert "  queue      main (ClusterQueue cq)" in found
    assert any("explain workload/job-w" in each for each in found)
    assert max(map(len, found)) <= 60
    assert keys(made, "esc", view=job).page == "queue"
    assert keys(made, "esc", "backspace", view=job).page == "queues"
    assert keys(made, "esc", "esc", "esc", "esc", view=job).page == "queues"


def test_a_filter_is_typed_and_removed() -> None:
    made = board(waiting("train"), waiting("eval"))
    typing = keys(made, "w", "/", "t", "r", "q")
    assert (typing.filter, typing.quit, screen(made, typing)[-1]) == ("trq", False, "/trq_")
    kept = keys(made, "backspace", "enter", view=typing)
    assert [each.job for each in Rows(lambda: 0.0).of(made, kept)] == ["train"]  # type: ignore[union-attr]
    assert "with 'tr'" in screen(made, kept)[0]
    assert keys(made, "esc", view=kept).filter == ""
    assert keys(made, "/", "a", "esc", view=kept).filter == ""


def test_the_order_is_chosen_with_a_key() -> None:
    made = board(waiting("b", priority=1), waiting("a", priority=2), waiting("c", priority=3))
    every = keys(made, "w", "s", "s")
    assert [each.job for each in Rows(lambda: 0.0).of(made, every)] == ["c", "a", "b"]  # type: ignore[union-attr]
    assert "by priority" in screen(made, every)[0]
    turned = keys(made, "r", view=every)
    assert [each.job for each in Rows(lambda: 0.0).of(made, turned)] == ["b", "a", "c"]  # type: ignore[union-attr]


def test_finished_workloads_are_shown_on_demand() -> None:
    made = board(workload("done", condition("Finished", message="ok")), waiting("w"))
    assert len(Rows(lambda: 0.0).of(made, keys(made, "w"))) == 1
    assert len(Rows(lambda: 0.0).of(made, keys(made, "w", "f"))) == 2


@pytest.mark.parametrize(
    ("pressed_keys", "chosen", "first"),
    [
        (["down"], 1, 0),
        (["up"], 0, 0),
        (["end"], 99, 90),
        (["G", "up"], 98, 90),
        (["end", "home"], 0, 0),
        (["pgdn"], 10, 1),
        (["pgdn", "pgdn", "pgup"], 10, 10),
        (["j"] * 12, 12, 3),
    ],
)
def test_the_chosen_row_is_always_on_the_screen(pressed_keys: list[str], chosen: int, first: int) -> None:
    made = board(*(waiting(f"w{number:03}") for number in range(100)))
    view = keys(made, "w", *pressed_keys)
    assert (view.chosen, view.first) == (chosen, first)


def test_rows_that_become_fewer_keep_the_choice_on_the_screen() -> None:
    assert scrolled(View(chosen=50, first=45), 3, 10).chosen == 2
    assert scrolled(View(chosen=50, first=45), 0, 10).chosen == 0


def test_only_the_rows_on_the_screen_are_made_into_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made = board(*(waiting(f"w{number:05}") for number in range(2000)))
    rows, view = Rows(lambda: 0.0), keys(made, "w", "end", height=20)
    found = rows.of(made, view)
    count = 0
    real = shown._line_cells

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return real(*given)

    monkeypatch.setattr(shown, "_line_cells", counted)
    page(made, view, found, NOW, 100, 24, "")
    assert count == 20
    assert rows.of(made, keys(made, "up", view=view)) is found, "moving makes no new order"


def test_what_is_being_loaded_or_fails_is_shown() -> None:
    made = board()
    assert screen(made, View(), notice="loading workloads: 500 of 50000")[1] == "loading workloads: 500 of 50000"
    assert "  nothing here" in screen(Board(), View())
    assert "PAUSED" in screen(made, keys(made, "p"))[0]
    assert any("PgUp" in each for each in screen(made, keys(made, "?"), height=20))
    assert keys(made, "q").quit


def test_rows_that_change_all_the_time_are_put_in_order_for_a_tenth_of_the_time() -> None:
    made, now = board(waiting("a")), [0.0]

    def clock() -> float:
        now[0] += 1.0  # each look at the clock takes a second, so that an order takes one
        return now[0]

    rows, view = Rows(clock), keys(board(), "w")
    first = rows.of(made, view)
    for _ in range(8):
        made.apply([RecordChange("line", Key("team-a", "x"), None)])
        assert rows.of(made, view) is first
    now[0] += 10.0
    assert rows.of(made, view) is not first
    assert rows.of(made, keys(made, "s", view=view)) is not first, "what the user asks for is there at once"
