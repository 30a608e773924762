"""Decides which pods on unreachable nodes are ended by force, because they will never report that they have terminated.

Source: https://kueue.sigs.k8s.io/docs/tasks/manage/setup_failure_recovery/. As in Kueue this is about every pod with
the annotation, whoever owns it: a user who may annotate a pod may also delete it by force.
"""

from __future__ import annotations

from typing import Final

from api.names import Annotation
from core.jobs import meta
from core.model import Node, Raw
from core.wire.guard import guarded
from core.wire.timestamps import epoch, stamp

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
GRACE_SECONDS: Final = 60.0
"""How long after its grace period a pod counts as stuck."""
CONDITION: Final = "KueueFailureRecovery"
REASON: Final = "KueueForcefullyDeleted"
_ENDED: Final = ("Succeeded", "Failed")


def unreachable(node: Node | None) -> bool:
    """Whether a node exists and does not answer."""
    return node is not None and any(taint.key == UNREACHABLE for taint in node.taints)


def stuck_in(pod: Raw, now: float) -> float | None:
    """Returns after how many seconds a pod is to be ended that is on an unreachable node: 0 for now, None for never."""
    if meta.annotations(pod).get(Annotation.SAFE_TO_FORCEFULLY_DELETE) != "true" or not meta.deleting(pod):
        return None
    return max(0.0, epoch(pod["metadata"]["deletionTimestamp"]) + GRACE_SECONDS - now)


def message(pod: Raw) -> str:
    """Why the pod is ended by force."""
    seconds = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0) + int(GRACE_SECONDS)
    return (
        f"Pod forcefully terminated after {seconds}s grace period due to unreachable node"
        f" `{(pod.get('spec') or {}).get('nodeName', '')}` (triggered by `{Annotation.SAFE_TO_FORCEFULLY_DELETE}`"
        " annotation)"
    )


def failed(pod: Raw, now: float) -> Raw | None:
    """Returns the patch of the status: the pod has failed, so that its job replaces it. None if it is written."""
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    if any(each.get("type") == CONDITION for each in conditions):
        return None
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": message(pod),
        "lastTransitionTime": stamp(now),
    }
    phase = {} if status.get("phase") in _ENDED else {"phase": "Failed"}
    return guarded({"status": {**phase, "conditions": [*conditions, condition]}}, pod)


def over(pod: Raw) -> bool:
    """Whether the pod was deleted by force already, and only finalizers keep it."""
    return pod["metadata"].get("deletionGracePeriodSeconds") == 0 and any(
        each.get("type") == CONDITION for each in (pod.get("status") or {}).get("conditions") or ()
    )
