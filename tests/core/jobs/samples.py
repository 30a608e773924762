"""A Job and what belongs to it, as the API server shows them; a case says only what matters to it."""

import copy
from collections.abc import Sequence
from typing import Any

from api.objects import key_of
from core.actions import Patch, Write
from core.jobs import workload
from core.jobs.actions import Start
from core.jobs.decide import decide
from core.jobs.kinds import BATCH_JOB
from core.jobs.situation import JobSituation
from core.model import Admission, Key, PodSetAssignment, Raw, Workload
from core.wire import conditions, decode
from core.wire.merge import merged
from core.workload import priority, transitions

NOW = 1000.0
FLAVORS: dict[str, Raw] = {
    "spot": {
        "metadata": {"name": "spot"},
        "spec": {
            "nodeLabels": {"kind": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
}
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 3000}, 3),))


def job(
    *,
    suspend: bool = True,
    labels: Raw | None = None,
    annotations: Raw | None = None,
    status: Raw | None = None,
    pod: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A Job of three pods in queue lq."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    template_labels = {"app": "x", "controller-uid": "job-uid", "batch.kubernetes.io/job-name": "j"}
    template = {"metadata": {"labels": template_labels}, "spec": {"containers": containers, **(pod or {})}}
    return {
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "job-uid",
            "resourceVersion": "5",
            "labels": {"kueue.x-k8s.io/queue-name": "lq", **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"suspend": suspend, "parallelism": 3, "completions": 3, "template": template, **spec},
        "status": status or {},
    }


def workload_of(found: Raw, **spec: Any) -> Raw:
    """The Workload as it is right after it was created for the Job."""
    raw = copy.deepcopy(workload.manifest(BATCH_JOB, found, {"spec": {"priority": 0}}))
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    raw["spec"] |= spec
    return raw


def read(raw: Raw) -> Workload:
    """What is decoded from a Workload."""
    return decode.workload(raw, decode.WorkloadContext())


def decoded(*workloads: Raw | None) -> dict[Key, Workload]:
    """What is decoded from Workloads, by key."""
    return {key_of(raw): read(raw) for raw in workloads if raw is not None}


def patches(writes: Sequence[Write]) -> list[Patch]:
    """The writes of one that are nothing but patches."""
    found = [each for each in writes if isinstance(each, Patch)]
    assert len(found) == len(writes)
    return found


def with_status(raw: Raw, before: Workload, after: Workload) -> Raw:
    """The Workload after the status patch from one value to the other."""
    patch = conditions.status_patch(before, after)
    return merged(raw, patch) if patch else raw


CLASSES = priority.PriorityClasses(workload={"low": 10, "high": 100}, pod={"pods": 7})


def situation(found: Raw, *workloads: Raw, **more: Any) -> JobSituation:
    """What the rules of a Job read, with its Workloads."""
    more = {"flavors": FLAVORS, "classes": CLASSES, "decoded": decoded(*workloads), **more}
    return JobSituation(kind=BATCH_JOB, job=found, now=NOW, workloads=workloads, **more)


def after(raw: Raw, change: Any) -> Raw:
    """The Workload after a transition."""
    value = read(raw)
    return with_status(raw, value, change(value))


def admitted(raw: Raw, admission: Admission = ADMISSION) -> Raw:
    """The Workload after its admission."""
    return after(raw, lambda value: transitions.reserved(value, admission, 500.0))


def evicted(raw: Raw, reason: str = "ClusterQueueStopped", message: str = "The ClusterQueue is stopped") -> Raw:
    """The Workload after an eviction."""
    return after(raw, lambda value: transitions.evicted(value, reason, message, 600.0))


def started(found: Raw, raw: Raw) -> Raw:
    """The Job after the start with its Workload."""
    action = decide(situation(found, raw))
    assert isinstance(action, Start)
    for patch in patches(action.steps):
        found = merged(found, patch.body)
    return found


def facts(value: Workload) -> dict[str, str]:
    """Status and reason of each condition."""
    return {each.type: f"{each.status}/{each.reason}" for each in value.conditions}
