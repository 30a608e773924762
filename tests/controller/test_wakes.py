"""Which statuses are looked at when an object changed. The reconcilers are stand-ins that note what they are told."""

from typing import Any, cast

from controller import resources
from controller.caches import Caches
from controller.kube.resource import Resource
from controller.queues import QueueStatuses
from controller.scheduler import Scheduler
from controller.wakes import Wakes
from controller.workloads import WorkloadReconciler
from core.model import Key
from core.state import State


class Noting:
    """Stands in for the scheduler and the reconcilers."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def wake(self) -> None:
        self.told.append(("cycle",))

    def changed(self, *what: Any) -> None:
        self.told.append(what)


class World:
    """Caches and the statuses that are to be looked at after each change."""

    def __init__(self) -> None:
        self.caches = Caches(State())
        self.caches.start()
        self.queues, other = Noting(), Noting()
        wakes = Wakes(
            self.caches,
            cast(Scheduler, other),
            cast(WorkloadReconciler, other),
            cast(QueueStatuses, self.queues),
            (),
        )
        wakes.connect()
        self._version = 0

    def after(self, resource: Resource, raw: dict[str, Any]) -> set[tuple[str, str]]:
        self.queues.told.clear()
        self._version += 1
        metadata = {"uid": raw["metadata"]["name"], **raw["metadata"], "resourceVersion": str(self._version)}
        self.caches.stores[resource].put_from_write({**raw, "metadata": metadata})
        return {(which.kind, Key(*key).name) for which, key in self.queues.told}


def local_queue(stop_policy: str = "None") -> dict[str, Any]:
    spec = {"clusterQueue": "cq", "stopPolicy": stop_policy}
    return {"kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "ns"}, "spec": spec}


def workload(**status: Any) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "ns"}
    return {"kind": "Workload", "metadata": metadata, "spec": {"queueName": "lq", "podSets": []}, "status": status}


def test_a_workload_is_counted_in_its_local_queue_and_in_the_cluster_queue() -> None:
    world = World()
    assert world.after(resources.LOCAL_QUEUES, local_queue()) == {("LocalQueue", "lq"), ("ClusterQueue", "cq")}
    assert world.after(resources.WORKLOADS, workload()) == {("LocalQueue", "lq"), ("ClusterQueue", "cq")}


def test_a_cluster_queue_goes_on_showing_what_waits_in_a_local_queue_that_was_stopped() -> None:
    world = World()
    world.after(resources.LOCAL_QUEUES, local_queue())
    world.after(resources.WORKLOADS, workload())
    assert world.after(resources.LOCAL_QUEUES, local_queue("Hold")) == {("LocalQueue", "lq")}
    assert world.after(resources.WORKLOADS, workload(conditions=[])) == {("LocalQueue", "lq")}
    held = workload(admission={"clusterQueue": "cq", "podSetAssignments": []})
    assert ("ClusterQueue", "cq") in world.after(resources.WORKLOADS, held)
    assert ("ClusterQueue", "cq") in world.after(resources.LOCAL_QUEUES, local_queue())
