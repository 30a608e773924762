"""What things cost beside each other: CPU time, of which only the ratio within one run says anything."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def times(one: Callable[[], object], other: Callable[[], object], *, rounds: int = 15) -> tuple[float, float]:
    """The least CPU time of each, taken by turns so that the machine does to both what it does."""
    least = [float("inf"), float("inf")]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for index, look in enumerate((one, other)):
                start = time.process_time()
                look()
                least[index] = min(least[index], time.process_time() - start)
    finally:
        gc.enable()
    return least[0], least[1]
