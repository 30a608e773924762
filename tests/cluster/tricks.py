"""What a tenant does to the objects below an admitted job to run more pods than were admitted: a row for each trick.

Each is done by an account with the role `edit` that may also change the objects of all kinds of jobs in its namespace,
and scale them. ``test_kinds_life`` plays them with the real operators.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from api.objects import Raw
from tests.cluster.accounts import tenant
from tests.cluster.operators import KUBEFLOW, LWS, RAY, SPARK, TRAINER
from tests.cluster.world import World

MORE = 10
"""So many pods, or replicas, the tenant wants."""
Kubectl = Callable[..., subprocess.CompletedProcess[str]]
KINDS = (*KUBEFLOW, "mpijobs", *RAY, "appwrappers", *TRAINER, *SPARK, *LWS, "jobsets")


@dataclass(frozen=True)
class Trick:
    """What is done with a running job of a kind (its name in ``kinds.CASES``); the name begins those of its pods."""

    case: str
    called: str
    play: Callable[[World, Kubectl, str], None]


def of_kinds(world: World, directory: Path) -> Kubectl:
    """Runs kubectl as the tenant, in its namespace."""
    kubeconfig = str(tenant(world.plane, world.namespace, directory))
    rights = {"apiGroups": ["*"], "resources": [each for kind in KINDS for each in (kind, f"{kind}/scale")]}
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
)


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
