"""What the contention benches create: queues in cohorts, and streams of workloads that ask for more than the quota.

``baseline`` and ``large-scale`` are the scenarios of Kueue's scheduler performance tests: the same numbers, quotas,
runtimes and intervals. ``topology`` is their scenario for topologies: the baseline's workloads as two to eight pods
which each workload wants in one rack, if possible in one rack, or in slices that are each in one rack, among 640 nodes.
``streams`` is ``topology`` without topologies and nodes: the same workloads in the same streams.
``jobs`` is the baseline as real Jobs, which pass the webhooks.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from api.objects import Raw, Resource
from bench.scenario import CLUSTER_QUEUES, FLAVORS, GROUP, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS, job

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
TOPOLOGIES = Resource(GROUP, "v1beta2", "topologies", "Topology", namespaced=False)
PRIORITY_CLASSES = Resource(GROUP, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)


class Class(NamedTuple):
    """One stream of workloads in each queue: a workload is created ``every_seconds`` after the last answer.

    ``pods`` share the ``cpu``, and are placed as ``topology`` (a topologyRequest) asks.
    """

    name: str
    workloads: int
    cpu: int
    priority: int
    run_seconds: float
    every_seconds: float
    pods: int = 1
    topology: Raw | None = None


class LoadQueue(NamedTuple):
    """A ClusterQueue and its LocalQueue, which has its name and is alone in a namespace of that name."""

    name: str
    cohort: str


class Racks(NamedTuple):
    """The nodes of a topology: one block of racks with equal nodes; ``cpu`` and ``memory`` of one node."""

    racks: int
    nodes: int
    cpu: str = "96"
    memory: str = "256Gi"


class Load(NamedTuple):
    """A scenario. ``queues`` are those of one cohort; ``nominal`` and ``borrowing`` are the cpu of one queue.

    With ``racks`` the flavor has a topology, and these nodes are created. With ``random_runtimes`` those of the classes
    are means of an exponential distribution.
    """

    name: str
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    nominal: int = 20
    borrowing: int = 100
    jobs: bool = False
    random_runtimes: bool = False
    racks: Racks | None = None

    @property
    def all_queues(self) -> tuple[LoadQueue, ...]:
        """Every queue of every cohort."""
        return tuple(
            LoadQueue(f"{self.name}-{cohort}-{number}", f"{self.name}-{cohort}")
            for cohort in range(self.cohorts)
            for number in range(self.queues)
        )

    @property
    def workloads(self) -> int:
        """How many workloads are created."""
        return self.cohorts * self.queues * sum(one.workloads for one in self.classes)

    @property
    def quota(self) -> int:
        """The cpu that can be in use at the same time."""
        return self.cohorts * self.queues * self.nominal

    @property
    def cpu_seconds(self) -> float:
        """The quota that the runtimes alone use: any more is time that others needed to start and end workloads."""
        each = sum(one.workloads * one.cpu * one.run_seconds for one in self.classes)
        return self.cohorts * self.queues * each

    def runtime(self, one: Class, name: str) -> float:
        """Returns for how many seconds a workload of that name runs: always the same."""
        return random.Random(name).expovariate(1 / one.run_seconds) if self.random_runtimes else one.run_seconds

    def share(self, share: float) -> "Load":
        """The same with this share of the workloads, at least one of each class; intervals stay as they are."""
        return self._replace(
            classes=tuple(one._replace(workloads=max(1, round(one.workloads * share))) for one in self.classes)
        )


_BASELINE = (
    Class("small", 350, 1, 50, 0.2, 0.1),
    Class("medium", 100, 5, 100, 0.5, 0.5),
    Class("large", 50, 20, 200, 1.0, 1.2),
)
_LARGE_SCALE = (
    Class("small", 35, 1, 50, 0.15, 0.06),
    Class("medium", 11, 5, 100, 0.35, 0.3),
    Class("large", 4, 20, 200, 0.7, 0.7),
)
BLOCK, RACK, HOSTNAME = (
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "kubernetes.io/hostname",
)
NODE_GROUP = "tas-node-group"
_REQUESTS: tuple[tuple[str, Callable[[int], Raw]], ...] = (
    ("required", lambda size: {"required": RACK}),
    ("preferred", lambda size: {"preferred": RACK}),
    ("slices", lambda size: {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": size}),
)
"""The topology requests of Kueue's scenario, for slices of a size."""


