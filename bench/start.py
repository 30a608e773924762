"""How long ``seiretsu serve`` takes to start and to stop in a large cluster, and what it costs: ``python -m bench.start
[--workloads 50000] [--queues 5000]``.

Three scenarios, each on a new control plane without nodes:

- *created*: so many ClusterQueues with a LocalQueue each are created by eight clients while ``serve`` runs; then the
  quotas of some are edited.
- *queues*: the same queues exist, with their statuses.
- *workloads*: so many Workloads exist in 30 ClusterQueues, pending behind a quota that is used up.

The last two write their objects into etcd while the API server is stopped: creating them would take minutes. They
start ``serve`` twice. The first start installs it, and the API server converts all objects to the older versions for
its caches; the second is a restart. A Workload that becomes admissible before each start shows when cycles run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import os
import socket
import ssl
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import orjson

from api import crds, resources
from api.names import Finalizer
from api.objects import Raw, Resource, key_of
from bench.measure import ProcessUsage, exit_on_sigterm, timed
from bench.report import pids_of, save, table
from bench.scenario import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from bench.served import served
from controller.cache.caches import Caches
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import Reflector
from controller.kube.store import Store
from controller.reconcilers.queues import difference
from controller.run.watched import rows
from core.model import Key
from core.state.state import State
from devcluster.controlplane import ControlPlane, Spec

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", namespaced=False)
NAMESPACE, PROBES = "bench", ("probe-first", "probe-again")
OPEN = {"bench.seiretsu.dev/open": "yes"}
CREATORS = 8
"""Clients that create queues while ``serve`` runs."""
BUSY_QUEUES = 30
COHORTS = 50
EDITS = 50
SCENARIOS = ("created", "queues", "workloads")
PUTS = 100
"""Objects in one transaction; etcd permits 128."""
PATIENCE_SECONDS = 600.0
NOW = "2026-01-01T00:00:00Z"

Placed = tuple[Resource, str, Raw]
"""An object with its resource and namespace."""


class Started(NamedTuple):
    """One run of ``serve``: seconds, CPU seconds and MiB. ``webhooks``: until it answers admission calls (``/readyz``),
    ``ready``: until all caches are read, ``admitted``: until the first admission was written.
    """

    webhooks: float
    ready: float
    admitted: float
    cpu: float
    rss: float
    peak: float
    stopped: float


def named(resource: Resource, name: str, **more: Any) -> Raw:
    """Returns an object of that name."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **more}


def queue(name: str, cpu: int, *, cohort: str = "", selector: Raw | None = None) -> list[Placed]:
    """Returns a ClusterQueue and its LocalQueue, which has its name."""
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": f"{cpu}Gi"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]}]
    spec = {"namespaceSelector": selector or {}, "resourceGroups": groups, **({"cohortName": cohort} if cohort else {})}
    return [
        (CLUSTER_QUEUES, "", named(CLUSTER_QUEUES, name, spec=spec)),
        (LOCAL_QUEUES, NAMESPACE, named(LOCAL_QUEUES, name, spec={"clusterQueue": name})),
    ]


