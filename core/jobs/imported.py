"""The marks of Workloads that ``seiretsu import`` creates for jobs that run already.

Such a Workload is created first, then it gets quota, and at last the job gets its queue name. Until it has quota an
admission gate keeps it out of its queue: without it the scheduler would decide about a job that runs. The gate is an
annotation, which anybody may have on a job of his own, so it proves nothing. That quota was given by an import is read
from the status of the Workload, which no tenant can write: from then on the controller completes what is missing.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from api.names import AdmittedReason, Annotation, Condition, Label
from core.jobs import meta
from core.jobs.kind import JobKind
from core.jobs.kinds.pod import POD
from core.model import Labels, Raw, Workload

GATE: Final = "seiretsu.dev/import"
NOTHING: Final[Labels] = MappingProxyType({})


def being_imported(workload: Raw) -> bool:
    """Whether a Workload waits for the quota that an import will give it: it has the gate, and no admission."""
    if meta.deleting(workload) or (workload.get("status") or {}).get("admission"):
        return False
    gates = str(meta.annotations(workload).get(Annotation.ADMISSION_GATED_BY) or "")
    return GATE in map(str.strip, gates.split(","))


def has_imported_quota(workload: Workload) -> bool:
    """Whether a Workload holds the quota that an import gave it."""
    reserved = workload.condition(Condition.QUOTA_RESERVED)
    given = reserved is not None and reserved.status and reserved.reason == AdmittedReason.IMPORTED
    return given and workload.admission is not None and not workload.holds(Condition.FINISHED)


def naming(kind: JobKind, uid: str, queue: str, more: Labels = NOTHING) -> Raw:
    """The last write of an import, a patch of the job with this uid: its LocalQueue, with the labels that have to be
    there with it, and ``more``. It need not be of the version that was judged: the rules compare the pod sets.
    """
    managed = {Label.MANAGED: "true"} if kind is POD else {}
    return {"metadata": {"uid": uid, "labels": {**more, **managed, Label.QUEUE_NAME: queue}}}
