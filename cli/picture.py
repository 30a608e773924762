"""A picture of a simulation: the usage of each ClusterQueue over time, how many workloads wait for it, and when each
workload runs.

Separate from ``cli.simulate`` because it is pure: it converts scenarios into SVG text. No library: a few hundred
rectangles are simpler than one. Pictures that are made together have one time axis, the same rows and the same heights,
so that they can be compared. Long timelines are drawn as the mean of each pixel's time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from api import quantity
from cli import domains
from cli.bands import Band, StepFunction, bands, sampled, together, totals, waiting
from cli.domains import DomainBand
from cli.report import seconds
from cli.simulator import Played
from core.model import FlavorResource, Key
from core.simulation.simulation import Course

WIDE, NARROW, LEFT, RIGHT = 980, 740, 250, 34
TOP, BAND, ROW, HEAD, AXIS, THIN = 58, 64, 15, 24, 18, 3
TITLE = 26
"""Pixels of TOP that a picture without a title has not."""
MOST_ROWS = 150
MOST_DOMAINS = 16
"""So many domains of a flavor have a band."""
DOMAINS = "~"
"""Bands of domains are named after their flavor with this sign, which no name of a ClusterQueue has; it sorts last."""
MOST_BOXES = 300
"""Above this number of steps a band is drawn as one shape, without a tooltip for each step."""
LONGEST_LABEL, LONGEST_NAME, LONGEST_HEAD = 28, 36, 90
"""Letters that there is room for."""
LEGEND = (
    ("own", "runs, on own quota"),
    ("borrowed", "borrowed"),
    ("wait", "waits"),
    ("stopped", "ran until preempted or evicted"),
)
LIGHT = {
    "paper": "#fff", "own": "#2f8f68", "borrowed": "#9a55b8", "wait": "#bf8a12", "stopped": "#c8442f",
    "text": "#222", "dim": "#5f5f5f", "grid": "#e2e2e2", "axis": "#8a8a8a", "quota": "#222",
}  # fmt: skip
DARK = {
    "paper": "#16181c", "own": "#43b389", "borrowed": "#c08ad8", "wait": "#e0b04a", "stopped": "#e8705c",
    "text": "#e8e8e8", "dim": "#a8a8a8", "grid": "#33373d", "axis": "#7d828a", "quota": "#f0f0f0",
}  # fmt: skip
"""Colours with a contrast of at least 3:1. Form shows the same for readers who cannot distinguish them: borrowed usage
is above the line of the quota, waiting bars have half the height, and stopped ones are hollow.
"""
Height = Callable[[float], float]
"""From an amount to vertical pixels."""
NICE = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def style() -> str:
    """Rules for all pictures of a page, in daylight and in the dark."""

    def colours(chosen: Mapping[str, str]) -> str:
        fills = "".join(f".{kind}{{fill:{chosen[kind]}}}" for kind in ("paper", "own", "borrowed", "wait"))
        lines = "".join(f".{kind}{{stroke:{chosen[kind]}}}" for kind in ("grid", "axis", "quota", "stopped"))
        return f"svg text{{fill:{chosen['text']}}}svg text.dim{{fill:{chosen['dim']}}}{fills}{lines}"

    return (
        "svg text{font:12px system-ui,sans-serif}svg .small{font-size:11px}svg .head{font-weight:bold}"
        "svg .title{font-size:15px}rect,path,line{shape-rendering:crispEdges}.quota{stroke-width:1.5}"
        ".stopped{stroke-width:2;fill:none;pointer-events:all}"
        f"{colours(LIGHT)}@media(prefers-color-scheme:dark){{{colours(DARK)}}}"
    )


@dataclass(frozen=True)
class Frame:
    """Common values of pictures that are compared.

    ``end`` is the end of the time axis, ``heights`` the maximum of each band (by ClusterQueue, '' for all of them,
    flavor and resource), ``crowds`` the maximum number that wait, ``rows`` the Jobs that are drawn, of ``jobs`` in
    total.
    """

    end: float
    width: int
    heights: Mapping[tuple[str, FlavorResource], int]
    crowds: Mapping[str, int]
    rows: Sequence[Key]
    jobs: int

    def x(self, at: float) -> float:
        """Where a moment is."""
        return LEFT + (self.right - LEFT) * min(at, self.end) / max(self.end, 1e-9)

    @property
    def right(self) -> int:
        """Where time ends, in pixels."""
        return self.width - RIGHT

    def ticks(self) -> list[float]:
        """Moments to name: round ones, as many as there is room for."""
        most = (self.right - LEFT) // 60
        days = NICE[-1] * max(1, -(-int(self.end) // (most * NICE[-1])))
        step = next((each for each in NICE if self.end / each <= most), days)
        return [step * number for number in range(int(self.end / step) + 1)]


@dataclass(frozen=True)
class PictureParts:
    """The content of one picture."""

    bands: Mapping[tuple[str, FlavorResource], Band]
    waiting: Mapping[str, StepFunction]
    courses: Mapping[Key, Course]
    cohorts: Mapping[str, str]
    heads: Mapping[str, str]
    """What stands above bands that are no ClusterQueue's."""


