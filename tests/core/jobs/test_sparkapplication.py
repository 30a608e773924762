"""A SparkApplication in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.jobs.job_reader import Outcome
from core.jobs.kinds.sparkapplication import BEFORE, SPARK_APPLICATION
from core.jobs.template import Injection
from core.model import Raw
from core.wire.merge import merged
from tests.core.jobs.samples import patches


def spark(*, driver: Raw | None = None, executor: Raw | None = None, status: Raw | None = None, **spec: Any) -> Raw:
    """A driver and two executors of half a cpu."""
    role = {"coreRequest": "500m", "memory": "512m", "cores": 4}
    base = {"suspend": True, "type": "Scala", "mode": "cluster", "driver": {**role, **(driver or {})}}
    return {
        "apiVersion": SPARK_APPLICATION.api_version,
        "kind": "SparkApplication",
        "metadata": {"name": "s", "namespace": "ns", "uid": "s-uid", "resourceVersion": "5"},
        "spec": {**base, "executor": {**role, "instances": 2, **(executor or {})}, **spec},
        "status": status or {},
    }


def pods(found: Raw) -> dict[str, Raw]:
    return {each["name"]: each["template"] for each in SPARK_APPLICATION.pod_sets(found)}


def resources(**driver: Any) -> Raw:
    found: Raw = pods(spark(driver=driver))["driver"]["spec"]["containers"][0]["resources"]
    return found


@pytest.mark.parametrize(("instances", "count"), [(3, 3), (0, 0), (None, 1)])
def test_a_driver_and_its_executors_are_the_pod_sets(instances: int | None, count: int) -> None:
    found = SPARK_APPLICATION.pod_sets(spark(executor={"instances": instances}))
    assert [(each["name"], each["count"]) for each in found] == [("driver", 1), ("executor", count)]
    names = [each["template"]["spec"]["containers"][0]["name"] for each in found]
    assert names == ["spark-kubernetes-driver", "spark-kubernetes-executor"]


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ({}, {"requests": {"cpu": "500m", "memory": "896Mi"}}),
        ({"coreRequest": None}, {"requests": {"cpu": "4", "memory": "896Mi"}}),
        ({"coreRequest": None, "cores": None, "memory": None}, {"requests": {"cpu": "1", "memory": "1408Mi"}}),
        ({"memory": "20g"}, {"requests": {"cpu": "500m", "memory": "22Gi"}}),
        ({"memory": "1gb"}, {"requests": {"cpu": "500m", "memory": "1408Mi"}}),
        ({"memory": "1024"}, {"requests": {"cpu": "500m", "memory": "1408Mi"}}),
        ({"memory": "2G", "memoryOverhead": "1g"}, {"requests": {"cpu": "500m", "memory": "3Gi"}}),
        ({"memory": "many"}, {"requests": {"cpu": "500m", "memory": "many"}}),
        (
            {"coreLimit": "1", "memoryLimit": "1g", "gpu": {"name": "nvidia.com/gpu", "quantity": 2}},
            {
                "requests": {"cpu": "500m", "memory": "896Mi"},
                "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2},
            },
        ),
        ({"gpu": {"name": "", "quantity": 2}}, {"requests": {"cpu": "500m", "memory": "896Mi"}}),
    ],
    ids=[
        "megabytes and the least overhead",
        "cores where there is no coreRequest",
        "the defaults of the operator",
        "a tenth of overhead",
        "two letters",
        "no unit: megabytes",
        "an overhead of its own",
        "no amount",
        "limits",
        "a GPU without a name",
    ],
)
def test_the_requests_of_a_role(driver: Raw, expected: Raw) -> None:
    assert resources(**driver) == expected


@pytest.mark.parametrize(
    ("change", "memory"),
    [({"type": "Python"}, "14Gi"), ({"memoryOverheadFactor": "0.2"}, "12Gi"), ({"memoryOverheadFactor": "x"}, "11Gi")],
    ids=["outside of a JVM", "a factor", "no number"],
)
def test_the_overhead_of_memory_is_a_share_of_it(change: Raw, memory: str) -> None:
    role = pods(spark(driver={"memory": "10g"}, **change))["driver"]
    assert role["spec"]["containers"][0]["resources"]["requests"]["memory"] == memory


def test_the_containers_of_the_template_of_a_role_are_counted() -> None:
    more = [{"name": "spark-kubernetes-executor"}, {"name": "big", "resources": {"requests": {"cpu": "8"}}}]
    template = {"spec": {"containers": more, "initContainers": [{"name": "first"}]}}
    found = pods(spark(executor={"template": template}))["executor"]["spec"]
    assert [each["name"] for each in found["containers"]] == ["spark-kubernetes-executor", "big"]
    assert [each["name"] for each in found["initContainers"]] == ["first"]


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("spark.executor.instances", "spec.executor.instances"),
        ("spark.dynamicAllocation.enabled", "spec.dynamicAllocation"),
        ("spark.streaming.dynamicAllocation.enabled", "spec.dynamicAllocation"),
        ("spark.driver.minMemoryOverhead", "spec.driver.memoryOverhead"),
        ("spark.executor.resource.gpu.amount", "spec.executor.gpu"),
        ("spark.executor.cores", "spec.executor.cores"),
        ("spark.kubernetes.driver.request.cores", "spec.driver.coreRequest"),
        ("spark.executor.memoryOverhead", "spec.executor.memoryOverhead"),
    ],
)
def test_the_size_of_an_application_is_in_its_fields(key: str, field: str) -> None:
    (error,) = SPARK_APPLICATION.validate_create(spark(sparkConf={key: "40", "a": "b"}), DEFAULTS.__getitem__)
    text = f"Forbidden: the size of a queued application is counted by its fields: set {field}"
    assert str(error) == f"spec.sparkConf[{key}]: {text}"


def test_the_pods_of_an_application_run_in_its_namespace() -> None:
    found = spark(sparkConf={"spark.kubernetes.namespace": "another"})
    (error,) = SPARK_APPLICATION.validate_create(found, DEFAULTS.__getitem__)
    assert str(error).startswith("spec.sparkConf[spark.kubernetes.namespace]: Forbidden: ")


def test_executors_are_not_allocated_dynamically_where_there_are_no_elastic_jobs() -> None:
    """The annotation of elastic jobs means nothing there."""
    found = spark(dynamicAllocation={"enabled": True})
    found["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    gates = {**DEFAULTS, "ElasticJobsViaWorkloadSlices": False}
    (error,) = SPARK_APPLICATION.validate_create(found, gates.__getitem__)
    assert str(error).startswith("spec.dynamicAllocation.enabled: Invalid value: true")


def test_the_pods_of_a_role_are_built_from_its_fields() -> None:
    role = {
        "labels": {"a": "1"},
        "template": {"metadata": {"labels": {"b": "2"}, "annotations": {"c": "3"}}},
        "initContainers": [{"name": "i"}],
        "sidecars": [{"name": "x", "resources": {"requests": {"cpu": "1"}}}],
        "priorityClassName": "high",
        "tolerations": [{"key": "t"}],
    }
    found = pods(spark(driver=role, nodeSelector={"disk": "ssd"}))["driver"]
    assert found["metadata"] == {"labels": {"b": "2", "a": "1"}, "annotations": {"c": "3"}}
    assert [each["name"] for each in found["spec"]["containers"]] == ["spark-kubernetes-driver", "x"]
    assert [each["name"] for each in found["spec"]["initContainers"]] == ["i"]
    assert found["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert (found["spec"]["priorityClassName"], found["spec"]["tolerations"]) == ("high", [{"key": "t"}])


@pytest.mark.parametrize(
    "given",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"driver": {"labels": {"a": "1"}, "template": {"metadata": {"labels": {"b": "2"}}}}},
        {"executor": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "t"}]}},
    ],
    ids=["a node selector of the application", "labels of a role and of its template", "fields of a role"],
)
def test_a_stop_gives_back_what_the_application_was_before_its_start(given: Raw) -> None:
    job = spark(**given)
    before = SPARK_APPLICATION.pod_sets(job)
    nodes = Injection("any", 1, node_selector={"pool": "a"}, tolerations=[{"key": "p"}], annotations={"w": "x"})
    (start,) = patches(SPARK_APPLICATION.start(job, [nodes] * 2))
    running = merged(job, start.body)
    assert "nodeSelector" not in running["spec"], "the operator accepts only one of the two"
    for role in ("driver", "executor"):
        wanted = {**job["spec"].get("nodeSelector", {}), **job["spec"][role].get("nodeSelector", {}), "pool": "a"}
        assert running["spec"][role]["nodeSelector"] == wanted
        assert {"key": "p"} in running["spec"][role]["tolerations"]
    (stop,) = patches(SPARK_APPLICATION.stop(running, before))
    stopped = merged(running, stop.body)
    assert stopped["spec"] == job["spec"]
    assert BEFORE not in stopped["metadata"]["annotations"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", '{"driver": 1}', '{"nodeSelector": 5}', '{"driver": {"nodeSelector": "x"}}'),
        *('{"executor": {"labels": {"a": 1}}}', '{"driver": {"tolerations": [{"tolerationSeconds": "x"}]}}'),
    ],
)
def test_a_stop_does_not_depend_on_what_a_user_writes_into_its_annotation(text: str) -> None:
    running = spark(suspend=False, driver={"nodeSelector": {"pool": "a"}})
    running["metadata"]["annotations"] = {BEFORE: text}
    (stop,) = patches(SPARK_APPLICATION.stop(running, []))
    stopped = merged(running, stop.body)
    assert SPARK_APPLICATION.held(stopped) and not SPARK_APPLICATION.form.errors(stopped)
    driver = stopped["spec"]["driver"]
    assert all(isinstance(driver.get(part, kind()), kind) for part, kind in (("nodeSelector", dict), ("labels", dict)))
    assert "tolerations" not in driver and "nodeSelector" not in driver, "nothing of it is believed"


def in_state(state: str, **status: Any) -> Raw:
    return spark(status={"applicationState": {"state": state, "errorMessage": "e"}, **status})


@pytest.mark.parametrize(
    ("state", "active", "ended"),
    [
        ("", False, None),
        ("SUBMITTED", True, None),
        ("RUNNING", True, None),
        ("SUCCEEDING", True, None),
        ("SUSPENDING", True, None),
        ("SUSPENDED", False, None),
        ("COMPLETED", False, Outcome(True, "e")),
        ("FAILED", False, Outcome(False, "e")),
        ("SUBMISSION_FAILED", False, Outcome(False, "e")),
    ],
)
def test_its_life(state: str, active: bool, ended: Outcome | None) -> None:
    assert (SPARK_APPLICATION.active(in_state(state)), SPARK_APPLICATION.finished(in_state(state))) == (active, ended)


def test_it_is_ready_when_its_executors_are() -> None:
    def ready(*states: str) -> bool:
        return SPARK_APPLICATION.pods_ready(in_state("RUNNING", executorState=dict(enumerate(states))))

    assert ready("RUNNING", "COMPLETED")
    assert not ready("RUNNING", "PENDING")
    assert not ready("RUNNING")
    assert not SPARK_APPLICATION.pods_ready(in_state("SUBMITTED", executorState={"1": "RUNNING", "2": "RUNNING"}))


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        (
            {"mode": "client"},
            ['spec.mode: Invalid value: "client": only Cluster mode is supported for a kueue managed job'],
        ),
        (
            {"dynamicAllocation": {"enabled": True}},
            [
                "spec.dynamicAllocation.enabled: Invalid value: true: a kueue managed job can use dynamicAllocation"
                " only when the ElasticJobsViaWorkloadSlices feature gate is on and the job is an elastic job"
            ],
        ),
        ({}, []),
    ],
    ids=["another mode", "executors that come and go", "good"],
)
def test_the_rules_for_an_application_in_a_queue(change: Raw, errors: list[str]) -> None:
    found = SPARK_APPLICATION.validate_create(spark(**change), DEFAULTS.__getitem__)
    assert [str(each) for each in found] == errors


def test_it_cannot_name_a_workload_that_was_made_for_it() -> None:
    found = spark()
    found["metadata"]["labels"] = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}
    (error,) = SPARK_APPLICATION.validate_create(found, DEFAULTS.__getitem__)
    assert error.detail == 'Is not supported for "sparkoperator.k8s.io/v1beta2, Kind=SparkApplication"'
