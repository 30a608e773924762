"""Reconciliation of every Workload, whichever client created it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from api import names
from api.objects import Raw, Resource
from controller.events import Recorder
from controller.settings import Settings
from controller.workloads import WorkloadReconciler
from controller.writes import Writer
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.model.owner import Owner
from tests.controller.test_caches import controlled_by, filled, made, workload

KEY = Key("ns", "named")


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
    caches, patches = filled(), Patches()
    raw = workload("named") if owner is None else controlled_by(owner, "named")
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    raw["spec"] |= {"priority": priority, "priorityClassRef": ref}
    recorded = "50" if priority == 50 else "10"
    raw["metadata"]["annotations"] = {names.Annotation.CLASS_PRIORITY: recorded}
    caches.workloads.observe("ADDED", raw)
    caches.workload_priority_classes.observe("ADDED", made("WorkloadPriorityClass", "high", value=50))
    caches.stores[BATCH_JOB.resource].observe("ADDED", made("Job", "here", namespace="ns"))
    caches.start()
    reconciler = WorkloadReconciler(caches, cast(Writer, patches), cast(Recorder, None), Settings())
    await reconciler._followed(KEY)
    assert [each["spec"]["priority"] for each in patches.sent] == written
    assert all(each["metadata"]["resourceVersion"] == "1" for each in patches.sent)
