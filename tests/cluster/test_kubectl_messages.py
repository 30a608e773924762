"""What a person reads in kubectl: one case of each form (a warning, several, a cut one, a refusal), of each hook that
warns, and while we are down. The texts of all rules are a table in `tests/core/feedback`; what goes wrong on a first
day is in `test_first_day`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.names import Label
from core.model import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.core.feedback.world import TEAMS
from tests.eventually import WAIT, eventually
from tests.serving import AS_US, Served, serving

pytestmark = pytest.mark.cluster

Done = subprocess.CompletedProcess[str]
DENY = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  feedback:
    rules:
    - {name: dry-run, action: Ignore}  # a dry run stands for a create here
    - {name: request-too-large, action: Deny, namespaceSelector: {matchLabels: {team: b}}}
"""
ROOT = Path(__file__).parents[2]


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
    apply(bare, "create", job(name="runs", cpu="5", pods=2), check=True)
    bare.kubectl(*WAIT, "job/runs", "-n", "team-a", "--for=jsonpath={.spec.suspend}=false", check=True)
    apply(bare, "create", job(name="waits", cpu="7"), check=True)
    # The caches follow what was just written: from the first Job that nothing is said of, they know it all.
    asyncio.run(eventually(lambda: not apply(bare, "create", job(), dry_run=True).stderr))
    return bare


def apply(plane: ControlPlane, verb: str, *objects: Raw, check: bool = False, dry_run: bool = False) -> Done:
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)} if len(objects) > 1 else objects[0])
    arguments = ["--dry-run=server"] if dry_run else []
    return plane.kubectl(verb, "-f", "-", *arguments, stdin=stdin, check=check)


