"""Objects whose pods are queued instead of them, at admission."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson
import pytest

from api.names import Annotation, Label
from core.model import Raw
from tests.webhook.cluster import ask, cluster, review_of
from webhook.hooks import Phase, hooks
from webhook.settings import Settings

QUEUE = {Label.QUEUE_NAME: "main"}
DEPLOYMENTS = Settings(frameworks=frozenset({"deployment"}))
MUTATE, VALIDATE = "/mutate-apps-v1-deployment", "/validate-apps-v1-deployment"


def deployment(*, ready: int = 0, template: Raw | None = None, **metadata: Any) -> Raw:
    pods = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ns", **metadata},
        "spec": {"replicas": 2, "template": template or pods},
        "status": {"readyReplicas": ready},
    }


def changes(found: Raw, **more: Any) -> dict[str, Any]:
    response = ask(MUTATE, review_of(found, resource="deployments", **more), settings=DEPLOYMENTS)
    assert response["allowed"], response
    return {step["path"]: step["value"] for step in orjson.loads(base64.b64decode(response.get("patch", "W10=")))}


def test_the_template_of_a_queued_deployment_gets_queue_class_and_the_mark_by_which_its_pods_are_gated() -> None:
    found = deployment(labels={**QUEUE, Label.PRIORITY_CLASS: "high"})
    wanted = {
        "/spec/template/metadata/annotations": {Annotation.POD_SUSPENDING_PARENT: "deployment"},
        "/spec/template/metadata/labels/kueue.x-k8s.io~1managed": "true",
        "/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name": "main",
        "/spec/template/metadata/labels/kueue.x-k8s.io~1priority-class": "high",
    }
    assert changes(found) == wanted
    assert changes(found, old=found) == wanted, "a manifest that is applied again loses none of them"


def test_a_deployment_without_a_queue_is_left_alone() -> None:
    assert changes(deployment()) == {}


def test_a_deployment_without_a_queue_name_gets_the_default_queue() -> None:
    knows = cluster(default_queue_in=["ns"])
    response = ask(f"{MUTATE}-default", review_of(deployment(), resource="deployments"), knows=knows)
    first, *_ = orjson.loads(base64.b64decode(response["patch"]))
    assert first["value"] == {Label.QUEUE_NAME: "default"}


@pytest.mark.parametrize(
    ("ready", "labels", "error"),
    [
        (1, {Label.QUEUE_NAME: "other"}, "field is immutable"),
        (0, {Label.QUEUE_NAME: "other"}, ""),
        (0, {}, 'Invalid value: "": field is immutable'),
        (
            1,
            {**QUEUE, Label.PRIORITY_CLASS: "high"},
            "WorkloadPriorityClass cannot be added to a non-suspended workload",
        ),
    ],
    ids=["queue while pods are ready", "queue while none is", "queue removed", "class while pods are ready"],
)
def test_a_queue_changes_only_while_no_pod_is_ready(ready: int, labels: Raw, error: str) -> None:
    old, new = deployment(ready=ready, labels=QUEUE), deployment(ready=ready, labels=labels)
    response = ask(VALIDATE, review_of(new, old=old, resource="deployments"), settings=DEPLOYMENTS)
    assert response["allowed"] is (not error)
    assert error in response.get("status", {}).get("message", "")


def test_an_elastic_deployment_is_refused() -> None:
    found = deployment(labels=QUEUE, annotations={Annotation.ELASTIC_JOB: "true"})
    response = ask(VALIDATE, review_of(found, resource="deployments"), settings=DEPLOYMENTS)
    assert 'elastic job is not supported for "apps/v1, Kind=Deployment"' in response["status"]["message"]


def test_the_framework_of_a_deployment_enables_the_hooks_of_pods_and_replaces_the_mere_feedback() -> None:
    def named(settings: Settings) -> set[str]:
        return {hook.name for phase in Phase for hook in hooks(settings, phase)}

    assert {"mdeployment.kb.io", "vdeployment.kb.io", "mpod.kb.io", "vpod.kb.io"} <= named(DEPLOYMENTS)
    assert "deployment-feedback.kb.io" not in named(DEPLOYMENTS)
    assert "deployment-feedback.kb.io" in named(Settings())


def test_other_pods_are_left_alone_where_pods_are_enabled_through_deployments_alone() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "labels": QUEUE}, "spec": {}}
    assert "patch" not in ask("/mutate--v1-pod", review_of(pod, resource="pods"), settings=DEPLOYMENTS)
    pod["metadata"]["annotations"] = {Annotation.POD_SUSPENDING_PARENT: "deployment"}  # type: ignore[index]
    assert "patch" in ask("/mutate--v1-pod", review_of(pod, resource="pods"), settings=DEPLOYMENTS)


SETS = Settings(frameworks=frozenset({"statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}))
OF_SETS = "/mutate-apps-v1-statefulset", "/validate-apps-v1-statefulset"


def stateful_set(parent: str, *, replicas: int = 2, **metadata: Any) -> Raw:
    found = deployment(**metadata)
    template = found["spec"]["template"]
    marked = {**template["metadata"], "annotations": {Annotation.POD_SUSPENDING_PARENT: parent}}
    spec = {"replicas": replicas, "template": {**template, "metadata": marked}}
    return {**found, "kind": "StatefulSet", "spec": spec}


def test_a_statefulset_with_the_pods_of_a_leaderworkerset_is_left_to_that() -> None:
    found = stateful_set("leaderworkerset.x-k8s.io/leaderworkerset", labels=QUEUE)
    response = ask(OF_SETS[0], review_of(found, resource="statefulsets"), settings=SETS)
    assert (response["allowed"], response.get("patch")) == (True, None)


@pytest.mark.parametrize("parent", ["statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"])
def test_replicas_are_fixed_while_a_statefulset_is_queued_also_without_a_queue_name(parent: str) -> None:
    before, after = stateful_set(parent), stateful_set(parent, replicas=3)
    settings = replace(SETS, manage_jobs_without_queue_name=True)
    response = ask(OF_SETS[1], review_of(after, resource="statefulsets", old=before), settings=settings)
    assert response["allowed"] is (parent != "statefulset")
    if not response["allowed"]:
        assert "spec.replicas: Invalid value: 3: field is immutable" in response["status"]["message"]
