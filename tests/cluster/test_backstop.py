"""With no app at all, the policies in the API server keep queued Jobs waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from api.crds import definitions
from api.names import Annotation, JobControllerLabel, Label, SchedulingGate
from app.identity import AS_CONTROLLER
from core.jobs.admission import counted
from core.model import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.charts.rendering import POLICIES_SERVED, documents, rendered
from tests.cluster.accounts import may
from tests.cluster.operators import JOBSET, define
from tests.cluster.world import World
from tests.core.jobs.test_jobset import job_set
from tests.eventually import WAIT, eventually, until
from tests.serving import AS_US
from webhook import template_marks
from webhook.backstop import BELOW, BY_HAND, LABELLED, MOVED, RESIZED, policies
from webhook.claims import NOT_CONTROLLED
from webhook.configurations import HookOptions
from webhook.enforcement import FLAVORS, QUEUE_NAME, REQUESTS_OF
from webhook.settings import ControllerAccount, TrustedControllers, WebhookSettings

pytestmark = pytest.mark.cluster
FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
SETTINGS = WebhookSettings(
    frameworks=frozenset(FRAMEWORKS),
    external_frameworks=frozenset({"Wrapper.v1.example.com"}),
    controllers=TrustedControllers(frozenset({"joe", "system:serviceaccount:operators:*"})),
)
SOMEBODY = ("--as=somebody", "--as-group=system:masters")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with both kinds of jobs, the policies, and no Seiretsu; JobSets have no controller."""
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        define(World(started, "default"), JOBSET)
        options = HookOptions(settings=SETTINGS, account=ControllerAccount(AS_CONTROLLER["Impersonate-User"]))
        items = {"apiVersion": "v1", "kind": "List", "items": policies(options)}
        started.kubectl("apply", "-f", "-", stdin=json.dumps(items), check=True)
        # The API server learns of policies a moment after it has stored them.
        asyncio.run(eventually(lambda: create(started, "probe", dry_run=True)["spec"]["suspend"]))
        asyncio.run(eventually(lambda: suspends_sets(started)))
        yield started


def suspends_sets(plane: ControlPlane) -> bool:
    """Whether the policy suspends a JobSet. The API server learns the schema of a new definition once a minute, and
    answers 503 to what a policy would change until it has.
    """
    done = plane.kubectl("create", "-f", "-", "-o", "json", "--dry-run=server", stdin=json.dumps(a_set("probe")))
    assert done.returncode == 0 or "ServiceUnavailable" in done.stderr, done.stderr
    return done.returncode == 0 and "suspend" in json.loads(done.stdout)["spec"]


