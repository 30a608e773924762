"""Devices that no quota counts, and jobs that another controller runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.feedback.jobs import of_job, of_template
from core.feedback.rules import LIMIT
from core.feedback.submission import Submission
from tests.core.feedback.table import WORLDS
from tests.core.feedback.world import job, world

CLAIM = {"name": "gpus", "resourceClaimTemplateName": "one-gpu"}
NOT_COUNTED = "resourceClaims (gpus) use no quota: their devices are not counted; request an extended resource instead"
MULTIKUEUE = """
- kind: AdmissionCheck
  metadata: {name: budget}
  spec: {controllerName: kueue.x-k8s.io/multikueue}
  status: {conditions: [{type: Active, status: "True"}]}
"""


def managed(controller: str) -> Submission:
    return replace(job(), managed_by=("spec.managedBy", controller))


CASES = [
    pytest.param(job(resourceClaims=[CLAIM]), "", "devices-not-counted", NOT_COUNTED, id="a ResourceClaim"),
    pytest.param(
        job(resourceClaims=[{"name": f"c{number}"} for number in range(4)]),
        "",
        "devices-not-counted",
        "resourceClaims (c0, c1 and 2 more) use no quota: their devices are not counted; request an extended resource"
        " instead",
        id="several",
    ),
    pytest.param(
        managed("example.com/runner"),
        "",
        "other-controller",
        "spec.managedBy is example.com/runner: only that controller creates the pods; unset managedBy if it does not"
        " run here",
        id="another controller",
    ),
    pytest.param(
        managed("kueue.x-k8s.io/multikueue"),
        "",
        "other-controller",
        'spec.managedBy is MultiKueue, but ClusterQueue "team-a" has no such check: nothing creates the pods; unset it',
        id="MultiKueue, which the queue does not use",
    ),
    pytest.param(managed("kueue.x-k8s.io/multikueue"), WORLDS["checked"] + MULTIKUEUE, "", "", id="MultiKueue"),
]


@pytest.mark.parametrize(("asked", "more", "rule", "message"), CASES)
def test_the_messages_of_each_case(asked: Submission, more: str, rule: str, message: str) -> None:
    found = of_job(asked, world(more))
    assert [(each.rule, each.message) for each in found] == [(rule, message)] * bool(message)
    assert all(len(each.message) <= LIMIT for each in found)


def test_the_jobs_of_a_cron_job_are_warned_of_too() -> None:
    assert [each.message for each in of_template(job(resourceClaims=[CLAIM]), world())] == [NOT_COUNTED]
