"""The stream of changes: one encoder for all viewers, who may be slow, come back, or leave."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator
from types import SimpleNamespace

import pytest

from api.objects import Raw
from app.page import stream
from app.page.stream import GZIP_HEAD, Hub, RowSteps, StreamFrame, Viewer, packed


class Counters:
    """A topic of which tests set the rows."""

    def __init__(self) -> None:
        self.rows: dict[str, Raw | None] = {"a": {"name": "a", "n": 0}}
        self.computed = 0

    def all_rows(self) -> RowSteps:
        self.computed += 1
        yield
        return dict(self.rows)

    def changed_rows(self) -> RowSteps:
        yield
        return dict(self.rows)


class Told:
    """A hub with one topic, and what a viewer of it has read."""

    def __init__(self) -> None:
        self.topic = Counters()
        self.now = 0.0
        self.forgotten: list[object] = []
        self.hub = Hub(
            lambda name: self.topic, self.forgotten.append, epoch="e", clock=lambda: self.now, now=lambda: 7.0
        )

    def set(self, number: int, name: str = "a") -> None:
        self.topic.rows[name] = {"name": name, "n": number}

    async def sent(self) -> None:
        """Lets the hub send what has changed."""
        await self.hub._pass()


async def read(frames: AsyncGenerator[list[StreamFrame], None]) -> list[int]:
    return [frame.number for frame in await anext(frames)]


def test_frames_in_any_selection_are_a_gzip_stream() -> None:
    texts = [f"id: e.{number}\ndata: {'x' * number}\n\n".encode() for number in range(300)]
    for chosen in (texts, texts[::7], texts[5:6], []):
        reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
        assert reader.decompress(GZIP_HEAD + b"".join(map(packed, chosen))) == b"".join(chosen)


def test_each_frame_can_be_read_when_it_has_arrived() -> None:
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    reader.decompress(GZIP_HEAD)
    for text in (b"one\n\n", b"two\n\n"):
        assert reader.decompress(packed(text)) == text


async def test_only_rows_that_differ_are_sent() -> None:
    told = Told()
    viewer = told.hub.follow(["t"])
    assert await read(viewer) == [0]
    await told.sent()
    told.set(1)
    await told.sent()
    (frame,) = await anext(viewer)
    assert frame.text == b'id: e.1\nevent: rows\ndata: {"topic":"t","put":[{"name":"a","n":1}],"gone":[],"at":7.0}\n\n'
    told.topic.rows["a"] = None
    await told.sent()
    (frame,) = await anext(viewer)
    assert b'"gone":["a"]' in frame.text
    await viewer.aclose()


async def test_a_viewer_that_comes_back_gets_what_it_missed() -> None:
    told = Told()
    keeps = told.hub.follow(["t"])
    await read(keeps)
    for number in (1, 2, 3):
        told.set(number)
        await told.sent()
    back = told.hub.follow(["t"], "e.1")
    assert await read(back) == [2, 3]
    await asyncio.gather(back.aclose(), keeps.aclose())


@pytest.mark.parametrize("after", ["", "other.1", "e.x", "e.9", "e.-1"])
async def test_a_viewer_that_cannot_go_on_gets_all_rows(after: str) -> None:
    told = Told()
    viewer = told.hub.follow(["t"], after)
    (frame,) = await anext(viewer)
    assert b'"all":[{"name":"a","n":0}]' in frame.text
    await viewer.aclose()


async def test_what_is_not_kept_any_more_is_not_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    viewer = told.hub.follow(["t"])
    await read(viewer)
    monkeypatch.setattr(stream, "KEPT_BYTES", 300)
    for number in range(1, 9):
        told.set(number)
        await told.sent()
    back = told.hub.follow(["t"], "e.1")
    (frame,) = await anext(back)
    assert b'"all"' in frame.text
    await asyncio.gather(back.aclose(), viewer.aclose())


async def test_a_topic_that_was_forgotten_meanwhile_begins_anew() -> None:
    told = Told()
    viewer = told.hub.follow(["t"])
    await read(viewer)
    told.set(1)
    await told.sent()
    await viewer.aclose()
    told.now = stream.FORGOTTEN_SECONDS + 1
    await told.sent()
    assert told.forgotten == ["t"]
    assert told.hub.idle
    other = told.hub.follow(["u"])
    await read(other)
    told.set(2)
    await told.sent()
    back = told.hub.follow(["t"], "e.1")
    (frame,) = await anext(back)
    assert b'"all"' in frame.text
    await asyncio.gather(back.aclose(), other.aclose())


async def test_nothing_is_computed_while_nobody_looks_and_who_comes_back_gets_it() -> None:
    told = Told()
    viewer = told.hub.follow(["t"])
    assert await read(viewer) == [0]
    await viewer.aclose()
    told.set(1)
    await told.sent()
    back = told.hub.follow(["t"], "e.0")
    assert await read(back) == [], "nothing was sent since"
    await told.sent()
    assert await read(back) == [1]
    await back.aclose()


async def test_all_rows_are_computed_and_encoded_once_for_many_viewers() -> None:
    told = Told()
    viewers = [told.hub.follow(["t"]) for _ in range(20)]
    firsts = await asyncio.gather(*(anext(each) for each in viewers))
    assert told.topic.computed == 1
    last = [told.hub.follow(["t"]) for _ in range(2)]
    one, two = [await anext(each) for each in last]
    assert one[0] is two[0]
    assert len(firsts) == 20
    await asyncio.gather(*(each.aclose() for each in (*viewers, *last)))


async def test_a_slow_viewer_is_dropped_and_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "UNREAD_BYTES", 1000)
    told = Told()
    slow, quick = told.hub.follow(["t"]), told.hub.follow(["t"])
    await asyncio.gather(read(slow), read(quick))
    for number in range(1, 30):
        told.set(number)
        await told.sent()
        assert await read(quick) == [number]
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    back = told.hub.follow(["t"], "e.0")
    assert await read(back) == list(range(1, 30))
    await asyncio.gather(back.aclose(), quick.aclose())


async def test_a_viewer_hears_something_now_and_then() -> None:
    assert await Viewer().next(0.0) == []


async def test_closing_ends_every_stream() -> None:
    told = Told()
    viewer = told.hub.follow(["t"])
    await read(viewer)
    told.hub.close()
    with pytest.raises(StopAsyncIteration):
        await anext(viewer)


async def test_the_first_viewer_may_leave_while_rows_are_computed() -> None:
    told = Told()
    first = asyncio.ensure_future(anext(told.hub.follow(["t"])))
    await asyncio.sleep(0)
    first.cancel()
    viewer = told.hub.follow(["t"])
    assert await read(viewer) == [0]
    await viewer.aclose()


async def test_viewers_are_written_to_a_few_at_a_time() -> None:
    """A call that arrives while the first viewer is written to does not wait for all others."""
    told = Told()
    viewers = [told.hub.follow(["t"]) for _ in range(3 * stream.WOKEN)]
    await asyncio.gather(*(read(each) for each in viewers))
    order: list[str] = []

    async def reads(viewer: AsyncGenerator[list[StreamFrame], None]) -> None:
        await anext(viewer)
        if not order:
            asyncio.get_running_loop().call_soon(order.append, "a call")
        order.append("a viewer")

    reading = [asyncio.create_task(reads(each)) for each in viewers]
    await asyncio.sleep(0)
    told.set(1)
    await told.sent()
    await asyncio.gather(*reading)
    assert order.index("a call") <= stream.WOKEN
    await asyncio.gather(*(each.aclose() for each in viewers))


async def test_a_pass_over_many_topics_wakes_each_viewer_once_and_pauses_for_a_few_of_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(stream, "after_calls", pause)
    told = Told()
    viewers = [told.hub.follow(["t", "u", "v"]) for _ in range(5 * stream.WOKEN)]
    await asyncio.gather(*(anext(each) for each in viewers))
    reading = [asyncio.create_task(read(each)) for each in viewers]
    await asyncio.sleep(0)
    told.set(1)
    await told.sent()
    assert await asyncio.gather(*reading) == [[1, 2, 3]] * len(viewers)
    assert pauses == 5
    await asyncio.gather(*(each.aclose() for each in viewers))


@pytest.mark.parametrize(("cpu_seconds", "pause"), [(0.0, stream.APART_SECONDS), (0.5, 0.5 * stream.REST)])
async def test_after_a_pass_it_rests_by_the_cpu_time_of_rows_and_not_by_the_time_that_it_took(
    monkeypatch: pytest.MonkeyPatch, cpu_seconds: float, pause: float
) -> None:
    told, slept, spent = Told(), list[float](), iter([0.0, cpu_seconds, *[cpu_seconds] * 9])
    viewer = told.hub.follow(["t"])
    await read(viewer)
    told.set(1)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if seconds == pause:
            raise asyncio.CancelledError

    monkeypatch.setattr(stream, "time", SimpleNamespace(thread_time=lambda: next(spent)))
    monkeypatch.setattr(stream, "asyncio", SimpleNamespace(sleep=sleep))
    told.hub.changed()
    with pytest.raises(asyncio.CancelledError):
        await told.hub.run()
    assert slept == [stream.COALESCED_SECONDS, pause]
    monkeypatch.undo()
    await viewer.aclose()
