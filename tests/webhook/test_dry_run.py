"""`kubectl create --dry-run=server`: an answer about the job, and nothing else that a real create would not have."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Label
from core.feedback.accepted import Accepted
from core.model import Raw
from tests.core.feedback.world import running, world
from tests.core.jobs.test_jobset import job_set
from tests.webhook import test_feedback, test_job_kinds, test_pod_owners
from tests.webhook.cluster import ask, review, review_of
from tests.webhook.test_feedback import MUTATE, VALIDATE, VALIDATE_WORKLOAD, queued
from webhook.settings import WebhookSettings

NOW = 'would start now, in flavor "standard"'
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}}
PODS: Raw = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PODS["spec"]["containers"][0]["resources"] = RESOURCES
QUEUE = {Label.QUEUE_NAME: "main"}


def deployment() -> Raw:
    return test_pod_owners.deployment(template=PODS, labels=QUEUE, namespace="team-a")


KINDS = [
    pytest.param(VALIDATE, queued(), "jobs", {}, NOW, id="a Job"),
    pytest.param(VALIDATE_WORKLOAD, test_feedback.workload("main"), "workloads", {}, NOW, id="a Workload"),
    pytest.param(
        test_pod_owners.VALIDATE,
        deployment(),
        "deployments",
        {"settings": test_pod_owners.DEPLOYMENTS},
        f"one of the 2 pods {NOW}",
        id="a Deployment",
    ),
]


@pytest.mark.parametrize(("path", "made", "resource", "given", "says"), KINDS)
def test_a_dry_run_is_answered_by_a_warning(
    path: str, made: Raw, resource: str, given: dict[str, Any], says: str
) -> None:
    real = ask(path, review_of(made, resource=resource), knows=world(), **given)
    dry = ask(path, review_of(made, resource=resource, dryRun=True), knows=world(), **given)
    assert real.get("warnings", []) == []
    assert dry == {**real, "warnings": [says]}


def test_what_would_wait_is_told_as_at_a_real_create() -> None:
    full = world(running("one", "team-a", "team-a", "12"))
    real, dry = (ask(VALIDATE, review(queued(cpu="4"), dryRun=dry), knows=full) for dry in (False, True))
    assert real == dry
    assert "will wait" in real["warnings"][0]


def test_a_dry_run_of_a_change_has_no_such_answer() -> None:
    for dry in (False, True):
        response = ask(VALIDATE, review(queued(cpu="2"), old=queued(), dryRun=dry), knows=world())
        assert response == {"uid": "u-1", "allowed": True}


def test_defaults_are_those_of_a_real_create_and_nothing_is_kept() -> None:
    real, dry = (ask(MUTATE, review(queued(), dryRun=dry), knows=world()) for dry in (False, True))
    assert real == dry
    accepted = Accepted()
    ask(VALIDATE, review({**queued(), "metadata": {**queued()["metadata"], "uid": "u"}}, dryRun=True), knows=world(),
        accepted=accepted)  # fmt: skip
    assert len(accepted) == 0


def test_jobs_that_were_accepted_just_before_count() -> None:
    accepted = Accepted()
    for uid in ("a", "b"):
        ask(VALIDATE, test_feedback.created(uid), knows=world(), accepted=accepted)
    made = test_feedback.created("c", dryRun=True)
    response = ask(VALIDATE, made, knows=world(), accepted=accepted)
    assert "will wait" in response["warnings"][0]
    assert not [each for each in response["warnings"] if "would start" in each]


def test_an_operator_may_switch_the_answer_off() -> None:
    from webhook.policy import PolicyEntry

    settings: WebhookSettings = test_feedback.policy(PolicyEntry("dry-run", "Ignore"))
    response = ask(VALIDATE, review(queued(), dryRun=True), knows=world(), settings=settings)
    assert response == {"uid": "u-1", "allowed": True}


def test_a_job_set_is_answered_too() -> None:
    made = job_set(labels=QUEUE, namespace="team-a")
    response = ask(
        test_job_kinds.VALIDATE,
        review_of(made, resource="jobsets", dryRun=True),
        knows=world(),
        settings=test_job_kinds.JOB_SETS,
    )
    assert [each for each in response["warnings"] if "would start now" in each]
