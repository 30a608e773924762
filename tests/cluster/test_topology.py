"""Pods are placed by topology on the real control plane, with the real kube-scheduler: 2 racks of 3 nodes of 8 cpu."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.objects import Raw
from cli.main import application
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, holds, job, ours
from tests.observing import observing
from tests.serving import Served

pytestmark = pytest.mark.cluster

BLOCK, RACK, HOSTNAME = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
POOL, TAINT = "example.com/pool", "example.com/taint"
REQUIRED, PREFERRED = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"
INDEX = "batch.kubernetes.io/job-completion-index"
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "topology"


def node(name: str, pool: str, rack: str) -> Raw:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {POOL: pool, BLOCK: "block-1", RACK: rack, HOSTNAME: name}},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def with_topology(world: World) -> None:
    """The namespace's flavor, with the topology of its nodes."""
    name, levels = world.namespace, [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME)]
    spec = {"nodeLabels": {POOL: name}, "topologyName": name, "tolerations": [{"key": TAINT, "operator": "Exists"}]}
    world.create(ours("Topology", name, {"levels": levels}), ours("ResourceFlavor", name, spec))


@pytest.fixture
def racks(cluster: ControlPlane, served: Served, namespace: str) -> Iterator[World]:
    """A namespace with nodes of its own in two racks, and a flavor with their topology. An observer reads every change
    of the test.
    """
    made = World(cluster, namespace)
    nodes = [node(f"{namespace}-{rack}-{number}", namespace, rack) for rack in ("a", "b") for number in (1, 2, 3)]
    made.create(*nodes)
    with_topology(made)
    with observing(cluster, namespace):
        yield made
    for each in nodes:
        made.remove(each)


def ranked(name: str, pods: int, annotation: str, *, cpu: int = 4) -> Raw:
    """An indexed Job whose pods run until they are stopped."""
    found = job(name, "team", cpu=cpu, pods=pods, seconds=3000)
    found["spec"]["completionMode"] = "Indexed"
    found["spec"]["template"]["metadata"].setdefault("annotations", {})[annotation] = RACK
    return found


def placed(world: World, name: str) -> dict[int, str]:
    """The node of each pod of a Job that runs, by its index."""
    return {
        int(pod["metadata"]["labels"][INDEX]): pod["spec"]["nodeName"]
        for pod in world.get("pods").get("items", [])
        if pod["metadata"].get("labels", {}).get("job-name") == name
        and pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
    }


def all_placed(world: World, name: str, pods: int) -> dict[int, str]:
    """The node of each pod of a Job, when all of its pods run."""

    def found() -> dict[int, str]:
        nodes = placed(world, name)
        return nodes if len(nodes) == pods else {}

    return world.until(f"all pods of {name} are on nodes", found)


def rack_of(node_name: str) -> str:
    return node_name.rsplit("-", 2)[1]


def assigned(world: World, name: str) -> Raw:
    """The topologyAssignment of a Job's Workload; {} while it has none."""
    status = world.workload(name).get("status", {})
    for each in status.get("admission", {}).get("podSetAssignments", []):
        return dict(each.get("topologyAssignment") or {})
    return {}


def hostnames(assignment: Raw) -> Iterator[tuple[str, int]]:
    """The domains of an assignment with their numbers of pods, as they are stored."""
    assert assignment["levels"] == [HOSTNAME]
    for part in assignment["slices"]:
        (values,), counts = part["valuesPerLevel"], part["podCounts"]
        for place in range(part["domainCount"]):
            individual = values.get("individual")
            name = individual and f"{individual.get('prefix', '')}{individual['roots'][place]}"
            node = f"{name}{individual.get('suffix', '')}" if individual else values["universal"]
            yield node, counts["individual"][place] if "individual" in counts else counts["universal"]


def test_the_pods_of_a_job_run_in_one_rack_in_the_order_of_their_ranks(racks: World) -> None:
    racks.queue("team", 48)
    racks.create(ranked("first", 5, REQUIRED))
    nodes = all_placed(racks, "first", 5)
    assert len({rack_of(each) for each in nodes.values()}) == 1
    assert max(Counter(nodes.values()).values()) == 2
    assert [nodes[rank] for rank in sorted(nodes)] == sorted(nodes.values())  # ranks in the order of the domains
    assert assigned(racks, "first")["levels"] == [HOSTNAME]


