"""Logs what blocks the event loop. While one step takes long, webhooks, lease and probes all wait. The step can be
identified only during that time, so a thread reads the loop's stack then.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

import structlog

log = structlog.get_logger("seiretsu.watchdog")

STALL_SECONDS = 0.5
"""Much longer than any step should take: the API server waits five seconds for a webhook."""

FRAMES = 12


class Watchdog:
    """Watches the thread that creates it. `late` returns for how long that thread's event loop has not run its
    timers.
    """

    def __init__(self, late: Callable[[], float], stall_seconds: float = STALL_SECONDS) -> None:
        self._late = late
        self._stall_seconds = stall_seconds
        self._watched = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watches until `stop()`."""
        self._thread.start()

    def stop(self) -> None:
        """Stops watching."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        logged = False
        while not self._ended.wait(self._stall_seconds / 5):
            late = self._late()
            if late < self._stall_seconds:
                logged = False
            elif not logged:
                logged = True
                log.warning("The event loop is blocked", seconds=round(late, 2), stack=self._stack())

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._watched)
        frames = traceback.extract_stack(frame)[-FRAMES:] if frame is not None else []
        return [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
