"""Sends the changes of rows to all viewers: each change is encoded and compressed once, whoever reads it.

A viewer follows topics. Of each it gets all rows, and then what changes. Rows that changed in a short time are one
frame (a server-sent event). Frames have numbers: a viewer whose connection has ended, or who was too slow and was
dropped, goes on after the last one that it has read, as long as that is kept; else it gets all rows again.

The frames of all viewers are the same bytes: each is a part of a gzip stream that refers to nothing before it, and
every stream begins with the same ten bytes. So a stream may be put together from any frames.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import orjson

from api.objects import Raw
from app.pieces import after_calls, in_pieces

COALESCED_SECONDS: Final = 0.03
"""After the first change so long is waited for others."""
APART_SECONDS: Final = 0.15
"""Between two passes over the changes: a frame wakes every viewer, so there are few of them."""
REST: Final = 4.0
"""After a pass the next one waits at least for this multiple of the CPU time of its rows. Not of its length: changes
after a pass that had to wait for a processor would wait for four times as long.
"""
WOKEN: Final = 10
"""So many viewers are written to between two pauses: half a millisecond."""
KEPT_BYTES: Final = 4 * 2**20
"""Frames of so many bytes are kept for viewers that come back."""
UNREAD_BYTES: Final = 2**20
"""A viewer that has not read so many bytes is dropped."""
FORGOTTEN_SECONDS: Final = 60.0
"""The rows of a topic are kept for so long after its last viewer has left."""
PING_SECONDS: Final = 10.0
"""After so long without a change the client is looked at."""
GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
LEVEL: Final = 6

RowSteps = Generator[None, None, Mapping[str, Raw | None]]
"""Computes rows in steps; None: there is no such row any more."""


class Topic(Protocol):
    """What viewers can follow. ``all_rows`` computes every row, ``changed_rows`` those that may have changed since the
    last call of either.
    """

    def all_rows(self) -> RowSteps:
        """Returns every row by its name."""

    def changed_rows(self) -> RowSteps:
        """Returns the rows that may have changed."""


class StreamFrame(NamedTuple):
    """One event, as text and as a part of a gzip stream."""

    number: int
    topic: Hashable
    text: bytes
    packed: bytes


class Viewer:
    """The frames that one reader has not read yet, who takes them when it is woken. ``lost``: it was dropped, because
    these were too many.
    """

    def __init__(self) -> None:
        self.lost = False
        self._frames: deque[StreamFrame] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()

    def offer(self, frame: StreamFrame) -> None:
        """Adds a frame, or drops the viewer."""
        self._bytes += len(frame.packed)
        if self._bytes > UNREAD_BYTES and self._frames:
            self.drop()
        elif not self.lost:
            self._frames.append(frame)

    def wake(self) -> bool:
        """Lets the reader take what it has not read; returns whether there is anything."""
        if self._frames:
            self._arrived.set()
        return bool(self._frames)

    def drop(self) -> None:
        """Ends the stream of this viewer."""
        self.lost = True
        self._frames.clear()
        self._arrived.set()

    async def next(self, seconds: float) -> list[StreamFrame] | None:
        """Returns the frames that have arrived, none after so many seconds without one; None if the viewer was
        dropped.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return []
        if self.lost:
            return None
        found = list(self._frames)
        self._frames.clear()
        self._bytes = 0
        self._arrived.clear()
        return found


class _Followed:
    """A topic with its rows as they were sent last. ``since`` is the number of the frame before its first one."""

    def __init__(self, topic: Topic, since: int) -> None:
        self.topic = topic
        self.since = since
        self.rows: dict[str, Raw] = {}
        self.viewers: set[Viewer] = set()
        self.left_at = 0.0
        self.known = False
        self.computing = asyncio.Lock()
        self.whole: StreamFrame | None = None
        """All rows, as long as they are these."""


