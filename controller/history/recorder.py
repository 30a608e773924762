"""Writes the recording of a leader: the event loop appends references to values that never change, a thread encodes and
writes them once a second.

Files are append-only and bounded: a new one begins, with all that State holds, when one is large or old, and the oldest
is deleted. What cannot be written is dropped, and another file begins later; nothing waits for the recorder.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.history.history import end
from controller.kube.log import get_logger
from controller.settings import RecorderSettings
from core.model.policy import SchedulingPolicy
from core.recording.encoding import RecordingEncoder
from core.recording.entries import MAGIC, RecordingEntry
from core.recording.recorded import RecordedState

log = get_logger(__name__)

WRITE_SECONDS: Final = 1.0
FILES: Final = 4
"""At least so many files share the space."""
LARGEST_FILE: Final = 2**23
"""A file that is larger is followed by another one, so that the newest can be sent with a bug report."""
LONGEST_SECONDS: Final = 900.0
"""After this time a new file begins: who sends a recording sends the last one or two."""
RETRY_SECONDS: Final = 30.0
MOST_WAITING: Final = 200_000
ENDING: Final = ".recording"
Made = Callable[[], RecordingEntry]


class _EntryMaker(NamedTuple):
    """What makes an entry; with ``opens`` it is the first of a file."""

    made: Made
    opens: bool = False


class CycleRecorder:
    """``state`` makes the State that is recorded; ``run`` it while this process leads. ``clock`` is wall time."""

    def __init__(
        self, settings: RecorderSettings, registry: CollectorRegistry, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._waiting: deque[_EntryMaker] = deque()
        self._recorded: RecordedState | None = None
        self._writes = False
        self._open: BinaryIO | None = None
        self._encoder = RecordingEncoder()
        self._began = 0.0
        self._failing = ""
        self._thread = ThreadPoolExecutor(1, "recorder")
        self._bytes = Counter(
            "seiretsu_recorder_written_bytes_total", "Bytes that the recorder has written.", registry=registry
        )
        self._seconds = Counter(
            "seiretsu_recorder_cpu_seconds_total", "CPU time of encoding and writing the recording.", registry=registry
        )
        self._dropped = Counter(
            "seiretsu_recorder_dropped_entries_total",
            "Entries that are not recorded, because they could not be written in time.",
            registry=registry,
        )
        Gauge(
            "seiretsu_recorder_failing",
            "1 while the recording cannot be written; the log has the reason. Queueing goes on.",
            registry=registry,
        ).set_function(lambda: bool(self._failing))

    def state(self, policy: SchedulingPolicy) -> RecordedState:
        """Returns the State of this process."""
        self._recorded = RecordedState(policy, self._record, self._begin)
        return self._recorded

    async def run(self) -> None:
        """Records until cancelled."""
        self._begin_anew()
        try:
            while True:
                await asyncio.sleep(WRITE_SECONDS)
                batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
                if not batch:
                    continue
                try:
                    large = await asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)
                except OSError as error:
                    self._fails(error)
                    await asyncio.sleep(RETRY_SECONDS)
                    self._begin_anew()
                    continue
                if self._failing:
                    log.info("the recording is written again")
                    self._failing = ""
                if (large or self.clock() - self._began > LONGEST_SECONDS) and self._recorded is not None:
                    self._recorded.open_again = True
        finally:
            self._writes = False
            batch, self._waiting = list(self._waiting), deque()
            await end(self._thread, lambda: self._end(batch))

    def _begin_anew(self) -> None:
        """The next cycle begins a file; what was recorded before it is in its Opening."""
        self._waiting.clear()
        self._writes = False
        if self._recorded is not None:
            self._recorded.open_again = True

    def _begin(self, made: Made) -> None:
        self._writes, self._began = True, self.clock()
        self._waiting.append(_EntryMaker(made, opens=True))

    def _record(self, made: Made) -> None:
        if not self._writes:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._dropped.inc(len(self._waiting))
            self._begin_anew()
            return
        self._waiting.append(_EntryMaker(made))

    # In the thread.

    def _write(self, batch: Iterable[_EntryMaker]) -> bool:
        """Writes entries, those of each file together; returns whether the file is large enough for another one."""
        began = time.thread_time()
        directory, most = Path(self.settings.directory), min(self.settings.max_bytes // FILES, LARGEST_FILE)
        for part in _by_file(batch):
            if part[0].opens:
                self._next_file(directory)
            if self._open is None:
                continue
            data = self._encoder.chunk(each.made() for each in part)
            self._open.write(data)
            self._open.flush()
            self._bytes.inc(len(data))
        self._seconds.inc(time.thread_time() - began)
        return self._open is not None and self._open.tell() > most

    def _next_file(self, directory: Path) -> None:
        self._close()
        directory.mkdir(parents=True, exist_ok=True)
        known = recordings(directory)
        room = self.settings.max_bytes - min(self.settings.max_bytes // FILES, LARGEST_FILE)
        while known and sum(each.stat().st_size for each in known) > room:
            known.pop(0).unlink(missing_ok=True)
        self._encoder = RecordingEncoder()
        path = directory / f"{time.time_ns():020}{ENDING}"
        self._open = path.open("xb")
        self._open.write(MAGIC)

    def _close(self) -> None:
        found, self._open = self._open, None
        if found is not None:
            found.close()

    def _end(self, batch: list[_EntryMaker]) -> None:
        try:
            self._write(batch)
            self._close()
        except OSError as error:
            log.warning("the last entries are not recorded", error=str(error))

    def _fails(self, error: OSError) -> None:
        if not self._failing:
            log.error("the recording cannot be written; queueing goes on", error=str(error))
        self._failing = str(error)
        found, self._open = self._open, None
        if found is not None:
            with contextlib.suppress(OSError):  # what is buffered cannot be written either
                found.close()


def recordings(directory: Path) -> list[Path]:
    """Returns the files of a recording, the oldest first."""
    return sorted(directory.glob(f"*{ENDING}"))


def last(directory: Path, most: int) -> bytes:
    """Returns the newest file, with the one before it if both are not larger than ``most``; empty if there is none."""
    data = b""
    for path in reversed(recordings(directory)[-2:]):
        found = path.read_bytes()
        if len(found) + len(data) > most:
            break
        data = found + data[len(MAGIC) :] if data else found
    return data


def _by_file(batch: Iterable[_EntryMaker]) -> Iterator[list[_EntryMaker]]:
    part: list[_EntryMaker] = []
    for each in batch:
        if each.opens and part:
            yield part
            part = []
        part.append(each)
    if part:
        yield part
