"""What a bench cost and how it is printed: requests that the API server answered, CPU and memory of each process.

``moment`` before and after, ``Cost.between`` for the difference; ``table`` prints rows, ``save`` writes the figures.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Counts, ProcessUsage, counts, succeeded
from controller.kube.config import Connection
from devcluster import processes
from devcluster.controlplane import ControlPlane

RequestCounts = Counter[tuple[str, str, int]]
"""By verb, resource and HTTP status."""
BACKGROUND = ("leases",)
"""Written all the time by every component, whatever the load."""


class Moment(NamedTuple):
    """The counters of the API server and the usage of processes at one moment."""

    counts: Counts
    usage: dict[str, ProcessUsage]


async def moment(connection: Connection, pids: Mapping[str, int]) -> Moment:
    """Reads both now; ``pids`` by the name that the report uses."""
    return Moment(await counts(connection), {name: ProcessUsage.of(pid) for name, pid in pids.items()})


class Cost(NamedTuple):
    """What happened between two moments. ``hooks`` are calls of admission webhooks and their seconds; ``peak`` is each
    process's largest resident memory since it started, in MiB.
    """

    requests: RequestCounts
    hooks: dict[str, tuple[int, float]]
    conversions: int
    cpu_seconds: dict[str, float]
    peak: dict[str, float]

    @classmethod
    def between(cls, before: Moment, after: Moment) -> "Cost":
        """Returns the difference."""
        made = after.counts.since(before.counts)
        cpu = {name: used.cpu_seconds - before.usage[name].cpu_seconds for name, used in after.usage.items()}
        return cls(
            made.requests, made.hooks, made.conversions, cpu, {name: used.peak for name, used in after.usage.items()}
        )

    def figures(self, count: int, own: RequestCounts | None = None) -> dict[str, Any]:
        """Returns the figures for a report, those a workload divided by ``count``; ``own`` are the bench's requests.

        Requests are those of everybody but the bench: of the controller, and of kube-controller-manager.
        """
        others = self.requests - (own or Counter())
        writes = Counter({f"{verb} {name}": made for (verb, name), made in _relevant(succeeded(others)).items()})
        events = sum(made for name, made in writes.items() if name.endswith(" events"))
        return {
            "writes a workload": (writes.total() - events) / count,
            "events a workload": events / count,
            "writes": dict(sorted(writes.items())),
            "requests": _named(self.requests),
            "requests of the bench": _named(own or Counter()),
            "conflicts": _named(Counter({key: made for key, made in others.items() if key[2] == 409})),
            "throttled": _named(Counter({key: made for key, made in self.requests.items() if key[2] == 429})),
            "webhooks": {
                name: {"calls a workload": calls / count, "mean ms": seconds / calls * 1e3}
                for name, (calls, seconds) in self.hooks.items()
                if calls
            },
            "conversions a workload": self.conversions / count,
            "cpu seconds": self.cpu_seconds,
            "cpu ms a workload": {name: used / count * 1e3 for name, used in self.cpu_seconds.items()},
            "peak MiB": self.peak,
        }


def _relevant(writes: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({key: made for key, made in writes.items() if key[1].split("/")[0] not in BACKGROUND})


def _named(requests: RequestCounts) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (verb, resource, _), made in requests.items():
        if resource.split("/")[0] not in BACKGROUND:
            found[f"{verb} {resource}"] += made
    return dict(sorted(found.items()))


def pids_of(plane: ControlPlane) -> dict[str, int]:
    """Returns the processes of a control plane by name."""
    return {record.name: record.pid for record in processes.recorded(plane.layout.records) if record.alive()}


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows in columns: the first column on the left, numbers on the right."""
    cells = [[_cell(one) for one in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    print(f"\n{title}")
    for row in (list(header), *cells):
        first, *others = (
            one.ljust(width) if not number else one.rjust(width)
            for number, (one, width) in enumerate(zip(row, widths, strict=True))
        )
        print("    " + "  ".join((first, *others)).rstrip(), flush=True)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def show_cost(figures: Mapping[str, Any], count: int) -> None:
    """Prints what ``Cost.figures`` returned."""
    own = figures["requests of the bench"]
    table(
        "requests that the API server answered",
        ("", "all", "of the bench", "others, a workload"),
        [
            (name, made, own.get(name, 0), (made - own.get(name, 0)) / count)
            for name, made in sorted(figures["requests"].items(), key=lambda one: -one[1])
            if made > 2
        ],
    )
    print(
        f"writes a workload: {figures['writes a workload']:.2f}, events {figures['events a workload']:.2f}; "
        f"409: {sum(figures['conflicts'].values())}, 429: {sum(figures['throttled'].values())}, "
        f"conversions a workload: {figures['conversions a workload']:.2f}"
    )
    table(
        "admission webhooks, as the API server sees them",
        ("", "calls a workload", "mean ms"),
        [(name, one["calls a workload"], one["mean ms"]) for name, one in figures["webhooks"].items()],
    )
    table(
        "processes",
        ("", "CPU s", "CPU ms a workload", "peak MiB"),
        [
            (name, used, figures["cpu ms a workload"][name], figures["peak MiB"][name])
            for name, used in figures["cpu seconds"].items()
        ],
    )


def save(figures: Mapping[str, Any], path: Path | None) -> None:
    """Writes the figures as JSON, where a file was asked for."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n")
