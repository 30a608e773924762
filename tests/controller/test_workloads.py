"""Reconciliation of every Workload, whichever client created it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from api import names
from api.objects import Raw, Resource
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.reconcilers.workloads import WorkloadReconciler
from controller.settings import ControllerSettings
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.model.events import Event
from core.model.owner import Owner
from tests.controller.test_caches import controlled_by, filled, made, workload

KEY = Key("ns", "named")
SINCE = "2026-01-01T00:00:00Z"


class Patches:
    """A writer that only notes."""

    def __init__(self) -> None:
        self.sent: list[Raw] = []

    async def patch(self, resource: Resource, key: Key, body: Raw, **more: Any) -> None:
        self.sent.append(body)


@pytest.mark.parametrize(
    ("owner", "priority", "written"),
    [
        pytest.param(None, 10, [50], id="one without owner follows"),
        pytest.param(Owner("example.com", "Train", "ns", "a"), 10, [50], id="one of another controller follows"),
        pytest.param(Owner("batch", "Job", "ns", "gone"), 10, [50], id="one whose Job is gone follows"),
        pytest.param(Owner("batch", "Job", "ns", "here"), 10, [], id="one with a Job is its Job's to write"),
        pytest.param(None, 50, [], id="one that has the value is not written"),
        pytest.param(None, 33, [], id="a value set by hand stays"),
    ],
)
async def test_a_workload_without_a_job_follows_its_workload_priority_class(
    owner: Owner | None, priority: int, written: list[int]
) -> None:
    caches, patches = filled(), Turns()
    raw = workload("named") if owner is None else controlled_by(owner, "named")
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    raw["spec"] |= {"priority": priority, "priorityClassRef": ref}
    recorded = "50" if priority == 50 else "10"
    raw["metadata"]["annotations"] = {names.Annotation.CLASS_PRIORITY: recorded}
    caches.workloads.observe("ADDED", raw)
    caches.workload_priority_classes.observe("ADDED", made("WorkloadPriorityClass", "high", value=50))
    caches.stores[BATCH_JOB.resource].observe("ADDED", made("Job", "here", namespace="ns"))
    caches.start()
    await WorkloadReconciler(caches, cast(Writer, patches), cast(Recorder, Silent()), ControllerSettings()).reconcile(
        KEY
    )
    assert [each["spec"]["priority"] for each in patches.sent] == written
    assert all(each["metadata"]["resourceVersion"] == "1" for each in patches.sent)


class Turns(Patches):
    """A writer that also notes which of its turns come before others."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.first: list[bool] = []
        self.meanwhile = meanwhile

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str, *, first: bool = False) -> AsyncIterator[None]:
        self.first.append(first)
        self.meanwhile()
        yield


ASSIGNED = [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}]
RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "r", "message": "", "lastTransitionTime": SINCE}
QUOTA: Raw = {"admission": {"clusterQueue": "cq", "podSetAssignments": ASSIGNED}, "conditions": [RESERVED]}


class Silent:
    """A recorder that keeps nothing."""

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        """Forget one."""


@pytest.mark.parametrize("has_quota", [True, False])
async def test_writes_of_workloads_with_quota_come_before_others(has_quota: bool) -> None:
    caches, turns = filled(), Turns()
    raw = {**workload("named"), **({"status": QUOTA} if has_quota else {})}
    raw["spec"]["active"] = False
    caches.workloads.observe("ADDED", raw)
    caches.start()
    told = cast(Recorder, Silent())
    await WorkloadReconciler(caches, cast(Writer, turns), told, ControllerSettings()).reconcile(KEY)
    assert (turns.first, len(turns.sent)) == ([has_quota], 1)


async def test_what_changes_while_a_write_waits_is_decided_again() -> None:
    caches = filled()
    raw = workload("named")
    raw["spec"]["active"] = False
    caches.workloads.observe("ADDED", raw)
    caches.start()
    newer = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "2"}}
    turns = Turns(lambda: caches.workloads.observe("MODIFIED", newer))
    reconciler = WorkloadReconciler(caches, cast(Writer, turns), cast(Recorder, Silent()), ControllerSettings())
    await reconciler.reconcile(KEY)
    assert [each["metadata"]["resourceVersion"] for each in turns.sent] == ["2"]


async def test_a_queue_that_is_resumed_while_an_eviction_waits_keeps_its_workload() -> None:
    caches = filled()

    def set_queue(policy: str, version: str) -> None:
        known = caches.cluster_queues.get(Key("", "cq"))
        assert known is not None
        metadata, spec = known["metadata"] | {"resourceVersion": version}, known["spec"] | {"stopPolicy": policy}
        caches.cluster_queues.observe("MODIFIED", known | {"metadata": metadata, "spec": spec})

    set_queue("HoldAndDrain", "2")
    status = QUOTA | {"conditions": [RESERVED, RESERVED | {"type": "Admitted"}]}
    caches.workloads.observe("ADDED", workload("named") | {"status": status})
    caches.start()
    turns = Turns(lambda: set_queue("None", "3"))
    reconciler = WorkloadReconciler(caches, cast(Writer, turns), cast(Recorder, Silent()), ControllerSettings())
    await reconciler.reconcile(KEY)
    assert turns.first, "an eviction waited for its turn"
    assert turns.sent == []
