"""The nodes of admitted workloads with a topology: failed ones are written to their statuses, and pods that wait for a
node that does not take them are ended. Gathers what is known for the rules of ``core.workload.node_failures``.

A workload is looked at when it changes, when one of its nodes does, and when one of its pods on a node begins to
terminate or is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from api import resources
from api.objects import Key
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.errors import Conflict, NotFound
from controller.kube.log import get_logger
from controller.reconcilers.living import LivingPods
from core.actions import Action, Wait
from core.guard.pods import RunningPod
from core.jobs import meta
from core.model import Node, Workload, events
from core.topology.health import FailureRules, NodeHealth, health
from core.workload import node_failures
from core.workload.node_failures import assigned_nodes, tolerations
from core.workload.ungating import named, of_pods

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
"""Pods that wait for a node are listed after a second, and again each time twice as long later."""
LATE_TRIES = 6
"""So often they are listed after a workload has left a node: pods may have been started for it just before."""
PENDING = "spec.nodeName=,status.phase=Pending"
"""The field selector of pods that are on no node yet."""

log = get_logger(__name__)


class WorkloadNodes(NamedTuple):
    """A workload, the health of the nodes on which its pods are placed, and the time."""

    workload: Workload
    nodes: Mapping[str, NodeHealth]
    now: float


class NodeFailures(Reconciler[WorkloadNodes]):
    """Reconciles the workloads with a topology assignment. ``run`` it while this process leads."""

    workers = 5

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        recorder: Recorder,
        pods: LivingPods,
        rules: FailureRules,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is decided before the ``nodes`` of the caches are known: it is connected then."""
        super().__init__("node-failures", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.pods = pods
        self.rules = rules
        self._client = client
        self._on: dict[str, dict[Key, None]] = {}
        """By node the workloads that have pods placed there."""
        self._running: Counter[tuple[str, str, str]] = Counter()
        """Pods that are on a node and do not terminate, by namespace, workload (or its slices) and node."""
        self._late: dict[Key, dict[str, int]] = {}
        """By workload the nodes for which pods may wait in vain, and how often these were listed."""

    def everything(self) -> Iterator[None]:
        """Listens to changes, and queues all workloads that have nodes, in steps. To be called when State has nodes."""
        yield from self.pods.catch_up(self._pod)
        yield from self.caches.observe(self._workload)
        self.caches.nodes.listen(self._node)

    async def run(self) -> None:
        """Listens to changes and reconciles until cancelled; once."""
        try:
            for _ in self.everything():
                await asyncio.sleep(0)
            await super().run()
        finally:
            self.pods.leave(self._pod)
            self.caches.leave(self._workload)
            self.caches.nodes.leave(self._node)

    def gather(self, key: Key) -> WorkloadNodes | None:
        """What is known of a workload; None if it is gone, or a decision of the cycle is not written yet."""
        workload, state = self.caches.get(key), self.caches.state
        if workload is None or state.assumed(key) or state.is_evicting(key):
            return None
        now, nodes = self.clock(), {}
        for name, placed in assigned_nodes(workload).items():
            tolerated = tolerations(workload, placed, state.reservations.flavors)
            runs = self._running[_running(workload, name)] > 0
            nodes[name] = health(self.caches.nodes.get(("", name)), tolerated, self.rules, now, runs=runs)
        return WorkloadNodes(workload, nodes, now)

    def decide(self, situation: WorkloadNodes) -> Action:
        """The next write of a workload."""
        return node_failures.decide(situation.workload, situation.nodes, situation.now)

    def about(self, situation: WorkloadNodes) -> tuple[Key, str]:
        """The workload."""
        return situation.workload.key, situation.workload.uid

    async def idle(self, key: Key, situation: WorkloadNodes, wait: Wait) -> float | None:
        """Ends the pods that wait for a node which does not take them. Returns when to look again."""
        late = self._late.get(key, {})
        ending = {name for name, found in situation.nodes.items() if found.ends_pods}
        for name in ending - late.keys():
            late = self._late.setdefault(key, {})
            late[name] = 0
        for name in [name for name, tries in late.items() if name not in ending and self._settled(situation, name)]:
            del late[name]
        if not late:
            self._late.pop(key, None)
            return wait.seconds
        await self._end(situation.workload, late.keys())
        for name in late:
            late[name] += 1
        again = min(FIRST_SECONDS * 2.0 ** min(max(late.values()) - 1, 10), LONGEST_SECONDS)
        return again if wait.seconds is None else min(again, wait.seconds)

    def _settled(self, situation: WorkloadNodes, node: str) -> bool:
        """Whether no pods are looked for any more that wait for a node: it takes them again, or they were looked for
        often enough after the workload has left it.
        """
        return node in situation.nodes or self._late[situation.workload.key][node] >= LATE_TRIES

    async def _end(self, workload: Workload, nodes: Iterable[str]) -> None:
        """Ends the pods of a workload that wait for one of these nodes."""
        name, wanted = of_pods(workload).name, frozenset(nodes)
        async for page in self._client.pages(resources.PODS, workload.key.namespace, field_selector=PENDING):
            for raw in page["items"]:
                if named(meta.annotations(raw)) != name or node_failures.waits_for(raw) not in wanted:
                    continue
                key = Key(workload.key.namespace, raw["metadata"]["name"])
                try:
                    body = node_failures.ended(raw, self.clock())
                    await self.writer.patch(resources.PODS, key, body, subresource="status")
                except (Conflict, NotFound):  # it changed: it is looked at again
                    continue
                log.info("pod ended", pod=str(key), node=node_failures.waits_for(raw))
                self.recorder.record(resources.PODS, key, raw["metadata"]["uid"], events.pod_terminated())

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload changed: queues it if it has nodes, or had."""
        if old is not None and new is not None and (old.admission, old.conditions) == (new.admission, new.conditions):
            before = after = assigned_nodes(new)
        else:
            before, after = (assigned_nodes(each) if each is not None else {} for each in (old, new))
        either = new or old
        if either is None or not (before or after):
            return
        key = either.key
        for name in before.keys() - after.keys():
            there = self._on.get(name, {})
            there.pop(key, None)
            if not there:
                self._on.pop(name, None)
        for name in after.keys() - before.keys() if before is not after else ():
            self._on.setdefault(name, {})[key] = None
        if not after:
            self._late.pop(key, None)
        elif left := before.keys() - after.keys():
            self._late.setdefault(key, {}).update(dict.fromkeys(left, 0))
        self.queue.add(key)

    def _node(self, old: Node | None, new: Node | None) -> None:
        """A node changed: queues the workloads on it."""
        if old is not None and new is not None and (old.unready_since, old.taints) == (new.unready_since, new.taints):
            return
        either = new or old
        for key in self._on.get(either.name, ()) if either is not None else ():
            self.queue.add(key)

    def _pod(self, old: RunningPod | None, new: RunningPod | None) -> None:
        """A pod changed: counts it if it runs, and queues its workload if it runs no more."""
        before, after = _place(old), _place(new)
        if before == after:
            return
        if after is not None:
            self._running[after] += 1
        if before is None:
            return
        self._running[before] -= 1
        if not self._running[before]:
            del self._running[before]
            namespace, name, node = before
            for key in self._on.get(node, ()):
                workload = self.caches.get(key)
                if workload is not None and _running(workload, node) == (namespace, name, node):
                    self.queue.add(key)


def _running(workload: Workload, node: str) -> tuple[str, str, str]:
    """Where the pods of a workload on a node are counted."""
    return *of_pods(workload), node


def _place(pod: RunningPod | None) -> tuple[str, str, str] | None:
    """Where a pod is counted; None if it does not run, or names no workload. It need not ask for a topology: where all
    flavors have one, the pods of every workload are placed.
    """
    if pod is None or pod.deleted:
        return None
    name = named(meta.annotations(pod.kin.raw))
    return (pod.kin.namespace, name, pod.node) if name else None
