"""What a write tells the caches at once."""

from typing import Any

import pytest

from api import resources
from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import Forbidden, NotFound, Terminating, from_status
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB, POD
from core.model import Key
from core.state.state import State
from core.wire.guard import guarded
from core.wire.merge import replacement
from tests.controller.test_caches import workload
from tests.core.jobs.test_pod import pod

KEY = Key("ns", "w")
LATER = "2026-01-01T00:00:30Z"


class Answers:
    """A stand-in for the client that gives prepared answers: which of them comes is not the test's subject."""

    def __init__(self, answer: Raw | None) -> None:
        self.answer = answer
        self.sent: list[tuple[str, Raw]] = []

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **_: Any) -> Raw:
        assert self.answer is not None
        self.sent.append(("patch", body))
        return self.answer

    async def update(self, resource: Resource, body: Raw, **_: Any) -> Raw:
        assert self.answer is not None
        self.sent.append(("update", body))
        return self.answer

    async def delete(self, *_: Any, **__: Any) -> Raw:
        assert self.answer is not None
        return self.answer

    async def get(self, *_: Any, **__: Any) -> Raw:
        if self.answer is None:
            raise NotFound(404, "NotFound", "gone")
        return self.answer


class Denies:
    """A stand-in for a client without rights."""

    def __init__(self, error: Forbidden) -> None:
        self.error = error

    async def patch(self, *_: Any, **__: Any) -> Raw:
        raise self.error


def cached(answer: Raw | None) -> tuple[Writer, Caches]:
    caches = Caches(State(), rows([BATCH_JOB]))
    caches.workloads.observe("ADDED", workload("w"))
    return Writer(Answers(answer), caches.stores), caches  # type: ignore[arg-type]


def version(number: int, **metadata: Any) -> Raw:
    found = workload("w")
    found["metadata"] |= {"resourceVersion": str(number), **metadata}
    return found


async def test_the_answer_of_a_patch_is_stored_before_its_watch_event() -> None:
    writer, caches = cached(version(7))
    await writer.patch(resources.WORKLOADS, KEY, {})
    found = caches.workloads.get(KEY)
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "7"


async def test_a_status_patch_of_the_version_in_the_caches_is_sent_as_the_whole_status() -> None:
    writer, caches = cached(version(7))
    found = caches.workloads.get(KEY)
    assert found is not None
    patch = guarded({"status": {"admission": {"clusterQueue": "cq"}}}, found)
    await writer.patch(resources.WORKLOADS, KEY, patch, subresource="status")
    whole = replacement(found, patch)
    assert whole is not None
    named = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
    assert writer.client.sent == [("update", named | whole)]  # type: ignore[attr-defined]
    stale = {**patch, "metadata": {**patch["metadata"], "resourceVersion": "1"}}
    await writer.patch(resources.WORKLOADS, KEY, stale, subresource="status")
    assert writer.client.sent[-1] == ("patch", stale)  # type: ignore[attr-defined]


async def test_an_object_that_lost_its_last_finalizer_is_gone_at_once() -> None:
    writer, caches = cached(version(7, deletionTimestamp="2026-01-01T00:00:00Z"))
    await writer.patch(resources.WORKLOADS, KEY, {})
    assert caches.workloads.get(KEY) is None


async def test_an_object_with_another_finalizer_is_not_removed() -> None:
    writer, caches = cached(version(7, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion"]))
    await writer.patch(resources.WORKLOADS, KEY, {})
    assert caches.workloads.get(KEY) is not None


POD_KEY = Key("ns", "p")


def cached_pod(**answer: Any) -> tuple[Writer, Caches]:
    """A writer with a queued pod in its caches, and an answer with this metadata."""
    caches = Caches(State(), rows([POD]))
    caches.stores[POD.resource].observe("ADDED", pod(uid="pod-uid"))
    return Writer(Answers(pod(resourceVersion="7", **answer)), caches.stores), caches  # type: ignore[arg-type]


@pytest.mark.parametrize("write", ["patch", "delete"])
@pytest.mark.parametrize(("grace", "stays"), [(30, True), (0, False)], ids=["in its grace period", "that never ran"])
async def test_a_pod_stays_in_the_caches_until_its_grace_period_ends(write: str, grace: int, stays: bool) -> None:
    writer, caches = cached_pod(deletionTimestamp=LATER, deletionGracePeriodSeconds=grace, finalizers=[])
    if write == "patch":
        await writer.patch(POD.resource, POD_KEY, {"metadata": {"finalizers": None}})
    else:
        await writer.delete(POD.resource, POD_KEY, "pod-uid")
    store = caches.stores[POD.resource]
    assert (store.get(POD_KEY) is not None) is stays
    if stays:
        store.observe("DELETED", pod(resourceVersion="8"))
        assert store.get(POD_KEY) is None


async def test_an_object_read_again_is_stored_and_a_missing_one_removed() -> None:
    writer, caches = cached(None)
    assert await writer.refreshed(resources.WORKLOADS, KEY, "Workload-w") is None
    assert caches.workloads.get(KEY) is None


async def test_a_namesake_is_not_the_object_that_was_asked_for() -> None:
    writer, caches = cached(version(9, uid="another"))
    assert await writer.refreshed(resources.WORKLOADS, KEY, "Workload-w") is None
    found = caches.workloads.get(KEY)
    assert found is not None
    assert found["metadata"]["uid"] == "another"


async def test_a_denied_write_is_reported_until_a_write_of_its_kind_succeeds() -> None:
    writer, _ = cached(version(7))
    denied = Forbidden(403, "Forbidden", 'workloads.kueue.x-k8s.io "w" is forbidden')
    allowed, writer.client = writer.client, Denies(denied)  # type: ignore[assignment]
    with pytest.raises(Forbidden):
        await writer.patch(resources.WORKLOADS, KEY, {}, subresource="status")
    assert writer.refused == {"patch workloads/status": str(denied)}
    writer.client = allowed
    await writer.patch(resources.WORKLOADS, KEY, {})
    assert writer.refused, "it was of another kind"
    await writer.patch(resources.WORKLOADS, KEY, {}, subresource="status")
    assert not writer.refused


async def test_a_write_in_a_namespace_that_is_being_deleted_is_no_missing_right() -> None:
    writer, _ = cached(version(7))
    status: Raw = {
        "kind": "Status",
        "status": "Failure",
        "message": "unable to create new content in namespace ns because it is being terminated",
        "reason": "Forbidden",
        "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
        "code": 403,
    }
    error = from_status(status)
    assert isinstance(error, Terminating)
    writer.client = Denies(error)  # type: ignore[assignment]
    with pytest.raises(Forbidden):
        await writer.patch(resources.WORKLOADS, KEY, {})
    assert not writer.refused
