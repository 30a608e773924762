"""A report of the history as text, CSV and a page. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from api.quantity import CPU
from cli import picture
from cli.bands import Band, StepFunction
from cli.page import page
from cli.report import seconds
from cli.table import columns
from controller.history.document import NOTHING
from controller.history.queries import GroupedBy, NamedWorkload, Preempted, Report, ReportLine
from core.history.record import LifeRecord
from core.model import FlavorResource
from core.model.messages import DUE_TO

MOST_PREEMPTIONS: Final = 10
_TITLES: Final = {
    GroupedBy.QUEUE: "ClusterQueue",
    GroupedBy.COHORT: "Cohort",
    GroupedBy.NAMESPACE: "Namespace",
    GroupedBy.USER: "User",
    GroupedBy.LOCAL_QUEUE: "LocalQueue",
}
_GIBI: Final = 2.0**30
_BYTES: Final = ("memory", "ephemeral-storage", "storage")
_UNKNOWN: Final = {GroupedBy.USER: "(not recorded)", GroupedBy.QUEUE: "(none)", GroupedBy.COHORT: "(none)"}


def table(found: Report) -> str:
    """Returns the report as text."""
    parts = [f"{headline(found)}\n", _groups(found), _fairness(found), _idle(found), _preemptions(found.preemptions)]
    return "\n".join(each for each in parts if each)


def headline(found: Report) -> str:
    """Returns what the report is about."""
    over = found.window
    length = seconds(over.end - over.start)
    return f"Use by {_TITLES[found.by]} in {length}: {_moment(over.start)} to {_moment(over.end)}"


def rows(found: Report) -> list[tuple[str, ...]]:
    """Returns the rows of the groups, the head first: for CSV, with full numbers."""
    cells = sorted({fr for line in found.lines for fr in line.hours})
    head = (
        str(found.by),
        *(f"{fr.resource} in {fr.flavor} ({unit(fr.resource)} hours)" for fr in cells),
        *("admitted", "wait p50 (s)", "wait p90 (s)", "longest wait (s)"),
        *("finished", "failed", "preempted", "evicted"),
    )
    return [head, *(_row(line, cells) for line in found.lines)]


def as_csv(several: Iterable[Sequence[str]]) -> str:
    """Returns rows as CSV. A text that a spreadsheet would run as a formula gets an apostrophe."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([[_inert(cell) for cell in row] for row in several])
    return written.getvalue()


def workload_rows(found: Iterable[LifeRecord]) -> list[tuple[str, ...]]:
    """Returns a row for each workload that has ended, the head first."""
    names = LifeRecord.__struct_fields__
    times = ("created", "finished")

    def cell(each: LifeRecord, name: str) -> str:
        value = getattr(each, name)
        if value is None:
            return ""
        return datetime.fromtimestamp(value, UTC).isoformat() if name in times else str(value)

    return [tuple(names), *(tuple(cell(each, name) for name in names) for each in found)]


def workload_table(found: Sequence[LifeRecord]) -> str:
    """Returns the workloads that have ended as text."""
    head = ("NAMESPACE", "WORKLOAD", "JOB", "USER", "CLUSTERQUEUE", "FINISHED", "OUTCOME", "RAN")
    body = [
        (
            each.namespace,
            each.name,
            f"{each.job_kind}/{each.job}" if each.job else "-",
            each.user or "-",
            each.cluster_queue or "-",
            _moment(each.finished or 0.0),
            each.outcome,
            seconds(each.ran) if each.ran is not None else "-",
        )
        for each in found
    ]
    return columns([head, *body])


def html(found: Report) -> str:
    """Returns the report as a page: a picture of the use of each group, of fairness, and the text."""
    over = found.window
    end = over.end - over.start
    title = headline(found)
    names = list(dict.fromkeys(name for name, _ in found.used))
    heads = {name: f"{_TITLES[found.by]} {_shown(found.by, name)}" for name in names}
    bands = [
        Band(name, fr, _mean(found.nominal.get((name, fr), ()), over.step), _steps(parts, over.step))
        for (name, fr), parts in sorted(found.used.items())
    ]
    pending = {
        name: _steps(found.waited[name, NOTHING], over.step) for name in names if (name, NOTHING) in found.waited
    }
    pictures = [picture.of_use(bands, pending, heads, end, title)] if bands else []
    tables = {"Use": table(found)} if bands else {}
    if any(each is not None for each in found.fairness):
        pictures.append(picture.of_shares(found.fairness, end, "Fairness (Jain's index)"))
        tables["Fairness"] = _fairness(found)
    return page(pictures, tables, title, "" if bands else table(found))


