"""What takes long is done one after the other, and nobody can queue it without bound."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from app.limits import OneAtATime, RefusedCallError


class Played:
    """Questions that end when the test says so."""

    def __init__(self, most: int) -> None:
        self.turns = OneAtATime(most, "full: try again in a minute")
        self.order: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def ask(self, user: str, name: str) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._asked(user, name))

    async def _asked(self, user: str, name: str) -> None:
        async with self.turns.of(user):
            self.order.append(name)
            await self.ends[name].wait()

    async def end(self, name: str, task: asyncio.Task[None]) -> None:
        self.ends[name].set()
        await task
        await passes()


async def passes() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def refusal(task: asyncio.Task[None]) -> str:
    with pytest.raises(RefusedCallError) as refused:
        await task
    assert refused.value.status == 429
    return str(refused.value)


async def test_they_take_turns_in_the_order_in_which_their_users_came() -> None:
    played = Played(most=4)
    tasks = {name: played.ask(name, name) for name in ("ann", "bob", "cleo")}
    await passes()
    assert played.order == ["ann"]
    for name, task in tasks.items():
        await played.end(name, task)
    assert played.order == ["ann", "bob", "cleo"]
    last = played.ask("dora", "dora")
    await passes()
    assert played.order[-1] == "dora", "with nobody there nobody waits"
    await played.end("dora", last)


async def test_who_finds_no_place_is_told_what_to_do() -> None:
    played = Played(most=2)
    tasks = [played.ask(name, name) for name in ("ann", "bob", "cleo")]
    await passes()
    assert await refusal(played.ask("dora", "dora")) == "full: try again in a minute"
    for name, task in zip(("ann", "bob", "cleo"), tasks, strict=True):
        await played.end(name, task)


async def test_a_later_question_takes_the_place_of_the_same_users_earlier_one() -> None:
    played = Played(most=2)
    first = played.ask("ann", "first")
    await passes()
    second, bob, third = (played.ask(*each) for each in (("ann", "second"), ("bob", "bob"), ("ann", "third")))
    assert "a later question" in await refusal(second)
    for name, task in (("first", first), ("third", third), ("bob", bob)):
        await played.end(name, task)
    assert played.order == ["first", "third", "bob"], "the place of the earlier one"


@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "when its turn has come"])
async def test_who_leaves_holds_nobody_up(late: bool) -> None:
    played = Played(most=2)
    first = played.ask("ann", "first")
    await passes()
    leaves, bob = played.ask("cleo", "leaves"), played.ask("bob", "bob")
    await passes()
    if late:
        played.ends["first"].set()
        first.add_done_callback(lambda _: leaves.cancel())
    else:
        leaves.cancel()
        played.ends["first"].set()
    await first
    with contextlib.suppress(asyncio.CancelledError):
        await leaves
    await passes()
    assert played.order[0] == "first"
    assert played.order[-1] == "bob"
    await played.end("bob", bob)


async def test_who_leaves_as_the_turn_is_given_holds_nobody_up() -> None:
    played = Played(most=2)
    first = played.ask("ann", "first")
    await passes()
    leaves, bob = played.ask("cleo", "leaves"), played.ask("bob", "bob")
    await passes()
    played.ends["first"].set()
    leaves.cancel()  # in the same step of the event loop: the first one ends before its task runs
    await passes()
    assert leaves.cancelled() and first.exception() is None
    assert played.order == ["first", "bob"]
    await played.end("bob", bob)


async def test_who_leaves_as_he_asks_again_is_answered() -> None:
    played = Played(most=2)
    first = played.ask("ann", "first")
    await passes()
    leaves = played.ask("bob", "leaves")
    await passes()
    again = played.ask("bob", "again")
    leaves.cancel()
    await passes()
    assert leaves.cancelled()
    await played.end("first", first)
    assert played.order == ["first", "again"]
    await played.end("again", again)


async def test_what_fails_gives_its_turn_to_the_next() -> None:
    turns = OneAtATime(2, "full")
    with pytest.raises(ZeroDivisionError):
        async with turns.of("ann"):
            raise ZeroDivisionError
    async with turns.of("bob"):
        pass
