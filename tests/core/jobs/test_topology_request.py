"""The topology requests of the pod sets of a job, by the annotations of its pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Annotation
from core.jobs import workload
from core.jobs.fields import changed
from core.jobs.kind import JobKind
from core.jobs.kinds import BATCH_JOB, JOB_SET, POD, POD_GROUP
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.kubeflow import PY_TORCH_JOB
from core.jobs.kinds.mpijob import MPI_JOB
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.topology_request import NOT_INDEXED, PodIndex, topology_request
from core.jobs.workload import Copied
from core.model import Raw
from tests.core.jobs.samples import job
from tests.core.jobs.test_appwrapper import app_wrapper
from tests.core.jobs.test_jobset import job_set
from tests.core.jobs.test_kubeflow import kubeflow
from tests.core.jobs.test_pod import pod
from tests.core.jobs.test_pod_group import DRIVER, WORKER, group, member
from tests.core.jobs.test_ray import ray
from tests.core.jobs.test_sparkapplication import spark
from tests.core.jobs.test_trainjob import made, train_job

REQUIRED, PREFERRED = Annotation.REQUIRED_TOPOLOGY, Annotation.PREFERRED_TOPOLOGY
UNCONSTRAINED, GROUP = Annotation.UNCONSTRAINED_TOPOLOGY, Annotation.POD_SET_GROUP_NAME
SLICE, SIZE, LAYERS = (
    Annotation.SLICE_REQUIRED_TOPOLOGY,
    Annotation.SLICE_SIZE,
    Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
)


@pytest.mark.parametrize(
    ("annotations", "request_"),
    [
        ({}, None),
        ({"team": "a"}, None),
        ({REQUIRED: "rack"}, {"required": "rack"}),
        ({PREFERRED: "rack"}, {"preferred": "rack"}),
        ({UNCONSTRAINED: "true"}, {"unconstrained": True}),
        ({UNCONSTRAINED: "no"}, None),
        ({REQUIRED: "rack", GROUP: "g"}, {"required": "rack", "podSetGroupName": "g"}),
        ({UNCONSTRAINED: "true", GROUP: "g"}, {"unconstrained": True}),
        (
            {PREFERRED: "block", SLICE: "rack", SIZE: "4"},
            {"preferred": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4},
        ),
        ({SLICE: "rack", SIZE: "4"}, {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4}),
        ({SLICE: "rack"}, None),
        ({SLICE: "rack", SIZE: "many"}, None),
        (
            {LAYERS: '[{"topology": "rack", "size": 4}]'},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}]},
        ),
        ({LAYERS: "[{"}, None),
        ({LAYERS: '[{"topology": "rack", "size": "4"}]'}, None),
        ({REQUIRED: "r" * 64}, None),
    ],
)
def test_the_annotations_of_a_template_are_its_request(annotations: dict[str, str], request_: Raw | None) -> None:
    assert topology_request(annotations, NOT_INDEXED) == request_


def test_pods_with_an_index_have_a_request_without_annotations() -> None:
    assert topology_request({}, PodIndex("i")) == {"podIndexLabel": "i"}
    indexed = {"podIndexLabel": "i", "subGroupIndexLabel": "j", "subGroupCount": 0}
    assert topology_request({REQUIRED: "rack"}, PodIndex("i", "j", 0)) == {"required": "rack", **indexed}


COMPLETION = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
REPLICA = {"podIndexLabel": "training.kubeflow.org/replica-index"}
IN_GROUP = {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}


def in_job_set(replicas: int) -> Raw:
    return {**COMPLETION, "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index", "subGroupCount": replicas}


@pytest.mark.parametrize(
    ("kind", "found", "related", "requests"),
    [
        (BATCH_JOB, job(), [], {"main": COMPLETION}),
        (JOB_SET, job_set(), [], {"driver": in_job_set(1), "workers": in_job_set(2)}),
        (TRAIN_JOB, train_job(), [made()], {"node": in_job_set(1)}),
        (MPI_JOB, kubeflow(MPI_JOB), [], {"launcher": REPLICA, "worker": REPLICA}),
        (PY_TORCH_JOB, kubeflow(PY_TORCH_JOB), [], {"master": REPLICA, "worker": REPLICA}),
        (RAY_CLUSTER, ray(RAY_CLUSTER), [], {}),
        (SPARK_APPLICATION, spark(), [], {}),
        (POD, pod(), [], {"main": IN_GROUP}),
        (POD_GROUP, group(member("a"), member("b", "driver")), [], {DRIVER: IN_GROUP, WORKER: IN_GROUP}),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_a_kind_has_the_index_that_its_controller_gives_to_pods(
    kind: JobKind, found: Raw, related: list[Raw], requests: dict[str, Raw]
) -> None:
    assert kind.topology_requests(found, related) == requests


def test_the_annotations_of_each_template_of_a_job_are_in_its_own_pod_set() -> None:
    path = ("spec", "workerGroupSpecs", 0, "template", "metadata", "annotations")
    assert RAY_CLUSTER.topology_requests(changed(ray(RAY_CLUSTER), path, {REQUIRED: "rack"})) == {
        "small": {"required": "rack"}
    }


def test_the_status_of_an_app_wrapper_names_the_index_of_its_pods() -> None:
    key = "workload.codeflare.dev.appwrapper/tas-"
    parts = {f"{key}pod-index-label": "i", f"{key}sub-group-index-label": "j"}
    path = {"path": "template.spec.template"}
    paths: Any = (
        [
            {**path, "annotations": {**parts, f"{key}sub-group-count": "3"}},
            {**path, "annotations": {**parts, f"{key}sub-group-count": "many"}},
        ],
        [],
        [{"path": "template"}],
    )
    indexed = {"podIndexLabel": "i", "subGroupIndexLabel": "j"}
    found = APP_WRAPPER.topology_requests(app_wrapper(paths=paths))
    assert found == {"a-0": {**indexed, "subGroupCount": 3}, "a-1": indexed}
    unseen = app_wrapper(paths=[])
    assert APP_WRAPPER.topology_requests(unseen) == {"a-0": COMPLETION}, "as the operator will write it for a Job"


def test_a_workload_has_the_topology_requests_if_their_feature_is_on() -> None:
    template = job()["spec"]["template"]
    annotated = {**template, "metadata": {**template.get("metadata", {}), "annotations": {REQUIRED: "rack"}}}
    found = changed(job(), ("spec", "template"), annotated)
    (without,) = workload.manifest(BATCH_JOB, found, {"spec": {}})["spec"]["podSets"]
    assert "topologyRequest" not in without
    asked = Copied(topology_requests=True)
    made_of = workload.manifest(BATCH_JOB, found, {"spec": {}}, asked)
    made_of["metadata"] |= {"uid": "wl-uid", "resourceVersion": "7"}
    request_ = {"required": "rack", **COMPLETION}
    assert made_of["spec"]["podSets"] == [{**without, "topologyRequest": request_}]
    patch = workload.matching_patch(BATCH_JOB, changed(found, ("spec", "parallelism"), 2), made_of, None, asked)
    assert [each["topologyRequest"] for each in patch["spec"]["podSets"]] == [request_]
