"""The life of a job of each kind with its real operator: it waits, runs on its flavor, gives way, runs again and ends.

The manifests are those of ``examples/kinds``, which the pages of ``docs/kinds`` show. All operators run beside one
control plane; kwok runs the pods. Ray's dashboards and spark-submit are stand-ins (``operators``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.objects import Raw
from core.jobs.fields import changed
from core.jobs.kind import JobKind
from core.jobs.kinds import KINDS
from core.jobs.template import merge_diff
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.operators import Operators, alone, dashboard_stand_in
from tests.cluster.world import World, condition, holds, job, local_queue, ours
from tests.core.jobs.test_kinds import pruned
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "kinds"
SPACE = "kinds"
ONE, TWO = {"pool-one": "yes"}, {"pool-two": "yes"}
TOLERATION = {"key": "pool-one", "operator": "Exists", "effect": "NoSchedule"}
RUN_FOR, EXIT_CODE = "seiretsu.dev/run-for", "seiretsu.dev/exit-code"


@dataclass(frozen=True)
class Case:
    """A kind with an operator: how many pods its example has, and where the annotations of these pods are.

    ``pods`` are those that run on; ``ends`` is False for a kind that never finishes.
    """

    framework: str
    pods: int
    templates: tuple[tuple[str | int, ...], ...]
    ends: bool = True

    @property
    def kind(self) -> JobKind:
        return KINDS[self.framework]

    def manifest(self, name: str, queue: str, *, seconds: float, code: int = 0, priority: str = "low") -> Raw:
        """The example with another name, in a queue, with pods that run for so many seconds."""
        made: Raw = yaml.safe_load((EXAMPLES / f"{self.kind.singular}.yaml").read_text())
        labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority}
        made["metadata"] |= {"name": name, "labels": labels}
        for path in self.templates:
            given = {RUN_FOR: f"{seconds}s", EXIT_CODE: str(code)}
            made = changed(made, (*path, "annotations"), given)
        if self.framework == "trainer.kubeflow.org/trainjob":  # the annotations of its pods are those of a runtime
            made["spec"]["runtimeRef"]["name"] = "lasts" if seconds > 60 else "fails" if code else "works"
        return made


def replicas(specs: str, *types: str) -> tuple[tuple[str | int, ...], ...]:
    return tuple(("spec", specs, each, "template", "metadata") for each in types)


POD = ("template", "spec", "template", "metadata")
CASES = (
    Case("kubeflow.org/mpijob", 3, replicas("mpiReplicaSpecs", "Launcher", "Worker")),
    Case("ray.io/rayjob", 3, ()),
    Case("ray.io/raycluster", 3, (), ends=False),
    Case("ray.io/rayservice", 3, (), ends=False),
    Case("jobset.x-k8s.io/jobset", 5, tuple(("spec", "replicatedJobs", each, *POD) for each in (0, 1))),
    Case("trainer.kubeflow.org/trainjob", 2, ()),
    Case("kubeflow.org/pytorchjob", 3, replicas("pytorchReplicaSpecs", "Master", "Worker")),
    Case("kubeflow.org/tfjob", 4, replicas("tfReplicaSpecs", "Chief", "PS", "Worker")),
    Case("kubeflow.org/xgboostjob", 3, replicas("xgbReplicaSpecs", "Master", "Worker")),
    Case("kubeflow.org/paddlejob", 2, replicas("paddleReplicaSpecs", "Worker")),
    Case("kubeflow.org/jaxjob", 2, replicas("jaxReplicaSpecs", "Worker")),
    Case(
        "workload.codeflare.dev/appwrapper",
        2,
        (("spec", "components", 0, *POD),),
    ),
    Case("sparkoperator.k8s.io/sparkapplication", 3, (("spec", "driver"), ("spec", "executor"))),
)
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind.kind)
CONFIGURATION = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {{leaderElect: false}}
featureGates: {{SparkApplicationIntegration: true}}
integrations: {{frameworks: [batch/job, {", ".join(case.framework for case in CASES)}]}}
waitForPodsReady: {{timeout: 10m}}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with nodes of two pools, whose labels have different keys, one of them tainted."""
    taint = {"key": "pool-one", "value": "yes", "effect": "NoSchedule"}
    pools = (
        NodeGroup(count=1, prefix="one", labels=ONE, taints=(taint,)),
        NodeGroup(count=1, prefix="two", labels=TWO),
    )
    with alone(), ControlPlane.start(spec=Spec(nodes=pools)) as started:
        started.kubectl("create", "namespace", SPACE, check=True)
        started.kubectl("wait", "--for=create", "serviceaccount/default", "-n", SPACE, check=True)
        yield started


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`seiretsu serve`, which is ready before there is a definition of any of these kinds."""
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(CONFIGURATION)
    with serving(plane.kubeconfig, directory, "--config", str(directory / "config.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def world(plane: ControlPlane, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The namespace, with a flavor for each pool; all operators are installed after Seiretsu."""
    made = World(plane, SPACE)
    made.create(
        ours("ResourceFlavor", "one", {"nodeLabels": ONE, "tolerations": [TOLERATION]}),
        ours("ResourceFlavor", "two", {"nodeLabels": TWO}),
    )
    for name, value in (("low", 1), ("high", 100)):
        metadata = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        made.create({**metadata, "value": value})
    operators = Operators(made, tmp_path_factory.mktemp("operators"))
    with dashboard_stand_in() as proxy:
        operators.jobset()
        operators.training()
        operators.mpi()
        operators.kuberay(proxy)
        operators.appwrapper()
        operators.trainer()
        operators.spark(SPACE)
        for name, code in (("lasts", "0"), ("works", "0"), ("fails", "1")):
            made.create(runtime(name, code))
        names = {case.kind.plural for case in CASES}
        made.until("all kinds are watched", lambda: names <= watched(served), within=120)
        yield made


