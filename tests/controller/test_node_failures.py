"""Failed nodes of admitted workloads are written once, whatever told of them, and pods that wait in vain are ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from api import resources
from api.objects import Key, Raw, Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import Unreachable
from controller.reconcilers.living import living_pods
from controller.reconcilers.node_failures import LATE_TRIES, NodeFailures
from controller.run.watched import rows
from controller.settings import Reading
from core.jobs.kinds import BATCH_JOB
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.topology.health import FailureRules
from core.wire.merge import merged
from core.wire.timestamps import stamp
from tests.controller.test_guard import pod
from tests.controller.test_provisioning import Api as InMemory
from tests.controller.test_provisioning import Told
from tests.controller.test_topology import node

KEY, HOST, NOW = Key("ns", "w"), "kubernetes.io/hostname", 2_000_000_000.0
MARKS = {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/workload": "w"}


def workload(*nodes: str) -> Raw:
    """Admitted, with one pod on each of the nodes."""
    one = {"domainCount": 1, "podCounts": {"universal": 1}}
    domains = [{"valuesPerLevel": [{"universal": name}], **one} for name in nodes]
    assigned = {
        "name": "main",
        "count": len(nodes),
        "flavors": {"cpu": "tas"},
        "resourceUsage": {"cpu": "1"},
        "topologyAssignment": {"levels": [HOST], "slices": domains},
    }
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": stamp(NOW - 60)}
        for kind in ("QuotaReserved", "Admitted")
    ]
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    return {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "creationTimestamp": stamp(NOW - 60)},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": len(nodes), "template": template}]},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
            "conditions": conditions,
        },
    }


class Api(InMemory):
    """With lists of the pods that are on no node."""

    async def pages(self, resource: Resource, namespace: str, *, field_selector: str) -> AsyncGenerator[Raw, None]:
        assert field_selector == "spec.nodeName=,status.phase=Pending"
        found = [raw for (of, key), raw in self.objects.items() if of == resource and key.namespace == namespace]
        yield {"items": [raw for raw in found if raw["status"]["phase"] == "Pending"]}


class Process:
    """A process that leads, with a workload on the nodes a and b where a pod of it runs on each."""

    def __init__(self, api: Api | None = None) -> None:
        self.api, self.told, self.now, self.version = api or Api(), Told(), NOW, 1000
        policy = SchedulingPolicy(topology=TopologyPolicy())
        self.caches = Caches(State(policy), rows([BATCH_JOB]))
        self.pods = living_pods(Reading())
        if api is None:
            self.api.enter(resources.WORKLOADS, workload("a", "b"))
        for name in "abc":
            self.node(name)
            if name != "c":
                self.pod(name)
        self.look()
        self.caches.start()
        client: Any = self.api
        writer = Writer(client, self.caches.stores)
        self.failures = NodeFailures(
            self.caches, writer, client, cast(Any, self.told), self.pods, FailureRules(), clock=lambda: self.now
        )
        for _ in self.failures.everything():
            pass

    def look(self) -> None:
        for (resource, _), raw in list(self.api.objects.items()):
            if resource in self.caches.stores:
                self.caches.stores[resource].observe("MODIFIED", raw)

    def change(self, body: Raw) -> None:
        """Somebody else changes the workload."""
        self.api.enter(resources.WORKLOADS, merged(self.api.objects[resources.WORKLOADS, KEY], body))
        self.look()

    def node(self, name: str, **options: Any) -> None:
        self.version += 1
        found = node(name, self.version, **options)
        event = "DELETED" if options.get("ready") == "gone" else "MODIFIED"
        self.caches.nodes.observe(event, found)

    def pod(self, name: str, event: str = "MODIFIED", **metadata: Any) -> None:
        """The pod on a node changes."""
        self.version += 1
        found = pod(f"on-{name}", **{"annotations": MARKS, **metadata}, resourceVersion=str(self.version))
        found["spec"]["nodeName"] = name
        assert self.pods.observe(event, found)

    def waits(self, name: str, on: str, *, gated: bool = False, marks: Raw | None = None) -> None:
        """A pod waits for a node."""
        found = pod(name, annotations=MARKS if marks is None else marks)
        found["spec"] = {"nodeSelector": {HOST: on}, "containers": found["spec"]["containers"]}
        if gated:
            found["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
        self.api.enter(resources.PODS, {**found, "status": {"phase": "Pending"}})

    def queued(self) -> bool:
        return KEY in self.failures.queue

    async def step(self) -> float | None:
        again = await self.failures.reconcile(KEY)
        self.look()
        return again

    @property
    def unhealthy(self) -> list[str]:
        found = self.caches.get(KEY)
        assert found is not None
        return list(found.unhealthy_nodes)

    @property
    def ended(self) -> list[str]:
        return sorted(
            key.name
            for (of, key), raw in self.api.objects.items()
            if of == resources.PODS and raw["status"]["phase"] == "Failed"
        )


async def test_a_node_that_is_gone_is_written_once() -> None:
    process = Process()
    await process.step()
    assert process.api.writes == []
    process.node("b", ready="gone")
    assert process.queued()
    await process.step()
    await process.step()
    assert process.unhealthy == ["b"]
    assert process.api.writes == ["patch workloads"]


async def test_a_node_that_is_not_ready_has_failed_when_the_last_pod_there_ends() -> None:
    process = Process()
    process.node("b", ready="Unknown")
    await process.step()
    assert process.unhealthy == []
    process.failures.queue.drop()
    process.pod("b", deletionTimestamp=stamp(NOW))
    assert process.queued()
    await process.step()
    assert process.unhealthy == ["b"]
    process.node("b")
    await process.step()
    assert process.unhealthy == [], "it has recovered"


async def test_a_pod_that_asks_for_no_topology_keeps_its_node_too() -> None:
    process = Process()
    process.pod("b", annotations={"kueue.x-k8s.io/workload": "w"})
    process.node("b", ready="Unknown")
    await process.step()
    assert process.unhealthy == []


async def test_a_second_node_evicts() -> None:
    process = Process()
    process.node("b", ready="gone")
    await process.step()
    process.node("a", ready="gone")
    await process.step()
    found = process.caches.get(KEY)
    assert found is not None
    evicted = found.condition("Evicted")
    assert evicted is not None and evicted.reason == "NodeFailures"
    assert process.unhealthy == []
    assert process.told.events == [("EvictedDueToNodeFailures", evicted.message)]


async def test_heartbeats_and_other_nodes_queue_nothing() -> None:
    process = Process()
    process.failures.queue.drop()
    process.node("b", beat="later")
    process.node("c", ready="False")
    assert not process.queued()


@pytest.mark.parametrize("reaches", [False, True])
async def test_another_process_continues_after_a_write_that_was_interrupted(reaches: bool) -> None:
    process = Process()
    process.node("b", ready="gone")
    process.api.fails = Unreachable(0, "Reset", "the connection was lost"), reaches
    with pytest.raises(Unreachable):
        await process.step()
    after = Process(process.api)
    after.node("b", ready="gone")
    await after.step()
    assert after.unhealthy == ["b"]
    assert len(process.api.writes) == 1


async def test_pods_that_wait_for_a_failed_node_are_ended_and_no_others() -> None:
    process = Process()
    process.pod("b", "DELETED")
    process.waits("stuck", "b")
    process.waits("gated", "b", gated=True)
    process.waits("elsewhere", "a")
    process.waits("of-another", "b", marks={**MARKS, "kueue.x-k8s.io/workload": "other"})
    process.node("b", ready="Unknown")
    await process.step()
    assert process.unhealthy == ["b"]
    again = await process.step()
    assert process.ended == ["stuck"]
    assert again is not None, "more may come"
    status = process.api.objects[resources.PODS, Key("ns", "stuck")]["status"]
    assert status["conditions"][0]["reason"] == "UnschedulableOnAssignedNode"
    assert ("PodTerminatedByKueue", status["conditions"][0]["message"]) in process.told.events


async def test_pods_that_wait_for_a_node_which_the_workload_has_left_are_ended_for_a_while() -> None:
    process = Process()
    process.change(workload("a", "c"))
    process.waits("late", "b")
    await process.step()
    assert process.ended == ["late"]
    assert [await process.step() for _ in range(LATE_TRIES)] == [2.0, 4.0, 8.0, 16.0, 32.0, None]
