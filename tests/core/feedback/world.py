"""Two teams in a cohort, written as manifests: the cluster that feedback is asked about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import yaml
from msgspec.structs import replace

from api.objects import key_of
from core.devices.inventory import Inventory, RefusedClaims
from core.feedback import Submission, submission
from core.feedback.submission import PodSpec
from core.model import Key, Labels, Node, Raw
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.lookup import Lookup
from core.state.state import State
from core.wire import decode, resource_quotas
from core.wire.decode import WorkloadContext
from core.wire.pod_requests import RequestRules
from core.workload.priority import PriorityClasses

TEAMS = """
- kind: ResourceFlavor
  metadata: {name: standard}
  spec: {nodeLabels: {pool: standard}}
- kind: ResourceFlavor
  metadata: {name: spot}
  spec: {nodeLabels: {pool: spot}, nodeTaints: [{key: spot, value: "true", effect: NoSchedule}]}
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    cohortName: research
    namespaceSelector: {matchLabels: {team: a}}
    resourceGroups:
    - coveredResources: [cpu, memory]
      flavors:
      - name: standard
        resources: [{name: cpu, nominalQuota: 8, borrowingLimit: 4}, {name: memory, nominalQuota: 32Gi}]
- kind: ClusterQueue
  metadata: {name: team-b}
  spec:
    cohortName: research
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu, memory]
      flavors:
      - name: standard
        resources: [{name: cpu, nominalQuota: 8}, {name: memory, nominalQuota: 32Gi, lendingLimit: 0}]
      - name: spot
        resources: [{name: cpu, nominalQuota: 4}, {name: memory, nominalQuota: 8Gi}]
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: team-a}
- kind: LocalQueue
  metadata: {name: main, namespace: team-b}
  spec: {clusterQueue: team-b}
"""

READ = {
    "ResourceFlavor": (decode.resource_flavor, State.set_flavor),
    "ClusterQueue": (decode.cluster_queue, State.set_cluster_queue),
    "Cohort": (decode.cohort, State.set_cohort),
    "AdmissionCheck": (decode.admission_check, State.set_admission_check),
    "Topology": (decode.topology_object, State.set_topology),
}


def world(
    more: str = "",
    *,
    synced: bool = True,
    nodes: Sequence[Labels | Node] | None = None,
    one_by_one: bool = False,
    undeclared: bool = False,
    quotas: Iterable[Raw] = (),
    concurrent: bool = False,
    topology: bool = False,
    named: Callable[[Any], Any] = lambda value: value,
) -> Lookup:
    """The two teams, with ``more`` manifests on top (a later one of a name takes the place of an earlier one).

    ``quotas`` are specs of ResourceQuotas that every namespace has, the first named q0, the next q1.
    ``one_by_one`` is `waitForPodsReady.blockAdmission`, ``undeclared`` is `quotaCheckStrategy: IgnoreUndeclared`,
    ``concurrent`` is the feature gate ConcurrentAdmission, ``topology`` is TopologyAwareScheduling. ``named`` returns a
    manifest with other names.
    """
    policy = SchedulingPolicy(
        block_admission=one_by_one,
        ignore_undeclared=undeclared,
        concurrent_admission=concurrent,
        topology=TopologyPolicy() if topology else None,
    )
    state = State(policy)
    state.set_namespace(named("team-a"), named({"team": "a"}))
    state.set_namespace(named("team-b"), named({"team": "b"}))
    for raw in (*named(parsed(TEAMS)), *(parsed(more) or ())):
        enter(state, raw)
    classes = PriorityClasses(
        {"urgent": 1000, "batch": 1}, {"high-priority": 1000000, "system-node-critical": 2000001000}
    )
    there = None if nodes is None else [each if isinstance(each, Node) else Node("n", each) for each in nodes]
    for place, each in enumerate(there or ()):
        if there is not None and each.name in {other.name for other in there[:place]}:
            there[place] = replace(each, name=f"{each.name}{place}")
    for each in there or ():
        state.set_node(each.name, each)
    allowed = [resource_quotas.read({"metadata": {"name": f"q{n}"}, "spec": spec}) for n, spec in enumerate(quotas)]
    return Lookup(
        state, ready=lambda: synced, classes=lambda: classes, nodes=lambda: there, quotas=lambda namespace: allowed
    )


def parsed(text: str) -> Any:
    """What a text of YAML has; hundreds of worlds are made, and Python's own loader takes ten times as long."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def enter(state: State, raw: Raw) -> None:
    """Let State know of an object."""
    kind, key = raw["kind"], key_of(raw)
    if kind == "LocalQueue":
        state.set_local_queue(key, decode.local_queue(raw))
    elif kind == "Workload":
        raw["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        raw["metadata"].setdefault("uid", key.name)
        state.set_workload(key, decode.workload(raw, WorkloadContext()))
    else:
        read, put = READ[kind]
        put(state, key.name, read(raw))  # type: ignore[operator]


def job(
    namespace: str = "team-a",
    queue: str = "main",
    priority_class: str = "",
    count: int = 1,
    min_count: int | None = None,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    devices: Inventory | RefusedClaims | None = None,
    **spec: Any,
) -> Submission:
    """A job of one pod set; by default a good one."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"} if requests is None else requests, "limits": limits or {}}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    pods = [PodSpec("main", count, {"containers": containers, **spec}, min_count)]
    return submission(namespace, queue, priority_class, pods, RequestRules(devices=devices))


def running(name: str, namespace: str, cluster_queue: str, cpu: str, flavor: str = "standard", check: str = "") -> str:
    """The manifest of a workload that holds so much cpu; admitted, but where it waits for a ``check``."""
    found = _workload(name, namespace, cpu)
    assigned = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": cpu}, "count": 1}
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    found["status"] = {
        "conditions": [
            {**reserved, "type": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("QuotaReserved", *(() if check else ("Admitted",)))
        ],
        "admission": {"clusterQueue": cluster_queue, "podSetAssignments": [assigned]},
        "admissionChecks": [{"name": check, "state": "Pending"}] if check else [],
    }
    return f"- {json.dumps(found)}\n"


def waiting(name: str, namespace: str, cpu: str, priority: int = 0, *, told: bool = False) -> str:
    """The manifest of a workload that waits in the queue of its namespace, with a reason in its status."""
    found = _workload(name, namespace, cpu)
    if told:
        pending = {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": ""}
        found["status"] = {"conditions": [{**pending, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    found["spec"]["priority"] = priority
    return f"- {json.dumps(found)}\n"


def _workload(name: str, namespace: str, cpu: str) -> Raw:
    pod = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": pod}}]
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "Workload", "metadata": metadata, "spec": {"queueName": "main", "podSets": pod_sets}}


__all__ = ["Key", "enter", "job", "parsed", "running", "waiting", "world"]
