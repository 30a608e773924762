"""A JobSet in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.actions import Delete, Patch, Target
from core.jobs.job_reader import Outcome
from core.jobs.kinds import BATCH_JOB, JOB_SET
from core.jobs.template import Injection
from core.model import Key, Raw
from core.wire.merge import merged

GROUP = "kueue.x-k8s.io/podset-group-name"
ONE_IS_SINGLE = "can only define groups where at least one pod set has only 1 replica"
SLICE = {
    "kueue.x-k8s.io/podset-slice-size": "3",
    "kueue.x-k8s.io/podset-slice-required-topology": "rack",
}
RACK = {"kueue.x-k8s.io/podset-group-name": "g", "kueue.x-k8s.io/podset-required-topology": "rack"}
REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def replicated(name: str, replicas: int | None = 1, annotations: Raw | None = None, **spec: Any) -> Raw:
    pod = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [{"name": "c", "image": name}]}}
    given = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **given, "template": {"spec": {**spec, "template": pod}}}


def job_set(*jobs: Raw, status: Raw | None = None, suspend: bool = True, **metadata: Any) -> Raw:
    """A JobSet of a driver and of two Jobs of three workers each, if no other Jobs are given."""
    found = jobs or (replicated("driver"), replicated("workers", 2, parallelism=3, completions=3))
    metadata = {"name": "set", "namespace": "ns", "uid": "set-uid", "resourceVersion": "5", **metadata}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"suspend": suspend, "replicatedJobs": [*found]},
        "status": status or {},
    }


def of_jobs(**counts: dict[str, int]) -> Raw:
    return {"replicatedJobsStatus": [{"name": name, **each} for name, each in counts.items()]}


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (replicated("w", 2, parallelism=3, completions=9), 6),
        (replicated("w", 2, parallelism=3, completions=2), 4),
        (replicated("w", 4), 4),
        (replicated("w", 4, parallelism=2), 8),
        (replicated("w", None, parallelism=2), 2),
        (replicated("w", 0, parallelism=2), 0),
    ],
    ids=[
        "as many as run at once",
        "never more than are to complete",
        "one each",
        "without completions",
        "one replica by default",
        "no replicas",
    ],
)
def test_the_count_of_pods(one: Raw, count: int) -> None:
    assert [each["count"] for each in JOB_SET.pod_sets(job_set(one))] == [count]


def test_each_replicated_job_is_a_pod_set() -> None:
    found = JOB_SET.pod_sets(job_set())
    assert [(each["name"], each["count"]) for each in found] == [("driver", 1), ("workers", 6)]
    assert [each["template"]["spec"]["containers"][0]["image"] for each in found] == ["driver", "workers"]


def test_a_start_sends_the_list_of_replicated_jobs_as_a_whole() -> None:
    found = job_set()
    nodes = [
        Injection("driver", 1, node_selector={"kind": "cpu"}),
        Injection("workers", 6, node_selector={"kind": "gpu"}),
    ]
    (patch,) = JOB_SET.start(found, nodes)
    assert isinstance(patch, Patch)
    sent = patch.body["spec"]["replicatedJobs"]
    assert patch.body["spec"]["suspend"] is False
    assert [each["template"]["spec"]["template"]["spec"]["nodeSelector"] for each in sent] == [
        {"kind": "cpu"},
        {"kind": "gpu"},
    ]
    assert [each["name"] for each in sent] == ["driver", "workers"]


def test_jobs_of_an_earlier_start_are_deleted_before_the_next_one() -> None:
    marked = {"metadata": {"annotations": {"kueue.x-k8s.io/workload": "jobset-set-1"}}}

    def child(name: str, pod: Raw) -> Raw:
        return {"metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"}, "spec": {"template": pod}}

    writes = JOB_SET.start(job_set(), [Injection("a", 1), Injection("b", 6)], [child("old", marked), child("new", {})])
    assert writes[0] == Delete("old-uid", Target(BATCH_JOB.resource, Key("ns", "old")))
    assert [type(each) for each in writes] == [Delete, Patch]


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([], None),
        ([{"type": "Suspended", "status": "True"}], None),
        ([{"type": "Completed", "status": "False", "message": "no"}], None),
        ([{"type": "Completed", "status": "True", "message": "jobset completed"}], Outcome(True, "jobset completed")),
        ([{"type": "Failed", "status": "True", "message": "too often"}], Outcome(False, "too often")),
    ],
    ids=["no conditions", "suspended", "not completed", "completed", "failed"],
)
def test_how_it_ended(conditions: list[Raw], outcome: Outcome | None) -> None:
    assert JOB_SET.finished(job_set(status={"conditions": conditions})) == outcome


def test_it_is_active_as_long_as_one_of_its_jobs_has_pods() -> None:
    assert JOB_SET.active(job_set(status=of_jobs(driver={"active": 0}, workers={"active": 1})))
    assert not JOB_SET.active(job_set(status=of_jobs(driver={"active": 0}, workers={"active": 0})))
    assert not JOB_SET.active(job_set())


def test_its_pods_are_ready_when_all_of_its_jobs_are_ready_or_succeeded() -> None:
    assert JOB_SET.pods_ready(job_set(status=of_jobs(driver={"succeeded": 1}, workers={"ready": 1, "succeeded": 1})))
    assert not JOB_SET.pods_ready(job_set(status=of_jobs(driver={"ready": 1}, workers={"ready": 1})))
    assert not JOB_SET.pods_ready(job_set())


@pytest.mark.parametrize(
    ("counts", "free"),
    [
        ({"driver": {"succeeded": 0}, "workers": {"succeeded": 1}}, {"workers": 3}),
        ({"driver": {"succeeded": 1}, "workers": {"succeeded": 2}}, {"driver": 1, "workers": 6}),
        ({"workers": {"succeeded": 3}}, {}),
        ({}, {}),
    ],
    ids=["a job of three pods", "all of them", "more than there are", "nothing is known"],
)
def test_the_pods_of_jobs_that_succeeded_are_not_needed_any_more(counts: Any, free: Raw) -> None:
    assert JOB_SET.reclaimable(job_set(status=of_jobs(**counts))) == free


@pytest.mark.parametrize(
    ("policy", "restarts", "free"),
    [
        ({}, 0, {"driver": 1}),
        ({"maxRestarts": 2}, 1, {}),
        ({"maxRestarts": 2}, 2, {"driver": 1}),
        ({"rules": [{"name": "r", "action": "RestartJobSetAndIgnoreMaxRestarts"}]}, 9, {}),
        ({"rules": [{"name": "r", "action": "RestartJobAndIgnoreMaxRestarts"}]}, 9, {"driver": 1}),
    ],
    ids=["it fails at once", "one restart is left", "none is left", "any number", "only the Job that failed"],
)
def test_pods_that_a_restart_would_create_again_keep_their_quota(policy: Raw, restarts: int, free: Raw) -> None:
    status = {**of_jobs(driver={"succeeded": 1}), "restarts": restarts, "restartsCountTowardsMax": restarts}
    found = job_set(status=status)
    assert JOB_SET.reclaimable(merged(found, {"spec": {"failurePolicy": policy}})) == free


@pytest.mark.parametrize(
    ("jobs", "errors"),
    [
        pytest.param(
            [replicated("a", 1, RACK), replicated("b", 2, RACK)],
            [],
            id="a leader and its workers",
        ),
        pytest.param(
            [replicated("a", 1, RACK)],
            ["can only define groups of exactly 2 pod sets, got: 1 pod set(s)"],
            id="a group of one",
        ),
        pytest.param(
            [replicated("a", 2, RACK), replicated("b", 2, RACK)],
            [f"{ONE_IS_SINGLE}, got: 2 replica(s) and 2 replica(s) in the group"] * 2,
            id="no leader",
        ),
        pytest.param(
            [replicated("a", 1, RACK), replicated("b", 2, {GROUP: "g", REQUIRED: "block"})],
            [
                f"must specify '{REQUIRED}' or 'kueue.x-k8s.io/podset-preferred-topology' topology consistent with"
                f" 'spec.replicatedJobs[{other}].template.spec.template.metadata.annotations' in group 'g'"
                for other in (1, 0)
            ],
            id="of different topologies",
        ),
        pytest.param(
            [
                replicated(
                    "a",
                    2,
                    SLICE,
                )
            ],
            ["must not be greater than pod set count 2"],
            id="a slice larger than its pod set",
        ),
    ],
)
def test_topology_of_its_pod_sets(jobs: list[Raw], errors: list[str]) -> None:
    found = JOB_SET.validate_create(job_set(*jobs), DEFAULTS.__getitem__)
    assert [error.detail for error in found] == errors
    assert all(error.field.startswith("spec.replicatedJobs[") for error in found)
