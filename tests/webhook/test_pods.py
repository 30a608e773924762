"""Pods at admission: which are queued, and what they get."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from api.names import Annotation, Label
from core.jobs.pod_shape import role_hash
from core.model import Raw
from tests.core.jobs.samples import admitted as with_quota
from tests.core.jobs.samples import job, read, workload_of
from tests.webhook.cluster import ask, cluster, review_of
from webhook.configurations import HookOptions, mutating
from webhook.settings import WebhookSettings

PODS = WebhookSettings(frameworks=frozenset({"batch/job", "pod"}))
MUTATE, VALIDATE = "/mutate--v1-pod", "/validate--v1-pod"
QUEUE = {Label.QUEUE_NAME: "main"}
SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
GATES = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]


def pod(*, spec: Raw | None = None, **metadata: Any) -> Raw:
    base = {"name": "p", "namespace": "ns", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": base, "spec": spec or SPEC}


def changes(found: Raw, **more: Any) -> dict[str, Any]:
    response = ask(MUTATE, review_of(found, resource="pods"), settings=more.pop("settings", PODS), **more)
    assert response["allowed"], response
    return {step["path"]: step["value"] for step in orjson.loads(base64.b64decode(response.get("patch", "W10=")))}


def test_a_queued_pod_gets_the_managed_label_the_finalizer_the_gates_and_its_role() -> None:
    assert changes(pod(labels=QUEUE)) == {
        "/spec/schedulingGates": GATES,
        "/metadata/labels/kueue.x-k8s.io~1managed": "true",
        "/metadata/finalizers": ["kueue.x-k8s.io/managed"],
        "/metadata/annotations": {Annotation.ROLE_HASH: role_hash(SPEC)},
    }


def test_a_pod_that_is_as_admission_leaves_it_is_not_changed() -> None:
    found = pod(
        labels={**QUEUE, Label.MANAGED: "true"},
        finalizers=["kueue.x-k8s.io/managed"],
        annotations={Annotation.ROLE_HASH: role_hash(SPEC)},
        spec={**SPEC, "schedulingGates": GATES},
    )
    assert changes(found) == {}


def test_the_role_of_a_pod_is_computed_and_not_the_one_that_it_gives_itself() -> None:
    found = pod(labels=QUEUE, annotations={Annotation.ROLE_HASH: "same"})
    assert changes(found)["/metadata/annotations/kueue.x-k8s.io~1role-hash"] == role_hash(SPEC)


def test_a_pod_that_another_webhook_changed_after_its_role_was_computed_is_accepted() -> None:
    sidecar = {"name": "s", "resources": {"requests": {"cpu": "100m"}}}
    found = pod(
        labels={**QUEUE, Label.MANAGED: "true"},
        finalizers=["kueue.x-k8s.io/managed"],
        annotations={Annotation.ROLE_HASH: role_hash(SPEC)},
        spec={"containers": [*SPEC["containers"], sidecar], "schedulingGates": GATES},
    )
    assert ask(VALIDATE, review_of(found, resource="pods"), settings=PODS)["allowed"]


def test_a_pod_whose_owner_is_queued_gets_the_gate_and_its_role_and_no_finalizer() -> None:
    found = pod(labels=QUEUE, annotations={Annotation.POD_SUSPENDING_PARENT: "deployment"})
    assert changes(found) == {
        "/spec/schedulingGates": GATES,
        "/metadata/annotations/kueue.x-k8s.io~1role-hash": role_hash(SPEC),
    }


def test_a_pod_without_a_queue_name_gets_the_default_queue() -> None:
    found = changes(pod(), knows=cluster(default_queue_in=["ns"]))
    assert found["/metadata/labels"] == {Label.QUEUE_NAME: "default"}
    assert found["/spec/schedulingGates"] == GATES


def test_a_pod_without_a_queue_is_left_alone() -> None:
    assert changes(pod()) == {}


@pytest.mark.parametrize("admitted", [True, False], ids=["admitted", "waiting"])
def test_a_pod_of_a_queued_job_is_never_queued_itself(admitted: bool) -> None:
    raw = workload_of(job())
    value = read(with_quota(raw) if admitted else raw)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}
    found = pod(labels=QUEUE, ownerReferences=[owner])
    assert changes(found, knows=cluster(workloads={"job-uid": value})) == {}


def test_the_managed_label_on_a_pod_of_a_job_gets_the_warning_of_kueue() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}
    found = pod(
        labels={**QUEUE, Label.MANAGED: "true"}, ownerReferences=[owner], spec={**SPEC, "schedulingGates": GATES}
    )
    found["metadata"] |= {"finalizers": ["kueue.x-k8s.io/managed"], "annotations": {Annotation.ROLE_HASH: "x"}}
    response = ask(VALIDATE, review_of(found, resource="pods"), settings=PODS)
    assert response["warnings"][0] == (
        "pod owner is managed by kueue, label 'kueue.x-k8s.io/managed=true' might lead to unexpected behaviour"
    )


def test_a_queued_pod_that_another_webhook_ungated_is_refused() -> None:
    response = ask(VALIDATE, review_of(pod(labels=QUEUE), resource="pods"), settings=PODS)
    assert not response["allowed"]
    assert "spec.schedulingGates" in response["status"]["message"]


def test_a_pod_that_only_says_that_its_owner_is_queued_keeps_its_gate_if_all_jobs_are_managed() -> None:
    settings = WebhookSettings(frameworks=PODS.frameworks, manage_jobs_without_queue_name=True)
    says = {Annotation.POD_SUSPENDING_PARENT: "deployment"}
    old = pod(annotations=says, uid="pod-1", spec={**SPEC, "schedulingGates": GATES})
    new = pod(annotations=says, uid="pod-1", spec={**SPEC, "schedulingGates": []})
    response = ask(VALIDATE, review_of(new, old=old, resource="pods"), settings=settings, knows=cluster())
    assert "is started when its workload is admitted, not by hand" in response["status"]["message"]


def test_the_errors_of_a_group_are_reported() -> None:
    found = pod(labels={**QUEUE, Label.POD_GROUP_NAME: "g"})
    response = ask(VALIDATE, review_of(found, resource="pods"), settings=PODS)
    assert f"metadata.annotations[{Annotation.POD_GROUP_TOTAL_COUNT}]: Required value" in response["status"]["message"]


def test_only_pods_that_name_a_queue_or_have_a_queued_owner_wait_for_the_webhook() -> None:
    hooks = {each["name"]: each for each in mutating(HookOptions(PODS))["webhooks"]}
    (condition,) = hooks["mpod.kb.io"]["matchConditions"]
    assert condition["expression"].count("in object.metadata") == 3
    assert f"'{Annotation.POD_SUSPENDING_PARENT}' in object.metadata.annotations" in condition["expression"]
    assert hooks["mpod.kb.io"]["failurePolicy"] == "Fail"
    assert hooks["mpod-default.kb.io"]["failurePolicy"] == "Ignore"
    assert hooks["mpod.kb.io"]["rules"][0] == {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "*",
    }


def test_pods_are_not_sent_where_the_integration_is_not_enabled() -> None:
    names = {each["name"] for each in mutating(HookOptions(WebhookSettings()))["webhooks"]}
    assert not {name for name in names if "pod" in name}
