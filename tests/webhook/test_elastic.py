"""Elastic jobs at admission: their pods wait with a scheduling gate, and so they may grow without being suspended."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from api.names import Annotation, Label
from core.model import Raw
from tests.webhook.cluster import ask, cluster, job, review, review_of
from webhook.settings import WebhookSettings

MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
GATE = {"name": "kueue.x-k8s.io/elastic-job"}
QUEUE = {Label.QUEUE_NAME: "main"}
ELASTIC = {Annotation.ELASTIC_JOB: "true"}
OFF = WebhookSettings(gates={"ElasticJobsViaWorkloadSlices": False})


def elastic(*gates: Raw, labels: Raw | None = None, **spec: Any) -> Raw:
    """A queued elastic Job whose template has these gates."""
    found = job(labels=QUEUE if labels is None else labels, annotations=ELASTIC, **spec)
    if gates:
        found["spec"]["template"]["spec"]["schedulingGates"] = list(gates)
    return {**found, "metadata": {**found["metadata"], "uid": "job-1"}}


def patched(response: Raw) -> dict[str, Any]:
    """The operations of the answer: value by path."""
    assert response["allowed"], response
    operations = orjson.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]"))))
    return {each["path"]: each["value"] for each in operations}


@pytest.mark.parametrize(
    ("new", "settings", "gates"),
    [
        pytest.param(elastic(), WebhookSettings(), [GATE], id="a queued elastic job"),
        pytest.param(
            elastic({"name": "other"}), WebhookSettings(), [{"name": "other"}, GATE], id="other gates are kept"
        ),
        pytest.param(elastic(GATE), WebhookSettings(), None, id="it has the gate already"),
        pytest.param(elastic(labels={}), WebhookSettings(), None, id="no queue: nobody would remove the gate"),
        pytest.param(elastic(), OFF, None, id="the feature gate is off"),
        pytest.param(job(labels=QUEUE), WebhookSettings(), None, id="not elastic"),
    ],
)
def test_the_pods_of_a_queued_elastic_job_get_a_scheduling_gate(
    new: Raw, settings: WebhookSettings, gates: list[Raw] | None
) -> None:
    found = patched(ask(MUTATE, review(new), settings=settings))
    assert found.get("/spec/template/spec/schedulingGates") == gates


@pytest.mark.parametrize(
    ("gates", "settings", "suspended"),
    [([GATE], WebhookSettings(), False), ([], WebhookSettings(), True), ([GATE], OFF, True)],
    ids=["its additional pods are gated", "they would start", "the feature gate is off"],
)
def test_a_running_elastic_job_that_grows_is_not_suspended(
    gates: list[Raw], settings: WebhookSettings, suspended: bool
) -> None:
    old, new = (elastic(*gates, parallelism=count, completions=9) for count in (3, 5))
    assert ("/spec/suspend" in patched(ask(MUTATE, review(new, old=old), settings=settings))) == suspended


def test_the_scheduling_gate_cannot_be_removed_from_a_queued_job() -> None:
    old, new = elastic(GATE, suspend=True), elastic({"name": "other"}, suspend=True)
    response = ask(VALIDATE, review(new, old=old))
    assert response["status"]["message"] == (
        "spec.template.spec.schedulingGates: Forbidden: an elastic job must have the scheduling gate"
        " kueue.x-k8s.io/elastic-job"
    )
    assert ask(VALIDATE, review(new, old=old), settings=OFF)["allowed"]


@pytest.mark.parametrize(
    ("pods", "told"),
    [(5, ["the elastic job continues to run with 3 pods; 2 more start when quota is free"]), (2, [])],
    ids=["more pods", "fewer pods"],
)
def test_a_change_of_its_size_is_explained(pods: int, told: list[str]) -> None:
    old, new = (elastic(GATE, parallelism=count, completions=9) for count in (3, pods))
    response = ask(VALIDATE, review(new, old=old), knows=cluster(default_queue_in=["team-a"]))
    said = [each for each in response.get("warnings", []) if "elastic" in each or "requeues" in each]
    assert said == told


def test_each_group_of_an_elastic_raycluster_gets_the_gate() -> None:
    pod = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    groups = [{"groupName": name, "replicas": 1, "template": pod} for name in ("a", "b")]
    spec = {"headGroupSpec": {"template": pod}, "workerGroupSpecs": groups}
    metadata = {"name": "r", "namespace": "team-a", "labels": QUEUE, "annotations": ELASTIC}
    found = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}
    settings = WebhookSettings(frameworks=frozenset({"ray.io/raycluster"}))
    patch = patched(ask("/mutate-ray-io-v1-raycluster", review_of(found, resource="rayclusters"), settings=settings))
    assert [path for path, value in patch.items() if value == [GATE]] == [
        "/spec/headGroupSpec/template/spec/schedulingGates",
        "/spec/workerGroupSpecs/0/template/spec/schedulingGates",
        "/spec/workerGroupSpecs/1/template/spec/schedulingGates",
    ]


@pytest.mark.parametrize(("gates", "allowed"), [([GATE], True), ([], False)], ids=["with the gate", "without it"])
def test_a_group_that_is_added_to_an_elastic_raycluster_needs_the_gate(gates: list[Raw], allowed: bool) -> None:
    def cluster_of(*groups: list[Raw]) -> Raw:
        pods = [{"spec": {"containers": [{"name": "ray", "image": "ray"}], "schedulingGates": each}} for each in groups]
        workers = [{"groupName": f"g{n}", "replicas": 1, "template": pod} for n, pod in enumerate(pods)]
        spec = {"headGroupSpec": {"template": pods[0]}, "workerGroupSpecs": workers}
        metadata = {"name": "r", "namespace": "team-a", "uid": "u", "labels": QUEUE, "annotations": ELASTIC}
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}

    settings = WebhookSettings(frameworks=frozenset({"ray.io/raycluster"}))
    asked = review_of(cluster_of([GATE], gates), old=cluster_of([GATE]), resource="rayclusters")
    response = ask("/validate-ray-io-v1-raycluster", asked, settings=settings, knows=cluster())
    assert response["allowed"] == allowed
    if allowed:
        assert not [each for each in response["warnings"] if "continues to run with" in each and "elastic" in each]
        (told,) = (each for each in response["warnings"] if "requeues it" in each)
        assert told.startswith("changing from 2 to 3 pods suspends this running job and requeues it")
    else:
        text = "an elastic job must have the scheduling gate kueue.x-k8s.io/elastic-job"
        assert text in response["status"]["message"]


def test_an_elastic_rayjob_gets_the_gate_only_in_templates_that_it_has() -> None:
    """KubeRay makes the pod that submits the job, if the job has no template for it."""
    pod = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": {"headGroupSpec": {"template": pod}}}
    metadata = {"name": "r", "namespace": "team-a", "labels": QUEUE, "annotations": ELASTIC}
    found = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}
    settings = WebhookSettings(frameworks=frozenset({"ray.io/rayjob"}))
    patch = patched(ask("/mutate-ray-io-v1-rayjob", review_of(found, resource="rayjobs"), settings=settings))
    assert patch == {"/spec/suspend": True, "/spec/rayClusterSpec/headGroupSpec/template/spec/schedulingGates": [GATE]}
