"""`seiretsu migrate` takes a cluster over from Kueue and gives it back, under a steady load of new Jobs.

tests/cluster/kueue_installed.py is Kueue here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import RUN_FOR, NodeGroup
from tests.cluster.charted import CHART, RELEASE, creates, deployed, get, helm, values_file
from tests.cluster.kueue_installed import DEPLOYMENT, NAMESPACE, Kueue
from tests.eventually import PATIENCE, until

pytestmark = pytest.mark.cluster

TEAM, LOAD = "team", "load"
QUEUES = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Namespace
metadata: {name: load}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: 4}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: team}
spec: {clusterQueue: team}
"""
ROOT = Path(__file__).parents[2]
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: two programs share its CRDs."""
    with ControlPlane.start(spec=Spec(nodes=(NodeGroup(),))) as started:
        yield started


def seiretsu(plane: ControlPlane, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "migrate", *words],
        cwd=ROOT, env=plane.environment(), capture_output=True, text=True, check=False, timeout=3 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def job(name: str, queue: str = "main", cpu: int = 4) -> Raw:
    template = {
        "metadata": {"annotations": {RUN_FOR: "24h"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"template": template},
    }


def create(plane: ControlPlane, namespace: str, raw: Raw) -> tuple[int, Raw]:
    status, body = plane.administrator.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", raw)
    return status, json.loads(body)


def admitted(plane: ControlPlane) -> None:
    """Two Jobs as Kueue has them: one that runs, and one that waits for its quota."""
    for name in ("runs", "waits"):
        status, made = create(plane, TEAM, job(name))
        assert (status, made["spec"]["suspend"]) == (201, True)
        if "KUEUE_MANAGER" in os.environ:
            if name == "runs":
                until(lambda: not suspended(plane, "runs"))
            continue
        metadata = {
            "name": f"job-{name}-5c8a1",
            "namespace": TEAM,
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "labels": {"kueue.x-k8s.io/job-uid": made["metadata"]["uid"]},
            "ownerReferences": [
                {
                    **{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"]},
                    **{"controller": True, "blockOwnerDeletion": True},
                }
            ],
        }
        template = {**made["spec"]["template"], "metadata": {}}
        pods = {"name": "main", "count": 1, "template": template}
        spec = {"queueName": "main", "priority": 0, "active": True, "podSets": [pods]}
        workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}
        plane.kubectl("create", "-f", "-", stdin=json.dumps(workload), check=True)
        if name == "runs":
            assigned = {"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "4"}, "count": 1}
            admission = {"clusterQueue": "team", "podSetAssignments": [assigned]}
            true = {"status": "True", "lastTransitionTime": "2026-05-02T08:00:00Z", "observedGeneration": 1}
            conditions = [
                {"type": "QuotaReserved", "reason": "QuotaReserved", "message": "Quota reserved", **true},
                {"type": "Admitted", "reason": "Admitted", "message": "The workload is admitted", **true},
            ]
            body = {"status": {"admission": admission, "conditions": conditions}}
            where = (metadata["name"], "-n", TEAM, "--subresource=status", "--type=merge")
            plane.kubectl("patch", "workload", *map(str, where), "-p", json.dumps(body), check=True)
            plane.kubectl("patch", "job", name, "-n", TEAM, "-p", '{"spec": {"suspend": false}}', check=True)
    until(lambda: get(plane, "job", "runs", "-n", TEAM)["status"].get("ready") == 1)


def suspended(plane: ControlPlane, name: str) -> bool:
    return bool(get(plane, "job", name, "-n", TEAM)["spec"]["suspend"])


def versions(plane: ControlPlane) -> dict[str, str]:
    """The version of everything that a migration writes."""
    found = [get(plane, each)["items"] for each in ("crd", *CONFIGURATIONS, "apiservices")]
    found.append(get(plane, "deployments,configmaps", "-n", NAMESPACE)["items"])
    marks = (each["metadata"] for items in found for each in items)
    # status of CRDs and the Deployments changes by itself
    return {f"{mark['uid']} {mark['name']}": str(mark.get("generation", mark["resourceVersion"])) for mark in marks}


def kueues(plane: ControlPlane) -> dict[str, Raw]:
    """What hand-back restores, without what the API server and Kueue itself write."""
    found: dict[str, Raw] = {}
    for kind in ("crd", *CONFIGURATIONS, "apiservices"):
        for raw in get(plane, kind)["items"]:
            name = raw["metadata"]["name"]
            if "kueue" in name:
                marks = {part: raw["metadata"].get(part) for part in ("labels", "annotations")}
                found[name] = {"webhooks": raw.get("webhooks"), "spec": raw.get("spec"), **marks}
    return found


def test_from_kueue_to_seiretsu_and_back(plane: ControlPlane, tmp_path: Path) -> None:
    kueue = Kueue(plane, tmp_path)
    kueue.install()
    with kueue.kubelet():
        plane.kubectl("apply", "-f", "-", stdin=QUEUES, check=True)
        admitted(plane)
        before = kueues(plane)
        untouched = jobs(plane)
        with creates(plane, LOAD) as wrong:
            beside_kueue = ("--set=crds.enabled=false", "--set=webhooks.failurePolicy=Ignore")
            values = values_file(tmp_path, {"visibilityServer": None})  # Kueue serves it
            installed = ("install", RELEASE, str(CHART), "--values", str(values), *beside_kueue)
            done = helm(plane, *installed, namespace=NAMESPACE)
            assert done.returncode == 0, done.stderr
            with deployed(plane, tmp_path, NAMESPACE) as served:
                served.ready()
                it_waits_for_kueue(plane, wrong)
                it_takes_over(plane, values, wrong)
                assert jobs(plane) == untouched
                seiretsu(plane, "hand-back")
                assert kueue.replicas() == 1
                assert "nothing was taken over" in seiretsu(plane, "hand-back", code=1)
                done = helm(plane, "uninstall", RELEASE, namespace=NAMESPACE)
                assert done.returncode == 0, done.stderr
                assert served.stop() == 0
            until(lambda: holder(plane).startswith(DEPLOYMENT))
            assert kueues(plane) == before
        assert wrong == []
        assert jobs(plane) == untouched


def it_waits_for_kueue(plane: ControlPlane, wrong: list[str]) -> None:
    assert holder(plane).startswith(DEPLOYMENT)
    waiting = len([raw for raw in get(plane, "workloads.kueue.x-k8s.io", "-A")["items"] if not admission(raw)])
    told = seiretsu(plane, "check")
    found = re.search(r"1 admitted and (\d+) waiting Workloads stay as they are", told)
    assert found is not None, told
    assert int(found[1]) >= waiting > 0, "Kueue's manager makes Workloads of the load, too"
    before = versions(plane)
    told = seiretsu(plane, "take-over", "--dry-run")
    assert f"would scale Deployment {NAMESPACE}/{DEPLOYMENT} to 0" in told
    assert versions(plane) == before
    assert wrong == []


def it_takes_over(plane: ControlPlane, values: Path, wrong: list[str]) -> None:
    seiretsu(plane, "take-over")
    again = seiretsu(plane, "take-over").splitlines()
    assert len(again) == 1, "a second run changes nothing"
    assert not holder(plane).startswith(DEPLOYMENT)
    names = [raw["metadata"]["name"] for each in CONFIGURATIONS for raw in get(plane, each)["items"]]
    assert not [name for name in names if "kueue" in name]
    older = plane.administrator.get(f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{TEAM}/workloads")
    assert older is not None
    assert len(older["items"]) == 2
    upgraded = ("upgrade", RELEASE, str(CHART), "--reset-values", "--values", str(values))
    done = helm(plane, *upgraded, namespace=NAMESPACE)
    assert done.returncode == 0, done.stderr
    assert plane.administrator.get("/apis/kueue.x-k8s.io/v1alpha1/queues") is not None
    assert wrong == []


def admission(workload: Raw) -> object:
    return workload.get("status", {}).get("admission")


def holder(plane: ControlPlane) -> str:
    found = get(plane, "lease", "c1f6bfd2.kueue.x-k8s.io", "-n", NAMESPACE)
    return str(found["spec"].get("holderIdentity", ""))


def jobs(plane: ControlPlane) -> dict[str, object]:
    """Jobs and pods with their versions, which every write changes, and what Workloads ask for and were given."""
    found = get(plane, "jobs,pods,workloads.kueue.x-k8s.io", "-n", TEAM)["items"]
    assert sorted(raw["kind"] for raw in found) == ["Job", "Job", "Pod", "Workload", "Workload"]
    return {
        f"{raw['kind']} {raw['metadata']['name']} {raw['metadata']['uid']}": (
            raw["metadata"]["resourceVersion"] if raw["kind"] != "Workload" else [raw["spec"], admission(raw)]
        )
        for raw in found
    }
