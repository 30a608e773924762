"""What takes long runs in pieces, between admission calls."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from app import pieces
from app.pieces import CALLS, in_pieces


@pytest.fixture(autouse=True)
def after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_SECONDS", -1.0)


def noted(order: list[str]) -> Generator[None, None, int]:
    for _ in range(5):
        order.append("a piece")
        yield
    return len(order)


async def test_a_call_that_has_begun_is_answered_before_the_next_piece() -> None:
    order: list[str] = []

    async def call() -> None:
        with CALLS:
            for _ in range(5):
                await asyncio.sleep(0)
            order.append("a call")

    running = asyncio.create_task(in_pieces(noted(order)))
    await asyncio.sleep(0)
    before = len(order)
    await call()
    await running
    assert order.index("a call") <= before + 1, "one piece at most was under way"
    assert order.count("a piece") == 5


async def test_pieces_go_on_while_calls_never_end() -> None:
    order: list[str] = []
    with CALLS:
        await in_pieces(noted(order))
    assert order == ["a piece"] * 5
    assert CALLS.count == 0
