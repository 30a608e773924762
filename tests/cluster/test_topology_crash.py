"""Killed at each write of topologies, the next process goes on: no domain gets more pods than it is assigned, and no
pod runs elsewhere. An observer reads every change.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.objects import Raw
from controller.kube import config
from devcluster.controlplane import ControlPlane
from tests.cluster.test_crash import release_lease
from tests.cluster.test_topology import (
    BLOCK,
    HOSTNAME,
    INDEX,
    POOL,
    RACK,
    REQUIRED,
    TAINT,
    all_placed,
    assigned,
    hostnames,
    node,
    placed,
    ranked,
)
from tests.cluster.world import World, holds, job, ours
from tests.effort import SEED, cases
from tests.faults import Request, proxied
from tests.forked import Forked
from tests.observing import Observer, observing
from tests.serving import Served, serving
from tests.write_points import TOPOLOGY_POINTS, Killer, arm

pytestmark = pytest.mark.cluster

SPACE = "topology-crash"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
MANY = 16
"""More pods than are patched at the same time, so that some wait when the first patch kills."""


class Kill(NamedTuple):
    """What is killed at, and whether the write reaches the API server."""

    point: str
    reaches: bool


AT_START = {"fence a pod": "give a pod its domain", "evict because of failed nodes": "report a failed node"}
"""What a process writes when it starts, after the one before was killed at this write: pods are fenced when others
still waited for their domains, and a workload is evicted that has lost a second node meanwhile.
"""


def kills(chance: random.Random) -> list[Kill]:
    """The kills of one run."""
    both = (False, True)
    found = []
    for point in TOPOLOGY_POINTS:
        chosen = both if cases(1, 2) == 2 else (chance.choice(both),)
        if point in AT_START:
            found += [kill for each in chosen for kill in (Kill(AT_START[point], not each), Kill(point, each))]
        elif point != "give a pod its domain":
            found += [Kill(point, each) for each in chosen]
    return found


def unranked(name: str, pods: int, cpu: int) -> Raw:
    """A Job whose pods have no rank, all in one rack; those that fail are created again."""
    found = job(name, "team", cpu=cpu, pods=pods, seconds=3000)
    found["spec"]["backoffLimit"] = 100
    found["spec"]["template"]["metadata"].setdefault("annotations", {})[REQUIRED] = RACK
    return found


def flavor(name: str) -> list[Raw]:
    """A topology and its flavor, for the nodes of a namespace."""
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME)]
    tolerated = [{"key": TAINT, "operator": "Exists"}]
    spec = {"nodeLabels": {POOL: name}, "topologyName": name, "tolerations": tolerated}
    return [ours("Topology", name, {"levels": levels}), ours("ResourceFlavor", name, spec)]


class Play:
    """What is done with a Job so that the armed write is made."""

    def __init__(self, world: World, killer: Killer, name: str) -> None:
        self.world, self.killer, self.name = world, killer, name
        self.lost: list[str] = []
        """The nodes on which no pod may run any more."""

    def nodes(self) -> Counter[str]:
        """How many pods of the Job run on each node."""
        return Counter(
            pod["spec"]["nodeName"]
            for pod in self.world.get("pods").get("items", [])
            if pod["metadata"]["labels"].get("job-name") == self.name
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        )

    def right(self, pods: int) -> bool:
        """Whether all pods run where they were assigned, and none on a lost node."""
        given = assigned(self.world, self.name)
        wanted = Counter(dict(hostnames(given))) if given else Counter[str]()
        return wanted.total() == pods and self.nodes() == wanted and wanted.keys().isdisjoint(self.lost)

    def settled(self, pods: int) -> None:
        self.world.until(f"the pods of {self.name} run where they were assigned", lambda: self.right(pods))

    def loses(self, pods: int) -> str:
        """Runs the Job, and returns a node of it."""
        self.world.create(unranked(self.name, pods, 4))
        self.settled(pods)
        return min(self.nodes())

    def kill(self, kill: Kill) -> int:
        """Brings the write about; returns the number of pods of the Job."""
        if kill.point == "give a pod its domain":
            arm([self.killer], *kill[:1], reaches=kill.reaches)
            self.world.create(unranked(self.name, MANY, 1))
            return MANY
        lost = self.loses(4)
        if kill.point == "place in a second pass":
            self.lost = [lost]
            self.killer.points = {**TOPOLOGY_POINTS, kill.point: self._leaves(lost)}
        arm([self.killer], kill.point, reaches=kill.reaches)
        if kill.point == "end a pod that waits for its node":
            taints = [{"key": TAINT, "effect": "NoSchedule"}, {"key": "example.com/broken", "effect": "NoSchedule"}]
            self.world.patch("nodes", lost, {"spec": {"taints": taints}})
            self.world.delete("pods", self._pod_on(lost))
        else:
            self.lost = [lost]
            self.world.delete("nodes", lost)
        return 4

    def loses_another(self) -> None:
        """One more node of the Job is gone, while no process runs."""
        another = min(set(dict(hostnames(assigned(self.world, self.name)))) - set(self.lost))
        self.lost.append(another)
        self.world.delete("nodes", another)

    def mended(self, kill: Kill, nodes: dict[str, Raw]) -> None:
        """What is done after the kill, so that the Job can settle."""
        if kill.point == "end a pod that waits for its node":
            self.lost = [
                each["metadata"]["name"]
                for each in self.world.get("nodes")["items"]
                if any(taint["key"] == "example.com/broken" for taint in each["spec"].get("taints") or ())
            ]
            for pod in self._pods_on(*self.lost):
                self.world.delete("pods", pod)

    def restored(self, nodes: dict[str, Raw]) -> None:
        """The nodes are as before."""
        there = {each["metadata"]["name"] for each in self.world.get("nodes")["items"]}
        for lost in self.lost:
            if lost not in there:
                self.world.create(nodes[lost])
            else:
                self.world.patch("nodes", lost, {"spec": nodes[lost]["spec"]})

    def _pod_on(self, node_name: str) -> str:
        return self._pods_on(node_name)[0]

    def _pods_on(self, *node_names: str) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.world.get("pods").get("items", [])
            if pod["spec"].get("nodeName") in node_names and pod["metadata"]["labels"].get("job-name") == self.name
        ]

    def _leaves(self, node_name: str) -> Callable[[Request, Any], bool]:
        """The write of an assignment without a node."""

        def matches(request: Request, body: Any) -> bool:
            if not TOPOLOGY_POINTS["place in a second pass"](request, body):
                return False
            (given,) = body["status"]["admission"]["podSetAssignments"]
            return node_name not in dict(hostnames(given["topologyAssignment"]))

        return matches


async def test_killed_at_each_write_of_topologies_no_pod_is_outside_and_no_domain_too_full(
    unserved: ControlPlane, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    at = kills(chance)
    plane, world = unserved, World(unserved, SPACE)
    nodes = {
        name: node(name, SPACE, rack)
        for rack in ("a", "b")
        for name in (f"{SPACE}-{rack}-{number}" for number in (1, 2, 3))
    }
    plane.kubectl("create", "namespace", SPACE, check=True)
    async with proxied(config.load(plane.kubeconfig)) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig)
        processes: list[Served] = []
        killer = Killer(lambda: processes[-1].process.pid, TOPOLOGY_POINTS)
        proxy.draw = killer

        def set_up() -> None:
            world.create(*nodes.values(), *flavor(SPACE))
            world.queue("team", 48)

        def alive() -> bool:
            return processes[-1].process.poll() is None

        def kill(number: int, play: Play | None, pods: int) -> tuple[Play, int]:
            """Kills the process at the write of this number, after the Job before is what it should be."""
            at_start = at[number].point in AT_START
            if play is not None and not at_start:
                finish(play, pods, number - 1)
            if not at_start or play is None:
                killer.points = TOPOLOGY_POINTS
                play = Play(world, killer, f"job-{number}")
                pods = play.kill(at[number])
            world.until(f"killed: {at[number]}", lambda: not alive())
            return play, pods

        def finish(play: Play, pods: int, number: int) -> None:
            play.mended(at[number], nodes)
            play.settled(pods)
            play.restored(nodes)
            world.remove(unranked(play.name, 1, 1))
            world.until("its pods are gone", lambda: not world.get("pods").get("items"))

        play, pods = None, 0
        for number in range(len(at) + 1):
            at_start = number < len(at) and at[number].point in AT_START
            if at_start:
                assert play is not None
                if at[number].point == "evict because of failed nodes":
                    await asyncio.to_thread(play.loses_another)
                arm([killer], at[number].point, reaches=at[number].reaches)
            options = ["--kubeconfig", str(kubeconfig), "--cert-dir", str(tmp_path), "--bind", "127.0.0.1:0"]
            process = Served([*options, "--install"], start=Forked)
            processes.append(process)
            try:
                if at_start:
                    await asyncio.to_thread(world.until, "killed", lambda: not alive())
                else:
                    await asyncio.to_thread(process.ready)
                    if not number:
                        await asyncio.to_thread(set_up)
                        observer = await asyncio.to_thread(Observer, plane, SPACE)
                if number < len(at):
                    play, pods = await asyncio.to_thread(kill, number, play, pods)
                    release_lease(plane)
                elif play is not None:
                    await asyncio.to_thread(finish, play, pods, number - 1)
                    observed = await asyncio.to_thread(observer.end)
                    observer.close()
            finally:
                if process.process.poll() is None:
                    process.process.kill()
                process.wait()
        for each in nodes.values():
            await asyncio.to_thread(world.remove, each)
    assert observed.broken == []
    assert {point for point, _ in killer.killed} == set(TOPOLOGY_POINTS)


def test_with_the_feature_gate_off_a_pod_that_comes_again_gets_the_domain_of_its_rank(
    unserved: ControlPlane, tmp_path: Path
) -> None:
    """Its Job was placed before, and has the scheduling gate in its template."""
    plane, name = unserved, f"{SPACE}-off"
    plane.kubectl("create", "namespace", name, check=True)
    world = World(plane, name)
    nodes = [node(f"{name}-a-{number}", name, "a") for number in (1, 2)]
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world.create(*nodes, *flavor(name))
        world.queue("team", 16)
        world.create(ranked("job", 4, REQUIRED))
        before = all_placed(world, "job", 4)
    release_lease(plane)
    content = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    off = tmp_path / "off.json"
    off.write_text(json.dumps({**content, "featureGates": {"TopologyAwareScheduling": False}}))
    with serving(plane.kubeconfig, tmp_path, "--config", str(off)) as process:
        process.ready()
        lost = next(pod for pod in world.get("pods")["items"] if pod["metadata"]["labels"][INDEX] == "3")
        world.delete("pods", lost["metadata"]["name"])

        def again() -> bool:
            uids = {pod["metadata"]["uid"] for pod in world.get("pods")["items"]}
            return lost["metadata"]["uid"] not in uids and len(placed(world, "job")) == 4

        world.until("there are four pods again", again)
        assert placed(world, "job") == before
        world.remove(ranked("job", 4, REQUIRED))
    release_lease(plane)
    for each in nodes:
        world.remove(each)


def test_an_elastic_job_grows_and_shrinks_on_the_nodes_that_its_slices_are_given(
    unserved: ControlPlane, tmp_path: Path
) -> None:
    """Pods that run stay; an observer reads every change."""
    plane, name = unserved, f"{SPACE}-elastic"
    plane.kubectl("create", "namespace", name, check=True)
    world = World(plane, name)
    nodes = [node(f"{name}-a-{number}", name, "a") for number in (1, 2)]
    content = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    gates = {"ElasticJobsViaWorkloadSlices": True, "ElasticJobsViaWorkloadSlicesWithTAS": True}
    config_file = tmp_path / "elastic.json"
    config_file.write_text(json.dumps({**content, "featureGates": gates}))
    made = job("job", "team", cpu=4, pods=1, seconds=3000)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    made["spec"]["completions"] = 100
    made["spec"]["template"]["metadata"].setdefault("annotations", {})[UNCONSTRAINED] = "true"

    def given() -> Counter[str]:
        """What the one slice that holds quota was given; nothing while there are two."""
        items = (each for each in world.get("workloads").get("items", []) if holds(each, "Admitted"))
        held = [each for each in items if not holds(each, "Finished")]
        if len(held) != 1:
            return Counter()
        (assignment,) = held[0]["status"]["admission"]["podSetAssignments"]
        return Counter(dict(hostnames(assignment["topologyAssignment"])))

    def running() -> dict[str, str]:
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in world.get("pods").get("items", [])
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        }

    def has(pods: int) -> bool:
        return len(running()) == pods and Counter(running().values()) <= given()

    with serving(plane.kubeconfig, tmp_path, "--config", str(config_file)) as process:
        process.ready()
        world.create(*nodes, *flavor(name))
        world.queue("team", 16)
        with observing(plane, name):
            world.create(made)
            world.until("one pod runs where it was assigned", lambda: has(1))
            first = running()
            for pods in (3, 4):
                world.patch("jobs", "job", {"spec": {"parallelism": pods}})
                world.until(f"{pods} pods run where they were assigned", partial(has, pods))
                assert first.items() <= running().items(), "the pods that ran go on where they were"
            world.patch("jobs", "job", {"spec": {"parallelism": 2}})
            world.until("two pods are left", lambda: has(2))
        world.remove(made)
    release_lease(plane)
    for each in nodes:
        world.remove(each)
