"""Every write of the controller: where the code makes it, and how a request for it is recognized.

``tests/test_write_points.py`` compares ``SITES`` with the code: who adds a write says here what it is. Tests kill the
leader at each of ``POINTS`` and ``TOPOLOGY_POINTS``, and the manager of worker clusters at each of ``MANAGER_POINTS``
and ``WORKER_POINTS``, before the request reaches the API server and after.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from api.names import EvictedReason
from core.multikueue import here
from core.multikueue.hopeless import NO_WORKER
from core.workload.ungating import FENCE
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


def _fences(body: Any) -> bool:
    return FENCE in ((body.get("metadata") or {}).get("annotations") or {})


def _gives_nodes(body: Any) -> bool:
    return "schedulingGates" in (body.get("spec") or {}) and not _fences(body)


def _unhealthy_nodes(body: Any) -> bool:
    return bool((body.get("status") or {}).get("unhealthyNodes"))


def _of_failed_nodes(body: Any) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Evicted" and each.get("reason") == EvictedReason.NODE_FAILURES for each in conditions)


_IS_EVICTED: Final = _status(QuotaReserved=True, Evicted=True)
_IS_ADMITTED: Final = _status(QuotaReserved=True, Admitted=True, Evicted=False, Finished=False)

TOPOLOGY_POINTS: Mapping[str, Matches] = {
    "fence a pod": _writes("PATCH", "pods", has=_fences),
    "give a pod its domain": _writes("PATCH", "pods", has=_gives_nodes),
    "report a failed node": lambda request, body: (
        _of("PUT PATCH", "workloads", status=True)(request)
        and _unhealthy_nodes(body)
        and not _IS_EVICTED(request, body)
    ),
    "evict because of failed nodes": lambda request, body: _IS_EVICTED(request, body) and _of_failed_nodes(body),
    "end a pod that waits for its node": _writes("PATCH", "pods", status=True),
    "place in a second pass": lambda request, body: _IS_ADMITTED(request, body) and not _unhealthy_nodes(body),
}
"""The writes of topologies: tests/cluster/test_topology_crash.py kills the leader at each."""


def _workload(has: Callable[[Any], bool], *, admits: bool = False) -> Matches:
    """A status of a Workload in the manager that has what was just decided, while it holds quota and is not evicted.
    Only one that ``admits`` it may have the condition Admitted.
    """
    written = _of("PUT PATCH", "workloads", status=True)

    def matches(request: Request, body: Any) -> bool:
        status = body.get("status") or {}
        true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
        others = {"Evicted", "Finished"} if admits else {"Admitted", "Evicted", "Finished"}
        return written(request) and not true & others and has(status)

    return matches


def _check(state: str) -> Callable[[Any], bool]:
    return lambda status: any(each["state"] == state for each in status.get("admissionChecks") or ())


def _hopeless(status: Any) -> bool:
    messages = (each.get("message", "") for each in status.get("admissionChecks") or ())
    return any(each.startswith(NO_WORKER) for each in messages)


def _condition(kind: str) -> Callable[[Any], bool]:
    def has(body: Any) -> bool:
        conditions = (body.get("status") or {}).get("conditions") or ()
        return any(each["type"] == kind and each["status"] == "True" for each in conditions)

    return has


def _opens_gate(body: Any) -> bool:
    gates = (body.get("status") or {}).get("preemptionGates") or ()
    return any(each["position"] == "Open" for each in gates) and not _condition("DeactivationTarget")(body)


def _changes(field: str, but: str = "") -> Callable[[Any], bool]:
    return lambda body: field in (body.get("spec") or {}) and but not in (body.get("spec") or {})


MANAGER_POINTS: Mapping[str, Matches] = {
    "nominate": _workload(lambda status: bool(status.get("nominatedClusterNames")) and not _hopeless(status)),
    "choose the worker": _workload(
        lambda status: bool(status.get("clusterName")) and not _check("Retry")(status), admits=True
    ),
    "report that no worker can take it": _workload(_hopeless),
    "reject": _workload(_check("Rejected")),
    "queue it again": lambda request, body: (
        _of("PUT PATCH", "workloads", status=True)(request)
        and _check("Retry")(body.get("status") or {})
        and not _condition("Evicted")(body)
    ),
    "copy the status of the job": _writes("PATCH", "jobs", status=True),
    "finish as in the worker": _status(Finished=True),
    "status of a MultiKueueCluster": _writes("PATCH", "multikueueclusters", status=True),
    "status of an AdmissionCheck of MultiKueue": _writes("PATCH", "admissionchecks", status=True),
}
"""The writes of MultiKueue in the cluster of the controller."""
WORKER_POINTS: Mapping[str, Matches] = {
    "create the copy": _writes("POST", "workloads"),
    "create the job": _writes("POST", "jobs"),
    "deactivate the copy": _writes("PUT PATCH", "workloads", status=True, has=_condition("DeactivationTarget")),
    "change the priority of the copy": _writes("PATCH", "workloads", has=_changes("priority", but="podSets")),
    "shrink the copy": _writes("PATCH", "workloads", has=_changes("podSets")),
    "open the preemption gate": _writes("PUT PATCH", "workloads", status=True, has=_opens_gate),
    "change the job": _writes("PATCH", "jobs"),
    "delete the job": _writes("DELETE", "jobs"),
    "release the copy": _writes("PATCH", "workloads", has=_finalizers),
    "delete the copy": _writes("DELETE", "workloads"),
}
"""Its writes in a worker cluster."""
HERE: Mapping[here.Why, str] = {
    "nominate": "nominate",
    "admit": "choose the worker",
    "record": "choose the worker",
    "hopeless": "report that no worker can take it",
    "reject": "reject",
    "retry": "queue it again",
    "out of sync": "queue it again",
    "refused": "queue it again",
    "finish": "finish as in the worker",
    "release": "release",
    "copy": "copy the status of the job",
}
"""The point of each update that ``core.multikueue.here`` decides."""
THERE: Mapping[str, tuple[str, ...]] = {
    "offer": ("create the copy",),
    "begin": ("create the job",),
    "deactivate": ("deactivate the copy",),
    "follow": ("change the priority of the copy", "shrink the copy"),
    "open gate": ("open the preemption gate",),
    "forward": ("change the job",),
    "withdraw": ("delete the job", "release the copy", "delete the copy"),
}
"""The points of each action that ``core.multikueue.there`` decides."""
DECIDED: Mapping[str, tuple[str, ...] | str] = {
    "controller/cache/checks.py": ("status of an AdmissionCheck of MultiKueue",),
    "core/jobs/actions.py": ("create the Workload", "release", "finish", "remove the finalizer", "delete the Workload"),
    "core/jobs/decide.py": "deletes jobs when their retention has ended; the last write of an import",
    "core/jobs/job_starter.py": ("unsuspend", "suspend"),
    "core/jobs/kinds/job.py": ("unsuspend", "suspend", "reset the status of the Job"),
    "core/jobs/kinds/jobset.py": "written as Jobs are: tests/cluster/test_jobset.py",
    "core/jobs/kinds/pod.py": "pods: tests/cluster/test_pods.py",
    "core/jobs/kinds/pod_group.py": "pods: tests/cluster/test_pods.py",
    "core/jobs/kinds/raycluster.py": "what a stop deletes: tests/cluster/test_kinds_life.py",
    "core/jobs/kinds/rayjob.py": "what a stop writes: tests/cluster/test_kinds_life.py",
    "core/jobs/kinds/trainjob.py": "written as Jobs are: tests/cluster/test_kinds_life.py",
    "core/jobs/pod_owner_groups.py": "the steps for groups of pods: test_pods.py",
    "core/jobs/stateful_sets.py": "the steps for groups of pods: test_pods.py",
    "core/jobs/stopping.py": ("reset the status of the Job",),
    "core/multikueue/here.py": tuple(dict.fromkeys(HERE.values())),
    "core/multikueue/there.py": tuple(point for points in THERE.values() for point in points),
    "core/provisioning/rules.py": "requests for nodes: no quota depends on them, and tests/cluster/test_provisioning.py"
    " has their crash points",
    "core/variants/rules.py": "concurrent admission, off by default: tests/controller/test_variants.py has each write"
    " as the last of a process",
    "core/workload/actions.py": ("evict",),
    "core/workload/lifecycle.py": ("admit", "evict"),
    "core/workload/node_failures.py": ("report a failed node", "evict", "evict because of failed nodes"),
}
"""The points of the writes that each module decides, or why the leader is not killed there."""
SITES: Mapping[str, tuple[str, ...] | str] = {
    "controller/scheduling/scheduler.py:Scheduler._settle": (
        "reserve",
        "admit",
        "evict",
        "place in a second pass",
        "evict because of failed nodes",
    ),
    "controller/reconcilers/departures.py:Departures._named": "the last write of an import: test_departures.py",
    "controller/scheduling/reasons.py:WaitReasons.write": ("say why it waits",),
    "controller/reconcilers/queues.py:QueueStatuses.write_status": (
        "status of a ClusterQueue",
        "status of a LocalQueue",
    ),
    "controller/reconcilers/queues.py:QueueStatuses._finalize": ("finalizer of a ClusterQueue",),
    "controller/kube/events.py:EventSender._send": ("event",),
    "controller/kube/elector.py:Election._take": ("lease",),
    "controller/kube/elector.py:Election.release": ("lease",),
    "controller/cache/writes.py:Writer.create": "called by the others",
    "controller/cache/writes.py:Writer.patch": "called by the others",
    "controller/cache/writes.py:Writer.delete": "called by the others",
    "controller/reconcilers/guard.py:PodGuard._evict": "decided again from the pods that run: test_guard.py",
    "controller/reconcilers/guard.py:PodGuard._delete": "the same",
    "controller/reconcilers/elastic.py:ungate.ungate_one": "of elastic jobs: no quota depends on it, test_elastic.py",
    "controller/reconcilers/node_failures.py:NodeFailures._end": ("end a pod that waits for its node",),
    "controller/reconcilers/topology_ungater.py:TopologyUngater._write": ("fence a pod", "give a pod its domain"),
    "controller/reconcilers/failure_recovery.py:FailureRecovery._end": "decided again: test_failure_recovery.py",
    "controller/reconcilers/time_sharing.py:TimeSharing.reconcile": "a priority: decided again from the admission",
    "controller/reconcilers/population.py:Population._create": "LocalQueues of namespaces: created again if missing",
    "controller/reconcilers/mirror.py:QueueMirror.reconcile": "copies of queues: no quota depends on it",
    "controller/scheduling/usage.py:UsageSampler.sample": "usage in the past: order, not quota, depends on it",
    "controller/forecasts/remembered.py:RememberedRunTimes.write": "run times in the past: only forecasts depend on it",
    "controller/multikueue/clusters.py:Clusters._report": ("status of a MultiKueueCluster",),
    "controller/multikueue/quotas.py:Quotas.reconcile": "quota of the workers added up: computed again at each start",
    "controller/cache/reconciler.py:Reconciler._write": tuple(
        dict.fromkeys(point for points in DECIDED.values() if not isinstance(points, str) for point in points)
    ),
}
"""The points that each function writes, or why the leader is not killed there."""


@dataclass
class Killer:
    """Kills the process that sends the next request for the armed point: assign it to ``draw`` of its proxy.

    ``killed`` counts by point and whether the request reached the API server.
    """

    pid: Callable[[], int]
    points: Mapping[str, Matches] = field(default_factory=lambda: POINTS)
    armed: list[tuple[str, bool]] = field(default_factory=list)
    killed: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Fault | None:
        if not self.armed or request.method == "GET":
            return None
        point, reaches = self.armed[0]
        if point not in self.points or not self.points[point](
            request, orjson.loads(request.body) if request.body else {}
        ):
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
