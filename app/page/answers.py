"""The documents that the page asks for, each for one user: nothing is in them that his rights do not show.

Separate from ``app.page.application``, which knows HTTP. What is computed for many workloads is computed in pieces, and
one answer after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from api import resources
from api.objects import Key, Raw
from api.visibility import Page
from app.limits import RefusedCallError
from app.page.rights import Rights
from app.pieces import in_pieces
from controller.cache.caches import Caches
from core.explain.parts import job_name
from core.forecast.run_times import RunTimes
from core.page import overview, queue
from core.queue.queue import QueueEntry
from core.state.lookup import Lookup
from core.state.orders import Order, Orders
from core.state.queue_status import holders, reservations

MOST_DISCOVERED: Final = 30
"""If no more namespaces than these have LocalQueues, a user is shown those that he may read; else he names them."""
DEFAULT_ROWS, MOST_ROWS = 100, 500


class PageAnswers:
    """Computes the answers. ``run_times`` returns how much longer a workload runs; None where that is not learned."""

    def __init__(
        self,
        caches: Caches,
        lookup: Lookup,
        run_times: RunTimes | None,
        *,
        version: str,
        history: bool = False,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caches = caches
        self.lookup = lookup
        self._run_times = run_times
        self._version = version
        self._history = history
        self._clock = clock
        self._monotonic = monotonic
        self._orders = Orders(lookup.state)
        self._one_at_a_time = asyncio.Lock()

    async def me(self, rights: Rights, namespace: str) -> Raw:
        """Returns who the user is, what he may see, and what this installation has."""
        shown = (
            ("clusterQueues", resources.CLUSTER_QUEUES),
            ("cohorts", resources.COHORTS),
            ("workloads", resources.WORKLOADS),
            ("localQueues", resources.LOCAL_QUEUES),
            ("nodes", resources.NODES),
            ("workers", resources.MULTIKUEUE_CLUSTERS),
        )
        may = await asyncio.gather(*(rights.may("list", resource) for _, resource in shown))
        state = self.lookup.state
        return {
            "user": rights.user.name,
            "may": {name: allowed for (name, _), allowed in zip(shown, may, strict=True)},
            "namespaces": await self._namespaces(rights, namespace),
            "fairSharing": state.policy.fair_sharing is not None,
            "topologies": sorted(
                name for name, flavor in state.reservations.flavors.items() if flavor.topology_name is not None
            )
            if may[4]
            else [],
            "workers": len(self.caches.stores[resources.MULTIKUEUE_CLUSTERS]) if may[5] else 0,
            "history": self._history,
            "version": self._version,
            "now": self._clock(),
        }

    async def _namespaces(self, rights: Rights, namespace: str) -> list[str]:
        """Returns the namespaces with LocalQueues that the user may list, as far as they can be found cheaply: the one
        that he names, his own as a ServiceAccount, and all if they are few.
        """
        parts = rights.user.name.split(":")
        own = parts[2:3] if parts[:2] == ["system", "serviceaccount"] else []
        known = dict.fromkeys(key.namespace for key in self.lookup.state.pending.local_queues)
        if await rights.may("list", resources.LOCAL_QUEUES):
            return sorted(known)
        wanted = dict.fromkeys(each for each in (namespace, *own) if each)
        if len(known) <= MOST_DISCOVERED:
            wanted |= known
        may = await asyncio.gather(*(rights.may("list", resources.LOCAL_QUEUES, each) for each in wanted))
        return sorted(each for each, allowed in zip(wanted, may, strict=True) if allowed)

    async def cluster_queue(self, rights: Rights, name: str) -> Raw:
        """Returns a ClusterQueue: its row, its LocalQueues, and how many of its workloads there are."""
        await rights.require("list", resources.CLUSTER_QUEUES)
        row = overview.queue_row(self.lookup.state, name)
        spec = self.caches.cluster_queues.get(("", name))
        if row is None or spec is None:
            raise RefusedCallError(404, f'there is no ClusterQueue "{name}"')
        below = overview.local_queues_of(self.lookup.state, name)
        all_of_them = await rights.may("list", resources.LOCAL_QUEUES)
        if not all_of_them:
            sight = await rights.sight(each.key.namespace for each in below)
            below = [each for each in below if each.key.namespace in (sight.namespaces or ())]
        queues = [overview.local_queue_row(self.lookup.state, each.key) for each in below[:MOST_ROWS]]
        return {"row": row, "spec": spec.get("spec") or {}, "localQueues": queues, "now": self._clock()}

    async def local_queue(self, rights: Rights, key: Key) -> Raw:
        """Returns a LocalQueue."""
        await rights.require("list", resources.LOCAL_QUEUES, key.namespace)
        row = overview.local_queue_row(self.lookup.state, key)
        if row is None:
            raise RefusedCallError(404, f'there is no LocalQueue "{key.name}" in the namespace "{key.namespace}"')
        return {"row": row, "localQueues": [], "now": self._clock()}

    async def line(self, rights: Rights, name: str, local_queue: Key | None, page: Page) -> Raw:
        """Returns a part of the workloads that wait for a queue, in order."""
        target = await self._target(rights, name, local_queue)
        async with self._one_at_a_time:
            order = await in_pieces(self._orders.fresh(target, self._monotonic()))
            chosen = await self._chosen(order, local_queue, page)
        sight = await rights.sight(entry.workload.key.namespace for _, entry in chosen)
        async with self._one_at_a_time:
            now = self._clock()
            rows = await in_pieces(
                queue.line(self.lookup.state, target, chosen, sight, self.lookup.forecast, self.job_of, now)
            )
        total = len(order.entries) if local_queue is None else self.lookup.pending_for(local_queue)
        return {"total": total, "offset": page.offset, "rows": rows, "now": self._clock()}

    async def _chosen(self, order: Order, local_queue: Key | None, page: Page) -> list[tuple[int, QueueEntry]]:
        """Returns the workloads of a page with their positions in the ClusterQueue."""
        first, last = page.offset, page.offset + page.limit
        if local_queue is None:
            return list(enumerate(islice(order.entries, first, last), first))
        positions = await in_pieces(order.positions(local_queue))
        return [(position, order.entries[position]) for position in positions[first:last]]

    async def running(self, rights: Rights, name: str, local_queue: Key | None, page: Page) -> Raw:
        """Returns a part of the workloads that hold quota of a queue, the latest first."""
        target = await self._target(rights, name, local_queue)
        state = self.lookup.state
        held = reservations(state, target) if local_queue is None else holders(state, local_queue)
        chosen = (await in_pieces(queue.latest(held, page.offset + page.limit)))[page.offset :]
        sight = await rights.sight(each.workload.key.namespace for each in chosen)
        async with self._one_at_a_time:
            now = self._clock()
            rows = await in_pieces(queue.running(chosen, sight, self._run_times, self.job_of, now))
        return {"total": len(held), "offset": page.offset, "rows": rows, "now": now}

    async def _target(self, rights: Rights, name: str, local_queue: Key | None) -> str:
        """Returns the ClusterQueue of a question, whose workloads the user may ask for."""
        if local_queue is None:
            await rights.require("list", resources.CLUSTER_QUEUES)
            if self.lookup.cluster_queue(name) is None:
                raise RefusedCallError(404, f'there is no ClusterQueue "{name}"')
            return name
        await rights.require("list", resources.WORKLOADS, local_queue.namespace)
        found = self.lookup.local_queue(local_queue)
        if found is None:
            text = f'there is no LocalQueue "{local_queue.name}" in the namespace "{local_queue.namespace}"'
            raise RefusedCallError(404, text)
        return found.cluster_queue

    def job_of(self, key: Key) -> str:
        """Returns the name of the job of a Workload, '' if it has none."""
        return job_name(self.caches.workloads.get(key))
