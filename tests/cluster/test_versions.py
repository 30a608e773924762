"""Manifests of every version with real kubectl: those written for v0.1 and 0.9 work, and no field is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import convert
from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.api.objects import VALID
from tests.eventually import eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

Done = subprocess.CompletedProcess[str]

V01 = """
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ResourceFlavor
metadata: {name: spot}
labels: {cloud.provider.com/vm-family: c2}
taints: [{key: cloud.provider.com/preemptible, value: "true", effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ClusterQueue
metadata: {name: tenant-a}
spec:
  cohort: borrowing-cohort
  namespaceSelector: {}
  resources:
  - name: nvidia.com/gpus
    flavors: [{name: k80, quota: {min: 10, max: 20}}]
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: Queue
metadata: {name: main, namespace: default}
spec: {clusterQueue: tenant-a}
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: Cohort
metadata: {name: branch}
spec: {parent: root}
"""
V1BETA1 = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a-cq}
spec:
  namespaceSelector: {}
  cohort: team-ab
  flavorFungibility: {whenCanBorrow: Borrow}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default-flavor
      resources: [{name: cpu, nominalQuota: 9, borrowingLimit: 1}]
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own, with our app."""
    directory: Path = tmp_path_factory.mktemp("serve")
    with ControlPlane.start(spec=Spec(nodes=())) as started, serving(started.kubeconfig, directory) as process:
        process.ready()
        yield started


def apply(plane: ControlPlane, text: str, *arguments: str) -> Done:
    return plane.kubectl("apply", "-f", "-", *arguments, stdin=text)


def read(plane: ControlPlane, resource: str, name: str, version: str = "v1beta2", *arguments: str) -> Raw:
    shown = plane.kubectl("get", f"{resource}.{version}.kueue.x-k8s.io", name, "-o", "json", *arguments, check=True)
    found: Raw = json.loads(shown.stdout)
    return found


def test_manifests_of_the_first_version_apply_and_mean_the_same_today(plane: ControlPlane) -> None:
    done = apply(plane, V01)
    assert done.returncode == 0, done.stderr
    assert "This version is deprecated. Use v1beta2 instead." in done.stderr
    assert read(plane, "resourceflavors", "spot")["spec"] == {
        "nodeLabels": {"cloud.provider.com/vm-family": "c2"},
        "nodeTaints": [{"key": "cloud.provider.com/preemptible", "value": "true", "effect": "NoSchedule"}],
    }
    (group,) = read(plane, "clusterqueues", "tenant-a")["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"] == [{"name": "nvidia.com/gpus", "nominalQuota": 10, "borrowingLimit": 10}]
    assert read(plane, "cohorts", "branch")["spec"] == {"parentName": "root"}
    assert read(plane, "queues", "main", "v1alpha1")["spec"] == {"clusterQueue": "tenant-a"}


def test_a_queue_of_v01_acts_through_a_local_queue_and_ends_with_it(plane: ControlPlane) -> None:
    queue = V01.split("---")[2].replace("name: main", "name: v01")
    apply(plane, queue)

    def mirrored() -> str:
        return plane.kubectl("get", "localqueue", "v01", "-o", "jsonpath={.spec.clusterQueue}").stdout

    def told() -> str:
        status = "jsonpath={.status.pendingWorkloads}"
        return plane.kubectl("get", "queues.v1alpha1.kueue.x-k8s.io", "v01", "-o", status).stdout

    asyncio.run(eventually(lambda: (mirrored(), told()) == ("tenant-a", "0")))
    plane.kubectl("delete", "queues.v1alpha1.kueue.x-k8s.io", "v01", check=True)
    asyncio.run(eventually(lambda: mirrored() == ""))


def test_a_queue_of_v01_may_name_its_cluster_queue_later(plane: ControlPlane) -> None:
    queue = V01.split("---")[2].replace("name: main", "name: later")
    apply(plane, queue.replace("{clusterQueue: tenant-a}", "{}"))

    def named() -> list[str]:
        shown = plane.kubectl("get", "localqueue", "later", "-o", "jsonpath={.metadata.name},{.spec.clusterQueue}")
        return shown.stdout.split(",")

    asyncio.run(eventually(lambda: named() == ["later", ""]))
    apply(plane, queue)
    asyncio.run(eventually(lambda: named() == ["later", "tenant-a"]))
    plane.kubectl("delete", "queues.v1alpha1.kueue.x-k8s.io", "later", check=True)


def test_applying_the_same_manifests_again_changes_nothing(plane: ControlPlane) -> None:
    apply(plane, V01 + "---" + V1BETA1)
    again = apply(plane, V01 + "---" + V1BETA1)
    assert {line.rsplit(" ", 1)[1] for line in again.stdout.splitlines()} == {"unchanged"}, again.stdout


def test_an_older_manifest_reads_back_as_it_was_written(plane: ControlPlane) -> None:
    apply(plane, V1BETA1)
    assert read(plane, "clusterqueues", "team-a-cq")["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    seen = read(plane, "clusterqueues", "team-a-cq", "v1beta1")["spec"]
    assert seen["flavorFungibility"]["whenCanBorrow"] == "Borrow"
    assert seen["cohort"] == "team-ab"


APPLIED = """
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ClusterQueue
metadata: {name: applied}
spec:
  cohort: borrowing-cohort
  namespaceSelector: {}
  resources:
  - name: cpu
    flavors: [{name: spot, quota: {min: 10, max: 20}}, {name: k80, quota: {min: 5}}]
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ResourceFlavor
metadata: {name: applied}
labels: {a: b, c: d}
"""


def test_what_is_taken_out_of_an_older_manifest_goes_by_server_side_apply_too(plane: ControlPlane) -> None:
    def told() -> bool:  # another manager has written the stored version meanwhile
        return bool(read(plane, "clusterqueues", "applied").get("status", {}).get("conditions"))

    ours = ("--server-side", "--field-manager=test")
    assert apply(plane, APPLIED, *ours).returncode == 0
    asyncio.run(eventually(told))
    plane.kubectl("annotate", "flavor", "applied", "by=another", check=True)
    less = APPLIED.replace(", max: 20", "").replace(", {name: k80, quota: {min: 5}}", "").replace(", c: d", "")
    assert apply(plane, less, *ours).returncode == 0
    (group,) = read(plane, "clusterqueues", "applied")["spec"]["resourceGroups"]
    assert group["flavors"] == [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 10}]}]
    assert read(plane, "resourceflavors", "applied")["spec"] == {"nodeLabels": {"a": "b"}}
    plane.kubectl("delete", "cq/applied", "flavor/applied", "--wait=false", check=True)


