"""The marks by which the pods of a ReplicaSet or StatefulSet wait are changed by the controller of what is above it."""

from __future__ import annotations

from typing import Any

import cel
import orjson
import pytest

from api.names import Annotation, Label
from core.model import Raw
from tests.webhook.cluster import cluster, review_of
from webhook import template_marks
from webhook.review import parse
from webhook.settings import Context, ControllerAccount, WebhookSettings

CONTEXT = Context(WebhookSettings(), cluster(), account=lambda: ControllerAccount("ours"))
PARENT = {Annotation.POD_SUSPENDING_PARENT: "deployment"}
QUEUE = {Label.QUEUE_NAME: "main"}


def a_set(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Raw:
    template = {"metadata": {"annotations": annotations or {}, "labels": {"app": "a", **(labels or {})}}}
    named = {"name": "a", "namespace": "team-a"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": named, "spec": {"template": template, **spec}}


def change(new: Raw, user: str = "jane") -> Any:
    old = a_set(PARENT, QUEUE)
    asked = review_of(new, old=old, userInfo={"username": user}, resource="replicasets")
    return parse(orjson.dumps(asked))


@pytest.mark.parametrize(
    ("new", "keys"),
    [
        pytest.param(a_set(PARENT), [f"labels[{Label.QUEUE_NAME}]"], id="the queue name is removed"),
        pytest.param(a_set(PARENT, {Label.QUEUE_NAME: "b"}), [f"labels[{Label.QUEUE_NAME}]"], id="another queue"),
        pytest.param(
            a_set(None, QUEUE),
            [f"annotations[{Annotation.POD_SUSPENDING_PARENT}]"],
            id="the annotation by which they wait is removed",
        ),
        pytest.param(
            a_set(PARENT, {**QUEUE, Label.MANAGED: "false"}), [f"labels[{Label.MANAGED}]"], id="they are not watched"
        ),
        pytest.param({**a_set(), "spec": {"replicas": 1}}, ["annotations", "labels"], id="the template is removed"),
        pytest.param(a_set(PARENT, {**QUEUE, "mine": "yes"}, replicas=9), [], id="a label of its own, and replicas"),
    ],
)
def test_marks_of_a_template_stay(new: Raw, keys: list[str]) -> None:
    answer = template_marks.validate(change(new), CONTEXT)
    assert answer.allowed is (not keys)
    for key in keys:
        assert f"spec.template.metadata.{key}" in answer.message and template_marks.KEPT in answer.message
    assert template_marks.validate(change(new, "ours"), CONTEXT).allowed
    assert template_marks.validate(change(new), Context(WebhookSettings(), cluster())).allowed, "its own is not known"
    variables = {"oldObject": a_set(PARENT, QUEUE), "object": new}
    same = template_marks.same()
    assert cel.evaluate(same, variables) is (not keys), "the condition of the hook and of the policy is the same rule"


def test_only_templates_whose_pods_wait_have_marks() -> None:
    assert cel.evaluate(template_marks.marked(), {"oldObject": a_set(PARENT)}) is True
    assert cel.evaluate(template_marks.marked(), {"oldObject": a_set(None, QUEUE)}) is False