def create(
    plane: ControlPlane,
    name: str,
    *,
    queue: str = "main",
    namespace: str = "default",
    dry_run: bool = False,
    owner: str = "",
    uid: str = "u",
    completions: int = 1,
    suspend: bool | None = None,
) -> Raw:
    labels = {Label.QUEUE_NAME: queue} if queue else {}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    metadata: Raw = {"name": name, "namespace": namespace, "labels": labels}
    if owner:
        api_version, kind = owner.rsplit("/", 1)
        reference = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": uid, "controller": True}
        metadata["ownerReferences"] = [reference]
    raw = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completions": completions,
            "template": {"spec": pod},
            **({} if suspend is None else {"suspend": suspend}),
        },
    }
    arguments = ["--dry-run=server"] if dry_run else []
    done = plane.kubectl("create", "-f", "-", "-o", "json", *arguments, stdin=json.dumps(raw), check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def a_set(name: str, *, queue: str = "main") -> Raw:
    """A JobSet of one Job."""
    labels = {Label.QUEUE_NAME: queue} if queue else {}
    raw = job_set(name=name, namespace="default", labels=labels)
    for field in ("uid", "resourceVersion"):
        del raw["metadata"][field]
    del raw["spec"]["suspend"], raw["status"]
    return raw


def create_set(plane: ControlPlane, name: str, *, queue: str = "main", dry_run: bool = False) -> Raw:
    """The JobSet as it is stored."""
    arguments = ["--dry-run=server"] if dry_run else []
    made = json.dumps(a_set(name, queue=queue))
    done = plane.kubectl("create", "-f", "-", "-o", "json", *arguments, stdin=made, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_queued_job_starts_suspended_and_nothing_else_does(plane: ControlPlane) -> None:
    assert create(plane, "queued", dry_run=True)["spec"]["suspend"] is True
    assert create(plane, "plain", queue="", dry_run=True)["spec"]["suspend"] is False
    assert create(plane, "system", namespace="kube-system", dry_run=True)["spec"]["suspend"] is False


def test_only_the_controller_starts_a_queued_job(plane: ControlPlane) -> None:
    create(plane, "waits")
    patch = ("patch", "job", "waits", "-p", '{"spec":{"suspend":false}}')
    refused = plane.kubectl(*patch)
    assert refused.returncode == 1
    assert BY_HAND in refused.stderr
    assert plane.kubectl("annotate", "job", "waits", "note=x").returncode == 0
    assert BY_HAND in plane.kubectl(*patch, "--field-manager=seiretsu").stderr, "whoever claims to be us"
    assert plane.kubectl(*patch, *AS_US).returncode == 0


UNQUEUED = {"metadata": {"labels": {Label.QUEUE_NAME: None}}}
OTHER_QUEUE = {"metadata": {"labels": {Label.QUEUE_NAME: "other"}}}
OWNED = {
    "metadata": {
        "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Wrapper", "name": "o", "uid": "u", "controller": True}
        ]
    }
}


def change(
    plane: ControlPlane,
    name: str,
    *changes: Raw,
    suspend: bool | None = None,
    resource: str = "job",
    by: Sequence[str] = (),
) -> str:
    """Returns what kubectl prints if the change is refused; '' if it is accepted."""
    patch: Raw = {} if suspend is None else {"spec": {"suspend": suspend}}
    for each in changes:
        patch |= each
    done = plane.kubectl("patch", resource, name, "--type=merge", "--dry-run=server", "-p", json.dumps(patch), *by)
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    "together_with",
    [UNQUEUED, OTHER_QUEUE, OWNED],
    ids=["taking it out of its queue", "moving it to another queue", "giving it an owner"],
)
def test_it_is_not_started_by_another_change_in_the_same_write(plane: ControlPlane, together_with: Raw) -> None:
    name = f"sly-{len(json.dumps(together_with))}"
    create(plane, name)
    assert BY_HAND in change(plane, name, together_with, suspend=False)
    assert change(plane, name, together_with) == "", "a job that waits may be moved and withdrawn"


def test_a_job_that_runs_keeps_its_queue_name(plane: ControlPlane) -> None:
    create(plane, "runs")
    start = ("patch", "job", "runs", *AS_US, "--type=merge", "-p")
    sly = plane.kubectl(*start, json.dumps({**UNQUEUED, "spec": {"suspend": False}}))
    assert MOVED in sly.stderr, "not even we"
    assert plane.kubectl(*start, '{"spec":{"suspend":false}}').returncode == 0
    assert MOVED in change(plane, "runs", UNQUEUED)
    assert MOVED in change(plane, "runs", OTHER_QUEUE)
    assert change(plane, "runs", OTHER_QUEUE, suspend=True) == ""


