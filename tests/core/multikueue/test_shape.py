"""What of a copy that has not the shape of a Workload the rules get to see."""

from __future__ import annotations

from typing import Any

import pytest

from api.objects import Raw
from core.multikueue.shape import MALFORMED, checked
from core.wire.merge import merged
from tests.core.multikueue.groups import copy

GOOD = copy(Admitted="True")


def status(**fields: Any) -> Raw:
    return {"status": fields}


def condition(**fields: Any) -> Raw:
    return status(conditions=[{"type": "Admitted", "status": "True", "reason": "Admitted", **fields}])


CASES: dict[str, tuple[Raw, str]] = {
    "conditions that are a text": (status(conditions="x"), "status.conditions: must be a list"),
    "a condition that is a text": (status(conditions=["x"]), "status.conditions[0]: must be an object"),
    "a condition without a status": (
        status(conditions=[{"type": "Evicted"}]),
        "status.conditions[0].status: must be a string",
    ),
    "a reason that is a number": (condition(reason=7), "status.conditions[0].reason: must be a string"),
    "a time that is none": (
        condition(lastTransitionTime="garbage"),
        "status.conditions[0].lastTransitionTime: must be a time",
    ),
    "a time that is a number": (
        condition(lastTransitionTime=7),
        "status.conditions[0].lastTransitionTime: must be a time",
    ),
    "a gate without a position": (
        status(preemptionGates=[{"name": "g"}]),
        "status.preemptionGates[0].position: must be a string",
    ),
    "a gate without a time": (
        status(preemptionGates=[{"name": "g", "position": "Open"}]),
        "status.preemptionGates[0].lastTransitionTime: must be a string",
    ),
    "an owner that is a text": (
        {"metadata": {"ownerReferences": ["x"]}},
        "metadata.ownerReferences[0]: must be an object",
    ),
    "an owner without a uid": (
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}},
        "metadata.ownerReferences[0].uid: must be a string",
    ),
    "pod sets that are a map": ({"spec": {"podSets": {"main": 1}}}, "spec.podSets: must be a list"),
    "a pod set without a count": (
        {"spec": {"podSets": [{"name": "main"}]}},
        "spec.podSets[0].count: must be an integer",
    ),
    "a count that is a text": (
        {"spec": {"podSets": [{"name": "main", "count": "1"}]}},
        "spec.podSets[0].count: must be an integer",
    ),
    "labels that are a text": ({"metadata": {"labels": "x"}}, "metadata.labels: must be a map"),
    "finalizers that are a map": ({"metadata": {"finalizers": {"a": 1}}}, "metadata.finalizers: must be a list"),
    "a spec that is a list": ({"spec": []}, "spec: must be an object"),
    "a status that is a list": ({"status": ["x"]}, "status: must be an object"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_malformed_copy_has_no_status_and_says_what_is_wrong(case: str) -> None:
    change, wrong = CASES[case]
    found = checked(merged(GOOD, change))
    assert found[MALFORMED] == wrong
    assert "status" not in found
    assert found["metadata"]["uid"] == GOOD["metadata"]["uid"]
    assert checked({key: value for key, value in found.items() if key != MALFORMED}).get(MALFORMED) is None


@pytest.mark.parametrize("given", [GOOD, copy(), {**GOOD, "status": None}])
def test_a_copy_of_the_right_shape_is_kept_as_it_is(given: Raw) -> None:
    assert checked(given) is given
