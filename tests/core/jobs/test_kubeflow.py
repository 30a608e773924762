"""Kubeflow's training jobs and MPIJobs in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.jobs import workload
from core.jobs.fields import dotted
from core.jobs.job_reader import Outcome
from core.jobs.kinds.kubeflow import JAX_JOB, PADDLE_JOB, PY_TORCH_JOB, TF_JOB, XG_BOOST_JOB, KubeflowJob
from core.jobs.kinds.mpijob import MPI_JOB
from core.jobs.template import Injection
from core.model import Raw
from core.wire.merge import merged
from core.workload.priority import PriorityClasses, of_job
from tests.core.jobs.samples import patches

KUBEFLOW = (MPI_JOB, PY_TORCH_JOB, TF_JOB, XG_BOOST_JOB, PADDLE_JOB, JAX_JOB)
EACH = pytest.mark.parametrize("kind", KUBEFLOW, ids=lambda kind: kind.kind)
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-preferred-topology": "rack"}


def replica(replicas: int | None = None, *, priority: str = "", annotations: Raw | None = None) -> Raw:
    spec: Raw = {"containers": [{"name": "pytorch", "image": "i"}]}
    if priority:
        spec["priorityClassName"] = priority
    found: Raw = {"template": {"metadata": {"annotations": annotations or {}}, "spec": spec}, "restartPolicy": "Never"}
    return found if replicas is None else {"replicas": replicas, **found}


def kubeflow(kind: KubeflowJob, given: Raw | None = None, status: Raw | None = None, **spec: Any) -> Raw:
    """A suspended job with two replicas of each of its types, if no others are given."""
    specs = dict.fromkeys(reversed(kind.types), replica(2)) if given is None else given
    metadata = {"name": "k", "namespace": "ns", "uid": "k-uid", "resourceVersion": "5"}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {"runPolicy": {"suspend": True, "backoffLimit": 3}, kind.pods_path[-1]: specs, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (MPI_JOB, ["launcher", "worker"]),
        (PY_TORCH_JOB, ["master", "worker"]),
        (TF_JOB, ["chief", "master", "ps", "worker", "evaluator"]),
        (XG_BOOST_JOB, ["master", "worker"]),
        (PADDLE_JOB, ["master", "worker"]),
        (JAX_JOB, ["worker"]),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_each_type_of_replica_is_a_pod_set_in_the_order_of_the_kind(kind: KubeflowJob, names: list[str]) -> None:
    assert [(each["name"], each["count"]) for each in kind.pod_sets(kubeflow(kind))] == [(name, 2) for name in names]


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"Worker": replica(3)}, {"worker": 3}),
        ({"Worker": replica(0), "Master": replica()}, {"master": 1, "worker": 0}),
        ({"Worker": replica(2), "Master": None}, {"worker": 2}),
        ({}, {}),
    ],
    ids=["only workers", "one replica by default", "a type that is null", "no types"],
)
def test_types_that_a_job_does_not_have_are_no_pod_sets(given: Raw, sizes: dict[str, int]) -> None:
    found = PY_TORCH_JOB.pod_sets(kubeflow(PY_TORCH_JOB, given))
    assert {each["name"]: each["count"] for each in found} == sizes


@EACH
def test_a_start_writes_the_templates_and_the_run_policy_and_nothing_else(kind: KubeflowJob) -> None:
    found = kubeflow(kind)
    nodes = [Injection(name.lower(), 2, node_selector={"pool": name}) for name in kind.types]
    (patch,) = patches(kind.start(found, nodes))
    pods = {
        name: {
            "template": {
                "metadata": {"labels": {"kueue.x-k8s.io/job-uid": "k-uid"}},
                "spec": {"nodeSelector": {"pool": name}},
            }
        }
        for name in kind.types
    }
    assert patch.body["spec"] == {"runPolicy": {"suspend": False}, kind.pods_path[-1]: pods}


@EACH
@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}], None),
        ([{"type": "Succeeded", "status": "False"}], None),
        ([{"type": "Succeeded", "status": "True", "message": "done"}], Outcome(True, "done")),
        (
            [{"type": "Failed", "status": "True", "message": "BackoffLimitExceeded: "}],
            Outcome(False, "BackoffLimitExceeded: "),
        ),
    ],
    ids=["running", "not succeeded", "succeeded", "failed"],
)
def test_how_it_ended(kind: KubeflowJob, conditions: list[Raw], outcome: Outcome | None) -> None:
    assert kind.finished(kubeflow(kind, status={"conditions": conditions})) == outcome


@EACH
def test_it_is_active_while_replicas_of_any_type_run(kind: KubeflowJob) -> None:
    def active(**counts: Any) -> bool:
        return kind.active(kubeflow(kind, status={"replicaStatuses": counts}))

    assert active(Worker={"active": 1}, Master={})
    assert not active(Worker={"active": 0}, Master={"succeeded": 1})
    assert not active()
    assert not kind.active(kubeflow(kind))


@EACH
@pytest.mark.parametrize("name", ["worker", "WORKER", "Extra"])
def test_types_of_replicas_that_are_not_counted_are_refused(kind: KubeflowJob, name: str) -> None:
    """The operator runs their pods, too."""
    found = kubeflow(kind, {"Worker": replica(1), name: replica(9)})
    assert [each["name"] for each in kind.pod_sets(found)] == ["worker"]
    (error,) = kind.validate_create(found, DEFAULTS.__getitem__)
    supported = ", ".join(f'"{each}"' for each in kind.types)
    path = dotted(kind.pods_path)
    assert str(error) == f'{path}: Unsupported value: "{name}": supported values: {supported}'
    before = kubeflow(kind, {"Worker": replica(1)})
    assert kind.validate_update(before, found, DEFAULTS.__getitem__) == [error]
    assert kind.validate_update(found, found, DEFAULTS.__getitem__) == []


@EACH
@pytest.mark.parametrize("status", ["True", "False"])
def test_its_pods_are_ready_when_the_operator_reports_it_as_running(kind: KubeflowJob, status: str) -> None:
    running = kubeflow(kind, status={"conditions": [{"type": "Running", "status": status}]})
    assert kind.pods_ready(running) is (status == "True")
    assert kind.reclaimable(running) == {}


@pytest.mark.parametrize(
    ("policy", "given", "value"),
    [
        ("urgent", {"Worker": replica(priority="low")}, 9),
        ("", {"Worker": replica(priority="low"), "Master": replica(priority="urgent")}, 9),
        ("", {"Worker": replica(priority="low"), "Master": replica()}, 1),
        ("", {"Worker": replica()}, 0),
    ],
    ids=["its scheduling policy", "its first type that has one", "a later type", "none"],
)
def test_the_priority_of_a_job_without_a_workload_priority_class(policy: str, given: Raw, value: int) -> None:
    found = kubeflow(PY_TORCH_JOB, given)
    if policy:
        found["spec"]["runPolicy"]["schedulingPolicy"] = {"priorityClass": policy}
    classes = PriorityClasses(pod={"urgent": 9, "low": 1})
    of_pods = PY_TORCH_JOB.priority_class(found)
    parts = of_job("", PY_TORCH_JOB.pod_sets(found), classes, namespace="ns", of_pods=of_pods)
    assert isinstance(parts, dict)
    assert parts["spec"]["priority"] == value


@EACH
def test_errors_of_a_template_name_its_type_of_replica_as_kueue_does(kind: KubeflowJob) -> None:
    found = kubeflow(kind, {"Worker": replica(2, annotations=RACK)})
    (error,) = kind.validate_create(found, DEFAULTS.__getitem__)
    assert error.field == f"spec.{kind.pods_path[-1]}[Worker].template.metadata.annotations"
    assert "must not contain more than one topology annotation" in error.detail


@EACH
def test_groups_of_pod_sets_are_checked_for_the_kinds_for_which_kueue_checks_them(kind: KubeflowJob) -> None:
    alone = {"kueue.x-k8s.io/podset-group-name": "g", "kueue.x-k8s.io/podset-required-topology": "rack"}
    errors = kind.validate_create(kubeflow(kind, {"Worker": replica(2, annotations=alone)}), DEFAULTS.__getitem__)
    groups = ["can only define groups of exactly 2 pod sets, got: 1 pod set(s)"]
    assert [error.detail for error in errors] == (groups if kind is MPI_JOB else [])


@EACH
def test_the_pods_of_a_deleted_job_are_found_by_the_uid_that_its_start_gave_them(kind: KubeflowJob) -> None:
    assert kind.uid_label == "kueue.x-k8s.io/job-uid"
    raw = workload.manifest(kind, kubeflow(kind), {"spec": {"priority": 0}})
    assert all("labels" not in each["template"]["metadata"] for each in raw["spec"]["podSets"])


@pytest.mark.parametrize(
    ("annotations", "as_worker", "offset"),
    [
        ({}, True, "1"),
        ({}, False, None),
        ({"kueue.x-k8s.io/podset-group-name": "g"}, True, None),
    ],
    ids=["it is a worker", "it is none", "it is placed with its group"],
)
def test_workers_of_an_mpi_job_are_counted_after_a_launcher_that_works_too(
    annotations: Raw, as_worker: bool, offset: str | None
) -> None:
    given = {"Launcher": replica(annotations=annotations), "Worker": replica(2)}
    found = kubeflow(MPI_JOB, given, runLauncherAsWorker=as_worker)
    for setting in MPI_JOB.defaults(found, DEFAULTS.__getitem__):
        found = merged(found, _nested(setting.path, setting.value))
    worker = found["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"]
    assert worker.get("kueue.x-k8s.io/pod-index-offset") == offset


def _nested(path: Any, value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    return value
