"""The real API server stores the same after the update of a status as after the patch that the update replaces."""

import pytest

from api.objects import Raw
from core.wire.guard import guarded
from core.wire.merge import replacement
from tests.api.objects import admitted, cluster_queue, condition, obj, workload
from tests.api.server import Server

pytestmark = pytest.mark.cluster

MERGE = {"Content-Type": "application/merge-patch+json"}
WAITED: Raw = {"conditions": [condition("Requeued")], "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"}}
CHANGES: dict[str, tuple[Raw, Raw]] = {
    "the first status": ({}, admitted()),
    "quota after a wait": (WAITED, {**admitted(), "requeueState": {"requeueAt": None}}),
    "quota that is released": (admitted(), {"admission": None, "conditions": [condition("Evicted")]}),
}


@pytest.mark.parametrize(("before", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_a_status_written_as_a_whole_is_stored_as_by_its_patch(server: Server, before: Raw, change: Raw) -> None:
    patched, updated = (written(server, before, change, whole) for whole in (False, True))
    assert updated == patched
    assert updated["spec"]["podSets"]
    assert updated["metadata"]["annotations"] == {"a": "b"}


def test_a_status_of_an_older_version_is_a_conflict(server: Server) -> None:
    old = server.create(workload())[1]
    assert server.put(old, {**old, "status": admitted()}, "/status")[0] == 200
    whole = replacement(old, guarded({"status": admitted()}, old))
    assert whole is not None
    status, answer = server.ask("PUT", f"{server.path(old, named=True)}/status", named(whole))
    assert (status, answer["reason"]) == (409, "Conflict")


def test_a_template_a_condition_and_an_admission_are_owned_as_a_whole(server: Server) -> None:
    stored = server.create(workload())[1]
    owned = server.put(stored, {**stored, "status": admitted()}, "/status")[1]["metadata"]["managedFields"]
    fields = {owner.get("subresource", ""): owner["fieldsV1"] for owner in owned}
    main = 'k:{"name":"main"}'
    assert fields[""]["f:spec"]["f:podSets"][main]["f:template"] == {}
    conditions: Raw = {f'k:{{"type":"{kind}"}}': {} for kind in ("Admitted", "QuotaReserved")}
    assert fields["status"]["f:status"] == {".": {}, "f:admission": {}, "f:conditions": {".": {}, **conditions}}


@pytest.mark.parametrize(
    "made",
    [cluster_queue(), obj("LocalQueue", {"clusterQueue": "a"}, namespace="default")],
    ids=lambda made: made["kind"],
)
def test_the_usage_in_a_status_is_owned_as_a_whole(server: Server, made: Raw) -> None:
    """Else each status of a queue has an entry for each resource of each flavor, twice."""
    usage = [{"name": "a", "resources": [{"name": "cpu", "total": "1"}]}]
    stored = server.create(made)[1]
    status, answer = server.put(
        stored, {**stored, "status": {"flavorsReservation": usage, "flavorsUsage": usage}}, "/status"
    )
    assert status == 200, answer
    (owned,) = (owner for owner in answer["metadata"]["managedFields"] if owner.get("subresource") == "status")
    fields = owned["fieldsV1"]["f:status"]
    assert (fields["f:flavorsReservation"], fields["f:flavorsUsage"]) == ({}, {})


def test_a_client_that_applies_a_condition_keeps_those_of_others(server: Server) -> None:
    stored = server.create(workload())[1]
    server.put(stored, {**stored, "status": admitted()}, "/status")
    named = {key: stored[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": stored["metadata"]["name"]}}
    path = f"{server.path(stored, named=True)}/status?fieldManager=another"
    applied = {**named, "status": {"conditions": [condition("Finished")]}}
    status, answer = server.ask("PATCH", path, applied, headers={"Content-Type": "application/apply-patch+yaml"})
    assert status == 200, answer
    assert {found["type"] for found in answer["status"]["conditions"]} == {"QuotaReserved", "Admitted", "Finished"}
    assert answer["status"]["admission"] == admitted()["admission"]


def written(server: Server, before: Raw, change: Raw, whole: bool) -> Raw:
    """A Workload with a first status, after a change of it, without what differs between any two Workloads."""
    stored = server.create(workload(annotations={"a": "b"}))[1]
    if before:
        stored = server.put(stored, {**stored, "status": before}, "/status")[1]
    patch = guarded({"status": change}, stored)
    path = f"{server.path(stored, named=True)}/status?fieldManager=seiretsu"
    if whole:
        body = replacement(stored, patch)
        assert body is not None
        status, answer = server.ask("PUT", path, named(body))
    else:
        status, answer = server.ask("PATCH", path, patch, headers=MERGE)
    assert status == 200, answer
    metadata = {key: answer["metadata"][key] for key in ("annotations", "generation", "managedFields")}
    for owner in metadata["managedFields"]:
        owner.pop("time")
    metadata["managedFields"].sort(key=str)  # the API server sorts them by time, which is one of seconds
    return {**answer, "metadata": metadata}


def named(body: Raw) -> Raw:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **body}
