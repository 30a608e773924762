"""What the Job reconciler writes, and what it reports when the API server refuses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.churn import FREE
from controller.cache.refusals import REPORT_SECONDS
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, TooManyRequests, Unreachable
from controller.kube.flow.limits import MOST
from controller.kube.flow.precedence import Precedence
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.departures import FIRST_WAIT_SECONDS
from controller.reconcilers.jobs import JobReconciler
from controller.run.watched import rows
from controller.settings import ControllerSettings
from core.actions import Wait
from core.jobs import workload
from core.jobs.actions import CreateWorkload, Start, Stop
from core.jobs.decide import decide
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Raw
from core.model.events import Event
from core.model.owner import Owner
from core.state.state import State
from core.wire.merge import merged
from core.workload import transitions
from tests.controller.test_caches import controlled_by, made
from tests.core.jobs.samples import ADMISSION, admitted, job, read, with_status, workload_of
from tests.eventually import eventually

KEY = Key("ns", "j")


class Answers:
    """A client whose creates fail with ``errors``, one after the other, and then succeed."""

    def __init__(self, *errors: ApiError) -> None:
        self.errors = list(errors)
        self.precedence = Precedence(lambda: 0.0)

    async def create(self, resource: Resource, body: Raw, namespace: str = "", **_: Any) -> Raw:
        if self.errors:
            raise self.errors.pop(0)
        given = {"uid": "wl-uid", "resourceVersion": "9", "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {**body, "metadata": {**body["metadata"], **given}}


class Told:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        """Keep one."""
        self.events.append(event)


def reconciler(*errors: ApiError, clock: Callable[[], float] = time.time) -> tuple[JobReconciler, Told]:
    caches, told = Caches(State(), rows([BATCH_JOB])), Told()
    found = job()
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    caches.stores[BATCH_JOB.resource].observe("ADDED", found)
    caches.namespaces.observe("ADDED", made("Namespace", "ns"))
    caches.start()
    writer = Writer(Answers(*errors), caches.stores)  # type: ignore[arg-type]
    metrics = QueueingMetrics(CollectorRegistry())
    return JobReconciler(BATCH_JOB, caches, writer, told, metrics, ControllerSettings(), clock=clock), told


async def tries(found: JobReconciler, times: int) -> None:
    """Reconcile as the work queue does: what fails is retried."""
    for _ in range(times):
        try:
            await found.reconcile(KEY)
        except ApiError:
            continue


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid(422, "Invalid", "spec.queueName: Invalid value"),
        Forbidden(403, "Forbidden", "exceeded quota: workloads"),
        ApiError(500, "InternalError", "failed calling webhook"),
    ],
    ids=["the schema refuses it", "a policy refuses it", "a webhook is down"],
)
async def test_a_workload_that_the_api_server_refuses_is_retried_with_backoff_and_reported_once(
    refusal: ApiError,
) -> None:
    found, told = reconciler(*[refusal] * 3)
    with pytest.raises(ApiError):
        await found.reconcile(KEY)
    await tries(found, 3)
    assert [event.reason for event in told.events] == ["ErrWorkloadCompose", "CreatedWorkload"]
    assert told.events[0].type == "Warning"
    assert told.events[0].message.endswith(f"it is tried again until it is accepted: {refusal.message}")


async def test_a_refusal_with_another_message_each_time_is_reported_once_and_again_after_some_time() -> None:
    """One of another kind is reported at once."""
    now = 1000.0
    denied = [Forbidden(403, "Forbidden", f"denied, id {number}") for number in range(4)]
    found, told = reconciler(*denied[:3], Invalid(422, "Invalid", "too long"), denied[3], clock=lambda: now)
    await tries(found, 4)
    now += REPORT_SECONDS
    await tries(found, 1)
    said = [event.message.rpartition(": ")[2] for event in told.events]
    assert said == ["denied, id 0", "too long", "denied, id 3"]


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExists(409, "AlreadyExists", "there"),
        Conflict(409, "Conflict", "changed"),
        TooManyRequests(429, "TooManyRequests", "later"),
        Unreachable(0, "Reset", "cut"),
    ],
)
async def test_what_the_next_attempt_ends_is_not_reported(error: ApiError) -> None:
    found, told = reconciler(error)
    await tries(found, 2)
    assert [event.reason for event in told.events] == ["CreatedWorkload"]


async def test_a_workload_name_that_is_already_taken_is_reported() -> None:
    found, told = reconciler(AlreadyExists(409, "AlreadyExists", "it is there"))
    name = workload.name(BATCH_JOB, job())
    found.caches.workloads.observe("ADDED", made("Workload", name, namespace="ns"))
    await tries(found, 1)
    assert [event.reason for event in told.events] == ["ErrWorkloadCompose"]


async def test_workloads_of_another_groups_kind_job_are_neither_finished_nor_deleted() -> None:
    """Neither where a Job of that name is ours, nor where none is."""
    found, told = reconciler()
    theirs = controlled_by(Owner("batch.volcano.sh", "Job", "ns", "j"))
    found.caches.workloads.observe("ADDED", theirs)
    await found.reconcile(KEY)
    assert [event.reason for event in told.events] == ["CreatedWorkload"]
    gone = KEY._replace(name="gone")
    found.caches.workloads.observe("ADDED", controlled_by(Owner("batch.volcano.sh", "Job", "ns", "gone"), "w2"))
    await found.reconcile(gone)
    assert found.caches.workloads.get(Key("ns", "w")) is theirs


def below(parent: Raw, name: str, *, suspend: bool) -> Raw:
    """A Job that another Job controls, with a different queue name."""
    found = job(suspend=suspend)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": parent["metadata"]["name"], "controller": True}
    found["metadata"] |= {"name": name, "uid": f"{name}-uid"}
    found["metadata"]["ownerReferences"] = [{**reference, "uid": parent["metadata"]["uid"]}]
    return found


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("admitted", [True, False, None], ids=["admitted", "waiting", "without Workload yet"])
@pytest.mark.parametrize("levels", [1, 2])
def test_a_job_below_a_queued_job_follows_it_however_deep(levels: int, admitted: bool | None, suspend: bool) -> None:
    found, _ = reconciler()
    top = lowest = job()
    if admitted is not None:
        raw = workload_of(top)
        if admitted:
            raw = with_status(raw, read(raw), transitions.reserved(read(raw), ADMISSION, 1.0))
        found.caches.workloads.observe("ADDED", raw)
    for level in range(levels):
        lowest = below(lowest, f"below-{level}", suspend=suspend)
        found.store.observe("ADDED", lowest)
    action = decide(found._situation(key_of(lowest), lowest))
    if suspend:
        assert isinstance(action, Start if admitted else Wait)
    else:
        assert isinstance(action, Wait if admitted else Stop)


@pytest.mark.parametrize("change", ["another uid", "it has ended", "no queue name"])
def test_a_job_below_one_that_takes_no_quota_is_queued_by_itself(change: str) -> None:
    found, _ = reconciler()
    parent = job()
    child = below(parent, "child", suspend=True)
    match change:
        case "another uid":
            child["metadata"]["ownerReferences"][0]["uid"] = "of-an-earlier-job"
        case "it has ended":
            parent["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        case _:
            parent["metadata"]["labels"] = {}
    parent["metadata"]["resourceVersion"] = "6"
    for each in (parent, child):
        found.store.observe("MODIFIED", each)
    assert isinstance(decide(found._situation(key_of(child), child)), CreateWorkload)


def test_jobs_and_scheduling_use_the_same_decoded_workload() -> None:
    """It is decoded once, by the limits of its namespace and the feature gates."""
    found, _ = reconciler()
    raw = workload_of(job())
    found.caches.workloads.observe("ADDED", raw)
    situation = found._situation(KEY, job())
    assert situation.found is found.caches.get(key_of(raw))
    assert situation.found.key in found.caches.state.workloads


class NoPods(Answers):
    """A cluster in which no pod is left, and every Workload can be patched and deleted."""

    def __init__(self, workload: Raw) -> None:
        super().__init__()
        self.workload = workload
        self.listed = 0

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[Raw, None]:
        self.listed += 1
        yield {"metadata": {}, "items": []}

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **_: Any) -> Raw:
        return self._written(merged(self.workload, body))

    async def update(self, resource: Resource, body: Raw, **_: Any) -> Raw:
        return self._written({**self.workload, "status": body["status"]})

    def _written(self, after: Raw) -> Raw:
        version = str(int(self.workload["metadata"]["resourceVersion"]) + 1)
        self.workload = merged(after, {"metadata": {"resourceVersion": version}})
        return self.workload

    async def delete(self, *_: Any, **__: Any) -> Raw:
        return {"kind": "Status"}


@pytest.mark.parametrize("dying", [False, True], ids=["we delete its Workload", "its Workload is deleted already"])
async def test_nothing_is_kept_of_an_earlier_job_after_its_workload_is_deleted(dying: bool) -> None:
    found, _ = reconciler()
    old = admitted(workload_of(job()))
    old["metadata"].update(name="job-j-before", creationTimestamp="2026-01-01T00:00:00Z")
    old["metadata"]["ownerReferences"][0]["uid"] = "before"
    old["metadata"].update({"deletionTimestamp": "2026-01-01T00:00:01Z"} if dying else {})
    api = NoPods(old)
    found.writer.client = api  # type: ignore[assignment]
    found.caches.workloads.observe("ADDED", old)
    await tries(found, 4)
    assert key_of(old) not in {key_of(raw) for raw in found.caches.workloads_of(Owner("batch", "Job", *KEY))}
    assert api.listed == 1
    assert "before" not in found.departures.gone


class Denied(Answers):
    """A cluster in which pods may not be listed."""

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[Raw, None]:
        raise Forbidden(403, "Forbidden", "no")
        yield {}


async def test_a_new_job_goes_on_although_the_pods_of_an_earlier_one_of_its_name_cannot_be_listed() -> None:
    found, told = reconciler()
    old = admitted(workload_of(job()))
    old["metadata"].update(name="job-j-before", creationTimestamp="2026-01-01T00:00:00Z")
    old["metadata"]["ownerReferences"][0]["uid"] = "before"
    found.writer.client = Denied()  # type: ignore[assignment]
    found.caches.workloads.observe("ADDED", old)
    assert await found.reconcile(KEY) == FIRST_WAIT_SECONDS
    assert [event.reason for event in told.events] == ["CreatedWorkload"]
    assert "list pods" in found.writer.refused


class Recording(NoPods):
    """A cluster that keeps the verb of each write, and what came before the turn of a write."""

    def __init__(self, workload: Raw) -> None:
        super().__init__(workload)
        self.made: list[str] = []

    async def create(self, resource: Resource, body: Raw, namespace: str = "", **given: Any) -> Raw:
        self.made.append(f"create {resource.plural}")
        return await super().create(resource, body, namespace, **given)

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **given: Any) -> Raw:
        self.made.append(f"patch {resource.plural}")
        return await super().patch(resource, name, namespace, body, **given)

    async def update(self, resource: Resource, body: Raw, **given: Any) -> Raw:
        self.made.append(f"update {resource.plural}")
        return await super().update(resource, body, **given)


def recorded(workload: Raw, of: Raw) -> tuple[JobReconciler, Recording]:
    """A reconciler that knows this Workload of a Job."""
    found, _ = reconciler()
    api = Recording(workload)
    found.writer.client = api  # type: ignore[assignment]
    found.store.observe("MODIFIED", {**of, "metadata": {**of["metadata"], "resourceVersion": "6"}})
    found.caches.workloads.observe("ADDED", workload)
    return found, api


COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}


def done(raw: Raw) -> Raw:
    """The admitted Workload, finished."""
    raw = admitted(raw)
    return with_status(raw, read(raw), transitions.finished(read(raw), "Succeeded", "done", 2.0))


async def test_a_job_whose_workload_has_quota_is_reconciled_before_jobs_that_wait_for_one() -> None:
    found, _ = reconciler()
    found.caches.workloads.observe("ADDED", admitted(workload_of(job())))
    for name in ("new", "newer"):
        found.changed(KEY._replace(name=name))
    found.changed(KEY)
    assert [found.queue._take().name for _ in range(3)] == [KEY.name, "new", "newer"]


@pytest.mark.parametrize("deleting", [False, True])
async def test_the_finalizer_of_a_finished_workload_waits_for_the_budget_unless_the_workload_is_deleted(
    deleting: bool,
) -> None:
    raw = done(workload_of(job()))
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:01Z"} if deleting else {}
    found, api = recorded(raw, job(suspend=False, status=COMPLETE))
    await found.reconcile(KEY)
    assert (api.made, len(found.finished)) == ((["patch workloads"], 0) if deleting else ([], 1))
    await found.release(KEY)
    assert api.made == ["patch workloads"]
    await found.release(KEY)
    assert api.made == ["patch workloads"], "it has no finalizer now"


async def test_a_write_that_waits_for_its_turn_is_decided_by_what_is_known_then() -> None:
    """A Job that ends before it could be stopped is finished, not stopped."""
    raw = workload_of(job())
    found, api = recorded(raw, job(suspend=False))
    api.precedence.called()
    answered = asyncio.Event()
    others = [asyncio.create_task(_hold(api.precedence, answered)) for _ in range(MOST)]
    await asyncio.sleep(0)
    stopping = asyncio.create_task(found.reconcile(KEY))
    await eventually(lambda: api.precedence._waiting_first)
    over = job(suspend=False, status=COMPLETE)
    over["metadata"]["resourceVersion"] = "7"
    found.store.observe("MODIFIED", over)
    answered.set()
    await asyncio.gather(stopping, *others)
    assert api.made == ["update workloads"]


async def _hold(precedence: Precedence, until: asyncio.Event) -> None:
    async with precedence.turn():
        await until.wait()


async def test_a_workload_that_is_deleted_whenever_it_was_created_is_created_less_often_and_reported() -> None:
    found, told = reconciler()
    waits = []
    for _ in range(FREE + 2):
        waits.append(await found.reconcile(KEY))
        for raw in tuple(found.caches.workloads):
            found.caches.workloads.observe("DELETED", raw)
    assert [wait is None for wait in waits] == [True] * FREE + [False] * 2
    assert [event.reason for event in told.events] == ["CreatedWorkload"] * FREE + ["WorkloadCreatedAgain"]
