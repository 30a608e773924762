"""Who runs in a queue, the latest first, put in order in parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page import queue
from core.page.queue import latest, since
from core.quota.usage import Reservation, reservation
from core.steps import completed
from tests.builders import reserved


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 35))
def test_parts_give_the_same_order_as_all_at_once(times: list[int], count: int) -> None:
    held = [reservation(reserved(f"w{place}", 1, "q", since=float(at))) for place, at in enumerate(times)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "SORTED", 4)
        found = completed(latest(held, count))
    assert found == sorted(held, key=lambda each: (-since(each), each.workload.key))[:count]


def test_a_long_queue_is_put_in_order_in_parts() -> None:
    one: Reservation = reservation(reserved("w", 1, "q", since=1.0))
    assert sum(1 for _ in latest([one] * 4 * queue.SORTED, 10)) >= 4
