"""The decisions of cycles that wait for their write, and when enough of them are written for the next cycle.

Separate from the scheduler, which decides and writes: how far decisions may run ahead of their writes is flow control,
and is played by ``bench.flow``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from api.objects import Key
from controller.kube.flow import limits
from controller.kube.workqueue import WorkQueue


class Decisions(WorkQueue[Key]):
    """The workloads with a decision to be written, in the order of the decisions: those of one cycle, one for each
    ClusterQueue, and the few that it did not wait for. ``run`` it with ``DECIDED_WRITES`` workers.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("decided", longest_seconds=30.0, clock=clock, tenant=lambda key: "")
        self._in_vain = 0  # decisions whose writes were waited for in vain

    @property
    def urgent(self) -> bool:
        """Whether more decisions wait for their write than the next cycle waits for."""
        return self.outstanding > limits.UNWRITTEN

    async def written(self, *, contended: bool) -> None:
        """Returns when enough decisions are written for the next cycle to begin; ``contended``: workloads wait for
        quota that others use.
        """
        self._in_vain = min(self._in_vain, self.outstanding)
        if contended:
            try:
                async with asyncio.timeout(limits.CONTENDED_SECONDS):
                    await self.at_most(self._in_vain)
            except TimeoutError:
                self._in_vain = self.outstanding
        await self.at_most(limits.UNWRITTEN)
