"""The process that makes forecasts, as the process that asks it has it: messages through a pipe, each with a limit of
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from controller.forecasts.messages import AT_ONCE, LENGTH, Named, RunTimesKnown, decoded, encoded
from core.forecast.learned import LearnedRunTimes, compressed
from core.forecast.situation import Situation

Item = TypeVar("Item")

ANSWER_SECONDS: Final = 300.0
"""The process is ended when it has not answered for so long."""
LARGEST_MESSAGE: Final = 64 * 2**20
_WORKER: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from controller.forecasts import worker; sys.exit(worker.main())"
)


class WorkerLostError(Exception):
    """The process that makes forecasts has ended, or does not answer."""


def worker_command() -> tuple[str, ...]:
    """Returns what starts the process. It imports from where this one does, in whichever way this one was started: an
    image and a wheel have the program in a folder of its own, and the working folder may be anyone's.
    """
    return sys.executable, "-I", "-c", _WORKER, *(str(Path(each).resolve()) for each in sys.path)


def alone(about: Situation) -> Situation:
    """Returns a situation without what is sent in parts."""
    return replace(about, waiting=(), holding=(), nodes={}, others={})


async def plain(learned: LearnedRunTimes) -> bytes:
    """Returns what was learned as bytes that are not compressed, and leaves the event loop to others meanwhile."""
    parts = []
    for part in learned.plain_in_parts():
        parts.append(part)
        await asyncio.sleep(0)
    return b"".join(parts)


class WorkerProcess:
    """A process that runs; ``end`` it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._write, self._read = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, command: Iterable[str]) -> WorkerProcess:
        """Starts it."""
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, start_new_session=True))

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it has ended; None while it runs."""
        return self._process.returncode

    async def send(self, message: object) -> None:
        """Sends a message, and leaves the event loop to others."""
        for part in encoded(message):
            self._write.write(part)
        async with asyncio.timeout(ANSWER_SECONDS):  # in Python 3.11 ``wait_for`` loses that it is cancelled
            await self._write.drain()
        await asyncio.sleep(0)

    async def send_in_parts(self, message: Callable[[list[Item]], object], items: Sequence[Item]) -> None:
        """Sends messages with some of the items each."""
        for place in range(0, len(items), AT_ONCE):
            await self.send(message([*items[place : place + AT_ONCE]]))

    async def send_names(self, about: Situation) -> None:
        """Sends which of the workloads that it knows are those of a situation."""
        for place in range(0, max(len(about.waiting), len(about.holding)), AT_ONCE):
            part = slice(place, place + AT_ONCE)
            await self.send(
                Named([each.key for each in about.waiting[part]], [each.key for each in about.holding[part]])
            )

    async def send_run_times(self, learned: LearnedRunTimes, since: float) -> None:
        """Sends what was learned until now; it is compressed in a thread."""
        await self.send(RunTimesKnown(await asyncio.to_thread(compressed, await plain(learned)), since))

    async def receive(self) -> object:
        """Returns the next message. Raises ``WorkerLostError`` for what is none."""
        async with asyncio.timeout(ANSWER_SECONDS):
            (length,) = LENGTH.unpack(await self._read.readexactly(LENGTH.size))
            if length > LARGEST_MESSAGE:
                raise WorkerLostError(f"a message of {length} bytes")
            data = await self._read.readexactly(length)
        try:
            return decoded(data)
        except Exception as error:
            raise WorkerLostError(f"a message that cannot be read: {error!r}") from error

    async def end(self) -> None:
        """Ends the process, and waits for that even if it is cancelled meanwhile."""
        ending = asyncio.ensure_future(self._killed())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _killed(self) -> None:
        """What the process has written is read: as long as some of it is not, asyncio waits for the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._write.close()
        while await self._read.read(2**16):
            pass
        await self._process.wait()