def pictures(several: Sequence[Played], titles: Sequence[str] = ("", "")) -> list[str]:
    """Returns a picture of each, for a side-by-side comparison."""
    parts = [_parts(played) for played in several]
    frame = _frame(parts, max(played.timeline.end for played in several))
    return [_svg(one, frame, title) for one, title in zip(parts, titles, strict=False)]


def of_use(
    found: Iterable[Band], pending: Mapping[str, StepFunction], heads: Mapping[str, str], end: float, title: str
) -> str:
    """Returns a picture of bands that were measured: of the use of each group, with the number that wait; ``heads`` is
    what stands above each.
    """
    mine = {(band.cluster_queue, band.cell): band for band in found}
    parts = PictureParts(bands=mine, waiting=pending, courses={}, cohorts={}, heads=heads)
    return _svg(parts, _frame([parts], end), title)


def of_shares(values: Sequence[float | None], end: float, label: str) -> str:
    """Returns a picture of one value between 0 and 1 over time; None is a time without one."""
    frame = Frame(end, WIDE, {}, {}, (), 0)
    floor, height = 8.0 + BAND - 12, BAND - 22
    part = end / max(len(values), 1)
    drawn = [*_grid(frame, 4, floor + 6), _label(label, label, "1 is equal", floor - height / 2)]
    for number, value in enumerate(values):
        if value is not None:
            at = number * part
            drawn.append(
                _box(frame, at, at + part, floor - height * value, floor, "own", f"from {seconds(at)}: {value:.2f}")
            )
    drawn.append(_line(frame, floor, 'class="axis"'))
    drawn += [
        _text(text, LEFT - 6, at + 4, "dim small", anchor="end") for text, at in (("0", floor), ("1", floor - height))
    ]
    drawn += _moments(frame, floor + 14)
    tall = round(floor + 34)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {tall}" width="{WIDE}" height="{tall}"'
        f' role="img" aria-label="{escape(label)}"><style>{style()}</style>{"".join(drawn)}</svg>'
    )


def _parts(played: Played) -> PictureParts:
    reservations = played.state.reservations
    mine = bands(played.timeline, reservations.cluster_queues)
    pending = waiting(played.timeline)
    shown, heads = _domains(played)
    if len(reservations.cluster_queues) > 1:
        mine += totals(mine, reservations.cohorts)
        pending[""] = together(pending.values())
    return PictureParts(
        bands={(band.cluster_queue, band.cell): band for band in (*mine, *shown)},
        waiting=pending,
        courses={played.jobs[one.arrival.workload.key]: one for one in played.timeline.courses.values()},
        cohorts={name: queue.cohort or "" for name, queue in reservations.cluster_queues.items()},
        heads=heads,
    )


