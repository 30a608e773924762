"""What the contention benches create: queues in cohorts, and streams of workloads that ask for more than the quota.

``baseline`` and ``large-scale`` are the scenarios of Kueue's scheduler performance tests: the same numbers, quotas,
runtimes and intervals. ``jobs`` is the baseline as real Jobs, which pass the webhooks.
"""

import random
from typing import NamedTuple

from api.objects import Raw, Resource
from bench.scenario import CLUSTER_QUEUES, FLAVORS, GROUP, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS, job

PRIORITY_CLASSES = Resource(GROUP, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)


class Class(NamedTuple):
    """One stream of workloads in each queue: a workload is created ``every_seconds`` after the last answer."""

    name: str
    workloads: int
    cpu: int
    priority: int
    run_seconds: float
    every_seconds: float


class Queue(NamedTuple):
    """A ClusterQueue and its LocalQueue, which has its name and is alone in a namespace of that name."""

    name: str
    cohort: str


class Load(NamedTuple):
    """A scenario. ``queues`` are those of one cohort; ``nominal`` and ``borrowing`` are the cpu of one queue.

    With ``random_runtimes`` those of the classes are means of an exponential distribution.
    """

    name: str
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    nominal: int = 20
    borrowing: int = 100
    jobs: bool = False
    random_runtimes: bool = False

    @property
    def all_queues(self) -> tuple[Queue, ...]:
        """Every queue of every cohort."""
        return tuple(
            Queue(f"{self.name}-{cohort}-{number}", f"{self.name}-{cohort}")
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
LOADS = {
    one.name: one
    for one in (
        Load("baseline", 5, 6, _BASELINE),
        Load("large-scale", 10, 100, _LARGE_SCALE),
        Load("jobs", 5, 6, _BASELINE, jobs=True),
    )
}


def setting(load: Load) -> list[tuple[Resource, str, Raw]]:
    """Returns what must exist before the first workload, in order: resource, namespace, object."""
    quota = {"name": "cpu", "nominalQuota": load.nominal, "borrowingLimit": load.borrowing}
    found: list[tuple[Resource, str, Raw]] = [(FLAVORS, "", _named(FLAVORS, load.name))]
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


def created(load: Load, queue: Queue, one: Class, number: int) -> tuple[Resource, Raw]:
    """Returns the object that is created for a workload: a Workload without an owner, or a Job."""
    name = f"{one.name}-{number}"
    if load.jobs:
        made = job(name, queue.name, str(one.cpu))
        made["metadata"]["labels"][f"{GROUP}/priority-class"] = f"{load.name}-{one.name}"
        return JOBS, made
    container = {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": str(one.cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "queueName": queue.name,
        "priority": one.priority,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }
    return WORKLOADS, _named(WORKLOADS, name) | {"spec": spec}


def _named(resource: Resource, name: str) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
