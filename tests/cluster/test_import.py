"""``seiretsu import`` beside a running controller: what runs is counted and not restarted, wherever an import ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.objects import Raw
from cli.main import application
from cli.writer import ObjectWriter
from devcluster.controlplane import ControlPlane
from tests.cluster.accounts import tenant
from tests.cluster.world import World, condition, job, local_queue, ours
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
integrations: {frameworks: [batch/job, pod]}
"""
QUEUE, GATED = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission-gated-by"
POOL = "import.example.com/pool"


class Killed(BaseException):
    """The process of the import ends."""


@pytest.fixture(scope="module")
def served(unserved: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(CONFIGURATION)
    with serving(unserved.kubeconfig, directory, "--config", str(directory / "config.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture
def world(unserved: ControlPlane, served: Served, namespace: str) -> World:
    """A queue of four cpu with two flavors, of which the second one is for the nodes of a pool; all nodes are."""
    made = World(unserved, namespace)
    flavors = [f"{namespace}-any", f"{namespace}-pool"]
    unserved.kubectl("label", "nodes", "--all", "--overwrite", f"{POOL}=yes", check=True)
    made.create(
        ours("ResourceFlavor", flavors[0], {}), ours("ResourceFlavor", flavors[1], {"nodeLabels": {POOL: "yes"}})
    )
    quotas = [{"name": each, "resources": [{"name": "cpu", "nominalQuota": 4}]} for each in flavors]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    made.create(ours("ClusterQueue", made.full("main"), {"namespaceSelector": {}, "resourceGroups": groups}))
    made.create(local_queue("main", made.full("main")))
    return made


def without_queue(raw: Raw) -> Raw:
    raw["metadata"]["labels"].pop(QUEUE)
    return raw


def pod(name: str) -> Raw:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "annotations": {"seiretsu.dev/run-for": "10000s"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def running(world: World) -> dict[str, str]:
    """The uids of the pods that run."""
    items = world.get("pods")["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items if each["status"]["phase"] == "Running"}


def run(world: World, mapping: Path, *words: str) -> Any:
    mapping.write_text("[{toLocalQueue: main}]")
    arguments = ["import", "-n", world.namespace, "--kubeconfig", str(world.plane.kubeconfig)]
    arguments += ["--queuemapping-file", str(mapping), *words]
    return CliRunner().invoke(application(arguments), arguments)


def killed_after_one_write(world: World, mapping: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Imports until a write was made, and is killed before the next one; returns whether it came to the end."""
    write = ObjectWriter._write
    made: list[Any] = []

    def once(self: ObjectWriter, *arguments: Any) -> Raw:
        if made:
            raise Killed
        answer = write(self, *arguments)
        made.append(arguments)  # one that was refused is made again
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(ObjectWriter, "_write", once)
        try:
            done = run(world, mapping, "--apply")
        except Killed:
            return False
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    return True


def settles(world: World) -> None:
    """Waits until the controller has seen the last write: each Workload is gated, or counted."""

    def seen(raw: Raw) -> bool:
        return condition(raw, "Admitted")[0] == "True" or condition(raw, "QuotaReserved")[1] == "AdmissionGated"

    def counted() -> bool:
        found = [*world.workloads().values()]
        admitted = sum(condition(raw, "Admitted")[0] == "True" for raw in found)
        return all(map(seen, found)) and world.status("main").get("admittedWorkloads", 0) == admitted

    world.until("the controller has seen the write", counted)


def in_use(world: World) -> dict[str, str]:
    found = world.status("main").get("flavorsUsage") or []
    return {each["name"].removeprefix(f"{world.namespace}-"): each["resources"][0]["total"] for each in found}


def test_what_runs_is_counted_and_not_restarted_wherever_an_import_ends(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping = tmp_path / "mapping.yaml"
    world.create(without_queue(job("two", "", cpu=1, pods=2, seconds=10_000)), pod("alone"))
    before = world.until("all run", lambda: len(running(world)) == 3 and running(world))
    started = world.jobs()["two"]["status"]["startTime"]

    writes = 0
    while not killed_after_one_write(world, mapping, monkeypatch):
        writes += 1
        settles(world)
        assert running(world) == before
    assert writes in (4, 5), "two or three for each of the two: the controller may make the third one itself"

    ungated = lambda: not any(GATED in (w["metadata"].get("annotations") or {}) for w in world.workloads().values())  # noqa: E731
    world.until("the controller has both, and removes their gates", ungated)
    world.until("they are counted where they run", lambda: in_use(world) == {"any": "0", "pool": "3"})
    assert [condition(w, "Admitted")[:2] for w in world.workloads().values()] == [("True", "Imported")] * 2
    assert running(world) == before
    assert world.jobs()["two"]["status"]["startTime"] == started
    assert world.jobs()["two"]["metadata"]["labels"][QUEUE] == "main"

    versions = {name: raw["metadata"]["resourceVersion"] for name, raw in world.workloads().items()}
    again = run(world, mapping, "--apply")
    assert (again.exit_code, "Nothing is to be imported" in again.stdout) == (0, True), again.stdout
    assert {name: raw["metadata"]["resourceVersion"] for name, raw in world.workloads().items()} == versions

    world.patch("pods", "alone", {"status": {"phase": "Succeeded"}}, subresource="status")
    world.until("the end of the pod is that of its Workload", lambda: world.condition("alone", "Finished")[0] == "True")
    world.complete("two")
    world.until("their quota is free", lambda: in_use(world) == {"any": "0", "pool": "0"})


def test_only_an_import_names_the_queue_of_a_job_that_runs(world: World, tmp_path: Path) -> None:
    world.create(without_queue(job("two", "", cpu=1, pods=1, seconds=10_000)), pod("alone"))
    world.until("all run", lambda: len(running(world)) == 2)
    as_tenant = ("--kubeconfig", str(tenant(world.plane, world.namespace, tmp_path)))
    for words in (("job", "two", f"{QUEUE}=main"), ("pod", "alone", "kueue.x-k8s.io/managed=true", f"{QUEUE}=main")):
        told = world.plane.kubectl("label", *words, "-n", world.namespace, *as_tenant)
        assert told.returncode != 0, told.stdout
    told = world.plane.kubectl("label", "job", "two", f"{QUEUE}=main", "-n", world.namespace)
    assert "field is immutable while the job runs" in told.stderr, "an administrator without an import"
    assert world.workloads() == {}
