"""The JobSet of a TrainJob that runs in another cluster, derived from its runtime as the trainer derives it."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import MULTIKUEUE_CONTROLLER, Label
from core.actions import Patch
from core.jobs import workload
from core.jobs.kinds.training_runtime import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, derived
from core.jobs.kinds.trainjob import MANAGER, TRAIN_JOB
from core.jobs.template import Injection
from core.model import Key, Raw
from core.wire.merge import merged
from tests.core.jobs.test_jobset import job_set
from tests.core.jobs.test_trainjob import OWNER, train_job

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
SMALL = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
LARGE = {"requests": {"cpu": "4"}}


def part(name: str, container: str = "node", *, step: str = "", pods: int | None = None, **pod: Any) -> Raw:
    """A replicated Job of a runtime; ``step`` is what configures it."""
    labels = {"labels": {STEP: step}} if step else {}
    containers = [
        {"name": container, "image": "i", "resources": SMALL, "env": [{"name": "A", "value": "1"}]},
        {"name": "side", "image": "s"},
    ]
    spec = {"template": {"spec": {"containers": containers, **pod}}, **({"parallelism": pods} if pods else {})}
    return {"name": name, "template": {"metadata": labels, "spec": spec}}


def runtime(*parts: Raw, policy: Raw | None = None) -> Raw:
    spec: Raw = {"template": {"spec": {"replicatedJobs": [*parts]}}}
    return {
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": spec | ({"mlPolicy": policy} if policy is not None else {}),
    }


def elsewhere(**spec: Any) -> Raw:
    """A TrainJob that runs in another cluster."""
    return train_job(**{"managedBy": MULTIKUEUE_CONTROLLER, **spec})


def pods(job: Raw, of: Raw) -> dict[str, int]:
    return {each["name"]: each["count"] for each in TRAIN_JOB.pod_sets(job, [of])}


TORCH = runtime(part("node", step="trainer"), policy={"numNodes": 2, "torch": {}})
MPI = {"launcher": part("launcher", step="trainer"), "node": part("node")}


@pytest.mark.parametrize(
    ("of", "trainer", "wanted"),
    [
        (TORCH, None, {"node": 2}),
        (TORCH, {"numNodes": 5}, {"node": 5}),
        (runtime(part("node", step="trainer", pods=3)), None, {"node": 3}),
        (runtime(part("node", step="trainer")), None, {"node": 1}),
        (runtime(part("node", step="trainer"), policy={}), {"numNodes": 4}, {"node": 4}),
        (runtime(*MPI.values(), policy={"numNodes": 1, "mpi": {}}), {"numNodes": 4}, {"launcher": 1, "node": 4}),
        (
            runtime(*MPI.values(), policy={"numNodes": 1, "mpi": {"runLauncherAsNode": True}}),
            {"numNodes": 4},
            {"launcher": 1, "node": 3},
        ),
        (
            runtime(part("dataset-initializer", step="dataset-initializer"), part("node", step="trainer"), policy={}),
            {"numNodes": 2},
            {"dataset-initializer": 1, "node": 2},
        ),
    ],
    ids=[
        "of the policy",
        "of the job",
        "of the runtime",
        "none",
        "plain",
        "MPI",
        "MPI with its launcher",
        "initializer",
    ],
)
def test_how_many_pods_it_has(of: Raw, trainer: Raw | None, wanted: dict[str, int]) -> None:
    assert pods(elsewhere(**({"trainer": trainer} if trainer else {})), of) == wanted


def test_the_trainer_configures_the_containers_of_its_nodes() -> None:
    given = {"image": "mine", "args": ["x"], "resourcesPerNode": LARGE, "env": [{"name": "A", "value": "2"}]}
    (found,) = TRAIN_JOB.pod_sets(elsewhere(trainer=given), [TORCH])
    node, side = found["template"]["spec"]["containers"]
    assert node == {
        "name": "node",
        "image": "mine",
        "args": ["x"],
        "resources": LARGE,
        "env": [{"name": "A", "value": "2"}],
    }
    assert side == {"name": "side", "image": "s"}


@pytest.mark.parametrize("as_node", [False, True])
def test_a_launcher_is_configured_only_if_it_is_a_node(as_node: bool) -> None:
    parts = part("launcher", "launcher", step="trainer"), part("node")
    of = runtime(*parts, policy={"mpi": {"runLauncherAsNode": as_node}})
    found = derived(elsewhere(trainer={"resourcesPerNode": LARGE}), of)["spec"]["replicatedJobs"]
    first = [each["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] for each in found]
    assert first == [LARGE if as_node else SMALL, SMALL]


def test_an_initializer_gets_its_variables() -> None:
    of = runtime(part("model-initializer", "model-initializer", step="model-initializer"))
    given = {"model": {"env": [{"name": "URI", "value": "x"}]}}
    (found,) = TRAIN_JOB.pod_sets(elsewhere(initializer=given), [of])
    assert found["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}, *given["model"]["env"]]


def test_patches_of_the_runtime_change_nodes_and_containers() -> None:
    pod = {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "new"}],
        "containers": [{"name": "node", "env": [{"name": "B", "value": "1"}]}],
    }
    patch = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}
    other = {"replicatedJobs": [{"name": "another", "template": {"spec": {"parallelism": 7}}}]}
    patches = [{"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": each}}} for each in (patch, other, {})]
    of = runtime(part("node", step="trainer", nodeSelector={"zone": "z"}, tolerations=[{"key": "old"}]))
    (found,) = TRAIN_JOB.pod_sets(elsewhere(runtimePatches=patches), [of])
    spec = found["template"]["spec"]
    assert spec["nodeSelector"] == {"zone": "z", "pool": "a"}
    assert spec["tolerations"] == [{"key": "new"}]
    assert [each["name"] for each in spec["containers"][0]["env"]] == ["A", "B"]


def test_it_waits_for_its_runtime_and_does_not_use_a_jobset_that_is_here() -> None:
    job = elsewhere()
    assert [*TRAIN_JOB.references(job)] == [(CLUSTER_TRAINING_RUNTIMES, Key("", "torch"))]
    mine = elsewhere(runtimeRef={"name": "own", "kind": "TrainingRuntime"})
    assert [*TRAIN_JOB.references(mine)] == [(TRAINING_RUNTIMES, Key("ns", "own"))]
    assert [*TRAIN_JOB.references(train_job())] == []
    assert TRAIN_JOB.pod_sets(job, [job_set(part("node"), name="t", ownerReferences=[OWNER])]) == []
    assert TRAIN_JOB.pod_sets(train_job(), [TORCH]) == []


def test_a_start_here_and_its_end_leave_the_job_as_it_was() -> None:
    job = elsewhere()
    raw = workload.manifest(TRAIN_JOB, job, {"spec": {"priority": 0}}, related=[TORCH])
    mark = {"kueue.x-k8s.io/workload": raw["metadata"]["name"]}
    (start,) = TRAIN_JOB.start(job, [Injection("node", 2, node_selector={"pool": "a"}, annotations=mark)], [TORCH])
    assert isinstance(start, Patch)
    runs = merged(job, start.body)
    assert not TRAIN_JOB.held(runs)
    assert workload.as_started(raw, TRAIN_JOB, runs, [TORCH])
    held = merged(runs, {"spec": {"suspend": True}})
    (cleared,) = TRAIN_JOB.stop(held, [], [TORCH])
    assert isinstance(cleared, Patch)
    assert merged(held, cleared.body)["spec"] == job["spec"]


def test_a_worker_gets_the_job_without_the_entry_of_this_queue() -> None:
    other = {"manager": "a.b/c"}
    job = elsewhere(suspend=False)
    job["spec"]["runtimePatches"].insert(0, other)
    there = TRAIN_JOB.for_worker(job, TRAIN_JOB.pod_sets(job, [TORCH]))
    assert [each["manager"] for each in job["spec"]["runtimePatches"]] == ["a.b/c", MANAGER]
    assert there["spec"]["runtimePatches"] == [other]
    assert "managedBy" not in there["spec"] and TRAIN_JOB.held(there)


@pytest.mark.parametrize("cpu", ["1", "2"])
def test_in_the_worker_the_workload_is_that_of_the_job_if_it_asks_for_the_same(cpu: str) -> None:
    """Its trainer adds what a framework needs, which the other cluster does not know."""
    here = elsewhere()
    raw = workload.manifest(TRAIN_JOB, here, {"spec": {"priority": 0}}, related=[TORCH])
    labels = {Label.MULTIKUEUE_ORIGIN: "multikueue"}
    there = merged(train_job(), {"metadata": {"labels": labels}})
    (node,) = derived(here, TORCH)["spec"]["replicatedJobs"]
    spec = node["template"]["spec"]["template"]["spec"]
    spec["containers"][0] |= {"ports": [{"containerPort": 29500}], "resources": {**SMALL, "requests": {"cpu": cpu}}}
    spec["containers"][0]["env"] = [*spec["containers"][0]["env"], {"name": "PET_NNODES", "value": "2"}]
    related = [job_set(node, name="t", ownerReferences=[OWNER])]

    def stands(job: Raw) -> bool:
        return workload.stands_for(raw, TRAIN_JOB, job, admitted=False, running=None, related=related)

    assert stands(there) == (cpu == "1")
    assert not stands(train_job())
