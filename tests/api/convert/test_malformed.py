"""Objects that are not as their schema has them: the API server converts before it looks, and it is to look."""

import json
from typing import Any

import pytest

from api.convert import convert
from api.convert.review import answer
from api.convert.topology_assignment import ROOM, domains
from api.kinds import KINDS
from api.objects import Raw
from tests.api.random_objects import Maker
from tests.effort import cases

OLDER = [
    (kind, version)
    for kind in KINDS
    for version in kind.versions
    if version is not kind.stored and kind.kind != "Workload"
]


@pytest.mark.parametrize(("kind", "version"), OLDER, ids=[f"{kind.kind} {version.name}" for kind, version in OLDER])
def test_what_is_of_the_wrong_form_reads_back_as_it_was_written(kind: Any, version: Any) -> None:
    for seed in range(cases(60, 1_000)):
        made = Maker(kind, seed, full=seed % 2 == 0, version=version)
        spoilt = made.spoilt(made.object())
        assert convert(convert(spoilt, kind.stored.name), version.name) == spoilt


def held(kind: str, version: str, difference: Raw, **fields: Any) -> Raw:
    """An object of `version` with a forged annotation for the other version."""
    (other,) = {"v1beta1", "v1beta2"} - {version}
    annotations = {f"conversion.kueue.x-k8s.io/{other}": json.dumps(difference)}
    metadata = {"name": "x", "annotations": annotations}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata, **fields}


def assignment(**part: Any) -> Raw:
    """The status of a Workload with a topology assignment of one slice."""
    whole = {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": "a"}], **part}
    placed = {"name": "main", "topologyAssignment": {"levels": ["rack"], "slices": [whole]}}
    return {"admission": {"podSetAssignments": [placed]}}


@pytest.mark.parametrize(
    "wrong",
    [{"podCounts": {"individual": ["x"]}}, {"valuesPerLevel": 5}, {"domainCount": "many"}, {"podCounts": None}],
    ids=str,
)
def test_an_annotation_that_makes_an_object_inconvertible_is_ignored(wrong: Raw) -> None:
    """It would break every list of the kind in an older version, and any writer of the object can set it."""
    forged = held("Workload", "v1beta1", {"=": {"status": assignment(**wrong)}}, spec={"queueName": "q"})
    assert convert(forged, "v1beta2")["spec"] == {"queueName": "q"}
    assert "status" not in convert(forged, "v1beta2")


def test_a_slice_that_claims_thousands_of_millions_of_domains_costs_little() -> None:
    claimed = assignment(domainCount=2**31 - 1)
    (placed,) = claimed["admission"]["podSetAssignments"]
    written = len(json.dumps(domains(placed["topologyAssignment"])["domains"]))
    assert ROOM / 2 < written < 2 * ROOM
    forged = held("Workload", "v1beta1", {"=": {"status": claimed}}, spec={})
    convert(forged, "v1beta2")


def test_all_objects_and_slices_of_a_review_together_cost_no_more_than_one() -> None:
    claimed = assignment(domainCount=2**31 - 1)
    claimed["admission"]["podSetAssignments"] *= 500
    stored = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {}}
    request = {
        "uid": "u",
        "desiredAPIVersion": "kueue.x-k8s.io/v1beta1",
        "objects": [{**stored, "status": claimed}] * 3,
    }
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    response = answer(review)["response"]
    assert response["result"] == {"status": "Success"}
    (first, *_) = found = response["convertedObjects"]
    assert len(first["status"]["admission"]["podSetAssignments"]) == 500
    places = (part["topologyAssignment"] for each in found for part in each["status"]["admission"]["podSetAssignments"])
    assert sum(len(json.dumps(place.get("domains"))) for place in places) < 2 * ROOM + 3 * 500 * 100