def test_a_child_is_not_held_if_its_owner_is_queued_and_starts_it(plane: ControlPlane) -> None:
    assert create(plane, "of-a-wrapper", owner="example.com/v1/Wrapper", dry_run=True)["spec"]["suspend"] is False
    jobs: str = create(plane, "o", queue="")["metadata"]["uid"]
    sets: str = create_set(plane, "o")["metadata"]["uid"]
    assert create(plane, "of-a-job", owner="batch/v1/Job", uid=jobs)["spec"]["suspend"] is True, "started by Seiretsu"
    assert BY_HAND in change(plane, "of-a-job", suspend=False)
    create(plane, "of-a-set", owner="jobset.x-k8s.io/v1alpha2/JobSet", uid=sets, suspend=True)
    assert change(plane, "of-a-set", suspend=False, by=SOMEBODY) == "", "started by the controller of JobSets"


def test_a_queued_jobset_is_held_as_a_job_is(plane: ControlPlane) -> None:
    assert create_set(plane, "plain-set", queue="", dry_run=True)["spec"].get("suspend") is None
    assert create_set(plane, "set")["spec"]["suspend"] is True
    assert BY_HAND in change(plane, "set", suspend=False, resource="jobset")
    assert BY_HAND in change(plane, "set", UNQUEUED, suspend=False, resource="jobset")
    assert change(plane, "set", OTHER_QUEUE, resource="jobset") == ""
    plane.kubectl("patch", "jobset", "set", "--type=merge", "-p", '{"spec":{"suspend":false}}', *AS_US, check=True)
    assert MOVED in change(plane, "set", UNQUEUED, resource="jobset")
    assert change(plane, "set", OTHER_QUEUE, suspend=True, resource="jobset") == ""


def test_a_job_that_runs_gets_no_more_pods(plane: ControlPlane) -> None:
    create(plane, "grows")
    plane.kubectl("patch", "job", "grows", *AS_US, "-p", '{"spec":{"suspend":false,"parallelism":3}}', check=True)
    assert change(plane, "grows", {"spec": {"parallelism": 9}}) == "", "it has work for one pod"
    create(plane, "grows-more", completions=40)
    plane.kubectl("patch", "job", "grows-more", *AS_US, "-p", '{"spec":{"suspend":false,"parallelism":3}}', check=True)
    assert RESIZED in change(plane, "grows-more", {"spec": {"parallelism": 4}})
    assert change(plane, "grows-more", {"spec": {"parallelism": 2}}) == ""
    assert change(plane, "grows-more", {"spec": {"parallelism": 4, "suspend": True}}) == ""


def test_the_policy_in_the_documentation_allows_only_pods_that_jobs_make(plane: ControlPlane) -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    plane.kubectl("apply", "-f", "-", stdin=text.partition("```yaml\n")[2].partition("```")[0], check=True)
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": {"pods": "of-jobs-only"}}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(made), check=True)
    plane.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", "strict", check=True)

    def told(*arguments: str) -> str:
        done = plane.kubectl(*arguments, "-n", "strict")
        return done.stdout + done.stderr

    bare = ("run", "bare", "--image=none", "--dry-run=server")
    asyncio.run(eventually(lambda: "pods are made by Jobs here" in told(*bare)))
    create(plane, "makes-pods", queue="", namespace="strict")
    mine = ("-l", "batch.kubernetes.io/job-name=makes-pods")
    asyncio.run(eventually(lambda: "makes-pods" in told("get", "pods", *mine)))
    assert "the label by which quota is counted stays" in told(
        "label", "pods", *mine, f"{JobControllerLabel.CONTROLLER_UID}-"
    )
    assert "labeled" in told("label", "pods", *mine, "mine=yes")


