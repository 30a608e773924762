"""Kills a writer again and again in the middle of what it writes: each is a fork of one small process without threads,
so that two hundred of them, in ``make test-long``, take some seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from typing import Any

from tests.effort import cases

KILLS = cases(50, 200)
Tell = Callable[[int], None]
"""A writer calls it with the number of what it has written."""


def in_small_process(function: Callable[..., None], *arguments: Any) -> None:
    """Runs a function of a test module in a process that has only what this module imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    process = context.Process(target=function, args=arguments, daemon=True)
    process.start()
    process.join()
    assert process.exitcode == 0, "its traceback is above"


def kill_many(write: Callable[[int, Tell], None], check: Callable[[int, int], None]) -> None:
    """Starts ``write``, which goes on from a number, and kills it, again and again. ``check`` gets the number of the
    kill, and the last number that was told.
    """
    chance, written = random.Random(7), 0
    for kill in range(1, KILLS + 1):
        read, told = os.pipe()
        writer = os.fork()
        if not writer:
            try:
                write(written, lambda number, to=told: _tell(to, number))  # type: ignore[misc]
            finally:
                os._exit(1)
        os.close(told)
        with os.fdopen(read) as numbers:
            for _ in range(chance.randrange(1, 6)):
                written = int(numbers.readline())
            for _ in range(chance.randrange(3_000)):
                pass  # a part of what it writes next
            os.kill(writer, signal.SIGKILL)
            written = max([written, *(int(line) for line in numbers if line.endswith("\n"))])
        assert os.waitpid(writer, 0)[1] == signal.SIGKILL
        check(kill, written)


def _tell(told: int, number: int) -> None:
    os.write(told, f"{number}\n".encode())
