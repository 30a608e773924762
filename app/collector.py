"""When garbage is looked for: never while the caches are read, then never among what they hold, and never for long.

Objects read at the start live as long as the process. Collecting garbage would look at each of them again and again
(135 ms at a time over 50,000 Workloads, 12 ms without), so it waits until they are set aside. Nothing is collected
before that: it would stall the webhooks for a second or two.

Afterwards a look takes about a millisecond for a thousand objects, and everybody waits for it. So the young are looked
at in small lots, and the old ones, which grow with the cluster, when nobody calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Final

YOUNG: Final = 5_000
"""New objects (containers, more made than gone) from which on they are looked at: 4 ms. What survives is looked at once
more, with as many others."""
SWEEP_SECONDS: Final = 600.0
QUIET_POLL_SECONDS: Final = 1.0
MANY: Final = 100_000
"""Objects that survive a look at all of them, from which on they are set aside: 0.1 s that need not be spent again."""
PATIENCE: Final = 6
"""After so many times as long it is done whoever calls: once an hour."""


def settle() -> None:
    """Have garbage among the young looked for as the module says, and among the old by ``sweep`` alone."""
    gc.set_threshold(YOUNG, 2, 1_000_000)


async def sweep(quiet: Callable[[], bool], every_seconds: float = SWEEP_SECONDS, *, patience: float = PATIENCE) -> None:
    """Look at all objects now and then, after ``patience`` times as long also at a moment that is not ``quiet``. Never
    returns.

    Where many survive they are set aside, as those read at the start: a look takes as long as what came since the last.
    Reference circles among them would stay; those that grow with the cluster have none (``tests/core/test_trees.py``).
    """
    while True:
        await asyncio.sleep(every_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every_seconds * (patience - 1)):
                while not quiet():  # noqa: ASYNC110 - whether anybody calls is known by asking
                    await asyncio.sleep(min(every_seconds, QUIET_POLL_SECONDS))
        gc.collect()
        if len(gc.get_objects()) > MANY:
            gc.freeze()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Read inside what is there to stay. Afterwards garbage is collected again, as it must be: what refers to itself
    (an exception and its frames) goes no other way.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
