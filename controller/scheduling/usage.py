"""Admission fair sharing over time: samples the usage of LocalQueues, and stores it in their status for a restart.

``core.state.local_queue_usage`` computes samples and decay; this module has the clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from api import quantity, resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import ApiError
from controller.kube.log import get_logger
from core.model import Raw
from core.queue.admission_fair_sharing import Consumed
from core.state.queue_status import usage_status
from core.wire.timestamps import epoch

log = get_logger(__name__)


class UsageSampler:
    """``run`` while this process leads; returns immediately if the Configuration has no admission fair sharing."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        wake: Callable[[], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.wake = wake
        """Dispatcher the scheduler: usage changes the order."""
        self.clock = clock

    async def run(self) -> None:
        """Reads the usage from the statuses, then samples once in an interval until cancelled."""
        rules = self.caches.state.policy.admission_fair_sharing
        if rules is None:
            return
        for raw in self.caches.local_queues:
            try:
                remembered = consumed_of(raw)
            except (
                ArithmeticError,
                AttributeError,
                KeyError,
                TypeError,
                ValueError,
            ) as error:  # others write there too
                log.warning("usage not read", local_queue=str(key_of(raw)), error=repr(error))
                continue
            if remembered is not None:
                self.caches.state.local_queue_usage.set_consumed(key_of(raw), remembered)
        while True:
            await self.sample()
            await asyncio.sleep(rules.sampling_interval)

    async def sample(self) -> None:
        """Samples all LocalQueues once and writes them one after the other; a failed write is repeated with the next
        sample.
        """
        samples = self.caches.state.local_queue_usage.sample(self.clock())
        self.wake()
        for key, consumed in sorted(samples.items()):
            try:
                await self.writer.patch(resources.LOCAL_QUEUES, key, patch_of(consumed), subresource="status")
            except ApiError as error:
                log.warning("usage not written", local_queue=str(key), error=str(error))


def patch_of(consumed: Consumed) -> Raw:
    """The status of a LocalQueue that has used so much."""
    return {"status": {"fairSharing": usage_status(consumed)}}


def consumed_of(raw: Raw) -> Consumed | None:
    """Returns the usage in the status of a LocalQueue."""
    shown = ((raw.get("status") or {}).get("fairSharing") or {}).get("admissionFairSharingStatus")
    if not shown:
        return None
    amounts = {name: float(quantity.exact(amount)) for name, amount in shown["consumedResources"].items()}
    return Consumed(amounts, epoch(shown["lastUpdate"]))