def test_the_policy_in_the_documentation_forbids_forced_deletions(plane: ControlPlane) -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    (policy,) = (each for each in text.split("```yaml\n")[1:] if "name: no-forced-deletion" in each)
    policy = policy.partition("```")[0].replace("of-jobs-only", "not-forced")
    plane.kubectl("apply", "-f", "-", stdin=policy, check=True)
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept", "labels": {"pods": "not-forced"}}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(made), check=True)
    plane.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", "kept", check=True)
    on_a_node = json.dumps({"spec": {"nodeName": "n"}})
    plane.kubectl("run", "p", "--image=none", "-n", "kept", f"--overrides={on_a_node}", check=True)
    plane.kubectl("run", "waits", "--image=none", "-n", "kept", check=True)
    delete = ("delete", "pod", "p", "-n", "kept", "--dry-run=server")
    forced = (*delete, "--force", "--grace-period=0")
    asyncio.run(eventually(lambda: "delete pods without --force" in plane.kubectl(*forced).stderr))
    assert plane.kubectl(*delete).returncode == 0
    assert plane.kubectl(*delete, "--grace-period=5").returncode == 0
    waits = ("delete", "pod", "waits", "-n", "kept", "--force", "--grace-period=0")
    assert plane.kubectl(*waits).returncode == 0, "it has no node"


TENANT = ("--as=tenant", "-n", "team-of-tenant")


@pytest.fixture(scope="module")
def by_tenant(plane: ControlPlane) -> Callable[..., str]:
    """Runs kubectl as a user with the role `edit` in a namespace; returns what it prints if it is refused, else ''."""
    plane.kubectl("create", "namespace", "team-of-tenant", check=True)
    binding = ("create", "rolebinding", "tenant", "--clusterrole=edit", "--user=tenant", "-n", "team-of-tenant")
    plane.kubectl(*binding, check=True)
    plane.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", "team-of-tenant", check=True)
    until(lambda: may(plane, "create", "jobs", *TENANT))

    def run(*arguments: str, made: Raw | None = None) -> str:
        done = plane.kubectl(*arguments, *TENANT, stdin=json.dumps(made) if made else None)
        return done.stderr if done.returncode else ""

    return run


def gated_pod(name: str, **metadata: Any) -> Raw:
    """A pod with the gate of elastic jobs and what it is counted by."""
    labels = {Label.POD_SET: "main", Label.MANAGED: "true", JobControllerLabel.CONTROLLER_UID: "u"}
    annotations = {Annotation.ROLE_HASH: "a", Annotation.POD_GROUP_TOTAL_COUNT: "2"}
    gates = [{"name": SchedulingGate.ELASTIC_JOB}, {"name": "example.com/other"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations, **metadata},
        "spec": {"containers": [{"name": "main", "image": "none"}], "schedulingGates": gates},
    }


