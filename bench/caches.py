"""The cost of reading many objects into the caches: memory, time, and the longest stall for a webhook.

`python -m bench.caches [COUNT]` reads Workloads, `python -m bench.caches 10000 --pods` pods of queued groups, and
`python -m bench.caches --live` both at once, while admission calls are answered from the same caches (T19).
`python -m bench.caches 100000 --topology` reads so many other pods, a tenth as many nodes and a flavor with a topology,
while calls are answered. A server in its own process streams the initial state as an API server does.
"""

import argparse
import asyncio
import contextlib
import gc
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson
import uvloop

from api import resources
from api.objects import Raw, Resource
from app.application import Application
from app.collector import reading
from app.metrics import ProcessMetrics
from app.server import Address, Farewell, Listener, Server
from bench.lag import Lag, LoopTurns
from bench.measure import Latency
from bench.openloop import Caller, Quantiles, Target
from bench.webhook import PATHS, review
from certs import pki
from certs.live import LiveContext
from controller import settings as controller_settings
from controller.cache.caches import Interned, lean, selected
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.reflector import Reflector
from controller.kube.store import Store, verbatim
from controller.run.controller import Controller
from core.jobs.kinds import POD
from core.wire import decode
from webhook.routes import routes
from webhook.settings import Context, WebhookSettings

WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
CALLERS, WARM_SECONDS, CALL_SECONDS = 8, 0.5, 1.0


