"""What a person reads in kubectl: of a Job that is refused, of one that is warned of, and while we are down."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from api.names import Label
from core.model import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.core.feedback.world import TEAMS
from tests.eventually import eventually
from tests.serving import AS_US, Served, serving

pytestmark = pytest.mark.cluster

Done = subprocess.CompletedProcess[str]
DENY = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  feedback:
    rules:
    - {name: request-too-large, action: Deny, namespaceSelector: {matchLabels: {team: b}}}
    - {name: will-wait, action: Ignore}
"""


@pytest.fixture(scope="module")
def bare() -> Iterator[ControlPlane]:
    """A control plane of this module's own, without nodes."""
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


@pytest.fixture(scope="module")
def served(bare: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(DENY)
    with serving(bare.kubeconfig, directory, "--config", str(directory / "config.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def plane(bare: ControlPlane, served: Served) -> ControlPlane:
    """The control plane with our app and the two teams."""
    objects: list[Raw] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}", "labels": {"team": team}}}
        for team in "ab"
    ]
    teams = [{"apiVersion": "kueue.x-k8s.io/v1beta2", **raw} for raw in yaml.safe_load(TEAMS)]
    classes = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 1000}
    teams.append({**classes, "metadata": {"name": "urgent"}})
    apply(bare, "apply", *objects, *teams, check=True)
    # The caches follow what was just written: from the first Job that nothing is said of, they know it all.
    asyncio.run(eventually(lambda: not apply(bare, "create", job(), dry_run=True).stderr))
    return bare


def apply(plane: ControlPlane, verb: str, *objects: Raw, check: bool = False, dry_run: bool = False) -> Done:
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)} if len(objects) > 1 else objects[0])
    arguments = ["--dry-run=server"] if dry_run else []
    return plane.kubectl(verb, "-f", "-", *arguments, stdin=stdin, check=check)


def job(queue: str = "main", namespace: str = "team-a", name: str = "train", **changes: Any) -> Raw:
    requests = {"cpu": changes.pop("cpu", "1"), "memory": "1Gi"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    labels = {Label.QUEUE_NAME: queue, **changes.pop("labels", {})} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **changes},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_a_misspelt_queue_is_warned_of_with_the_name_that_was_meant(plane: ControlPlane) -> None:
    done = apply(plane, "create", job("mian"), dry_run=True)
    assert done.stdout == "job.batch/train created (server dry run)\n"
    assert done.stderr == ('Warning: LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?\n')


def test_a_request_that_can_never_fit_is_warned_of_with_the_figures(plane: ControlPlane) -> None:
    done = apply(plane, "create", job(cpu="20"), dry_run=True)
    assert done.stderr == (
        'Warning: never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard (8 own, 4 borrowed);'
        " ask for 12 or less\n"
    )


def test_a_rule_set_to_deny_refuses_the_job(plane: ControlPlane) -> None:
    done = apply(plane, "create", job(namespace="team-b", cpu="20"), dry_run=True)
    assert done.returncode == 1
    assert done.stderr == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook "vjob.kb.io" denied the request:'
        ' never starts: asks for 20 cpu, ClusterQueue "team-b" allows 16 in standard (8 own, 8 borrowed);'
        " ask for 16 or less (rule request-too-large)\n"
    )


def test_a_valid_job_is_created_suspended_without_a_warning(plane: ControlPlane) -> None:
    done = plane.kubectl("create", "-f", "-", "-o", "json", "--dry-run=server", stdin=json.dumps(job()))
    assert json.loads(done.stdout)["spec"]["suspend"] is True
    assert done.stderr == ""


def test_a_dry_run_leaves_nothing_behind(plane: ControlPlane) -> None:
    apply(plane, "create", job(name="dry"), dry_run=True)
    found = plane.kubectl("get", "jobs,workloads,events", "-n", "team-a", "-o", "name", check=True)
    assert "dry" not in found.stdout


def test_a_waiting_job_that_is_unsuspended_by_hand_stays_suspended_and_where_that_was_bypassed_it_is_suspended_again(
    plane: ControlPlane,
) -> None:
    apply(plane, "create", job(name="eager", cpu="20"), check=True)
    patch = ("patch", "job", "eager", "-n", "team-a", "-p", '{"spec":{"suspend":false}}')
    kept = plane.kubectl(*patch)
    assert (kept.returncode, kept.stderr) == (
        0,
        'Warning: spec.suspend stays true: the job waits in LocalQueue "main" and starts when it is admitted\n',
    )
    found = plane.kubectl("get", "job", "eager", "-n", "team-a", "-o", "jsonpath={.spec.suspend}", check=True)
    assert found.stdout == "true"
    plane.kubectl(*patch, *AS_US, check=True)

    def suspended() -> bool:
        found = plane.kubectl("get", "job", "eager", "-n", "team-a", "-o", "jsonpath={.spec.suspend}")
        return found.stdout == "true"

    asyncio.run(eventually(suspended))
    plane.kubectl("delete", "job", "eager", "-n", "team-a", check=True)


def test_administrators_are_warned_in_kubectl_too(plane: ControlPlane) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "lost", "namespace": "team-a"},
        "spec": {"clusterQueue": "taem-a"},
    }
    done = apply(plane, "create", queue, dry_run=True)
    assert done.stderr == (
        'Warning: ClusterQueue "taem-a" does not exist: jobs of this LocalQueue wait until it is created;'
        ' did you mean "team-a"?\n'
    )
    deleted = plane.kubectl("delete", "resourceflavor", "spot", "--dry-run=server")
    assert deleted.stderr == (
        "Warning: ClusterQueue team-b uses this flavor: it is deleted only after it removes it from resourceGroups\n"
    )


def test_a_flavor_that_no_node_has_is_warned_of(plane: ControlPlane) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "only", "labels": {"pool": "standard"}}}
    apply(plane, "create", node, check=True)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "fast"},
        "spec": {"nodeLabels": {"pool": "fast"}},
    }
    warning = (
        "Warning: the only node lacks the labels pool=fast: its pods stay pending; label nodes or change nodeLabels\n"
    )
    asyncio.run(eventually(lambda: apply(plane, "create", flavor, dry_run=True).stderr == warning))
    flavor["spec"] = {"nodeLabels": {"pool": "standard"}}
    assert apply(plane, "create", flavor, dry_run=True).stderr == ""


def test_system_namespaces_and_the_namespace_of_seiretsu_are_not_managed(plane: ControlPlane) -> None:
    for namespace in ("kube-system",):
        done = plane.kubectl(
            "create", "-f", "-", "-o", "json", "--dry-run=server", stdin=json.dumps(job("anything", namespace))
        )
        assert json.loads(done.stdout)["spec"].get("suspend") in (None, False)


def test_while_serve_is_down_only_queued_jobs_are_blocked(plane: ControlPlane, served: Served) -> None:
    """The last test of this module: it ends Seiretsu."""
    assert served.stop() == 0
    unqueued = apply(plane, "create", job("", "default", name="plain"))
    assert (unqueued.returncode, unqueued.stderr) == (0, "")
    assert apply(plane, "apply", {**job("", "default", name="plain")}).returncode == 0
    queued = apply(plane, "create", job("main", "default", name="queued"))
    assert queued.returncode == 1
    assert 'failed calling webhook "mjob.kb.io"' in queued.stderr
    assert "connection refused" in queued.stderr
    assert plane.kubectl("create", "configmap", "a", "-n", "default").returncode == 0
