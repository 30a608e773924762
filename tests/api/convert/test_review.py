"""The answer to a ConversionReview."""

from typing import Any

import pytest

from api.convert.review import BadConversionReviewError, answer
from api.objects import Raw


def review(objects: Any, to: str = "kueue.x-k8s.io/v1beta2") -> Raw:
    request = {"uid": "u-1", "desiredAPIVersion": to, "objects": objects}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def cohort(version: str, **spec: Any) -> Raw:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Cohort", "metadata": {"name": "x"}, "spec": spec}


def test_all_objects_are_converted_in_order_under_the_same_uid() -> None:
    asked = review([cohort("v1alpha1", parent="a"), cohort("v1beta1", parentName="b")])
    assert answer(asked) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": "u-1",
            "convertedObjects": [cohort("v1beta2", parentName="a"), cohort("v1beta2", parentName="b")],
            "result": {"status": "Success"},
        },
    }


FAILURES: dict[str, tuple[Raw, str]] = {
    "another group": (review([], "batch/v1"), "cannot convert to batch/v1"),
    "an unknown version": (
        review([cohort("v1beta2")], "kueue.x-k8s.io/v9"),
        "objects[0]: cannot convert Cohort of kueue.x-k8s.io/v1beta2 to kueue.x-k8s.io/v9",
    ),
    "no list": (review({}), "cannot convert to kueue.x-k8s.io/v1beta2"),
    "a null": (review([None]), "objects[0]: not an object"),
    "an object no schema would accept": (
        review(
            [
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "ClusterQueue",
                    "metadata": {"name": "x"},
                    "spec": {"resourceGroups": [5]},
                }
            ],
            to="kueue.x-k8s.io/v1alpha1",
        ),
        'objects[0]: ClusterQueue x: spec.resourceGroups[0]: Invalid value: "integer": spec.resourceGroups[0] in body'
        ' must be of type object: "integer"',
    ),
}


@pytest.mark.parametrize(("asked", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_what_cannot_be_converted_fails_with_its_place(asked: Raw, message: str) -> None:
    assert answer(asked)["response"] == {
        "uid": "u-1",
        "convertedObjects": [],
        "result": {"status": "Failure", "message": message},
    }


@pytest.mark.parametrize("asked", [None, [], {}, {"kind": "ConversionReview"}, {**review([]), "request": None}])
def test_what_is_no_review_has_no_answer(asked: Any) -> None:
    with pytest.raises(BadConversionReviewError):
        answer(asked)
