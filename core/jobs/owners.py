"""Whether another object is queued in a job's place: the job is then neither suspended nor given a queue of its own.

Kueue walks up the controller references of a job and spares it below any object of an enabled integration that names
a queue (its ``FindAncestorJobManagedByKueue``), a Job below a Job included. But references are anybody's to write:
whoever has one small Job admitted could put any number of Jobs below it, which would run at once and take no quota. So
an owner counts here only where

- its controller really makes jobs: of the kinds that are queued here none does (the Job controller makes pods), those
  in ``integrations.externalFrameworks`` are the operator's word for it; and
- it is queued: a Workload stands for the very object (kind, name and uid) and is not finished, and so takes the quota.

A framework of Kueue's that is enabled but not queued here takes none, so its jobs are queued one by one. What cannot be
told is who wrote the reference to such an object: who declares an external framework trusts those who may create jobs
beside its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api import names
from core.jobs import meta
from core.model import Raw, Workload
from core.owner import Owner


def queued_for(
    job: Raw, namespace: str, external: Iterable[str], workload_of: Callable[[str], Workload | None]
) -> Workload | None:
    """The Workload of the object that is queued in the job's place, if there is one.

    ``external`` are kinds as ``Kind.version.group``, ``workload_of`` finds the Workload of an object's uid.
    """
    owner = meta.controller(job)
    if owner is None:
        return None
    kind, group = str(owner.get("kind") or ""), str(owner.get("apiVersion") or "").rpartition("/")[0]
    if (kind, group) not in map(kind_and_group, external):
        return None
    found = workload_of(str(owner.get("uid") or ""))
    if found is not None and found.holds(names.Condition.FINISHED):
        return None
    above = Owner(group, kind, namespace, str(owner.get("name") or ""))
    return found if found is not None and found.owner == above else None


def kind_and_group(framework: str) -> tuple[str, str]:
    """Kind and group of an entry of ``integrations.externalFrameworks``."""
    kind, _, rest = framework.partition(".")
    return kind, rest.partition(".")[2]
