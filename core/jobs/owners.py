"""Which object is queued instead of a job: the outermost one above it that is managed; the job follows that object and
has no Workload.

The walk goes up through owner references to controllers, as long as these are of a known kind: a kind of job, enabled
or not, ReplicaSet and the like, and the kinds in ``integrations.externalFrameworks``. The uid of an owner must be that
of the reference. An owner of an enabled kind is queued if it is managed and has not ended, even before it has a
Workload; one of an external framework, or one that is gone, if a Workload exists for it (kind, name and uid) that is
not finished.

Every user can write owner references. They are believed here because admission has changed or refused those that the
owner's controller did not write (``webhook.trust``, docs/security.md). Nothing follows a pod: its quota is for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from api import names
from api.names import Annotation
from api.objects import Resource
from core.jobs import meta
from core.jobs.kind import ANY_KIND, JobKind
from core.jobs.kinds import ALL
from core.jobs.pod_owners import POD_OWNERS, PodOwner
from core.model import Raw, Workload
from core.model.owner import Level, Owner, Reference, reference

MOST_LEVELS: Final = 10
"""Of objects that control each other, as in Kueue."""

_REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
"""Between Deployments and their pods; never queued themselves."""

KNOWN: Final = {
    (each.group, each.kind): each
    for each in (_REPLICA_SETS, *(owner.resource for owner in POD_OWNERS), *(kind.resource for kind in ALL))
}
"""The kinds that the walk goes through, with the resource to read them by; those of external frameworks are added."""


class NestingError(ValueError):
    """The owners above a job own each other, or are too many."""


class Nesting(NamedTuple):
    """The outermost object that is queued instead of a job, None if the job is queued itself. ``unread`` is an owner
    of which nothing is known yet: then another object above it may be queued.
    """

    ancestor: Reference | None = None
    unread: Reference | None = None


LevelOf = Callable[[Reference], Level | None]
"""Returns what is known of an owner; None if it was not read yet."""


def nesting(
    job: Raw, look: LevelOf, external: Collection[tuple[str, str]] = (), *, without_queue_name: bool = False
) -> Nesting:
    """Returns what is queued instead of a job; ``external`` are kinds and groups of external frameworks, and
    ``without_queue_name`` is whether jobs of this namespace that name no queue are managed too.

    Raises ``NestingError`` for owners that own each other, and for more levels than ``MOST_LEVELS``.
    """
    if Annotation.POD_SUSPENDING_PARENT in meta.annotations(job):
        return Nesting()  # a pod that is queued because its owner is
    seen, ancestor, above = {meta.uid(job)}, None, reference(job)
    while above is not None and (known(above) or (above.kind, above.group) in external):
        if above.uid in seen:
            text = f'{above.kind} "{above.name}" owns itself through other objects: remove an owner reference'
            raise NestingError(text)
        if len(seen) > MOST_LEVELS:
            text = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MOST_LEVELS}"
            raise NestingError(text)
        seen.add(above.uid)
        level = look(above)
        if level is None and known(above):
            return Nesting(ancestor, above)
        if level is None or level.uid != above.uid:
            break
        if level.queueable and (level.named or without_queue_name) and not _is_pod(above):
            ancestor = above
        above = level.above
    return Nesting(ancestor)


def _is_pod(owner: Reference) -> bool:
    return (owner.group, owner.kind) == ("", "Pod")


def makers(owner: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The kinds that an object of this group and kind may be controlled by, over any number of levels, and its own.
    Only if one of them is enabled can anything above such an object be queued instead of it: else it need not be read.
    """
    makes = {kind.kind: kind.makes for kind in ALL} | {each.resource.kind: each.makes for each in POD_OWNERS}
    found = [owner[1]]
    for kind in found:
        found += [maker for maker, made in makes.items() if kind in made and maker not in found]
    found += [maker for maker, made in makes.items() if ANY_KIND in made and maker not in found]
    return tuple(each for kind in found for each in KNOWN if each[1] == kind)


def known(owner: Reference) -> bool:
    """Whether an owner is of a kind that the walk goes through without being configured."""
    return (owner.group, owner.kind) in KNOWN


def level(kind: JobKind | PodOwner | None, raw: Raw) -> Level:
    """Returns what is known of an owner that was read; ``kind`` is its kind if that is enabled."""
    over = isinstance(kind, JobKind) and (kind.skip(raw) or kind.finished(raw) is not None)
    queueable = kind is not None and not over
    return Level(meta.uid(raw), reference(raw), named=bool(meta.queue_name(raw)), queueable=queueable)


def level_or_workload(
    found: Level | None, owner: Reference, namespace: str, by_uid: Callable[[str], Workload | None]
) -> Level | None:
    """Returns what is known of an owner. If nothing was found yet, or it is gone, an unfinished Workload shows that it
    is queued: what it has created itself uses that quota until garbage collection deletes it.
    """
    if found is not None and not is_gone(found, owner):
        return found
    workload = workload_of(owner, namespace, by_uid)
    return found if workload is None else Level(owner.uid, named=True, queueable=True)


def is_gone(found: Level | None, owner: Reference) -> bool:
    """Whether an owner was looked for and is not there, or only another one of its name."""
    return found is not None and (found.gone or found.uid not in ("", owner.uid))


def lets_run(found: Level | None, owner: Reference, namespace: str, by_uid: Callable[[str], Workload | None]) -> bool:
    """Whether what an owner has created may run: while its Workload is admitted. An owner that is there stops it when
    that is evicted; nobody does so for one that is gone. The arguments are those of ``level_or_workload``.
    """
    workload = workload_of(owner, namespace, by_uid)
    if workload is None or not workload.holds(names.Condition.ADMITTED):
        return False
    return not (is_gone(found, owner) and workload.holds(names.Condition.EVICTED))


def workload_of(owner: Reference, namespace: str, by_uid: Callable[[str], Workload | None]) -> Workload | None:
    """Returns the unfinished Workload of an owner, None if there is none; ``by_uid`` returns that of a uid."""
    found = by_uid(owner.uid)
    if found is None or found.holds(names.Condition.FINISHED):
        return None
    return found if found.owner == Owner(owner.group, owner.kind, namespace, owner.name) else None


def below_job(job: Raw) -> bool:
    """Whether a job of a kind that is queued here controls this one."""
    return kind_above(job) is not None


def started_by_us(job: Raw) -> bool:
    """Whether this job is controlled by a job whose own controller starts no jobs: then Seiretsu must start it."""
    above = kind_above(job)
    return above is not None and not above.runs_children


def kind_above(job: Raw) -> JobKind | None:
    """The kind of the job that controls this one; None where no job does."""
    above = reference(job)
    return None if above is None else kind_of_owner(above)


def kind_of_owner(owner: Reference) -> JobKind | None:
    """The kind of job that an owner is, whatever its version; None for any other object."""
    return next((each for each in ALL if (each.group, each.kind) == (owner.group, owner.kind)), None)


def kinds_and_groups(frameworks: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Kinds and groups of the entries of ``integrations.externalFrameworks``."""
    return frozenset(map(kind_and_group, frameworks))


def kind_and_group(framework: str) -> tuple[str, str]:
    """Kind and group of an entry of ``integrations.externalFrameworks``."""
    kind, _, rest = framework.partition(".")
    return kind, rest.partition(".")[2]