class Hub:
    """``follow`` for each viewer, ``changed`` for each change, and ``run`` it in one task. ``epoch`` is another one in
    each process: the numbers of another process mean nothing here.
    """

    def __init__(
        self,
        topic_of: Callable[[Hashable], Topic],
        forget: Callable[[Hashable], None] = lambda name: None,
        *,
        epoch: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._topic_of = topic_of
        self._forget = forget
        self._epoch = epoch
        self._clock = clock
        self._now = now
        self._number = 0
        self._followed: dict[Hashable, _Followed] = {}
        self._kept: deque[StreamFrame] = deque()
        self._kept_bytes = 0
        self._dirty = asyncio.Event()
        self._worked = 0.0
        """CPU seconds of the rows of this pass."""
        self.closed = False

    @property
    def viewers(self) -> int:
        """How many viewers there are; each is counted once for a topic."""
        return sum(len(each.viewers) for each in self._followed.values())

    @property
    def idle(self) -> bool:
        """Whether nothing is followed: then changes need not be noticed."""
        return not self._followed

    def changed(self) -> None:
        """Something has changed: rows are computed soon."""
        if self._followed:
            self._dirty.set()

    def close(self) -> None:
        """Ends all streams."""
        self.closed = True
        self.drop()

    def drop(self) -> None:
        """Drops all viewers, who may come back."""
        for followed in self._followed.values():
            for viewer in followed.viewers:
                viewer.drop()

    async def run(self) -> None:
        """Computes and sends what changes, until cancelled."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(COALESCED_SECONDS)
            self._dirty.clear()
            self._worked = 0.0
            await self._pass()
            await asyncio.sleep(max(APART_SECONDS, self._worked * REST))

    async def _pass(self) -> None:
        """Sends the changes of every topic."""
        for name, followed in list(self._followed.items()):
            if not followed.viewers and self._clock() - followed.left_at > FORGOTTEN_SECONDS:
                del self._followed[name]
                self._forget(name)
            elif followed.known and followed.viewers:  # what changes while nobody looks is computed for who comes back
                self._enter(name, followed, await in_pieces(self._timed(followed.topic.changed_rows())))
        await self._wake()

    async def _wake(self) -> None:
        """Wakes who has something to read, once for all topics and a few at a time: each writes to a connection, and
        calls that arrive meanwhile must not wait for all of them.
        """
        woken = 0
        for viewer in list(dict.fromkeys(viewer for each in self._followed.values() for viewer in each.viewers)):
            woken += viewer.wake()
            if woken == WOKEN:
                woken = 0
                await after_calls()

    def _timed(self, steps: RowSteps) -> RowSteps:
        """Adds up the CPU time of steps."""
        while True:
            began = time.thread_time()
            try:
                next(steps)
            except StopIteration as end:
                found: Mapping[str, Raw | None] = end.value
                return found
            finally:
                self._worked += time.thread_time() - began
            yield

    def _enter(self, name: Hashable, followed: _Followed, rows: Mapping[str, Raw | None]) -> None:
        """Offers the rows that differ from what was sent last."""
        put, gone = [], []
        for key, row in rows.items():
            known = followed.rows.get(key)
            if row is None:
                if known is not None:
                    del followed.rows[key]
                    gone.append(key)
            elif row != known:
                followed.rows[key] = row
                put.append(row)
        if not put and not gone:
            return
        self._number += 1
        frame = self._frame(name, {"put": put, "gone": gone})
        followed.whole = None
        self._kept.append(frame)
        self._kept_bytes += len(frame.text) + len(frame.packed)
        while self._kept_bytes > KEPT_BYTES:
            old = self._kept.popleft()
            self._kept_bytes -= len(old.text) + len(old.packed)
        for viewer in followed.viewers:
            viewer.offer(frame)

    def _frame(self, name: Hashable, fields: Raw) -> StreamFrame:
        return _encoded(self._number, name, f"{self._epoch}.{self._number}", {**fields, "at": self._now()})

    async def follow(self, names: Iterable[Hashable], after: str = "") -> AsyncGenerator[list[StreamFrame], None]:
        """Yields frames of topics until the viewer is dropped: those after the one with the id ``after``, if they are
        kept, else all rows first. Yields an empty list now and then, so that a caller can see whether its client is
        still there.
        """
        wanted = list(dict.fromkeys(names))
        viewer = Viewer()
        try:
            for name in wanted:
                if name not in self._followed:
                    self._followed[name] = _Followed(self._topic_of(name), self._number)
                self._followed[name].viewers.add(viewer)
                self.changed()
            for name in wanted:
                await self._know(self._followed[name])
            found = self._missed(wanted, after)
            if found is None:
                found = [await self._whole(name) for name in wanted]
            shown = {each.topic: each.number for each in found}
            yield found
            if self.closed:
                viewer.drop()
            while (arrived := await viewer.next(PING_SECONDS)) is not None:
                yield [each for each in arrived if each.number > shown.get(each.topic, 0)]
        finally:
            for name in wanted:
                if (followed := self._followed.get(name)) is not None:
                    followed.viewers.discard(viewer)
                    followed.left_at = self._clock()
            self.changed()

    async def _know(self, followed: _Followed) -> None:
        """Waits until the rows of a topic are known; the first viewer computes them."""
        async with followed.computing:
            if not followed.known:
                rows = await in_pieces(followed.topic.all_rows())
                followed.rows = {key: row for key, row in rows.items() if row is not None}
                followed.known = True
                self.changed()

    def _missed(self, names: list[Hashable], after: str) -> list[StreamFrame] | None:
        """Returns the frames after an id; None if some of them are not kept."""
        epoch, _, number = after.partition(".")
        if epoch != self._epoch or not number.isdecimal():
            return None
        last = int(number)
        first = self._kept[0].number if self._kept else self._number + 1
        if not first - 1 <= last <= self._number or any(self._followed[name].since > last for name in names):
            return None
        return [each for each in self._kept if each.number > last and each.topic in names]

    async def _whole(self, name: Hashable) -> StreamFrame:
        """Returns all rows of a topic, which are encoded once until they change."""
        followed = self._followed[name]
        if followed.whole is None:
            number, at = self._number, self._now()
            rows = list(followed.rows.values())
            fields = {"all": rows, "at": at}
            frame = await asyncio.to_thread(_encoded, number, name, f"{self._epoch}.{number}", fields)
            if number == self._number:
                followed.whole = frame
            return frame
        return followed.whole


def _encoded(number: int, topic: Hashable, name: str, fields: Raw) -> StreamFrame:
    data = orjson.dumps({"topic": str(topic), **fields})
    text = b"id: " + name.encode() + b"\nevent: rows\ndata: " + data + b"\n\n"
    return StreamFrame(number, topic, text, packed(text))


def packed(text: bytes) -> bytes:
    """Returns a text as a part of a gzip stream that refers to nothing before it."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)


PING: Final = b": ping\n\n"
PING_PACKED: Final = packed(PING)
