"""A controller that makes only the writes nobody can do without: one update of the status for each Workload.

It watches Workloads, keeps the free quota of each cohort in a dictionary, and reserves and admits in one write, of the
whole status (``core.wire.merge.replacement`` says why), as soon as quota is free: in each cohort the highest priority
first, then the oldest. Nobody else writes a Workload that waits, so the version of its creation is the present one. It
validates nothing, preempts nothing, tells nobody why a workload waits and writes no status of a queue. What it needs on
a machine is what any controller needs there.
"""

import argparse
import asyncio
import heapq
import itertools
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import uvloop

from api.objects import Raw
from bench.events import Object, cpu, follow
from bench.scenario import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle


class _Queue(NamedTuple):
    """A ClusterQueue as its LocalQueue finds it."""

    name: str
    cohort: str
    flavor: str
    limit: float


class _Wanted(NamedTuple):
    """A pending Workload; the smallest is admitted first."""

    priority: int
    order: int
    queue: _Queue
    cpu: float
    workload: Object


class NullController:
    """Admits every Workload of queues that existed when the first of their Workloads was seen."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._free: dict[str, float] = {}
        self._used: dict[str, float] = {}
        self._pending: dict[str, list[_Wanted]] = {}
        self._admitted: dict[str, _Wanted] = {}
        self._known: set[str] = set()
        self._order = itertools.count()

    async def run(self) -> None:
        """Follows Workloads without end."""
        version = (await self._client.list(WORKLOADS))["metadata"]["resourceVersion"]
        print("ready", flush=True)
        async with asyncio.TaskGroup() as group, aclosing(follow(self._client, WORKLOADS, version)) as events:
            async for kind, found in events:
                cohort = await self._heard(kind, found)
                if cohort:
                    for wanted in self._next(cohort):
                        group.create_task(self._admit(wanted))

    async def _heard(self, kind: str, found: Object) -> str:
        """Enters an event; returns the cohort in which a Workload may now be admitted, or nothing."""
        uid = found.metadata.uid
        if kind == "DELETED" or found.status.holds("Finished"):
            done = self._admitted.pop(uid, None)
            if done is None:
                return ""
            self._free[done.queue.cohort] += done.cpu
            self._used[done.queue.name] -= done.cpu
            return done.queue.cohort
        if uid in self._known:
            return ""
        self._known.add(uid)
        key = found.metadata.namespace, found.spec.queueName
        if key not in self._queues:
            await self._read_queues()
        queue = self._queues[key]
        requested = sum(
            one.count * sum(cpu(each.resources.requests.get("cpu", "0")) for each in one.template.spec.containers)
            for one in found.spec.podSets
        )
        wanted = _Wanted(-found.spec.priority, next(self._order), queue, requested, found)
        heapq.heappush(self._pending.setdefault(queue.cohort, []), wanted)
        return queue.cohort

    def _next(self, cohort: str) -> list[_Wanted]:
        """Takes the pending Workloads that fit, until the first that does not."""
        pending, found = self._pending.get(cohort, []), []
        while pending and self._fits(pending[0]):
            wanted = heapq.heappop(pending)
            self._free[cohort] -= wanted.cpu
            self._used[wanted.queue.name] += wanted.cpu
            self._admitted[wanted.workload.metadata.uid] = wanted
            found.append(wanted)
        return found

    def _fits(self, wanted: _Wanted) -> bool:
        queue = wanted.queue
        return wanted.cpu <= self._free[queue.cohort] and self._used[queue.name] + wanted.cpu <= queue.limit

    async def _admit(self, wanted: _Wanted) -> None:
        await self._client.update(WORKLOADS, _admitted(wanted), subresource="status")

    async def _read_queues(self) -> None:
        """Reads all queues again; quota in use stays as it is."""
        found: dict[str, _Queue] = {}
        free: dict[str, float] = {}
        for raw in (await self._client.list(CLUSTER_QUEUES))["items"]:
            name, cohort = raw["metadata"]["name"], raw["spec"]["cohortName"]
            flavor = raw["spec"]["resourceGroups"][0]["flavors"][0]
            quota = flavor["resources"][0]
            nominal = cpu(str(quota["nominalQuota"]))
            found[name] = _Queue(name, cohort, flavor["name"], nominal + cpu(str(quota["borrowingLimit"])))
            free[cohort] = free.get(cohort, 0.0) + nominal
            self._used.setdefault(name, 0.0)
        for done in self._admitted.values():
            free[done.queue.cohort] -= done.cpu
        self._free = free
        for raw in (await self._client.list(LOCAL_QUEUES))["items"]:
            key = raw["metadata"]["namespace"], raw["metadata"]["name"]
            self._queues[key] = found[raw["spec"]["clusterQueue"]]


def _admitted(wanted: _Wanted) -> Raw:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assignments = [
        {
            "name": one.name,
            "count": one.count,
            "flavors": {"cpu": wanted.queue.flavor},
            "resourceUsage": {"cpu": f"{wanted.cpu:g}"},
        }
        for one in wanted.workload.spec.podSets
    ]
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "By the null controller",
            "lastTransitionTime": now,
            "observedGeneration": wanted.workload.metadata.generation,
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    admission = {"clusterQueue": wanted.queue.name, "podSetAssignments": assignments}
    found = wanted.workload.metadata
    metadata = {"name": found.name, "namespace": found.namespace, "resourceVersion": found.resourceVersion}
    named = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": metadata}
    return {**named, "status": {"admission": admission, "conditions": conditions}}


async def _run(kubeconfig: Path) -> None:
    client = Client(config.load(kubeconfig), throttle=Throttle(0), field_manager="null")
    async with client:
        await NullController(client).run()


def main() -> None:
    """Runs until it is ended by a signal."""
    parser = argparse.ArgumentParser(prog="bench.null_controller", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    uvloop.run(_run(parser.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
