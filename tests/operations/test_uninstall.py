"""What uninstalling changes, decided on the objects that are found."""

from datetime import UTC, datetime

import pytest

from api import crds
from api.kinds import KINDS
from api.objects import Raw
from core.jobs.kinds import BATCH_JOB, POD
from operations.uninstall import held, started, stored_only, urls

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORKLOADS = next(kind for kind in KINDS if kind.kind == "Workload")


def test_only_webhooks_at_a_url_are_those_of_install() -> None:
    url, service = {"url": "https://127.0.0.1:9443/a"}, {"service": {"name": "a", "namespace": "b"}}
    assert urls({"webhooks": [{"clientConfig": url}, {"clientConfig": url}]}) == ["https://127.0.0.1:9443/a"]
    assert urls({"webhooks": [{"clientConfig": service}]}) == []
    assert urls({}) == []


def test_a_definition_that_is_converted_at_a_url_serves_its_stored_version_alone() -> None:
    found = crds.definition(WORKLOADS, {"url": "https://127.0.0.1:9443/convert"})
    found["metadata"]["resourceVersion"] = "7"
    patch = stored_only(found)
    assert patch is not None
    assert patch["spec"]["conversion"] == {"strategy": "None", "webhook": None}
    assert patch["metadata"] == {"resourceVersion": "7"}
    served = {version["name"]: version["served"] for version in patch["spec"]["versions"]}
    assert served == {"v1beta2": True, "v1beta1": False}
    assert [version["name"] for version in found["spec"]["versions"] if version["served"]] == ["v1beta2", "v1beta1"]


@pytest.mark.parametrize("conversion", [None, {"service": {"name": "a", "namespace": "b"}}])
def test_other_definitions_stay(conversion: Raw | None) -> None:
    assert stored_only(crds.definition(WORKLOADS, conversion)) is None


@pytest.mark.parametrize(
    ("spec", "holder"),
    [
        ({"holderIdentity": "a", "renewTime": "2026-01-01T11:59:50.000000Z", "leaseDurationSeconds": 15}, "a"),
        ({"holderIdentity": "a", "renewTime": "2026-01-01T11:59:40.000000Z", "leaseDurationSeconds": 15}, ""),
        ({"holderIdentity": "", "renewTime": "2026-01-01T12:00:00.000000Z", "leaseDurationSeconds": 15}, ""),
        ({}, ""),
    ],
    ids=["renewed", "expired", "released", "empty"],
)
def test_who_holds_a_lease(spec: Raw, holder: str) -> None:
    assert held({"spec": spec}, NOW) == holder


def job(*, queue: str = "main", suspend: bool = True) -> Raw:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}, "spec": {"suspend": suspend}}


def test_only_jobs_that_wait_in_a_queue_are_started() -> None:
    assert started(BATCH_JOB, job()) == {"spec": {"suspend": False}}
    assert started(BATCH_JOB, job(queue="")) is None
    assert started(BATCH_JOB, job(suspend=False)) is None
    done = job() | {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert started(BATCH_JOB, done) is None


def test_a_pod_loses_its_gate() -> None:
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "other"}]
    pod: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": job()["metadata"], "spec": {"schedulingGates": gates}}
    assert started(POD, pod) == {"spec": {"schedulingGates": [{"name": "other"}]}}
    pod["spec"]["schedulingGates"] = gates[:1]
    assert started(POD, pod) == {"spec": {"schedulingGates": None}}
