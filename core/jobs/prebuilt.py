"""A Workload that a user created before the job that names it: the job adopts it and has no other.

The reason and messages are those of Kueue's job framework.
"""

from __future__ import annotations

from api import names
from api.names import FinishedReason
from api.syntax import label_value
from core.actions import Action, Wait
from core.jobs import meta, workload
from core.jobs.actions import Stop, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.release import awaits_pods, deleted, uid_of, without_finalizer
from core.jobs.situation import JobSituation
from core.model import Raw
from core.wire.guard import guarded
from core.workload import transitions

MISSING = "missing workload"
OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"


def prebuilt(s: JobSituation) -> Action | None:
    """Adopts the Workload that the job names; None if that is done and it matches the job.

    While it does not exist, has another owner or is that of a group of pods, the job waits, as it does for a Workload
    whose quota pods of an earlier job may use (if that job was deleted without them). A Workload that differs from the
    job is finished. The job adopts the slice that replaces it, too.
    """
    if not s.prebuilt_name:
        return None
    by = meta.controller(s.prebuilt) if s.prebuilt is not None else None
    if s.prebuilt is None or (by is not None and not s.owns(s.prebuilt)) or _of_a_group(s.prebuilt):
        return _waits(s)
    if by is None:
        others = uid_of(s.prebuilt) != s.job["metadata"]["uid"]
        in_use = others and awaits_pods(s.prebuilt, s.value(s.prebuilt), ()) is not None
        return _waits(s) if in_use or "deletionTimestamp" in s.prebuilt["metadata"] else _adopted(s, s.prebuilt)
    if s.handed_over:
        return Wait()
    if s.stands(s.prebuilt):
        return _adopted(s, s.joining) if s.joining is not None else None
    value = s.value(s.prebuilt)
    if value.holds(names.Condition.FINISHED):
        return without_finalizer(s.prebuilt) or _waits(s)
    if value.deleting:
        return None
    after = transitions.finished(value, FinishedReason.OUT_OF_SYNC, OUT_OF_SYNC, s.now)
    return UpdateWorkloadStatus.between(value, after, "finish")


def _of_a_group(raw: Raw) -> bool:
    """Whether a Workload was made for a group of pods, which none of them controls: they run with its quota."""
    return meta.annotations(raw).get(names.Annotation.IS_GROUP_WORKLOAD) == "true"


def _waits(s: JobSituation) -> Action:
    """Stops the job, then releases its other Workloads and those of earlier jobs with its name, unless pods use their
    quota: no other rule would.
    """
    writes = s.stop([], "NoMatchingWorkload", MISSING) if s.outcome is None else None
    if writes:
        return Stop(writes, "NoMatchingWorkload", MISSING, was_running=not s.suspended)
    before = [raw for raw in s.workloads if not s.owns(raw) and s.awaits_pods(raw) is None]
    own = [raw for raw in s.workloads if s.owns(raw) and raw["metadata"]["name"] != s.prebuilt_name]
    return deleted([*before, *([] if s.active else own)]) or Wait()


def _adopted(s: JobSituation, raw: Raw) -> UpdateWorkload:
    """One write: the job controls the Workload, and its label has the job's uid."""
    metadata, job = raw["metadata"], s.job["metadata"]
    owners = [*(metadata.get("ownerReferences") or ()), meta.owner_reference(s.kind.api_version, s.kind.kind, s.job)]
    patch: Raw = {"ownerReferences": owners}
    if not label_value(job["uid"]):
        patch["labels"] = {names.Label.JOB_UID: job["uid"]}
    return UpdateWorkload.of(workload.key(raw), guarded({"metadata": patch}, raw), "adopted")
