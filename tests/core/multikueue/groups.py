"""A Workload of MultiKueue in every state, in two workers: only what matters to a case is named."""

from __future__ import annotations

from typing import Any

from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Raw
from core.actions import Action, Create, Deferred, Delete, Wait, steps_of
from core.jobs.kinds import BATCH_JOB
from core.jobs.workload import name as workload_name
from core.multikueue.group import Group, Policy, Worker
from core.wire import decode
from core.wire.decode import WorkloadContext

NOW = 1_800_000_000.0
AT = "2027-01-15T08:00:00Z"
"""The moment ``NOW``."""
EARLIER = "2027-01-15T07:50:00Z"
_PODS: Raw = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
POD_SETS: list[Raw] = [{"name": "main", "count": 1, "template": _PODS}]


def conditions(**found: str) -> list[Raw]:
    """Conditions by type: ``True``, ``True since <time>`` or a status with a reason, as ``True/Reason``."""
    made = []
    for kind, text in found.items():
        status, _, reason = text.partition("/")
        reason, _, since = reason.partition("@")
        made.append(
            {
                "type": kind,
                "status": status,
                "reason": reason or kind,
                "message": f"{kind} it is",
                "lastTransitionTime": since or AT,
            }
        )
    return made


def job(*, suspend: bool = True, status: Raw | None = None, managed_by: str | None = MULTIKUEUE_CONTROLLER) -> Raw:
    """The Job here, which is left to MultiKueue."""
    spec: Raw = {"suspend": suspend, "parallelism": 1, "template": {"spec": POD_SETS[0]["template"]["spec"]}}
    if managed_by is not None:
        spec["managedBy"] = managed_by
    metadata = {"name": "j", "namespace": "ns", "uid": "u-j", "resourceVersion": "7", "labels": {"team": "a"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": spec,
        **({"status": status} if status is not None else {}),
    }


def there(*, status: Raw | None = None, **fields: Any) -> Raw:
    """The Job in a worker."""
    found = job(status=status, managed_by=None, **fields)
    return {**found, "metadata": {**found["metadata"], "uid": "u-there"}}


def workload(*, spec: Raw | None = None, status: Raw | None = None, **metadata: Any) -> Raw:
    """The Workload of that Job."""
    found = {
        "name": workload_name(BATCH_JOB, job()),
        "namespace": "ns",
        "uid": "u-w",
        "resourceVersion": "3",
        "labels": {"kueue.x-k8s.io/job-uid": "u-j"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True},
        ],
        **metadata,
    }
    made = {"queueName": "lq", "podSets": POD_SETS, "active": True, **(spec or {})}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": found,
        "spec": made,
        "status": status or {},
    }


def copy(*, spec: Raw | None = None, owned: bool = False, origin: str = "", **found: str) -> Raw:
    """The Workload in a worker, with these conditions; ``origin`` is the uid that it names, '' as in older versions."""
    own = workload()["metadata"]["ownerReferences"]
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    return workload(
        spec=spec,
        status={"conditions": conditions(**found)},
        uid="u-copy",
        labels=labels,
        annotations={"kueue.x-k8s.io/multikueue-origin-uid": origin} if origin else {},
        ownerReferences=own if owned else [],
        finalizers=["kueue.x-k8s.io/resource-in-use"],
    )


def group(
    *workers: Worker,
    check: str | None = CheckState.PENDING,
    other: str | None = None,
    nominated: tuple[str, ...] = ("w1", "w2"),
    cluster: str = "",
    held: bool = True,
    policy: Policy | None = None,
    of_job: Raw | None = None,
    spec: Raw | None = None,
    **found: str,
) -> Group:
    """The Workload with quota and its check pending, offered to both workers; ``found`` are further conditions."""
    known = (("mk", check), ("other", other))
    states = [{"name": name, "state": state, "message": ""} for name, state in known if state]
    reserved = {"QuotaReserved": "True" if held else "False"}
    status: Raw = {"conditions": conditions(**(reserved | found)), "admissionChecks": states}
    if held:
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
    status |= {"clusterName": cluster} if cluster else {"nominatedClusterNames": list(nominated)}
    raw = workload(spec=spec, status=status)
    local = decode.workload(raw, WorkloadContext())
    return Group(
        now=NOW,
        local=local,
        raw=raw,
        check=next((each for each in local.checks if each.name == "mk"), None),
        kind=BATCH_JOB,
        owner="batch/v1, Kind=Job",
        job=of_job if of_job is not None else job(),
        workers=workers or (Worker("w1"), Worker("w2")),
        policy=policy or Policy(),
    )


def word(action: Action) -> str:
    """What is written; '' for nothing."""
    return "" if isinstance(action, Wait | Deferred) else action.why


def manifests(action: Action) -> list[Raw]:
    """The objects that are created."""
    assert not isinstance(action, Wait | Deferred)
    return [each.manifest for each in steps_of(action) if isinstance(each, Create)]


def withdrawn(action: Action) -> tuple[list[str], str]:
    """The uids of the objects of a job that are deleted, and that of the Workload, '' for none."""
    assert not isinstance(action, Wait | Deferred) and action.why == "withdraw"
    gone = [each for each in steps_of(action) if isinstance(each, Delete)]
    (workload,) = [each.uid for each in gone if each.target is None] or [""]
    return [each.uid for each in gone if each.target is not None], workload


def uids(*objects: Raw) -> list[str]:
    """The uids of these objects."""
    return [str(each["metadata"]["uid"]) for each in objects]
