"""The input of a simulation: ordinary manifests, traces as CSV, and changes to try.

A Job arrives at the time in its annotation ``seiretsu.dev/arrive-at`` (from the start; by default immediately), its
pods become ready after ``seiretsu.dev/ready-after`` (immediately) and it runs, from then, for ``seiretsu.dev/run-for``
(one minute; a queued Deployment, StatefulSet or LeaderWorkerSet runs without end). On the pod template that is the
running time of each pod: a Job with more completions than parallel pods takes several rounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from api import names
from api.convert import ConversionError, convert
from api.objects import Raw
from api.resources import NODES
from cli.manifests import Document, Mistakes, ScenarioError, documents, ours
from cli.trace import TracedJob, duration, trace
from controller.run.watched import WATCHED, rows
from core.jobs import fields
from core.jobs.kind import JobKind
from core.jobs.kinds import KINDS, kind_of
from core.jobs.pod_owners import FORM, POD_OWNERS, pod_owner_of
from core.wire.merge import merged
from core.wire.timestamps import epoch

__all__ = ["DEFAULT_RUN_FOR", "Document", "Raw", "Scenario", "ScenarioError", "TracedJob", "changed", "duration"]

ARRIVE_AT = "seiretsu.dev/arrive-at"
RUN_FOR = "seiretsu.dev/run-for"
READY_AFTER = "seiretsu.dev/ready-after"
DEFAULT_RUN_FOR = 60.0
DELETE = "$patch"
SUFFIXES = (".yaml", ".yml", ".json", ".csv")
LIVE = "the cluster"
"""The origin of objects that an API server holds: it has had them admitted."""

NAMESPACED = frozenset({row.resource.kind for row in rows(KINDS.values(), POD_OWNERS) if row.resource.namespaced})
PLAYED = frozenset(
    {NODES.kind, *(row.resource.kind for row in WATCHED if row.played and row.resource.group != names.GROUP)}
)
"""Kinds of others that matter to a simulation, besides Jobs."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Objects that exist from the start, Jobs in the order of their submission, and objects that are not simulated.

    ``start`` is the moment, in epoch seconds, from which the times of submissions are counted. ``gone`` are the
    hostnames of nodes that have failed just before: what runs on them is placed anew, or evicted.
    """

    objects: tuple[Document, ...] = ()
    submissions: tuple[TracedJob, ...] = field(default=())
    remarks: tuple[str, ...] = ()
    start: float = 0.0
    gone: frozenset[str] = frozenset()


def read(paths: Iterable[Path]) -> Scenario:
    """Reads manifests (.yaml, .yml, .json) and traces (.csv); a folder means all such files in it.

    Raises ScenarioError with all mistakes in all of them.
    """
    mistakes = Mistakes()
    objects: dict[tuple[str, str, str], Document] = {}
    submissions: list[TracedJob] = []
    left_out: Counter[str] = Counter()
    for path in _files(paths, mistakes):
        if path.suffix == ".csv":
            submissions += trace(path, mistakes)
            continue
        for document in documents(path, mistakes):
            if _is_job(document.raw):
                submissions += _submission(document, mistakes)
            elif _is_played(document.raw):
                _put(objects, ours(document, mistakes), mistakes)
            else:
                left_out[f"{document.raw['kind']} ({document.raw.get('apiVersion')})"] += 1
    named = list(_named(sorted(submissions, key=lambda s: s.at), mistakes))  # stable: among equals files decide
    mistakes.raise_any()
    remarks = [f"not simulated: {count} of kind {kind}" for kind, count in sorted(left_out.items())]
    return Scenario(tuple(objects.values()), tuple(named), tuple(remarks), start=_newest(objects.values()))


def _newest(objects: Iterable[Document]) -> float:
    """Returns the latest time in the Workloads of files: the simulation continues from there."""
    workloads = (document.raw for document in objects if document.raw["kind"] == names.Kind.WORKLOAD)
    stamps = [
        (raw["metadata"].get("creationTimestamp"), (raw.get("status") or {}).get("conditions")) for raw in workloads
    ]
    moments = [created for created, _ in stamps] + [
        c.get("lastTransitionTime") for _, found in stamps for c in found or ()
    ]
    return max((epoch(each) for each in moments if each), default=0.0)


def live(scenario: Scenario, found: Iterable[Raw], now: float) -> Scenario:
    """The scenario in a cluster that holds these objects; files replace objects of the same name, as apply would."""
    objects = {identity_of(raw): Document(raw, LIVE) for raw in found}
    objects |= {identity_of(document.raw): document for document in scenario.objects}
    return replace(scenario, objects=tuple(objects.values()), start=now)


def with_objects(scenario: Scenario, more: Iterable[Document]) -> Scenario:
    """The scenario with more objects; ScenarioError where it has one of them already."""
    mistakes = Mistakes()
    objects = {identity_of(document.raw): document for document in scenario.objects}
    for document in more:
        _put(objects, document, mistakes)
    mistakes.raise_any()
    return replace(scenario, objects=tuple(objects.values()))


def changed(scenario: Scenario, patch: Path) -> Scenario:
    """Returns the scenario with each document of a file merged into the object or Job it names; new ones are added.

    A document with ``$patch: delete`` removes its object or Job.
    """
    mistakes = Mistakes()
    objects = {identity_of(document.raw): document for document in scenario.objects}
    jobs = {identity_of(submission.job): submission for submission in scenario.submissions}
    for document in documents(patch, mistakes):
        identity = identity_of(document.raw)
        table: dict[tuple[str, str, str], Document] | dict[tuple[str, str, str], TracedJob]
        table = jobs if _is_job(document.raw) or identity in jobs else objects
        if document.raw.get(DELETE) == "delete":
            if table.pop(identity, None) is None:
                mistakes.add(document.origin, f"there is no {' '.join(filter(None, identity))} to delete")
        elif table is jobs:
            base = jobs[identity].job if identity in jobs else {}
            for one in _submission(Document(merged(base, document.raw), document.origin), mistakes):
                jobs[identity] = _in_place(jobs.get(identity), one)
        elif _is_played(document.raw) or identity in objects:
            after = _merged_object(objects.get(identity), document, mistakes)
            if after is not None:
                objects[identity_of(after.raw)] = after
        else:
            mistakes.add(document.place, "this kind is not simulated: a change of it has no effect here")
    named = tuple(_named(sorted(jobs.values(), key=lambda s: s.at), mistakes))
    mistakes.raise_any()
    return replace(scenario, objects=tuple(objects.values()), submissions=named)


def _merged_object(base: Document | None, patch: Document, mistakes: Mistakes) -> Document | None:
    """Returns the object after the patch, which is in its own version."""
    if base is None:
        return ours(patch, mistakes)
    raw, version = base.raw, str(patch.raw.get("apiVersion", base.raw["apiVersion"]))
    if version != raw["apiVersion"]:
        try:
            raw = convert(raw, version.rpartition("/")[2])
        except ConversionError as error:
            mistakes.add(patch.place, f"apiVersion: {error}")
            return None
    return ours(Document(merged(raw, patch.raw), patch.origin), mistakes)


def _in_place(old: TracedJob | None, new: TracedJob) -> TracedJob:
    """A trace has the times of a Job outside of it: they are kept unless the change sets them."""
    if old is None:
        return new
    annotations = new.job["metadata"].get("annotations") or {}
    return replace(
        new,
        at=new.at if ARRIVE_AT in annotations else old.at,
        run_for=new.run_for if RUN_FOR in annotations else old.run_for,
        ready_after=new.ready_after if READY_AFTER in annotations else old.ready_after,
    )


def _files(paths: Iterable[Path], mistakes: Mistakes) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
            if not found:
                mistakes.add(path, f"the folder has no file that ends in {', '.join(SUFFIXES)}")
            yield from found
        elif path.suffix in SUFFIXES or not path.exists():
            yield path
        else:
            mistakes.add(path, f"a file to simulate ends in {', '.join(SUFFIXES)}")


def _is_job(raw: Raw) -> bool:
    """Whether an object is a job, or one whose pods are queued and that names a queue."""
    if kind_of(raw) is not None:
        return True
    labels = (raw.get("metadata") or {}).get("labels")
    return pod_owner_of(raw) is not None and isinstance(labels, dict) and names.Label.QUEUE_NAME in labels


def _is_played(raw: Raw) -> bool:
    return str(raw.get("apiVersion")).startswith(f"{names.GROUP}/") or raw.get("kind") in PLAYED


def identity_of(raw: Raw) -> tuple[str, str, str]:
    """Returns kind, namespace and name of an object as the API server would have them."""
    meta = raw.get("metadata") or {}
    kind = names.Kind.LOCAL_QUEUE if raw["kind"] == names.Kind.QUEUE else raw["kind"]
    namespace = meta.get("namespace", "default") if kind in NAMESPACED else ""
    return kind, namespace, meta.get("name", "")


def _put(objects: dict[tuple[str, str, str], Document], document: Document, mistakes: Mistakes) -> None:
    identity = identity_of(document.raw)
    if identity in objects:
        mistakes.add(document.place, f"is in {objects[identity].origin} already")
    objects[identity] = document


def _submission(document: Document, mistakes: Mistakes) -> Iterator[TracedJob]:
    kind, owner = kind_of(document.raw), pod_owner_of(document.raw)
    templates = _templates(kind, document.raw) if kind is not None else []
    if owner is not None:
        if errors := FORM.errors(document.raw):
            mistakes.add(document.place, *errors)
            return
        paths = dict.fromkeys(slot.path for slot in owner.slots(document.raw))
        templates = [(path, fields.at(document.raw, path) or {}) for path in paths]
    missing = [path for path, found in templates if not isinstance(found.get("spec"), dict)]
    if missing or not (templates or kind is None or kind.templates_elsewhere):
        required = fields.dotted((*missing[0], "spec") if missing or kind is None else kind.pods_path)
        mistakes.add(document.place, f"{required}: Required value")
        return
    mine, pods = _annotations(document.raw), _annotations(templates[0][1]) if templates else {}
    rounds = 1
    if kind is not None and RUN_FOR not in mine and RUN_FOR in pods:
        rounds = kind.rounds(document.raw)
    given = {ARRIVE_AT: "0", READY_AFTER: pods.get(READY_AFTER, "0"), RUN_FOR: pods.get(RUN_FOR, DEFAULT_RUN_FOR)}
    times = {}
    for name, default in given.items():
        try:
            times[name] = duration(mine.get(name, default))
        except ValueError as error:
            mistakes.add(document.place, f"metadata.annotations[{name}]: {error}")
            return
    if owner is not None and RUN_FOR not in {**mine, **pods}:
        times[RUN_FOR] = math.inf
    yield TracedJob(times[ARRIVE_AT], document.raw, times[RUN_FOR] * rounds, times[READY_AFTER], document.origin)


def _annotations(raw: Raw) -> Raw:
    meta = raw.get("metadata")
    found = meta.get("annotations") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def _templates(kind: JobKind, raw: Raw) -> list[tuple[fields.Path, Raw]]:
    """The pod templates of a job and where they are; nothing where its fields have other types than they must."""
    if kind.pods_path[-1] == "template":
        return [(kind.pods_path, fields.at(raw, kind.pods_path) or {})]
    if kind.form.errors(raw):
        return []
    return [(slot.path, kind.template_of(raw, slot) or {}) for slot in kind.slots(raw)]


def _named(submissions: Iterable[TracedJob], mistakes: Mistakes) -> Iterator[TracedJob]:
    """Names and namespaces as the API server would give them, but the same in every run."""
    counts: Counter[str] = Counter()
    seen: dict[tuple[str, str, str], str] = {}
    for one in submissions:
        meta = dict(one.job.get("metadata") or {})
        meta.setdefault("namespace", "default")
        if "name" not in meta:
            prefix = meta.get("generateName", "job-")
            counts[prefix] += 1
            meta["name"] = f"{prefix}{counts[prefix]}"
        key = (one.job["kind"], meta["namespace"], meta["name"])
        if seen.setdefault(key, one.origin) != one.origin:
            mistakes.add(one.origin, f"{key[0]} {'/'.join(key[1:])} is in {seen[key]} already")
        yield replace(one, job=one.job | {"metadata": meta})