def test_an_older_manifest_of_the_wrong_form_is_refused_with_the_right_form(plane: ControlPlane) -> None:
    done = apply(plane, V01.split("---")[1].replace("{min: 10, max: 20}", "10"), "--dry-run=server")
    assert done.returncode == 1
    wrong = 'spec.resources[0].flavors[0].quota: Invalid value: "integer"'
    assert f'The ClusterQueue "tenant-a" is invalid: \n* {wrong}' in done.stderr


def test_an_old_client_that_replaces_an_object_loses_nothing_of_it(plane: ControlPlane) -> None:
    apply(plane, V1BETA1)
    plane.kubectl("patch", "cq", "team-a-cq", "--type=merge", "-p", '{"spec":{"stopPolicy":"Hold"}}', check=True)
    old = read(plane, "clusterqueues", "team-a-cq", "v1alpha1")
    old["spec"]["resources"][0]["flavors"][0]["quota"] = {"min": "12", "max": "15"}
    done = plane.kubectl("replace", "-f", "-", stdin=json.dumps(old))
    assert done.returncode == 0, done.stderr
    spec = read(plane, "clusterqueues", "team-a-cq")["spec"]
    assert spec["stopPolicy"] == "Hold"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "12", "borrowingLimit": "3"}
    ]
    plane.kubectl("delete", "cq", "team-a-cq", "--wait=false", check=True)


def test_the_status_of_a_queue_reads_as_v01_wrote_it(plane: ControlPlane) -> None:
    apply(plane, V01)
    usage = [{"name": "k80", "resources": [{"name": "nvidia.com/gpus", "total": "12", "borrowed": "2"}]}]
    status = json.dumps({"status": {"flavorsUsage": usage}})
    shown = plane.kubectl(
        *("patch", "clusterqueues.v1beta2.kueue.x-k8s.io", "tenant-a", "--subresource=status", "--type=merge"),
        *("-p", status, "--dry-run=server", "-o", "json"),
        check=True,
    )
    stored: Raw = json.loads(shown.stdout)
    old = convert.convert(stored, "v1alpha1")
    assert old["status"]["usedResources"] == {"nvidia.com/gpus": {"k80": {"total": "12", "borrowing": "2"}}}


@pytest.mark.parametrize("kind", sorted(set(VALID)))
def test_an_object_of_each_kind_can_be_read_in_every_version(plane: ControlPlane, kind: str) -> None:
    obj = VALID[kind]()
    obj["metadata"]["name"] = f"versions-{kind.lower()}"
    done = apply(plane, json.dumps(obj))
    assert done.returncode == 0, done.stderr
    found = plane.kubectl("get", kind.lower(), obj["metadata"]["name"], "-o", "json", check=True)
    stored: Raw = json.loads(found.stdout)
    for version in ("v1beta1", "v1beta2"):
        resource = f"{kind.lower()}.{version}.kueue.x-k8s.io"
        shown = plane.kubectl("get", resource, obj["metadata"]["name"], "-o", "json", check=True)
        seen: Raw = json.loads(shown.stdout)
        assert seen["apiVersion"] == f"kueue.x-k8s.io/{version}"
        assert convert.convert(seen, "v1beta2").get("spec") == stored.get("spec")


