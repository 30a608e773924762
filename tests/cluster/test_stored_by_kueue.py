"""What a running Kueue 0.19 has stored is read, served and converted unchanged by what takes its place.

The objects (`kueue_019.yaml`) go straight into etcd, past every webhook of ours, before we are installed over CRDs that
convert by Kueue's Service and claim Kueue's names. The app is a follower here, so that what is read is what was stored
and not what a controller made of it.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from api import crds
from api.convert import convert
from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.api.server import BY_KIND, Server
from tests.cluster import kueue_installed
from tests.cluster.follower import follower
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster


OBJECTS: list[Raw] = list(yaml.safe_load_all(Path(__file__).with_name("kueue_019.yaml").read_text()))
EACH = pytest.mark.parametrize(
    "stored", OBJECTS, ids=[f"{obj['kind']} {obj['apiVersion'].split('/')[1]}" for obj in OBJECTS]
)


OWNER: Raw = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "default",
        "uid": "00000000-0000-4000-8000-0000000000aa",
        "creationTimestamp": "2026-05-02T07:00:00Z",
    },
    "spec": {
        "suspend": True,
        "parallelism": 1,
        "completions": 1,
        "selector": {"matchLabels": {"job-name": "train"}},
        "template": {
            "metadata": {"labels": {"job-name": "train"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        },
    },
}
"""The Job of the Workload: the garbage collector deletes a Workload whose owner is not there."""


def put_into_etcd(plane: ControlPlane, obj: Raw, folder: str = "") -> None:
    """As an API server stores an object: in ``folder``, for a custom resource that of its kind."""
    namespace = obj["metadata"].get("namespace")
    scope = f"{namespace}/" if namespace else ""
    folder = folder or f"kueue.x-k8s.io/{BY_KIND[obj['kind']].plural}"
    key = f"/registry/{folder}/{scope}{obj['metadata']['name']}"
    pair = {"key": key, "value": json.dumps(obj)}
    body = json.dumps({name: base64.b64encode(text.encode()).decode() for name, text in pair.items()})
    url = f"http://127.0.0.1:{plane.ports.etcd}/v3/kv/put"
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), method="POST"), timeout=PATIENCE) as answer:
        assert answer.status == 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A control plane that had Kueue, and now has us."""
    with ControlPlane.start(spec=Spec(nodes=())) as plane:
        for definition in kueue_installed.definitions():
            plane.kubectl("create", "-f", "-", stdin=json.dumps(definition), check=True)
        put_into_etcd(plane, OWNER, "jobs")
        assert plane.kubectl("get", "job", "train", "-n", "default", "-o", "jsonpath={.spec.suspend}").stdout == "true"
        for obj in OBJECTS:
            put_into_etcd(plane, obj)
        with follower(plane, tmp_path_factory.mktemp("serve")) as process:
            process.ready()
            made = Server(plane)
            yield made
            made.close()


def read(server: Server, obj: Raw, version: str) -> Raw:
    status, found = server.ask("GET", server.path({**obj, "apiVersion": f"kueue.x-k8s.io/{version}"}, named=True))
    assert status == 200, found
    del found["metadata"]["resourceVersion"]
    return found


@EACH
def test_it_reads_as_it_was_stored(server: Server, stored: Raw) -> None:
    assert read(server, stored, stored["apiVersion"].split("/")[1]) == stored


@EACH
def test_its_other_version_has_the_same_meaning(server: Server, stored: Raw) -> None:
    (other,) = {"v1beta1", "v1beta2"} - {stored["apiVersion"].split("/")[1]}
    seen = read(server, stored, other)
    assert convert(seen, stored["apiVersion"].split("/")[1]) == stored


@EACH
def test_a_write_that_changes_nothing_is_taken_and_leaves_it_as_it_is(server: Server, stored: Raw) -> None:
    path = server.path({**stored, "apiVersion": "kueue.x-k8s.io/v1beta2"}, named=True)
    before = server.ask("GET", path)[1]
    status, after = server.ask("PUT", f"{path}?dryRun=All", before)
    assert status == 200, after
    managed = "managedFields"
    for found in (before, after):
        found["metadata"].pop(managed, None)
    assert after == before


def test_kueues_definitions_are_replaced_by_seiretsus(server: Server) -> None:
    shown = server.plane.kubectl("get", "crd", "-o", "json", check=True).stdout
    found = {each["metadata"]["name"]: each for each in json.loads(shown)["items"]}
    for wanted in crds.definitions({"url": "https://x/convert"}):
        ours = found[wanted["metadata"]["name"]]
        assert ours["spec"]["versions"] == wanted["spec"]["versions"]
        assert ours["spec"]["names"] == wanted["spec"]["names"] == ours["status"]["acceptedNames"]
        if "conversion" in wanted["spec"]:
            assert ours["spec"]["conversion"]["webhook"]["clientConfig"].keys() == {"url", "caBundle"}


def test_what_v1beta1_called_otherwise_has_its_new_name(server: Server) -> None:
    queue, local, workload = OBJECTS[-3:]
    found = read(server, queue, "v1beta2")
    assert found["spec"]["cohortName"] == "all"
    assert found["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "capacity"}]}
    assert found["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    assert read(server, local, "v1beta2")["status"]["flavorsUsage"] == local["status"]["flavorUsage"]
    newer = read(server, workload, "v1beta2")
    assert newer["spec"]["priorityClassRef"] == {
        "group": "scheduling.k8s.io",
        "kind": "PriorityClass",
        "name": "low",
    }
    assert newer["status"]["accumulatedPastExecutionTimeSeconds"] == 7
    (assignment,) = newer["status"]["admission"]["podSetAssignments"]
    assert assignment["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
    assert sum(part["domainCount"] for part in assignment["topologyAssignment"]["slices"]) == 1


def test_quota_and_usage_are_in_the_same_fields_for_clients_of_v01(server: Server) -> None:
    found = read(server, OBJECTS[1], "v1alpha1")
    cpu, memory = found["spec"]["resources"]
    assert cpu == {"name": "cpu", "flavors": [{"name": "spot", "quota": {"min": "40", "max": "50"}}]}
    assert memory == {"name": "memory", "flavors": [{"name": "spot", "quota": {"min": "160Gi"}}]}
    assert found["status"] == {
        "pendingWorkloads": 3,
        "admittedWorkloads": 1,
        "usedResources": {
            "cpu": {"spot": {"total": "41", "borrowing": "1"}},
            "memory": {"spot": {"total": "64Gi"}},
        },
    }
