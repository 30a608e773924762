"""What a user with `edit` in one namespace learns on a real control plane, with the roles of the chart: everything
about his own jobs and his queue, and no name of another tenant.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from api.objects import Raw
from controller.kube import config
from core.wire.timestamps import epoch
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from seiretsu.client import Queue
from seiretsu.client.http import Api
from tests.cluster.accounts import tenant
from tests.cluster.charted import NAMESPACE, ROOT, deployed, install
from tests.eventually import PATIENCE, WAIT, until

pytestmark = pytest.mark.cluster

EXAMPLES = ROOT / "examples"
STANDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{}/{}/{}/standing"
OF_OTHERS = ("team-b", "secret")
"""Words that are in every name of the other tenant: its namespace, ClusterQueue and job."""


class Tenants(NamedTuple):
    """A control plane in which a job of `team-b` holds all quota of both teams, and a job of `team-a` waits."""

    plane: ControlPlane
    user: Path
    """The kubeconfig of the user with `edit` in `team-a`."""

    def asked(self, path: str, kubeconfig: Path | None = None) -> Raw:
        done = self.plane.kubectl("get", "--raw", path, f"--kubeconfig={kubeconfig or self.user}")
        found: Raw = json.loads(done.stdout) if done.returncode == 0 else {"refused": done.stderr}
        return found

    def ran(self, *words: str, kubeconfig: Path | None = None) -> str:
        """The output of the plugin."""
        program = [sys.executable, "-c", "from cli.main import plugin; plugin()", *words]
        words = (*program, "-n", "team-a", "--kubeconfig", str(kubeconfig or self.user))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return done.stdout + done.stderr


def job(name: str, namespace: str, pods: int, cpu: str) -> str:
    manifest = yaml.safe_load((EXAMPLES / "jobs" / "train.yaml").read_text())
    manifest["metadata"] = {"name": name, "namespace": namespace, "labels": manifest["metadata"]["labels"]}
    manifest["spec"] |= {"parallelism": pods, "completions": pods}
    manifest["spec"]["template"]["metadata"] = {"annotations": {"seiretsu.dev/run-for": "3600s"}}
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return json.dumps(manifest)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    directory = tmp_path_factory.mktemp("tenants")
    # with a node the pods of the Deployment are ready, so that the APIService has endpoints
    with ControlPlane.start(spec=Spec(nodes=(NodeGroup(labels={"seiretsu.dev/pool": "standard"}),))) as plane:
        plane.kubectl("create", "namespace", NAMESPACE, check=True)
        install(plane, directory)
        with deployed(plane, directory) as served:
            served.ready()
            plane.kubectl("apply", "-f", str(EXAMPLES / "queues.yaml"), check=True)
            plane.kubectl(
                *WAIT, "--for=condition=Available", "apiservice/v1beta2.visibility.kueue.x-k8s.io", check=True
            )
            plane.kubectl("create", "-f", "-", stdin=job("secret-train", "team-b", 4, "4"), check=True)
            holds = ("workloads", "-n", "team-b", "--all", "--for=condition=Admitted")
            until(lambda: plane.kubectl("get", "workloads", "-n", "team-b", "-o", "name").stdout != "")
            plane.kubectl(*WAIT, *holds, check=True)
            made = Tenants(plane, tenant(plane, "team-a", directory))
            first = plane.kubectl("create", "-f", "-", "-o", "json", stdin=job("first", "team-a", 2, "2"), check=True)
            created = epoch(json.loads(first.stdout)["metadata"]["creationTimestamp"])
            until(lambda: time.time() > created + 2)  # the order of the same second is that of uids
            plane.kubectl("create", "-f", "-", stdin=job("second", "team-a", 1, "1"), check=True)
            until(lambda: len(made.asked(STANDING.format("team-a", "localqueues", "main")).get("workloads") or ()) == 2)
            yield made
            assert served.stop() == 0


def test_explain_and_when_are_complete_and_name_no_other_tenant(tenants: Tenants) -> None:
    told = tenants.ran("explain", "first")
    assert "waiting in ClusterQueue team-a, queue position 1 of 2" in told
    assert "insufficient unused quota for cpu in flavor standard, 4 more needed" in told
    assert "1 other workload in other ClusterQueues: 16 cpu in standard" in told
    assert "it fits when 1 workload of another namespace ends" in told
    second = tenants.ran("explain", "second")
    assert "behind team-a/first" in second
    when = tenants.ran("when", "second")
    assert "queue position 2 of 2 in ClusterQueue team-a; it lacks 1 cpu in flavor standard" in when
    shown = tenants.ran("explain", "second", "-o", "json")
    assert json.loads(shown)["notReadable"] == []
    for text in (told, second, when, shown):
        assert "Your rights do not show" not in text
        assert not [word for word in OF_OTHERS if word in text], text


def test_the_limits_of_the_queue_are_read_with_kubectl(tenants: Tenants) -> None:
    found = tenants.asked(STANDING.format("team-a", "localqueues", "main"))
    cpu = next(each for each in found["flavors"][0]["resources"] if each["name"] == "cpu")
    assert (cpu["nominal"], cpu["borrowingLimit"], cpu["available"], cpu["reserved"]) == ("8", "4", "0", "0")
    memory = next(each for each in found["flavors"][0]["resources"] if each["name"] == "memory")
    assert (memory["nominal"], memory["available"], memory["borrowable"]) == ("32Gi", "60Gi", "28Gi")
    assert [each["metadata"]["ownerReferences"][0]["name"] for each in found["workloads"]] == ["first", "second"]
    assert not [word for word in OF_OTHERS if word in json.dumps(found)]


def test_the_namespace_of_another_tenant_can_not_be_asked_about(tenants: Tenants) -> None:
    for resource, name in (("localqueues", "main"), ("workloads", "job-secret-train")):
        assert "orbidden" in tenants.asked(STANDING.format("team-b", resource, name))["refused"]


def test_the_python_client_has_the_same_answer(tenants: Tenants) -> None:
    connection = config.load(tenants.user)
    assert connection.tls is not None
    token = json.loads(tenants.user.read_text())["users"][0]["user"]["token"]
    queue = Queue(Api(connection.server, connection.tls, lambda: f"Bearer {token}"), "main", "team-a")
    stands, job = queue.standing(), queue.find("second").standing()
    assert stands is not None
    assert job is not None
    (cpu,) = [each for each in stands.limits if each.resource == "cpu"]
    assert [cpu.nominal, cpu.borrowing_limit, cpu.available] == [8, 4, 0]
    assert (job.state, job.position, job.waiting) == ("waiting", 2, 2)
    assert job.would_help[0] == "it fits when 1 workload of another namespace ends"


def test_who_may_view_the_other_namespace_too_sees_its_workloads_by_name(tenants: Tenants, tmp_path: Path) -> None:
    plane = tenants.plane
    plane.kubectl("create", "serviceaccount", "both", "-n", "team-a", check=True)
    for namespace in ("team-a", "team-b"):
        words = ("rolebinding", "both", "--clusterrole=view", "--serviceaccount=team-a:both", "-n", namespace)
        plane.kubectl("create", *words, check=True)
    file = plane.kubeconfig_of("team-a", "both", tmp_path)
    until(lambda: "team-b/secret-train" in tenants.ran("explain", "first", kubeconfig=file))
    told = tenants.ran("explain", "first", kubeconfig=file)
    assert "it fits when team-b/secret-train ends" in told


def test_kubectl_and_clients_of_kueue_find_what_they_know(tenants: Tenants) -> None:
    """`workloads` of kubectl are Kueue's objects, though the visibility API has a subresource of that name."""
    listed = tenants.plane.kubectl("get", "workloads", "-n", "team-a", "-o", "name", f"--kubeconfig={tenants.user}")
    assert listed.returncode == 0, listed.stderr
    assert all(each.startswith("workload.kueue.x-k8s.io/") for each in listed.stdout.split())
    pending = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team-a/localqueues/main/pendingworkloads"
    items = tenants.asked(pending)["items"]
    fields = {"metadata", "priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"}
    assert [set(each) for each in items] == [fields, fields]
