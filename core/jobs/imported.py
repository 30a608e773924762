"""The mark of Workloads that ``seiretsu import`` creates for jobs that run already.

Such a Workload is created first, then it gets quota, and at last the job gets its queue name. Until it has quota an
admission gate keeps it out of its queue: without it the scheduler would decide about a job that runs. The controller
removes the gate when it knows the job, as any gate that the job does not have.
"""

from __future__ import annotations

from typing import Final

from api.names import Annotation
from core.jobs import meta
from core.model import Raw

GATE: Final = "seiretsu.dev/import"


def being_imported(workload: Raw) -> bool:
    """Whether a Workload was created by an import that has not reached the end for its job, which the controller may
    not know yet.
    """
    gates = str(meta.annotations(workload).get(Annotation.ADMISSION_GATED_BY) or "")
    return GATE in map(str.strip, gates.split(",")) and not meta.deleting(workload)
