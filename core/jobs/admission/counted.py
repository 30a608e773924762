"""What quota and membership are counted by on living pods: gates, labels, annotations and the finalizer.

Everybody who may patch a pod could change them, so they change only by Seiretsu and by the controllers of the pod's
kind. The API server enforces that (``webhook.living_pods``); here is what is held, and the rule for the webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.errors import FieldError, forbidden
from api.names import Annotation, Finalizer, JobControllerLabel, Label, SchedulingGate
from core.jobs import meta
from core.model import Raw

GATES: Final = (SchedulingGate.ADMISSION, SchedulingGate.ELASTIC_JOB, SchedulingGate.TOPOLOGY)
LABELS: Final = (
    Label.MANAGED,
    Label.JOB_UID,
    Label.POD_SET,
    Label.PREBUILT_WORKLOAD,
    Label.CLUSTER_QUEUE,
    Label.LOCAL_QUEUE,
    Label.POD_GROUP_NAME,
    Label.POD_GROUP_POD_INDEX,
    Label.MULTIKUEUE_ORIGIN,
    Label.MULTIKUEUE_WORKER_WORKLOAD_POD,
    JobControllerLabel.CONTROLLER_UID,
    JobControllerLabel.LEGACY_CONTROLLER_UID,
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/group-index",
    "jobset.sigs.k8s.io/jobset-uid",
)
ANNOTATIONS: Final = (
    Annotation.ROLE_HASH,
    Annotation.POD_GROUP_NAME,
    Annotation.POD_GROUP_TOTAL_COUNT,
    Annotation.POD_GROUP_FAST_ADMISSION,
    Annotation.POD_GROUP_SERVING,
    Annotation.POD_GROUP_POD_INDEX_LABEL,
    Annotation.POD_INDEX_OFFSET,
    Annotation.POD_SUSPENDING_PARENT,
    Annotation.PREBUILT_WORKLOAD,
    Annotation.WORKLOAD,
    Annotation.WORKLOAD_SLICE_NAME,
)
"""Not ``retriable-in-group``: with it users end a group of pods."""
QUEUE: Final = f"metadata.labels[{Label.QUEUE_NAME}]"
FINALIZER: Final = Finalizer.MANAGED
ENDED: Final = ("Succeeded", "Failed")
KEPT: Final = "quota is counted by it: only Seiretsu and the controller of the owner change it"
GATED: Final = "the pod waits for quota: the scheduling gate is removed when its workload is admitted"
MOVED: Final = "the queue of a pod that runs does not change: delete the pod and create it again"
HELD: Final = "the pod's quota is counted until its workload has the result; then the finalizer is removed"


def counts(pod: Raw) -> bool:
    """Whether the pod is counted: it has not ended, or its Workload does not have its result yet."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ENDED or FINALIZER in (pod["metadata"].get("finalizers") or ())


def errors(old: Raw, new: Raw) -> list[FieldError]:
    """Returns the errors of a change of a pod by somebody else than the controllers."""
    if not counts(old):
        return []
    found = [forbidden("spec.schedulingGates", GATED)] if _gates(old) - _gates(new) else []
    found += _changed("labels", LABELS, meta.labels(old), meta.labels(new))
    found += _changed("annotations", ANNOTATIONS, meta.annotations(old), meta.annotations(new))
    if _runs(old) and meta.labels(old).get(Label.QUEUE_NAME) != meta.labels(new).get(Label.QUEUE_NAME):
        found.append(forbidden(QUEUE, MOVED))
    before, after = (each["metadata"].get("finalizers") or () for each in (old, new))
    if FINALIZER in before and FINALIZER not in after:
        found.append(forbidden("metadata.finalizers", HELD))
    return found


def _runs(pod: Raw) -> bool:
    """Whether the pod was admitted: it is watched, and has no gate of Seiretsu."""
    return meta.labels(pod).get(Label.MANAGED) == "true" and not _gates(pod)


def _gates(pod: Raw) -> set[str]:
    """The gates of Seiretsu that are on a pod."""
    return {str(each.get("name")) for each in (pod.get("spec") or {}).get("schedulingGates") or ()} & {*GATES}


def _changed(field: str, keys: tuple[str, ...], old: Mapping[str, str], new: Mapping[str, str]) -> list[FieldError]:
    return [forbidden(f"metadata.{field}[{key}]", KEPT) for key in keys if (old.get(key) or "") != (new.get(key) or "")]
