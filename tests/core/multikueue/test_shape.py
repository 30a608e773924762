"""What of a copy that has not the shape of a Workload the rules get to see."""

from __future__ import annotations

from typing import Any

import pytest

from api.objects import Raw
from core.jobs.external import External
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, POD
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.multikueue.shape import MALFORMED, checked, checked_job
from core.wire.merge import merged
from tests.core.multikueue.groups import NOW, copy, there

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


JOB = there(suspend=False, status={"active": 1, "conditions": [{"type": "Suspended", "status": "False"}]})
OF_JOBS: dict[str, tuple[Raw, str]] = {
    "labels that are a text": ({"metadata": {"labels": "x"}}, "metadata.labels: must be a map"),
    "an annotation that is a number": (
        {"metadata": {"annotations": {"a": 1}}},
        "metadata.annotations: must be a map of strings",
    ),
    "an owner that is a text": (
        {"metadata": {"ownerReferences": ["x"]}},
        "metadata.ownerReferences[0]: must be an object",
    ),
    "a deletion at no time": ({"metadata": {"deletionTimestamp": 7}}, "metadata.deletionTimestamp: must be a time"),
    "another kind": ({"kind": "CronJob"}, "apiVersion, kind: must be batch/v1, Job"),
    "a spec that is a list": ({"spec": []}, "spec: must be an object"),
    "a status that is a text": ({"status": "x"}, "status: must be an object"),
    "conditions that are a text": (
        {"status": {"conditions": "x"}},
        "cannot be read: TypeError: string indices must be integers, not 'str'",
    ),
    "a condition without a type": ({"status": {"conditions": [{}]}}, "cannot be read: KeyError: 'type'"),
}


@pytest.mark.parametrize("case", OF_JOBS)
def test_a_malformed_job_is_known_by_its_name_alone_and_says_what_is_wrong(case: str) -> None:
    change, wrong = OF_JOBS[case]
    raw = merged(JOB, change)
    if "spec" in change and not change["spec"]:
        raw["spec"] = ["x"]
    found = checked_job(BATCH_JOB, raw, NOW)
    assert found[MALFORMED] == wrong
    assert found.keys() == {"apiVersion", "kind", "metadata", MALFORMED}
    assert found["metadata"]["uid"] == JOB["metadata"]["uid"]


def test_a_job_that_is_nested_too_deep_is_malformed() -> None:
    deep: Raw = {}
    for _ in range(5000):
        deep = {"a": deep}
    found = checked_job(BATCH_JOB, {**JOB, "status": {"deep": deep}}, NOW)
    assert found[MALFORMED].startswith("cannot be read: RecursionError")


KINDS: tuple[Mirrored, ...] = (
    *(kind for kind in ALL if kind.may_run_in_worker),
    *MIRRORED_OWNERS,
    External("Run.v1.a.com"),
)
TEXTS: tuple[Any, ...] = ("x", ["x"], [{"type": 1}], {"a": {}}, 7)
ODD: tuple[Raw, ...] = (
    *({"status": {"conditions": each}} for each in TEXTS),
    *({"status": {key: "x"}} for key in ("phase", "replicaStatuses", "replicatedJobsStatus", "jobsStatus", "state")),
    *({"status": {key: ["x"]}} for key in ("jobDeploymentStatus", "rayClusterStatus", "componentStatus", "active")),
    *({"spec": each} for each in ({"suspend": "x"}, {"runPolicy": "x"}, {"schedulingGates": ["x"]}, {"replicas": "x"})),
    *({"metadata": {"annotations": {"kueue.x-k8s.io/pod-group-total-count": each}}} for each in ("x", "-1", "9" * 99)),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_what_is_left_of_a_malformed_job_can_be_read(kind: Mirrored) -> None:
    """Nothing that the rules ask of a kind raises for an object that has gone through the check."""
    labels = {"kueue.x-k8s.io/pod-group-name": "g"} if kind is POD else {}
    plain: Raw = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {}, "status": {}}
    plain["metadata"] = {"name": "j", "namespace": "ns", "uid": "u", "labels": labels, "resourceVersion": "1"}
    assert checked_job(kind, plain, NOW) is plain
    for change in ODD:
        found = checked_job(kind, merged(plain, change), NOW)
        assert checked_job(kind, {**found, MALFORMED: None}, NOW).get(MALFORMED) is None
        assert isinstance(kind, JobKind) or not kind.stopped_in_worker(found)