def workload(name: str, local_queue: str, cpu: int = 1) -> Raw:
    """Returns a Workload of one pod, without a job."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:v1.2.3",
        "command": ["python", "-m", "train", f"--name={name}"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(6)],
        "resources": {"requests": {"cpu": str(cpu), "memory": f"{cpu}Gi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return named(
        WORKLOADS,
        name,
        spec={"queueName": local_queue, "podSets": [{"name": "main", "count": 1, "template": template}]},
    )


def setting() -> list[Placed]:
    """Returns what must exist before the queues."""
    return [(NAMESPACES, "", named(NAMESPACES, NAMESPACE)), (FLAVORS, "", named(FLAVORS, "default"))]


def probes() -> list[Placed]:
    """Returns the objects of which one Workload each becomes admissible when its namespace gets a label."""
    found: list[Placed] = []
    for name in PROBES:
        cluster_queue, (local, _, body) = queue(name, 10, selector={"matchLabels": OPEN})
        found += [(NAMESPACES, "", named(NAMESPACES, name)), cluster_queue, (local, name, body)]
        found.append((WORKLOADS, name, workload(name, name)))
    return found


def many_queues(count: int) -> list[Placed]:
    """Returns so many ClusterQueues in fifty cohorts, each with its LocalQueue."""
    return [
        each for number in range(count) for each in queue(f"cq-{number:05}", 10, cohort=f"cohort-{number % COHORTS}")
    ]


def more_queues(count: int) -> list[Placed]:
    """Returns queues beside ``many_queues``: one for each ten of these."""
    return [each for number in range(count // 10) for each in queue(f"more-{number:05}", 10)]


def many_workloads(count: int) -> list[Placed]:
    """Returns so many Workloads, and ClusterQueues with quota for one in a hundred."""
    queues = [each for number in range(BUSY_QUEUES) for each in queue(f"cq-{number:05}", count // 100 // BUSY_QUEUES)]
    return queues + [
        (WORKLOADS, NAMESPACE, workload(f"job-{number:06}", f"cq-{number % BUSY_QUEUES:05}")) for number in range(count)
    ]


async def create(client: Client, objects: Iterable[Placed], clients: int = 1) -> float:
    """Creates the objects in their order; returns the seconds that took."""
    began, placed = time.monotonic(), tuple(objects)

    async def create_one(number: int) -> None:
        resource, namespace, raw = placed[number]
        await client.create(resource, raw, namespace)

    await timed(create_one, len(placed), clients=clients)
    return time.monotonic() - began


def stored(objects: Iterable[Placed]) -> Iterable[tuple[str, Raw]]:
    """Returns the objects as the API server stores them, with the statuses of queues, by their keys in etcd."""
    caches = Caches(State(), rows([]))
    caches.enter(named(FLAVORS, "default"), resources.RESOURCE_FLAVORS)
    found: list[Placed] = []
    for number, (resource, namespace, raw) in enumerate(objects):
        given = {"uid": f"7c9e6679-7425-40de-944b-{number:012}", "creationTimestamp": NOW, "generation": 1}
        if namespace:
            given["namespace"] = namespace
        if resource == CLUSTER_QUEUES:
            given["finalizers"] = [Finalizer.RESOURCE_IN_USE]
        whole = {**raw, "metadata": {**raw["metadata"], **given}}
        if resource != WORKLOADS:
            caches.enter(whole, resource)
        found.append((resource, namespace, whole))
    for resource, namespace, raw in found:
        status, name = caches.rows[resource].status, raw["metadata"]["name"]
        shown = status(caches.state, Key(namespace, name), {}, time.time()) if status is not None else None
        place = f"/registry/{resource.group}/{resource.plural}/{namespace}/{name}".replace("//", "/")
        yield place, {**raw, "status": difference({}, shown)} if shown is not None else raw


def seed(plane: ControlPlane, objects: Iterable[Placed]) -> None:
    """Writes the objects into etcd while the API server is stopped."""
    plane.stop_apiserver()
    puts = [
        {"requestPut": {"key": b64encode(key.encode()).decode(), "value": b64encode(orjson.dumps(raw)).decode()}}
        for key, raw in stored(objects)
    ]
    etcd = http.client.HTTPConnection("127.0.0.1", plane.ports.etcd)
    for first in range(0, len(puts), PUTS):
        etcd.request("POST", "/v3/kv/txn", orjson.dumps({"success": puts[first : first + PUTS]}))
        answer = etcd.getresponse()
        if answer.read() and answer.status != 200:
            raise ConnectionError(f"etcd: {answer.status}")
    etcd.close()
    plane.start_apiserver()


class Statuses:
    """Watches the queues: ``right`` when there are so many and each shows a status for its generation."""

    def __init__(self, client: Client, count: int) -> None:
        self._wanted = count
        self._right: set[tuple[Resource, Key]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._client = client

    async def __aenter__(self) -> Statuses:
        for resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            store: Store[None] = Store(resource.plural, self._look(resource))
            self._tasks.append(asyncio.create_task(Reflector(self._client, resource, store).run()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self, resource: Resource) -> Callable[[Raw], None]:
        def look(raw: Raw) -> None:
            conditions = (raw.get("status") or {}).get("conditions") or ()
            active: Raw = next((one for one in conditions if one["type"] == "Active"), {})
            if active.get("status") == "True" and active.get("observedGeneration") == raw["metadata"]["generation"]:
                self._right.add((resource, key_of(raw)))
            else:
                self._right.discard((resource, key_of(raw)))

        return look

    async def right(self) -> None:
        """Returns when all statuses are right."""
        await until(self._is_right, "a status for every queue")

    async def _is_right(self) -> bool:
        return len(self._right) >= self._wanted


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Returns when the condition holds."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise TimeoutError(f"not {what} within {PATIENCE_SECONDS:.0f} s") from None


async def start(plane: ControlPlane, client: Client, scratch: Path, port: int, probe: str) -> Started:
    """Runs ``serve`` until the probe is admitted and the API server has nothing more to do, and stops it."""
    await client.patch(NAMESPACES, probe, "", {"metadata": {"labels": OPEN}})

    async def admitted() -> bool:
        try:
            found = await client.get(WORKLOADS, probe, probe)
        except ApiError:  # the definition is being replaced
            return False
        return bool((found.get("status") or {}).get("admission"))

    began = time.monotonic()
    serving = served(plane.kubeconfig, scratch, "--bind", f"127.0.0.1:{port}", ready_seconds=PATIENCE_SECONDS)
    answers = asyncio.create_task(asyncio.to_thread(answering, port))
    process = await asyncio.to_thread(serving.__enter__)
    try:
        ready = time.monotonic() - began
        webhooks = await answers - began
        await until(admitted, "an admission")
        first = time.monotonic() - began
        await idle(process.pid, pids_of(plane)["kube-apiserver"])
        usage = ProcessUsage.of(process.pid)
        stopping = time.monotonic()
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)
    return Started(webhooks, ready, first, *usage[:3], time.monotonic() - stopping)


def answering(port: int) -> float:
    """Returns the time at which ``/readyz`` on this port answers 200 for the first time."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urlopen(f"https://127.0.0.1:{port}/readyz", context=context, timeout=5):
            return time.monotonic()
        time.sleep(0.05)
    raise TimeoutError(f"/readyz is not 200 within {PATIENCE_SECONDS:.0f} s")


