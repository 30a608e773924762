"""What a simulation is played on: ordinary manifests, traces as CSV, and changes to try, as files people have already.

A Job arrives when its annotation ``seiretsu.dev/arrive-at`` says (from the start; without one at once) and runs, once
admitted, for ``seiretsu.dev/run-for`` (one minute without one). A trace has a line for each Job: the columns ``at``,
``run_for``, ``queue`` and, where wanted, ``namespace``, ``name``, ``priority_class``, ``parallelism``; every other
column is a resource that each pod requests.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from api import names
from api.errors import aggregate
from api.manifests import stored
from api.names import GROUP

Raw = dict[str, Any]

ARRIVE_AT = "seiretsu.dev/arrive-at"
RUN_FOR = "seiretsu.dev/run-for"
DEFAULT_RUN_FOR = 60.0
COLUMNS = ("at", "run_for", "queue", "namespace", "name", "priority_class", "parallelism")
DELETE = "$patch"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class ScenarioError(Exception):
    """A file cannot be played; the message names the file, the place and the mend."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A Job that is submitted at a time; seconds."""

    at: float
    job: Raw
    run_for: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """Objects that are there from the start, and Jobs in the order of their submission."""

    objects: tuple[Raw, ...] = ()
    submissions: tuple[Submission, ...] = field(default=())


def duration(text: object) -> float:
    """Seconds of ``90``, ``90s``, ``1h30m``; ValueError says what is expected."""
    written = str(text).strip()
    try:
        return float(written)
    except ValueError:
        parts = _PART.findall(written)
        if not parts or "".join(a + u for a, u in parts) != written:
            raise ValueError(f"{written!r} is no duration: write 90s, 15m or 1h30m") from None
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)


def read(paths: Iterable[Path]) -> Scenario:
    """Read manifests (.yaml, .yml, .json) and traces (.csv); a folder stands for all such files in it."""
    objects: list[Raw] = []
    submissions: list[Submission] = []
    for path in _files(paths):
        if path.suffix == ".csv":
            submissions += _trace(path)
            continue
        for document in documents(path):
            if (document.get("apiVersion"), document.get("kind")) == ("batch/v1", "Job"):
                submissions.append(_submission(path, document))
            else:
                objects.append(_stored(path, document))
    named = _named(sorted(submissions, key=lambda s: s.at))  # stable: the order of the files decides among equals
    return Scenario(tuple(objects), tuple(named))


def changed(scenario: Scenario, patch: Path) -> Scenario:
    """The scenario with each document of a file merged into the object it names; new objects are added.

    A document with ``$patch: delete`` takes its object away.
    """
    objects = {_identity(o): o for o in scenario.objects}
    for document in documents(patch):
        identity = _identity(document)
        if document.get(DELETE) == "delete":
            if objects.pop(identity, None) is None:
                raise ScenarioError(f"{patch}: there is no {' '.join(filter(None, identity))} to delete")
            continue
        objects[identity] = merged(objects.get(identity, {}), document)
    return Scenario(tuple(objects.values()), scenario.submissions)


def merged(target: Raw, patch: Raw) -> Raw:
    """JSON merge patch (RFC 7386)."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


def documents(path: Path) -> Iterator[Raw]:
    """The objects of a file, those of a List one by one."""
    try:
        found = list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    for document in found:
        if document is None:
            continue
        if not isinstance(document, dict) or "kind" not in document:
            raise ScenarioError(f"{path}: a document without a kind: is this a Kubernetes manifest?")
        if document["kind"] == "List":
            yield from document.get("items") or []
        else:
            yield document


def _stored(path: Path, document: Raw) -> Raw:
    """One of our kinds in the stored version with its defaults, whatever version it is written in; others as they
    are.
    """
    if not str(document.get("apiVersion")).startswith(f"{GROUP}/"):
        return document
    obj, errors = stored(document)
    if errors:
        _, _, name = _identity(document)
        raise ScenarioError(f"{path}: {document['kind']} {name}: {aggregate(errors)}")
    return obj


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json", ".csv"))
        else:
            yield path


def _identity(document: Raw) -> tuple[str, str, str]:
    meta = document.get("metadata") or {}
    return document["kind"], meta.get("namespace", ""), meta.get("name", "")


def _submission(path: Path, job: Raw) -> Submission:
    annotations = (job.get("metadata") or {}).get("annotations") or {}
    pods = (((job.get("spec") or {}).get("template") or {}).get("metadata") or {}).get("annotations") or {}
    try:
        at = duration(annotations.get(ARRIVE_AT, 0))
        run_for = duration(annotations.get(RUN_FOR, pods.get(RUN_FOR, DEFAULT_RUN_FOR)))
    except ValueError as error:
        raise ScenarioError(f"{path}: Job {_identity(job)[2]}: {error}") from None
    return Submission(at, job, run_for)


def _named(submissions: Iterable[Submission]) -> Iterator[Submission]:
    """Names and namespaces as the API server would give them, but the same in every run."""
    counts: dict[str, int] = {}
    for one in submissions:
        meta = dict(one.job.get("metadata") or {})
        meta.setdefault("namespace", "default")
        if "name" not in meta:
            prefix = meta.get("generateName", "job-")
            counts[prefix] = counts.get(prefix, 0) + 1
            meta["name"] = f"{prefix}{counts[prefix]}"
        yield Submission(one.at, one.job | {"metadata": meta}, one.run_for)


def _trace(path: Path) -> Iterator[Submission]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = {"at", "run_for", "queue"} - set(rows.fieldnames or ())
        if missing:
            raise ScenarioError(f"{path}: the first line must name the columns {', '.join(sorted(missing))} too")
        for row in rows:
            try:
                yield Submission(duration(row["at"]), _job(row, rows.line_num), duration(row["run_for"]))
            except ValueError as error:
                raise ScenarioError(f"{path}:{rows.line_num}: {error}") from None


def _job(row: dict[str, str], number: int) -> Raw:
    """The Job of a trace's line."""
    labels = {names.Label.QUEUE_NAME: row["queue"]}
    if row.get("priority_class"):
        labels[names.Label.PRIORITY_CLASS] = row["priority_class"]
    parallelism = int(row.get("parallelism") or 1)
    requests = {name: amount for name, amount in row.items() if name not in COLUMNS and amount}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": row.get("name") or f"line-{number}",
            "namespace": row.get("namespace") or "default",
            "labels": labels,
        },
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
