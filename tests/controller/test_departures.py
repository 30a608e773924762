"""How the controller learns that the pods of a deleted job are gone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from api import resources
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from controller.reconcilers.departures import (
    FORGOTTEN_AFTER_SECONDS,
    LONGEST_WAIT_SECONDS,
    MOST_PODS,
    REPORTED_AFTER_SECONDS,
    Departures,
)
from controller.run.watched import rows
from core.jobs import workload
from core.jobs.actions import AwaitPods
from core.jobs.kinds import BATCH_JOB, POD
from core.jobs.workload import name
from core.model import Key, Raw, Workload
from core.model.events import Event
from core.state.state import State
from core.wire.merge import merged
from core.workload import transitions
from core.workload.actions import LifePolicy
from tests.core.jobs.samples import ADMISSION, admitted, after, job, workload_of

KEY = Key("ns", name(BATCH_JOB, job()))
ACTION = AwaitPods(KEY, "job-uid")


class Turns:
    """Turns that begin at once. ``meanwhile`` is called first, as what happens while a write waits for its turn."""

    def __init__(self) -> None:
        self.taken = 0
        self.meanwhile: Callable[[], object] = lambda: None

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str, *, first: bool) -> AsyncIterator[None]:
        self.taken += 1
        self.meanwhile()
        yield


class Events:
    """Keeps the events."""

    def __init__(self) -> None:
        self.recorded: list[tuple[Resource, Key, str]] = []

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.recorded.append((resource, key, event.reason))


class Api:
    """An API server with pods, which keeps what is asked of it and patched."""

    def __init__(self, pods: int) -> None:
        self.pods: int | ApiError = pods
        self.asked: list[tuple[str, str, str]] = []
        self.read = 0
        self.patches: list[tuple[str, Raw]] = []
        self.workload: Raw = {}
        self.precedence = Turns()

    async def pages(
        self, resource: Resource, namespace: str, *, label_selector: str, field_selector: str, limit: int
    ) -> AsyncGenerator[Raw, None]:
        self.asked.append((namespace, label_selector, field_selector))
        if isinstance(self.pods, ApiError):
            raise self.pods
        for first in range(0, max(self.pods, 1), limit):
            last = min(first + limit, self.pods)
            self.read += last - first
            more = {"continue": str(last)} if last < self.pods else {}
            yield {"metadata": more, "items": [{"metadata": {"name": f"pod-{n}"}} for n in range(first, last)]}

    async def patch(
        self, resource: Resource, name: str, namespace: str, body: Raw, *, subresource: str, **_: Any
    ) -> Raw:
        return self._written(subresource, body, merged(self.workload, body))

    async def update(self, resource: Resource, body: Raw, *, subresource: str, **_: Any) -> Raw:
        return self._written(subresource, body, {**self.workload, "status": body["status"]})

    def _written(self, subresource: str, body: Raw, after: Raw) -> Raw:
        self.patches.append((subresource, body))
        version = str(int(self.workload["metadata"]["resourceVersion"]) + 1)
        self.workload = merged(after, {"metadata": {"resourceVersion": version}})
        return self.workload


class World:
    """A Workload that holds quota and has lost its job, and a clock."""

    def __init__(self, pods: int, *, finishes: bool = True) -> None:
        self.now, self.api = 1000.0, Api(pods)
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.api.workload = merged(admitted(workload_of(job())), {"metadata": {"ownerReferences": None}})
        self.api.workload["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.caches.workloads.observe("ADDED", self.api.workload)
        self.caches.start()
        writer = Writer(self.api, self.caches.stores)  # type: ignore[arg-type]
        self.events, self.orphan = Events(), True
        policy = LifePolicy(finishes_orphans=finishes)
        self.departures = Departures(
            self.caches, writer, self.events, lambda raw: self.orphan, policy, clock=lambda: self.now
        )

    async def step(self) -> float | None:
        return await self.departures.reconcile(KEY)

    def change(self, change: Callable[[Workload], Workload]) -> None:
        """Another client changes the status of the Workload."""
        raw = after(self.api.workload, change)
        version = str(int(raw["metadata"]["resourceVersion"]) + 1)
        self.api.workload = merged(raw, {"metadata": {"resourceVersion": version}})
        self.caches.workloads.observe("MODIFIED", self.api.workload)

    @property
    def finished(self) -> bool:
        found = self.caches.get(KEY)
        return found is not None and found.holds("Finished")


async def test_without_pods_the_quota_is_free_at_once_with_one_question_and_one_write() -> None:
    world = World(pods=0)
    assert await world.step() is None
    assert world.finished
    assert len(world.api.patches) == 1
    selectors = ("batch.kubernetes.io/controller-uid=job-uid", "status.phase!=Succeeded,status.phase!=Failed")
    assert world.api.asked == [("ns", *selectors)]


async def test_finishing_the_workload_is_an_event_on_it_because_its_job_is_gone() -> None:
    world = World(pods=0)
    await world.step()
    assert world.events.recorded == [(resources.WORKLOADS, KEY, "FinishedWorkload")]


async def test_a_workload_whose_job_is_there_when_its_turn_comes_is_not_finished() -> None:
    world = World(pods=0)
    world.api.precedence.meanwhile = lambda: setattr(world, "orphan", False)
    assert await world.step() is None
    assert (world.finished, world.api.patches, world.events.recorded) == (False, [], [])
    assert world.api.precedence.taken == 1


async def test_a_workload_that_was_finished_while_the_write_waited_loses_its_finalizer_instead() -> None:
    world = World(pods=0)
    done = "Succeeded"
    world.api.precedence.meanwhile = lambda: world.change(lambda value: transitions.finished(value, done, done, 1.0))
    await world.step()
    (written,) = world.api.patches
    assert written[0] == ""
    assert world.api.workload["metadata"].get("finalizers") is None
    assert world.events.recorded == []


async def test_pods_that_remain_are_reported_in_a_turn_and_not_if_the_quota_was_released_before_it() -> None:
    world = World(pods=3)
    await world.step()
    world.now += REPORTED_AFTER_SECONDS
    world.api.precedence.meanwhile = lambda: world.change(lambda value: transitions.finished(value, "a", "b", 1.0))
    assert await world.step()
    assert (world.api.precedence.taken, world.api.patches) == (1, [("", world.api.patches[0][1])])
    assert "finalizers" in world.api.patches[0][1]["metadata"], "it is finished: the condition has no reader"


async def test_remaining_pods_are_listed_at_growing_intervals_and_reported_once() -> None:
    world, waits = World(pods=3), []
    for _ in range(8):
        wait = await world.step()
        assert wait is not None
        assert not world.finished
        waits.append(wait)
        world.now += wait
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, *[LONGEST_WAIT_SECONDS] * 3]
    ((subresource, body),) = world.api.patches
    assert subresource == "status"
    (told,) = [each for each in body["status"]["conditions"] if each["type"] == "PodsRemain"]
    assert (told["status"], told["reason"]) == ("True", "JobDeleted")
    assert "3 of its pods still run (pod-0, pod-1, pod-2): the quota is held until no pod is left" in told["message"]
    world.api.pods = 0
    assert await world.step() is None
    assert world.finished


async def test_without_its_gate_the_workload_loses_its_finalizer_and_is_not_finished() -> None:
    world = World(pods=1, finishes=False)
    assert await world.step()
    assert world.api.patches == [], "the pod still uses the quota"
    world.api.pods = 0
    assert await world.step() is None
    assert not world.finished
    assert world.api.workload["metadata"].get("finalizers") is None


async def test_pods_that_end_soon_cost_no_write() -> None:
    world = World(pods=1)
    await world.step()
    world.now += 4
    await world.step()
    assert world.api.patches == []


async def test_where_pods_cannot_be_listed_quota_is_held_and_the_denial_is_reported() -> None:
    world = World(pods=0)
    world.api.pods = Forbidden(403, "Forbidden", "no")
    assert [await world.step() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_WAIT_SECONDS]
    assert not world.finished
    assert world.api.patches == []
    assert "list pods" in world.departures.writer.refused
    world.api.pods = 0
    await world.step()
    assert world.finished
    assert "list pods" not in world.departures.writer.refused


async def test_of_many_pods_only_the_first_page_is_read() -> None:
    world = World(pods=10_000)
    await world.step()
    world.now += REPORTED_AFTER_SECONDS
    await world.step()
    assert world.api.read == 2 * MOST_PODS
    found = world.caches.get(KEY)
    remaining = found.condition("PodsRemain") if found is not None else None
    assert remaining is not None
    assert "more than 100 of its pods still run (pod-0, pod-1, pod-10, ...)" in remaining.message


async def test_data_about_a_job_is_removed_with_its_workload() -> None:
    world = World(pods=0)
    await world.step()
    assert ACTION.uid not in world.departures.gone


async def test_data_about_a_job_that_is_no_longer_checked_is_removed() -> None:
    """Its Workload was deleted by another client, or released by hand, so the controller took no step for it."""
    world = World(pods=1)
    for uid in ("first", "second"):
        await world.departures.await_pods(AwaitPods(KEY, uid))
    world.now += FORGOTTEN_AFTER_SECONDS
    await world.departures.await_pods(AwaitPods(KEY, "second"))
    world.now += 1
    await world.departures.await_pods(AwaitPods(KEY, "third"))
    assert list(world.departures._waiting) == ["second", "third"]
    world.departures.forget("second")
    assert list(world.departures._waiting) == ["third"]


class PodApi(Api):
    """An API server with one pod, or none, that the controller does not watch."""

    def __init__(self, pod: Raw | ApiError) -> None:
        super().__init__(0)
        self.pod = pod
        self.named: list[Raw] = []
        self.uid = "another-uid"

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **more: Any) -> Raw:
        if resource != POD.resource:
            return await super().patch(resource, name, namespace, body, **more)
        self.named.append(body)
        if isinstance(self.pod, ApiError):
            raise self.pod
        self.pod = merged(self.pod, body)
        return self.pod

    async def get(self, resource: Resource, name: str, namespace: str = "", **more: Any) -> Raw:
        assert resource == POD.resource
        return {"metadata": {"name": name, "namespace": namespace, "uid": self.uid}}


OTHER_UID = Invalid(422, "Invalid", "metadata.uid: field is immutable")


@pytest.mark.parametrize("gone", [None, NotFound(404, "NotFound", ""), Conflict(409, "Conflict", ""), OTHER_UID])
async def test_a_pod_to_which_an_import_gave_quota_gets_the_labels_by_which_it_is_watched(
    gone: ApiError | None,
) -> None:
    metadata = {"name": "p", "namespace": "ns", "uid": "pod-uid", "resourceVersion": "5"}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    labelled = merged(pod, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}})
    raw = workload.manifest(POD, labelled, {"spec": {"priority": 0}})
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9", "creationTimestamp": "2026-01-01T00:00:00Z"}
    raw = after(raw, lambda value: transitions.imported(value, ADMISSION, (), 500.0))
    api, caches = PodApi(gone or pod), Caches(State(), rows([POD]))
    api.workload = raw
    caches.workloads.observe("ADDED", raw)
    caches.start()
    writer = Writer(api, caches.stores)  # type: ignore[arg-type]
    departures = Departures(caches, writer, Events(), lambda raw: True, LifePolicy(), clock=lambda: 1000.0)
    await departures.reconcile(key_of(raw))
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true"}
    assert api.named == [{"metadata": {"uid": "pod-uid", "labels": labels}}]
    value = caches.get(key_of(raw))
    assert value is not None
    assert value.holds("Finished") == (gone is not None)