def _placed(one: Class, pods: int, size: int, counts: tuple[int, ...]) -> tuple[Class, ...]:
    """A class as three, one for each topology request, with these numbers of workloads."""
    return tuple(
        one._replace(name=f"{one.name}-{name}", workloads=count, pods=pods, topology=request(size))
        for (name, request), count in zip(_REQUESTS, counts, strict=True)
    )


_SMALL, _MEDIUM, _LARGE = _BASELINE
_TOPOLOGY = (
    *_placed(_SMALL, 2, 1, (120, 120, 110)),
    *_placed(_MEDIUM, 4, 2, (34, 33, 33)),
    *_placed(_LARGE, 8, 4, (17, 17, 16)),
)
LOADS = {
    one.name: one
    for one in (
        Load("baseline", 5, 6, _BASELINE),
        Load("large-scale", 10, 100, _LARGE_SCALE),
        Load("jobs", 5, 6, _BASELINE, jobs=True),
        Load("topology", 5, 6, _TOPOLOGY, racks=Racks(10, 64)),
        Load("streams", 5, 6, tuple(one._replace(topology=None) for one in _TOPOLOGY)),
    )
}


def setting(load: Load) -> list[tuple[Resource, str, Raw]]:
    """Returns what must exist before the first workload, in order: resource, namespace, object."""
    quota = {"name": "cpu", "nominalQuota": load.nominal, "borrowingLimit": load.borrowing}
    found: list[tuple[Resource, str, Raw]] = [
        *_topology(load),
        (FLAVORS, "", _named(FLAVORS, load.name) | _flavor_spec(load)),
    ]
    for queue in load.all_queues:
        spec = {
            "cohortName": queue.cohort,
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": load.name, "resources": [quota]}]},
            ],
        }
        found.append((CLUSTER_QUEUES, "", _named(CLUSTER_QUEUES, queue.name) | {"spec": spec}))
        found.append((NAMESPACES, "", _named(NAMESPACES, queue.name)))
        found.append(
            (LOCAL_QUEUES, queue.name, _named(LOCAL_QUEUES, queue.name) | {"spec": {"clusterQueue": queue.name}})
        )
    if load.jobs:
        for one in load.classes:
            found.append(
                (PRIORITY_CLASSES, "", _named(PRIORITY_CLASSES, f"{load.name}-{one.name}") | {"value": one.priority})
            )
    return found


def _flavor_spec(load: Load) -> Raw:
    if load.racks is None:
        return {}
    return {"spec": {"nodeLabels": {NODE_GROUP: load.name}, "topologyName": load.name}}


def _topology(load: Load) -> Iterator[tuple[Resource, str, Raw]]:
    """Yields the Topology and the nodes of a load."""
    racks = load.racks
    if racks is None:
        return
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME)]
    yield TOPOLOGIES, "", _named(TOPOLOGIES, load.name) | {"spec": {"levels": levels}}
    amounts = {"cpu": racks.cpu, "memory": racks.memory, "pods": "110"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    for rack, number in itertools.product(range(racks.racks), range(racks.nodes)):
        node = _named(NODES, f"{load.name}-{rack}-{number}")
        node["metadata"]["labels"] = {
            NODE_GROUP: load.name,
            BLOCK: "block-0",
            RACK: f"rack-{rack}",
            HOSTNAME: node["metadata"]["name"],
        }
        node["status"] = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        yield NODES, "", node


def created(load: Load, queue: LoadQueue, one: Class, number: int) -> tuple[Resource, Raw]:
    """Returns the object that is created for a workload: a Workload without an owner, or a Job."""
    name = f"{one.name}-{number}"
    if load.jobs:
        made = job(name, queue.name, str(one.cpu))
        made["metadata"]["labels"][f"{GROUP}/priority-class"] = f"{load.name}-{one.name}"
        return JOBS, made
    cpu = str(one.cpu) if one.pods == 1 else f"{one.cpu * 1000 // one.pods}m"
    container = {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set: Raw = {"name": "main", "count": one.pods, "template": template}
    if one.topology is not None:
        pod_set["topologyRequest"] = one.topology
    spec = {"queueName": queue.name, "priority": one.priority, "podSets": [pod_set]}
    return WORKLOADS, _named(WORKLOADS, name) | {"spec": spec}


def _named(resource: Resource, name: str) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
