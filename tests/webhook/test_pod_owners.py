"""Objects whose pods are queued instead of them, at admission."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson
import pytest

from api.names import Annotation, Label
from core.jobs.pod_owners import POD_OWNERS, STATEFUL_SET
from core.model import Raw
from tests.core.feedback.world import running, world
from tests.webhook.cluster import ask, cluster, review_of
from webhook import patch
from webhook.hooks import HookPhase, hooks
from webhook.jobs import settings_patch
from webhook.pod_owners import validate
from webhook.review import parse
from webhook.settings import Context, WebhookSettings

QUEUE = {Label.QUEUE_NAME: "main"}
DEPLOYMENTS = WebhookSettings(frameworks=frozenset({"deployment"}))
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
    def named(settings: WebhookSettings) -> set[str]:
        return {hook.name for phase in HookPhase for hook in hooks(settings, phase)}

    assert {"mdeployment.kb.io", "vdeployment.kb.io", "mpod.kb.io", "vpod.kb.io"} <= named(DEPLOYMENTS)
    assert "deployment-feedback.kb.io" not in named(DEPLOYMENTS)
    assert "deployment-feedback.kb.io" in named(WebhookSettings())


def test_other_pods_are_left_alone_where_pods_are_enabled_through_deployments_alone() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "labels": QUEUE}, "spec": {}}
    assert "patch" not in ask("/mutate--v1-pod", review_of(pod, resource="pods"), settings=DEPLOYMENTS)
    pod["metadata"]["annotations"] = {Annotation.POD_SUSPENDING_PARENT: "deployment"}  # type: ignore[index]
    assert "patch" in ask("/mutate--v1-pod", review_of(pod, resource="pods"), settings=DEPLOYMENTS)


SETS = WebhookSettings(frameworks=frozenset({"statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}))
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


def owner(
    kind: str,
    *,
    replicas: int = 2,
    cpu: str = "1",
    image: str = "i",
    queue: str = "main",
    labels: Raw | None = None,
) -> Raw:
    """An object of one of the kinds, in namespace team-a."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    template = {"spec": {"containers": [{"name": "c", "image": image, "resources": resources}]}}
    templates = {"size": 3, "leaderTemplate": template, "workerTemplate": template}
    grouped = kind == "LeaderWorkerSet"
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1" if grouped else "apps/v1",
        "kind": kind,
        "metadata": {
            "name": "o",
            "namespace": "team-a",
            "uid": "u",
            "labels": {**({Label.QUEUE_NAME: queue} if queue else {}), **(labels or {})},
        },
        "spec": {"replicas": replicas, **({"leaderWorkerTemplate": templates} if grouped else {"template": template})},
    }


FRAMEWORKS = {each.resource.kind: each for each in POD_OWNERS}
ENABLED = WebhookSettings(frameworks=frozenset(each.framework for each in POD_OWNERS))


def told(new: Raw, old: Raw | None = None, *, more: str = "", path: str = "validate") -> list[str]:
    resource = FRAMEWORKS[new["kind"]].resource
    at = f"{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}"
    asked = review_of(new, old=old, resource=resource.plural)
    response = ask(f"/{path}-{at}", asked, settings=ENABLED, knows=world(more))
    assert response["allowed"], response
    return list(response.get("warnings", []))


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_queue_that_does_not_exist_is_told_with_the_one_that_was_meant(kind: str) -> None:
    assert told(owner(kind, queue="mian")) == [
        'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?'
    ]


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_the_rules_that_found_something_are_counted(kind: str) -> None:
    new = owner(kind, queue="mian")
    request = parse(orjson.dumps(review_of(new, resource=FRAMEWORKS[kind].resource.plural)))
    response = validate(FRAMEWORKS[kind], request, Context(ENABLED, world()))
    assert [action for _, action in response.rules] == ["Warn"]


@pytest.mark.parametrize(
    ("kind", "asks", "fix"),
    [
        ("Deployment", "asks for 13 cpu", "ask for 12 or less"),
        ("StatefulSet", "2 pods ask for 26 cpu", "ask for 6 or less a pod"),
        ("LeaderWorkerSet", "the leader asks for 13 cpu", "ask for 12 or less"),
    ],
)
def test_what_can_never_start_is_told_in_the_words_of_the_kind(kind: str, asks: str, fix: str) -> None:
    (first, *_) = told(owner(kind, cpu="13"))
    assert first.startswith(f'never starts: {asks}, ClusterQueue "team-a" allows 12 in standard')
    assert first.endswith(f"; {fix}")


def test_the_fields_of_the_kind_are_recommended() -> None:
    (of_set,) = told(owner("StatefulSet", replicas=4, cpu="4"))
    assert of_set.endswith("; set replicas to 3 or less")
    (of_pods,) = told(owner("Deployment", replicas=4, cpu="4"))
    assert of_pods.startswith("at most 3 of 4 pods can run") and of_pods.endswith("; set replicas to 3")
    (of_groups,) = told(owner("LeaderWorkerSet", replicas=4, cpu="2"))
    assert of_groups.startswith("at most 2 of 4 groups can run: each group asks for 6 cpu")


@pytest.mark.parametrize(
    ("kind", "replicas", "some"),
    [("Deployment", 6, ""), ("Deployment", 8, "3 of 4 pods start now"), ("LeaderWorkerSet", 6, "1 of 2 groups start")],
)
def test_of_a_change_only_the_additional_replicas_are_told(kind: str, replicas: int, some: str) -> None:
    before, used = owner(kind, replicas=4), running("o", "team-a", "team-a", "9")
    assert told(owner(kind, replicas=4, image="new"), before, more=used) == []
    found = told(owner(kind, replicas=replicas), before, more=used)
    assert [each[: len(some)] for each in found] == ([some] if some else [])


def test_other_pods_than_before_are_told_only_if_they_can_never_run() -> None:
    before, after = owner("Deployment", replicas=4, cpu="2"), owner("Deployment", replicas=4, cpu="3")
    assert told(after, before, more=running("o", "team-a", "team-a", "12")) == []
    (never,) = told(owner("Deployment", replicas=4, cpu="13"), before)
    assert never.startswith("never starts: asks for 13 cpu")


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_misspelt_label_is_told_where_no_queue_is_named(kind: str) -> None:
    new = owner(kind, queue="", labels={"kueue.x-k8s.io/queue-nmae": "main"})
    resource = FRAMEWORKS[kind].resource
    at = f"{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}-default"
    response = ask(f"/mutate-{at}", review_of(new, resource=resource.plural), settings=ENABLED, knows=world())
    assert response["warnings"] == [
        "label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?"
    ]


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_the_marks_that_admission_adds_are_no_mistakes_of_the_user(kind: str) -> None:
    new = owner(kind, labels={Label.PRIORITY_CLASS: "batch"})
    marked = patch.apply(new, settings_patch(new, FRAMEWORKS[kind].marks(new)))
    assert told(marked) == []
    wrong = owner(kind)
    wrong["metadata"]["annotations"] = {Label.PRIORITY_CLASS: "batch"}
    (mistake,) = told(wrong)
    assert mistake.endswith(f": make it a label of the {kind}")


def test_a_refused_change_has_no_advice_about_quota() -> None:
    resource = STATEFUL_SET.resource
    asked = review_of(owner("StatefulSet", replicas=50), old=owner("StatefulSet"), resource=resource.plural)
    response = ask("/validate-apps-v1-statefulset", asked, settings=ENABLED, knows=world())
    assert not response["allowed"]
    assert "warnings" not in response
