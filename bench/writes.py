"""The cost of the writes of a Workload's life for the API server: ``python -m bench.writes``.

One client creates Workloads, admits them as the controller does, and finishes them as another client would (it applies
the condition), call after call. The figures are the CPU time of the API server and of etcd, and the memory that the API
server allocates for a write, which does not depend on other work on the machine. The conversion webhook, which the API
server calls for the cache of each older version that is served, is a process without other work.

With a FILE, Kueue's own definition (``config/components/crd/bases/kueue.x-k8s.io_workloads.yaml`` of its repository; it
is not part of this project), the two definitions take turns: ``make bench KUEUE_CRD=FILE``.
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
from bench.measure import ProcessUsage, exit_on_sigterm
from bench.scenario import NAMESPACE, NAMESPACES, WORKLOADS
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError, NotFound
from controller.kube.flow.throttle import Throttle
from core.wire.guard import guarded
from core.wire.merge import replacement
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


FINISHED: Raw = {**STATUS["conditions"][0], "type": "Finished", "reason": "Succeeded", "message": "Job finished"}
STEPS = ("create", "admission", "finish")
ALLOCATED = "go_memstats_alloc_bytes_total "


class WriteCost(NamedTuple):
    """A write: milliseconds of CPU of the API server and of etcd, KiB that the API server allocates for it, and
    milliseconds from call to answer (the median).
    """

    cpu: float
    etcd: float
    allocated: float
    answered: float


def definitions(kueue: Path | None, client_config: Raw) -> dict[str, Raw]:
    """The definitions as they are installed: all versions, converted by webhook."""
    ours = definition(next(kind for kind in KINDS if kind.crd_name == NAME), client_config)
    if kueue is None:
        return {OURS: ours}
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


class Life:
    """The writes of one Workload's life; each keeps the answer, as the controller does."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.stored: dict[int, Raw] = {}

    async def create(self, number: int) -> None:
        """As the controller creates the Workload of a Job."""
        self.stored[number] = await self.client.create(WORKLOADS, fresh(number), NAMESPACE)

    async def admission(self, number: int) -> None:
        """Reservation and admission in one write, as the controller makes it."""
        stored = self.stored.pop(number)
        whole = replacement(stored, guarded({"status": STATUS}, stored))
        assert whole is not None
        named = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
        await self.client.update(WORKLOADS, named | whole, subresource="status")

    async def finish(self, number: int) -> None:
        """Another client applies the condition."""
        name = f"workload-{number}"
        body: Raw = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": {"name": name}}
        body["status"] = {"conditions": [FINISHED]}
        await self.client.patch(WORKLOADS, name, NAMESPACE, body, type="apply", subresource="status", force=True)


async def cost(write: Callable[[int], Awaitable[object]], plane: ControlPlane, count: int) -> WriteCost:
    """Write so often, one after the other."""
    pids = {one.name: one.pid for one in processes.recorded(plane.layout.records)}
    measured = [pids["kube-apiserver"], pids["etcd"]]
    took = []
    allocated, before = _allocated(plane), [ProcessUsage.of(pid).cpu_seconds for pid in measured]
    for number in range(1, count + 1):
        began = time.perf_counter()
        await write(number)
        took.append(time.perf_counter() - began)
    await asyncio.sleep(0.2)  # until the caches of all versions have the writes
    cpu, etcd = (
        (ProcessUsage.of(pid).cpu_seconds - was) / count * 1e3 for pid, was in zip(measured, before, strict=True)
    )
    return WriteCost(cpu, etcd, (_allocated(plane) - allocated) / count / 1024, statistics.median(took) * 1e3)


def _allocated(plane: ControlPlane) -> float:
    """All bytes that the API server has ever allocated; reading its metrics adds a few MiB."""
    text = plane.kubectl("get", "--raw", "/metrics", check=True).stdout
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(ALLOCATED))


async def measure(plane: ControlPlane, kueue: Path | None, conversion: Raw, count: int, rounds: int) -> None:
    """Alternates the definitions; prints the median of each kind of write, and the ratio."""
    wanted = definitions(kueue, conversion)
    found: dict[tuple[str, str], list[WriteCost]] = {}
    async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        life = Life(client)
        writes = dict(zip(STEPS, (life.create, life.admission, life.finish), strict=True))
        for turn in range(rounds):
            for whose in sorted(wanted, reverse=bool(turn % 2)):
                await installed(client, wanted[whose])
                for what, write in writes.items():
                    found.setdefault((what, whose), []).append(await cost(write, plane, count))
    for whose in wanted:
        middles = {what: _median(found[what, whose]) for what in STEPS}
        middles["life"] = WriteCost(*(sum(values) for values in zip(*middles.values(), strict=True)))
        for what, one in middles.items():
            print(
                f"Workload {what}, {whose} definition: {one.cpu:.2f} ms of CPU, {one.etcd:.2f} of etcd,"
                f" {one.allocated:.0f} KiB allocated, answered in {one.answered:.2f} ms"
            )
    for what in STEPS if len(wanted) > 1 else ():
        ratios = [ours.cpu / theirs.cpu for ours, theirs in zip(found[what, OURS], found[what, THEIRS], strict=True)]
        by_turn = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"Workload {what}, ours against Kueue's, CPU: {statistics.median(ratios):.2f} (by turn: {by_turn})")


def _median(costs: list[WriteCost]) -> WriteCost:
    return WriteCost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def main() -> None:
    """Parse the arguments, measure, print, end with 0."""
    parser = argparse.ArgumentParser(prog="bench.writes", description=__doc__)
    parser.add_argument("kueue", type=Path, nargs="?", help="Kueue's definition of Workloads, a YAML file")
    parser.add_argument("--count", type=int, default=500, help="writes of a kind each turn (default 500)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each definition (default 4)")
    chosen = parser.parse_args()
    exit_on_sigterm()
    with converting() as (_, conversion), ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane:
        asyncio.run(measure(plane, chosen.kueue, conversion, chosen.count, chosen.rounds))


if __name__ == "__main__":
    main()
