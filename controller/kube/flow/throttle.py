"""The rate of calls: a token bucket that halves its rate when the server answers 429 and increases it slowly again
(AIMD).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from controller.kube.flow import limits


class Throttle:
    """At most ``qps`` calls a second on average and ``burst`` at once, first come first served.

    ``throttled()`` halves the rate, at most once a second, so that one storm of 429 counts once; every ``qps`` calls
    that pass add an eighth of ``qps`` again. ``qps`` of 0 means no limit.
    """

    def __init__(
        self,
        qps: float = 300.0,
        burst: int = 500,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.qps = qps
        self.burst = burst
        self.rate = qps
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._at = clock()
        self._halved_at = float("-inf")

    async def take(self, calls: float = 1) -> None:
        """Waits until this call may be sent. The slot is reserved immediately, so waiting calls keep their order. One
        that costs more counts as several.
        """
        if not self.qps:
            return
        self._refill()
        self._tokens -= calls
        if self._tokens < 0:
            try:
                await self._sleep(-self._tokens / self.rate)
            except asyncio.CancelledError:  # the call is not sent
                self._tokens += calls
                raise

    def spare(self) -> bool:
        """Whether half the burst is unused: only then may something unimportant (an event) go out."""
        if not self.qps:
            return True
        self._refill()
        return self._tokens >= self.burst * limits.SPARE_SHARE

    def throttled(self) -> None:
        """The server answered 429: halves the rate and empties the bucket."""
        now = self._clock()
        if not self.qps or now - self._halved_at < limits.HALVED_ONCE_SECONDS:
            return
        self._refill()
        self._halved_at = now
        self.rate = max(self.rate / 2, self.qps * limits.SLOWEST_SHARE)
        self._tokens = min(self._tokens, 0.0)

    def passed(self) -> None:
        """A call got through: climb towards the configured rate."""
        if self.rate < self.qps:
            self.rate = min(self.qps, self.rate + limits.CLIMB)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.rate)
        self._at = now
