"""Kills the manager at each of its writes, in its own cluster and in the workers, and starts it again.

Its controller runs in this process, so that a start costs a fraction of a second: when it is about to make an armed
write it may write nothing any more, is cancelled, and the next one knows only what the API servers have. One round of
``play`` makes all these writes; rounds follow until each of them was met, before it reaches the API server and after.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress

import orjson

from api.objects import Raw
from controller.kube import config
from controller.kube.client import Client
from controller.run.controller import Controller
from controller.settings import ControllerSettings, MultiKueueSettings, Reading
from core.jobs.elastic import GATE
from core.multikueue.group import Policy
from core.multikueue.kubeconfig import Allowed
from tests.cluster.fleet import Fleet
from tests.cluster.world import World, condition, done, job, local_queue, ours
from tests.faults import Fault, FaultProxy, Request, Reset, proxied
from tests.write_points import MANAGER_POINTS, WORKER_POINTS, Matches

MANAGED = "kueue.x-k8s.io/multikueue"
WITHIN = 600.0
MOST_PLAYS = 5
"""After so many plays for each round the rest of the writes is given up."""
FINALIZER = "kueue.x-k8s.io/resource-in-use"


class Mortal:
    """The manager's controller. ``left`` are the writes, and whether they reach the API server, at which it still has
    to end; ``ended_at`` those at which it did.
    """

    def __init__(self, manager: FaultProxy, workers: list[FaultProxy], ends: Counter[tuple[str, bool]]) -> None:
        self.left = ends
        self.ended_at: list[str] = []
        self._connection = manager.connection
        self._client: Client | None = None
        self._life: asyncio.Task[None] | None = None
        manager.draw = lambda request: self._draw(request, MANAGER_POINTS)
        for proxy in workers:
            proxy.draw = lambda request: self._draw(request, WORKER_POINTS)

    async def run(self) -> None:
        """Starts the controller again whenever it has ended, until this is cancelled."""
        policy = Policy(orchestrated=True)
        settings = ControllerSettings(
            multikueue=MultiKueueSettings(policy, gc_interval=1.0, allowed=Allowed(http=True)),  # that of the proxies
            reading=Reading(preemption_gates=True),
        )
        while True:
            async with Client(self._connection) as self._client:
                self._life = asyncio.create_task(Controller(self._client, settings).run())
                try:
                    await asyncio.wait({self._life})
                finally:
                    self._life.cancel()
                    with suppress(asyncio.CancelledError):
                        await self._life

    def _draw(self, request: Request, points: Mapping[str, Matches]) -> Fault | None:
        if request.method == "GET" or self._client is None or self._life is None:
            return None
        if not self._client.may_write():
            return Reset()  # it was on its way when the process ended
        body = orjson.loads(request.body) if request.body else {}
        met = (key for key in self.left if key[0] in points and points[key[0]](request, body))
        key = next(met, None)
        if key is None:
            return None
        self.left -= Counter({key: 1})
        self.ended_at.append(key[0])
        self._client.may_write = lambda: False
        self._life.cancel()
        return Reset(reaches=key[1])


def ends_at(chance: random.Random, sides: int) -> Counter[tuple[str, bool]]:
    """Returns each write once, at both sides (before it reaches the API server and after) or at one of them."""
    points = [*MANAGER_POINTS, *WORKER_POINTS]
    return Counter((point, reaches) for point in points for reaches in chance.sample((False, True), sides))


async def crashes(
    fleet: Fleet,
    *,
    rounds: int = 1,
    ends: Counter[tuple[str, bool]] | None = None,
    report: Callable[[str], None] = lambda sentence: None,
) -> dict[str, int]:
    """Ends the manager so many times at each write before and after, or as ``ends`` says; returns how often at which.
    ``report`` gets a sentence after each round.

    The program of the manager must not run: it is ended here, and is started again afterwards.
    """
    ends = ends or Counter(dict.fromkeys(ends_at(random.Random(), sides=2), rounds))
    await asyncio.to_thread(fleet.services[0].kill)
    for kind in ("validating", "mutating"):  # nobody answers them
        fleet.manager.plane.kubectl("delete", f"{kind}webhookconfigurations", "--all", check=True)
    try:
        async with AsyncExitStack() as stack:
            manager, *workers = [
                await stack.enter_async_context(proxied(config.load(plane.kubeconfig))) for plane in fleet.planes
            ]
            for plane, proxy in zip(fleet.planes[1:], workers, strict=True):
                await asyncio.to_thread(fleet.rotate, plane.spec.name, proxy.kubeconfig)
            mortal = Mortal(manager, workers, ends)
            running = asyncio.create_task(mortal.run())
            try:
                for number in range(MOST_PLAYS * rounds):
                    await asyncio.to_thread(play, fleet, number)
                    report(f"round {number}: {len(mortal.ended_at)} ends of the manager, {mortal.left.total()} left")
                    if not mortal.left or running.done():
                        break
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
    finally:
        for plane in fleet.planes[1:]:
            await asyncio.to_thread(fleet.rotate, plane.spec.name, plane.kubeconfig.read_text())
        await asyncio.to_thread(fleet.services[0].ready)
    return dict(Counter(mortal.ended_at))


def managed(name: str, queue: str, *, cpu: int = 1, seconds: float = 600.0, by: str = MANAGED) -> Raw:
    """A Job that waits, and runs elsewhere."""
    made = job(name, queue, cpu=cpu, pods=1, seconds=seconds)
    made["spec"] |= {"managedBy": by, "suspend": True}
    return made


def play(fleet: Fleet, number: int) -> None:
    """Has the manager make each of its writes, and waits until all is as it must be in the end.

    One Job ends, one is evicted in its worker and one here, one is too large for any worker and gets another priority,
    one belongs to another controller, one is resized while it runs, one must preempt another in its worker, and there
    is a cluster that cannot be used.
    """
    here, queue = fleet.manager, f"crash-{number}"
    unusable = f"unusable-{number}"
    fleet.connect(unusable, "users: [x]")
    fleet.check(unusable, unusable)
    fleet.queue(queue, here=200, there=(8, 8))
    held = f"held-{number}"
    for world in (here, *fleet.workers):
        world.create(local_queue(held, here.full(queue)))
    gated = f"gated-{number}"
    _occupied(fleet, gated)
    ends, there, stops, wide, other = (f"{name}-{number}" for name in ("ends", "there", "stops", "wide", "other"))
    sized = f"sized-{number}"
    here.create(
        managed(ends, queue, seconds=0.5),
        managed(there, queue),
        managed(stops, held),
        managed(wide, queue, cpu=100),
        managed(other, queue, by="example.com/other"),
        managed(gated, gated),
        _elastic(sized, queue),
    )
    until(here, f"{sized} runs", lambda: _ready(fleet, sized) == 1)
    here.patch("jobs", sized, {"spec": {"parallelism": 3}})
    for name in (there, stops):
        until(here, f"{name} runs", lambda name=name: _active(here, name) and len(fleet.where(name)) == 1)
    _evict_there(fleet, there)
    until(here, "it has more pods", lambda: _ready(fleet, sized) == 3)
    here.patch("jobs", sized, {"spec": {"parallelism": 2}})
    here.patch("localqueues", held, {"spec": {"stopPolicy": "HoldAndDrain"}})
    until(here, "the large one is reported", lambda: "No worker cluster can" in _message(here, wide))
    name = _workload(here, wide)
    until(here, "all workers have the copy", lambda: all(each.get("workloads", name) for each in fleet.workers))
    fleet.workers[0].patch("workloads", name, {"metadata": {"finalizers": [FINALIZER]}})
    here.patch("workloads", name, {"spec": {"priority": 7}})
    until(here, "the copies follow", lambda: all(_priority(each, name) == 7 for each in fleet.workers))
    until(here, "the other controller's Job is rejected", lambda: _state(here, other) in ("Rejected", ""))
    until(here, "the one that ends has ended", lambda: here.condition(ends, "Finished")[0] == "True")
    assert done(here.jobs()[ends])
    until(here, "the stopped one has no quota", lambda: here.condition(stops, "QuotaReserved")[0] == "False")
    until(here, "and is nowhere", lambda: fleet.where(stops) == [])
    until(here, "the evicted one runs again", lambda: _active(here, there) and len(fleet.where(there)) == 1)
    until(here, "it has fewer pods", lambda: _ready(fleet, sized) == 2)
    until(here, "the one that preempts runs", lambda: _active(here, gated) and len(fleet.where(gated)) == 1)
    wanted = ("False", "NoUsableClusters", f"Inactive clusters: [{unusable}]")
    until(here, "its check is reported", lambda: condition(here.get("admissionchecks", unusable), "Active") == wanted)
    names = (ends, there, stops, wide, other, sized, gated)
    for name in names:
        here.delete("jobs", name)
    for world in fleet.workers:
        world.delete("jobs", _victim(gated))
    until(here, "no worker has anything", lambda: not any(each.jobs() or _all(each) for each in fleet.workers))
    until(here, "nor the manager", lambda: not here.workloads().keys() & set(names))
    here.delete("multikueueclusters", unusable)


def _victim(queue: str) -> str:
    return f"victim-{queue}"


def _occupied(fleet: Fleet, queue: str) -> None:
    """A queue with room for one pod in each worker, where a Job of the worker itself has it, of low priority."""
    fleet.queue(queue, there=(1, 1))
    low = fleet.manager.full(f"low-{queue}")
    for world in fleet.workers:
        preempts = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        world.patch("clusterqueues", world.full(queue), preempts)
        priority = {**ours("WorkloadPriorityClass", low, {}), "value": -1}
        del priority["spec"]
        world.create(priority)
        world.job(_victim(queue), queue, seconds=600.0, labels={"kueue.x-k8s.io/priority-class": low})
        until(world, "its own Job runs", lambda world=world: _active(world, _victim(queue)))


def _elastic(name: str, queue: str) -> Raw:
    """A Job of one pod that may have three."""
    made = managed(name, queue)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    made["spec"]["completions"] = 3
    made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]  # no webhook adds it
    return made


def _ready(fleet: Fleet, name: str) -> int:
    """How many pods of a Job run in the worker that has it."""
    found = [world.jobs().get(name, {}).get("status", {}).get("ready", 0) for world in fleet.workers]
    return sum(found) if len(fleet.where(name)) == 1 else 0


def until(world: World, station: str, question: object) -> None:
    """As ``World.until``, with more patience: the manager may end several times meanwhile."""
    world.until(station, question, within=WITHIN)  # type: ignore[arg-type]


def _active(world: World, name: str) -> bool:
    found = world.jobs().get(name, {})
    return found.get("status", {}).get("active") == 1 and not found["spec"]["suspend"]


def _workload(world: World, name: str) -> str:
    found: str = world.until("it has its Workload", lambda: world.workload(name))["metadata"]["name"]
    return found


def _evict_there(fleet: Fleet, name: str) -> None:
    """The worker evicts the copy, because it is deactivated there."""
    copy = _workload(fleet.manager, name)
    (place,) = (int(each.removeprefix("worker")) for each in fleet.where(name))
    fleet.workers[place - 1].patch("workloads", copy, {"spec": {"active": False}})
    until(fleet.manager, "its eviction is known", lambda: "Evicted" in _conditions(fleet.manager, name))


def _conditions(world: World, name: str) -> set[str]:
    found = world.workload(name).get("status", {}).get("conditions", [])
    return {each["type"] for each in found}


def _checks(world: World, name: str) -> list[Raw]:
    return world.workload(name).get("status", {}).get("admissionChecks") or []


def _message(world: World, name: str) -> str:
    return "".join(each.get("message", "") for each in _checks(world, name))


def _state(world: World, name: str) -> str:
    return next((each["state"] for each in _checks(world, name)), "")


def _priority(world: World, name: str) -> int | None:
    found: int | None = world.get("workloads", name).get("spec", {}).get("priority")
    return found


def _all(world: World) -> list[Raw]:
    """The Workloads of the namespace, also those without a job."""
    found: list[Raw] = world.get("workloads").get("items", [])
    return found
