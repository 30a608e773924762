"""What no present node can run: labels, devices, sizes; and where nothing is said about nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api import quantity
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.jobs import of_job
from core.feedback.nodes import POD_SETS, TERMS
from core.feedback.rules import LIMIT
from core.feedback.submission import PodSpec, Submission, submission
from core.model import Labels, Node
from core.wire import decode
from core.wire.pod_requests import RequestRules
from tests.core.devices.samples import inventory
from tests.core.feedback.world import job, world

ARCH = "kubernetes.io/arch"
GPU = "nvidia.com/gpu"
STANDARD = {"pool": "standard"}
GPUS = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{name: standard, resources: [
      {name: cpu, nominalQuota: 80}, {name: memory, nominalQuota: 320Gi}, {name: nvidia.com/gpu, nominalQuota: 8}]}]}]
"""
ANY_NODE = GPUS + "- {kind: ResourceFlavor, metadata: {name: standard}}\n"
TWO_FLAVORS = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu, nvidia.com/gpu], flavors: [
      {name: standard, resources: [{name: cpu, nominalQuota: 80}, {name: nvidia.com/gpu, nominalQuota: 8}]},
      {name: other, resources: [{name: cpu, nominalQuota: 80}, {name: nvidia.com/gpu, nominalQuota: 8}]}]}]
