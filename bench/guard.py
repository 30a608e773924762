"""What the guard costs: ``python -m bench.guard [10000 50000]``.

For each number of pods, in a process of its own: the first list over HTTP (CPU time, memory, the longest stall of the
event loop), each kind of change of a pod, and how long it takes to find one pod too many, with the lists that this
costs. Without the guard all of it is 0: pods are not watched.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import resource
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson

from api import resources
from api.objects import Resource
from bench.caches import pod as of_a_group
from bench.caches import streaming, workload
from bench.lag import Lag
from controller.cache.caches import Caches
from controller.cache.owners import Owners
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.reconcilers.guard import PodGuard
from controller.reconcilers.living import living_pods, read
from controller.reconcilers.managed import Managed
from controller.run.watched import rows
from controller.settings import ControllerSettings
from core.jobs.kinds import BATCH_JOB
from core.model import Raw
from core.state.state import State

PODS_OF_A_JOB, NAMESPACES, CHANGES = 10, 30, 20_000


def job_uid(job: int) -> str:
    """The uid of a Job."""
    return f"5e9e6679-7425-40de-944b-{job:012}"


def pod(number: int) -> Raw:
    """A running pod of a Job of ten, as the API server sends one: about 4 KiB."""
    found, job = of_a_group(number), number // PODS_OF_A_JOB
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{job}", "uid": job_uid(job), "controller": True}
    labels = {
        "batch.kubernetes.io/controller-uid": job_uid(job),
        "batch.kubernetes.io/job-name": f"train-{job}",
        "batch.kubernetes.io/job-completion-index": str(number % PODS_OF_A_JOB),
        "app": "train",
    }
    metadata = {
        **{key: value for key, value in found["metadata"].items() if key not in ("finalizers", "annotations")},
        "namespace": f"team-{job % NAMESPACES}",
        "name": f"train-{job}-{number:05}",
        "labels": labels,
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    return {**found, "metadata": metadata}


def admitted(job: int) -> Raw:
    """The Workload of a Job, admitted."""
    found = workload(job)
    metadata = {**found["metadata"], "namespace": f"team-{job % NAMESPACES}"}
    pod_set = {**found["spec"]["podSets"][0], "count": PODS_OF_A_JOB}
    usage = {"cpu": f"{PODS_OF_A_JOB * 500}m", "memory": f"{PODS_OF_A_JOB}Gi"}
    given = {"name": "main", "flavors": dict.fromkeys(usage, "default"), "resourceUsage": usage}
    true = {"status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    return {
        **found,
        "metadata": {**metadata, "labels": {"kueue.x-k8s.io/job-uid": job_uid(job)}},
        "spec": {**found["spec"], "podSets": [pod_set]},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": [{**given, "count": PODS_OF_A_JOB}]},
            "conditions": [{"type": kind, **true} for kind in ("QuotaReserved", "Admitted")],
        },
    }


class Found:
    """Takes the events, and a client that answers lists with the pods of one namespace."""

    def __init__(self, pods: list[Raw]) -> None:
        self.pods = pods
        self.lists = self.bytes = 0

    def record(self, *_: object) -> None:
        """Nothing is sent."""

    async def pages(self, of: Resource, namespace: str, *, limit: int, **_: Any) -> AsyncGenerator[Raw, None]:
        """The pods in pages, parsed from JSON as an answer is."""
        for first in range(0, len(self.pods), limit):
            text = orjson.dumps(self.pods[first : first + limit])
            self.lists, self.bytes = self.lists + 1, self.bytes + len(text)
            yield {"metadata": {}, "items": orjson.loads(text)}


def _rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _caches(jobs: int) -> Caches:
    caches = Caches(State(), rows([BATCH_JOB]))
    for number in range(NAMESPACES):
        metadata = {"name": f"team-{number}", "uid": f"n-{number}", "resourceVersion": "1"}
        caches.namespaces.observe("ADDED", {"metadata": metadata})
    for job in range(jobs):
        assert caches.workloads.observe("ADDED", admitted(job))
    caches.start()
    return caches


async def _measure(port: int, count: int) -> None:
    caches = _caches(count // PODS_OF_A_JOB)
    settings = ControllerSettings()
    few = [pod(number) for number in range(count) if number // PODS_OF_A_JOB % NAMESPACES == 0]
    gc.collect()
    gc.freeze()  # as the app does when its caches are synced
    async with Client(Connection(f"http://127.0.0.1:{port}")) as client, Lag() as lag:
        recorder, writer = Found(few), Writer(client, caches.stores)
        managed, pods = Managed(caches, settings, Owners(caches)), living_pods(settings.reading)
        guard = PodGuard(caches, writer, client, managed, recorder, settings, pods=pods)
        reflector = pods.reflector(client)
        for _ in pods.catch_up(guard.changed):
            pass
        before, cpu = _rss(), time.process_time()
        running = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        used, stall = time.process_time() - cpu, lag.longest_ms
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(guard.pods) == count
    gc.collect()
    grown = _rss() - before
    print(
        f"  list    CPU {used:5.2f} s ({used / count * 1e6:3.0f} us a pod), longest stall {stall:3.0f} ms, "
        f"RSS {before:.0f} + {grown:.0f} MiB ({grown * 2**20 / count:.0f} bytes a pod)"
    )
    _changes(guard, count)
    await _one_too_many(guard, recorder)


def _changes(guard: PodGuard, count: int) -> None:
    lines: dict[str, list[bytes]] = {"status": [], "ended": [], "new": []}
    for number in range(min(CHANGES, count)):
        raw, version = pod(number), 10_000_000 + 3 * number
        for place, (what, kind) in enumerate((("status", "MODIFIED"), ("ended", "DELETED"), ("new", "ADDED"))):
            changed = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version + place)}}
            lines[what].append(orjson.dumps({"type": kind, "object": changed}))
    for what, found in lines.items():
        cpu = time.process_time()
        for line in found:
            guard.pods.observe(*read(line))
        used = (time.process_time() - cpu) / len(found) * 1e6
        size = sum(map(len, found)) / len(found)
        print(f"  change  {what:6} CPU {used:3.0f} us, {size / 1024:.1f} KiB of the watch")


async def _one_too_many(guard: PodGuard, found: Found) -> None:
    more = pod(0)
    metadata = {**more["metadata"], "name": "more", "uid": "more", "resourceVersion": "99999999"}
    found.pods.append({**more, "metadata": metadata})
    guard._client = found  # type: ignore[assignment]  # its pods are those of one namespace
    evicted = asyncio.Event()

    async def evict(value: Any, sentence: str) -> None:
        evicted.set()

    guard._evict = evict  # type: ignore[method-assign]  # there is no API server to write to
    began, cpu = time.monotonic(), time.process_time()
    guard.pods.observe("ADDED", found.pods[-1])
    running = asyncio.create_task(guard.queue.run(4, guard.reconcile))
    await evicted.wait()
    seconds, used = time.monotonic() - began, time.process_time() - cpu
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    print(
        f"  found   after {seconds:.2f} s: {found.lists} pages of {len(found.pods)} pods, "
        f"{found.bytes / 2**20:.1f} MiB, CPU {used * 1e3:.0f} ms"
    )


def _run(port: int, count: int) -> None:
    asyncio.run(_measure(port, count))


def main() -> None:
    """Prints the figures for each number of pods."""
    parser = argparse.ArgumentParser(description="What the guard costs.")
    parser.add_argument("counts", type=int, nargs="*", default=[10_000, 50_000])
    for count in parser.parse_args().counts:
        with streaming({resources.PODS.plural: pod}, count) as (port, size):
            print(f"{count} pods of {count // PODS_OF_A_JOB} Jobs, {size / 2**20:.0f} MiB of JSON", flush=True)
            measuring = multiprocessing.get_context("spawn").Process(target=_run, args=(port, count))
            measuring.start()
            measuring.join()


if __name__ == "__main__":
    main()
