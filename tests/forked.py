"""`seiretsu serve` as a fork of a process that has already imported it: tests start it a hundred times.

What it does after the imports is the same; its start takes a fraction of the CPU time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import TextIO

from cli.main import application


class Forked:
    """What ``tests.serving.Served`` uses of a ``subprocess.Popen``."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["cli.serve", __name__, "tests.preloaded", *_loaded()])
        (out, their_out), (errors, their_errors) = context.Pipe(duplex=False), context.Pipe(duplex=False)
        words = ["serve", *arguments]
        self._process = context.Process(
            target=_serve, args=(words, dict(environment), their_out, their_errors), daemon=True
        )
        self._process.start()
        self.stdout, self.stderr = _text(out), _text(errors)
        for each in (out, their_out, errors, their_errors):
            each.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with self._lock:  # it can be read only once
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit code."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("seiretsu serve", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _loaded() -> list[str]:
    """The modules that were imported until now for a program of the project. Each fork imports the one that runs again,
    and so what it imports. Of pytest it imports nothing.
    """
    running = getattr(sys.modules["__main__"], "__spec__", None)
    if running is None or running.name.partition(".")[0] != "bench":
        return []
    return [name for name in sys.modules if name.partition(".")[0] in ("bench", "tests") and name != running.name]


def _text(pipe: Connection) -> TextIO:
    return os.fdopen(os.dup(pipe.fileno()))


def _serve(words: list[str], environment: dict[str, str], out: Connection, errors: Connection) -> None:
    os.setsid()
    os.dup2(out.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    out.close()
    errors.close()
    os.environ.update(environment)
    application(words)(words)
