"""The wall time by which certificates are judged: the API server's, for it is who verifies them.

A process whose own clock is wrong would make certificates that nobody accepts, and replace those that others made.
All replicas that speak with one API server read one clock, so none of them has to be believed more than another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST = timedelta(days=36_525)
"""Times are counted on from an answer for less than this."""


class ServerClock:
    """Says what time it is for the API server: that of its last answer's ``Date``, and what has passed since.

    Before the first answer it is our own time. ``monotonic`` counts what passes, so a jump of our wall clock changes
    nothing.
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
        self._heard: tuple[datetime, float] | None = None

    def heard(self, date: str) -> None:
        """Take over the time of an answer, as its ``Date`` header has it; one that cannot be read changes nothing."""
        if date == self._text:
            return
        self._text = date
        try:
            told = parsedate_to_datetime(date)
            if told.tzinfo is None:
                return
            told = told.astimezone(UTC)
            _ = told - LONGEST, told + LONGEST
        except (ValueError, OverflowError):  # no date, or one so far off that time could not be counted from it
            return
        self._heard = told, self._monotonic()

    def now(self) -> datetime:
        """The API server's time, to the second."""
        if self._heard is None:
            return self._own()
        told, at = self._heard
        return told + timedelta(seconds=self._monotonic() - at)
