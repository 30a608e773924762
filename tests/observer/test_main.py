"""The first list is judged in an order in which nothing is judged before what it depends on is known."""

from __future__ import annotations

from observer.__main__ import ORDER
from observer.decode import PREFIXES


def test_every_kind_that_is_decoded_has_its_place() -> None:
    assert set(PREFIXES.values()) <= set(ORDER)
    assert ORDER.index("Node") < ORDER.index("Workload") < ORDER.index("Pod")
