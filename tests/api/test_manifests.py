"""Files of any version read as the API server would store them, or say what is wrong."""

from typing import Any

import pytest

from api.manifests import stored
from api.objects import Raw
from tests.api.objects import VALID


def manifest(kind: str, version: str, **fields: Any) -> Raw:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **fields}


@pytest.mark.parametrize("kind", VALID)
def test_what_is_written_in_the_stored_version_only_gets_its_defaults(kind: str) -> None:
    given = VALID[kind]()
    read, errors = stored(given)
    assert errors == []
    assert read["metadata"] == given["metadata"]
    if kind == "ClusterQueue":
        assert read["spec"]["queueingStrategy"] == "BestEffortFIFO"


def test_an_older_version_is_converted() -> None:
    read, errors = stored(manifest("ClusterQueue", "v1beta1", spec={"cohort": "team"}))
    assert errors == []
    assert (read["apiVersion"], read["spec"]["cohortName"]) == ("kueue.x-k8s.io/v1beta2", "team")


def test_a_queue_becomes_the_local_queue_it_acts_through() -> None:
    read, errors = stored(manifest("Queue", "v1alpha1", spec={"clusterQueue": "total"}))
    assert errors == []
    assert read == manifest("LocalQueue", "v1beta2", spec={"clusterQueue": "total", "stopPolicy": "None"})


WRONG: dict[str, tuple[Raw, list[str]]] = {
    "a misspelt field": (
        manifest("ClusterQueue", "v1beta2", spec={"cohort": "team"}),
        ['spec.cohort: Invalid value: "team": unknown field, it would be dropped'],
    ),
    "a quota beside the name": (
        manifest(
            "ClusterQueue",
            "v1alpha1",
            spec={"resources": [{"name": "cpu", "flavors": [{"name": "a", "min": 5}]}]},
        ),
        [
            "spec.resources[0].flavors[0]: Invalid value: write the quota of a flavor as quota: {min: ..., max: ...};"
            " min and max beside the name would be lost"
        ],
    ),
    "labels for a selector": (
        manifest("ClusterQueue", "v1beta1", spec={"namespaceSelector": {"team": "a"}}),
        [
            "spec.namespaceSelector.team: Forbidden: unknown field; it would be dropped and leave a selector that"
            " matches more namespaces than meant (write matchLabels: {team: ...})"
        ],
    ),
    "a version there is not": (
        manifest("Queue", "v1beta2"),
        ['apiVersion: Unsupported value: "kueue.x-k8s.io/v1beta2": supported values: "kueue.x-k8s.io/v1alpha1"'],
    ),
    "a wrong type": (
        manifest("LocalQueue", "v1beta1", spec={"clusterQueue": 5}),
        ['spec.clusterQueue: Invalid value: "integer": spec.clusterQueue in body must be of type string: "integer"'],
    ),
}


@pytest.mark.parametrize(("given", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(given: Raw, expected: list[str]) -> None:
    assert [str(error) for error in stored(given)[1]] == expected


def test_an_object_of_another_group_is_reported() -> None:
    assert str(stored({"apiVersion": "batch/v1", "kind": "Job"})[1][0]).startswith('kind: Unsupported value: "Job"')