def workload(number: int) -> Raw:
    """A Workload as the API server sends one: pod template, conditions, managed fields; about 4 KiB."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:v1.2.3",
        "command": ["python", "-m", "train"],
        "args": [f"--part={part}" for part in range(8)],
        "env": [{"name": f"SETTING_{part}", "value": f"value-{part}"} for part in range(12)],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    template = {
        "metadata": {"labels": {"app": "train"}},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
        },
    }
    fields: Raw = {
        f"f:{name}": {".": {}, "f:name": {}, "f:value": {}} for name in (f"field{part}" for part in range(24))
    }
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": f"job-train-{number}-a1b2c",
            "namespace": f"team-{number % 30}",
            "uid": f"7c9e6679-7425-40de-944b-{number:012}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": {"kueue.x-k8s.io/job-uid": f"9c9e6679-7425-40de-944b-{number:012}"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{number}", "uid": "u", "controller": True}
            ],
            "managedFields": [
                {"manager": "seiretsu", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
            ],
        },
        "spec": {
            "active": True,
            "queueName": "main",
            "priority": number % 3,
            "podSets": [{"name": "main", "count": 1 + number % 4, "template": template}],
        },
        "status": {
            "conditions": [
                {
                    "type": "QuotaReserved",
                    "status": "False",
                    "reason": "Pending",
                    "message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in default",
                    "lastTransitionTime": "2026-01-01T00:00:01Z",
                    "observedGeneration": 1,
                }
            ]
        },
    }


def pod(number: int) -> Raw:
    """A running pod of a group of ten, as the API server sends one: about 3.5 KiB."""
    of = workload(number)
    group, index = divmod(number, 10)
    spec: Raw = of["spec"]["podSets"][0]["template"]["spec"]
    token = {"name": f"kube-api-access-{number:05}", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    metadata = {
        **{key: of["metadata"][key] for key in ("namespace", "uid", "resourceVersion", "creationTimestamp")},
        "name": f"train-{group}-{index}",
        "labels": {
            "kueue.x-k8s.io/queue-name": "main",
            "kueue.x-k8s.io/managed": "true",
            "kueue.x-k8s.io/pod-group-name": f"train-{group}",
            "kueue.x-k8s.io/podset": "1a2b3c4d",
        },
        "annotations": {
            "kueue.x-k8s.io/pod-group-total-count": "10",
            "kueue.x-k8s.io/role-hash": "1a2b3c4d",
            "kueue.x-k8s.io/workload": f"train-{group}",
        },
        "finalizers": ["kueue.x-k8s.io/managed"],
        "managedFields": of["metadata"]["managedFields"],
    }
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        for each in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {"startedAt": "2026-01-01T00:00:02Z"}}
    container = {
        "name": "main",
        "ready": True,
        "restartCount": 0,
        "containerID": f"containerd://{number}",
        "state": state,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": f"node-{number % 500}", "volumes": [token]},
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{number // 250}.{number % 250}",
            "startTime": "2026-01-01T00:00:01Z",
            "conditions": conditions,
            "containerStatuses": [container],
        },
    }


def _end(count: int) -> bytes:
    """The end of the initial state."""
    metadata = {"resourceVersion": str(2000 + count), "annotations": {"k8s.io/initial-events-end": "true"}}
    return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n"


def node(number: int) -> Raw:
    """A node in a rack of 64, as the API server sends one: about 3 KiB, of which half are labels and images."""
    name = f"node-{number}"
    labels = {"pool": "racks", "rack": f"rack-{number // 64}", "kubernetes.io/hostname": name}
    labels |= {f"node.example.com/feature-{part}": f"value-{part}" for part in range(20)}
    amounts = {"cpu": "96", "memory": "256Gi", "pods": "110", "ephemeral-storage": "900Gi"}
    conditions = [
        {"type": each, "status": str(each == "Ready"), "reason": "r", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        for each in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [{"names": [f"registry.example.com/team/image-{part}:v1"], "sizeBytes": part} for part in range(20)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "resourceVersion": str(1000 + number), "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images},
    }


def _of_nodes(pods: int) -> dict[str, tuple[Callable[[int], Raw], int]]:
    """A cluster whose nodes have a topology, with so many pods that do not ask for it."""
    nodes = max(1, pods // 10)
    levels = [{"nodeLabel": each} for each in ("rack", "kubernetes.io/hostname")]
    flavor = {"nodeLabels": {"pool": "racks"}, "topologyName": "racks"}
    return {
        "nodes": (node, nodes),
        "pods": (partial(_other_pod, nodes), pods),
        "topologies": (partial(_racks, "Topology", {"levels": levels}), 1),
        "resourceflavors": (partial(_racks, "ResourceFlavor", flavor), 1),
    }


def _other_pod(nodes: int, number: int) -> Raw:
    found = pod(number)
    metadata = {**found["metadata"], "labels": {"app": "other"}, "annotations": {}, "finalizers": []}
    return {**found, "metadata": metadata, "spec": {**found["spec"], "nodeName": f"node-{number % nodes}"}}


def _racks(kind: str, spec: Raw, number: int) -> Raw:
    metadata = {"name": "racks", "uid": kind, "resourceVersion": "1", "generation": 1}
    return {"apiVersion": WORKLOADS.api_version, "kind": kind, "metadata": metadata, "spec": spec}


def initial_state(streams: Mapping[str, list[tuple[Raw, bytes]]], target: str) -> list[bytes]:
    """Returns the lines of a watch that asks for this target: as an API server does, only those of objects that have
    the label of its selector ``key=value``. ``streams`` has the labels and the line of each object, by resource.
    """
    asked = urlsplit(target)
    selects = selected(parse_qs(asked.query).get("labelSelector", [""])[0])
    known = streams.get(asked.path.rsplit("/", 1)[-1], [])
    return [*(line for labels, line in known if selects(labels)), _end(len(known))]


def _serve(made: Mapping[str, tuple[Callable[[int], Raw], int]], pipe: Pipe) -> None:
    """The server's process: every request is answered with the initial state of a watch, of the objects that its label
    selector selects. ``made``: by the resource, how an object is made, and how many there are.
    """
    streams: dict[str, list[tuple[Raw, bytes]]] = {}
    for plural, (make, count) in made.items():
        lines = streams[plural] = []
        for number in range(count):
            found = make(number)
            labels: Raw = {"metadata": {"labels": found["metadata"].get("labels")}}
            lines.append((labels, orjson.dumps({"type": "ADDED", "object": found}) + b"\n"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in initial_state(streams, head.split(b" ", 2)[1].decode()):
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()
        await reader.read()

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(
            (server.sockets[0].getsockname()[1], sum(len(line) for lines in streams.values() for _, line in lines))
        )
        await server.serve_forever()

    asyncio.run(listen())


async def _take_in(port: int, of: Resource, transform: Callable[[Raw], Any], count: int) -> None:
    store: Store[Any] = Store(of.plural, transform)
    gc.disable()  # as the app does until its caches are synced
    async with Client(Connection(f"http://127.0.0.1:{port}")) as client, Lag() as lag:
        before, cpu, began = _rss(), time.process_time(), time.monotonic()
        reflector = Reflector(client, of, store)
        running = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        took, used, stall = time.monotonic() - began, time.process_time() - cpu, lag.longest_ms
        assert len(store) == count and reflector.undecodable == 0
        began = time.monotonic()
        gc.collect()
        full = time.monotonic() - began
        gc.freeze()
        print(
            f"  {took:6.2f} s, CPU {used:5.2f} s ({used / count * 1e6:4.0f} us each), longest stall {stall:4.0f} ms, "
            f"p99 {lag.quantile_ms(0.99):3.1f} ms, full collection {full * 1e3:4.0f} ms, "
            f"RSS {before:.0f} -> {_rss():.0f} MiB ({(_rss() - before) * 1024 / count:.1f} KiB each)"
        )
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _rss() -> float:
    """Resident memory in MiB, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _measure(name: str, port: int, count: int, pods: bool) -> None:
    context = decode.WorkloadContext()
    transforms: dict[str, Callable[[Raw], Any]] = {
        "raw": verbatim,
        "kept": Interned(),
        "value": lambda raw: decode.workload(raw, context),
        "lean": lean(POD)(),
    }
    of = POD.resource if pods else WORKLOADS
    asyncio.run(_take_in(port, of, transforms[name], count))


