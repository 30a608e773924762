"""Every write of the controller: where the code makes it, and how a request for it is recognized.

``tests/test_write_points.py`` compares ``SITES`` with the code: who adds a write says here what it is. Tests kill the
leader at each of ``POINTS``, before the request reaches the API server and after.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.faults import Fault, Request, Reset

Matches = Callable[[Request, Any], bool]


def _of(method: str, resource: str, status: bool = False) -> Callable[[Request], bool]:
    def matches(request: Request) -> bool:
        parts = request.path.split("/")
        found = resource in parts and (parts[-1] == "status") == status
        return found and request.method in method.split()

    return matches


def _status(**wanted: bool) -> Matches:
    """A status of a Workload with these conditions; one that is not True may be absent."""
    written = _of("PUT PATCH", "workloads", status=True)

    def matches(request: Request, body: Any) -> bool:
        if not written(request):
            return False
        conditions = (body.get("status") or {}).get("conditions") or ()
        true = {each["type"] for each in conditions if each["status"] == "True"}
        return bool(conditions) and all((kind in true) == value for kind, value in wanted.items())

    return matches


def _writes(
    method: str, resource: str, status: bool = False, has: Callable[[Any], bool] = lambda body: True
) -> Matches:
    written = _of(method, resource, status)
    return lambda request, body: written(request) and has(body)


def _suspends(value: bool) -> Callable[[Any], bool]:
    return lambda body: (body.get("spec") or {}).get("suspend") is value


def _finalizers(body: Any) -> bool:
    return "finalizers" in (body.get("metadata") or {})


POINTS: Mapping[str, Matches] = {
    "create the Workload": _writes("POST", "workloads"),
    "reserve": _status(QuotaReserved=True, Admitted=False, Evicted=False, Finished=False),
    "admit": _status(QuotaReserved=True, Admitted=True, Evicted=False, Finished=False),
    "say why it waits": _status(QuotaReserved=False, Evicted=False, Finished=False),
    "evict": _status(QuotaReserved=True, Evicted=True),
    "release": _status(QuotaReserved=False, Evicted=True, Finished=False),
    "finish": _status(Finished=True),
    "remove the finalizer": _writes("PATCH", "workloads", has=_finalizers),
    "delete the Workload": _writes("DELETE", "workloads"),
    "unsuspend": _writes("PATCH", "jobs", has=_suspends(False)),
    "suspend": _writes("PATCH", "jobs", has=_suspends(True)),
    "reset the status of the Job": _writes("PATCH", "jobs", status=True),
    "status of a ClusterQueue": _writes("PATCH", "clusterqueues", status=True),
    "status of a LocalQueue": _writes("PATCH", "localqueues", status=True),
    "finalizer of a ClusterQueue": _writes("PATCH", "clusterqueues", has=_finalizers),
    "event": _writes("POST", "events"),
    "lease": _writes("PUT", "leases"),
}

MULTIKUEUE = "jobs in other clusters: quota is reserved by the writes above, and only where MultiKueue is used"
PROVISIONING = (
    "requests for nodes: no quota depends on them, and tests/cluster/test_provisioning.py has their crash points"
)
SITES: Mapping[str, tuple[str, ...] | str] = {
    "controller/scheduler.py:Scheduler._settle": ("reserve", "admit", "evict"),
    "controller/workloads.py:WorkloadReconciler._patch": ("admit", "evict"),
    "controller/jobs.py:JobReconciler._create": ("create the Workload",),
    "controller/jobs.py:JobReconciler._patch_workload": ("release", "finish", "remove the finalizer"),
    "controller/jobs.py:JobReconciler._apply": ("delete the Workload",),
    "controller/jobs.py:JobReconciler._write": ("unsuspend", "suspend", "reset the status of the Job"),
    "controller/departures.py:Departures.release": ("finish", "remove the finalizer"),
    "controller/reasons.py:WaitReasons.write": ("say why it waits",),
    "controller/queues.py:QueueStatuses.write_status": ("status of a ClusterQueue", "status of a LocalQueue"),
    "controller/queues.py:QueueStatuses._finalize": ("finalizer of a ClusterQueue",),
    "controller/kube/events.py:Recorder._send": ("event",),
    "controller/kube/elector.py:Election._take": ("lease",),
    "controller/kube/elector.py:Election.release": ("lease",),
    "controller/writes.py:Writer.create": "called by the others",
    "controller/writes.py:Writer.patch": "called by the others",
    "controller/writes.py:Writer.delete": "called by the others",
    "controller/departures.py:Departures._tell": "only a condition that people read",
    "controller/elastic.py:_ungate_one": "pods of elastic jobs: no quota depends on it, tests/cluster/test_elastic.py",
    "controller/mirror.py:QueueMirror.reconcile": "copies of queues: no quota depends on it",
    "controller/pod_owners.py:PodOwnerReconciler._apply": "the steps for groups of pods: tests/cluster/test_pods.py",
    "controller/usage.py:UsageSampler.sample": "usage in the past: order, not quota, depends on it",
    "controller/workloads.py:WorkloadReconciler._followed": "only the priority",
    "controller/multikueue/clusters.py:Clusters._report": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue._apply_there": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue._copy_status": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue._offer": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue._update": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue._withdraw": MULTIKUEUE,
    "controller/multikueue/workloads.py:MultiKueue.reconcile_check": MULTIKUEUE,
    "controller/provisioning.py:Provisioning._create": PROVISIONING,
    "controller/provisioning.py:Provisioning._delete": PROVISIONING,
    "controller/provisioning.py:Provisioning._report": PROVISIONING,
    "controller/provisioning.py:Provisioning._write": PROVISIONING,
    "controller/provisioning.py:Provisioning.reconcile_check": PROVISIONING,
    "controller/workloads.py:WorkloadReconciler._apply": "deletes finished Workloads when their retention has ended",
}
"""The points that each function writes, or why the leader is not killed there."""


@dataclass
class Killer:
    """Kills the process that sends the next request for the armed point: assign it to ``draw`` of its proxy.

    ``killed`` counts by point and whether the request reached the API server.
    """

    pid: Callable[[], int]
    armed: list[tuple[str, bool]] = field(default_factory=list)
    killed: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Fault | None:
        if not self.armed or request.method == "GET":
            return None
        point, reaches = self.armed[0]
        if not POINTS[point](request, orjson.loads(request.body) if request.body else {}):
            return None
        self.armed.clear()
        os.kill(self.pid(), signal.SIGKILL)
        self.killed[point, reaches] += 1
        return Reset(reaches=reaches)


def arm(killers: Iterable[Killer], point: str, *, reaches: bool) -> None:
    """Arms all with one kill: the first of them that meets the point is the only one."""
    armed = [(point, reaches)]
    for killer in killers:
        killer.armed = armed