def test_a_job_waits_until_a_rack_has_room_and_says_what_is_missing(racks: World) -> None:
    racks.queue("team", 48)
    for name in ("first", "second"):
        racks.create(ranked(name, 5, REQUIRED))
        all_placed(racks, name, 5)
    racks.create(ranked("third", 2, REQUIRED))
    message = racks.until("third waits", lambda: racks.condition("third", "QuotaReserved")[2])
    assert "allows to fit only 1 out of 2 pod(s)" in message
    racks.complete("first")
    third = all_placed(racks, "third", 2)
    assert {rack_of(each) for each in third.values()}.isdisjoint(
        rack_of(each) for each in placed(racks, "second").values()
    )


def test_a_pod_that_comes_again_goes_where_its_rank_was(racks: World) -> None:
    racks.queue("team", 48)
    racks.create(ranked("job", 6, PREFERRED))
    before = all_placed(racks, "job", 6)
    victim = next(
        pod["metadata"]["name"] for pod in racks.get("pods")["items"] if pod["metadata"]["labels"].get(INDEX) == "3"
    )
    racks.delete("pods", victim)

    def again() -> bool:
        names = {pod["metadata"]["name"] for pod in racks.get("pods")["items"]}
        return victim not in names and len(placed(racks, "job")) == 6

    racks.until("there are six pods again", again)
    assert placed(racks, "job") == before


def lose(world: World, node_name: str, how: str) -> None:
    """A node fails; Kubernetes deletes its pods with it, else they are deleted here, as by their eviction."""
    if how == "gone":
        world.delete("nodes", node_name)
        return
    if how == "tainted":
        broken = {"key": "example.com/broken", "effect": "NoSchedule"}
        world.patch("nodes", node_name, {"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}, broken]}})
    else:
        ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        world.patch("nodes", node_name, {"status": {"conditions": [ready]}}, subresource="status")
    for pod in world.get("pods")["items"]:
        if pod["spec"].get("nodeName") == node_name:
            world.delete("pods", pod["metadata"]["name"])


@pytest.mark.parametrize("how", ["gone", "not ready", "tainted"])
def test_a_node_that_fails_is_replaced_in_the_same_rack(racks: World, how: str) -> None:
    racks.queue("team", 48)
    racks.create(ranked("job", 2, REQUIRED))
    before = all_placed(racks, "job", 2)
    (lost,) = set(before.values())
    lose(racks, lost, how)

    def moved() -> bool:
        now = set(placed(racks, "job").values())
        return len(placed(racks, "job")) == 2 and lost not in now

    racks.until("both pods run elsewhere", moved)
    assert {rack_of(each) for each in placed(racks, "job").values()} == {rack_of(lost)}
    assert holds(racks.workload("job"), "Admitted")


def test_a_node_that_is_drained_is_left_in_the_same_rack_and_used_again_when_it_is_back(racks: World) -> None:
    racks.queue("team", 48)
    racks.create(ranked("job", 2, REQUIRED))
    before = all_placed(racks, "job", 2)
    (drained,) = set(before.values())
    racks.plane.kubectl("cordon", drained, check=True)
    for pod in racks.get("pods")["items"]:
        racks.delete("pods", pod["metadata"]["name"])

    def moved() -> bool:
        now = placed(racks, "job").values()
        return len(now) == 2 and drained not in now

    racks.until("both pods run elsewhere", moved)
    assert {rack_of(each) for each in placed(racks, "job").values()} == {rack_of(drained)}
    assert racks.condition("job", "Evicted")[0] != "True"
    racks.create(ranked("fills", 4, REQUIRED))
    other = all_placed(racks, "fills", 4)
    assert {rack_of(each) for each in other.values()} != {rack_of(drained)}, "the drained node has no room"
    racks.plane.kubectl("uncordon", drained, check=True)
    racks.create(ranked("comes-back", 4, REQUIRED))
    again = all_placed(racks, "comes-back", 4)
    assert drained in again.values()
    assert {rack_of(each) for each in again.values()} == {rack_of(drained)}


def test_a_job_without_another_node_is_evicted_and_runs_again_when_the_node_is_back(racks: World) -> None:
    racks.queue("team", 48)
    for name in ("first", "second"):
        racks.create(ranked(name, 6, REQUIRED))
        all_placed(racks, name, 6)
    (lost, *_) = sorted(set(placed(racks, "first").values()))
    kept = racks.plane.administrator.get(f"/api/v1/nodes/{lost}")
    assert kept is not None
    racks.delete("nodes", lost)
    racks.until("it is evicted", lambda: "NodeFailures" in racks.reason("first", "Evicted"))
    racks.until("it waits", lambda: racks.condition("first", "QuotaReserved")[0] == "False")
    racks.until("its pods are gone", lambda: not placed(racks, "first"))
    assert len(placed(racks, "second")) == 6
    racks.create(node(lost, racks.namespace, rack_of(lost)))
    again = all_placed(racks, "first", 6)
    assert {rack_of(each) for each in again.values()} == {rack_of(lost)}
    assert lost in again.values()


def test_pods_of_a_rack_and_pods_of_others_together_fit_on_its_nodes(racks: World) -> None:
    """A pod outside of topology takes room from those that come later."""
    racks.queue("team", 48)
    name = f"{racks.namespace}-a-1"
    other = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other"},
        "spec": {
            "nodeName": name,
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "5"}}}],
        },
    }
    racks.create(other)
    racks.create(ranked("job", 6, REQUIRED))
    nodes = all_placed(racks, "job", 6)
    assert {rack_of(each) for each in nodes.values()} == {"b"}
    racks.create(ranked("waits", 6, REQUIRED))
    message = racks.until("it waits", lambda: racks.condition("waits", "QuotaReserved")[2])
    assert "allows to fit only 4 out of 6 pod(s)" in message
    racks.delete("pods", "other")
    assert {rack_of(each) for each in all_placed(racks, "waits", 6).values()} == {"a"}


