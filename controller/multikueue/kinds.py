"""The kinds whose objects run in worker clusters, and which of these objects a Workload is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from api import names
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from core.jobs import meta
from core.jobs.external import External
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import kind_at
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.model import Workload


class MirroredJob(NamedTuple):
    """The job of a Workload. ``kind`` is None if it cannot run in workers, ``owner`` what messages call its kind, '' if
    the Workload has none. ``related`` are the objects that belong to the job.
    """

    kind: Mirrored | None = None
    owner: str = ""
    job: Raw | None = None
    related: tuple[Raw, ...] = ()


class MirroredKinds:
    """The kinds that are enabled: ``jobs``, ``owners`` that create the pods of several groups, and ``externals`` of
    other controllers.
    """

    def __init__(self, caches: Caches, externals: Iterable[External], clock: Callable[[], float]) -> None:
        self.jobs = tuple(kind for kind in caches.kinds if kind.may_run_in_worker)
        self.owners = tuple(each for each in MIRRORED_OWNERS if each.resource in caches.stores)
        self.externals = tuple(externals)
        self._caches = caches
        self._clock = clock

    @property
    def every(self) -> tuple[Mirrored, ...]:
        """All of them."""
        return (*self.jobs, *self.owners, *self.externals)

    def job_of(self, raw: Raw, local: Workload) -> MirroredJob:
        """Returns the job of a Workload."""
        by, references = local.owner, raw["metadata"].get("ownerReferences") or ()
        if made := meta.annotations(raw).get(names.Annotation.JOB_OWNER_GVK):
            return self._owner(raw, made)
        if by is None or not references:
            return MirroredJob()
        reference = meta.controller(raw) or references[0]
        version, named = reference["apiVersion"], reference["kind"]
        owner = f"{version if '/' in version else f'/{version}'}, Kind={named}"
        known = (*self.jobs, *self.externals)
        served = next((each for each in known if (each.group, each.kind) == (by.group, by.kind)), None)
        key = Key(by.namespace, by.name)
        if not isinstance(served, JobKind):
            found = self._caches.stores[served.resource].get(key) if served is not None else None
            return MirroredJob(served, owner, found)
        kind, objects = kind_at(served, key), self._caches.job_objects(served, key)
        job = kind.whole(objects, self._clock()) if objects else None
        return MirroredJob(kind, owner, job, self._caches.related(kind, key))

    def slices_of(self, remote: Raw) -> Iterable[Raw]:
        """The Workloads here of the elastic job that an object in a worker was created for."""
        named = (remote["apiVersion"], remote["kind"])
        kind = next((each for each in self.jobs if (each.api_version, each.kind) == named), None)
        if kind is None or not kind.made_for(self._caches.stores[kind.resource].get(key_of(remote)), remote):
            return ()
        found = self._caches.workloads.by_index("owner", owner_of(kind, kind.key(remote)))
        return (each for each in found if meta.elastic(each))

    def _owner(self, raw: Raw, made: str) -> MirroredJob:
        """The object that creates the pods of a group: ``made`` is how its Workload names its kind."""
        kind = next((each for each in self.owners if f"{each.api_version}, Kind={each.kind}" == made), None)
        name = meta.annotations(raw).get(names.Annotation.JOB_OWNER_NAME)
        if kind is None or not name:
            return MirroredJob(owner=made)
        found = self._caches.stores[kind.resource].get(Key(raw["metadata"]["namespace"], name))
        references = raw["metadata"].get("ownerReferences") or ()
        owns = found is not None and meta.uid(found) in {each["uid"] for each in references}
        return MirroredJob(kind, made, found if owns else None)
