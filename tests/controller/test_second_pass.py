"""What is written when a workload is placed in a topology, and when its node fails."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from controller.kube.errors import Invalid, Unreachable
from controller.scheduling.scheduler import Scheduler
from core.model import Key, Node, ResourceFlavor, Topology
from core.model.policy import SchedulingPolicy, TopologyPolicy
from tests.controller.test_scheduler import Server, Told, scheduler, until_rest

W = Key("ns", "w")
HOST = "kubernetes.io/hostname"


class Clock:
    """A clock that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def node(name: str) -> Node:
    return Node(name, {HOST: name}, (), {"cpu": 2000, "pods": 10})


async def running() -> tuple[Scheduler, Server, Told, Clock]:
    """The workload ``w``, one pod with 2 cpu, runs on node n1, the only one."""
    clock = Clock()
    found, server, told = scheduler(clock, SchedulingPolicy(topology=TopologyPolicy()))
    found.state.set_topology("hosts", Topology("hosts", (HOST,)))
    found.state.set_flavor("default", ResourceFlavor("default", topology_name="hosts"))
    found.state.set_node("n1", node("n1"))
    await until_rest(found, lambda: "Admitted" in told.reasons)
    return found, server, told, clock


def domains(server: Server) -> list[str]:
    """The nodes of the first pod set, as they are stored."""
    (given,) = server.objects["w"]["status"]["admission"]["podSetAssignments"]
    (part,) = given["topologyAssignment"]["slices"]
    return [level["universal"] for level in part["valuesPerLevel"]]


async def failed(found: Scheduler, server: Server, clock: Clock, *, another: bool) -> None:
    """Node n1 fails, which the status of the workload says; a second later it is decided again."""
    found.state.set_node("n1", None)
    if another:
        found.state.set_node("n2", node("n2"))
    server.touch("w")
    server.objects["w"]["status"]["unhealthyNodes"] = [{"name": "n1"}]
    found.caches.workloads.observe("MODIFIED", copy.deepcopy(server.objects["w"]))
    clock.now += 1.0


async def test_an_admission_has_the_domains_of_its_pods() -> None:
    _, server, told, _ = await running()
    assert (domains(server), server.patches, told.reasons) == (["n1"], 1, ["QuotaReserved", "Admitted"])


@pytest.mark.parametrize(
    "fault",
    [None, Invalid(422, "Invalid", "refused"), lambda: Unreachable(0, "Reset", "cut")],
    ids=["written", "refused", "answer lost"],
)
async def test_a_failed_node_is_replaced_in_one_write(fault: Invalid | Callable[[], Unreachable] | None) -> None:
    found, server, _, clock = await running()
    if fault is not None:
        server.faults.append(fault)
    await failed(found, server, clock, another=True)
    if isinstance(fault, Invalid):
        await until_rest(found, lambda: server.patches == 2)
        assert domains(server) == ["n1"] and server.objects["w"]["status"]["unhealthyNodes"]
        clock.now += 10.0
    await until_rest(found, lambda: domains(server) == ["n2"] and not found.state.assumed(W))
    assert server.patches == (3 if isinstance(fault, Invalid) else 2)
    assert "unhealthyNodes" not in server.objects["w"]["status"]
    assert server.holds("w")


async def test_a_workload_for_whose_node_there_is_no_other_is_evicted() -> None:
    found, server, told, clock = await running()
    await failed(found, server, clock, another=False)
    await until_rest(found, lambda: "EvictedDueToNodeFailures" in told.reasons)
    (evicted,) = [each for each in server.objects["w"]["status"]["conditions"] if each["type"] == "Evicted"]
    assert (evicted["status"], evicted["reason"], evicted["message"]) == (
        "True",
        "NodeFailures",
        "Workload was evicted as there was no replacement for unhealthy node(s): n1",
    )
    assert "unhealthyNodes" not in server.objects["w"]["status"]
