"""A simulation as a picture: what each ClusterQueue uses over time, and when each workload waits and runs.

Separate from ``cli.simulate`` because it is pure: a Timeline in, SVG or HTML text out. No library: a few hundred
rectangles are simpler than what would draw them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from api import quantity
from core.model import ClusterQueue, FlavorResource, Key
from core.simulation import Course, Timeline

WIDTH, LEFT, RIGHT, BAND, ROW = 960, 170, 20, 72, 14
MOST_ROWS = 200
COLOURS = {"own": "#4c9f70", "borrowed": "#b05cc6", "wait": "#f2d98d", "run": "#4c9f70", "preempted": "#d9655b"}
STYLE = "text{font:12px system-ui,sans-serif;fill:#333}.dim{fill:#888}.axis{stroke:#bbb}.quota{stroke:#333}"


@dataclass(frozen=True)
class Scale:
    """From seconds to horizontal pixels."""

    end: float

    def x(self, at: float) -> float:
        """Where a moment is."""
        return LEFT + (WIDTH - LEFT - RIGHT) * at / max(self.end, 1e-9)


@dataclass(frozen=True)
class Band:
    """One picture: a ClusterQueue's use of a resource in a flavor; steps are (at, used)."""

    cluster_queue: str
    cell: FlavorResource
    nominal: int
    steps: tuple[tuple[float, int], ...]


def bands(timeline: Timeline, queues: Mapping[str, ClusterQueue]) -> list[Band]:
    """One band for every ClusterQueue, flavor and resource that was ever used, in the order of their names."""
    steps: dict[tuple[str, FlavorResource], list[tuple[float, int]]] = defaultdict(list)
    for level in timeline.levels:
        known = {cell for name, cell in steps if name == level.cluster_queue}
        for cell in sorted(known | set(level.used)):
            steps[level.cluster_queue, cell].append((level.at, level.used.get(cell, 0)))
    found = []
    for (name, cell), taken in sorted(steps.items()):
        quota = queues[name].quotas.get(cell) if name in queues else None
        found.append(Band(name, cell, quota.nominal if quota else 0, tuple(taken)))
    return found


def svg(timeline: Timeline, queues: Mapping[str, ClusterQueue], jobs: Mapping[Key, Key], title: str = "") -> str:
    """The whole picture; ``jobs`` are those that the workloads stand for."""
    scale = Scale(timeline.end)
    drawn: list[str] = []
    top = 30
    for band in bands(timeline, queues):
        drawn += _band(band, scale, top)
        top += BAND
    top += 16
    courses = list(timeline.courses.values())
    for course in courses[:MOST_ROWS]:
        drawn += _row(jobs[course.arrival.workload.key], course, scale, top)
        top += ROW
    if len(courses) > MOST_ROWS:
        drawn.append(f'<text class="dim" x="{LEFT}" y="{top + 11}">and {len(courses) - MOST_ROWS} more</text>')
        top += ROW
    drawn += _axis(scale, top + 6)
    height = top + 40
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="white"/>'
        f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>'
    )
    return head + _legend() + "".join(drawn) + "</svg>"


def _legend() -> str:
    """What the colours mean."""
    text = ""
    words = {"own": "runs", "borrowed": "borrowed", "wait": "waiting", "preempted": "preempted"}
    for number, (kind, word) in enumerate(words.items()):
        x = LEFT + 300 + 125 * number
        text += f'<rect x="{x}" y="11" width="10" height="10" fill="{COLOURS[kind]}"/>'
        text += f'<text x="{x + 14}" y="20">{word}</text>'
    return text