def job(queue: str = "main", namespace: str = "team-a", name: str = "train", **changes: Any) -> Raw:
    requests = {"cpu": changes.pop("cpu", "1"), "memory": "1Gi"}
    pods = changes.pop("pods", 1)
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    labels = {Label.QUEUE_NAME: queue, **changes.pop("labels", {})} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **changes},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def ours(kind: str, name: str, namespace: str = "", version: str = "v1beta2", **spec: Any) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def groups(cpu: int, flavor: str = "standard") -> list[Raw]:
    quota = [{"name": "cpu", "nominalQuota": cpu}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": quota}]}]


def workload(queue: str, **annotations: str) -> Raw:
    """A Workload that a user creates without a job."""
    pods = {"name": "main", "count": 1, "template": job()["spec"]["template"]}
    made = ours("Workload", "by-hand", "team-a", queueName=queue, podSets=[pods])
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


WARNED = {
    "one warning, with what was meant": (
        job("mian"),
        'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?',
    ),
    "one with figures": (
        job(cpu="20"),
        'never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard (8 own, 4 borrowed);'
        " ask for 12 or less",
    ),
    "several": (
        job(cpu="9", labels={Label.PRIORITY_CLASS: "urgnet"}),
        """WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?
asks for 9 cpu, own quota in standard is 8: starts only when 1 can be borrowed in cohort "research"; ask for 8 or less
will wait: asks for 9 cpu, 2 free in ClusterQueue "team-a", 7 missing; queue position 2; starts automatically""",
    ),
    "one that is cut": (
        ours("LocalQueue", "lost", "team-a", clusterQueue="c" * 100 + "d" * 100),
        'ClusterQueue "ccccccccccccccccccc..ddddddddddddddddddd" does not exist: jobs of this LocalQueue wait until'
        " it is created",
    ),
    "a label or annotation": (
        job(annotations={"kueue.x-k8s.io/job-min-paralelism": "1"}),
        "annotation kueue.x-k8s.io/job-min-paralelism is unknown and ignored: "
        "did you mean kueue.x-k8s.io/job-min-parallelism?",
    ),
    "a Workload": (workload("mian"), 'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?'),
    "a LocalQueue": (
        ours("LocalQueue", "lost", "team-a", clusterQueue="taem-a"),
        'ClusterQueue "taem-a" does not exist: jobs of this LocalQueue wait until it is created;'
        ' did you mean "team-a"?',
    ),
    "a Queue of v0.1": (
        ours("Queue", "main", "team-a", "v1alpha1", clusterQueue="team-b"),
        'LocalQueue "main" exists and points to ClusterQueue "team-a": this Queue has no effect; choose another name',
    ),
    "a ClusterQueue": (
        ours("ClusterQueue", "new", namespaceSelector={}, resourceGroups=groups(8, "standrad")),
        'ResourceFlavor "standrad" does not exist, the ClusterQueue is inactive: did you mean "standard"?',
    ),
    "a Cohort": (
        ours("Cohort", "new", resourceGroups=groups(1, "standrad")),
        'ResourceFlavor "standrad" does not exist, its quota in the cohort cannot be used: did you mean "standard"?',
    ),
    "a change of a running job": (
        ("patch", "job", "runs", "-n", "team-a", "--type=merge", "-p", '{"spec":{"parallelism":1}}'),
        "changing from 2 to 1 pods suspends this running job and requeues it; with 2 it continues to run",
    ),
    "a change of a label": (
        ("label", "job", "waits", "-n", "team-a", f"{Label.QUEUE_NAME}-"),
        'removes the job from LocalQueue "main": its queue position is lost; it stays suspended until resumed'
        " or queued again",
    ),
    "a change of a queue": (
        ("patch", "clusterqueue", "team-a", "--type=merge", "-p", '{"spec":{"stopPolicy":"HoldAndDrain"}}'),
        "HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish\n"
        "1 workload stops (job-runs), 1 waiting never starts (job-waits)",
    ),
    "a ClusterQueue that is deleted": (
        ("delete", "clusterqueue", "team-a"),
        "1 workload holds quota here and 1 waits: deleted when the last one finishes; HoldAndDrain evicts them now\n"
        "1 waiting never starts (job-waits)",
    ),
    "a LocalQueue that is deleted": (
        ("delete", "localqueue", "main", "-n", "team-a"),
        "1 workload waits here until this LocalQueue is created again; move it to another queue first;"
        " 1 running continues\n"
        "1 waiting never starts (job-waits)",
    ),
    "a flavor that is deleted": (
        ("delete", "resourceflavor", "spot"),
        "ClusterQueue team-b uses this flavor: it is deleted only after it removes it from resourceGroups",
    ),
}
"""What is asked (an object that is created, or a command), and the warnings: a line for each."""


@pytest.mark.parametrize(("asked", "text"), WARNED.values(), ids=WARNED)
def test_a_warning_lets_it_pass(plane: ControlPlane, asked: Raw | tuple[str, ...], text: str) -> None:
    if isinstance(asked, tuple):
        done = plane.kubectl(*asked, "--dry-run=server")
    else:
        done = apply(plane, "create", asked, dry_run=True)
    printed = re.sub(r"\b(job-[a-z]+)-[0-9a-f]{5}\b", r"\1", done.stderr)  # the names of Workloads
    told = [line for line in printed.splitlines() if "version is deprecated" not in line]
    assert (told, done.returncode) == ([f"Warning: {each}" for each in text.splitlines()], 0)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            ours(
                "ClusterQueue",
                "new",
                namespaceSelector={},
                resourceGroups=groups(8),
                queueingStrategy="StrictFIFO",
                concurrentAdmissionPolicy={"migration": {"mode": "TryPreferredFlavors"}},
            ),
            id="concurrent admission in strict order, without ConcurrentAdmission",
        ),
        pytest.param(
            workload("main", **{"kueue.x-k8s.io/priority-boost": "high"}),
            id="a boost that is no number, without PriorityBoost",
        ),
    ],
)
def test_objects_that_kueue_allows_by_default_are_allowed(plane: ControlPlane, made: Raw) -> None:
    done = apply(plane, "create", made, dry_run=True)
    assert done.returncode == 0, done.stderr


def shown() -> dict[str, str]:
    """What the README shows of kubectl: the file of each command, and all that it prints."""
    blocks = (ROOT / "README.md").read_text().split("```")[1::2]
    commands = (each.partition("\n") for block in blocks for each in block.split("$ kubectl create -f ")[1:])
    return {name: printed.strip() for name, _, printed in commands if name.startswith("examples/refused/")}


def test_the_readme_shows_six_refusals() -> None:
    assert len(shown()) == len(list((ROOT / "examples" / "refused").glob("*.yaml"))) == 6


@pytest.mark.parametrize("name", sorted(shown()))
def test_the_readme_shows_what_kubectl_prints(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(ROOT)
    done = plane.kubectl("create", "-f", name)
    assert done.stderr.strip() == shown()[name]
    assert done.returncode == 1


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


def test_a_flavor_that_no_node_has_is_warned_of(plane: ControlPlane) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "only", "labels": {"pool": "standard"}}}
    apply(plane, "create", node, check=True)
    flavor = ours("ResourceFlavor", "fast", nodeLabels={"pool": "fast"})
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