class Live(NamedTuple):
    """What reading both at once did to admission calls: their latencies in each second of it, in all of it, and
    afterwards; the CPU time of each turn of the event loop meanwhile; how many seconds it took; resident memory in MiB.
    """

    during: tuple[Quantiles, ...]
    whole: Latency
    turns: Latency
    after: Quantiles
    seconds: float
    rss: float
    read: str


async def _read_and_answer(port: int, rate: float, scratch: Path) -> Live:
    """Reads Workloads and pods into the controller's caches and answers calls from them, as ``serve`` does."""
    async with Client(Connection(f"http://127.0.0.1:{port}")) as client:
        controller = Controller(client, controller_settings.ControllerSettings(frameworks=("batch/job", POD.framework)))
        live, context = LiveContext(), Context(WebhookSettings(), controller.lookup)
        now = datetime.now(UTC)
        authority = pki.new_authority(now, timedelta(days=1))
        live.load(
            pki.new_leaf(authority, ("127.0.0.1",), now, timedelta(days=1)), authority.chain_pem, "127.0.0.1", now
        )
        (scratch / "ca.crt").write_bytes(authority.chain_pem)
        application = Application(routes(context), [], ProcessMetrics())
        listener = Listener(application, Address("127.0.0.1", 0), live.context)
        server = Server([listener])
        await server.start()
        requests = [(path, orjson.dumps(review(path, number))) for number, path in enumerate(PATHS)]
        target = Target(f"https://{listener.bound}", requests, b'"allowed":true', ca=scratch / "ca.crt")
        with Caller(target, CALLERS) as caller:
            await asyncio.to_thread(caller.run, rate, WARM_SECONDS)
            began, earlier = time.monotonic(), len(caller.took)
            with reading():
                running = [asyncio.create_task(each.run()) for each in controller.reflectors]
                nodes = next(each for each in controller.reflectors if each.resource == resources.NODES)
                running.append(asyncio.create_task(controller.topology.run(nodes, controller._followed_pods)))
                running.append(asyncio.create_task(controller._followed_pods.run()))
                starting = asyncio.create_task(_started(controller))
                during = [await asyncio.to_thread(caller.run, rate, CALL_SECONDS)]
                while not starting.done():
                    during.append(await asyncio.to_thread(caller.run, rate, CALL_SECONDS))
                seconds, turns = await starting
            whole = Latency.of(caller.took[earlier:])
            after = await asyncio.to_thread(caller.run, rate, CALL_SECONDS)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.stop(Farewell(0, 1))
        stores = controller.caches.stores
        placement = controller.caches.state.placement
        read = f"{len(stores[WORKLOADS])} Workloads and {len(stores[POD.resource])} pods of them"
        if placement is not None and placement.nodes:
            read = f"{len(placement.nodes)} nodes with {len(controller.pods)} pods on {len(placement.others)} of them"
        return Live(tuple(during), whole, Latency.of(turns), after, seconds - began, _rss(), read)


