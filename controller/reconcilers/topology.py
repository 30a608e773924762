"""The nodes of topologies and what other pods use of them, for State.

Nothing is followed and nothing is counted until a ResourceFlavor names a Topology. Then the pods on all nodes are
followed, with the guard's watch. State gets the first node when all nodes and pods are known: with a part of the pods,
nodes would seem to have room that they have not. From then on it gets what placement depends on, and no heartbeats:
also the devices of a node, as one more of the resources that it has.

When no flavor names a Topology any more, and no Workload holds domains, all of it ends: nothing is kept, and it begins
again with the next flavor. Workloads that were placed are looked after until then: their nodes may fail, and their pods
may come again.

Pods that ask for a topology are not counted: their Workload is. Everybody may annotate pods, so that holds only for
pods that name a Workload which exists and is placed; whether it has quota for them is what the guard looks after.
Pods of an elastic job that ran before it changed its size stay where they are: those for which its new Workload has no
domain there count.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import structlog
from msgspec import structs

from api import resources
from controller.cache.caches import Caches
from controller.cache.switch import Switch
from controller.kube.store import SLICE
from controller.reconcilers.living import LivingPods
from core.devices.inventory import EVERY_NODE, Inventory
from core.guard.domains import with_domain
from core.guard.pods import RunningPod
from core.jobs import meta
from core.model import Key, Node, Raw, Workload
from core.model.kubernetes import Labels
from core.quota.usage import holds_quota
from core.steps import Steps
from core.topology.others import OtherPods
from core.workload.ungating import has_domains, is_placed, named, of_pods

BATCH_SECONDS = 0.1
"""Pods come and go in groups: State gets the sums of their nodes so long after the first of them, or before the next
decision.
"""
JUDGED = 250
"""So many pods of an elastic job are judged in one step, of some hundred microseconds."""
PATIENCE_SECONDS = 5.0
"""A longer wait for the first lists is logged."""

log = structlog.get_logger(__name__)


class Followed(Protocol):
    """A reflector, as far as it is needed here."""

    @property
    def synced(self) -> asyncio.Event:
        """Set after the first list."""


class TopologyNodes:
    """Keeps the nodes of State. ``run`` it on each replica: one that begins to lead then knows them.

    ``known`` is on while State has everything. ``follow`` is called when the pods are to be followed, and when not any
    more, ``wake`` after State has changed.
    """

    def __init__(
        self, caches: Caches, pods: LivingPods, *, follow: Callable[[bool], None], wake: Callable[[], None]
    ) -> None:
        self.caches = caches
        self.pods = pods
        self._begin()
        self._changes = itertools.count(1)
        self.known = Switch()
        self._follow = follow
        self._wake = wake
        self._wanted = Switch()
        self._counted = asyncio.Event()
        self._flavors = caches.stores[resources.RESOURCE_FLAVORS]
        self._held: dict[Key, None] = {}
        """The Workloads that hold quota and domains."""
        self._enabled = caches.state.placement is not None
        self._flavors.listen(self._flavor)

    def _begin(self) -> None:
        """Nothing is known of pods and Workloads."""
        self.others = OtherPods()
        self._workloads: dict[Key, dict[Key, None]] = {}
        """The Workloads that ask for a topology or were placed in one, by the name that their pods have."""
        self._placed: dict[Key, dict[str, RunningPod]] = {}
        """The pods that ask for a topology, by the Workload that they name and by uid."""
        self._resized: dict[Key, dict[str, RunningPod]] = {}
        """Elastic jobs that have changed their size, by the name that their pods have: the pods that count, because
        they run outside of the domains of the newest Workload, by uid.
        """
        self._unjudged: dict[Key, int] = {}
        """Those of them of which something has changed, with the number of the last change."""
        self._judged: dict[Key, int] = {}
        """The change up to which those of them are judged."""
        self._entering = False
        """Whether State gets the nodes."""

    async def run(self, nodes: Followed, pods: Followed) -> None:
        """Follows nodes and pods until cancelled, while a flavor has a topology or a Workload has domains."""
        if not self._enabled:
            return
        for _ in self.caches.observe(self._hold):
            await asyncio.sleep(0)
        self._look()
        while True:
            await self._wanted.while_on(partial(self._serve, nodes, pods))
            self.known.turn(False)
            for _ in self.leave():
                await asyncio.sleep(0)
            self._follow(False)
            log.info("no flavor has a topology: the pods on all nodes are not counted any more")

    async def while_known(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs something until cancelled while State has everything, each time from the start."""
        while True:
            await self.known.while_on(run)

    async def _serve(self, nodes: Followed, pods: Followed) -> None:
        self._follow(True)
        log.info("a flavor has a topology: the pods on all nodes are counted")
        await nodes.synced.wait()
        await pods.synced.wait()
        for _ in self.enter():
            await asyncio.sleep(0)
        self.known.turn(True)
        self._wake()
        while True:
            await self._counted.wait()
            await asyncio.sleep(BATCH_SECONDS)
            self._counted.clear()
            for _ in self.flush():
                await asyncio.sleep(0)

    async def complete(self) -> None:
        """Returns when State has all nodes, if a flavor has a topology."""
        self._look()
        if not self._wanted:
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._wanted.while_on(self.known.is_on)
        except TimeoutError:
            log.warning("waiting for the first list of nodes and pods, because a flavor has a topology")
            await self._wanted.while_on(self.known.is_on)

    def enter(self) -> Iterator[None]:
        """Enters what is known of pods and nodes, in steps, and listens to changes."""
        yield from self.caches.observe(self._workload)
        yield from self.pods.catch_up(self._pod)
        yield from self.flush()
        self._entering = True  # no node before the pods on it
        for place, node in enumerate(tuple(self.caches.nodes), start=1):
            yield from self._match(node)
            if not place % SLICE:
                yield
        entering = self.caches.nodes.catch_up(self._node)
        next(entering, None)  # listens from here on: before, nothing is entered that could change unseen
        self.caches.reequip = self._reequip
        yield from entering

    def leave(self) -> Iterator[None]:
        """Undoes ``enter``, in steps: listens to nothing, and removes from State what was entered."""
        state = self.caches.state
        self.caches.leave(self._workload)
        self.pods.leave(self._pod)
        self.caches.nodes.leave(self._node)
        self.caches.reequip = lambda nodes: None
        self._begin()
        placement = state.placement
        if placement is None:
            return
        for place, name in enumerate((*placement.nodes, *placement.others), start=1):
            state.set_node(name, None)
            state.set_other_pods(name, {})
            if not place % SLICE:
                yield

    def flush(self) -> Iterator[None]:
        """Enters what other pods use on the nodes where that has changed, in steps; also before the scheduler decides,
        so that a pod that is known counts. Two may run at once: each ends when all is entered that was known when it
        began, and what is entered is what is used then.
        """
        for key in tuple(self._unjudged):
            yield from self._judge(key)
        place = 0
        for place, node in enumerate(self.others.take_changed(), start=1):
            self.caches.state.set_other_pods(node, self.others.used(node))
            if not place % SLICE:
                yield
        if place and self.known:
            self._wake()

    def _flavor(self, old: Raw | None, new: Raw | None) -> None:
        if any(each is not None and _has_topology(each) for each in (old, new)):
            self._look()

    def _hold(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload changed: whether it holds domains now."""
        if new is not None and has_domains(new) and holds_quota(new):
            self._held[new.key] = None
            if not self._wanted:
                self._look()
        elif self._held and (either := new or old) is not None and self._held.pop(either.key, self) is None:
            self._look()

    def _look(self) -> None:
        self._wanted.turn(self._enabled and (bool(self._held) or any(map(_has_topology, self._flavors))))

    def _node(self, old: Node | None, new: Node | None) -> None:
        """A node changed, or only its heartbeat."""
        if old == new:
            return
        if new is not None:
            self._enter_node(new)
        elif old is not None:
            self.caches.state.set_node(old.name, None)
        if self.known:
            self._wake()

    def _enter_node(self, node: Node) -> None:
        """Enters a node. If its devices are not counted in one step, what else has changed counts at once, with what
        pods could use of the node before; a node that is new waits for its devices.
        """
        state, steps = self.caches.state, self._match(node)
        try:
            next(steps)
        except StopIteration as end:
            state.set_node(node.name, end.value)
            return
        before = state.placement.nodes.get(node.name) if state.placement is not None else None
        if before is not None:
            state.set_node(node.name, structs.replace(node, allocatable=before.allocatable))
        self._reequip([node.name])

    def _match(self, node: Node) -> Steps[Node]:
        """Returns a node with its devices, in steps; what selectors match is remembered from one time to the next."""
        devices = self.caches.devices
        return (yield from devices.equipped(node)) if isinstance(devices, Inventory) else node

    def _reequip(self, names: Iterable[str]) -> None:
        """The devices of nodes have changed."""
        for name in names:
            self.caches.in_steps(("devices of nodes", name), partial(self._equipping, name))

    def _equipping(self, name: str) -> Iterator[None]:
        yield from self._equip([name] if name != EVERY_NODE else [node.name for node in self.caches.nodes])
        self._wake()

    def _equip(self, names: Iterable[str]) -> Iterator[None]:
        for place, name in enumerate(names, start=1):
            node = self.caches.nodes.get(Key("", name))
            if node is not None:
                equipped = yield from self._match(node)
                changed = self.caches.nodes.get(Key("", name)) != node
                if self._entering and not changed:  # else its change was entered meanwhile
                    self.caches.state.set_node(name, equipped)
            if not place % SLICE:
                yield

    def _pod(self, old: RunningPod | None, new: RunningPod | None) -> None:
        if old is not None and new is not None and _same(old, new):
            if new.node and (account := workload_of(new)) is not None:
                self._note(account, new, 1)  # its newest state is the one that is gone later
            return
        for pod, sign in ((new, 1), (old, -1)):
            if pod is None or not pod.node:
                continue
            account = workload_of(pod)
            if account is not None:
                self._note(account, pod, sign)
            if account in self._resized:
                self._unjudge(account)
            if account not in self._workloads:
                self._count(pod, sign)

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload changed: from when it is to be placed until it is gone, the pods that name it do not count; also
        while they terminate after its eviction.
        """
        either = new or old
        if either is None:
            return
        key = of_pods(either)
        known = key in self._workloads
        if new is None:
            slices = self._workloads.get(key, {})
            slices.pop(either.key, None)
            if not slices:
                self._workloads.pop(key, None)
        elif is_placed(new):
            self._workloads.setdefault(key, {})[new.key] = None
        now = key in self._workloads
        if not now:
            self._judged.pop(key, None)
            for pod in self._resized.pop(key, {}).values():
                self._count(pod, -1)
        for pod in self._placed.get(key, {}).values() if now != known else ():
            self._count(pod, -1 if now else 1)
        if now and _is_resized(either):
            self._resized.setdefault(key, {})
            self._unjudge(key)

    def _unjudge(self, key: Key) -> None:
        self._unjudged[key] = next(self._changes)
        self._counted.set()

    def _judge(self, key: Key) -> Iterator[None]:
        """Counts the pods of an elastic job for which its newest Workload has no domain on their node, in steps. What
        changes meanwhile is judged by the next flush; if that ends first, nothing older is counted any more.
        """
        change = self._unjudged.get(key)
        if change is None:
            return  # another flush has judged it
        found = (self.caches.get(each) for each in self._workloads.get(key, ()))
        counted = [each for each in found if each is not None and each.admission is not None and holds_quota(each)]
        newest = max(counted, key=lambda each: (each.created, each.key.name), default=None)
        now: dict[str, RunningPod] = {}
        if newest is not None and _is_resized(newest):
            pods = dict(sorted(self._placed.get(key, {}).items()))
            running = (self._labels(pod.node) for pod in pods.values())
            for place, (uid, has) in enumerate(zip(pods, with_domain(newest, running), strict=True), start=1):
                if not has:
                    now[uid] = pods[uid]
                if not place % JUDGED:
                    yield
        if self._unjudged.get(key) == change:
            del self._unjudged[key]
        before = self._resized.get(key)
        if before is None or change < self._judged.get(key, 0):
            return  # its Workloads are gone meanwhile, or a later state of it is judged
        self._resized[key], self._judged[key] = now, change
        for one, other, sign in ((before, now, -1), (now, before, 1)):
            for uid, pod in one.items():
                if uid not in other or not _same(pod, other[uid]):
                    self._count(pod, sign)

    def _labels(self, node: str) -> Labels:
        found = self.caches.nodes.get(("", node))
        return found.labels if found is not None else {}

    def _note(self, account: Key, pod: RunningPod, sign: int) -> None:
        pods = self._placed.setdefault(account, {})
        if sign > 0:
            pods[pod.uid] = pod
        elif pods.get(pod.uid) is pod:
            del pods[pod.uid]
        if not pods:
            del self._placed[account]

    def _count(self, pod: RunningPod, sign: int) -> None:
        count = self.others.add if sign > 0 else self.others.remove
        count(pod.node, pod.shape.own)
        self._counted.set()


def _is_resized(workload: Workload) -> bool:
    """Whether a Workload is a slice of an elastic job that has replaced another one."""
    return workload.slice_name not in ("", workload.key.name)


def workload_of(pod: RunningPod) -> Key | None:
    """The Workload that accounts for a pod, as the pod has it; None if it asks for no topology or names none."""
    name = named(meta.annotations(pod.kin.raw)) if pod.kin.placed else ""
    return Key(pod.kin.namespace, name) if name else None


def _has_topology(flavor: Raw) -> bool:
    return bool((flavor.get("spec") or {}).get("topologyName"))


def _same(old: RunningPod, new: RunningPod) -> bool:
    """Whether nothing changed that counts on the node."""
    return old.node == new.node and old.shape is new.shape and workload_of(old) == workload_of(new)