async def idle(*pids: int) -> None:
    """Returns when these processes have used little of a processor for three seconds. A write shortly before ``serve``
    stops could not be converted, and the API server would convert all objects again at the restart.
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            before = sum(ProcessUsage.of(pid).cpu_seconds for pid in pids)
            await asyncio.sleep(3.0)
            if sum(ProcessUsage.of(pid).cpu_seconds for pid in pids) - before < 0.3:
                return


async def existing(objects: Iterable[Placed]) -> dict[str, Any]:
    """Stores the objects, then starts ``serve`` twice."""
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as scratch,
        ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane,
    ):
        async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
            await prepare(client)
            await asyncio.to_thread(seed, plane, objects)
            port = free_port()
            for title, probe in zip(("first start", "restart"), PROBES, strict=True):
                found[title] = (await start(plane, client, Path(scratch), port, probe))._asdict()
    return found


def free_port() -> int:
    """Returns a port for both starts: at another address the API server would convert all objects again."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


async def prepare(client: Client) -> None:
    """Installs the definitions without older versions, and creates what all scenarios need."""
    for definition in crds.definitions():
        await client.create(CRDS, definition)

    async def served_all() -> bool:
        try:
            for resource in (FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS):
                await client.list(resource)
        except ApiError:
            return False
        return True

    await until(served_all, "the definitions served")
    await create(client, [*setting(), *probes()])


async def created(count: int) -> dict[str, Any]:
    """Creates the queues while ``serve`` runs, edits some, and stops it."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane,
    ):
        async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
            serving = served(plane.kubeconfig, Path(scratch))
            process = await asyncio.to_thread(serving.__enter__)
            try:
                empty = ProcessUsage.of(process.pid)
                await create(client, setting())
                began = time.monotonic()
                async with Statuses(client, 2 * count) as statuses:
                    took = await create(client, many_queues(count), CREATORS)
                    await statuses.right()
                    right = time.monotonic() - began
                    full = ProcessUsage.of(process.pid)
                    began = time.monotonic()
                    for number in range(0, count, max(1, count // EDITS)):
                        _, _, raw = queue(f"cq-{number:05}", 20, cohort=f"cohort-{number % COHORTS}")[0]
                        await client.patch(CLUSTER_QUEUES, raw["metadata"]["name"], "", {"spec": raw["spec"]})
                    edits = len(range(0, count, max(1, count // EDITS)))
                    await statuses.right()
                    edited, last = time.monotonic() - began, ProcessUsage.of(process.pid)
                await create(client, more_queues(count), CREATORS)  # their statuses are not written yet
                stopping = time.monotonic()
            finally:
                await asyncio.to_thread(serving.__exit__, None, None, None)
            return {
                "created in": took,
                "statuses after": right,
                "cpu ms a queue": (full.cpu_seconds - empty.cpu_seconds) / count * 1e3,
                "empty MiB": empty.rss,
                "MiB": full.rss,
                "peak MiB": last.peak,
                "KiB a queue": (full.rss - empty.rss) / count * 1024,
                "edits": edits,
                "edits in": edited,
                "cpu ms an edit": (last.cpu_seconds - full.cpu_seconds) / edits * 1e3,
                "stopped": time.monotonic() - stopping,
            }


def show(title: str, found: dict[str, Any]) -> None:
    """Prints a scenario that starts twice."""
    header = ("", "webhooks s", "ready s", "first admission s", "CPU s", "MiB", "peak MiB", "stopped s")
    table(title, header, [(run, *figures.values()) for run, figures in found.items()])


def main() -> None:
    """Parses the arguments, measures, prints."""
    parser = argparse.ArgumentParser(prog="bench.start", description="How serve starts and stops in a large cluster.")
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS), help=f"of {', '.join(SCENARIOS)} (all)")
    parser.add_argument("--workloads", type=int, default=50_000, help="how many (default 50000)")
    parser.add_argument("--queues", type=int, default=5_000, help="how many (default 5000)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    exit_on_sigterm()
    figures: dict[str, Any] = {"processors": os.cpu_count(), "load": os.getloadavg()[0]}
    queues = f"{chosen.queues} ClusterQueues with a LocalQueue each"
    if "created" in chosen.scenarios:
        found = figures["created"] = asyncio.run(created(chosen.queues))
        table(f"{queues}, created while serve runs", ("", ""), found.items())
    if "queues" in chosen.scenarios:
        figures["queues"] = asyncio.run(existing(many_queues(chosen.queues)))
        show(queues, figures["queues"])
    if "workloads" in chosen.scenarios:
        figures["workloads"] = asyncio.run(existing(many_workloads(chosen.workloads)))
        show(f"{chosen.workloads} Workloads", figures["workloads"])
    save(figures, chosen.json)


if __name__ == "__main__":
    main()
