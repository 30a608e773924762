"""Decides when garbage is collected: not while the caches are read, then without their objects, in short steps.

Objects read at the start live as long as the process. Each collection would visit all of them (135 ms for 50,000
Workloads, 12 ms without them), so the collector is off until they are frozen. A collection before that would block the
webhooks for a second or two.

Afterwards a collection takes about a millisecond for a thousand objects, and all tasks wait for it. So young objects
are collected in small numbers, and old objects, whose number grows with the cluster, when no calls arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Final

YOUNG: Final = 5_000
"""The number of new objects (containers, more allocated than freed) that starts a collection: 4 ms. Survivors are
visited once more, with as many others.
"""
SWEEP_SECONDS: Final = 600.0
QUIET_POLL_SECONDS: Final = 1.0
MANY: Final = 100_000
"""The number of survivors of a full collection above which they are frozen: this saves 0.1 s in the next one."""
PATIENCE: Final = 6
"""After this multiple of ``SWEEP_SECONDS`` a full collection runs even while calls arrive: once an hour."""


def settle() -> None:
    """Configures the collector as the module describes: young garbage automatically, old garbage only by ``sweep``."""
    gc.set_threshold(YOUNG, 2, 1_000_000)


async def sweep(quiet: Callable[[], bool], every_seconds: float = SWEEP_SECONDS, *, patience: float = PATIENCE) -> None:
    """Runs a full collection at intervals when ``quiet``, and after ``patience`` intervals in any case. Never returns.

    If many objects survive they are frozen, like those read at the start, so that the next collection visits only new
    objects. Reference cycles among frozen objects would never be freed; objects whose number grows with the cluster
    have none (``tests/core/test_trees.py``).
    """
    while True:
        await asyncio.sleep(every_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every_seconds * (patience - 1)):
                while not quiet():  # noqa: ASYNC110 - nothing signals that no calls arrive
                    await asyncio.sleep(min(every_seconds, QUIET_POLL_SECONDS))
        gc.collect()
        if len(gc.get_objects()) > MANY:
            gc.freeze()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Returns a context in which permanent objects are read. Afterwards the collector is on again, because only it
    frees objects that refer to themselves (an exception and its frames).
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