def _band(band: Band, scale: Scale, top: float) -> Iterable[str]:
    """Own use and borrowed use stacked, the nominal quota as a line."""
    resource = band.cell.resource
    most = max([band.nominal, *(used for _, used in band.steps)]) or 1
    floor, height = top + BAND - 14, BAND - 26

    def y(amount: float) -> float:
        return floor - height * amount / most

    yield f'<text x="10" y="{floor - height / 2}">{escape(band.cluster_queue)}</text>'
    what = escape(f"{resource} in {band.cell.flavor}")
    yield f'<text class="dim" x="10" y="{floor - height / 2 + 14}">{what}</text>'
    ends = [at for at, _ in band.steps[1:]] + [scale.end]
    for (at, used), end in zip(band.steps, ends, strict=True):
        own = min(used, band.nominal)
        tip = f"from {seconds(at)}: {quantity.text(resource, used)} of {quantity.text(resource, band.nominal)}"
        yield _box(scale, at, end, y(own), floor, "own", tip)
        yield _box(
            scale, at, end, y(used), y(own), "borrowed", f"{tip}, {quantity.text(resource, used - own)} borrowed"
        )
    line = y(band.nominal)
    nominal = quantity.text(resource, band.nominal)
    yield f'<text class="dim" x="{LEFT - 6}" y="{line + 4:.1f}" text-anchor="end">{nominal}</text>'
    for style, at_y in (('class="quota" stroke-dasharray="4 3"', line), ('class="axis"', floor)):
        yield f'<line {style} x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y:.1f}" y2="{at_y:.1f}"/>'


def _row(key: Key, course: Course, scale: Scale, top: float) -> Iterable[str]:
    """A workload: waiting, running, preempted."""
    waiting_since = course.arrival.at
    low, high = top + 2, top + ROW - 2
    yield f'<text x="{LEFT - 6}" y="{high}" text-anchor="end">{escape(key.name[:24])}</text>'
    for attempt in course.attempts:
        yield _box(scale, waiting_since, attempt.started, low, high, "wait", f"{key} waits")
        ended = scale.end if attempt.ended is None else attempt.ended
        kind = "preempted" if attempt.preempted else "run"
        tip = f"{key} in {attempt.cluster_queue}, {seconds(attempt.started)} to {seconds(ended)}. {attempt.preempted}"
        yield _box(scale, attempt.started, ended, low, high, kind, tip)
        waiting_since = ended
    if course.finished is None and (not course.attempts or course.attempts[-1].ended is not None):
        reason = course.waits[-1][2] if course.waits else "not looked at"
        yield _box(scale, waiting_since, scale.end, low, high, "wait", f"{key} waits: {reason}")


def _box(scale: Scale, start: float, end: float, top: float, bottom: float, kind: str, tip: str) -> str:
    width = scale.x(min(end, scale.end)) - scale.x(start)
    if width <= 0 or bottom - top < 0.01:
        return ""
    return (
        f'<rect x="{scale.x(start):.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" height="{bottom - top:.1f}" '
        f'fill="{COLOURS[kind]}"><title>{escape(tip)}</title></rect>'
    )


def _axis(scale: Scale, y: float) -> Iterable[str]:
    for step in range(6):
        at = scale.end * step / 5
        yield f'<text class="dim" x="{scale.x(at):.1f}" y="{y + 14}" text-anchor="middle">{seconds(at)}</text>'


def seconds(amount: float) -> str:
    """A duration as people say it: 45s, 12m, 3h20m."""
    whole = round(amount)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    if minutes:
        return f"{minutes}m{left:02d}s" if left else f"{minutes}m"
    return f"{whole}s"


def html(pictures: Sequence[str], tables: Sequence[str], title: str) -> str:
    """A page with one picture and one table of text for each scenario, side by side."""
    columns = "".join(
        f"<section>{picture}<pre>{escape(table)}</pre></section>"
        for picture, table in zip(pictures, tables, strict=True)
    )
    style = (
        "body{font-family:system-ui,sans-serif;margin:1rem}main{display:flex;flex-wrap:wrap;gap:1rem}"
        "section{max-width:960px}pre{overflow:auto}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1><main>{columns}</main></body></html>"
    )
