"""Makes the C library return the memory of large requests to the system.

The C library allocates a block above a limit in separate pages, which are released with it; but glibc raises that limit
to the size of the last freed block, up to 32 MiB. After the first review of some megabytes all blocks would come from
the heap, which cannot shrink while smaller blocks at its end are in use: `bench.abuse` shows the effect. glibc does not
change a limit that is set explicitly.
"""

from __future__ import annotations

import ctypes
from typing import Final

OWN_PAGES_BYTES: Final = 256 * 1024
"""The limit for separate pages: larger than one read from a socket, so that only large bodies need new pages."""
ARENAS: Final = 1
"""The number of heaps. glibc would create one for each thread; with one interpreter lock threads rarely wait for a
heap.
"""
_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
"""Both numbers are those of glibc's malloc.h."""


def settle() -> bool:
    """Sets both limits for this process. Returns False if the C library is not glibc, and so needs neither."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, OWN_PAGES_BYTES) and mallopt(_M_ARENA_MAX, ARENAS))
