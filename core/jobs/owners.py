"""Whether another object is queued in a job's place: the job then follows that object and has no Workload of its own.

As in Kueue (its ``FindAncestorJobManagedByKueue``) that is so below a queued job of an integration, and below an
object of a kind in ``integrations.externalFrameworks``. An owner counts only where it is queued: a Workload stands for
the very object (kind, name and uid) and is not finished, and so takes the quota.

References are anybody's to write, so whoever may create jobs beside an admitted job can put others below it, which run
with it and take no quota of their own. That is by design, as in Kueue (docs/security.md). A framework of Kueue's that
is enabled but not queued here takes no quota, so its jobs are queued one by one.
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
    """The Workload of the object that is queued in the job's place, if there is one.

    ``external`` are kinds as ``Kind.version.group``, ``workload_of`` finds the Workload of an object's uid.
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
    """Whether a job controls this one whose own controller starts no jobs: nobody but us starts it then."""
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
