"""What we read of the metadata of a job of any kind: its queue, its classes, its owner.

For controller and webhook alike: both must read a job the same way.
"""

from typing import Final

from api.names import Annotation, Label
from core.model import Raw

MAX_LABEL_VALUE: Final = 63


def labels(job: Raw) -> Raw:
    """The labels, {} where there are none."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations(job: Raw) -> Raw:
    """The annotations, {} where there are none."""
    return (job.get("metadata") or {}).get("annotations") or {}


def uid(job: Raw) -> str:
    """The uid, '' where there is none yet."""
    return str((job.get("metadata") or {}).get("uid") or "")


def queue_name(job: Raw) -> str:
    """The LocalQueue that the job names: by label, or where there is no label by v0.1's annotation; '' for none."""
    return str(labels(job).get(Label.QUEUE_NAME) or annotations(job).get(Annotation.QUEUE_NAME) or "")


def priority_class(job: Raw) -> str:
    """The WorkloadPriorityClass that the job names, '' for none."""
    return str(labels(job).get(Label.PRIORITY_CLASS) or "")


def elastic(job: Raw) -> bool:
    """Whether the job asks to be resized while it runs."""
    return bool(annotations(job).get(Annotation.ELASTIC_JOB) == "true")


def prebuilt_workload(job: Raw, *, annotation_first: bool) -> tuple[str, str]:
    """The name of the Workload that the job brings along, and the path of the field that says so.

    Which of annotation and label wins is the gate WorkloadIdentifierAnnotations; an annotation too long for a label
    always counts.
    """
    label = str(labels(job).get(Label.PREBUILT_WORKLOAD) or "")
    annotation = str(annotations(job).get(Annotation.PREBUILT_WORKLOAD) or "")
    if annotation and (annotation_first or len(annotation) > MAX_LABEL_VALUE):
        return annotation, f"metadata.annotations[{Annotation.PREBUILT_WORKLOAD}]"
    return label, f"metadata.labels[{Label.PREBUILT_WORKLOAD}]"


def controller(job: Raw) -> Raw | None:
    """The owner reference that controls the job."""
    for owner in (job.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller") is True:
            return dict(owner)
    return None


def deleting(job: Raw) -> bool:
    """Whether the job is on its way out."""
    return bool((job.get("metadata") or {}).get("deletionTimestamp"))
