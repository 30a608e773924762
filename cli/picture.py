"""A simulation as a picture: what each ClusterQueue uses over time, who waits for it, and when each workload runs.

Separate from ``cli.simulate`` because it is pure: a Timeline in, SVG or HTML text out. No library: a few hundred
rectangles are simpler than what would draw them. Long timelines are drawn as the mean of each pixel's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from api import quantity
from cli.bands import Band, Steps, bands, sampled, totals, waiting
from cli.report import seconds
from cli.simulator import Played
from core.model import Key
from core.simulation import Course

WIDTH, LEFT, RIGHT = 980, 250, 30
TOP, BAND, ROW, HEAD = 58, 64, 15, 24
MOST_ROWS = 150
MOST_BOXES = 300
"""Beyond so many steps a band is drawn as one shape, without what the pointer shows of each step."""
COLOURS = {"own": "#4c9f70", "borrowed": "#b05cc6", "wait": "#f2d98d", "stopped": "#d9655b", "pending": "#d8b44a"}
LEGEND = (
    ("own", "runs, on own quota"),
    ("borrowed", "borrowed"),
    ("wait", "waits"),
    ("stopped", "ran until preempted or evicted"),
)
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.dim{fill:#666}.small{font-size:11px}.title{font-size:15px}"
    ".grid{stroke:#e4e4e4}.axis{stroke:#999}.quota{stroke:#222;stroke-width:1.5}.head{font-weight:bold}"
)
Height = Callable[[float], float]
"""From an amount to vertical pixels."""
NICE = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


@dataclass(frozen=True)
class Scale:
    """From seconds to horizontal pixels."""

    end: float

    def x(self, at: float) -> float:
        """Where a moment is."""
        return LEFT + (WIDTH - LEFT - RIGHT) * min(at, self.end) / max(self.end, 1e-9)

    def ticks(self) -> list[float]:
        """Moments to name: round ones, ten at most."""
        days = NICE[-1] * max(1, -(-int(self.end) // (10 * NICE[-1])))
        step = next((each for each in NICE if self.end / each <= 10), days)
        return [step * number for number in range(int(self.end / step) + 1)]


def svg(played: Played, title: str = "", *, end: float | None = None) -> str:
    """The whole picture; ``end`` is where its time axis ends, to compare it with another."""
    timeline, holdings = played.timeline, played.state.holdings
    scale = Scale(timeline.end if end is None else end)
    found = bands(timeline, holdings.cluster_queues)
    pending = waiting(timeline)
    drawn: list[str] = []
    top: float = TOP
    for name, mine in groupby(found, key=lambda band: band.cluster_queue):
        cohort = holdings.cluster_queues[name].cohort if name in holdings.cluster_queues else ""
        drawn.append(_head(f"ClusterQueue {name}" + (f", cohort {cohort}" if cohort else ""), top))
        top += HEAD
        for band in mine:
            drawn += _band(band, scale, top)
            top += BAND
        if any(amount for _, amount in pending.get(name, ())):
            drawn += _pending(pending[name], scale, top)
            top += BAND
    if len(pending) > 1:
        drawn.append(_head("All ClusterQueues", top))
        top += HEAD
        for band in totals(found, holdings.cohorts):
            drawn += _band(band, scale, top)
            top += BAND
    drawn.append(_head("Workloads, in order of arrival", top))
    top += HEAD
    courses = list(timeline.courses.values())
    for course in courses[:MOST_ROWS]:
        drawn += _row(played.jobs[course.arrival.workload.key], course, scale, top)
        top += ROW
    if len(courses) > MOST_ROWS:
        drawn.append(_text(f"and {len(courses) - MOST_ROWS} more", LEFT - 8, top + 12, "dim", anchor="end"))
        top += ROW
    height = round(top + 34)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="white"/>'
        + _text(title, 10, 22, "head title")
        + _legend()
        + "".join(_axis(scale, TOP - 2, top + 4))
        + "".join(drawn)
        + "</svg>"
    )


def _text(text: str, x: float, y: float, style: str = "", *, anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _head(text: str, top: float) -> str:
    return _text(text, 10, top + HEAD - 7, "head")


def _legend() -> str:
    """What the colours mean."""
    drawn, x = "", float(LEFT)
    for kind, word in LEGEND:
        drawn += f'<rect x="{x}" y="34" width="11" height="11" fill="{COLOURS[kind]}"/>' + _text(word, x + 16, 44)
        x += 34 + 6.6 * len(word)
    drawn += f'<line class="quota" stroke-dasharray="5 3" x1="{x}" x2="{x + 22}" y1="40" y2="40"/>'
    return drawn + _text("quota", x + 28, 44)


def _band(band: Band, scale: Scale, top: float) -> Iterator[str]:
    """Own use and borrowed use stacked, the nominal quota as a line."""
    resource = band.cell.resource
    most = max(band.nominal, band.most) or 1
    floor, height = top + BAND - 12, BAND - 22

    def y(amount: float) -> float:
        return floor - height * amount / most

    mean = band.utilisation(scale.end)
    yield _text(f"{resource} in {band.cell.flavor}", 24, floor - height / 2)
    use = f"{mean:.0%} of quota in use" if mean is not None else "no quota"
    yield _text(use, 24, floor - height / 2 + 15, "dim small")
    own = tuple((at, min(used, band.nominal)) for at, used in band.steps)

    def tip(at: float, used: int) -> str:
        more = f", {quantity.text(resource, used - band.nominal)} of it borrowed" if used > band.nominal else ""
        return f"from {seconds(at)}: {quantity.text(resource, used)} of {quantity.text(resource, band.nominal)}{more}"

    if len(band.steps) <= MOST_BOXES:
        tips = [tip(at, used) for at, used in band.steps]
        yield from _boxes(scale, own, [0] * len(own), y, "own", tips)
        yield from _boxes(scale, band.steps, [amount for _, amount in own], y, "borrowed", tips)
    else:
        yield _shape(scale, band.steps, y, "borrowed")
        yield _shape(scale, own, y, "own")
    yield from _lines(y(0), y(band.nominal))
    labels = {y(0): "0", y(band.nominal): quantity.text(resource, band.nominal)}
    if y(band.nominal) - y(most) > 11:
        labels[y(most)] = quantity.text(resource, most)
    for at, label in labels.items():
        yield _text(label, LEFT - 6, at + 4, "dim small", anchor="end")


def _pending(steps: Steps, scale: Scale, top: float) -> Iterator[str]:
    """How many wait."""
    most = max(amount for _, amount in steps)
    floor, height = top + BAND - 12, BAND - 30

    def y(amount: float) -> float:
        return floor - height * amount / most

    yield _text("workloads that wait", 24, floor - height / 2 + 4)
    if len(steps) <= MOST_BOXES:
        yield from _boxes(scale, steps, [0] * len(steps), y, "pending", [f"from {seconds(a)}: {n}" for a, n in steps])
    else:
        yield _shape(scale, steps, y, "pending")
    yield from _lines(y(0))
    for amount in (0, most):
        yield _text(str(amount), LEFT - 6, y(amount) + 4, "dim small", anchor="end")


def _lines(floor: float, quota: float | None = None) -> Iterator[str]:
    for style, at in (('class="axis"', floor), ('class="quota" stroke-dasharray="5 3"', quota)):
        if at is not None:
            yield f'<line {style} x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'


def _boxes(
    scale: Scale, steps: Steps, below: Sequence[int], y: Height, kind: str, tips: Sequence[str]
) -> Iterator[str]:
    """A box for each step, from ``below`` up."""
    ends = [at for at, _ in steps[1:]] + [scale.end]
    for (at, amount), end, low, tip in zip(steps, ends, below, tips, strict=True):
        yield _box(scale, at, end, y(amount), y(low), kind, tip)


def _shape(scale: Scale, steps: Steps, y: Height, kind: str) -> str:
    """All steps as one shape."""
    path = [f"M{LEFT} {y(0):.1f}"]
    for at, amount in sampled(steps, scale.end, WIDTH - LEFT - RIGHT):
        path.append(f"H{scale.x(at):.1f}V{y(amount):.1f}")
    path.append(f"H{WIDTH - RIGHT}V{y(0):.1f}Z")
    return f'<path d="{"".join(path)}" fill="{COLOURS[kind]}"/>'


def _row(key: Key, course: Course, scale: Scale, top: float) -> Iterator[str]:
    """A workload: waiting, running, stopped before its time."""
    waiting_since = course.arrival.at
    low, high = top + 2, top + ROW - 2
    name = str(key) if len(str(key)) <= 38 else f"{str(key)[:20]}…{str(key)[-17:]}"
    yield f"<g><title>{escape(str(key))}</title>{_text(name, LEFT - 8, high - 1, 'small', anchor='end')}</g>"
    for attempt in course.attempts:
        yield _box(scale, waiting_since, attempt.started, low, high, "wait", f"{key} waits")
        ended = scale.end if attempt.ended is None else attempt.ended
        kind = "stopped" if attempt.reason else "own"
        tip = f"{key} in {attempt.cluster_queue}, {seconds(attempt.started)} to {seconds(ended)}. {attempt.stopped}"
        yield _box(scale, attempt.started, ended, low, high, kind, tip)
        waiting_since = ended
    if course.finished is None and (not course.attempts or course.attempts[-1].ended is not None):
        reason = course.waits[-1][2] if course.waits else "not looked at"
        yield _box(scale, waiting_since, scale.end, low, high, "wait", f"{key} waits: {reason}")


def _box(scale: Scale, start: float, end: float, top: float, bottom: float, kind: str, tip: str) -> str:
    width = scale.x(end) - scale.x(start)
    if width <= 0 or bottom - top < 0.01:
        return ""
    return (
        f'<rect x="{scale.x(start):.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" height="{bottom - top:.1f}" '
        f'fill="{COLOURS[kind]}"><title>{escape(tip)}</title></rect>'
    )


def _axis(scale: Scale, top: float, floor: float) -> Iterator[str]:
    for at in scale.ticks():
        x = scale.x(at)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{floor:.1f}"/>'
        yield _text(seconds(at), x, floor + 14, "dim small", anchor="middle")


def html(pictures: Sequence[str], tables: Sequence[str], title: str, *, comparison: str = "") -> str:
    """A page with one picture and one table of text for each scenario, side by side, and what is different above."""
    columns = "".join(
        f"<section>{picture}<pre>{escape(table)}</pre></section>"
        for picture, table in zip(pictures, tables, strict=True)
    )
    style = (
        "body{font-family:system-ui,sans-serif;margin:1rem}main{display:flex;gap:1rem;align-items:flex-start}"
        f"section{{flex:1 1 0;min-width:0;max-width:{WIDTH}px}}svg{{width:100%;height:auto}}pre{{overflow:auto}}"
    )
    above = f"<pre>{escape(comparison)}</pre>" if comparison else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{above}<main>{columns}</main></body></html>\n"
    )