def watched(served: Served) -> set[str]:
    return {event["resource"] for event in served.events if event["event"] == "served now"}


def runtime(name: str, code: str) -> Raw:
    """A runtime whose Jobs fail at once, with pods that end as its name says."""
    annotations = {RUN_FOR: "600s" if name == "lasts" else "1s", EXIT_CODE: code}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "node", "image": "none"}]}}
    one = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": pod},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [one]}}},
    }


def groups(one: int, two: int) -> list[Raw]:
    """Resource groups with so many cpu of each flavor, and enough memory."""
    memory = {"name": "memory", "nominalQuota": "100Gi"}
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}, memory]}
        for flavor, cpu in (("one", one), ("two", two))
    ]
    return [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]


@dataclass
class Life:
    """What a test sees of one job."""

    world: World
    case: Case
    name: str

    def create(self, **given: Any) -> None:
        self.world.create(self.case.manifest(self.name, self.queue, **given))

    @property
    def queue(self) -> str:
        return self.case.kind.singular

    def get(self) -> Raw:
        kind = self.case.kind
        path = f"/apis/{kind.api_version}/namespaces/{SPACE}/{kind.plural}/{self.name}"
        return self.world.plane.administrator.get(path) or {}

    def annotate(self, name: str, value: str) -> None:
        kind = self.case.kind
        target = (f"{kind.plural}.{kind.group}", self.name, "-n", SPACE)
        self.world.plane.kubectl("annotate", *target, f"example.com/{name}={value}", check=True)

    def delete(self) -> None:
        kind = self.case.kind
        target = f"{kind.plural}.{kind.group}"
        self.world.plane.kubectl("delete", target, self.name, "-n", SPACE, "--wait=false", check=True)

    def workload(self) -> Raw:
        uid = self.get().get("metadata", {}).get("uid")
        items = self.world.get("workloads").get("items", [])
        mine = [each for each in items if each["metadata"]["labels"].get("kueue.x-k8s.io/job-uid") == uid]
        return mine[0] if mine else {}

    def pods(self) -> list[Raw]:
        """Its pods that are not being deleted, by the name of its Workload, which all of them have."""
        name = self.workload().get("metadata", {}).get("name", "?")
        found = self.world.get("pods").get("items", [])
        annotations = [(each["metadata"].get("annotations") or {}, each) for each in found]
        mine = [each for marks, each in annotations if marks.get("kueue.x-k8s.io/workload") == name]
        return [each for each in mine if "deletionTimestamp" not in each["metadata"]]

    def running(self, node: str) -> bool:
        """Whether its pods run, all of them on this node."""
        found = [each["spec"].get("nodeName") for each in self.pods() if each["status"].get("phase") == "Running"]
        return found == [node] * self.case.pods

    def stopped(self) -> bool:
        found = self.get()
        return self.case.kind.held(found) and not self.pods()

    def waits(self) -> bool:
        return bool(self.workload()) and self.case.kind.held(self.get())


