"""The cost of a write of a Workload for the API server with Seiretsu's CRD, compared with Kueue's: ``make bench
KUEUE_CRD=FILE``.

FILE is Kueue's own definition (``config/components/crd/bases/kueue.x-k8s.io_workloads.yaml`` of its repository; it is
not part of this project). On one API server the two definitions take turns. One client creates the same Workloads and
reserves quota for them, call after call; both definitions use the same conversion webhook, which the API server calls
for the cache of each older version that is served. The figure is the CPU time of the API server alone.
"""

import argparse
import asyncio
import contextlib
import copy
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import yaml

from api.crds import definition
from api.kinds import KINDS
from api.objects import Raw, Resource
from bench.caches import workload
from bench.converter import converting
from bench.measure import Usage
from bench.scenario import NAMESPACE, NAMESPACES, WORKLOADS
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError, NotFound
from controller.kube.throttle import Throttle
from devcluster import processes
from devcluster.controlplane import ControlPlane, Spec

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", namespaced=False)
NAME = "workloads.kueue.x-k8s.io"
THEIRS, OURS = "Kueue's", "our"
STATUS: Raw = {
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "500m"}}
        ],
    },
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": f"{kind} in ClusterQueue cq",
            "lastTransitionTime": "2026-01-01T00:00:01Z",
            "observedGeneration": 1,
        }
        for kind in ("QuotaReserved", "Admitted")
    ],
}


class Cost(NamedTuple):
    """Milliseconds of a write: CPU of the API server, and from call to answer (the median)."""

    cpu: float
    answered: float


def definitions(kueue: Path, client_config: Raw) -> dict[str, Raw]:
    """Both definitions as they are installed: all versions, converted by webhook."""
    ours = definition(next(kind for kind in KINDS if kind.crd_name == NAME), client_config)
    theirs: Raw = yaml.load(kueue.read_text(), Loader=yaml.CSafeLoader)
    theirs["spec"]["conversion"] = copy.deepcopy(ours["spec"]["conversion"])
    return {THEIRS: theirs, OURS: ours}


async def installed(client: Client, wanted: Raw) -> None:
    """Replaces the definition and waits until a Workload can be created."""
    with contextlib.suppress(NotFound):
        await client.delete(CRDS, NAME)
    async with asyncio.timeout(60):
        while True:
            try:
                await client.create(CRDS, wanted)
                break
            except ApiError:  # the old one is still going
                await asyncio.sleep(0.2)
        while True:
            try:
                await client.create(WORKLOADS, fresh(0), NAMESPACE)
                break
            except ApiError:  # not served yet
                await asyncio.sleep(0.2)
    await asyncio.sleep(3)  # the API server computes its document of all schemas, once for each change


def fresh(number: int) -> Raw:
    """A Workload as the controller makes one for a Job."""
    made = workload(number)
    del made["status"]
    # Without its owner: the garbage collector would look for the Job.
    return {**made, "metadata": {"name": f"workload-{number}", "labels": made["metadata"]["labels"]}}


async def cost(write: Callable[[int], Awaitable[object]], apiserver: int, count: int) -> Cost:
    """Write so often, one after the other."""
    took = []
    before = Usage.of(apiserver).cpu_seconds
    for number in range(1, count + 1):
        began = time.perf_counter()
        await write(number)
        took.append(time.perf_counter() - began)
    await asyncio.sleep(0.2)  # until the caches of all versions have the writes
    return Cost((Usage.of(apiserver).cpu_seconds - before) / count * 1e3, statistics.median(took) * 1e3)


async def measure(plane: ControlPlane, kueue: Path, conversion: Raw, count: int, rounds: int) -> None:
    """Alternates both; prints the median of each and the ratio."""
    wanted = definitions(kueue, conversion)
    apiserver = next(one.pid for one in processes.recorded(plane.layout.records) if one.name == "kube-apiserver")
    found: dict[tuple[str, str], list[Cost]] = {}
    async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

        def create(number: int) -> Awaitable[object]:
            return client.create(WORKLOADS, fresh(number), NAMESPACE)

        def reserve(number: int) -> Awaitable[object]:
            return client.patch(WORKLOADS, f"workload-{number}", NAMESPACE, {"status": STATUS}, subresource="status")

        for turn in range(rounds):
            for whose in sorted(wanted, reverse=bool(turn % 2)):
                await installed(client, wanted[whose])
                for what, write in (("create", create), ("status patch", reserve)):
                    found.setdefault((what, whose), []).append(await cost(write, apiserver, count))
    for what in ("create", "status patch"):
        middle = {whose: _median(found[what, whose]) for whose in wanted}
        for whose, one in middle.items():
            print(f"Workload {what}, {whose} definition: {one.cpu:.2f} ms of CPU, answered in {one.answered:.2f} ms")
        ratios = [ours.cpu / theirs.cpu for ours, theirs in zip(found[what, OURS], found[what, THEIRS], strict=True)]
        told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"Workload {what}, ours against Kueue's, CPU: {statistics.median(ratios):.2f} (by turn: {told})")


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.cpu for one in costs), statistics.median(one.answered for one in costs))


def main() -> None:
    """Parse the arguments, measure, print, end with 0."""
    parser = argparse.ArgumentParser(prog="bench.writes", description=__doc__)
    parser.add_argument("kueue", type=Path, help="Kueue's definition of Workloads, a YAML file")
    parser.add_argument("--count", type=int, default=500, help="writes of a kind each turn (default 500)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each definition (default 4)")
    chosen = parser.parse_args()
    with converting() as (_, conversion), ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane:
        asyncio.run(measure(plane, chosen.kueue, conversion, chosen.count, chosen.rounds))


if __name__ == "__main__":
    main()
