"""Releases a Workload whose job is gone or has changed: its quota is kept while pods of the job use it, then the
finalizer is removed and it is deleted.

Separate from the rules that decide when (`core.jobs.decide`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from api import names
from core.actions import Action, Wait
from core.jobs import meta, owners, workload
from core.jobs.actions import AwaitPods, DeleteWorkload, RemoveFinalizer, UpdateWorkloadStatus
from core.jobs.kinds import ALL, BATCH_JOB
from core.model import Raw, Workload
from core.wire.finalizers import released
from core.workload import transitions


def uid_of(raw: Raw) -> str:
    """The uid of the job that a Workload was made for, '' where it was made for none.

    ``--cascade=orphan`` removes the owner reference before the job is gone; the label stays.
    """
    owner = meta.controller(raw)
    if meta.annotations(raw).get(names.Annotation.IS_GROUP_WORKLOAD) == "true":
        return ""  # its pods are its jobs: it is released when none is left
    return str(owner["uid"] if owner else meta.labels(raw).get(names.Label.JOB_UID, ""))


def holds_quota(value: Workload) -> bool:
    """Whether it holds quota that others could use."""
    reserved = value.admission is not None and value.holds(names.Condition.QUOTA_RESERVED)
    return reserved and not value.holds(names.Condition.FINISHED)


def awaits_pods(raw: Raw, value: Workload, gone: Container[str]) -> AwaitPods | None:
    """What to wait for before a Workload gives up the quota of a job that is gone; None where nothing uses it.

    ``value`` is what was decoded from the Workload; ``gone`` holds the uids of jobs of which no pod is left. A job can
    be deleted and its pods run on, as ``kubectl delete job --cascade=orphan`` does it, or for the time that they need
    to terminate.
    """
    uid = uid_of(raw)
    if not uid or uid in gone or not holds_quota(value):
        return None
    label = _uid_label(raw)
    return AwaitPods(workload.key(raw), uid, label) if label else None


def _uid_label(raw: Raw) -> str:
    """The label of the job's pods; its kind is in the Workload's name where the owner reference was taken off."""
    by_name = (each for each in ALL if raw["metadata"]["name"].startswith(f"{each.singular}-"))
    kind = owners.kind_above(raw) or next(by_name, BATCH_JOB)
    return kind.uid_label


class PodsLeft(NamedTuple):
    """The names of the pods of a deleted job that were found; ``more``: there are others besides these."""

    names: Sequence[str]
    more: bool = False


def pods_left(raw: Raw, value: Workload, left: PodsLeft, gone: Container[str], now: float) -> Action | None:
    """Reports the pods for which a Workload without job still holds quota: once, because their number changes with
    each that ends, which is not worth a write.
    """
    waits, kind = awaits_pods(raw, value, gone), names.Condition.PODS_REMAIN
    if waits is None or value.holds(kind):
        return None
    reason, text = names.PodsRemainReason.JOB_DELETED, remain(waits, left.names, more=left.more)
    after = transitions.condition(value, kind, status=True, reason=reason, message=text, now=now)
    return UpdateWorkloadStatus.between(value, after, "pods left")


def remain(action: AwaitPods, pods: Sequence[str], *, more: bool = False) -> str:
    """Returns the message why a Workload without job still holds quota; ``pods`` are the names of those left.

    ``more``: there are others besides these.
    """
    shown = ", ".join([*sorted(pods)[:3], *(["..."] if len(pods) > 3 else [])])
    few = f"{'more than ' if more else ''}{len(pods)} of its pods still run"
    few = "1 of its pods still runs" if len(pods) == 1 and not more else few
    selector = f"{action.label}={action.uid}"
    return (
        f"The job was deleted, but {few} ({shown}): the quota is held until no pod is left. To delete them:"
        f" kubectl delete pods -n {action.workload.namespace} -l {selector}"
    )


def deleted(workloads: Iterable[Raw]) -> Action | None:
    """Deletes the first of them, or releases it if it is being deleted; None if there is none."""
    for raw in workloads:
        if "deletionTimestamp" in raw["metadata"]:
            return without_finalizer(raw) or Wait()
        release = without_finalizer(raw)
        return DeleteWorkload.of(workload.key(raw), raw["metadata"]["uid"], release.body if release else None)
    return None


def without_finalizer(raw: Raw) -> RemoveFinalizer | None:
    """Removes the finalizer; None if it has none."""
    patch = released(raw)
    return RemoveFinalizer.of(workload.key(raw), patch) if patch is not None else None
