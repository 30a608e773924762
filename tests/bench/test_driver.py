"""The driver and the null controller against a stand-in for an API server: the whole bench in a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from bench import driver
from bench.contention import summary
from bench.driver import Driver, Outcome
from bench.load import Class, Load
from bench.null_controller import NullController
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from tests.eventually import PATIENCE
from tests.faults import FaultProxy, status
from tests.standin import StandIn

LOAD = Load(
    "tiny",
    cohorts=2,
    queues=2,
    classes=(Class("small", 4, 5, 50, 0.02, 0.001), Class("large", 2, 20, 200, 0.05, 0.001)),
)


async def outcome_of(proxy: FaultProxy, load: Load) -> Outcome:
    async with Client(proxy.connection, throttle=Throttle(0)) as client, Driver(proxy.connection, load) as bench:
        await bench.prepare()
        controller = asyncio.create_task(NullController(client).run())
        outcome = await bench.run(30.0)
        controller.cancel()
        with suppress(asyncio.CancelledError):
            await controller
    return outcome


async def test_the_null_controller_admits_all_within_the_quota_with_one_write_each(proxy: FaultProxy) -> None:
    outcome = await outcome_of(proxy, LOAD)
    figures = summary(LOAD, outcome)
    assert figures["broken"] == []
    assert figures["finished"] == LOAD.workloads == 24
    updates = [each for each in proxy.seen if each.method == "PUT" and each.query["fieldManager"] != "bench"]
    assert len(updates) == LOAD.workloads
    assert outcome.requests["APPLY", "workloads/status", 200] == LOAD.workloads


async def test_no_workload_ends_before_its_runtime_is_over(proxy: FaultProxy) -> None:
    outcome = await outcome_of(proxy, LOAD)
    admitted = {each.name: each.at for each in reversed(outcome.events) if each.runs}
    finished = {each.name: each.at for each in outcome.events if each.finished}
    for name, at in finished.items():
        assert at - admitted[name] >= outcome.class_of[name].run_seconds


async def test_an_evicted_workload_releases_its_quota_and_runs_again(proxy: FaultProxy, server: StandIn) -> None:
    load = LOAD._replace(cohorts=1, queues=1, classes=(Class("long", 1, 5, 50, 0.3, 0.001),))
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/tiny-0-0/workloads/long-0"

    def write(*conditions: str) -> None:
        """Plays the controller: reserves quota, with these conditions."""
        assignments = [{"name": "main", "resourceUsage": {"cpu": "5"}}]
        status = {"admission": {"clusterQueue": "tiny-0-0", "podSetAssignments": assignments}}
        made = [{"type": one, "status": "True", "reason": one} for one in conditions]
        server.put(path, server.objects[path] | {"status": status | {"conditions": made}})

    async with Driver(proxy.connection, load) as bench:
        await bench.prepare()
        running = asyncio.create_task(bench.run(30.0))
        await until(lambda: path in server.objects)
        write("QuotaReserved", "Admitted")
        write("QuotaReserved", "Admitted", "Evicted")
        await until(lambda: server.objects[path]["status"].get("admission") is None)
        conditions = {one["type"]: one["status"] for one in server.objects[path]["status"]["conditions"]}
        assert conditions == {"QuotaReserved": "False", "Admitted": "False", "Evicted": "True"}
        write("QuotaReserved", "Admitted")
        outcome = await running
    figures = summary(load, outcome)
    assert (figures["broken"], figures["evictions"], figures["finished"]) == ([], 1, 1)


async def test_a_job_that_is_preempted_while_its_end_is_written_ends_once(proxy: FaultProxy, server: StandIn) -> None:
    """The API server refuses a second end, which has another time."""
    load = LOAD._replace(cohorts=1, queues=1, classes=(Class("one", 1, 5, 50, 0.02, 0.001),), jobs=True)
    path = "/apis/batch/v1/namespaces/tiny-0-0/jobs/one-0"

    def suspend(value: bool) -> None:
        server.put(path, server.objects[path] | {"spec": server.objects[path]["spec"] | {"suspend": value}})

    def writes() -> int:
        return sum(each.method == "PATCH" and each.path == f"{path}/status" for each in proxy.seen)

    async with Driver(proxy.connection, load) as bench:
        await bench.prepare()
        running = asyncio.create_task(bench.run(30.0))
        await until(lambda: path in server.objects)
        proxy.inject(status(503, "ServiceUnavailable"), method="PATCH")
        suspend(False)
        await until(lambda: writes() == 1)
        suspend(True)
        suspend(False)
        await until(lambda: "completionTime" in server.objects[path].get("status", {}))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "one-0", "uid": "u", "controller": True}
        finished = {"conditions": [{"type": "Finished", "status": "True", "reason": "Succeeded"}]}
        server.put(
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/tiny-0-0/workloads/job-one-0",
            {
                "metadata": {"name": "job-one-0", "namespace": "tiny-0-0", "ownerReferences": [owner]},
                "status": finished,
            },
        )
        outcome = await running
    assert (outcome.why, writes()) == ("", 2)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the stand-in signals nothing
            await asyncio.sleep(0.01)


async def test_no_workload_begins_to_run_before_all_are_created_and_the_bench_is_ready(proxy: FaultProxy) -> None:
    finished: list[int] = []
    async with Client(proxy.connection, throttle=Throttle(0)) as client, Driver(proxy.connection, LOAD) as bench:
        await bench.prepare()
        controller = asyncio.create_task(NullController(client).run())

        async def ready() -> None:
            created = [each for each in proxy.seen if each.method == "POST" and each.path.endswith("/workloads")]
            assert len(created) == LOAD.workloads
            finished.append(sum(each.query["fieldManager"] == "bench" for each in proxy.seen if each.method == "PATCH"))

        outcome = await bench.run(30.0, ready)
        controller.cancel()
        with suppress(asyncio.CancelledError):
            await controller
    assert (finished, summary(LOAD, outcome)["broken"]) == ([0], [])


async def test_the_load_waits_until_every_queue_has_a_status(
    proxy: FaultProxy, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FIRST_STATUS_POLL_SECONDS", 0.01)
    load = LOAD._replace(cohorts=1, queues=1)
    async with Driver(proxy.connection, load) as bench:
        await bench.prepare()
        waiting = asyncio.create_task(bench.statuses_exist())
        paths = [path for path in server.objects if "queues/tiny-0-0" in path]
        assert len(paths) == 2
        for path in paths:
            proxy.seen.clear()
            await until(lambda: len(proxy.seen) > 4)
            assert not waiting.done()
            server.put(path, server.objects[path] | {"status": {"pendingWorkloads": 0}})
        await waiting


def test_random_runtimes_have_the_mean_of_the_class_and_are_the_same_in_each_run() -> None:
    load = LOAD._replace(random_runtimes=True)
    (one, _) = load.classes
    found = [load.runtime(one, f"a/{number}") for number in range(2000)]
    assert found == [load.runtime(one, f"a/{number}") for number in range(2000)]
    assert 0.9 * one.run_seconds < sum(found) / len(found) < 1.1 * one.run_seconds
