"""Pods of every kind with ranks are placed by topology, with the real operators and the real kube-scheduler.

One function is the test of all kinds; ``CASES`` has a row for each: where the annotations of its pod templates are, and
which labels number its pods. Two racks of four small nodes; two pods fit on one, so that neighbours in rank share one.
Half of the second rack is taken, so that a leader alone would run there, and not with its workers.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pytest

from api.objects import Raw
from core.jobs.fields import changed
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster import kinds
from tests.cluster.kinds import (
    LONG,
    REQUIRED_TOPOLOGY,
    RUN_FOR,
    Asking,
    Life,
    MetadataPath,
    asking_runtimes,
    every_operator,
    life_of,
)
from tests.cluster.operators import alone
from tests.cluster.test_elastic import elastic
from tests.cluster.test_topology import hostnames
from tests.cluster.world import World, condition, holds, local_queue, ours
from tests.eventually import WAIT
from tests.observing import observing
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

SPACE = "ranks"
POOL, RACK, HOSTNAME = "example.com/pool", "example.com/rack", "kubernetes.io/hostname"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
POD_SET, GATE = "kueue.x-k8s.io/podset", "kueue.x-k8s.io/topology"
COMPLETION, REPLICA = "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index"
GROUP_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
TOGETHER = "together"
"""The group of a leader and its workers."""


@dataclass(frozen=True)
class Ranked(Asking):
    """A kind whose pods have ranks: what is changed of the job of its page, and the labels by which its pods are
    numbered: of the pod, and of the replica with ``each`` pods. ``first`` is the number of the first pod. Without
    labels its pods have no ranks, and each domain gets as many as it is assigned. ``again`` is False if its operator
    ends the job when a pod is lost.
    """

    level: str = RACK
    changes: tuple[tuple[MetadataPath, Any], ...] = ()
    labels: tuple[str, ...] = ()
    each: int = 0
    first: int = 0
    again: bool = True
    titled: str = ""

    @property
    def title(self) -> str:
        """The name of its test, and of its job."""
        return self.titled or self.name

    def objects(self, name: str, queue: str, *, seconds: float = LONG, code: int = 0) -> list[Raw]:
        made = super().objects(name, queue, seconds=seconds, code=code)
        if self.name == "pod-group":
            made = [_numbered(made[1], name, number, self.pods) for number in range(self.pods)]
        for path, value in self.changes:
            made = [changed(each, path, value) for each in made]
        return made

    def rank(self, pod: Raw) -> int | None:
        """The rank of a pod in its pod set by its labels."""
        found = pod["metadata"]["labels"]
        numbers = [int(found[label]) for label in self.labels if label in found]
        if len(numbers) < len(self.labels) or not numbers:
            return None
        return numbers[0] - self.first if len(numbers) == 1 else numbers[0] + numbers[1] * self.each


def _numbered(made: Raw, name: str, number: int, total: int) -> Raw:
    """A pod of a group, with its index."""
    pod = copy.deepcopy(made)
    pod["metadata"]["name"] = f"{name}-{number}"
    pod["metadata"]["labels"][GROUP_INDEX] = str(number)
    pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(total)
    return pod


def ranked(
    name: str, pods: int, *labels: str, changes: Mapping[MetadataPath, Any] | None = None, **more: Any
) -> Ranked:
    """A kind of ``kinds.CASES`` with so many pods."""
    known = next(each for each in kinds.CASES if each.name == name)
    given = {each.name: getattr(known, each.name) for each in fields(known)} | {"pods": pods}
    return Ranked(**given, labels=labels, changes=tuple((changes or {}).items()), **more)


def workers(specs: str, number: int) -> dict[MetadataPath, Any]:
    """So many workers of a job of Kubeflow."""
    return {("spec", specs, "Worker", "replicas"): number}


def counts(*path: str | int, number: int) -> dict[MetadataPath, Any]:
    """An indexed Job of so many pods at this place, which may lose some."""
    found = {"completionMode": "Indexed", "completions": number, "parallelism": number, "backoffLimit": 6}
    return {(*path, "spec", key): value for key, value in found.items()}


MPI = "mpiReplicaSpecs"
SUBMITTER: Raw = {
    "metadata": {"annotations": {REQUIRED_TOPOLOGY: RACK, RUN_FOR: f"{LONG}s"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "submitter", "image": "none", "resources": {"requests": {"cpu": "500m"}}}],
    },
}
"""With the one that KubeRay makes itself a RayJob ends after two seconds."""
CASES = (
    ranked("job", 4, COMPLETION, changes=counts(number=4)),
    ranked(
        "jobset",
        5,
        COMPLETION,
        "jobset.sigs.k8s.io/job-index",
        changes={("spec", "replicatedJobs", 1, "template", "spec", "backoffLimit"): 6},
        each=2,
        group=TOGETHER,
    ),
    ranked("mpijob", 5, REPLICA, changes=workers(MPI, 4), group=TOGETHER),
    ranked(
        "mpijob",
        5,
        REPLICA,
        changes={**workers(MPI, 4), ("spec", "runLauncherAsWorker"): True},
        first=1,
        titled="mpijob-launcher-works",
    ),
    ranked(
        "leaderworkerset",
        4,
        "leaderworkerset.sigs.k8s.io/worker-index",
        changes={("spec", "leaderWorkerTemplate", "size"): 4},
        first=1,
        group=TOGETHER,
    ),
    ranked(
        "rayjob",
        4,
        changes={("spec", "submitterPodTemplate"): SUBMITTER},
        again=False,
        titled="rayjob-lasts",  # as the stand-in for its dashboard reads the name
    ),
    ranked("raycluster", 3),
    ranked("pytorchjob", 5, REPLICA, changes=workers("pytorchReplicaSpecs", 4), again=False),
    ranked("tfjob", 5, REPLICA, changes=workers("tfReplicaSpecs", 3), again=False),
    ranked("xgboostjob", 5, REPLICA, changes=workers("xgbReplicaSpecs", 4), again=False),
    ranked("paddlejob", 4, REPLICA, changes=workers("paddleReplicaSpecs", 4), again=False),
    ranked("jaxjob", 4, REPLICA, changes=workers("jaxReplicaSpecs", 4), again=False),
    ranked("trainjob", 4, COMPLETION, changes={("spec", "trainer", "numNodes"): 4}),
    ranked("sparkapplication", 3, again=False),
    ranked("appwrapper", 4, COMPLETION, changes=counts("spec", "components", 0, "template", number=4)),
    ranked("pod-group", 4, GROUP_INDEX),
    ranked("statefulset", 3, "apps.kubernetes.io/pod-index", changes={("spec", "replicas"): 3}),
)
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with two racks of four nodes of one cpu."""
    racks = tuple(
        NodeGroup(count=4, cpu="1", memory="8Gi", prefix=rack, labels={POOL: "racks", RACK: rack})
        for rack in ("rack-a", "rack-b")
    )
    with alone(), ControlPlane.start(spec=Spec(nodes=racks)) as started:
        started.kubectl("create", "namespace", SPACE, check=True)
        started.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", SPACE, check=True)
        yield started


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Seiretsu with all kinds of this module."""
    directory = tmp_path_factory.mktemp("serve")
    config = directory / "config.json"
    frameworks = list(dict.fromkeys(case.framework for case in kinds.CASES))
    content = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "featureGates": {"SparkApplicationIntegration": True, "ElasticJobsViaWorkloadSlicesWithTAS": True},
        "integrations": {"frameworks": frameworks},
    }
    config.write_text(json.dumps(content))
    with serving(plane.kubeconfig, directory, "--config", str(config)) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def world(plane: ControlPlane, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The namespace, with the topology, a flavor and all operators."""
    made = World(plane, SPACE)
    levels = [{"nodeLabel": label} for label in (RACK, HOSTNAME)]
    priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 1}
    made.create(
        *map(taking, (2, 3)),
        ours("Topology", "racks", {"levels": levels}),
        ours("ResourceFlavor", "racks", {"nodeLabels": {POOL: "racks"}, "topologyName": "racks"}),
        {**priority, "metadata": {"name": "low"}},
    )
    with every_operator(made, tmp_path_factory.mktemp("operators")):
        names = {case.kind.plural for case in kinds.CASES if case.kind.optional} | {"leaderworkersets"}
        made.until(
            "all kinds are watched",
            lambda: names <= {each["resource"] for each in served.events if each["event"] == "served now"},
        )
        made.create(*asking_runtimes(REQUIRED_TOPOLOGY, RACK))
        yield made


