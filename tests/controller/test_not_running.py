"""Events that say why an admitted job does not run: for which jobs, when, how often, and what that reads."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from api import resources
from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.kube.errors import Forbidden
from controller.reconcilers.not_running import FIRST_SECONDS, LONGEST_SECONDS, NotRunning, not_ready
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.model.events import Event
from tests.controller.test_caches import filled, workload

ADMITTED_AT = "2026-01-01T00:00:00Z"
NODES = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu"
REFUSED = "Error creating: exceeded quota: small"


def conditions(*, ready: bool | None, admitted: bool = True, evicted: bool = False) -> list[Raw]:
    states = {"QuotaReserved": admitted, "Admitted": admitted, "Evicted": evicted or None, "PodsReady": ready}
    return [
        {"type": kind, "status": str(holds), "reason": "x", "message": "", "lastTransitionTime": ADMITTED_AT}
        for kind, holds in states.items()
        if holds is not None
    ]


def pending(name: str, message: str = NODES) -> Raw:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"metadata": {"name": name, "uid": name}, "status": {"phase": "Pending", "conditions": [scheduled]}}


class Place:
    """A clock that stands still, pods and events that can be listed, and the recorded events."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pods: list[Raw] = []
        self.events: list[Raw] = []
        self.more = False
        self.error: Exception | None = None
        self.listed: list[tuple[str, str, str]] = []
        self.told: list[tuple[str, str, Event]] = []
        self.caches: Caches = filled()
        self.caches.start()
        self.version = 1
        clock: Any = {"clock": lambda: self.now, "now": lambda: 1_900_000_000.0}
        self.found = NotRunning(self.caches, self, self, [BATCH_JOB], **clock)  # type: ignore[arg-type]
        self.found.connect()

    async def first_of(
        self, resource: Resource, namespace: str, *, labels: str, fields: str, limit: int
    ) -> tuple[list[Raw], bool]:
        self.listed.append((resource.plural, namespace, labels or fields))
        if self.error is not None:
            raise self.error
        return (self.pods, self.more) if resource is resources.PODS else (self.events, False)

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.told.append((resource.kind, f"{key}", event))

    def observe(self, name: str = "a", namespace: str = "ns", **state: Any) -> None:
        """A Workload of the Job of that name, of one pod."""
        raw = workload(f"job-{name}", "1")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
        raw["metadata"] |= {"namespace": namespace, "ownerReferences": [owner]}
        raw["metadata"]["uid"] += namespace
        usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
        raw["status"] = {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [usage]},
            "conditions": conditions(**state),
        }
        self.version += 1
        found = copy.deepcopy(raw)
        found["metadata"]["resourceVersion"] = str(self.version)
        self.caches.workloads.observe("MODIFIED", found)

    async def after(self, seconds: float) -> int:
        """Lets time pass; returns how many jobs were looked at."""
        self.now += seconds
        looks = 0
        while await self.found.step():
            looks += 1
        return looks


async def test_a_job_that_is_ready_within_a_minute_costs_no_read() -> None:
    place = Place()
    place.observe(ready=False)
    assert await place.after(FIRST_SECONDS - 1) == 0
    place.observe(ready=True)
    assert await place.after(LONGEST_SECONDS) == 0
    assert place.listed == []


async def test_after_a_minute_the_job_and_its_workload_have_an_event_with_the_schedulers_reason() -> None:
    place = Place()
    place.pods = [pending("p")]
    place.observe(ready=False)
    assert await place.after(FIRST_SECONDS) == 1
    said = f"0 of 1 pods run or have succeeded: Unschedulable: 1 pod is Pending: {NODES}"
    assert [(kind, key) for kind, key, _ in place.told] == [("Workload", "ns/job-a")]
    assert {event for _, _, event in place.told} == {Event("Warning", "PodsNotRunning", said)}
    assert place.listed == [("pods", "ns", "batch.kubernetes.io/controller-uid=uid-a")], "no pod is missing: no events"


async def test_pods_that_are_not_made_are_explained_by_the_events_about_the_job() -> None:
    place = Place()
    place.caches.stores[BATCH_JOB.resource].observe(
        "ADDED",
        {
            "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "1"},
            "spec": {"template": {"spec": {}}},
        },
    )
    about = {"kind": "Job", "name": "a", "uid": "uid-a"}
    place.events = [
        {"reason": "FailedCreate", "message": REFUSED, "lastTimestamp": ADMITTED_AT, "involvedObject": about}
    ]
    place.observe(ready=False)
    await place.after(FIRST_SECONDS)
    assert [kind for kind, _, _ in place.told] == ["Job", "Workload"]
    assert "the next is refused: exceeded quota: small" in place.told[0][2].message
    assert [each[0] for each in place.listed] == ["pods", "events"]
    assert place.listed[1] == ("events", "ns", "type=Warning,reason=FailedCreate")


async def test_it_is_looked_at_again_after_waits_that_double_and_told_what_is_new() -> None:
    place = Place()
    place.pods = [pending("p")]
    place.observe(ready=False)
    assert [await place.after(FIRST_SECONDS) for _ in range(7)] == [1, 0, 1, 0, 0, 0, 1]
    assert len(place.told) == 1, "the same is not said twice"
    place.pods = [pending("p", "0/5 nodes are available")]
    assert await place.after(LONGEST_SECONDS) == 1
    assert len(place.told) == 2


@pytest.mark.parametrize(
    "state", [{"ready": True}, {"ready": None}, {"ready": False, "admitted": False}, {"ready": False, "evicted": True}]
)
async def test_a_job_that_waits_or_stops_or_runs_is_not_looked_at(state: dict[str, Any]) -> None:
    place = Place()
    place.observe(ready=False)
    place.observe(**state)
    assert await place.after(LONGEST_SECONDS) == 0


async def test_namespaces_take_turns() -> None:
    place = Place()
    place.pods = [pending("p")]
    for number in range(5):
        place.observe(f"a{number}", "busy", ready=False)
    place.observe("b", "other", ready=False)
    await place.after(FIRST_SECONDS)
    assert "other" in [namespace for _, namespace, _ in place.listed][:2]
    assert len(place.listed) == 6


async def test_an_error_is_tried_again_and_stops_nothing() -> None:
    place = Place()
    place.error = Forbidden(403, "Forbidden", "no")
    place.observe(ready=False)
    assert await place.after(FIRST_SECONDS) == 1
    place.error, place.pods = None, [pending("p")]
    assert await place.after(2 * FIRST_SECONDS) == 1
    assert len(place.told) == 1


async def test_more_pods_than_are_read_are_not_missed() -> None:
    place = Place()
    place.more = True
    place.observe(ready=False)
    await place.after(FIRST_SECONDS)
    assert place.told == []
    assert len(place.listed) == 1


async def test_a_new_leader_notes_the_jobs_that_are_not_ready() -> None:
    place = Place()
    place.observe(ready=False)
    other = Place()
    other.found.caches = place.caches
    for _ in other.found.everything():
        pass
    assert await other.after(FIRST_SECONDS) == 1


def test_a_workload_without_the_condition_is_left_alone() -> None:
    assert not not_ready({})
    assert not_ready({"status": {"conditions": conditions(ready=False)}})
