"""The usage of each quota over time, as steps: the values of the picture and of the report.

Separate from both because they use the same values. A band is one ClusterQueue's usage of a resource in a flavor, or
that of all of them together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.model import ClusterQueue, Cohort, FlavorResource
from core.simulation.simulation import Timeline

StepFunction = tuple[tuple[float, int], ...]
"""(from when on, how much), in order of time; from the first on until the end."""


@dataclass(frozen=True)
class Band:
    """The use of a resource in a flavor, by one ClusterQueue or ('') by all; ``nominal`` is the quota."""

    cluster_queue: str
    cell: FlavorResource
    nominal: int
    steps: StepFunction

    @property
    def most(self) -> int:
        """The greatest usage."""
        return max((used for _, used in self.steps), default=0)

    def spent(self, end: float) -> float:
        """Amount times seconds."""
        return area(self.steps, end)

    def utilisation(self, end: float) -> float | None:
        """Used amount times time over quota times time; above 1 where much was borrowed, None without quota."""
        return round(self.spent(end) / (self.nominal * end), 3) if self.nominal and end else None


def bands(timeline: Timeline, queues: Mapping[str, ClusterQueue]) -> list[Band]:
    """One band for every ClusterQueue, flavor and resource that has a quota or was ever used, by their names."""
    steps: dict[str, dict[FlavorResource, list[tuple[float, int]]]] = defaultdict(dict)
    for level in timeline.levels:
        mine = steps[level.cluster_queue]
        for cell, amount in level.used.items():
            taken = mine.setdefault(cell, [(0.0, 0)])
            if taken[-1][1] != amount:
                _step(taken, level.at, amount)
        for cell, taken in mine.items():
            if taken[-1][1] and cell not in level.used:
                _step(taken, level.at, 0)
    found = []
    for name in sorted({*steps, *queues}):
        quotas = queues[name].quotas if name in queues else {}
        for cell in sorted({*steps[name], *quotas}):
            quota = quotas.get(cell)
            taken = steps[name].get(cell, [(0.0, 0)])
            if len(taken) > 1 or (quota is not None and quota.nominal):
                found.append(Band(name, cell, quota.nominal if quota else 0, tuple(taken)))
    return found


def totals(found: Iterable[Band], cohorts: Mapping[str, Cohort]) -> list[Band]:
    """All ClusterQueues together, for each flavor and resource; quota of Cohorts counts too."""
    parts: dict[FlavorResource, list[Band]] = defaultdict(list)
    for band in found:
        parts[band.cell].append(band)
    every = []
    for cell, several in sorted(parts.items()):
        above = sum(quota.nominal for cohort in cohorts.values() for fr, quota in cohort.quotas.items() if fr == cell)
        every.append(Band("", cell, above + sum(b.nominal for b in several), together(b.steps for b in several)))
    return every


def waiting(timeline: Timeline) -> dict[str, StepFunction]:
    """How many wait in each ClusterQueue, over time."""
    found: dict[str, list[tuple[float, int]]] = {}
    for level in timeline.levels:
        taken = found.setdefault(level.cluster_queue, [(0.0, 0)])
        if taken[-1][1] != level.pending:
            _step(taken, level.at, level.pending)
    return {name: tuple(taken) for name, taken in sorted(found.items())}


def together(several: Iterable[StepFunction]) -> StepFunction:
    """The sum of all, over time."""
    changes: dict[float, int] = defaultdict(int)
    for steps in several:
        before = 0
        for at, amount in steps:
            changes[at] += amount - before
            before = amount
    total, found = 0, []
    for at, change in sorted(changes.items()):
        total += change
        found.append((at, total))
    return tuple(found)


def area(steps: StepFunction, end: float) -> float:
    """Amount times seconds, up to the end."""
    ends = [at for at, _ in steps[1:]] + [end]
    return sum(amount * max(0.0, min(until, end) - at) for (at, amount), until in zip(steps, ends, strict=True))


def sampled(steps: StepFunction, end: float, most: int) -> StepFunction:
    """The same with so many steps at most: each then is the mean over its part of the time."""
    if len(steps) <= most or not end:
        return steps
    width = end / most
    spent = [0.0] * most
    ends = [at for at, _ in steps[1:]] + [end]
    for (at, amount), until in zip(steps, ends, strict=True):
        first, last = int(at / width), min(most - 1, int(until / width))
        for part in range(first, last + 1):
            spent[part] += amount * max(0.0, min(until, (part + 1) * width) - max(at, part * width))
    return tuple((part * width, round(value / width)) for part, value in enumerate(spent))


def _step(taken: list[tuple[float, int]], at: float, amount: int) -> None:
    if taken[-1][0] == at:
        taken.pop()
    taken.append((at, amount))
