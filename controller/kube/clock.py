"""The wall time for certificates: that of the API server, because it verifies them.

A process whose own clock is wrong would create certificates that nobody accepts, and replace those of others. All
replicas of one API server use its clock, so they agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST = timedelta(days=36_525)
"""Times are counted on from an answer for less than this."""


class ServerClock:
    """Returns the time of the API server: that of its last answer's ``Date``, plus the time since then.

    Before the first answer it is the local time. ``monotonic`` measures the time since, so a jump of the local clock
    has no effect.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        own: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._monotonic = monotonic
        self._own = own
        self._text = ""
        self._observed: tuple[datetime, float] | None = None

    def observed(self, date: str) -> None:
        """Sets the time from the ``Date`` header of an answer; an invalid one is ignored."""
        if date == self._text:
            return
        self._text = date
        try:
            server = parsedate_to_datetime(date)
            if server.tzinfo is None:
                return
            server = server.astimezone(UTC)
            _ = server - LONGEST, server + LONGEST
        except (ValueError, OverflowError):  # no date, or one so far off that time could not be counted from it
            return
        self._observed = server, self._monotonic()

    def now(self) -> datetime:
        """The API server's time, to the second."""
        if self._observed is None:
            return self._own()
        server, at = self._observed
        return server + timedelta(seconds=self._monotonic() - at)
