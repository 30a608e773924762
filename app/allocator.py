"""What large requests took of memory is given back.

The C library gives a block above a limit pages of its own, which end with it; but glibc raises that limit to whatever
was freed last, up to 32 MiB. After the first review of some megabytes all blocks came from the heap, which smaller
ones that live longer keep from shrinking: `bench.abuse` tells what came of it. A limit that is set stays where it is.
"""

from __future__ import annotations

import ctypes
from typing import Final

OWN_PAGES_BYTES: Final = 256 * 1024
"""Larger than what is read from a socket at once, so that only large bodies pay for fresh pages."""
ARENAS: Final = 1
"""Heaps. One for each thread is what glibc would make; there is little for threads to wait for under one interpreter
lock.
"""
_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
"""As in glibc's malloc.h."""


def settle() -> bool:
    """Set both limits for this process; False where the C library is another one, which needs neither."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, OWN_PAGES_BYTES) and mallopt(_M_ARENA_MAX, ARENAS))
