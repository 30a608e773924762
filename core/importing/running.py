"""What runs in a namespace: each job with its pods, the objects that belong to it, and the Workloads that it controls.

Pods are found by their controllers, over any number of levels: those of a JobSet are controlled by its Jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from api.names import Condition
from api.objects import Resource
from core.jobs import meta, owners
from core.jobs.imported import being_imported
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, POD, kind_of
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.pod import ended
from core.model import Key, Raw, Workload
from core.wire.pod_requests import RequestRules, effective

ALWAYS: Final = (BATCH_JOB, POD)
"""The kinds that are always looked at. The controller has to know the others before they are taken in."""


def imported_kinds(frameworks: Collection[str] | None) -> tuple[JobKind, ...]:
    """The kinds that are taken in with these integrations, None if they are not known. Not AppWrappers: what is in them
    may be of any kind, also of those whose pods nobody here finds.
    """
    if frameworks is None:
        return ALWAYS
    return tuple(each for each in ALL if each in ALWAYS or (each.enabled(frameworks) and each is not APP_WRAPPER))


def read_resources(kinds: Iterable[JobKind]) -> tuple[Resource, ...]:
    """What has to be read, beside pods, so that jobs of these kinds have their pods and the objects that belong to
    them."""
    found = (resource for kind in kinds if kind is not POD for resource in (kind.resource, *kind.related))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job, its pods, the Workloads that it controls, and the related objects of which its kind needs to know."""

    kind: JobKind
    raw: Raw
    pods: tuple[Raw, ...] = ()
    workloads: tuple[Raw, ...] = ()
    related: tuple[Raw, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.raw["metadata"]["namespace"], self.raw["metadata"]["name"])

    def now(self, raw: Raw) -> Raw:
        """The job as it was read again, with the fields that were kept of it."""
        return POD.lean(raw, _not_shared) if self.kind is POD else raw

    def pod_sets(self, raw: Raw | None = None) -> list[Raw]:
        """The pod sets of the job, or of one that was read again."""
        return self.kind.pod_sets(self.raw if raw is None else raw, self.related)

    def nodes(self, pod_set: str) -> list[str]:
        """The nodes of the pods of a pod set, '' for a pod without one. A pod counts in the first pod set that it looks
        like; one that looks like none, as a webhook may have changed it, counts in each.
        """
        pod_sets = self.pod_sets()
        if len(pod_sets) == 1:
            return [_node(pod) for pod in self.pods]
        left = {each["name"]: int(each["count"]) for each in pod_sets}
        found = []
        for pod in self.pods:
            alike = [each["name"] for each in pod_sets if _looks_like(pod, each["template"].get("spec") or {})]
            name = next((each for each in alike if left[each] > 0), alike[0] if alike else pod_set)
            left[name] -= 1
            if name == pod_set:
                found.append(_node(pod))
        return found

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


def jobs_of(
    objects: Sequence[Raw], pods: Sequence[Raw], workloads: Iterable[Raw], kinds: Collection[JobKind] = ALWAYS
) -> Iterator[RunningJob]:
    """Yields the jobs of these kinds among the objects, then the pods that none of the objects controls, in the order
    of the lists.
    """
    of_owner = _by_controller(workloads)
    related = _by_controller(objects)
    by_uid = {meta.uid(raw): raw for raw in (*objects, *pods)}
    of_job: dict[str, list[Raw]] = {}
    alone = []
    for pod in pods:
        if ended(pod) or meta.deleting(pod):
            continue
        top = _outermost(pod, by_uid)
        if top is None:
            alone.append(pod)
        else:
            of_job.setdefault(meta.uid(top), []).append(pod)
    for raw in objects:
        kind, uid = kind_of(raw), meta.uid(raw)
        if kind is not None and kind in kinds:
            resources = {(each.group, each.kind) for each in kind.related}
            beside = tuple(each for each in related.get(uid, ()) if _group_and_kind(each) in resources)
            yield RunningJob(kind, raw, tuple(of_job.get(uid, ())), tuple(of_owner.get(uid, ())), beside)
    for pod in alone:
        yield RunningJob(POD, POD.lean(pod, _not_shared), (pod,), tuple(of_owner.get(meta.uid(pod), ())))


def abandoned(
    workloads: Iterable[Raw],
    jobs: Iterable[RunningJob],
    read: Callable[[Raw], Workload],
    kinds: Collection[JobKind] = ALWAYS,
) -> list[Raw]:
    """Returns the Workloads that an import has begun, and whose jobs have ended since. They have no quota: one that has
    is finished by the controller. Those of other kinds are of queued jobs, whose owners have written the gate.
    """
    running = {meta.uid(job.raw) for job in jobs if job.kind.finished(job.raw) is None}
    return [
        raw
        for raw in workloads
        if being_imported(raw)
        and owners.kind_above(raw) in kinds
        and meta.controller_uid(raw) not in running
        and not read(raw).holds(Condition.FINISHED)
    ]


def _by_controller(objects: Iterable[Raw]) -> dict[str, list[Raw]]:
    found: dict[str, list[Raw]] = {}
    for raw in objects:
        found.setdefault(meta.controller_uid(raw) or "", []).append(raw)
    return found


def _outermost(pod: Raw, by_uid: dict[str, Raw]) -> Raw | None:
    """The outermost of these objects above a pod that is no pod; None if there is none."""
    found, below = None, pod
    for _ in range(owners.MOST_LEVELS):
        above = by_uid.get(meta.controller_uid(below) or "")
        if above is None:
            break
        found, below = (above if above["kind"] != POD.kind else found), above
    return found


def _group_and_kind(raw: Raw) -> tuple[str, str]:
    return str(raw["apiVersion"]).rpartition("/")[0], raw["kind"]


def _looks_like(pod: Raw, template: Raw) -> bool:
    """Whether a pod has the containers and the requests of a template."""
    spec = pod.get("spec") or {}
    names, wanted = ({each.get("name") for each in found.get("containers") or ()} for found in (spec, template))
    rules = RequestRules()
    return wanted <= names and effective(spec, rules).requests == effective(template, rules).requests


def _node(pod: Raw) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _not_shared(raw: Raw, /, **own: object) -> Raw:
    return {**raw, **own}