def test_queue_and_queues_mean_local_queues_although_there_is_a_kind_queue(plane: ControlPlane) -> None:
    made = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: today}\nspec: {clusterQueue: a}\n"
    assert apply(plane, made).returncode == 0
    for name in ("queue", "queues", "lq", "localqueue"):
        shown = plane.kubectl("get", name, "today", "-o", "name", check=True).stdout
        assert shown == "localqueue.kueue.x-k8s.io/today\n"
        for verb in (["label", "--overwrite", name, "today", f"by={name}"], ["annotate", name, "today", f"{name}=x"]):
            plane.kubectl(*verb, check=True)
        assert "Cluster Queue:  a" in plane.kubectl("describe", name, "today", check=True).stdout
        stop = ("--type=merge", "-p", '{"spec":{"stopPolicy":"Hold"}}')
        assert plane.kubectl("patch", name, "today", *stop, check=True).stdout.startswith("localqueue.kueue.x-k8s.io/")
    assert read(plane, "localqueues", "today")["metadata"]["labels"] == {"by": "localqueue"}
    # With its group the name is the kind's, so that what `-o name` prints of a Queue can be given back to kubectl.
    for name in ("queue.kueue.x-k8s.io", "queue.v1alpha1.kueue.x-k8s.io", "queues.kueue.x-k8s.io"):
        assert "today" not in plane.kubectl("get", name, "-o", "name", check=True).stdout
    assert plane.kubectl("delete", "queue", "today", check=True).stdout.startswith("localqueue.kueue.x-k8s.io")


SHORTHANDS = {
    "a selector of bare labels would select all": (
        """
        apiVersion: kueue.x-k8s.io/{version}
        kind: ClusterQueue
        metadata: {{name: short}}
        spec: {{namespaceSelector: {{team: team-a}}}}
        """,
        "spec.namespaceSelector.team: Forbidden: unknown field; it would be dropped and leave a selector that matches"
        " more namespaces than meant (write matchLabels: {team: ...})",
        ("v1beta2", "v1beta1", "v1alpha1"),
    ),
    "a quota beside the name would be zero": (
        """
        apiVersion: kueue.x-k8s.io/{version}
        kind: ClusterQueue
        metadata: {{name: short}}
        spec: {{resources: [{{name: cpu, flavors: [{{name: c2, min: 1000}}]}}]}}
        """,
        "spec.resources[0].flavors[0]: Invalid value: write the quota of a flavor as quota: {min: ..., max: ...}; min"
        " and max beside the name would be lost",
        ("v1alpha1",),
    ),
}


@pytest.mark.parametrize(("text", "message", "versions"), SHORTHANDS.values(), ids=SHORTHANDS.keys())
@pytest.mark.parametrize("validation", ["strict", "ignore"])
def test_a_shorthand_that_would_lose_its_meaning_is_refused_with_the_fix(
    plane: ControlPlane, text: str, message: str, versions: tuple[str, ...], validation: str
) -> None:
    for version in versions:
        done = apply(plane, text.format(version=version), f"--validate={validation}")
        assert done.returncode == 1
        assert message in done.stderr


SELECTOR, BARE_QUOTA = (message for _, message, _ in SHORTHANDS.values())
PATCHES = {
    "v1beta2": ({"namespaceSelector": {"team": "team-a"}}, SELECTOR),
    "v1beta1": ({"namespaceSelector": {"team": "team-a"}}, SELECTOR),
    "v1alpha1": ({"resources": [{"name": "cpu", "flavors": [{"name": "c2", "min": 1000}]}]}, BARE_QUOTA),
}


@pytest.mark.parametrize(("spec", "message"), PATCHES.values(), ids=PATCHES.keys())
def test_a_shorthand_is_refused_in_whatever_way_it_comes(
    plane: ControlPlane, request: pytest.FixtureRequest, spec: Raw, message: str
) -> None:
    apply(plane, V01)
    version = request.node.callspec.id
    obj = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue", "metadata": {"name": "short"}}
    text = json.dumps({**obj, "spec": spec})
    there = f"clusterqueues.{version}.kueue.x-k8s.io"
    for done in (
        plane.kubectl("create", "-f", "-", stdin=text),
        plane.kubectl("apply", "-f", "-", stdin=text),
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=text),
        plane.kubectl("patch", there, "tenant-a", "--type=merge", "-p", json.dumps({"spec": spec})),
        plane.kubectl(
            "replace", "-f", "-", stdin=json.dumps(_renewed(read(plane, "clusterqueues", "tenant-a", version), spec))
        ),
    ):
        assert done.returncode == 1, done.args
        assert message in done.stderr, done.args


def _renewed(obj: Raw, spec: Raw) -> Raw:
    return {**obj, "spec": {**obj["spec"], **spec}}


def test_a_lost_ca_bundle_of_the_conversion_is_put_back(plane: ControlPlane) -> None:
    wrong = base64.b64encode(b"nobody").decode()
    path = "/spec/conversion/webhook/clientConfig/caBundle"
    removed = json.dumps([{"op": "remove", "path": path}])
    plane.kubectl("patch", "crd", "cohorts.kueue.x-k8s.io", "--type=json", "-p", removed, check=True)

    def restored() -> bool:
        shown = plane.kubectl("get", "crd", "cohorts.kueue.x-k8s.io", "-o", "json", check=True)
        config = json.loads(shown.stdout)["spec"]["conversion"]["webhook"]["clientConfig"]
        return config.get("caBundle") not in (None, wrong)

    asyncio.run(eventually(restored))
