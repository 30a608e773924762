"""Reads the metadata of a job of any kind: its queue, its classes, its owner.

Controller and webhook use the same functions, because both must interpret a job in the same way.
"""

from typing import Final

from api.names import Annotation, Label
from core.model import Key, Raw

MAX_LABEL_VALUE: Final = 63


def labels(job: Raw) -> Raw:
    """The labels, {} where there are none."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations(job: Raw) -> Raw:
    """The annotations, {} where there are none."""
    return (job.get("metadata") or {}).get("annotations") or {}


def uid(job: Raw) -> str:
    """Returns the uid, '' if there is none yet."""
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
    """Returns the name of the Workload that the job names as prebuilt, and the path of that field.

    The gate WorkloadIdentifierAnnotations defines whether annotation or label is used first; an annotation that is too
    long for a label is always used.
    """
    label = str(labels(job).get(Label.PREBUILT_WORKLOAD) or "")
    annotation = str(annotations(job).get(Annotation.PREBUILT_WORKLOAD) or "")
    if annotation and (annotation_first or len(annotation) > MAX_LABEL_VALUE):
        return annotation, f"metadata.annotations[{Annotation.PREBUILT_WORKLOAD}]"
    return label, f"metadata.labels[{Label.PREBUILT_WORKLOAD}]"


def prebuilt_workloads(job: Raw) -> tuple[Key, ...]:
    """The Workload that the job names as prebuilt, whichever of label and annotation counts."""
    found = {prebuilt_workload(job, annotation_first=first)[0] for first in (True, False)}
    return tuple(Key(job["metadata"]["namespace"], name) for name in sorted(found) if name)


def pod_group(pod: Raw, *, annotation_first: bool = True) -> str:
    """Returns the name of the pod's group, '' for none; the gate WorkloadIdentifierAnnotations allows the annotation
    before the label.
    """
    annotation = annotations(pod).get(Annotation.POD_GROUP_NAME) if annotation_first else None
    return str(annotation or labels(pod).get(Label.POD_GROUP_NAME) or "")


def serving(pod: Raw) -> bool:
    """Whether the pods of the group run without end (annotation ``pod-group-serving``): their owner decides."""
    return bool(annotations(pod).get(Annotation.POD_GROUP_SERVING) == "true")


def controller(job: Raw) -> Raw | None:
    """The owner reference that controls the job."""
    for owner in (job.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller") is True:
            return dict(owner)
    return None


def controller_uid(job: Raw) -> str | None:
    """The uid of the object that controls the job."""
    found = controller(job)
    return found["uid"] if found else None


def owner_reference(api_version: str, kind: str, owner: Raw) -> Raw:
    """The reference by which an object of this kind controls another."""
    metadata = owner["metadata"]
    named = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def deleting(job: Raw) -> bool:
    """Whether the job is on its way out."""
    return bool((job.get("metadata") or {}).get("deletionTimestamp"))
