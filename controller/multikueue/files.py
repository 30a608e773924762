"""Reads kubeconfig files of worker clusters in threads: a network file system, a pipe or a device may never answer, and
the event loop would wait for it.
"""

from __future__ import annotations

import asyncio
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from core.multikueue import kubeconfig

THREADS: Final = 4
"""So many files that do not answer stop the others; the threads are apart from those of name resolution."""
READ_SECONDS: Final = 2.0


class FileError(Exception):
    """A file is not read; the message says why."""


class Files:
    """Reads files, each at most once at a time: one that does not answer keeps one thread."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._reads: dict[str, asyncio.Future[str]] = {}

    async def read(self, path: str, most: int, *, any_path: bool) -> str:
        """Returns the text of a file of at most ``most`` bytes. Raises ``FileError``, and what opening and decoding
        raise. ``any_path`` is whether it may be anywhere.
        """
        if path not in self._reads:
            self._threads = self._threads or ThreadPoolExecutor(THREADS, "kubeconfig-files")
            loop = asyncio.get_running_loop()
            self._reads[path] = loop.run_in_executor(self._threads, _read, path, most, any_path)
        read = self._reads[path]
        await asyncio.wait({read}, timeout=READ_SECONDS)
        if not read.done():
            raise FileError(f"open {path}: no answer of its file system within {READ_SECONDS:g} s")
        self._reads.pop(path, None)
        return read.result()


def _read(path: str, most: int, any_path: bool) -> str:
    resolved = Path(path).resolve()
    wrong = "" if any_path else kubeconfig.outside(path, str(resolved))
    if wrong:
        raise FileError(wrong)
    opened = os.open(resolved, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise FileError(f"open {path}: not a regular file")
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(opened)
    if len(content) > most:
        raise FileError(f"open {path}: more than {most} bytes are no kubeconfig")
    return content.decode()