- {kind: ResourceFlavor, metadata: {name: other}, spec: {nodeLabels: {pool: other}}}
"""


def node(labels: Labels = STANDARD, **amounts: str) -> Node:
    found = {name.replace("gpu", GPU): amount for name, amount in amounts.items()}
    allocatable = {name: quantity.amount(name, each) for name, each in found.items()}
    return Node("n", {ARCH: "amd64", **labels}, allocatable=allocatable)


def check(controller: str) -> str:
    """The ClusterQueue with an active check of a controller."""
    checked = ANY_NODE.replace("{}\n", "{}\n    admissionChecksStrategy: {admissionChecks: [{name: c}]}\n", 1)
    spec = f"{{controllerName: {controller}}}, status: {{conditions: [{{type: Active, status: 'True'}}]}}"
    return f"{checked}\n- {{kind: AdmissionCheck, metadata: {{name: c}}, spec: {spec}}}"


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


ONE_GPU = job(requests={"cpu": "1", GPU: "1"}, limits={GPU: "1"})
LABELS, DEVICES, SIZE = "node-labels-not-found", "resource-without-nodes", "pod-larger-than-nodes"
CASES = [
    pytest.param(
        job(nodeSelector={ARCH: "s390x"}),
        ANY_NODE,
        [node(), node({ARCH: "arm64"})],
        LABELS,
        "no node has kubernetes.io/arch=s390x now: the pods stay pending until one does; nodes have amd64, arm64",
        id="an architecture that no node has",
    ),
    pytest.param(
        job(nodeSelector={ARCH: "arm64"}),
        GPUS,
        [node(), node({ARCH: "arm64", "pool": "other"})],
        LABELS,
        'no node of flavor "standard" has kubernetes.io/arch=arm64 now: the pods stay pending until one does; nodes'
        " have amd64",
        id="an architecture that only nodes of another flavor have",
    ),
    pytest.param(
        job(nodeSelector={"disktype": "ssd"}),
        GPUS,
        [node()],
        LABELS,
        'no node of flavor "standard" has disktype=ssd now: the pods stay pending until one does; no node has this'
        " label",
        id="a label that no node has",
    ),
    pytest.param(
        job(affinity=affinity({"key": ARCH, "operator": "In", "values": ["s390x", "ppc64le"]})),
        ANY_NODE,
        [node()],
        LABELS,
        "no node has kubernetes.io/arch=s390x or ppc64le now: the pods stay pending until one does; nodes have amd64",
        id="the same by affinity",
    ),
    pytest.param(
        job(affinity=affinity({"key": ARCH, "operator": "NotIn", "values": ["amd64"]})),
        ANY_NODE,
        [node()],
        LABELS,
        "no node has kubernetes.io/arch as the affinity requires (NotIn) now: the pods stay pending; nodes have amd64",
        id="an affinity that excludes all nodes",
    ),
    pytest.param(
        job(nodeSelector={ARCH: "arm64", "pool": "standard"}),
        ANY_NODE,
        [node(), node({ARCH: "arm64", "pool": "other"})],
        LABELS,
        "no node has all labels of nodeSelector and affinity together now: the pods stay pending; change one",
        id="labels that no node has together",
    ),
    pytest.param(
        ONE_GPU,
        GPUS,
        [node(cpu="8", memory="32Gi"), node({"pool": "other"}, cpu="8", gpu="4")],
        DEVICES,
        'no node of flavor "standard" has nvidia.com/gpu now: the pods stay pending until such a node is added',
        id="a device that the nodes of the flavor do not have",
    ),
    pytest.param(
        job(requests={"cpu": "8"}),
        GPUS,
        [node(cpu="4"), node({"pool": "other"}, cpu="96")],
        SIZE,
        'each pod asks for 8 cpu, the largest node of flavor "standard" has 4 now: the pods stay pending; ask for 4 or'
        " less",
        id="a pod that is larger than each node of the flavor",
    ),
    pytest.param(
        job(requests={"cpu": "8", "memory": "64Gi"}),
        ANY_NODE,
        [node(cpu="16", memory="32Gi"), node(cpu="4", memory="128Gi")],
        SIZE,
        "no node has 8 cpu and 64Gi memory together now: the pods stay pending; ask for less of one",
        id="cpu and memory that no node has together",
    ),
    pytest.param(
        job(requests={"cpu": "8"}), GPUS, [node(cpu="4"), node(cpu="8")], "", "", id="one node is large enough"
    ),
    pytest.param(ONE_GPU, GPUS, [node(cpu="4"), Node("n", STANDARD)], "", "", id="a node has not reported what it has"),
    pytest.param(
        ONE_GPU,
        TWO_FLAVORS,
        [node(cpu="4"), node({"pool": "other"}, cpu="4", gpu="1")],
        "",
        "",
        id="nodes of another flavor of the ClusterQueue have it",
    ),
    pytest.param(ONE_GPU, GPUS, [], "", "", id="a cluster without nodes"),
    pytest.param(ONE_GPU, GPUS, None, "", "", id="nodes are not watched"),
    pytest.param(
        ONE_GPU, check("kueue.x-k8s.io/provisioning-request"), [node(cpu="4")], "", "", id="nodes are made for the job"
    ),
    pytest.param(
        job(nodeSelector={ARCH: "s390x"}),
        check("kueue.x-k8s.io/multikueue"),
        [node(cpu="4")],
        "",
        "",
        id="the pods run in another cluster",
    ),
    pytest.param(ONE_GPU, check("example.com/budget"), [node(cpu="4", gpu="1")], "", "", id="another check"),
    pytest.param(
        job(requests={"cpu": "1", "deviceclass.resource.kubernetes.io/gpu": "1"}),
        ANY_NODE.replace("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu"),
        [node(cpu="4")],
        "",
        "",
        id="a DeviceClass as a resource, which is in no node's status",
    ),
]


@pytest.mark.parametrize(("asked", "more", "nodes", "rule", "message"), CASES)
def test_the_messages_of_each_case(
    asked: Submission, more: str, nodes: list[Node] | None, rule: str, message: str
) -> None:
    found = of_job(asked, world(more, nodes=nodes))
    assert [(each.rule, each.message) for each in found] == [(rule, message)] * bool(message)
    assert all(len(each.message) <= LIMIT for each in found)


OF_QUEUES = [
    pytest.param(
        [node(cpu="4"), node(cpu="8")],
        DEVICES,
        'none of 2 nodes of flavor "standard" has nvidia.com/gpu now: its pods stay pending; check the device plugin',
        id="none has it",
    ),
    pytest.param(
        [node(cpu="4")],
        DEVICES,
        'the only node of flavor "standard" has no nvidia.com/gpu now: its pods stay pending; check the device plugin',
        id="the only one does not",
    ),
    pytest.param([node(cpu="4"), node(gpu="1")], "", "", id="one has it"),
    pytest.param([node(cpu="4"), Node("n", STANDARD)], "", "", id="one has not reported"),
    pytest.param([], "", "", id="no nodes"),
]


@pytest.mark.parametrize(("nodes", "rule", "message"), OF_QUEUES)
def test_an_administrator_is_told_of_quota_for_a_device_that_no_node_has(
    nodes: list[Node], rule: str, message: str
) -> None:
    lookup = world(GPUS, nodes=nodes)
    found = of_cluster_queue(Change(None, lookup.cluster_queue("team-a")), lookup)
    assert [(each.rule, each.message) for each in found] == [(rule, message)] * bool(message)


def test_devices_that_drivers_offer_are_no_resources_of_nodes() -> None:
    counted = inventory([{"name": "nvidia.com/gpu", "deviceClassNames": ["gpu"]}])
    lookup = replace(world(GPUS, nodes=[node(cpu="4")]), rules=lambda namespace: RequestRules(devices=counted))
    assert not of_cluster_queue(Change(None, lookup.cluster_queue("team-a")), lookup)


def test_a_node_is_kept_by_its_labels_and_what_pods_can_get_of_it() -> None:
    status = {"allocatable": {"cpu": "3920m", "memory": "1Gi", "x": "many"}, "capacity": {"cpu": "4"}}
    raw = {"metadata": {"name": "n", "labels": {"a": "b"}}, "status": {**status, "conditions": [{"type": "Ready"}]}}
    assert decode.node(raw) == Node(
        "n", {"a": "b"}, allocatable={"cpu": 3920, "memory": 1 << 30}, usable=False, unready_since=0.0
    )
    assert decode.node({"metadata": {"name": "n"}}) == Node("n", usable=False, unready_since=0.0)


def test_of_a_job_of_many_pod_sets_or_a_large_affinity_only_so_much_is_compared() -> None:
    lookup = world(ANY_NODE, nodes=[node()])
    good = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    bad = {**good, "nodeSelector": {ARCH: "s390x"}}
    many = [PodSpec(f"p{number}", 1, good) for number in range(POD_SETS)]
    assert not of_job(submission("team-a", "main", "", [*many, PodSpec("last", 1, bad)], RequestRules()), lookup)
    values = [f"v{number}" for number in range(TERMS)]
    assert not of_job(job(affinity=affinity({"key": ARCH, "operator": "In", "values": values})), lookup)
