"""A report as JSON: what the visibility API answers and ``seiretsu report -o json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.objects import Raw
from controller.history.queries import (
    Ends,
    GroupedBy,
    NamedWorkload,
    Preempted,
    Report,
    ReportLine,
    Waits,
)
from core.history.record import LifeRecord
from core.history.report import Idle, SeriesByGroup, Window
from core.model import FlavorResource, Key

MOST_SERIES: Final = 60
"""So many series are in a document, those with most use first: a picture of more is not clear."""
NOTHING: Final = FlavorResource("", "")
MOST_LINES: Final = 1_000


def written(found: Report) -> Raw:
    """Returns the report as JSON; amounts are in base units (cpu in thousandths)."""
    over = found.window
    largest = _largest(found.used)
    return {
        "window": over._asdict(),
        "by": str(found.by),
        "groups": [
            {
                "name": line.group,
                "hours": [{**fr._asdict(), "amount": hours} for fr, hours in sorted(line.hours.items())],
                "waits": line.waits._asdict() if line.waits is not None else None,
                "ends": line.ends._asdict(),
            }
            for line in found.lines[:MOST_LINES]
        ],
        "used": _series(found.used, largest),
        "waited": _series(found.waited, [(name, NOTHING) for name in dict.fromkeys(name for name, _ in largest)]),
        "nominal": _series(found.nominal, largest),
        "fairness": list(found.fairness),
        "idle": [each._asdict() for each in found.idle],
        "preemptions": [
            {
                "at": each.at,
                "rule": each.rule,
                "victim": _named(each.victim),
                "by": _named(each.by) if each.by is not None else None,
            }
            for each in found.preemptions
        ],
    }


def read(raw: Raw) -> Report:
    """Returns the report of a document. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for any other document."""
    return Report(
        window=Window(**raw["window"]),
        by=GroupedBy(raw["by"]),
        lines=tuple(
            ReportLine(
                each["name"],
                {FlavorResource(cell["flavor"], cell["resource"]): cell["amount"] for cell in each["hours"]},
                Waits(**each["waits"]) if each["waits"] is not None else None,
                Ends(**each["ends"]),
            )
            for each in raw["groups"]
        ),
        used=_read_series(raw["used"]),
        waited=_read_series(raw["waited"]),
        nominal=_read_series(raw["nominal"]),
        fairness=tuple(raw["fairness"]),
        idle=tuple(Idle(**each) for each in raw["idle"]),
        preemptions=tuple(
            Preempted(each["at"], each["rule"], _read_named(each["victim"]), each["by"] and _read_named(each["by"]), "")
            for each in raw["preemptions"]
        ),
    )


def workloads_written(found: Iterable[LifeRecord]) -> list[Raw]:
    """Returns workloads that have finished as JSON."""
    return [{name: getattr(each, name) for name in LifeRecord.__struct_fields__} for each in found]


def workloads_read(raw: Iterable[Raw]) -> list[LifeRecord]:
    """Returns the workloads of a document."""
    return [LifeRecord(**each) for each in raw]


def _largest(used: SeriesByGroup) -> list[tuple[str, FlavorResource]]:
    """The series to be shown: those of the groups that used most, by their share of each resource."""
    totals: dict[FlavorResource, float] = {}
    for (_, fr), parts in used.items():
        totals[fr] = totals.get(fr, 0.0) + sum(parts)
    ordered = sorted(used, key=lambda key: (-sum(used[key]) / (totals[key[1]] or 1.0), key))
    return sorted(ordered[:MOST_SERIES])


def _series(found: SeriesByGroup, shown: Iterable[tuple[str, FlavorResource]]) -> list[Raw]:
    return [{"group": key[0], **key[1]._asdict(), "parts": list(found[key])} for key in shown if key in found]


def _read_series(raw: Iterable[Mapping[str, Any]]) -> SeriesByGroup:
    return {(each["group"], FlavorResource(each["flavor"], each["resource"])): each["parts"] for each in raw}


def _named(found: NamedWorkload) -> Raw:
    fields = found._asdict()
    key: Key = fields.pop("key")
    return {**key._asdict(), **fields}


def _read_named(raw: Mapping[str, Any]) -> NamedWorkload:
    fields = dict(raw)
    return NamedWorkload(Key(fields.pop("namespace"), fields.pop("name")), **fields)
