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
from pathlib import Path

from api.objects import Raw
from core.wire.merge import merged
from tests.cluster.accounts import tenant
from tests.cluster.operators import KUBEFLOW, LWS, RAY, SPARK, TRAINER
from tests.cluster.world import World

MORE = 10
"""So many pods, or replicas, the tenant wants."""
Kubectl = Callable[..., subprocess.CompletedProcess[str]]
OF_STATUS = "mpijobs"
"""The kind whose status users may write by the role that its operator brings (kubeflow-mpijobs-edit)."""
KINDS = (*KUBEFLOW, "mpijobs", *RAY, "appwrappers", *TRAINER, *SPARK, *LWS, "jobsets")


@dataclass(frozen=True)
class Trick:
    """What is done with a job of a kind (its name in ``kinds.CASES``); the name begins those of its pods. The job has
    been created with the fields of ``given``.
    """

    case: str
    called: str
    play: Callable[[World, Kubectl, str], None]
    given: Raw = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of its test."""
        return f"{self.case}: {self.called}"

    def create(self, world: World, objects: Iterable[Raw]) -> None:
        """Create the job of these objects."""
        world.create(*(merged(each, self.given) for each in objects))


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

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return world.plane.kubectl(*arguments, "-n", world.namespace, "--kubeconfig", kubeconfig)

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


def nothing(world: World, run: Kubectl, name: str) -> None:
    """The job itself is the trick."""


def its_status_says_that_it_has_ended(world: World, run: Kubectl, name: str) -> None:
    """Its operator, too, believes the status."""
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}
    ended = {"type": "Succeeded", "status": "True", "reason": "MPIJobSucceeded", "message": "", **since}
    status = {"conditions": [ended], "completionTime": "2026-01-01T00:00:00Z"}
    run("patch", "mpijobs", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


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
)
WAITING = (
    Trick("jobset", "its Jobs are started", they_are_not_suspended("jobs.batch")),
    Trick("trainjob", "its JobSet is started", they_are_not_suspended("jobsets")),
    Trick("mpijob", "its launcher is started", they_are_not_suspended("jobs.batch")),
)
"""What is done with a job that waits."""
NOTHING_LEFT = (
    Trick("rayjob", "it waits for its user", nothing, {"spec": {"submissionMode": "InteractiveMode"}}),
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


@dataclass
class Settled:
    """Whether there were no more pods than this when it was asked the last times, and nobody was about to add any."""

    world: World
    pods: Callable[[], list[str]]
    most: int
    again: int = 10
    _since: int = 0

    def __call__(self) -> bool:
        """Ask once more."""
        self._since = self._since + 1 if len(self.pods()) <= self.most else 0
        return self._since >= self.again