def test_what_a_living_pod_is_counted_by_changes_only_by_its_controllers(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    plane.kubectl("create", "-f", "-", "-n", TENANT[-1], stdin=json.dumps(gated_pod("p")), check=True)
    ungate = '[{"op":"remove","path":"/spec/schedulingGates/0"}]'
    for arguments, refusal in (
        (("patch", "pod", "p", "--type=json", "-p", ungate), counted.GATED),
        (("patch", "pod", "p", "-p", '{"spec":{"schedulingGates":null}}'), counted.GATED),
        (("label", "pod", "p", f"{Label.POD_SET}-"), f"{Label.POD_SET}: {counted.KEPT}"),
        (("label", "pod", "p", f"{Label.JOB_UID}=x"), f"{Label.JOB_UID}: {counted.KEPT}"),
        (("label", "pod", "p", "--overwrite", f"{JobControllerLabel.CONTROLLER_UID}=x"), counted.KEPT),
        (("annotate", "pod", "p", "--overwrite", f"{Annotation.ROLE_HASH}=b"), counted.KEPT),
    ):
        told = by_tenant(*arguments)
        assert refusal in told, arguments
        assert plane.kubectl(*arguments, "-n", TENANT[-1], "--dry-run=server", *AS_US).returncode == 0
    assert by_tenant("label", "pod", "p", "mine=yes") == "", "labels of its owner may change"
    other = '[{"op":"remove","path":"/spec/schedulingGates/1"}]'
    assert by_tenant("patch", "pod", "p", "--type=json", "-p", other) == "", "and gates of others"
    ended = ("patch", "pod", "p", "-n", TENANT[-1], "--subresource=status", "-p", '{"status":{"phase":"Failed"}}')
    plane.kubectl(*ended, check=True)
    assert by_tenant("annotate", "pod", "p", "--overwrite", f"{Annotation.ROLE_HASH}=b") == "", "it counts no more"


def test_only_who_decides_about_quota_names_the_queue_of_a_job_that_runs(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    create(plane, "free", queue="", namespace=TENANT[-1])
    label = ("label", "job", "free", f"{Label.QUEUE_NAME}=main", "--dry-run=server")
    assert MOVED in by_tenant(*label)
    assert plane.kubectl(*label, "-n", TENANT[-1]).returncode == 0, "as an import does, for which webhooks look closer"


def marked(kind: str, **metadata: Any) -> Raw:
    """A ReplicaSet or StatefulSet whose pods wait for quota because an object above it is queued."""
    labels, container = {"app": "a", Label.QUEUE_NAME: "main"}, {"name": "main", "image": "none"}
    template = {"labels": labels, "annotations": {Annotation.POD_SUSPENDING_PARENT: "deployment"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "marked", **metadata},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": template, "spec": {"containers": [container]}},
        },
    }


def test_the_template_below_a_queued_deployment_keeps_its_marks(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    """Its controller would create pods without quota as fast as they are deleted."""
    uid = create(plane, "above-sets", namespace=TENANT[-1])["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above-sets", "uid": uid, "controller": True}
    below, alone = marked("StatefulSet", ownerReferences=[owner]), marked("StatefulSet", name="alone")
    for each in (marked("ReplicaSet"), below, alone):
        plane.kubectl("create", "-f", "-", "-n", TENANT[-1], stdin=json.dumps(each), check=True)

    def patched(kind: str, name: str, **metadata: Raw) -> str:
        change = json.dumps({"spec": {"template": {"metadata": metadata}}})
        return by_tenant("patch", kind, name, "--type=merge", "-p", change)

    for kind in ("replicaset", "statefulset"):
        assert template_marks.KEPT in patched(kind, "marked", annotations={Annotation.POD_SUSPENDING_PARENT: None})
        assert template_marks.KEPT in patched(kind, "marked", annotations=None)  # type: ignore[arg-type]
        assert template_marks.KEPT in patched(kind, "marked", labels={Label.QUEUE_NAME: "other"})
        assert patched(kind, "marked", annotations={"mine": "yes"}) == ""
        assert by_tenant("scale", kind, "marked", "--replicas=0") == ""
    assert patched("statefulset", "alone", annotations={Annotation.POD_SUSPENDING_PARENT: None}) == "", "it is its own"


def test_only_the_controller_of_an_owner_creates_objects_below_it(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    uid = create(plane, "owns", namespace=TENANT[-1])["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "owns", "uid": uid, "controller": True}
    pod = gated_pod("sly", labels={Label.QUEUE_NAME: "main"}, ownerReferences=[owner])
    made = ("create", "--dry-run=server", "-f", "-")
    assert NOT_CONTROLLED in by_tenant(*made, made=pod)
    assert LABELLED in by_tenant(*made, made=gated_pod("sly"))
    free = gated_pod("free", labels={}, ownerReferences=[owner | {"controller": False}])
    assert by_tenant("create", "-f", "-", made=free) == "", "an owner for garbage collection alone"
    change = json.dumps({"metadata": {"ownerReferences": [owner]}})
    assert NOT_CONTROLLED in by_tenant("patch", "pod", "free", "--type=merge", "-p", change)
    below = {**owner, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    between = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "between", "ownerReferences": [below]},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    assert NOT_CONTROLLED in by_tenant(*made, made=between), "nor something between them"
    role = ("create", "clusterrole", "runs-sets", "--verb=update", "--resource=jobsets.jobset.x-k8s.io/status")
    plane.kubectl(*role, check=True)
    binding = ("create", "clusterrolebinding", "runs-sets", "--clusterrole=runs-sets", "--user=tenant")
    plane.kubectl(*binding, check=True)
    asyncio.run(eventually(lambda: by_tenant(*made, made=between) == ""))


def test_only_the_controller_of_a_started_job_gives_what_is_below_it_more_pods(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    uid = create(plane, "above", namespace=TENANT[-1])["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": uid, "controller": True}
    for name, mark in (("started", {Annotation.WORKLOAD: "w"}), ("unqueued", {})):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        template = {"metadata": {"annotations": mark}, "spec": pod}
        spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
        metadata = {"name": name, "ownerReferences": [owner]}
        made = json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        plane.kubectl("create", "-f", "-", "-n", TENANT[-1], stdin=made, check=True)
    more, fewer = ('{"spec":{"parallelism":9,"completions":9}}', '{"spec":{"parallelism":1,"completions":1}}')
    assert BELOW in by_tenant("patch", "job", "started", "-p", more)
    assert by_tenant("patch", "job", "unqueued", "-p", more) == "", "no quota is counted by it"
    assert by_tenant("patch", "job", "started", "-p", fewer) == ""
    as_controller = ("--as=system:serviceaccount:kube-system:any", "--as-group=system:masters")
    plane.kubectl("patch", "job", "started", "-n", TENANT[-1], "-p", more, *as_controller, check=True)


def test_the_operator_names_controllers_that_have_fewer_rights(
    plane: ControlPlane, by_tenant: Callable[..., str]
) -> None:
    uid = create(plane, "another", namespace=TENANT[-1])["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "another", "uid": uid, "controller": True}
    group = ("create", "rolebinding", "others", "--clusterrole=edit", "-n", TENANT[-1])
    users = ("joe", "jim", "system:serviceaccount:operators:x", "system:serviceaccount:operators-too:x")
    plane.kubectl(*group, *(f"--user={each}" for each in users), check=True)

    def told(user: str) -> str:
        labels = {Label.QUEUE_NAME: "main", JobControllerLabel.CONTROLLER_UID: uid}
        pod = json.dumps(gated_pod("child", labels=labels, ownerReferences=[owner]))
        made = ("create", "--dry-run=server", "-f", "-", "-n", TENANT[-1], f"--as={user}")
        return plane.kubectl(*made, stdin=pod).stderr

    asyncio.run(eventually(lambda: told("joe") == ""))
    assert [NOT_CONTROLLED in told(each) for each in users] == [False, True, False, True]


@pytest.fixture(scope="module")
def enforced(plane: ControlPlane) -> ControlPlane:
    """With the policies that the chart has as options, in the namespace enforced, and the kind ClusterQueue."""
    given = {
        "managerConfig": {"controllerManagerConfigYaml": json.dumps({"integrations": {"frameworks": [*FRAMEWORKS]}})},
        "enforcement": {
            "queueName": {"enabled": True},
            "requests": {"enabled": True, "resources": ["cpu"]},
            "flavors": {"allowed": ["spot", "default"]},
        },
    }
    chart = documents(rendered(given, served=POLICIES_SERVED))
    found = [raw for raw in chart if raw["metadata"]["name"].startswith(("seiretsu-require-", "seiretsu-allow-"))]
    assert len(found) == 6
    kind = next(each for each in definitions() if each["spec"]["names"]["kind"] == "ClusterQueue")
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "enforced", "labels": ENFORCED}}
    items = {"apiVersion": "v1", "kind": "List", "items": [namespace, kind, *found]}
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(items), check=True)
    plane.kubectl(*WAIT, "--for=condition=Established", f"crd/{kind['metadata']['name']}", check=True)
    asyncio.run(eventually(lambda: REQUESTS_OF in refusal_of(plane, pod_of(None))))
    asyncio.run(eventually(lambda: QUEUE_NAME in refusal_of(plane, job_of("probe", queue=""))))
    asyncio.run(eventually(lambda: FLAVORS in refusal_of(plane, cluster_queue("probe", "gold"))))
    return plane


ENFORCED = {"kueue-managed": "true"}


def refusal_of(plane: ControlPlane, raw: Raw, *arguments: str) -> str:
    """What kubectl prints where the API server does not accept an object; '' if it does."""
    done = plane.kubectl("create", "-f", "-", "--dry-run=server", *arguments, stdin=json.dumps(raw))
    return done.stderr if done.returncode else ""


def pod_of(cpu: str | None, namespace: str = "enforced") -> Raw:
    resources = {"resources": {"limits": {"cpu": cpu}}} if cpu else {}
    spec = {"containers": [{"name": "c", "image": "i", **resources}]}
    metadata = {"name": "p", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def job_of(name: str, *, queue: str = "main", cpu: str | None = "1", **metadata: Any) -> Raw:
    pod = pod_of(cpu)["spec"] | {"restartPolicy": "Never"}
    labels = {Label.QUEUE_NAME: queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "enforced", "labels": labels, **metadata},
        "spec": {"template": {"spec": pod}},
    }


def cluster_queue(name: str, *flavors: str) -> Raw:
    quota = [{"name": "cpu", "nominalQuota": "1"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": each, "resources": quota} for each in flavors]}]
    spec = {"resourceGroups": groups}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def test_jobs_of_a_namespace_must_name_a_queue_whatever_owners_they_claim(enforced: ControlPlane) -> None:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    claimed = job_of("claims", queue="", ownerReferences=[owner])
    assert refusal_of(enforced, job_of("queued")) == ""
    assert QUEUE_NAME in refusal_of(enforced, job_of("plain", queue=""))
    enforced.kubectl("create", "clusterrolebinding", "newcomer", "--clusterrole=edit", "--user=newcomer", check=True)
    assert refusal_of(enforced, claimed, "--as=newcomer"), "an owner that a tenant writes is no excuse"
    trusted = ("--as=system:serviceaccount:operators:jobset",)
    enforced.kubectl(
        "create", "clusterrolebinding", "op", "--clusterrole=cluster-admin", "--serviceaccount=operators:jobset"
    )
    until(lambda: may(enforced, "create", "jobs", *trusted))
    assert refusal_of(enforced, claimed, *trusted) == "", "what the controller of JobSets creates"
    owner |= {"apiVersion": "batch/v1", "kind": "CronJob"}
    made = ("--as=system:serviceaccount:kube-system:cronjob-controller", "--as-group=system:masters")
    assert QUEUE_NAME in refusal_of(enforced, claimed, *made), "above a Job of a CronJob there is no job"
    claimed["metadata"]["labels"] = {Label.QUEUE_NAME: "main"}
    assert refusal_of(enforced, claimed, *made) == ""


def test_containers_of_a_namespace_must_have_requests(enforced: ControlPlane) -> None:
    assert refusal_of(enforced, pod_of("1")) == ""
    assert refusal_of(enforced, job_of("with")) == ""
    assert REQUESTS_OF + "cpu" in refusal_of(enforced, job_of("without", cpu=None))
    before = pod_of("1")
    before["spec"]["initContainers"] = [{"name": "i", "image": "i"}]
    assert refusal_of(enforced, before) == "", "it ends before the others start"
    before["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert REQUESTS_OF in refusal_of(enforced, before), "a sidecar runs with the others"
    assert REQUESTS_OF not in refusal_of(enforced, pod_of(None, "default")), "in other namespaces nothing changes"


def test_cluster_queues_may_name_only_some_flavors(enforced: ControlPlane) -> None:
    assert refusal_of(enforced, cluster_queue("good", "spot", "default")) == ""
    assert FLAVORS + "spot, default" in refusal_of(enforced, cluster_queue("bad", "spot", "gold"))
