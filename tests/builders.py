"""Values for tests, that say only what matters to the case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.model import (
    Admission,
    ClusterQueue,
    Condition,
    Decision,
    FlavorResource,
    Key,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Workload,
)
from core.model.policy import SchedulingPolicy, Strategy
from core.model.workload import replace
from core.scheduling.cycle import schedule
from core.state.state import State

CPU = "cpu"
DEFAULT = FlavorResource("default", CPU)
EVERY = Selector()
NOW = 1000.0
TWO = (ResourceGroup((CPU,), ("default", "spot")),)
SPOT = FlavorResource("spot", CPU)
FAIR = SchedulingPolicy(fair_sharing=tuple(Strategy))


def cluster_queue(name: str, nominal: int = 0, **fields: Any) -> ClusterQueue:
    """A ClusterQueue of so many milli-cpu in flavor `default`; limits may be given as `borrowing` and `lending`."""
    quota = Quota(nominal, fields.pop("borrowing", None), fields.pop("lending", None))
    fields.setdefault("groups", (ResourceGroup((CPU,), ("default",)),))
    fields.setdefault("quotas", {DEFAULT: quota})
    fields.setdefault("namespace_selector", EVERY)
    return ClusterQueue(name=name, **fields)


def workload(
    name: str, cpu: int, *, queue: str = "lq", priority: int = 0, created: float = 0.0, **fields: Any
) -> Workload:
    """A pending workload of one pod set with one pod."""
    fields.setdefault("pod_sets", (PodSet("main", 1, {CPU: cpu}),))
    return replace(Workload(Key("ns", name), f"uid-{name}", created, queue, priority, ()), **fields)


def reserved(name: str, cpu: int, cluster_queue: str, *, since: float = 0.0, **fields: Any) -> Workload:
    """A workload that is admitted in flavor `default`."""
    assigned = PodSetAssignment("main", {CPU: "default"}, {CPU: cpu}, 1)
    conditions = (Condition("QuotaReserved", True, since=since), Condition("Admitted", True, since=since))
    return workload(name, cpu, admission=Admission(cluster_queue, (assigned,)), conditions=conditions, **fields)


def state(
    *queues: ClusterQueue, policy: SchedulingPolicy | None = None, local: Mapping[str, str] | None = None
) -> State:
    """A State with flavor `default`, namespace `ns`, and a LocalQueue of each ClusterQueue's name (`lq` for the
    first).
    """
    made = State(policy)
    made.set_namespace("ns", {})
    made.set_flavor("default", ResourceFlavor("default"))
    for queue in queues:
        made.set_cluster_queue(queue.name, queue)
        made.set_local_queue(Key("ns", queue.name), LocalQueue(Key("ns", queue.name), queue.name))
    for name, target in (local or {"lq": queues[0].name}).items():
        made.set_local_queue(Key("ns", name), LocalQueue(Key("ns", name), target))
    return made


def put(found: State, *workloads: Workload) -> State:
    """State with these Workloads."""
    for each in workloads:
        found.set_workload(each.key, each)
    return found


def cycle(found: State) -> dict[str, Decision]:
    """One cycle, applied: the decision by name of the workload."""
    plan = schedule(found.snapshot(), found.heads(NOW), found.policy, NOW)
    found.apply(plan)
    found.check()
    return {decision.workload.key.name: decision for decision in plan.decisions}
