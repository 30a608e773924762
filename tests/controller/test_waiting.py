"""Events that say why a Job waits: for which Jobs, when, and how often."""

from __future__ import annotations

import asyncio
import copy

import pytest

from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.scheduling.waiting import (
    AGAIN_SECONDS,
    EACH_REMINDER_SECONDS,
    EACH_SECONDS,
    REMIND_AFTER_SECONDS,
    SETTLE_SECONDS,
    WaitEvents,
)
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.model.events import Event
from core.state.drain import drain
from tests.controller.test_caches import filled, made, workload
from tests.eventually import eventually

USAGE = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}
HOLDS = {
    "admission": {"clusterQueue": "cq", "podSetAssignments": [USAGE]},
    "conditions": [
        {"type": kind, "status": "True", "reason": kind, "message": ""} for kind in ("QuotaReserved", "Admitted")
    ],
}
QUOTA = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}


class Place:
    """A ClusterQueue of 4 cpu, of which "w" uses 2, a clock that stands still, and the recorded events."""

    def __init__(self, *, strict: bool = False) -> None:
        self.now = 0.0
        self.told: list[tuple[str, Event]] = []
        self.room = True
        self.full: set[str] = set()
        """Namespaces of which many events wait to be sent."""
        self.caches: Caches = filled()
        self.version = 1
        if strict:
            spec = {"queueingStrategy": "StrictFIFO", "namespaceSelector": {}}
            groups = [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]
            queue = made("ClusterQueue", "cq", {**spec, "resourceGroups": groups})
            self.caches.cluster_queues.observe("MODIFIED", self.newer(queue))
        self.caches.workloads.observe("MODIFIED", self.newer({**workload("w", "2"), "status": HOLDS}))
        self.caches.start()
        self.waiting = WaitEvents(self.caches, self, [BATCH_JOB], room=self.has_room, clock=lambda: self.now)
        self.waiting.connect()
        for _ in self.waiting.everything():
            pass

    def has_room(self, namespace: str) -> bool:
        return self.room and namespace not in self.full

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.told.append((f"{resource.kind} {key.name}", event))

    def newer(self, raw: Raw) -> Raw:
        self.version += 1
        found = copy.deepcopy(raw)
        found["metadata"]["resourceVersion"] = str(self.version)
        return found

    def create(self, *jobs: str, cpu: str = "4", queue: str = "lq", namespace: str = "ns") -> None:
        """Workloads of Jobs."""
        for job in jobs:
            raw = workload(f"job-{job}", cpu)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
            raw["metadata"]["ownerReferences"] = [owner]
            raw["spec"]["queueName"] = queue
            raw["metadata"]["namespace"] = namespace
            raw["metadata"]["uid"] += namespace if namespace != "ns" else ""
            self.caches.workloads.observe("ADDED", self.newer(raw))
        list(drain(self.caches.state, self.caches.state.policy, self.now))

    def status(self, job: str, status: Raw) -> None:
        """A condition in a Workload's status that another client wrote."""
        raw = self.caches.workloads.get(("ns", f"job-{job}"))
        assert raw is not None
        self.caches.workloads.observe("MODIFIED", self.newer({**raw, "status": status}))

    def after(self, seconds: float) -> list[str]:
        """The objects that have an event by then, with its reason."""
        self.told.clear()
        self.now += seconds
        while self.waiting.step() is not None and self.room:
            pass
        return [f"{about}: {event.reason}" for about, event in self.told]


def condition(reason: str, message: str) -> Raw:
    return {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}]}


NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"


def test_every_waiting_job_gets_an_event_with_the_reason_considered_or_not() -> None:
    place = Place()
    place.create("first", "second")
    place.status("first", condition("WaitingForQuota", NO_QUOTA))
    assert place.after(SETTLE_SECONDS / 2) == []
    assert place.after(SETTLE_SECONDS) == [
        "Job second: WaitingForQuota",
        "Workload job-second: WaitingForQuota",
        "Job first: WaitingForQuota",
    ], "the status of the first one says it; the second one has none"
    assert {event.message for about, event in place.told if about.startswith("Job")} == {
        f"Waits in ClusterQueue cq: {NO_QUOTA}"
    }


