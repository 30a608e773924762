"""Writes why workloads wait into their statuses, as far as the API server has time for it.

The reason of a workload that was just decided for the first time, or for another reason than before, is written first,
in three of four turns that of the newest decision, because somebody may be watching it, and in the fourth that of the
oldest. Numbers in the message of the same reason change with every cycle; they are written later, and not at all while
the API server is busy. Each write waits for a turn of the budget (``controller.kube.flow.budget``), then for admission
calls, and is computed after both, so a workload that is admitted meanwhile costs no write. ``explain``, webhooks and
the visibility API compute the present reason and do not read the status.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from api import names, resources
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.errors import ApiError
from controller.kube.flow import limits
from controller.kube.flow.budget import Budget
from controller.kube.workqueue import WorkQueue
from core.model import Key, Raw, StayPending, Workload, events
from core.wire.conditions import status_patch, texts
from core.workload import transitions
from core.workload.lifecycle import shows_gate

log = structlog.get_logger(__name__)

MESSAGE_SECONDS = 5.0
"""The minimum time between writes of a condition of which only the message changed."""
LOOK_SECONDS = 1.0
"""How long the numbers wait before they check again whether the API server is busy."""


class WaitReasons:
    """``add`` each decision that a workload waits; ``run`` while this process leads. ``clock`` is wall time."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        budget: Budget,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.budget = budget
        self.clock = clock
        self.reasons = WorkQueue[Key]("wait-reasons", longest_seconds=30.0, newest_first=True)
        self.numbers = WorkQueue[Key]("wait-numbers", longest_seconds=30.0)
        self._decisions: dict[Key, StayPending] = {}
        """The newest decision of each workload whose status does not have it yet."""
        self._written_at: dict[Key, float] = {}

    def add(self, decision: StayPending) -> None:
        """A cycle has decided that this workload waits."""
        workload = decision.workload
        self._decisions[workload.key] = decision
        queue = self.numbers if _reason(workload) == decision.reason else self.reasons
        queue.add(workload.key)

    def drop(self, key: Key) -> None:
        """The workload does not wait any more, or is gone."""
        self._decisions.pop(key, None)
        self._written_at.pop(key, None)

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reasons.run(limits.REASONS_AT_ONCE, self.write), name="wait-reasons")
            group.create_task(self.numbers.run(1, self._write_numbers), name="wait-numbers")

    async def write(self, key: Key) -> float | None:
        """Writes why a workload waits, if its status does not have that. Returns when to check again, in seconds."""
        found = self._change(key)
        if found is None:
            return None
        if patience := self._patience(*found[:2]):
            return patience
        async with self.budget.turn("wait-reasons"), self.writer.turn(key.namespace):
            found = self._change(key)
            if found is None:
                return None
            workload, decision, patch = found
            del self._decisions[key]
            try:
                await self.writer.patch(resources.WORKLOADS, key, patch, subresource="status")
            except ApiError:
                self._decisions.setdefault(key, decision)
                raise
        if self.caches.get(key) is not None:
            self._written_at[key] = self.clock()
        if _reason(workload) != decision.reason:
            queue = decision.cluster_queue
            log.info(
                "workload waits", workload=str(key), cluster_queue=queue, reason=decision.reason, why=decision.message
            )
        if shows_gate(workload):  # decided before its end was in the status
            self.recorder.record(resources.WORKLOADS, key, workload.uid, events.gate_cleared())
        self.recorder.record(resources.WORKLOADS, key, workload.uid, events.waits(decision.reason, decision.message))
        return None

    async def _write_numbers(self, key: Key) -> float | None:
        while self.budget.busy:  # noqa: ASYNC110 - nothing signals its end
            await asyncio.sleep(LOOK_SECONDS)
        return await self.write(key)

    def _change(self, key: Key) -> tuple[Workload, StayPending, Raw] | None:
        """Returns the workload, the decision about it and the patch of its status; None if there is nothing to
        write.
        """
        decision, workload = self._decisions.get(key), self.caches.get(key)
        if decision is None:
            return None
        if workload is None or self.caches.state.assumed(key) or not self._waits_still(decision):
            self.drop(key)
            return None
        now = self.clock()
        after = transitions.undecided(workload, decision.reason, decision.message, now)
        if decision.gated:
            after = transitions.preemption_gated(after, decision.message, now)
        patch = status_patch(workload, after)
        if patch is None:
            self._decisions.pop(key)
            return None
        if decision.requests:
            patch["status"]["resourceRequests"] = [
                {"name": name, "resources": texts(requests)} for name, requests in decision.requests.items()
            ]
        return workload, decision, patch

    def _patience(self, workload: Workload, decision: StayPending) -> float:
        """Seconds until the numbers of this workload's message may be written again; 0 for another reason."""
        if _reason(workload) != decision.reason:
            return 0.0
        return max(0.0, self._written_at.get(workload.key, 0.0) + MESSAGE_SECONDS - self.clock())

    def _waits_still(self, decision: StayPending) -> bool:
        """Whether the workload waits where it was judged: not in a queue that was stopped or left meanwhile."""
        return self.caches.state.pending.unchanged_entry(decision.cluster_queue, decision.workload) is not None


def _reason(workload: Workload) -> str:
    """The reason in the status for which a workload waits, '' for none."""
    found = workload.condition(names.Condition.QUOTA_RESERVED)
    return found.reason if found is not None and not found.status else ""
