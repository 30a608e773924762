"""``python -m bench.fairness``: how long a tenant's Job waits until it is unsuspended while another tenant makes 10,000
changes a minute.

The loud tenant creates Jobs in its namespace at that rate, open loop, from a process of its own; there is no quota for
them, and each needs a Workload and a status that says why it waits. The quiet tenant creates a Job every half second,
in a namespace and a ClusterQueue of its own with free quota: first alone, then during the flood. A Job's time counts
from the moment at which its create was due. It measures any controller that serves Kueue's API (``--kubeconfig``).
"""

import argparse
import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import uvloop

from api.objects import Raw, Resource
from bench import report
from bench.measure import Latency, exit_on_sigterm
from bench.measured import add_options, measured
from bench.openloop import Caller, Target
from bench.scenario import CLUSTER_QUEUES, FLAVORS, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS, job
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import Reflector
from controller.kube.store import Store

LOUD, QUIET = "loud", "quiet"
QUOTA = {LOUD: 0, QUIET: 100_000}
EVERY_SECONDS = 0.5
PATIENCE_SECONDS = 300.0


def setting() -> list[tuple[Resource, str, Raw]]:
    """Returns what must exist before the first Job, in order: resource, namespace, object."""
    found: list[tuple[Resource, str, Raw]] = [(FLAVORS, "", _named(FLAVORS, "default"))]
    for tenant, quota in QUOTA.items():
        cover = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": quota}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [cover]}]}
        found += [
            (NAMESPACES, "", {"metadata": {"name": tenant}}),
            (CLUSTER_QUEUES, "", _named(CLUSTER_QUEUES, tenant) | {"spec": spec}),
            (LOCAL_QUEUES, tenant, _named(LOCAL_QUEUES, "main") | {"spec": {"clusterQueue": tenant}}),
        ]
    return found


STEPS = ("answered", "Workload", "reserved", "unsuspended")
"""The steps of a Job: its create is answered, it has a Workload, that has quota, and the Job is unsuspended."""


