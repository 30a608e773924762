"""A worker that runs Kueue, and nothing of Seiretsu: no webhook of ours, no label or annotation that only we write.

Kueue is a stand-in here: it behaves as Kueue's controllers were recorded to behave with a Job that names a prebuilt
Workload, behind a stand-in for an API server. The manager talks to it over HTTP, with the client of production.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import orjson
import pytest

from api import resources
from api.names import CheckState, Condition
from api.objects import Key, Raw, Resource, key_of
from controller.kube.errors import Conflict
from controller.multikueue.clusters import WorkerCluster
from controller.multikueue.remote import Remote
from core.actions import Wait
from core.jobs.kinds import BATCH_JOB
from core.multikueue import there as rules_there
from core.wire.active import condition_of
from core.wire.merge import merged
from tests.controller.test_multikueue import Api, World
from tests.core.multikueue.groups import AT, conditions, job, workload
from tests.eventually import eventually
from tests.faults import FaultProxy, Request
from tests.standin import StandIn

JOBS, WORKLOADS = "/apis/batch/v1/namespaces/ns/jobs", "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
COMPLETE = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}
ADMITTED = {
    Condition.QUOTA_RESERVED: ("QuotaReserved", "Quota reserved in ClusterQueue cq"),
    Condition.ADMITTED: ("Admitted", "The workload is admitted"),
}


class Kueue(StandIn):
    """The worker: objects with finalizers stay until these are removed, and Kueue reconciles after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []
        """The uids of the Jobs that were started."""
        self.put("/api/v1/namespaces/ns", {"apiVersion": "v1", "kind": "Namespace"})

    def put(self, path: str, raw: Raw) -> Raw:
        found = super().put(path, raw)
        if "deletionTimestamp" in found["metadata"] and not found["metadata"].get("finalizers"):
            super().remove(path)
        return found

    def answer(self, request: Request) -> tuple[int, Raw]:
        path = request.path.removesuffix("/status")
        if request.method != "PUT" or path == request.path or path not in self.objects:
            return super().answer(request)
        body, found = orjson.loads(request.body), self.objects[path]
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return super().answer(request)  # a conflict
        return 200, self.put(path, {**found, "status": body["status"]})

    def remove(self, path: str) -> Raw:
        raw = self.objects[path]
        if not raw["metadata"].get("finalizers"):
            return super().remove(path)
        return self.put(path, merged(raw, {"metadata": {"deletionTimestamp": AT}}))

    async def run(self) -> None:
        while True:
            news = self._news
            for path in [path for path in self.objects if path.startswith(WORKLOADS)]:
                self.reconcile(path)
            await news.wait()

    def reconcile(self, path: str) -> None:
        raw, of = self.objects[path], self.job_of(path)
        if "deletionTimestamp" in raw["metadata"]:
            if of is None:
                self.put(path, merged(raw, {"metadata": {"finalizers": None}}))
        elif true(raw, Condition.FINISHED):
            pass
        elif of is not None and not raw["metadata"].get("ownerReferences"):
            self.adopt(path, raw, self.objects[of])
        elif of is not None and true(self.objects[of], "Complete"):
            self.set(path, {Condition.FINISHED: ("Succeeded", "Job finished successfully")})
        elif true(raw, Condition.DEACTIVATION_TARGET) and raw["spec"].get("active") is not False:
            self.put(path, merged(raw, {"spec": {"active": False}}))
        elif raw["spec"].get("active") is False:
            self.evict(path, raw, of)
        elif not true(raw, Condition.ADMITTED):
            self.set(path, ADMITTED)
        elif of is not None and self.objects[of]["spec"]["suspend"]:
            self.ran.append(self.objects[of]["metadata"]["uid"])
            self.put(of, merged(self.objects[of], {"spec": {"suspend": False}, "status": {"active": 1}}))

    def job_of(self, path: str) -> str | None:
        """The path of the Job that names a Workload."""
        name = path.rpartition("/")[2]
        for each, raw in self.objects.items():
            labels = raw["metadata"].get("labels") or {}
            if each.startswith(JOBS) and labels.get("kueue.x-k8s.io/prebuilt-workload-name") == name:
                return each
        return None

    def adopt(self, path: str, raw: Raw, of: Raw) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}
        references = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        self.put(path, merged(raw, {"metadata": {"ownerReferences": references, "finalizers": [FINALIZER]}}))

    def evict(self, path: str, raw: Raw, of: str | None) -> None:
        if not true(raw, Condition.EVICTED):
            self.set(path, {Condition.EVICTED: ("DeactivatedDueToEvictedOnManagerCluster", "Evicted on manager")})
        elif of is not None and not self.objects[of]["spec"]["suspend"]:
            self.put(of, merged(self.objects[of], {"spec": {"suspend": True}, "status": {"active": None}}))
        elif true(raw, Condition.QUOTA_RESERVED):
            self.set(path, dict.fromkeys(ADMITTED, ("Pending", "Evicted on manager")), status="False")

    def set(self, path: str, found: dict[str, tuple[str, str]] | Any, status: str = "True") -> None:
        """Kueue writes all conditions in one write of the status."""
        before = (self.objects[path].get("status") or {}).get("conditions") or []
        new = [
            {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}
            for kind, (reason, message) in found.items()
        ]
        kept = [each for each in before if each["type"] not in found]
        self.put(path, merged(self.objects[path], {"status": {"conditions": [*kept, *new]}}))


def true(raw: Raw | None, kind: str) -> bool:
    found = condition_of(raw, kind)
    return found is not None and found["status"] == "True"


