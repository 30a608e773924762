"""What becomes of an object that names an owner whose controller did not create it."""

from __future__ import annotations

from typing import Any

import cel
import orjson
import pytest

from api.names import Annotation, Finalizer, JobControllerLabel, Label, SchedulingGate
from core.jobs.admission import counted
from core.jobs.kinds import BATCH_JOB
from core.model import Raw
from tests.webhook.cluster import cluster, job, review, review_of
from webhook import claims, living_pods, patch
from webhook.review import parse
from webhook.settings import Context, ControllerAccount, WebhookSettings

CONTEXT = Context(WebhookSettings(), cluster(), account=lambda: ControllerAccount("ours"))
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "u", "controller": True}
OTHER = {**OWNER, "kind": "Other", "uid": "v", "controller": False}


def owned(*owners: Raw) -> Raw:
    made = job()
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [*owners]}}


def test_an_owner_that_did_not_create_a_job_does_not_control_it() -> None:
    asked = parse(orjson.dumps(review(owned(OTHER, OWNER))))
    answer = claims.disown(BATCH_JOB, asked, CONTEXT)
    left = patch.apply(asked.new(), answer.patch)["metadata"]["ownerReferences"]
    assert left == [OTHER, {**OWNER, "controller": False}], "it is still an owner for garbage collection"
    (warning,) = answer.warnings
    assert "controller of Job o is now false" in warning


@pytest.mark.parametrize(
    ("old", "new", "user", "allowed"),
    [
        pytest.param((), (OWNER,), "jane", False, id="a controller is added"),
        pytest.param((OWNER,), ({**OWNER, "uid": "w"},), "jane", False, id="another controller"),
        pytest.param((OWNER,), (OWNER, OTHER), "jane", True, id="an owner that controls nothing"),
        pytest.param((), (OWNER,), "ours", True, id="by Seiretsu"),
    ],
)
def test_an_owner_that_controls_a_job_is_not_added_by_others(
    old: tuple[Raw, ...], new: tuple[Raw, ...], user: str, allowed: bool
) -> None:
    asked = parse(orjson.dumps(review(owned(*new), old=owned(*old), userInfo={"username": user})))
    assert claims.refuse_change(asked, CONTEXT).allowed is allowed


def a_pod(phase: str = "Running", gates: tuple[str, ...] = (), **metadata: Any) -> Raw:
    spec = {"schedulingGates": [{"name": each} for each in gates]}
    named = {"name": "p", "namespace": "team-a", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec, "status": {"phase": phase}}


def labelled(**labels: str) -> dict[str, Any]:
    return {"labels": {Label.MANAGED: "true", **labels}}


ELASTIC = (SchedulingGate.ELASTIC_JOB,)
HELD: dict[str, Any] = {"finalizers": [Finalizer.MANAGED]}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param(a_pod(gates=ELASTIC), a_pod(), ["spec.schedulingGates"], id="a gate"),
        pytest.param(
            a_pod(gates=(SchedulingGate.TOPOLOGY,)), a_pod(), ["spec.schedulingGates"], id="a gate for a domain"
        ),
        pytest.param(a_pod(gates=("a.b/c",)), a_pod(), [], id="a gate of somebody else"),
        pytest.param(
            a_pod(gates=ELASTIC), a_pod(labels={"a": "b"}), ["spec.schedulingGates"], id="a gate, with a label"
        ),
        pytest.param(
            a_pod(**labelled()), a_pod(), [f"metadata.labels[{Label.MANAGED}]"], id="the label by which it is watched"
        ),
        pytest.param(
            a_pod(labels={JobControllerLabel.CONTROLLER_UID: "u"}),
            a_pod(),
            [f"metadata.labels[{JobControllerLabel.CONTROLLER_UID}]"],
            id="the uid of its Job",
        ),
        pytest.param(
            a_pod(),
            a_pod(annotations={Annotation.ROLE_HASH: "x"}),
            [f"metadata.annotations[{Annotation.ROLE_HASH}]"],
            id="a role",
        ),
        pytest.param(a_pod("Failed", **labelled()), a_pod("Failed"), [], id="of a pod that has ended"),
        pytest.param(
            a_pod("Succeeded", **HELD), a_pod("Succeeded"), ["metadata.finalizers"], id="whose Workload has no result"
        ),
        pytest.param(
            a_pod(**labelled(**{Label.QUEUE_NAME: "a"})),
            a_pod(**labelled(**{Label.QUEUE_NAME: "b"})),
            [counted.QUEUE],
            id="the queue of a pod that runs",
        ),
        pytest.param(
            a_pod(gates=(SchedulingGate.ADMISSION,), **labelled(**{Label.QUEUE_NAME: "a"})),
            a_pod(gates=(SchedulingGate.ADMISSION,), **labelled(**{Label.QUEUE_NAME: "b"})),
            [],
            id="the queue of a pod that waits",
        ),
        pytest.param(a_pod(labels={"a": "b"}), a_pod(annotations={"c": "d"}), [], id="what belongs to its owner"),
    ],
)
def test_what_a_living_pod_is_counted_by_stays(old: Raw, new: Raw, fields: list[str]) -> None:
    assert [each.field for each in counted.errors(old, new)] == fields
    asked = parse(orjson.dumps(review_of(new, old=old, resource="pods")))
    assert living_pods.validate(asked, CONTEXT).allowed is (not fields)
    assert living_pods.validate(asked, Context(WebhookSettings(), cluster())).allowed, (
        "its own account is not known yet"
    )


@pytest.mark.parametrize("ended", [False, True])
def test_policy_and_hook_have_the_same_rule(ended: bool) -> None:
    """The condition of the hook is the policy's in the API server; tests/cluster/test_backstop.py asks that."""
    pod = a_pod("Failed" if ended else "Running")
    assert cel.evaluate(living_pods.COUNTS, {"oldObject": pod}) is counted.counts(pod)
    for expression in living_pods.kept().values():
        assert cel.evaluate(expression, {"oldObject": pod, "object": pod}) is True
