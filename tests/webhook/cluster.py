"""A cluster as the caches know it, and the reviews of its API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from core.feedback.accepted import Accepted
from core.model import Key, Labels, Raw, Workload
from core.model import LocalQueue as LocalQueueValue
from core.state.lookup import Lookup
from core.state.state import State
from core.workload.priority import PriorityClasses
from webhook.hooks import HOOKS
from webhook.routes import answer
from webhook.settings import Context, ControllerAccount, WebhookSettings


def cluster(
    *,
    synced: bool = True,
    default_queue_in: Iterable[str] = (),
    namespaces: Mapping[str, Labels] | None = None,
    priority_classes: Mapping[str, int] | None = None,
    workloads: Mapping[str, Workload] | None = None,
) -> Lookup:
    """The Lookup of a cluster that has only what is said here; ``workloads`` by the uid of what they stand for."""
    state = State()
    for namespace in default_queue_in:
        key = Key(namespace, "default")
        state.set_local_queue(key, LocalQueueValue(key, "all"))
    for name, labels in (namespaces or {}).items():
        state.set_namespace(name, labels)
    classes, known = priority_classes or {}, workloads or {}
    return Lookup(
        state,
        ready=lambda: synced,
        classes=lambda: PriorityClasses(classes),
        job_workload=known.get,
    )


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
    group, _, version = str(new.get("apiVersion")).rpartition("/")
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


def ask(
    path: str,
    body: Raw | bytes,
    *,
    knows: Lookup | None = None,
    settings: WebhookSettings | None = None,
    accepted: Accepted | None = None,
    account: ControllerAccount | None = None,
) -> Raw:
    """The ``response`` that the hook at ``path`` gives; it ``knows`` what is in the caches, and has ``accepted``; its
    controller writes with ``account``.
    """
    (hook,) = (hook for hook in HOOKS if hook.path == path)
    before = Accepted() if accepted is None else accepted
    context = Context(
        settings or WebhookSettings(), knows or cluster(), before, account=lambda: account or ControllerAccount()
    )
    status, text = answer(hook, body if isinstance(body, bytes) else orjson.dumps(body), context)
    assert status == 200, text
    response = orjson.loads(text)["response"]
    assert isinstance(response, dict)
    return response
