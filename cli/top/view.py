"""What the page shows: one table or one job, as lines of text with styles; and what a key changes in it. Pure.

Only the rows on the screen are made into text, so that a page costs the same for ten and for 50,000 workloads. The
order of all rows is made once for each version of the board, and sort, and filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from api.objects import Key
from cli.top.model import Board, QueueRecord, WorkloadRecord, by_line
from cli.verbs.printing import age

LineStyle = Literal["plain", "head", "title", "chosen", "running", "waiting", "dim", "alarm"]
PageName = Literal["queues", "queue", "workloads", "job", "help"]
SORTS: Final[dict[PageName, tuple[str, ...]]] = {
    "queues": ("name", "waiting", "running", "cohort"),
    "queue": ("line", "age", "priority", "name", "state"),
    "workloads": ("state", "age", "priority", "name", "queue"),
    "job": ("",),
    "help": ("",),
}
HELP: Final = (
    ("↑ ↓ k j", "previous, next row"),
    ("PgUp PgDn", "previous, next page"),
    ("Home End g G", "first, last row"),
    ("Enter", "open the queue or the job"),
    ("Esc Backspace", "go back"),
    ("c", "all queues"),
    ("w", "all workloads"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter: type a part of a name, Enter keeps it, Esc removes it"),
    ("f", "show or hide finished workloads"),
    ("p", "pause, and go on"),
    ("q", "quit"),
)


class ScreenLine(NamedTuple):
    """A line of the screen."""

    text: str
    style: LineStyle = "plain"


@dataclass(frozen=True, slots=True)
class View:
    """What the user has chosen. ``typing``: a filter is being entered. ``back`` are the pages before this one."""

    page: PageName = "queues"
    queue: Key | None = None
    job: Key | None = None
    sort: int = 0
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    finished: bool = False
    paused: bool = False
    chosen: int = 0
    first: int = 0
    quit: bool = False
    back: tuple[View, ...] = ()


SHARE: Final = 10
"""Rows that change all the time are put in order for a tenth of the time at most."""


@dataclass(slots=True)
class Rows:
    """The rows of a page in their order. They are made again when what is asked for has changed; when the board has, no
    more often than their number allows.
    """

    clock: Callable[[], float]
    _asked: tuple[object, ...] = ()
    _version: int = -1
    _rows: list[QueueRecord | WorkloadRecord] = field(default_factory=list)
    _again: float = 0.0

    def of(self, board: Board, view: View) -> list[QueueRecord | WorkloadRecord]:
        """Returns the rows."""
        asked = (view.page, view.queue, view.sort, view.reverse, view.filter, view.finished)
        began = self.clock()
        if asked != self._asked or (board.version != self._version and began >= self._again):
            self._asked, self._version, self._rows = asked, board.version, _ordered(board, view)
            ended = self.clock()
            self._again = ended + SHARE * (ended - began)
        return self._rows


def _ordered(board: Board, view: View) -> list[QueueRecord | WorkloadRecord]:
    by = SORTS[view.page][view.sort % len(SORTS[view.page])]
    if view.page == "queues":
        queues = [each for each in board.shown_queues() if view.filter in f"{each.key} {each.cohort}"]
        queues.sort(key=_QUEUE_SORTS[by], reverse=view.reverse)
        return [*queues]
    kept: list[WorkloadRecord] = []
    if view.page in ("queue", "workloads"):
        lines = board.of_queue(view.queue) if view.page == "queue" and view.queue else board.lines.values()
        kept = [each for each in lines if (view.finished or each.state != "finished") and _matches(each, view.filter)]
        kept.sort(key=by_line(board.positions) if by in ("line", "state") else _LINE_SORTS[by], reverse=view.reverse)
    return [*kept]


_QUEUE_SORTS: Final[dict[str, Callable[[QueueRecord], tuple[Any, ...]]]] = {
    "name": lambda each: (each.key,),
    "waiting": lambda each: (-each.waiting, each.key),
    "running": lambda each: (-each.running, each.key),
    "cohort": lambda each: (each.cohort, each.key),
}
_LINE_SORTS: Final[dict[str, Callable[[WorkloadRecord], tuple[Any, ...]]]] = {
    "age": lambda each: (each.created, each.key),
    "priority": lambda each: (-each.priority, each.created, each.key),
    "name": lambda each: (each.job, each.key),
    "queue": lambda each: (each.queue, each.created, each.key),
}


def _matches(each: WorkloadRecord, wanted: str) -> bool:
    return not wanted or wanted in each.job or wanted in each.key.name or wanted in each.key.namespace


def pressed(view: View, key: str, rows: Sequence[QueueRecord | WorkloadRecord], height: int) -> View:
    """Returns the view after a key; ``height`` is the number of rows on the screen."""
    if view.typing:
        return _typed(view, key)
    moved = _MOVES.get(key)
    if moved is not None:
        last = len(rows) - 1
        return scrolled(replace(view, chosen=max(0, min(last, moved(view.chosen, height, last)))), len(rows), height)
    match key:
        case "q":
            return replace(view, quit=True)
        case "enter":
            return _opened(view, rows)
        case "esc" | "backspace":
            return _left(view)
        case "c" | "w" | "?":
            page: PageName = {"c": "queues", "w": "workloads", "?": "help"}[key]  # type: ignore[assignment]
            return view if page == view.page else replace(_fresh(view), page=page)
        case "s":
            return replace(view, sort=(view.sort + 1) % len(SORTS[view.page]), chosen=0, first=0)
        case "r":
            return replace(view, reverse=not view.reverse, chosen=0, first=0)
        case "f":
            return replace(view, finished=not view.finished, chosen=0, first=0)
        case "p":
            return replace(view, paused=not view.paused)
        case "/":
            return replace(view, typing=True, filter="", chosen=0, first=0)
    return view


_MOVES: Final[dict[str, Callable[[int, int, int], int]]] = {
    **dict.fromkeys(("up", "k"), lambda at, height, last: at - 1),
    **dict.fromkeys(("down", "j"), lambda at, height, last: at + 1),
    "pgup": lambda at, height, last: at - height,
    "pgdn": lambda at, height, last: at + height,
    **dict.fromkeys(("home", "g"), lambda at, height, last: 0),
    **dict.fromkeys(("end", "G"), lambda at, height, last: last),
}


def _typed(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "esc":
            return replace(view, typing=False, filter="")
        case "backspace":
            return replace(view, filter=view.filter[:-1], chosen=0, first=0)
    return replace(view, filter=view.filter + key, chosen=0, first=0) if len(key) == 1 and key.isprintable() else view


def _opened(view: View, rows: Sequence[QueueRecord | WorkloadRecord]) -> View:
    if not 0 <= view.chosen < len(rows):
        return view
    row = rows[view.chosen]
    if isinstance(row, QueueRecord):
        return replace(_fresh(view), page="queue", queue=row.key)
    return replace(_fresh(view), page="job", queue=view.queue, job=row.key)


def _fresh(view: View) -> View:
    """The beginning of another page, from which one can go back to this one."""
    return View(finished=view.finished, paused=view.paused, back=(*view.back[-9:], view))


def _left(view: View) -> View:
    if view.filter:
        return replace(view, filter="", chosen=0, first=0)
    return replace(view.back[-1], paused=view.paused) if view.back else view


def scrolled(view: View, rows: int, height: int) -> View:
    """Returns the view with the chosen row on the screen; rows may have become fewer."""
    chosen = max(0, min(view.chosen, rows - 1))
    first = min(max(view.first, chosen - height + 1, 0), chosen)
    return replace(view, chosen=chosen, first=first)


def page(
    board: Board,
    view: View,
    rows: Sequence[QueueRecord | WorkloadRecord],
    now: float,
    width: int,
    height: int,
    notice: str,
) -> list[ScreenLine]:
    """Returns all lines of a screen. ``notice`` is that of the feed: loading, or why nothing is read."""
    body = height - 4
    match view.page:
        case "help":
            lines = [ScreenLine(f"  {keys:<16} {what}") for keys, what in HELP]
        case "job":
            lines = _job(board, view, now, width)
        case "queues":
            lines = _table(_QUEUE_COLUMNS, rows, view, body, width, lambda row: _queue_cells(board, row))
        case _:
            lines = _table(_LINE_COLUMNS, rows, view, body, width, lambda row: _line_cells(board, row, now))
    head = ScreenLine(_title(board, view, rows), "title")
    keys = "Enter open  Esc back  / filter  s sort  r reverse  w workloads  c queues  ? help  q quit"
    foot = ScreenLine(f"/{view.filter}_", "head") if view.typing else ScreenLine(keys, "dim")
    shown = [head, ScreenLine(notice, "alarm"), *lines[: height - 3]]
    shown += [ScreenLine("")] * (height - 1 - len(shown))
    return [ScreenLine(each.text[:width].ljust(width), each.style) for each in [*shown, foot]]


def _title(board: Board, view: View, rows: Sequence[object]) -> str:
    where = {
        "queues": "queues",
        "queue": f"queue {view.queue}",
        "workloads": "all workloads",
        "job": f"workload {view.job}",
        "help": "keys",
    }[view.page]
    parts = [f"seiretsu top: {where}"]
    if view.page in ("queues", "queue", "workloads"):
        order = SORTS[view.page][view.sort % len(SORTS[view.page])]
        parts.append(f"{len(rows)} rows, by {order}{', reversed' if view.reverse else ''}")
    if view.filter and not view.typing:
        parts.append(f"with {view.filter!r}")
    if view.paused:
        parts.append("PAUSED: p goes on")
    return "  |  ".join(parts)


class ShownColumn(NamedTuple):
    """A column; the last one of a table has width 0: it is as wide as the screen allows."""

    name: str
    width: int
    right: bool = False


_QUEUE_COLUMNS: Final = (
    *(
        ShownColumn("QUEUE", 28),
        ShownColumn("COHORT", 14),
        ShownColumn("WAIT", 6, True),
        ShownColumn("RUN", 6, True),
        ShownColumn("STATE", 12),
    ),
    ShownColumn("USED / QUOTA", 0),
)
_LINE_COLUMNS: Final = (
    *(
        ShownColumn("JOB", 26),
        ShownColumn("NAMESPACE", 14),
        ShownColumn("QUEUE", 14),
        ShownColumn("PRIO", 6, True),
        ShownColumn("STATE", 8),
    ),
    *(ShownColumn("POS", 5, True), ShownColumn("SINCE", 7, True), ShownColumn("WHY / FLAVORS", 0)),
)


def _table(
    columns: Sequence[ShownColumn],
    rows: Sequence[QueueRecord | WorkloadRecord],
    view: View,
    height: int,
    width: int,
    cells: Callable[[QueueRecord | WorkloadRecord], tuple[Sequence[str], LineStyle]],
) -> list[ScreenLine]:
    """The header, and the rows that are on the screen."""
    lines = [ScreenLine(_row([each.name for each in columns], columns, width), "head")]
    for place, row in enumerate(rows[view.first : view.first + height], view.first):
        texts, style = cells(row)
        lines.append(ScreenLine(_row(texts, columns, width), "chosen" if place == view.chosen else style))
    return lines if rows else [*lines, ScreenLine("  nothing here", "dim")]


def _row(cells: Sequence[str], columns: Sequence[ShownColumn], width: int) -> str:
    parts = []
    for cell, column in zip(cells, columns, strict=True):
        if not column.width:
            parts.append(cell)
            continue
        text = cell if len(cell) <= column.width else f"{cell[: column.width - 1]}…"
        parts.append(text.rjust(column.width) if column.right else text.ljust(column.width))
    return " ".join(parts)[:width]


def _queue_cells(board: Board, row: QueueRecord | WorkloadRecord) -> tuple[Sequence[str], LineStyle]:
    assert isinstance(row, QueueRecord)
    state = row.stopped or ("active" if row.active else "INACTIVE")
    used = "  ".join(_cell(each.used, each.nominal, each.resource, each.flavor, each.borrowed) for each in row.cells)
    name = str(row.key)
    style: LineStyle = "alarm" if not row.active else "waiting" if row.waiting else "plain"
    return (name, row.cohort, str(row.waiting), str(row.running), state, row.why or used), style


def _cell(used: str, nominal: str, resource: str, flavor: str, borrowed: str) -> str:
    more = f" (+{borrowed} borrowed)" if borrowed not in ("", "0") else ""
    return f"{resource} {used}{f'/{nominal}' if nominal else ''}{more} {flavor}"


def _line_cells(board: Board, row: QueueRecord | WorkloadRecord, now: float) -> tuple[Sequence[str], LineStyle]:
    assert isinstance(row, WorkloadRecord)
    place = board.positions.get(row.key)
    styles: dict[str, LineStyle] = {"running": "running", "reserved": "running", "waiting": "waiting", "held": "alarm"}
    cells = (
        row.job,
        row.key.namespace,
        row.queue,
        str(row.priority),
        row.state,
        str(place) if place is not None and row.state == "waiting" else "",
        age(max(0.0, now - row.since)),
        row.flavors if row.state in ("running", "reserved") and not row.why else row.why,
    )
    return cells, styles.get(row.state, "dim")


def _job(board: Board, view: View, now: float, width: int) -> list[ScreenLine]:
    """All that is known of one workload."""
    record = board.lines.get(view.job) if view.job is not None else None
    if record is None:
        return [ScreenLine("  it is gone", "dim")]
    place = board.positions.get(record.key)
    facts = [
        ("job", record.job),
        ("workload", str(record.key)),
        ("queue", f"{record.queue} (ClusterQueue {board.cluster_queue(record) or 'not known'})"),
        ("priority", str(record.priority)),
        ("state", f"{record.state} for {age(max(0.0, now - record.since))}"),
        ("position", str(place) if place is not None and record.state == "waiting" else "-"),
        ("flavors", record.flavors or "-"),
        ("created", f"{age(max(0.0, now - record.created))} ago"),
    ]
    lines = [ScreenLine(f"  {name:<10} {value}") for name, value in facts]
    if record.why:
        lines += [
            ScreenLine(""),
            ScreenLine("  why", "head"),
            *(ScreenLine(f"  {part}") for part in _wrapped(record.why, width - 4)),
        ]
    name = f"workload/{record.key.name} -n {record.key.namespace}"
    return [*lines, ScreenLine(""), ScreenLine(f"  kubectl seiretsu explain {name}   says what would help", "dim")]


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
