"""Jobs of a trace: a line of CSV for each, with the times of its arrival and of its run.

The columns ``at``, ``run_for`` and ``queue`` are required; ``namespace``, ``name``, ``priority_class``, ``parallelism``
and ``ready_after`` are optional; every other column is a resource that each pod requests.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api import names, quantity
from api.objects import Raw
from cli.manifests import Mistakes

REQUIRED = ("at", "run_for", "queue")
OPTIONAL = ("namespace", "name", "priority_class", "parallelism", "ready_after")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"\d+(?:\.\d*)?")


@dataclass(frozen=True, slots=True)
class TracedJob:
    """A Job that is submitted at a time and runs, once its pods are ready, for that duration; seconds."""

    at: float
    job: Raw
    run_for: float
    ready_after: float = 0.0
    origin: str = ""


def duration(text: object) -> float:
    """Parses ``90``, ``90s``, ``1h30m`` into seconds; raises ValueError with the expected form."""
    written = str(text).strip()
    if _NUMBER.fullmatch(written):
        return float(written)
    parts = _PART.findall(written)
    if not parts or "".join(a + u for a, u in parts) != written:
        raise ValueError(f"{written!r} is no duration: write 90s, 15m or 1h30m")
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)


def trace(path: Path, mistakes: Mistakes) -> Iterator[TracedJob]:
    """The Jobs of a file, in its order."""
    known: dict[tuple[str, ...], Raw] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            columns = [name.strip() for name in rows.fieldnames or ()]
            rows.fieldnames = columns
            if not _well_headed(columns, path, mistakes):
                return
            for row in rows:
                found = _submission(row, f"{path}:{rows.line_num}", rows.line_num, known, mistakes)
                if found is not None:
                    yield found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        mistakes.add(path, getattr(error, "strerror", None) or error)


def _well_headed(columns: list[str], path: Path, mistakes: Mistakes) -> bool:
    missing = [name for name in REQUIRED if name not in columns]
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if missing:
        mistakes.add(f"{path}:1", f"the first line must name the columns {', '.join(missing)} too")
    if doubled:
        mistakes.add(f"{path}:1", f"the first line names {', '.join(doubled)} twice")
    if "" in columns:
        mistakes.add(f"{path}:1", "the first line has a column without a name")
    return not (missing or doubled or "" in columns)


def _submission(
    row: dict[Any, Any], origin: str, number: int, known: dict[tuple[str, ...], Raw], mistakes: Mistakes
) -> TracedJob | None:
    """Returns the Job of a line; None if it has a mistake."""
    before = len(mistakes.found)
    if None in row:
        mistakes.add(origin, f"has {len(row[None])} more columns than the first line")
        return None
    cells = {name: (value or "").strip() for name, value in row.items()}
    at, run_for = (_seconds(cells[name], name, origin, mistakes) for name in ("at", "run_for"))
    ready_after = _seconds(cells.get("ready_after") or "0", "ready_after", origin, mistakes)
    key = tuple(value for name, value in cells.items() if name not in ("at", "run_for", "ready_after", "name"))
    job = known.get(key)
    if job is None:
        job = known[key] = _job(cells, origin, mistakes)
    if len(mistakes.found) > before:
        known.pop(key, None)  # mistakes are reported for every line
        return None
    named = {**job["metadata"], "name": cells.get("name") or f"line-{number}"}
    return TracedJob(at, {**job, "metadata": named}, run_for, ready_after, origin)


def _seconds(text: str, column: str, origin: str, mistakes: Mistakes) -> float:
    try:
        return duration(text)
    except ValueError as error:
        mistakes.add(origin, f"{column}: {error}")
        return 0.0


def _job(cells: Mapping[str, str], origin: str, mistakes: Mistakes) -> Raw:
    """Returns the Job of a line without its name."""
    labels = {names.Label.QUEUE_NAME: cells["queue"]} if cells["queue"] else {}
    if cells.get("priority_class"):
        labels[names.Label.PRIORITY_CLASS] = cells["priority_class"]
    parallelism = cells.get("parallelism") or "1"
    if not parallelism.isascii() or not parallelism.isdigit():
        mistakes.add(origin, f"parallelism: Invalid value: {parallelism!r}: a number of pods is expected")
        parallelism = "1"
    requests = {name: text for name, text in cells.items() if name not in (*REQUIRED, *OPTIONAL) and text}
    for name, text in requests.items():
        try:
            quantity.exact(text)
        except ValueError as error:
            columns = ", ".join((*REQUIRED, *OPTIONAL))
            mistakes.add(origin, f"{name}: {error} (a column that is none of {columns} is a resource)")
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": cells.get("namespace") or "default", "labels": labels},
        "spec": {
            "parallelism": int(parallelism),
            "completions": int(parallelism),
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
