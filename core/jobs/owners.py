"""Whether another object is queued instead of a job: the job then follows that object and has no Workload.

As in Kueue (its ``FindAncestorJobManagedByKueue``) this applies below a queued job of an integration, and below an
object of a kind in ``integrations.externalFrameworks``. An owner counts only if it is queued: a Workload exists for
that object (kind, name and uid) and is not finished, and so holds the quota.

Every user can write owner references, so a user who may create jobs next to an admitted job can put others below it,
which run with it and use no quota. That is by design, as in Kueue (docs/security.md). A framework of Kueue that is
enabled but not supported here uses no quota, so its jobs are queued one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api import names
from core.jobs import meta
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL
from core.model import Raw, Workload
from core.model.owner import Owner


def queued_for(
    job: Raw, namespace: str, external: Iterable[str], workload_of: Callable[[str], Workload | None]
) -> Workload | None:
    """Returns the Workload of the object that is queued instead of the job, None if there is none.

    ``external`` are kinds as ``Kind.version.group``, ``workload_of`` returns the Workload of an object's uid.
    """
    owner = meta.controller(job)
    if owner is None:
        return None
    kind, group = str(owner.get("kind") or ""), str(owner.get("apiVersion") or "").rpartition("/")[0]
    if (kind, group) not in map(kind_and_group, external) and not below_job(job):
        return None
    found = workload_of(str(owner.get("uid") or ""))
    if found is not None and found.holds(names.Condition.FINISHED):
        return None
    above = Owner(group, kind, namespace, str(owner.get("name") or ""))
    return found if found is not None and found.owner == above else None


def below_job(job: Raw) -> bool:
    """Whether a job of a kind that is queued here controls this one."""
    return kind_above(job) is not None


def started_by_us(job: Raw) -> bool:
    """Whether this job is controlled by a job whose own controller starts no jobs: then Seiretsu must start it."""
    above = kind_above(job)
    return above is not None and not above.runs_children


def kind_above(job: Raw) -> JobKind | None:
    """The kind of the job that controls this one; None where no job does."""
    owner = meta.controller(job) or {}
    kind, group = owner.get("kind"), str(owner.get("apiVersion") or "").rpartition("/")[0]
    return next((each for each in ALL if (kind, group) == (each.kind, each.group)), None)


def kind_and_group(framework: str) -> tuple[str, str]:
    """Kind and group of an entry of ``integrations.externalFrameworks``."""
    kind, _, rest = framework.partition(".")
    return kind, rest.partition(".")[2]