class Quiet:
    """The quiet tenant: creates Jobs and watches them and their Workloads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._due: dict[str, float] = {}
        self._at: dict[str, dict[str, float]] = {step: {} for step in STEPS}
        """When a step of each Job was first seen."""
        self._changed = asyncio.Event()

    def reflector(self, resource: Resource) -> Reflector[Raw]:
        """Returns what follows its Jobs or Workloads, whatever interrupts the watch."""

        def changed(old: Raw | None, found: Raw | None) -> None:
            if found is None:
                return
            if resource == JOBS and not found["spec"].get("suspend"):
                self._seen("unsuspended", found["metadata"]["name"])
            elif resource == WORKLOADS:
                (owner,) = found["metadata"]["ownerReferences"]
                self._seen("Workload", owner["name"])
                if (found.get("status") or {}).get("admission"):
                    self._seen("reserved", owner["name"])

        store = Store[Raw](resource.plural, lambda raw: raw)
        store.listen(changed)
        return Reflector(self._client, resource, store, namespace=QUIET)

    def _seen(self, step: str, name: str) -> None:
        self._at[step].setdefault(name, time.perf_counter())
        self._changed.set()

    async def _create(self, name: str) -> None:
        await self._client.create(JOBS, job(name, "main"), QUIET)
        self._seen("answered", name)

    async def create(self, phase: str, ended: asyncio.Event) -> dict[str, Latency]:
        """Creates a Job every half second until ``ended``; returns how long they waited for each step, when all have
        started.
        """
        names: list[str] = []
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            while not ended.is_set():
                names.append(name := f"{phase}-{len(names)}")
                self._due[name] = began + len(names) * EVERY_SECONDS
                await asyncio.sleep(max(0.0, self._due[name] - time.perf_counter()))
                group.create_task(self._create(name))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._at["unsuspended"].keys() >= set(names):
                self._changed.clear()
                await self._changed.wait()
        return {step: Latency.of(at[name] - self._due[name] for name in names) for step, at in self._at.items()}


async def measure(kubeconfig: Path, pids: Mapping[str, int], changes: float, seconds: float) -> dict[str, Any]:
    """Creates the queues, measures without and with the loud tenant, and removes what it created."""
    connection = config.load(kubeconfig)
    async with Client(connection, throttle=Throttle(0)) as client:
        created = setting()
        for resource, namespace, raw in created:
            await client.create(resource, raw, namespace)
        quiet = Quiet(client)
        reflectors = [quiet.reflector(resource) for resource in (JOBS, WORKLOADS)]
        following = [asyncio.create_task(each.run()) for each in reflectors]
        for each in reflectors:
            await each.synced.wait()
        rate = changes / 60
        path = f"{JOBS.path(LOUD)}?fieldManager=bench"
        bodies = [(path, orjson.dumps(job(f"loud-{number}", "main"))) for number in range(int(rate * seconds))]
        try:
            alone = await quiet.create("alone", _after(seconds))
            with Caller(Target(connection.server, bodies, b'"uid"', kubeconfig=kubeconfig)) as caller:
                before = await report.moment(connection, pids)
                ended, began = asyncio.Event(), time.perf_counter()
                flood = asyncio.create_task(asyncio.to_thread(caller.run, rate, seconds))
                flood.add_done_callback(lambda _: ended.set())
                beside = await quiet.create("beside", ended)
                calls = await flood
                took = time.perf_counter() - began
                cost = report.Cost.between(before, await report.moment(connection, pids))
            workloads = await _count(client, WORKLOADS)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for resource, namespace, raw in reversed(created):
                if not namespace:
                    with suppress(NotFound):
                        await client.delete(resource, raw["metadata"]["name"])
        return {
            "changes a minute": (calls.calls - calls.failed) / took * 60,
            "changes": calls.calls - calls.failed,
            "cpu seconds a second": {name: spent / took for name, spent in cost.cpu_seconds.items()},
            "without a Workload afterwards": calls.calls - calls.failed - workloads,
            "alone ms": {step: waited._asdict() for step, waited in alone.items()},
            "beside ms": {step: waited._asdict() for step, waited in beside.items()},
        }


def _after(seconds: float) -> asyncio.Event:
    """An event that is set after so many seconds."""
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, event.set)
    return event


async def _count(client: Client, resource: Resource) -> int:
    return sum([len(page["items"]) async for page in client.pages(resource, LOUD)])


def _named(resource: Resource, name: str) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


def show(found: Mapping[str, Any]) -> None:
    """Prints the figures."""
    print(
        f"{found['changes']} Jobs of the loud tenant, {found['changes a minute']:.0f} a minute;"
        f" {found['without a Workload afterwards']} of them had no Workload when the quiet tenant's last Job started"
    )
    spent = found["cpu seconds a second"].items()
    print("processors used meanwhile: " + ", ".join(f"{name} {share:.2f}" for name, share in spent))
    keys = ("calls", "p50", "p99", "longest")
    report.table(
        "milliseconds from the moment at which a create was due",
        ("", *keys),
        [
            (f"{phase}: {step}", *(found[f"{phase} ms"][step][key] for key in keys))
            for phase in ("alone", "beside")
            for step in STEPS
        ],
    )


def main() -> None:
    """Parses the arguments, measures, prints, ends with 0."""
    parser = argparse.ArgumentParser(prog="bench.fairness", description=__doc__)
    parser.add_argument("--changes", type=float, default=10_000, help="of the loud tenant, a minute (default 10,000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long without and with it (default 60)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    add_options(parser)
    chosen = parser.parse_args()
    exit_on_sigterm()
    print(f"one tenant makes {chosen.changes:g} changes a minute for {chosen.seconds:g} s, another one creates Jobs")
    with measured(chosen, as_account=True) as (kubeconfig, pids):
        found = uvloop.run(measure(kubeconfig, pids, chosen.changes, chosen.seconds))
    report.save({"processors": os.cpu_count(), "load average": os.getloadavg()[0], **found}, chosen.json)
    show(found)


if __name__ == "__main__":
    main()