@pytest.fixture
def observed(world: World) -> Iterator[None]:
    """An observer reads every change of the test: no pod runs outside of what its Workload was given."""
    with observing(world.plane, SPACE):
        yield


def taking(number: int) -> Raw:
    """A pod outside of topology that takes a node of the second rack."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"takes-{number}", "namespace": "default"},
        "spec": {"nodeName": f"rack-b-{number}", "containers": [container]},
    }


def cluster_queue(name: str) -> Raw:
    """A ClusterQueue with all the cpu of the racks."""
    quotas = [{"name": "cpu", "nominalQuota": 8}, {"name": "memory", "nominalQuota": "100Gi"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "racks", "resources": quotas}]}]
    return ours("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups})


def queue(world: World, name: str) -> None:
    world.create(cluster_queue(name), local_queue(name, name))


def running(life: Life) -> list[Raw]:
    """The pods of a job that run, when all of them do; none before."""
    found = [each for each in life.pods() if each["status"].get("phase") == "Running"]
    return found if len(found) == life.case.pods and len(life.pods()) == life.case.pods else []


def assigned(life: Life) -> dict[str, list[str]]:
    """By pod set the node of each rank: the counts of the domains, one after the other."""
    (workload,) = life.workloads()
    return {
        each["name"]: [node for node, count in hostnames(each["topologyAssignment"]) for _ in range(count)]
        for each in workload["status"]["admission"]["podSetAssignments"]
    }


def pod_set(pod: Raw) -> str:
    return str(pod["metadata"]["labels"][POD_SET])


def places(case: Ranked, pods: list[Raw]) -> dict[tuple[str, int], str]:
    """The node of each pod that has a rank, by its pod set and rank."""
    ranks = {(pod_set(pod), rank): pod["spec"]["nodeName"] for pod in pods if (rank := case.rank(pod)) is not None}
    assert len(ranks) == sum(case.rank(pod) is not None for pod in pods), "no two pods have one rank"
    return ranks


def in_order(case: Ranked, life: Life, pods: list[Raw]) -> bool:
    """Whether each pod runs where its rank was assigned, and no node has more than it was assigned."""
    nodes = assigned(life)
    right = all(nodes[name][rank] == node for (name, rank), node in places(case, pods).items())
    runs = Counter((pod_set(pod), pod["spec"]["nodeName"]) for pod in pods)
    return right and runs <= Counter((name, node) for name, found in nodes.items() for node in found)


def lose_one(world: World, case: Ranked, life: Life, pods: list[Raw]) -> list[Raw]:
    """Deletes the pod with the highest rank; returns all pods when it has come again."""
    lost = max(pods, key=lambda pod: (case.rank(pod) or 0, pod["metadata"]["name"]))
    world.delete("pods", lost["metadata"]["name"])
    if case.name == "pod-group":  # no controller creates it again
        made = next(each for each in life.objects() if each["metadata"]["name"] == lost["metadata"]["name"])
        world.create(changed(made, ("metadata", "name"), f"{lost['metadata']['name']}-again"))

    def again() -> list[Raw]:
        found = running(life)
        return [] if lost["metadata"]["uid"] in {each["metadata"]["uid"] for each in found} else found

    return world.until("all its pods run again", again)


@EACH
@pytest.mark.usefixtures("observed")
def test_each_pod_runs_where_its_rank_is_assigned_and_again_after_it_was_lost(world: World, case: Ranked) -> None:
    life = life_of(case)(world, case, case.title, case.title)
    queue(world, case.title)
    life.create()
    pods = world.until("all its pods run", lambda: running(life))
    assert in_order(case, life, pods), f"{assigned(life)} {places(case, pods)}"
    racks = {pod_set(pod): pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods}
    assert all(pod["spec"]["nodeName"].startswith(racks[pod_set(pod)]) for pod in pods)
    assert not case.group or len({*racks.values()}) == 1, f"a leader runs with its workers: {racks}"
    assert len({pod["spec"]["nodeName"] for pod in pods}) > 1

    after = lose_one(world, case, life, pods) if case.again else pods
    assert in_order(case, life, after), f"{assigned(life)} {places(case, after)}"
    assert places(case, after) == places(case, pods)
    life.delete()
    for each in after if case.name == "pod-group" else ():
        world.delete("pods", each["metadata"]["name"])
    world.until("nothing is left", lambda: life.gone() and not life.pods() and not life.workloads())


@pytest.mark.exceeds
def test_a_template_that_loses_its_gate_while_it_runs_stops_the_job_and_the_next_start_places_it(
    world: World,
) -> None:
    case = next(each for each in CASES if each.title == "mpijob")
    name = "loses-gate"
    life = life_of(case)(world, case, name, name)
    queue(world, name)
    life.create()
    pods = world.until("all its pods run", lambda: running(life))
    rack = pods[0]["spec"]["nodeName"].rpartition("-")[0]
    other = "rack-b" if rack == "rack-a" else "rack-a"
    path = ("spec", MPI, "Worker", "template")
    template: Raw = life.job()
    for step in path:
        template = template[step]
    assert template["spec"]["schedulingGates"] == [{"name": GATE}]
    change: Raw = {"spec": {"schedulingGates": None, "nodeSelector": {RACK: other}}}
    for step in reversed(path):
        change = {step: change}
    world.merge(life.job(), change)
    worker = next(each for each in pods if pod_set(each) == "worker")
    world.delete("pods", worker["metadata"]["name"])
    world.until("it is evicted", lambda: evictions(life) == 1)
    (found,) = life.workloads()
    message = condition(found, "Evicted")[2]
    assert message.startswith("Pods run outside of their topology assignment: 1 pod runs on " + other), message

    def placed() -> bool:
        found = running(life)
        return bool(found) and in_order(case, life, found)

    world.until("the next start has placed it", placed)
    life.delete()
    world.until("nothing is left", lambda: life.gone() and not life.pods())


def evictions(life: Life) -> int:
    """How often the guard has evicted the Workload of a job."""
    (found,) = life.workloads()
    stats = (found["status"].get("schedulingStats") or {}).get("evictions") or ()
    return sum(int(each["count"]) for each in stats if each["reason"] == "PodsWithoutQuota")


def test_an_elastic_job_grows_and_shrinks_and_its_pods_stay_where_they_were_placed(world: World) -> None:
    """With the feature gate ElasticJobsViaWorkloadSlicesWithTAS. Each node holds one of its pods."""
    name = "elastic"
    queue(world, name)
    made = elastic(name, name, pods=2)
    made["spec"]["template"]["metadata"].setdefault("annotations", {})[UNCONSTRAINED] = "true"
    world.create(made)

    def nodes() -> dict[str, str]:
        """The node of each of its pods by name; '' while it has none."""
        mine = [each for each in world.get("pods")["items"] if each["metadata"]["labels"].get("job-name") == name]
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in mine}

    def running(pods: int) -> tuple[dict[str, str], Counter[str]] | None:
        """Their nodes, and the domains of its Workload, when so many are left, all run, and one slice is left."""
        found, mine = nodes(), world.get("workloads")["items"]
        left = [each for each in mine if each["spec"].get("queueName") == name and not holds(each, "Finished")]
        if len(found) != pods or not all(found.values()) or len(left) != 1:
            return None
        assert not holds(left[0], "Evicted")
        (given,) = left[0]["status"]["admission"]["podSetAssignments"]
        return found, Counter(dict(hostnames(given["topologyAssignment"])))

    def resized(pods: int) -> tuple[dict[str, str], Counter[str]]:
        world.patch("jobs", name, {"spec": {"parallelism": pods}})
        found = world.until(f"{pods} pods run", lambda: running(pods))
        assert found is not None
        return found

    two, domains = resized(2)
    assert Counter(two.values()) == domains
    five, domains = resized(5)
    assert two.items() < five.items()
    assert Counter(five.values()) == domains
    three, domains = resized(3)
    assert three.items() < five.items()
    assert Counter(three.values()) <= domains
    four, domains = resized(4)
    assert three.items() < four.items()
    assert domains.total() == 4
    world.delete("jobs", name)
    world.until("nothing is left", lambda: not nodes())
