"""The shape of a copy of a Workload, and of its job, as a worker cluster serves them: the rules read those of several
workers at once, and a malformed one must not stop what they decide about the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from core.jobs.fields import Path, at, without
from core.jobs.kind import JobKind
from core.jobs.kinds import kind_at
from core.jobs.mirrored import Mirrored
from core.jobs.template import merge_diff
from core.model import Raw
from core.wire.timestamps import maybe_epoch

MALFORMED: Final = "malformed"
"""The key under which a copy that ``checked`` has changed has what was wrong."""
_MAPS: Final = ("annotations", "labels")
_TIMES: Final = ("creationTimestamp", "deletionTimestamp")
_LONGEST: Final = 200
_LISTS: Final[Mapping[str, Mapping[str, type]]] = {
    "conditions": {"type": str, "status": str, "reason": str},
    "preemptionGates": {"name": str, "position": str, "lastTransitionTime": str},
}
"""The lists of the status that the rules read, and the fields that each object there has."""
_OWNER: Final = {"apiVersion": str, "kind": str, "name": str, "uid": str}
_METADATA: Final = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
        *("labels", "annotations", "finalizers", "ownerReferences"),
    }
)
_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC: Final = frozenset(
    {
        *("podSets", "queueName", "active", "priority", "priorityClassRef", "priorityClassName", "priorityClassSource"),
        *("maximumExecutionTimeSeconds", "preemptionGates"),
    }
)
_STATUS: Final = frozenset({"conditions", "preemptionGates"})
_CALLED: Final[Mapping[type, str]] = {str: "a string", int: "an integer"}


def kept(raw: Raw, unread: Iterable[Path] = ()) -> Raw:
    """Returns what is kept of an object of a worker, without what is not read: a worker may serve anything there."""
    found = {key: value for key, value in raw.items() if key in _PARTS}
    found["metadata"] = {key: value for key, value in raw["metadata"].items() if key in _METADATA}
    for path in unread:
        if isinstance(at(found, path[:-1]), dict):
            found = without(found, path)
    return found


def kept_workload(raw: Raw, local: Raw | None) -> tuple[Raw, Raw]:
    """Returns what is kept of a copy, and which part of that takes memory of its own: the fields of the spec that are
    equal to those of ``local``, the Workload here, are those of ``local``.
    """
    found, here = kept(raw), (local or {}).get("spec") or {}
    spec, status = found.get("spec"), found.get("status")
    if isinstance(status, dict):
        found["status"] = {key: value for key, value in status.items() if key in _STATUS}
    if not isinstance(spec, dict):
        return found, found
    shared = {key: here[key] for key, value in spec.items() if key in here and here[key] == value}
    own = {key: value for key, value in spec.items() if key in _SPEC and key not in shared}
    return {**found, "spec": own | shared}, {**found, "spec": own}


def checked(raw: Raw) -> Raw:
    """Returns a copy as it is, or without its status and without what is wrong in its metadata and its pod sets; then
    it also has what was wrong.
    """
    metadata, spec = raw["metadata"], raw.get("spec")
    wrong = dict(_metadata(metadata))
    found = [*wrong.values()]
    kept = {key: value for key, value in metadata.items() if key not in wrong}
    if not isinstance(spec, dict):
        found.append("spec: must be an object")
        spec = {}
    elif pod_sets := [*_list("spec.podSets", spec.get("podSets"), {"count": int})]:
        found += pod_sets
        spec = {key: value for key, value in spec.items() if key != "podSets"}
    found += _status(raw.get("status") or {})
    if not found:
        return raw
    rest = {key: value for key, value in raw.items() if key != "status"}
    return {**rest, "metadata": kept, "spec": spec, MALFORMED: found[0]}


def checked_job(kind: Mirrored, raw: Raw, now: float) -> Raw:
    """Returns an object of a job as it is, or without its spec and its status and without what is wrong in its
    metadata; then it also has what was wrong.

    Each kind reads other fields, so everything that the rules ask of its kind is asked here once.
    """
    wrong = dict(_job_metadata(raw["metadata"]))
    found = next(iter(wrong.values()), "") or _parts(kind, raw) or _unreadable(kind, raw, now)
    if not found:
        return raw
    metadata = {key: value for key, value in raw["metadata"].items() if key not in wrong}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, MALFORMED: found}


def _job_metadata(metadata: Raw) -> Iterator[tuple[str, str]]:
    yield from _metadata(metadata)
    for key in _MAPS:
        found = metadata.get(key) or {}
        if isinstance(found, dict) and not all(isinstance(value, str) for value in found.values()):
            yield key, f"metadata.{key}: must be a map of strings"
    for key in _TIMES:
        try:
            maybe_epoch(metadata.get(key))
        except (TypeError, ValueError):
            yield key, f"metadata.{key}: must be a time"


def _parts(kind: Mirrored, raw: Raw) -> str:
    if (raw.get("apiVersion"), raw.get("kind")) != (kind.api_version, kind.kind):
        return f"apiVersion, kind: must be {kind.api_version}, {kind.kind}"
    wrong = (part for part in ("spec", "status") if not isinstance(raw.get(part) or {}, dict))
    return next((f"{part}: must be an object" for part in wrong), "")


def _unreadable(kind: Mirrored, raw: Raw, now: float) -> str:
    """Why the rules cannot read an object; '' if they can."""
    if isinstance(kind, JobKind):
        kind = kind_at(kind, kind.key(raw))
    try:
        tuple(kind.workloads_of(raw))
        kind.made_for(raw, raw)
        kind.stopped_in_worker(raw)
        kind.idle_in_worker((raw,), now)
        kind.ended_in_worker((raw,), now)
        merge_diff({}, kind.status_from_worker(raw, raw) or {})
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return f"cannot be read: {type(error).__name__}: {error}"[:_LONGEST]
    return ""


def _metadata(metadata: Raw) -> Iterator[tuple[str, str]]:
    """Each field of the metadata that is wrong, and why."""
    for key in _MAPS:
        if not isinstance(metadata.get(key) or {}, dict):
            yield key, f"metadata.{key}: must be a map"
    if not isinstance(metadata.get("finalizers") or [], list):
        yield "finalizers", "metadata.finalizers: must be a list"
    for wrong in _list("metadata.ownerReferences", metadata.get("ownerReferences"), _OWNER):
        yield "ownerReferences", wrong


def _status(status: Any) -> Iterator[str]:
    if not isinstance(status, dict):
        yield "status: must be an object"
        return
    for key, fields in _LISTS.items():
        yield from _list(f"status.{key}", status.get(key), fields)


def _list(path: str, entries: Any, fields: Mapping[str, type]) -> Iterator[str]:
    """What is wrong in a list of objects that have these fields."""
    if not isinstance(entries or [], list):
        yield f"{path}: must be a list"
        return
    for place, each in enumerate(entries or []):
        for wrong in _entry(each, fields):
            yield f"{path}[{place}]{wrong}"


def _entry(each: Any, fields: Mapping[str, type]) -> Iterator[str]:
    if not isinstance(each, dict):
        yield ": must be an object"
        return
    yield from (f".{key}: must be {_CALLED[kind]}" for key, kind in fields.items() if type(each.get(key)) is not kind)
    if not isinstance(each.get("message", ""), str):
        yield ".message: must be a string"
    try:
        maybe_epoch(each.get("lastTransitionTime"))
    except (TypeError, ValueError):
        yield ".lastTransitionTime: must be a time"
