"""Devices that no quota counts, and jobs that another controller runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.devices.inventory import Inventory, RefusedClaims
from core.feedback.jobs import of_job, of_template
from core.feedback.rules import LIMIT
from core.feedback.submission import Submission
from core.model import Raw
from tests.core.devices.samples import a_class, a_slice, device, exactly, inventory, template
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


GPUS = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu, memory, gpus]
      flavors:
      - name: standard
        resources:
        - {name: cpu, nominalQuota: 8}
        - {name: memory, nominalQuota: 32Gi}
        - {name: gpus, nominalQuota: 4}
"""
CLASS = a_class("gpu.example.com", "device.driver == 'gpu.example.com'")
WRONG = "device.attributes['gpu.example.com'].model = 'a'"


def devices(*objects: Raw) -> Inventory:
    mapped: list[Raw] = [{"name": "gpus", "deviceClassNames": ["gpu.example.com", "gpu.exmple.com"]}]
    return inventory(mapped, CLASS, *objects)


def claiming(*requests: Raw, counting: Inventory | RefusedClaims | None = None) -> Submission:
    """A job whose pods refer to a template with these requests."""
    found = devices(template("one-gpu", *requests, namespace="team-a")) if counting is None else counting
    return job(resourceClaims=[CLAIM], devices=found)


def uncounted(asked: Submission, message: str, case: str) -> Any:
    return pytest.param(asked, "", "devices-not-counted", message, id=case)


CASES = [
    uncounted(
        claiming(counting=devices()),
        'ResourceClaimTemplate "one-gpu" does not exist: nothing starts; create it in this namespace',
        "no template",
    ),
    uncounted(
        claiming(exactly("nic")),
        'DeviceClass "nic" is in no deviceClassMappings: nothing starts; an administrator must map it to a resource',
        "a class that is not mapped",
    ),
    uncounted(
        claiming(exactly("gpu.exmple.com", 1, "true")),
        'DeviceClass "gpu.exmple.com" does not exist: nothing starts; make the template again with one that does',
        "a selector of a class that does not exist",
    ),
    uncounted(
        claiming(exactly("gpu.example.com", 1, WRONG)),
        "ResourceClaimTemplate \"one-gpu\": wrong selector at character 44: token recognition error at: '='",
        "a selector that does not compile",
    ),
    uncounted(
        claiming(
            counting=devices(
                a_slice("s", device()),
                template("one-gpu", exactly("gpu.example.com", 1, "device.attributes['x'].y == 1"), namespace="team-a"),
            ),
        ),
        'ResourceClaimTemplate "one-gpu": wrong selector: no such key: y: nothing starts; make the template again with'
        " another",
        "a selector that fails",
    ),
    uncounted(
        claiming(exactly("gpu.example.com", 2, "true")),
        'ResourceClaimTemplate "one-gpu": 0 device(s) match, 2 requested: nothing starts; select others or ask for'
        " fewer",
        "too few devices",
    ),
    uncounted(
        claiming(exactly("gpu.example.com", allocationMode="All")),
        'ResourceClaimTemplate "one-gpu": only an exact count can be counted; make the template again with a count',
        "all devices",
    ),
    uncounted(
        job(resourceClaims=[{"name": "gpus", "resourceClaimName": "mine"}], devices=devices()),
        "devices of a resourceClaimName cannot be counted: nothing starts; use resourceClaimTemplateName",
        "a ResourceClaim of its own",
    ),
    uncounted(
        claiming(counting=RefusedClaims()),
        "devices of ResourceClaims are not counted here: nothing starts; request an extended resource instead",
        "a ResourceClaim, and the integration is off",
    ),
    pytest.param(
        claiming(exactly("gpu.exmple.com")),
        GPUS,
        "device-class-not-found",
        'DeviceClass "gpu.exmple.com" of ResourceClaimTemplate "one-gpu" does not exist: did you mean'
        ' "gpu.example.com"?',
        id="a class that does not exist",
    ),
    pytest.param(
        claiming(exactly("gpu.example.com", 9)),
        GPUS,
        "request-too-large",
        'never starts: asks for 9 gpus, ClusterQueue "team-a" allows 4 in standard; ask for 4 or less',
        id="more devices than the quota",
    ),
    pytest.param(
        job(resourceClaims=[CLAIM]),
        "",
        "devices-not-counted",
        NOT_COUNTED,
        id="a claim that counts for nothing",
    ),
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
