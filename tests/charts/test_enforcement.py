"""The policy that jobs name a queue: whoever excuses what is below it must name one itself."""

from __future__ import annotations

import json
import re

import pytest

from api.objects import Raw
from core.jobs.kinds import ALL, POD
from tests.charts.rendering import VALIDATING_SERVED, documents, only, rendered
from webhook.enforcement import QUEUE_NAME, UNQUEUED

PLURALS = {f"{kind.kind}.{kind.group}": f"{kind.plural}.{kind.group}" for kind in ALL}
EXTERNAL = {"Widget.v1.example.com": "widgets.example.com", "Policy.v1.b.c": "policies.b.c", "Bus.v1.b.c": "buses.b.c"}


def policy(frameworks: list[str], external: list[str]) -> Raw:
    given = {"integrations": {"frameworks": frameworks, "externalFrameworks": external}}
    values = {
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(given)},
        "enforcement": {"queueName": {"enabled": True}},
    }
    found = documents(rendered(values, served=VALIDATING_SERVED))
    spec: Raw = only(found, "ValidatingAdmissionPolicy", "seiretsu-require-queue-name")["spec"]
    return spec


def words(expression: str, after: str) -> list[str]:
    """The words of the list that an expression has after some text."""
    (found,) = re.finditer(re.escape(after) + r" in '([^']*)'\.split", expression)
    return found[1].split()


@pytest.mark.parametrize(
    ("frameworks", "external", "unqueued"),
    [
        (["batch/job"], [], []),
        (["ray.io/rayjob", "batch/job"], [], ["rayclusters.ray.io"]),
        (["trainer.kubeflow.org/trainjob"], [*EXTERNAL], ["jobsets.jobset.x-k8s.io"]),
        (
            ["workload.codeflare.dev/appwrapper", "jobset.x-k8s.io/jobset"],
            [],
            [
                "mpijobs.kubeflow.org",
                "rayclusters.ray.io",
                "rayjobs.ray.io",
                "rayservices.ray.io",
                "trainjobs.trainer.kubeflow.org",
            ],
        ),
    ],
    ids="+".join,
)
def test_each_kind_that_excuses_what_is_below_it_must_name_a_queue(
    frameworks: list[str], external: list[str], unqueued: list[str]
) -> None:
    spec = policy(frameworks, external)
    rules = spec["matchConstraints"]["resourceRules"]
    ruled = {f"{name}.{each['apiGroups'][0]}" for each in rules for name in each["resources"]}
    owner = next(each["expression"] for each in spec["matchConditions"] if each["name"] == "not-below-an-owner")
    above = words(owner, "o.apiVersion.split('/')[0] : ''))")
    plurals = PLURALS | {f"{name.split('.')[0]}.{name.split('.', 2)[2]}": plural for name, plural in EXTERNAL.items()}
    assert {plurals[each] for each in above} <= ruled
    by_itself, named = spec["validations"]
    assert (by_itself["message"], named["message"]) == (UNQUEUED, QUEUE_NAME)
    assert sorted(words(by_itself["expression"], "request.resource.group)")) == unqueued
    enabled = {f"{kind.plural}.{kind.group}" for kind in ALL if kind.framework in frameworks and kind is not POD}
    assert ruled == enabled | {*unqueued} | ({*EXTERNAL.values()} if external else set())