def _domains(played: Played) -> tuple[list[Band], dict[str, str]]:
    """Bands of the domains of each flavor with a topology, those that were used most, with the heads above them."""
    several: dict[str, list[DomainBand]] = defaultdict(list)
    for band in domains.bands(played.timeline, domains.domains_of(played.state)):
        several[f"{DOMAINS}{band.flavor}"].append(band)
    found, heads = [], {}
    for name, mine in several.items():
        mine.sort(key=lambda band: (-(band.utilisation(played.timeline.end) or 0.0), band.domain))
        most = f", the {MOST_DOMAINS} most used of {len(mine)}" if len(mine) > MOST_DOMAINS else ""
        heads[name] = f"Flavor {mine[0].flavor} by {mine[0].level.rpartition('/')[2]}{most}"
        for band in mine[:MOST_DOMAINS]:
            found.append(Band(name, FlavorResource(band.domain, band.resource), band.capacity, band.steps))
    return found, heads


def _frame(parts: Sequence[PictureParts], end: float) -> Frame:
    heights: dict[tuple[str, FlavorResource], int] = {}
    crowds: dict[str, int] = {}
    courses: dict[Key, float] = {}
    for one in parts:
        for key, band in one.bands.items():
            heights[key] = max(heights.get(key, 1), band.nominal, band.most)
        for name, steps in one.waiting.items():
            crowds[name] = max(crowds.get(name, 0), *(amount for _, amount in steps))
        for job, course in one.courses.items():
            waited = course.waited(end)
            courses[job] = max(courses.get(job, 0.0), float("inf") if waited is None else waited)
    order = {job: number for number, job in enumerate(courses)}
    longest = sorted(courses, key=lambda job: (-courses[job], order[job]))[:MOST_ROWS]
    rows = sorted(longest, key=lambda job: order[job])
    return Frame(end, WIDE if len(parts) == 1 else NARROW, heights, crowds, rows, len(courses))


def _svg(parts: PictureParts, frame: Frame, title: str) -> str:
    drawn: list[str] = []
    top: float = TOP
    for name, keys in groupby(sorted(frame.heights), key=lambda key: key[0]):  # '', all of them, before each
        cohort = parts.cohorts.get(name, "")
        queue = f"ClusterQueue {name}" + (f", cohort {cohort}" if cohort else "") if name else "All ClusterQueues"
        head = parts.heads.get(name, queue)
        drawn.append(_text(_short(head, LONGEST_HEAD), 10, top + HEAD - 7, "head"))
        top += HEAD
        for key in keys:
            drawn += _band(parts.bands.get(key) or Band(*key, 0, ((0.0, 0),)), frame, top)
            top += BAND
        if frame.crowds.get(name):
            drawn += _pending(parts.waiting.get(name, ((0.0, 0),)), frame.crowds[name], frame, top)
            top += BAND
        drawn += _moments(frame, top)
        top += AXIS
    if frame.jobs:
        drawn += _rows(parts, frame, top)
        top += HEAD + ROW * len(frame.rows)
        drawn += _moments(frame, top + 10)
    height, cut = round(top + 30), 0 if title else TITLE
    label = f"{title}: what each ClusterQueue uses of its quotas, who waits, and when each workload runs".lstrip(": ")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {cut} {frame.width} {height - cut}" '
        f'width="{frame.width}" height="{height - cut}" role="img" aria-label="{escape(label)}">'
        f'<style>{style()}</style><rect class="paper" width="{frame.width}" height="{height}"/>'
        + (_text(title, 10, 22, "head title") if title else "")
        + _legend()
        + "".join(_grid(frame, TOP - 2, top))
        + "".join(drawn)
        + "</svg>"
    )


def _rows(parts: PictureParts, frame: Frame, top: float) -> Iterator[str]:
    """When each workload waited and ran."""
    few = f"the {len(frame.rows)} of {frame.jobs} that wait longest, " if frame.jobs > len(frame.rows) else ""
    yield _text(f"Workloads, {few}in order of arrival", 10, top + HEAD - 7, "head")
    for number, job in enumerate(frame.rows):
        yield from _row(job, parts.courses.get(job), frame, top + HEAD + ROW * number)


