"""How many generated cases a test tries: few in `make test`, many in `make test-long`."""

from __future__ import annotations

import os

LONG = os.environ.get("SEIRETSU_TESTS") == "long"


def cases(few: int, many: int) -> int:
    """Returns the number of generated cases to try: ``few`` in `make test`, ``many`` in `make test-long`."""
    return many if LONG else few