async def _started(controller: Controller) -> tuple[float, list[float]]:
    """Waits for all caches and enters them into State; returns the time, and what each turn of the loop took."""
    async with LoopTurns() as turns:
        await asyncio.gather(*(each.synced.wait() for each in controller.reflectors))
        for _ in controller.caches.starting():
            await asyncio.sleep(0)
        await controller.topology.complete()
    return time.monotonic(), turns.seconds


def read_live(count: int, rate: float) -> Live:
    """Streams so many Workloads and as many pods to a process that answers so many calls a second meanwhile."""
    return _read({WORKLOADS.plural: (workload, count), POD.resource.plural: (pod, count)}, rate)


def _read(made: Mapping[str, tuple[Callable[[int], Raw], int]], rate: float) -> Live:
    with _streaming(made) as (port, _), tempfile.TemporaryDirectory() as scratch:
        return uvloop.run(_read_and_answer(port, rate, Path(scratch)))


def streaming(
    made: Mapping[str, Callable[[int], Raw]], count: int
) -> contextlib.AbstractContextManager[tuple[int, int]]:
    """Context in which a server in its own process streams so many objects of each resource; its port, and their size
    in bytes.
    """
    return _streaming({plural: (make, count) for plural, make in made.items()})


@contextlib.contextmanager
def _streaming(made: Mapping[str, tuple[Callable[[int], Raw], int]]) -> Iterator[tuple[int, int]]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(made, theirs), daemon=True)
    server.start()
    try:
        yield ours.recv()
    finally:
        server.terminate()
        server.join()


def main() -> None:
    """Reads the objects, each time in a new process: as raw objects, Workloads as the caches keep them and as the
    scheduler uses them, and pods as the caches keep them.
    """
    parser = argparse.ArgumentParser(description="The cost of reading many objects into the caches.")
    parser.add_argument("count", type=int, nargs="?", default=50_000)
    parser.add_argument("--pods", action="store_true", help="pods of queued groups instead of Workloads")
    parser.add_argument("--live", action="store_true", help="both at once, while admission calls are answered")
    parser.add_argument("--topology", action="store_true", help="other pods, on a tenth as many nodes with a topology")
    parser.add_argument("--rate", type=float, default=50.0, help="calls a second meanwhile (default 50)")
    chosen = parser.parse_args()
    if chosen.live or chosen.topology:
        found = _read(_of_nodes(chosen.count), chosen.rate) if chosen.topology else read_live(chosen.count, chosen.rate)
        print(f"{found.read} in {found.seconds:.1f} s, RSS {found.rss:.0f} MiB")
        for second in found.during:
            print(f"while they are read  {second}")
        print(f"all of that          {found.whole}")
        turns = found.turns
        print(f"CPU of a turn        p50 {turns.p50:.2f} ms   p99 {turns.p99:.2f} ms   longest {turns.longest:.1f} ms")
        print(f"afterwards           {found.after}")
        return
    made = pod if chosen.pods else workload
    plural = (POD.resource if chosen.pods else WORKLOADS).plural
    with streaming({plural: made}, chosen.count) as (port, size):
        print(f"{chosen.count} {'pods' if chosen.pods else 'Workloads'}, {size / 2**20:.0f} MiB of JSON")
        for name in ("raw", "lean") if chosen.pods else ("raw", "kept", "value"):
            print(f"as {name}:", flush=True)
            measuring = multiprocessing.get_context("spawn").Process(
                target=_measure, args=(name, port, chosen.count, chosen.pods)
            )
            measuring.start()
            measuring.join()


if __name__ == "__main__":
    main()