class Stored(Api):
    """The manager's API server: patches enter the stores, those of an outdated object do not."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def patch(self, resource: Resource, key: Key, body: Raw, *, subresource: str = "", **more: Any) -> None:
        await super().patch(resource, key, body, subresource=subresource)
        raw: Raw | None = self.world.caches.stores[resource].get(key)
        assert raw is not None
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version not in (None, raw["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", "the object has been modified")
        self.world.observe(resource, merged(raw, body))


class Manager(World):
    """The manager of one worker, with the rest of its controllers played by the test."""

    def __init__(self, kueue: Kueue, proxy: FaultProxy) -> None:
        super().__init__("kueue")
        self.multikueue.here.writer = cast(Any, Stored(self))
        clusters = self.multikueue.clusters
        self.kueue = kueue
        self.remote = Remote(
            "kueue",
            proxy.connection,
            self.multikueue.kinds.every,
            "multikueue",
            rows=self.caches.rows.values(),
            may_write=lambda: True,
            changed=self.multikueue._changed_there,
            turned=lambda remote: clusters._remote_turned(clusters._known["kueue"], remote),
            clock=lambda: self.now,
        )
        clusters._known["kueue"] = WorkerCluster(remote=self.remote)
        self.observe(BATCH_JOB.resource, job())
        self.observe(resources.WORKLOADS, workload(status=self.waiting()))
        self.key = key_of(workload())

    def waiting(self, **found: str) -> Raw:
        """The status with quota reserved, and a worker looked for."""
        assignment = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
        checks = [{"name": "mk", "state": CheckState.PENDING, "message": ""}]
        given = conditions(QuotaReserved="True", **found)
        return {"conditions": given, "admission": assignment, "admissionChecks": checks}

    @property
    def local(self) -> Raw:
        found = self.caches.workloads.get(self.key)
        assert found is not None
        return found

    @property
    def job(self) -> Raw:
        found: Raw | None = self.caches.stores[BATCH_JOB.resource].get(("ns", "j"))
        assert found is not None
        return found

    def change(self, resource: Resource, raw: Raw, patch: Raw) -> None:
        self.observe(resource, merged(raw, patch))

    async def runs(self) -> None:
        """Until the Job runs in the worker and the manager shows that."""
        await eventually(lambda: self.local["status"].get("clusterName") == "kueue")
        given = self.local["status"]
        admitted = [*given["conditions"], *conditions(Admitted="True")]
        self.change(resources.WORKLOADS, self.local, {"status": {"conditions": admitted}})
        self.change(BATCH_JOB.resource, self.job, {"spec": {"suspend": False}})
        await eventually(lambda: (self.job.get("status") or {}).get("active") == 1)


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    kueue = Kueue()
    async with FaultProxy(kueue) as proxy:
        found = Manager(kueue, proxy)
        work = [
            asyncio.create_task(found.remote.run(found.multikueue.reconcile_there)),
            asyncio.create_task(found.multikueue.run()),
            asyncio.create_task(kueue.run()),
        ]
        await eventually(lambda: found.remote.connected)
        found.multikueue.changed(found.key)
        yield found
        for task in work:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*work, return_exceptions=True)


async def test_a_job_runs_in_a_worker_with_kueue_and_leaves_nothing_there(manager: Manager) -> None:
    kueue = manager.kueue
    await manager.runs()
    (path,) = (each for each in kueue.objects if each.startswith(JOBS))
    there = kueue.objects[path]
    assert "managedBy" not in there["spec"]
    assert there["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    kueue.put(path, merged(there, {"status": {"active": None, "succeeded": 1, "conditions": [COMPLETE]}}))
    await eventually(lambda: true(manager.local, Condition.FINISHED))
    assert manager.job["status"] == {"succeeded": 1, "conditions": [COMPLETE]}
    await eventually(lambda: not any(each.startswith((JOBS, WORKLOADS)) for each in kueue.objects))
    assert kueue.ran == [there["metadata"]["uid"]]


async def test_a_job_that_is_evicted_in_the_manager_is_stopped_by_kueue_before_it_is_withdrawn(
    manager: Manager,
) -> None:
    kueue = manager.kueue
    await manager.runs()
    status = {**manager.waiting(Admitted="True", Evicted="True"), "clusterName": None}
    manager.change(resources.WORKLOADS, manager.local, {"status": status})
    manager.change(BATCH_JOB.resource, manager.job, {"spec": {"suspend": True}})
    await eventually(lambda: not (manager.job.get("status") or {}).get("active"))
    (copied,) = (raw for path, raw in kueue.objects.items() if path.startswith(WORKLOADS))
    assert (copied["spec"]["active"], true(copied, Condition.EVICTED)) == (False, True)
    released = {**manager.waiting(), "conditions": conditions(QuotaReserved="False", Evicted="True"), "admission": None}
    manager.change(resources.WORKLOADS, manager.local, {"status": released})
    await eventually(lambda: not any(each.startswith((JOBS, WORKLOADS)) for each in kueue.objects))
    manager.change(resources.WORKLOADS, manager.local, {"status": manager.waiting()})
    await manager.runs()
    assert len(set(kueue.ran)) == 2


async def test_nothing_is_changed_in_what_kueue_has_made(manager: Manager) -> None:
    """No rule finds something to write while the job runs, whatever Kueue adds to the objects."""
    await manager.runs()
    group = manager.multikueue.groups.group(manager.key)
    (worker,) = group.workers
    assert worker.workload is not None and worker.workload["metadata"]["finalizers"] == [FINALIZER]
    assert rules_there.decide(group, worker) == Wait()
