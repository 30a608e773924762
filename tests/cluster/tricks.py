"""What a tenant does to the objects below an admitted job to run more pods than were admitted: a row for each trick.

Each is done by an account with the role `edit` that may also change the objects of all kinds of jobs in its namespace,
and scale them. The role that MPI's operator brings for its users gives them the status of its kind, too.
``test_kinds_life`` plays the tricks with the real operators.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from api import quantity
from api.objects import Raw
from core.wire.merge import merged
from tests.cluster.accounts import tenant
from tests.cluster.operators import KUBEFLOW, LWS, RAY, SPARK, TRAINER
from tests.cluster.world import World, holds

MORE = 10
"""So many pods, or replicas, the tenant wants."""
LARGER = "2"
"""So much cpu each of his pods is to ask for."""
Kubectl = Callable[..., subprocess.CompletedProcess[str]]
OF_STATUS = "mpijobs"
"""The kind whose status users may write by the role that its operator brings (kubeflow-mpijobs-edit)."""
KINDS = (*KUBEFLOW, "mpijobs", *RAY, "appwrappers", *TRAINER, *SPARK, *LWS, "jobsets")


@dataclass(frozen=True)
class Trick:
    """What is done with a job of a kind (its name in ``kinds.CASES``); the name begins those of its pods. The job has
    been created with the fields of ``given``, after the objects of ``before``; NAME in them is its name.
    """

    case: str
    called: str
    play: Callable[[World, Kubectl, str], None]
    given: Raw = field(default_factory=dict)
    before: tuple[Raw, ...] = ()

    @property
    def id(self) -> str:
        """The name of its test."""
        return f"{self.case}: {self.called}"

    def create(self, world: World, objects: Iterable[Raw]) -> None:
        """Create the job of these objects."""
        for each in objects:
            given, before = (
                json.dumps(part).replace("NAME", each["metadata"]["name"]) for part in (self.given, self.before)
            )
            world.create(*json.loads(before), merged(each, json.loads(given)))


def of_kinds(world: World, directory: Path) -> Kubectl:
    """Runs kubectl as the tenant, in its namespace."""
    kubeconfig = str(tenant(world.plane, world.namespace, directory))
    scaled = [each for kind in KINDS for each in (kind, f"{kind}/scale")]
    rights = {"apiGroups": ["*"], "resources": [*scaled, f"{OF_STATUS}/status"]}
    named = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "tenant-of-kinds"}}
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant-of-kinds"}
    world.create(
        {**named, "kind": "Role", "rules": [{**rights, "verbs": ["*"]}]},
        {**named, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    )

    def run(*arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return world.plane.kubectl(*arguments, "-n", world.namespace, "--kubeconfig", kubeconfig, check=check)

    world.until("the role is in force", lambda: run("auth", "can-i", "patch", "jobsets").stdout == "yes\n")
    return run


def below(world: World, resource: str, name: str) -> Iterator[str]:
    """The names of the objects of a resource that an operator made for a job of this name."""
    found = world.plane.kubectl("get", resource, "-n", world.namespace, "-o", "json", check=True)
    for each in json.loads(found.stdout)["items"]:
        if each["metadata"]["name"].startswith(name) and each["metadata"].get("ownerReferences"):
            yield each["metadata"]["name"]


def _patched(run: Kubectl, resource: str, name: str, change: Raw | list[Raw]) -> None:
    """A patch of one object; the API server, a policy or a webhook may refuse it, which is as good."""
    run("patch", resource, name, f"--type={'json' if isinstance(change, list) else 'merge'}", "-p", json.dumps(change))


def jobs_below_get_more_pods(world: World, run: Kubectl, name: str) -> None:
    """An Indexed Job has as many pods as completions: both are changed."""
    for each in below(world, "jobs.batch", name):
        _patched(run, "jobs.batch", each, {"spec": {"parallelism": MORE, "completions": MORE}})
        _patched(run, "jobs.batch", each, {"spec": {"parallelism": MORE}})


def _replicas(group: str) -> list[Raw]:
    return [{"op": "add", "path": f"{group}/{field}", "value": MORE} for field in ("replicas", "maxReplicas")]


def the_cluster_below_gets_more_workers(world: World, run: Kubectl, name: str) -> None:
    for each in below(world, "rayclusters", name):
        _patched(run, "rayclusters", each, _replicas("/spec/workerGroupSpecs/0"))


def the_cluster_has_more_workers_at_least(world: World, run: Kubectl, name: str) -> None:
    least = [{"op": "add", "path": "/spec/workerGroupSpecs/0/minReplicas", "value": MORE}]
    _patched(run, "rayclusters", name, [*least, *_replicas("/spec/workerGroupSpecs/0")[1:]])


def it_is_scaled(resource: str) -> Callable[[World, Kubectl, str], None]:
    """By its subresource, which the webhooks of the resource do not see."""

    def play(world: World, run: Kubectl, name: str) -> None:
        run("scale", resource, name, f"--replicas={MORE}")

    return play


def sets_below_are_scaled(world: World, run: Kubectl, name: str) -> None:
    for resource in ("statefulsets", "replicasets"):
        for each in below(world, resource, name):
            run("scale", resource, each, f"--replicas={MORE}")


def sets_below_lose_their_marks(world: World, run: Kubectl, name: str) -> None:
    """The labels and annotations by which the webhook knows that pods are queued."""
    marks = {"kueue.x-k8s.io/queue-name": None, "kueue.x-k8s.io/managed": None}
    metadata = {"labels": marks, "annotations": {"kueue.x-k8s.io/pod-suspending-parent": None}}
    for resource in ("statefulsets", "replicasets"):
        for each in below(world, resource, name):
            _patched(run, resource, each, {"spec": {"template": {"metadata": metadata}}})
    sets_below_are_scaled(world, run, name)


def deleted_without_its_pods(resource: str) -> Callable[[World, Kubectl, str], None]:
    """Its controller creates what was deleted again; the pods of before have no owner."""

    def play(world: World, run: Kubectl, name: str) -> None:
        for each in below(world, resource, name):
            run("delete", resource, each, "--cascade=orphan", "--wait=false")

    return play


def _made_again(world: World, run: Kubectl, resource: str, name: str, called: str = "") -> None:
    """Deletes the objects below a job with this part in their names, and waits until there are other pods, or the job
    is stopped.
    """
    before = {each["metadata"]["uid"] for each in _pods(world, name)}
    for each in below(world, resource, name):
        if called in each:
            run("delete", resource, each, "--wait=false")

    def others() -> bool:
        return any(each["metadata"]["uid"] not in before for each in _pods(world, name))

    def stopped() -> bool:
        mine = (each for each in world.get("workloads")["items"] if each["spec"].get("queueName") == name)
        return not any(holds(each, "QuotaReserved") for each in mine)

    world.until("there are other pods, or the job is stopped", lambda: others() or stopped())


def _pods(world: World, name: str) -> list[Raw]:
    return [each for each in world.get("pods")["items"] if each["metadata"]["name"].startswith(f"{name}-")]


def templates_ask_for_more(resource: str, template: str, pods: str = "") -> Callable[[World, Kubectl, str], None]:
    """The job itself, or what its operator made below it, gets a template with larger pods at this path; the pods with
    that part in their names are deleted.
    """

    def play(world: World, run: Kubectl, name: str) -> None:
        change = [{"op": "add", "path": f"{template}/spec/containers/0/resources/requests/cpu", "value": LARGER}]
        for each in {name, *below(world, resource, name)}:
            _patched(run, resource, each, change)
        _made_again(world, run, "pods", name, pods)

    return play


def its_pod_sets_say_fewer_pods(world: World, run: Kubectl, name: str) -> None:
    """A component runs more pods than its ``podSets`` say: each change by which that could be is refused."""
    at, fields = "/spec/components/0", ("template/spec/parallelism", "template/spec/completions")
    more = [{"op": "add", "path": f"{at}/{each}", "value": MORE} for each in fields]
    fewer = [{"op": "add", "path": f"{at}/podSets/0/replicas", "value": 1}]
    for change in (fewer, more, [*fewer, *more]):
        assert "podSets[0].replicas" in run("patch", "appwrapper", name, "--type=json", "-p", json.dumps(change)).stderr


def its_runtime_runs_more(world: World, run: Kubectl, name: str) -> None:
    """The trainer makes the JobSet again, of the runtime as it is now."""
    more = {"name": "more", "template": {"spec": {**_BATCH, "parallelism": MORE, "completions": MORE}}}
    change = [{"op": "add", "path": "/spec/template/spec/replicatedJobs/-", "value": more}]
    run("patch", "trainingruntime", name, "--type=json", "-p", json.dumps(change), check=True)
    _made_again(world, run, "jobsets", name)


def it_is_upgraded(world: World, run: Kubectl, name: str) -> None:
    """KubeRay starts a second cluster beside the first."""
    _patched(run, "rayservices", name, {"spec": {"rayClusterConfig": {"rayVersion": "2.52.0"}}})
    world.until("there is a second cluster", lambda: len([*below(world, "rayclusters", name)]) > 1)


def it_is_rolled_out_with_a_surge(world: World, run: Kubectl, name: str) -> None:
    surge = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 0, "maxSurge": MORE}}
    worker = {"metadata": {"labels": {"version": "next"}}}
    change = {"rolloutStrategy": surge, "leaderWorkerTemplate": {"workerTemplate": worker}}
    _patched(run, "leaderworkersets", name, {"spec": change})


def they_are_not_suspended(resource: str) -> Callable[[World, Kubectl, str], None]:
    """What its operator made below a job that waits is started by hand."""

    def play(world: World, run: Kubectl, name: str) -> None:
        for each in below(world, resource, name):
            _patched(run, resource, each, {"spec": {"suspend": False}})

    return play


def it_is_changed(resource: str, change: Raw) -> Callable[[World, Kubectl, str], None]:
    """So that its operator finds it invalid, and does nothing with it any more."""

    def play(world: World, run: Kubectl, name: str) -> None:
        changed = run("patch", resource, name, "--type=merge", "-p", json.dumps(change))
        assert changed.returncode == 0, changed.stderr

    return play


def they_have_a_finalizer(resource: str) -> Callable[[World, Kubectl, str], None]:
    """What its operator deletes to stop the job stays, and with it the pods."""

    def play(world: World, run: Kubectl, name: str) -> None:
        for each in below(world, resource, name):
            _patched(run, resource, each, {"metadata": {"finalizers": ["example.com/stays"]}})

    return play


def it_waits_for_its_user(world: World, run: Kubectl, name: str) -> None:
    """Its pods run before KubeRay waits, and until then it does look at ``suspend``."""
    status = ("get", "rayjobs", name, "-n", world.namespace, "-o", "jsonpath={.status.jobDeploymentStatus}")
    world.until("it waits for its user", lambda: world.plane.kubectl(*status).stdout == "Waiting")


def its_status_says_that_it_has_ended(world: World, run: Kubectl, name: str) -> None:
    """Its operator, too, believes the status."""
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}
    ended = {"type": "Succeeded", "status": "True", "reason": "MPIJobSucceeded", "message": "", **since}
    status = {"conditions": [ended], "completionTime": "2026-01-01T00:00:00Z"}
    run("patch", "mpijobs", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


_CONTAINER = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
_LASTS = {"annotations": {"seiretsu.dev/run-for": "600s"}}
_BATCH = {"template": {"metadata": _LASTS, "spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "NAME-web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "NAME"}},
        "template": {"metadata": {"labels": {"app": "NAME"}}, "spec": {"containers": [_CONTAINER]}},
    },
}
_COUNTED_JOB = {
    "podSets": [{"replicas": 2, "path": "template.spec.template"}],
    "template": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "NAME-train"},
        "spec": {"parallelism": 2, "completions": 2, **_BATCH},
    },
}
_RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "NAME", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {
                                "template": {
                                    "metadata": _LASTS,
                                    "spec": {"containers": [{"name": "node", "image": "none"}]},
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}
TRICKS = (
    Trick("jobset", "its Jobs get more pods", jobs_below_get_more_pods),
    Trick("trainjob", "its Jobs get more pods", jobs_below_get_more_pods),
    Trick("appwrapper", "its Job gets more pods", jobs_below_get_more_pods),
    Trick("mpijob", "its launcher gets more pods", jobs_below_get_more_pods),
    Trick("rayjob", "its cluster gets more workers", the_cluster_below_gets_more_workers),
    Trick("rayservice", "its cluster gets more workers", the_cluster_below_gets_more_workers),
    Trick("raycluster", "it has more workers at least", the_cluster_has_more_workers_at_least),
    Trick("pytorchjob", "it is scaled", it_is_scaled("pytorchjobs")),
    Trick("jaxjob", "it is scaled", it_is_scaled("jaxjobs")),
    Trick("leaderworkerset", "it is scaled", it_is_scaled("leaderworkersets")),
    Trick("leaderworkerset", "its sets are scaled", sets_below_are_scaled),
    Trick("leaderworkerset", "its sets lose their marks", sets_below_lose_their_marks),
    Trick("deployment", "its ReplicaSet loses its marks", sets_below_lose_their_marks),
    Trick("jobset", "its Jobs are deleted without their pods", deleted_without_its_pods("jobs.batch")),
    Trick("rayjob", "its cluster is deleted without its pods", deleted_without_its_pods("rayclusters")),
    Trick("rayservice", "it is upgraded", it_is_upgraded),
    Trick("leaderworkerset", "it is rolled out with a surge", it_is_rolled_out_with_a_surge),
    Trick(
        "raycluster",
        "its workers ask for more",
        templates_ask_for_more("rayclusters", "/spec/workerGroupSpecs/0/template", "-worker-"),
    ),
    Trick("leaderworkerset", "its sets ask for more", templates_ask_for_more("statefulsets", "/spec/template")),
    Trick(
        "appwrapper",
        "its Deployment asks for more",
        templates_ask_for_more("deployments", "/spec/template"),
        {"spec": {"components": [{"template": _DEPLOYMENT}]}},
    ),
    Trick(
        "appwrapper",
        "its podSets say fewer pods",
        its_pod_sets_say_fewer_pods,
        {"spec": {"components": [_COUNTED_JOB]}},
    ),
    Trick(
        "trainjob",
        "its runtime runs more",
        its_runtime_runs_more,
        {"spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "NAME"}}},
        (_RUNTIME,),
    ),
)
WAITING = (
    Trick("jobset", "its Jobs are started", they_are_not_suspended("jobs.batch")),
    Trick("trainjob", "its JobSet is started", they_are_not_suspended("jobsets")),
    Trick("mpijob", "its launcher is started", they_are_not_suspended("jobs.batch")),
)
"""What is done with a job that waits."""
NOTHING_LEFT = (
    Trick("rayjob", "it waits for its user", it_waits_for_its_user, {"spec": {"submissionMode": "InteractiveMode"}}),
    Trick("rayjob", "it is invalid", it_is_changed("rayjobs", {"spec": {"ttlSecondsAfterFinished": -1}})),
    Trick(
        "rayservice",
        "it is invalid",
        it_is_changed("rayservices", {"metadata": {"annotations": {"ray.io/initializing-timeout": "never"}}}),
    ),
    Trick(
        "raycluster",
        "it is invalid",
        it_is_changed("rayclusters", {"spec": {"headGroupSpec": {"rayStartParams": {"redis-username": "x"}}}}),
    ),
    Trick("mpijob", "it is invalid", it_is_changed("mpijobs", {"spec": {"slotsPerWorker": -1}})),
    Trick("mpijob", "its status says that it has ended", its_status_says_that_it_has_ended),
    Trick("rayjob", "its cluster has a finalizer", they_have_a_finalizer("rayclusters")),
    Trick("appwrapper", "its Job has a finalizer", they_have_a_finalizer("jobs.batch")),
)
"""What is done with a job that runs, before it is preempted."""


def on_a_node(pod: Raw) -> bool:
    """Whether a pod uses a node and is not being deleted."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return bool(pod["spec"].get("nodeName")) and not ended and "deletionTimestamp" not in pod["metadata"]


def cpu(pods: Iterable[Raw]) -> Fraction:
    """What the containers of pods request together."""
    containers = (each for pod in pods for each in pod["spec"]["containers"])
    asked = ((each.get("resources") or {}).get("requests") or {} for each in containers)
    return sum((quantity.exact(each.get("cpu", 0)) for each in asked), Fraction(0))


@dataclass
class Settled:
    """Whether there were no more pods than this, which asked together for no more cpu than this, when it was asked the
    last times, and nobody was about to add any.
    """

    pods: Callable[[], list[Raw]]
    most: int
    cpu: str = "0"
    again: int = 10
    _since: int = 0

    def __call__(self) -> bool:
        """Ask once more."""
        found = self.pods()
        within = len(found) <= self.most and cpu(found) <= quantity.exact(self.cpu)
        self._since = self._since + 1 if within else 0
        return self._since >= self.again