def test_the_event_names_the_head_of_a_strict_queue() -> None:
    place = Place(strict=True)
    place.create("first")
    place.create("small", cpu="1")
    place.status("first", condition("WaitingForQuota", NO_QUOTA))
    assert place.after(SETTLE_SECONDS)[0] == "Job small: PendingEvaluation"
    assert place.told[0][1].message == (
        "Waits in ClusterQueue cq: behind ns/job-first, which is first in ClusterQueue cq: the queue is StrictFIFO"
    )


def test_the_event_does_not_name_a_workload_of_another_namespace() -> None:
    place = Place(strict=True)
    place.caches.namespaces.observe("ADDED", place.newer(made("Namespace", "other")))
    queue = made("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="other")
    place.caches.local_queues.observe("ADDED", place.newer(queue))
    place.create("secret", namespace="other")
    place.create("small", cpu="1")
    place.after(SETTLE_SECONDS)
    (text,) = {event.message for about, event in place.told if about == "Job small"}
    assert text == (
        "Waits in ClusterQueue cq: behind a workload of another namespace, which is first in ClusterQueue cq: the queue"
        " is StrictFIFO"
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("WaitingForQuota", "Normal"), ("Misconfigured", "Warning"), ("ExceedsMaxQuota", "Warning")],
)
def test_it_is_a_warning_where_waiting_alone_does_not_help(reason: str, kind: str) -> None:
    place = Place()
    place.create("lost", queue="nowhere")
    place.status("lost", condition(reason, "because"))
    assert place.after(SETTLE_SECONDS) == [f"Job lost: {reason}"]
    assert place.told[0][1] == Event(kind, reason, "Waits: because")  # type: ignore[arg-type]


def test_a_job_that_is_admitted_meanwhile_gets_no_event() -> None:
    place = Place()
    place.create("first", "second")
    place.status("first", HOLDS)
    assert place.after(SETTLE_SECONDS) == ["Job second: WaitingForQuota", "Workload job-second: WaitingForQuota"]


def test_the_event_is_repeated_when_the_reason_changes_but_not_for_its_numbers() -> None:
    place = Place()
    place.create("lost", queue="nowhere")
    place.status("lost", condition("WaitingForQuota", "2 more needed"))
    assert place.after(SETTLE_SECONDS) == ["Job lost: WaitingForQuota"]
    place.status("lost", condition("WaitingForQuota", "1 more needed"))
    assert place.after(SETTLE_SECONDS) == []
    place.status("lost", condition("Suspended", "LocalQueue is inactive"))
    assert place.after(SETTLE_SECONDS) == ["Job lost: Suspended"]


def test_a_job_with_quota_is_told_what_the_checks_say_for_which_it_waits() -> None:
    place = Place()
    place.create("first")

    def says(message: str, *more: str) -> None:
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "message": ""} for kind in ("QuotaReserved", *more)
        ]
        check = {"name": "budget", "state": "Pending", "message": message}
        place.status("first", {**HOLDS, "conditions": conditions, "admissionChecks": [check]})

    says("")
    assert place.after(SETTLE_SECONDS) == []
    says("no budget")
    assert place.after(SETTLE_SECONDS) == ["Job first: UpdatedAdmissionCheck"]
    assert place.told[0][1] == Event("Normal", "UpdatedAdmissionCheck", "budget: no budget")
    says("no budget")
    assert place.after(SETTLE_SECONDS) == []
    says("budget on Monday")
    assert place.after(SETTLE_SECONDS) == ["Job first: UpdatedAdmissionCheck"]
    says("late", "Admitted")
    assert place.after(SETTLE_SECONDS) == []


def test_events_are_written_one_by_one_for_the_newest_job_first() -> None:
    place = Place()
    place.create(*(f"j{number}" for number in range(50)))
    place.now += SETTLE_SECONDS
    assert place.waiting.step() == EACH_SECONDS
    assert place.told[0][0] == "Job j49"
    place.create("new")
    place.now += SETTLE_SECONDS
    place.waiting.step()
    assert [about for about, _ in place.told if about.startswith("Job")] == ["Job j49", "Job new"]