def _text(text: str, x: float, y: float, style: str = "", *, anchor: str = "") -> str:
    classes = f' class="{style}"' if style else ""
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{classes} x="{x:.0f}" y="{y:.1f}"{anchored}>{escape(text)}</text>'


def _short(text: str, most: int) -> str:
    """Returns both ends of a long text: names differ at their ends."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-((most - 1) // 2) :]}"


def _legend() -> str:
    """The legend of the colours."""
    drawn, x = "", 10.0
    for kind, word in LEGEND:
        thin = THIN if kind == "wait" else 0
        drawn += f'<rect class="{kind}" x="{x:.0f}" y="{34 + thin}" width="11" height="{11 - 2 * thin}"/>'
        drawn += _text(word, x + 16, 44)
        x += 36 + 6.4 * len(word)
    drawn += f'<line class="quota" stroke-dasharray="5 3" x1="{x:.0f}" x2="{x + 22:.0f}" y1="40" y2="40"/>'
    return drawn + _text("quota", x + 28, 44)


def _label(text: str, whole: str, detail: str, middle: float) -> str:
    """The title of a band; ``whole`` is its tooltip."""
    shown = _text(text, 24, middle) + _text(detail, 24, middle + 15, "dim small")
    return f"<g><title>{escape(whole)}</title>{shown}</g>"


def _band(band: Band, frame: Frame, top: float) -> Iterator[str]:
    """Own and borrowed usage stacked, the nominal quota as a line."""
    resource = band.cell.resource
    most = frame.heights[band.cluster_queue, band.cell]
    floor, height = top + BAND - 12, BAND - 22

    def y(amount: float) -> float:
        return floor - height * amount / most

    mean = band.utilisation(frame.end)
    what = "capacity" if band.cluster_queue.startswith(DOMAINS) else "quota"
    use = f"{mean:.0%} of {what} in use" if mean is not None else f"no {what}"
    start = f"{_short(resource, LONGEST_LABEL // 2)} in "
    flavor = _short(band.cell.flavor, LONGEST_LABEL - len(start))
    yield _label(start + flavor, f"{resource} in {band.cell.flavor}", use, floor - height / 2)
    own = tuple((at, min(used, band.nominal)) for at, used in band.steps)

    def tip(at: float, used: int) -> str:
        more = f", {quantity.text(resource, used - band.nominal)} of it borrowed" if used > band.nominal else ""
        return f"from {seconds(at)}: {quantity.text(resource, used)} of {quantity.text(resource, band.nominal)}{more}"

    if len(band.steps) <= MOST_BOXES:
        tips = [tip(at, used) for at, used in band.steps]
        yield from _boxes(frame, own, [0] * len(own), y, "own", tips)
        yield from _boxes(frame, band.steps, [amount for _, amount in own], y, "borrowed", tips)
    else:
        if band.most > band.nominal:
            yield _shape(frame, band.steps, y, "borrowed")
        yield _shape(frame, own, y, "own")
    yield _line(frame, y(0), 'class="axis"')
    yield _line(frame, y(band.nominal), 'class="quota" stroke-dasharray="5 3"')
    labels = {y(0): "0", y(band.nominal): quantity.text(resource, band.nominal)}
    if y(band.nominal) - y(most) > 11:
        labels[y(most)] = quantity.text(resource, most)
    for at, label in labels.items():
        yield _text(label, LEFT - 6, at + 4, "dim small", anchor="end")


def _pending(steps: StepFunction, most: int, frame: Frame, top: float) -> Iterator[str]:
    """How many wait."""
    floor, height = top + BAND - 12, BAND - 30

    def y(amount: float) -> float:
        return floor - height * amount / most

    what = "workloads that wait"
    yield _label(what, what, f"{max(amount for _, amount in steps)} at most", floor - height / 2)
    if len(steps) <= MOST_BOXES:
        yield from _boxes(frame, steps, [0] * len(steps), y, "wait", [f"from {seconds(a)}: {n}" for a, n in steps])
    else:
        yield _shape(frame, steps, y, "wait")
    yield _line(frame, y(0), 'class="axis"')
    for amount in (0, most):
        yield _text(str(amount), LEFT - 6, y(amount) + 4, "dim small", anchor="end")


def _line(frame: Frame, at: float, style: str) -> str:
    return f'<line {style} x1="{LEFT}" x2="{frame.right}" y1="{at:.1f}" y2="{at:.1f}"/>'


def _boxes(
    frame: Frame, steps: StepFunction, below: Sequence[int], y: Height, kind: str, tips: Sequence[str]
) -> Iterator[str]:
    """A box for each step, from ``below`` up."""
    ends = [at for at, _ in steps[1:]] + [frame.end]
    for (at, amount), end, low, tip in zip(steps, ends, below, tips, strict=True):
        yield _box(frame, at, end, y(amount), y(low), kind, tip)


def _shape(frame: Frame, steps: StepFunction, y: Height, kind: str) -> str:
    """All steps as one shape; those too small to be seen are none."""
    path, last = [f"M{LEFT} {y(0):.0f}"], ""
    for at, amount in sampled(steps, frame.end, frame.right - LEFT):
        level = f"{y(amount):.0f}"
        if level != last:
            path.append(f"H{frame.x(at):.0f}V{level}")
            last = level
    path.append(f"H{frame.right}V{y(0):.0f}Z")
    return f'<path class="{kind}" d="{"".join(path)}"/>'


def _row(job: Key, course: Course | None, frame: Frame, top: float) -> Iterator[str]:
    """A workload: waiting, running, stopped before its time."""
    low, high = top + 2, top + ROW - 2
    name = _text(_short(str(job), LONGEST_NAME), LEFT - 8, high - 1, "small", anchor="end")
    yield f"<g><title>{escape(str(job))}</title>{name}</g>"
    if course is None:
        return
    waiting_since, thin, lower = course.arrival.at, low + THIN, high - THIN
    for attempt in course.attempts:
        yield _box(frame, waiting_since, attempt.started, thin, lower, "wait", f"{job} waits")
        ended = frame.end if attempt.ended is None else attempt.ended
        kind = "stopped" if attempt.reason else "own"
        tip = f"{job} in {attempt.cluster_queue}, {seconds(attempt.started)} to {seconds(ended)}. {attempt.stopped}"
        yield _box(frame, attempt.started, ended, low, high, kind, tip)
        waiting_since = ended
    if course.finished is None and (not course.attempts or course.attempts[-1].ended is not None):
        reason = course.waits[-1][2] if course.waits else "not looked at"
        yield _box(frame, waiting_since, frame.end, thin, lower, "wait", f"{job} waits: {reason}")


def _box(frame: Frame, start: float, end: float, top: float, bottom: float, kind: str, tip: str) -> str:
    left, right = frame.x(start), frame.x(end)
    if right <= left or bottom - top < 0.01:
        return ""
    size = f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.5):.1f}" height="{bottom - top:.1f}"'
    return f'<rect class="{kind}" {size}><title>{escape(tip.strip())}</title></rect>'


def _grid(frame: Frame, top: float, floor: float) -> Iterable[str]:
    for at in frame.ticks():
        yield f'<line class="grid" x1="{frame.x(at):.0f}" x2="{frame.x(at):.0f}" y1="{top:.0f}" y2="{floor:.0f}"/>'


def _moments(frame: Frame, top: float) -> Iterable[str]:
    yield _text("time since the start", LEFT - 24, top + 4, "dim small", anchor="end")
    for at in frame.ticks():
        yield _text(seconds(at), frame.x(at), top + 4, "dim small", anchor="middle")
