"""``python -m bench.reaction``: how long after a pod without quota gets a node the guard has stopped its job.

Jobs of one pod are admitted; then a second pod of each appears on a node, one after the other. The time counts from the
answer to the write that put the pod on the node until a watch of Workloads shows the eviction. First in a cluster
without other pods, then beside as many as are named, in 30 namespaces of which that of the Jobs is one. Nodes are
objects only, and the bench binds the pods itself: no scheduler and no kubelet is part of the figures.
"""

import argparse
import asyncio
import os
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import uvloop

from api.objects import Raw, Resource
from api.resources import PODS
from bench import report
from bench.measure import Latency, exit_on_sigterm
from bench.measured import add_options, measured
from bench.scenario import JOBS, NAMESPACE, NAMESPACES, WORKLOADS, Size, job, setting
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
OTHERS, AT_ONCE = 30, 50
PATIENCE_SECONDS = 120.0


class Evictions:
    """When the eviction of each Job's Workload was first seen, and which are admitted."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.admitted: set[str] = set()
        self.evicted: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def watch(self, version: str) -> None:
        """Follows the Workloads from this version on, until cancelled."""
        async with aclosing(self._client.watch(WORKLOADS, NAMESPACE, params={"resourceVersion": version})) as lines:
            async for line in lines:
                found, now = orjson.loads(line)["object"], time.perf_counter()
                (owner,) = found["metadata"]["ownerReferences"]
                for each in (found.get("status") or {}).get("conditions") or ():
                    if (each["type"], each["status"]) == ("Admitted", "True"):
                        self.admitted.add(owner["name"])
                    if (each["type"], each["reason"]) == ("Evicted", "PodsWithoutQuota"):
                        self.evicted.setdefault(owner["name"], now)
                self._changed.set()

    async def until(self, names: set[str], *, evicted: bool) -> None:
        """Returns when all of these are admitted, or evicted."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not names <= (self.evicted.keys() if evicted else self.admitted):
                self._changed.clear()
                await self._changed.wait()


def pod(name: str, owner: Raw | None = None, *, cpu: str = "100m") -> Raw:
    """A pod on a node, of a Job or of nobody."""
    metadata: Raw = {"name": name}
    if owner is not None:
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["metadata"]["name"], "uid": uid}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
        metadata["labels"] = {"batch.kubernetes.io/controller-uid": uid}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": "node", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def react(client: Client, seen: Evictions, phase: str, times: int) -> list[float]:
    """Returns the seconds from each second pod to the eviction of its Job."""
    names = [f"{phase}-{number}" for number in range(times)]
    jobs = {name: await client.create(JOBS, job(name, "lq-0"), NAMESPACE) for name in names}
    await seen.until(set(names), evicted=False)
    found = []
    for name in names:
        await client.create(PODS, pod(f"{name}-first", jobs[name], cpu="1"), NAMESPACE)
        await client.create(PODS, pod(f"{name}-more", jobs[name], cpu="1"), NAMESPACE)
        began = time.perf_counter()
        await seen.until({name}, evicted=True)
        found.append(seen.evicted[name] - began)
    return found


async def fill(client: Client, pods: int) -> None:
    """Creates so many other pods on nodes."""
    spaces = [NAMESPACE, *(f"other-{number}" for number in range(1, OTHERS))]
    for name in spaces[1:]:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with turns:
            await client.create(PODS, pod(f"other-{number}"), spaces[number % OTHERS])

    async with asyncio.TaskGroup() as group:
        for number in range(pods):
            group.create_task(one(number))


async def measure(kubeconfig: Path, times: int, pods: int) -> dict[str, Any]:
    """Measures alone and beside other pods."""
    async with Client(config.load(kubeconfig), throttle=Throttle(0)) as client:
        for resource, namespace, raw in setting(Size(jobs=2 * times, queues=1, cohorts=1)):
            await client.create(resource, raw, namespace)
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})
        seen = Evictions(client)
        version = (await client.list(WORKLOADS, NAMESPACE))["metadata"]["resourceVersion"]
        watching = asyncio.create_task(seen.watch(version))
        try:
            found = {"alone": await react(client, seen, "alone", times)}
            if pods:
                await fill(client, pods)
                found[f"beside {pods} pods"] = await react(client, seen, "beside", times)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return {phase: Latency.of(each)._asdict() for phase, each in found.items()}


def main() -> None:
    """Parses the arguments, measures, prints, ends with 0."""
    parser = argparse.ArgumentParser(prog="bench.reaction", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often, each time with another Job (default 20)")
    parser.add_argument("--pods", type=int, default=10_000, help="other pods on nodes (default 10,000)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    add_options(parser)
    chosen = parser.parse_args()
    exit_on_sigterm()
    with measured(chosen, as_account=True) as (kubeconfig, _):
        found = uvloop.run(measure(kubeconfig, chosen.times, chosen.pods))
    report.save({"processors": os.cpu_count(), "load average": os.getloadavg()[0], "ms": found}, chosen.json)
    keys = ("calls", "p50", "p99", "longest")
    rows = [(phase, *(each[key] for key in keys)) for phase, each in found.items()]
    report.table("milliseconds from a pod without quota on a node to the stop of its job", ("", *keys), rows)


if __name__ == "__main__":
    main()