def with_another_namespace() -> Place:
    """Fifty Jobs that wait in one namespace, and one in another."""
    place = Place()
    place.caches.namespaces.observe("ADDED", made("Namespace", "other"))
    queue = made("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="other")
    place.caches.local_queues.observe("ADDED", queue)
    place.create("one", namespace="other")
    place.now += SETTLE_SECONDS / 2
    place.create(*(f"j{number}" for number in range(50)))
    return place


def jobs_told(place: Place) -> list[str]:
    return [about for about, _ in place.told if about.startswith("Job")]


def test_namespaces_take_turns_also_when_events_are_repeated() -> None:
    """Else a tenant who creates jobs all the time would be the only one who is told why they wait."""
    place = with_another_namespace()
    place.now += SETTLE_SECONDS
    for _ in range(2):
        place.waiting.step()
    assert "Job one" in jobs_told(place)
    place.after(SETTLE_SECONDS)
    place.told.clear()
    place.now += REMIND_AFTER_SECONDS + 1
    for _ in range(3):
        place.waiting.step()
    assert "Job one" in jobs_told(place)
    assert len(jobs_told(place)) == 3


def test_many_events_of_one_namespace_that_wait_to_be_sent_hold_up_no_other_namespace() -> None:
    place = with_another_namespace()
    place.full = {"ns"}
    place.now += SETTLE_SECONDS
    for _ in range(3):
        assert place.waiting.step() == EACH_SECONDS
    assert jobs_told(place) == ["Job one"]


def test_while_many_events_wait_to_be_sent_none_is_added_and_later_it_is() -> None:
    place = Place()
    place.create("first")
    place.room = False
    assert place.after(SETTLE_SECONDS) == []
    place.room = True
    assert place.after(EACH_SECONDS) == ["Job first: WaitingForQuota", "Workload job-first: WaitingForQuota"]


def test_the_event_is_repeated_before_it_expires() -> None:
    place = Place()
    place.create("first")
    assert place.after(SETTLE_SECONDS)
    assert place.after(REMIND_AFTER_SECONDS - 1) == []
    place.told.clear()
    place.now += 1
    assert place.waiting.step() == EACH_REMINDER_SECONDS
    assert [about for about, _ in place.told] == ["Job first", "Workload job-first"]


def test_a_workload_without_a_known_reason_is_checked_again() -> None:
    place = Place()
    place.create("first", queue="late")
    made_late = made("LocalQueue", "late", {"clusterQueue": "cq"}, namespace="ns")
    place.caches.local_queues.observe("ADDED", made_late)
    assert place.after(SETTLE_SECONDS) == [], "it is in the queue, and no cycle has looked at it"
    list(drain(place.caches.state, place.caches.state.policy, place.now))
    assert place.after(AGAIN_SECONDS) == ["Job first: WaitingForQuota", "Workload job-first: WaitingForQuota"]


def test_nothing_is_kept_of_a_workload_that_is_gone() -> None:
    place = Place()
    place.create("first", "second")
    place.after(SETTLE_SECONDS)
    for job in ("first", "second"):
        place.caches.workloads.remove_from_write(("ns", f"job-{job}"), f"Workload-job-{job}")
    waiting = place.waiting
    assert not any((waiting._recorded, waiting._later, waiting._again, waiting._remind_at))
    assert not len(waiting._news) + len(waiting._reminders)


async def test_it_sleeps_until_a_workload_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.scheduling.waiting.SETTLE_SECONDS", 0.0)
    place = Place()
    looks: list[float | None] = []
    step = place.waiting.step
    monkeypatch.setattr(place.waiting, "step", lambda: looks.append(step()))
    running = asyncio.create_task(place.waiting.run())
    await eventually(lambda: looks)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(looks) == 1, "nobody waits: it sleeps"
    place.create("first")
    await eventually(lambda: place.told)
    running.cancel()