def unit(resource: str) -> str:
    """Returns the unit in which hours of a resource are shown."""
    return "GiB" if resource in _BYTES else resource


def amount(resource: str, hours: float) -> float:
    """Returns hours in that unit."""
    return hours / 1000 if resource == CPU else hours / _GIBI if resource in _BYTES else hours


def _groups(found: Report) -> str:
    resources = sorted({fr.resource for line in found.lines for fr in line.hours})
    head = (
        str(found.by).upper(),
        *(f"{unit(each).upper()} HOURS" for each in resources),
        *("ADMITTED", "WAIT p50", "p90", "LONGEST", "FINISHED", "FAILED", "PREEMPTED", "EVICTED"),
    )
    body = []
    for line in found.lines:
        hours = [sum(each for fr, each in line.hours.items() if fr.resource == resource) for resource in resources]
        waits, ends = line.waits, line.ends
        body.append(
            (
                _shown(found.by, line.group),
                *(f"{amount(name, each):.1f}" for name, each in zip(resources, hours, strict=True)),
                str(waits.admitted) if waits else "0",
                *([seconds(waits.p50), seconds(waits.p90), seconds(waits.longest)] if waits else ["-"] * 3),
                *(str(each) for each in ends[1:]),
            )
        )
    return columns([head, *body]) if body else "Nothing was used, and nothing waited.\n"


def _row(line: ReportLine, cells: Sequence[FlavorResource]) -> tuple[str, ...]:
    waits = line.waits
    return (
        line.group,
        *(f"{amount(fr.resource, line.hours.get(fr, 0.0)):.4f}" for fr in cells),
        str(waits.admitted) if waits else "0",
        *([f"{each:.0f}" for each in (waits.p50, waits.p90, waits.longest)] if waits else [""] * 3),
        *(str(each) for each in line.ends[1:]),
    )


def _fairness(found: Report) -> str:
    known = [(each, number) for number, each in enumerate(found.fairness) if each is not None]
    if not known:
        return ""
    lowest, number = min(known)
    mean = sum(each for each, _ in known) / len(known)
    what = "of its share of the quota" if found.by is GroupedBy.QUEUE and found.nominal else "as any other"
    return (
        f"Fairness (1: each that used or waited had as much {what}): {mean:.2f} on average, lowest {lowest:.2f} from"
        f" {_moment(found.window.part(number)[0])}\n"
    )


def _idle(found: Report) -> str:
    if not found.idle:
        return ""
    body = [
        (
            each.name,
            each.flavor,
            each.resource,
            f"{amount(each.resource, each.nominal):.1f}",
            f"{amount(each.resource, each.idle):.1f}",
            f"{each.idle / each.nominal:.0%}" if each.nominal else "-",
        )
        for each in found.idle
    ]
    return columns([("IDLE QUOTA", "FLAVOR", "RESOURCE", "HOURS OF QUOTA", "IDLE", "PART"), *body])


def _preemptions(several: Sequence[Preempted]) -> str:
    if not several:
        return ""
    body = [
        (_moment(each.at), _called(each.victim), _called(each.by) if each.by else "-", DUE_TO.get(each.rule, each.rule))
        for each in several[:MOST_PREEMPTIONS]
    ]
    more = f"and {len(several) - MOST_PREEMPTIONS} more (-o json)\n" if len(several) > MOST_PREEMPTIONS else ""
    return columns([("PREEMPTED AT", "WORKLOAD", "BY", "BECAUSE OF"), *body]) + more


def _called(found: NamedWorkload) -> str:
    name = f"{found.key.namespace}/{found.job or found.key.name}"
    return f"{name} of {found.user}" if found.user else name


def _shown(by: GroupedBy, name: str) -> str:
    return name or _UNKNOWN.get(by, "-")


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _steps(parts: Sequence[float], step: float) -> StepFunction:
    return tuple((number * step, round(each / step)) for number, each in enumerate(parts)) or ((0.0, 0),)


def _mean(parts: Sequence[float], step: float) -> int:
    return round(sum(parts) / (len(parts) * step)) if parts else 0


def _inert(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(cell) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
