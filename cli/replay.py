"""`seiretsu replay`: plays a recording of the scheduler through this version, and shows where it decides differently.

With `--what-if` it shows instead what would have happened with other quotas.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec.structs import replace as changed

from api.objects import Raw
from api.quantity import text as quantity_text
from cli import named, target
from cli.bands import bands
from cli.manifests import Mistakes, documents
from cli.report import seconds
from cli.table import columns
from cli.target import FailedError
from core.model import ClusterQueue, Cohort
from core.quota.reservations import local_queue_of
from core.recording.encoding import decoded
from core.recording.entries import MAGIC, DecisionRecord, RecordingEntry
from core.recording.replay import Replay, ReplayedCycle
from core.recording.what_if import RecordedJobs, jobs, played
from core.simulation.simulation import Timeline
from core.state.state import State
from core.wire import decode
from seiretsu.client.estimate import epoch

MOST_SHOWN: Final = 20
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "resourceGroups": ("groups", "quotas"),
    "cohort": ("cohort",),
    "cohortName": ("cohort",),
    "preemption": ("preemption",),
    "queueingStrategy": ("strategy",),
    "flavorFungibility": ("fungibility",),
    "fairSharing": ("weight",),
    "stopPolicy": ("stop_policy",),
    "namespaceSelector": ("namespace_selector",),
    "parentName": ("parent",),
    "parent": ("parent",),
}
"""Fields of a specification, and those of the value that they become."""


def command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recordings, in their order, or an archive of 'bundle'.")
    ],
    what_if: Annotated[
        Path | None,
        typer.Option(help="ClusterQueues and Cohorts with other quotas: show what would have happened."),
    ] = None,
    until: Annotated[str, typer.Option(metavar="TIME", help="Stop at this time: 2026-01-02T15:04:05Z.")] = "",
    output: named.OutputOption = "text",
) -> None:
    """Play a recording of the scheduler, and show where this version decides differently."""
    with target.failing("replay", output, ValueError, OSError):
        end = epoch(until) if until else None
        entries = _entries(paths)
        if what_if is not None:
            typer.echo(_compared(jobs(entries, end), what_if, output), nl=False)
            return
        cycles = _until(Replay().play(entries), end)
        count = decisions = 0
        different: list[ReplayedCycle] = []
        for cycle in cycles:
            count, decisions = count + 1, decisions + len(cycle.recorded)
            if cycle.differs:
                different.append(cycle)
        found = {"cycles": count, "decisions": decisions, "different": [_plain(each) for each in different]}
        if output == "text":
            typer.echo(text(count, decisions, different), nl=False)
        else:
            typer.echo(target.written(target.document("Replay", found), output), nl=False)
    if different:
        raise typer.Exit(1)


def text(count: int, decisions: int, different: Sequence[ReplayedCycle]) -> str:
    """Returns the result of a replay in words."""
    if not different:
        return f"{count} cycles with {decisions} decisions: this version decides all of them in the same way.\n"
    lines = [f"{count} cycles with {decisions} decisions: this version decides {len(different)} cycles differently."]
    for cycle in different[:MOST_SHOWN]:
        lines.append(f"{_moment(cycle.at)}, cycle {cycle.cycle}:")
        if cycle.heads_differ is not None:
            recorded, now = (", ".join(str(head.key) for head in heads) or "none" for heads in cycle.heads_differ)
            lines += [f"  heads, recorded: {recorded}", f"  heads, now:      {now}"]
        for name, was, is_now in _pairs(cycle):
            lines += [f"  {name}", f"    recorded: {_decided(was)}", f"    now:      {_decided(is_now)}"]
    if len(different) > MOST_SHOWN:
        lines.append(f"and {len(different) - MOST_SHOWN} more (-o json shows all)")
    return "".join(f"{line}\n" for line in lines)


def _pairs(cycle: ReplayedCycle) -> Iterator[tuple[str, DecisionRecord | None, DecisionRecord | None]]:
    """The decisions that differ, as they were and as they are; None where a workload is not decided."""
    was, now = ({each.key: each for each in several} for several in (cycle.recorded, cycle.now))
    for key in dict.fromkeys((*was, *now)):
        if was.get(key) != now.get(key):
            yield str(key), was.get(key), now.get(key)


def _decided(record: DecisionRecord | None) -> str:
    if record is None:
        return "not decided"
    if record.admission is not None:
        flavors = sorted({flavor for each in record.admission.pod_sets for flavor in each.flavors.values()})
        return f"quota reserved in {record.admission.cluster_queue} ({', '.join(flavors)})"
    victims = f"; preempts {', '.join(str(each.key) for each in record.victims)}" if record.victims else ""
    return f"waits: {record.message or record.reason}{victims}"


def _plain(cycle: ReplayedCycle) -> Raw:
    found: Raw = {
        "time": datetime.fromtimestamp(cycle.at, UTC).isoformat(),
        "cycle": cycle.cycle,
        "decisions": [
            {"workload": name, "recorded": _decided(was), "now": _decided(now)} for name, was, now in _pairs(cycle)
        ],
    }
    if cycle.heads_differ is not None:
        recorded, now = ([str(each.key) for each in heads] for heads in cycle.heads_differ)
        found["heads"] = {"recorded": recorded, "now": now}
    return found


def _entries(paths: Iterable[Path]) -> Iterator[RecordingEntry]:
    for path in paths:
        if not path.is_file():
            raise FailedError(f"{path} is no file: name a recording, or an archive that 'seiretsu bundle' has written")
        for data in _contents(path):
            yield from decoded(data)


def _contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    if data.startswith(MAGIC):
        yield data
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = sorted(each.name for each in archive.getmembers() if each.name.endswith(".recording"))
            for name in members:
                file = archive.extractfile(name)
                if file is not None:
                    yield file.read()
    except (tarfile.TarError, EOFError, OSError):
        raise FailedError(f"{path} is neither a recording nor an archive of 'seiretsu bundle'") from None
    if not members:
        raise FailedError(f"{path} has no recording: recorder.enabled was not set, or no replica answered")


def _until(cycles: Iterator[ReplayedCycle], end: float | None) -> Iterator[ReplayedCycle]:
    for cycle in cycles:
        if end is not None and cycle.at > end:
            return
        yield cycle


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _compared(recorded: RecordedJobs, patch: Path, output: str) -> str:
    """What would have happened, beside what the same simulation makes of the quotas as they were."""
    before = played(recorded)
    queues, cohorts = _patched(before[0], patch)
    after = played(recorded, queues, cohorts)
    rows = [_queue_row(name, before, after) for name in sorted(after[0].reservations.cluster_queues)]
    if output != "text":
        head = ("clusterQueue", "admitted", "preempted", "waitP50", "waitLongest", "used")
        plain = [dict(zip(head, row, strict=True)) for row in rows]
        return target.written(target.document("WhatIf", {"clusterQueues": plain}), output)
    length = seconds(recorded.end - recorded.start)
    about = f"{len(recorded.arrivals)} workloads in {length}, played again, as it was -> with {patch.name}:\n"
    return about + columns([("CLUSTERQUEUE", "ADMITTED", "PREEMPTED", "WAIT p50", "LONGEST", "IN USE, MEAN"), *rows])


def _patched(state: State, path: Path) -> tuple[dict[str, ClusterQueue], dict[str, Cohort]]:
    """The ClusterQueues and Cohorts of a file: fields that it does not have are those of the recording."""
    queues: dict[str, ClusterQueue] = {}
    cohorts: dict[str, Cohort] = {}
    mistakes = Mistakes()
    for each in documents(path, mistakes):
        kind, name = each.raw.get("kind"), str((each.raw.get("metadata") or {}).get("name", ""))
        fields = {field for key in each.raw.get("spec") or {} for field in _FIELDS.get(key, ())}
        if kind == "ClusterQueue":
            mine = decode.cluster_queue(each.raw)
            known = state.reservations.cluster_queues.get(name)
            queues[name] = changed(known, **{field: getattr(mine, field) for field in fields}) if known else mine
        elif kind == "Cohort":
            its = decode.cohort(each.raw)
            old = state.reservations.cohorts.get(name)
            own = fields & set(Cohort.__struct_fields__)
            cohorts[name] = changed(old, **{field: getattr(its, field) for field in own}) if old else its
        else:
            mistakes.add(each.place, f"kind: {kind!r}: only ClusterQueues and Cohorts can be different")
    mistakes.raise_any()
    return queues, cohorts


def _queue_row(name: str, before: tuple[State, Timeline], after: tuple[State, Timeline]) -> tuple[str, ...]:
    was, now = (_figures(name, run) for run in (before, after))
    return (name, *(_change(*pair) for pair in zip(was, now, strict=True)))


def _change(was: str, now: str) -> str:
    return was if was == now else f"{was} -> {now}"


def _figures(name: str, run: tuple[State, Timeline]) -> tuple[str, ...]:
    state, timeline = run
    local = {key for key, queue in state.pending.local_queues.items() if queue.cluster_queue == name}
    end = max(timeline.end, 1e-9)
    mine = [course for course in timeline.courses.values() if local_queue_of(course.arrival.workload) in local]
    waits = sorted(waited for course in mine if (waited := course.waited(end)) is not None)
    stops = sum(bool(attempt.preemptor) for course in mine for attempt in course.attempts)
    used = [
        f"{band.utilisation(end):.0%} of {quantity_text(band.cell.resource, band.nominal)} {band.cell.resource}"
        for band in bands(timeline, state.reservations.cluster_queues)
        if band.cluster_queue == name and band.utilisation(end) is not None
    ]
    return (
        str(sum(bool(course.attempts) for course in mine)),
        str(stops),
        seconds(waits[len(waits) // 2]) if waits else "-",
        seconds(waits[-1]) if waits else "-",
        ", ".join(used) or "-",
    )
