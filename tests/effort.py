"""How much a test tries: few generated cases and some of the crash points in `make test`, many and all of them in
`make test-long`.
"""

from __future__ import annotations

import os
import random

LONG = os.environ.get("SEIRETSU_TESTS") == "long"
SEED = int(os.environ.get("SEIRETSU_SEED") or random.randrange(10**6))
"""What `make test` chooses by chance; tests print it, and `SEIRETSU_SEED` repeats the choice."""


def cases(few: int, many: int) -> int:
    """Returns the number of generated cases to try: ``few`` in `make test`, ``many`` in `make test-long`."""
    return many if LONG else few
