"""A cluster as the caches know it, written down by hand: the Lookup of these tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Key,
    Labels,
    LocalQueue,
    Raw,
    ResourceFlavor,
    Workload,
)
from webhook.hooks import HOOKS
from webhook.routes import answer
from webhook.settings import Context, Settings


@dataclass
class Cluster:
    """Every question has its answer in a field; by default there is nothing."""

    synced: bool = True
    local_queues: dict[Key, LocalQueue] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    why_inactive: dict[str, str] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    priority_classes: dict[str, int] = field(default_factory=dict)
    ceilings: dict[tuple[str, FlavorResource], int | None] = field(default_factory=dict)
    used: dict[tuple[str, FlavorResource], int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    job_queues: dict[tuple[str, str, Key], str] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    nodes: tuple[Labels, ...] | None = None
    ranges: dict[str, tuple[Raw, ...]] = field(default_factory=dict)
    checks: dict[str, AdmissionCheck] = field(default_factory=dict)

    def local_queue(self, key: Key) -> LocalQueue | None:
        return self.local_queues.get(key)

    def local_queue_names(self, namespace: str) -> Iterable[str]:
        return [key.name for key in self.local_queues if key.namespace == namespace]

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self.cluster_queues.get(name)

    def cluster_queue_names(self) -> Iterable[str]:
        return self.cluster_queues

    def inactive(self, cluster_queue: str) -> str:
        return self.why_inactive.get(cluster_queue, "")

    def cohort(self, name: str) -> Cohort | None:
        return self.cohorts.get(name)

    def cohort_members(self, name: str) -> Iterable[ClusterQueue]:
        return [queue for queue in self.cluster_queues.values() if queue.cohort == name]

    def flavor(self, name: str) -> ResourceFlavor | None:
        return self.flavors.get(name)

    def flavor_names(self) -> Iterable[str]:
        return self.flavors

    def namespace_labels(self, namespace: str) -> Labels | None:
        return self.namespaces.get(namespace)

    def priority_class(self, name: str) -> int | None:
        return self.priority_classes.get(name)

    def priority_class_names(self) -> Iterable[str]:
        return self.priority_classes

    def most(self, cluster_queue: str, flavor_resource: FlavorResource) -> int | None:
        return self.ceilings[cluster_queue, flavor_resource]

    def usage(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        return self.used.get((cluster_queue, flavor_resource), 0)

    def pending(self, cluster_queue: str) -> int:
        return self.waiting.get(cluster_queue, 0)

    def admitted(self, cluster_queue: str) -> int:
        return self.running.get(cluster_queue, 0)

    def queue_of(self, group: str, kind: str, key: Key) -> str | None:
        return self.job_queues.get((group, kind, key))

    def workload_of(self, job_uid: str) -> Workload | None:
        return self.workloads.get(job_uid)

    def node_labels(self) -> Iterable[Labels] | None:
        return self.nodes

    def limit_ranges(self, namespace: str) -> Iterable[Raw]:
        return self.ranges.get(namespace, ())


def job(*, labels: Raw | None = None, annotations: Raw | None = None, owner: Raw | None = None, **spec: Any) -> Raw:
    """A Job as the API server sends it; ``spec`` holds fields of its spec, ``template`` those of its pod template."""
    metadata: Raw = {"name": "train", "namespace": "team-a"}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    base: Raw = {"parallelism": 1, "completions": 1, "suspend": False, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**base, **spec}}


def review(new: Any, *, old: Any = None, operation: str = "", uid: str = "u-1", **request: Any) -> Raw:
    """The AdmissionReview of a Job's creation, or of its change where there is an ``old`` one."""
    base: Raw = {
        "uid": uid,
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "namespace": "team-a",
        "name": "train",
        "userInfo": {"username": "alice"},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**base, **request}}


def review_of(new: Raw, *, old: Raw | None = None, resource: str, **request: Any) -> Raw:
    """The AdmissionReview of the creation or change of an object of ours; ``resource`` may name a subresource."""
    plural, _, sub = resource.partition("/")
    group, _, version = str(new.get("apiVersion")).partition("/")
    return review(
        new,
        old=old,
        kind={"group": group, "version": version, "kind": new.get("kind")},
        resource={"group": group, "version": version, "resource": plural},
        subResource=sub,
        namespace=new.get("metadata", {}).get("namespace"),
        name=new.get("metadata", {}).get("name"),
        **request,
    )


def ask(path: str, body: Raw | bytes, *, cluster: Cluster | None = None, settings: Settings | None = None) -> Raw:
    """The ``response`` that the hook at ``path`` gives."""
    (hook,) = (hook for hook in HOOKS if hook.path == path)
    context = Context(settings or Settings(), cluster or Cluster())
    status, text = answer(hook, body if isinstance(body, bytes) else orjson.dumps(body), context)
    assert status == 200, text
    response = orjson.loads(text)["response"]
    assert isinstance(response, dict)
    return response