@pytest.fixture
def example(cluster: ControlPlane, served: Served) -> Iterator[World]:
    """The nodes and queues of examples/topology, with an observer."""
    files = [word for name in ("nodes", "queues") for word in ("-f", str(EXAMPLE / f"{name}.yaml"))]
    cluster.kubectl("apply", *files, check=True)
    with observing(cluster, "team-racks"):
        yield World(cluster, "team-racks")
    cluster.kubectl("delete", "jobs", "--all", "-n", "team-racks", check=True)
    cluster.kubectl("delete", "--wait=false", *files, check=True)


def test_the_example_does_what_the_page_says_and_a_simulation_continues_from_it(example: World) -> None:
    commands = re.findall(
        r"\$ kubectl (apply -f examples/\S+)\n((?:Warning: .*\n)*)", (ROOT / "docs" / "topology.md").read_text()
    )
    shown = {words.rpartition("/")[2]: printed for words, printed in commands}
    assert {*shown} == {"one-rack.yaml", "prefers-one-rack.yaml", "too-large.yaml"}

    def created(file: str) -> str:
        return example.plane.kubectl("apply", "-f", str(EXAMPLE / file), check=True).stderr

    def counts(name: str, pods: int) -> Counter[str]:
        return Counter(node.rpartition("-")[0] for node in all_placed(example, name, pods).values())

    assert created("one-rack.yaml") == shown["one-rack.yaml"] == ""
    (first,) = counts("one-rack", 5)
    assert created("too-large.yaml") == shown["too-large.yaml"]
    example.until("too-large waits", lambda: example.condition("too-large", "QuotaReserved")[2])
    assert created("prefers-one-rack.yaml") == shown["prefers-one-rack.yaml"] == ""
    (second,) = counts("prefers-one-rack", 6)
    assert {first, second} == {"rack-a", "rack-b"}

    words = ["simulate", "--from-cluster", "--run-for", "100s", "--down", f"topology.example.com/rack={second}"]
    words += ["-o", "json", "--kubeconfig", str(example.plane.kubeconfig)]
    done = CliRunner().invoke(application(["simulate"]), words)
    assert done.exit_code == 0, done.stderr
    before, after = (
        {
            each["job"]: [(run["started"], run["ended"], run.get("domains")) for run in each["attempts"]]
            for each in outcome["workloads"]
            if each["namespace"] == "team-racks"
        }
        for outcome in json.loads(done.stdout)["outcomes"]
    )
    of_first, of_second = (0, 100, {f"block-1/{first}": 5}), (0, 100, {f"block-1/{second}": 6})
    assert before == {"one-rack": [of_first], "prefers-one-rack": [of_second], "too-large": []}
    # Its domains are gone with the rack; it runs again when the other job has ended.
    stopped, again = after["prefers-one-rack"]
    assert stopped[:2] == (0, 0)
    assert again == (100, 200, {f"block-1/{first}": 6})
    assert (after["one-rack"], after["too-large"]) == ([of_first], [])
