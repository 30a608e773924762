"""`--profile`: where the event loop's thread spends its time, as stacks with the number of samples of each.

A thread reads the stack of the event loop a hundred times a second: that costs less than a per cent, a tracing profiler
doubles the cost of every call. The file has one stack a line, the outermost function first, as flame graph programs and
speedscope read it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

SAMPLE_SECONDS = 0.01
WRITE_SECONDS = 30.0


class Profile:
    """Samples the thread that creates it, and writes the file every half minute and at `stop()`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sampled = threading.get_ident()
        self._stacks: Counter[str] = Counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="profile", daemon=True)

    def start(self) -> None:
        """Samples until `stop()`. Raises `OSError` if the file cannot be written."""
        self._path.write_text("")
        self._thread.start()

    def stop(self) -> None:
        """Ends, and writes the file."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write()

    def _sample(self) -> None:
        written = time.monotonic()
        while not self._ended.wait(SAMPLE_SECONDS):
            frame = sys._current_frames().get(self._sampled)
            if frame is not None:
                self._stacks[stack_of(frame)] += 1
            if time.monotonic() - written >= WRITE_SECONDS:
                self._write()
                written = time.monotonic()

    def _write(self) -> None:
        self._path.write_text("".join(f"{stack} {count}\n" for stack, count in self._stacks.most_common()))


def stack_of(frame: FrameType | None) -> str:
    """Returns the functions of a stack, the outermost first."""
    names = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{Path(code.co_filename).stem}:{code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
