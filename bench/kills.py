"""Kills ``seiretsu serve`` and the API server in turn while something else goes on, and starts each again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from subprocess import Popen

from devcluster.controlplane import ControlPlane

Start = Callable[[], AbstractContextManager["Popen[bytes]"]]


class Kills:
    """``serve`` runs from the beginning; ``count`` is how often something was killed. A fault of its own that it met
    is raised at the end.
    """

    def __init__(self, plane: ControlPlane, start: Start, seconds: float) -> None:
        self.count = 0
        self._plane = plane
        self._start = start
        self._seconds = seconds
        self._ended = threading.Event()
        self._stack = contextlib.ExitStack()
        self.process = self._stack.enter_context(start())

    @contextlib.contextmanager
    def running(self) -> Iterator[Kills]:
        """Context in which something is killed so many seconds after the last that was killed is ready again; never
        if the seconds are 0. ``serve`` runs to its end.
        """
        failed: list[BaseException] = []

        def kill() -> None:
            try:
                while not self._ended.wait(self._seconds):
                    self._kill_one()
            except BaseException as error:
                print(f"{time.strftime('%H:%M:%S')} nothing is killed any more: {error!r}", flush=True)
                failed.append(error)

        thread = threading.Thread(target=kill)
        if self._seconds:
            thread.start()
        try:
            yield self
        finally:
            self.stop()
            if self._seconds:
                thread.join()
            self._stack.close()
        if failed:
            raise failed[0]

    def stop(self) -> None:
        """Kill nothing more; what is being started gets ready."""
        self._ended.set()

    def _kill_one(self) -> None:
        killed = "the API server" if self.count % 2 else "serve"
        began = time.monotonic()
        if self.count % 2:
            self._plane.kill_apiserver()
            self._plane.start_apiserver()
        else:
            self.process.kill()
            self.process.wait()
            with contextlib.suppress(RuntimeError):  # the context says that it ended
                self._stack.close()
            self.process = self._stack.enter_context(self._start())
        self.count += 1
        print(f"{time.strftime('%H:%M:%S')} killed {killed}, ready after {time.monotonic() - began:.1f} s", flush=True)