@EACH
def test_the_life_of_a_job(world: World, case: Case) -> None:
    name = case.kind.singular
    fields = {"namespaceSelector": {}, "resourceGroups": groups(0, 0)}
    world.create(
        ours("ClusterQueue", name, {**fields, "preemption": {"withinClusterQueue": "LowerPriority"}}),
        local_queue(name, name),
    )
    life, gone = Life(world, case, f"{name}-lasts"), Life(world, case, f"{name}-gone")
    for each in (life, gone):
        each.create(seconds=600)
        world.until(f"{each.name} waits", each.waits)
        assert each.pods() == []
    before = asked(life.get())
    gone.delete()
    world.until("a waiting job that is deleted leaves nothing", lambda: not gone.get() and len(own(world, name)) == 1)

    world.patch("clusterqueues", name, {"spec": {"resourceGroups": groups(4, 0)}})
    world.until("it runs on its flavor", lambda: life.running("one-1"))
    for pod in life.pods():
        assert pod["spec"]["nodeSelector"].items() >= ONE.items()
        assert TOLERATION in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"][case.kind.uid_label] == life.get()["metadata"]["uid"]
    world.until("it is ready", lambda: condition(life.workload(), "PodsReady")[0] == "True")
    assert own(world, name) == [life.workload()["metadata"]["name"]], "what its operator makes has no Workload"

    world.create(
        job(f"{name}-urgent", name, cpu=4, pods=1, seconds=600, labels={"kueue.x-k8s.io/priority-class": "high"})
    )
    world.until("the urgent Job runs", lambda: f"{name}-urgent" in world.running())
    assert condition(life.workload(), "Evicted")[:2] == ("True", "Preempted")
    world.until("its pods are gone", life.stopped)
    world.until("its templates are as before", lambda: merge_diff(before, asked(life.get())) == {})

    world.patch("clusterqueues", name, {"spec": {"resourceGroups": groups(4, 4)}})
    world.until("it runs again, on the other flavor", lambda: life.running("two-1"))
    assert all("pool-one" not in each["spec"]["nodeSelector"] for each in life.pods())
    world.delete("jobs", f"{name}-urgent")
    life.delete()
    world.until("a running job that is deleted leaves no Workload", lambda: own(world, name) == [])
    world.until("its quota is free", lambda: reserving(world, name) == 0)


@pytest.mark.parametrize("case", [case for case in CASES if case.ends], ids=lambda case: case.kind.kind)
@pytest.mark.parametrize(("ending", "code"), [("works", 0), ("fails", 1)])
def test_the_end_of_a_job(world: World, case: Case, ending: str, code: int) -> None:
    name = f"{case.kind.singular}-{ending}"
    fields = {"namespaceSelector": {}, "resourceGroups": groups(4, 0)}
    world.create(ours("ClusterQueue", name, fields), local_queue(name, name))
    life = Life(world, case, name)
    world.create(case.manifest(name, name, seconds=1, code=code))
    reason = "Succeeded" if ending == "works" else "Failed"
    if case.framework == "workload.codeflare.dev/appwrapper" and code:  # its operator looks for failures once a minute
        world.until("its component failed", lambda: holds(world.jobs().get("appwrapper-train", {}), "Failed"))
        life.annotate("looked-at", "yes")
    world.until("its Workload has finished", lambda: condition(life.workload(), "Finished")[:2] == ("True", reason))
    world.until("its quota is free", lambda: reserving(world, name) == 0)
    life.delete()
    world.until("nothing is left", lambda: not life.get())


def asked(found: Raw) -> Raw:
    """The spec of a job without what its operator writes there: when the runtime patches of a TrainJob changed."""
    patches = [{**each, "time": None} for each in found["spec"].get("runtimePatches", [])]
    spec: Raw = pruned({**found["spec"], "runtimePatches": patches})
    return spec


def own(world: World, queue: str) -> list[str]:
    """The Workloads of a queue."""
    items = world.get("workloads").get("items", [])
    return [each["metadata"]["name"] for each in items if each["spec"].get("queueName") == queue]


def reserving(world: World, queue: str) -> int:
    """How many Workloads hold quota of a ClusterQueue."""
    return int(world.get("clusterqueues", queue)["status"]["reservingWorkloads"])
