"""An AppWrapper and its components in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.jobs.job_reader import Outcome
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB
from core.jobs.template import ConflictError, Injection
from core.model import Raw
from core.wire.merge import merged
from tests.core.jobs.samples import patches
from tests.core.jobs.test_jobset import job_set
from tests.core.jobs.test_ray import ray

POD: Raw = {
    "metadata": {"labels": {"app": "x"}, "creationTimestamp": None},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}, "ports": [{"containerPort": 1}]}
        ],
        "nodeSelector": {"disk": "ssd"},
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
JOB: Raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": POD}}
PLAIN = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": POD["spec"]}
PATHS: Any = (
    [{"replicas": 3, "path": "template.spec.template"}],
    [],
    [{"path": "template.list[0]"}, {"path": "template"}],
)


def app_wrapper(status: Raw | None = None, paths: Any = PATHS, **spec: Any) -> Raw:
    """A Job of three pods, an object without pods, and one with two pods of its own."""
    components = [
        {"template": JOB, "annotations": {"a": "b"}},
        {"template": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}},
        {"template": {**PLAIN, "list": [POD]}, "podSets": [{"path": "template"}]},
    ]
    return {
        "apiVersion": APP_WRAPPER.api_version,
        "kind": "AppWrapper",
        "metadata": {"name": "a", "namespace": "ns", "uid": "a-uid", "resourceVersion": "5"},
        "spec": {"suspend": True, "components": components, **spec},
        "status": {"componentStatus": [{"podSets": each} for each in paths], **(status or {})},
    }


def test_the_templates_that_its_status_names_are_its_pod_sets() -> None:
    found = APP_WRAPPER.pod_sets(app_wrapper())
    assert [(each["name"], each["count"]) for each in found] == [("a-0", 3), ("a-1", 1), ("a-2", 1)]
    assert found[0]["template"] == {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}],
        },
    }, "fields that get defaults in a Workload alone are left out"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "spec.template",
        "template.spec.nothing",
        "template.spec.template.spec",
        "template.spec..x",
        "templatex",
        "template[x]",
    ],
)
def test_there_is_no_workload_while_its_status_names_no_template(path: str) -> None:
    assert APP_WRAPPER.pod_sets(app_wrapper(paths=[[{"path": path}], [], []])) == []


@pytest.mark.parametrize(
    ("wrapped", "counts"),
    [
        ({**JOB, "spec": {**JOB["spec"], "parallelism": 4, "completions": 2}}, [2]),
        (PLAIN, [1]),
        ({**JOB, "apiVersion": "apps/v1", "kind": "Deployment", "spec": {**JOB["spec"], "replicas": 3}}, [3]),
        (job_set(), [1, 6]),
        (ray(RAY_CLUSTER), [1, 2]),
        (ray(RAY_JOB), [1, 2]),
        ({**ray(RAY_JOB), "spec": {**ray(RAY_JOB)["spec"], "submitterPodTemplate": POD}}, [1, 2]),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, []),
        ({**JOB, "spec": "x"}, []),
    ],
    ids=[
        "Job",
        "Pod",
        "Deployment",
        "JobSet",
        "RayCluster",
        "RayJob",
        "RayJob with a submitter",
        "an object without pods",
        "a broken Job",
    ],
)
def test_the_pods_of_known_kinds_are_counted_before_its_operator_has_seen_it(wrapped: Raw, counts: list[int]) -> None:
    found = {**app_wrapper(components=[{"template": wrapped}]), "status": {}}
    assert [each["count"] for each in APP_WRAPPER.pod_sets(found)] == counts


def test_declared_pod_sets_are_counted_before_its_operator_has_seen_it() -> None:
    named = {"template": {**JOB, "kind": "Mine"}, "podSets": [{"replicas": 5, "path": "template.spec.template"}]}
    found = {**app_wrapper(components=[named]), "status": {}}
    assert [each["count"] for each in APP_WRAPPER.pod_sets(found)] == [5]


REPLICAS: Raw = {**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 9, "template": POD}}
FORTY: Raw = {**JOB, "spec": {"parallelism": 40, "template": POD}}
AT = "template.spec.template"
SUBMITTED = (
    'spec.components[0].template.spec.submissionMode: Invalid value: "": an AppWrapper does not count the pod that'
    " submits this RayJob: set SidecarMode or HTTPMode, or queue the RayJob itself"
)


@pytest.mark.parametrize("seen", [True, False], ids=["by its operator", "by nobody yet"])
def test_a_component_counts_no_fewer_pods_than_it_runs(seen: bool) -> None:
    named = [{"replicas": 1, "path": AT}]
    found = app_wrapper(paths=[named], components=[{"template": FORTY, "podSets": named}])
    counted = APP_WRAPPER.pod_sets(found if seen else {**found, "status": {}})
    assert [each["count"] for each in counted] == [40]


def test_a_component_with_a_template_that_nobody_counts_gets_no_workload() -> None:
    assert APP_WRAPPER.pod_sets(app_wrapper(paths=[[]], components=[{"template": FORTY}])) == []


@pytest.mark.parametrize(
    ("component", "errors"),
    [
        ({"template": FORTY}, []),
        ({"template": FORTY, "podSets": [{"replicas": 40, "path": AT}]}, []),
        (
            {"template": FORTY, "podSets": [{"replicas": 1, "path": AT}]},
            [
                "spec.components[0].podSets[0].replicas: Invalid value: 1: the Job in this component runs 40 pods:"
                " set that number, or leave out podSets"
            ],
        ),
        ({"template": REPLICAS, "podSets": [{"replicas": 9, "path": AT}]}, []),
        (
            {"template": REPLICAS},
            [
                "spec.components[0].podSets: Required value: add an element with path template.spec.template and the"
                " number of its pods: the ReplicaSet in this component has this pod template"
            ],
        ),
        ({"template": ray(RAY_JOB)}, [SUBMITTED]),
        ({"template": {**ray(RAY_JOB), "spec": {**ray(RAY_JOB)["spec"], "submitterPodTemplate": POD}}}, [SUBMITTED]),
        ({"template": {**ray(RAY_JOB), "spec": {**ray(RAY_JOB)["spec"], "submissionMode": "HTTPMode"}}}, []),
        ({"template": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": "no"}}}, []),
    ],
    ids=[
        "a Job",
        "a Job, counted as it is",
        "a Job that says one",
        "a ReplicaSet, counted",
        "a ReplicaSet without a count",
        "a RayJob",
        "a RayJob with a submitter",
        "a RayJob without one",
        "no pods",
    ],
)
def test_components_whose_pods_are_not_all_counted_are_refused(component: Raw, errors: list[str]) -> None:
    found = {**app_wrapper(components=[component]), "status": {}}
    assert [str(error) for error in APP_WRAPPER.validate_create(found, DEFAULTS.__getitem__)] == errors
    assert APP_WRAPPER.validate_update(found, found, DEFAULTS.__getitem__) == [], "it can still be deleted"


def test_a_start_adds_what_each_component_is_created_with_and_changes_no_template() -> None:
    job = app_wrapper()
    nodes = [Injection(f"a-{number}", 1, node_selector={"pool": str(number)}) for number in range(3)]
    (start,) = patches(APP_WRAPPER.start(job, nodes))
    label = {"labels": {"kueue.x-k8s.io/job-uid": "a-uid"}}
    infos = [{**label, "nodeSelector": {"pool": str(number)}} for number in range(3)]
    first, second, third = job["spec"]["components"]
    components = [{**first, "podSetInfos": infos[:1]}, second, {**third, "podSetInfos": infos[1:]}]
    assert start.body["spec"] == {"suspend": False, "components": components}
    running = merged(job, start.body)
    selectors = [each["template"]["spec"]["nodeSelector"] for each in APP_WRAPPER.pod_sets(running)]
    assert selectors == [{"disk": "ssd", "pool": str(number)} for number in range(3)]
    (stop,) = patches(APP_WRAPPER.stop(running, []))
    assert merged(running, stop.body)["spec"] == job["spec"]


def test_a_start_with_another_value_than_a_template_has_is_a_conflict() -> None:
    with pytest.raises(ConflictError, match="disk"):
        APP_WRAPPER.start(app_wrapper(), [Injection("any", 1, node_selector={"disk": "hdd"})] * 3)


@pytest.mark.parametrize(
    ("phase", "deployed", "outcome"),
    [
        ("Running", "True", None),
        ("Succeeded", "True", Outcome(True, "AppWrapper finished successfully")),
        ("Failed", "True", None),
        ("Failed", "False", Outcome(False, "AppWrapper failed")),
    ],
    ids=["running", "succeeded", "failed, its pods are not deleted yet", "failed"],
)
def test_how_it_ended(phase: str, deployed: str, outcome: Outcome | None) -> None:
    status = {"phase": phase, "conditions": [{"type": "ResourcesDeployed", "status": deployed}]}
    assert APP_WRAPPER.finished(app_wrapper(status)) == outcome


@pytest.mark.parametrize("status", ["True", "False"])
def test_its_conditions_report_its_pods(status: str) -> None:
    found = app_wrapper({"conditions": [{"type": kind, "status": status} for kind in ("QuotaReserved", "PodsReady")]})
    assert APP_WRAPPER.active(found) is APP_WRAPPER.pods_ready(found) is (status == "True")
