"""An API server that is far away: a way to it on which every byte needs some time in each direction."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, urlsplit


class _End(asyncio.Protocol):
    """One end of a connection: what arrives leaves at the other end, so many seconds later."""

    def __init__(self, seconds: float, open_ends: set[asyncio.Transport]) -> None:
        self.other: asyncio.Transport | None = None
        self._seconds = seconds
        self._open = open_ends
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self._transport)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._leave, data)

    def eof_received(self) -> bool:
        asyncio.get_running_loop().call_later(self._seconds, self._end)
        return True  # what is on its way to this end still arrives

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self._transport)
        asyncio.get_running_loop().call_later(self._seconds, self._close)

    def _leave(self, data: bytes) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.write(data)

    def _end(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.write_eof()

    def _close(self) -> None:
        if self.other is not None:
            self.other.close()


class _Entrance(_End):
    """The end that a caller connects to: it connects to the API server."""

    def __init__(self, seconds: float, open_ends: set[asyncio.Transport], place: SplitResult) -> None:
        super().__init__(seconds, open_ends)
        self._place = place
        self._connecting: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.other, back = await loop.create_connection(
                lambda: _End(self._seconds, self._open), self._place.hostname or "", self._place.port or 443
            )
        except BaseException:  # the API server does not answer, or all ends: so the caller learns it
            self._transport.abort()
            raise
        back.other = self._transport
        self._transport.resume_reading()


@contextlib.contextmanager
def far(kubeconfig: Path, seconds: float) -> Iterator[Path]:
    """Context in which the API server of a kubeconfig (JSON) is so many seconds away in each direction, for those who
    use the returned kubeconfig. Bytes keep their order; as many as a caller sends are on the way at once.
    """
    config = json.loads(kubeconfig.read_text())
    place = urlsplit(config["clusters"][0]["cluster"]["server"])
    opened: Future[int] = Future()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        open_ends: set[asyncio.Transport] = set()
        async with await loop.create_server(lambda: _Entrance(seconds, open_ends, place), "127.0.0.1", 0) as server:
            opened.set_result(server.sockets[0].getsockname()[1])
            await ended.wait()
            for each in open_ends:
                each.abort()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)

    thread = threading.Thread(target=run, name="far")
    thread.start()
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{opened.result()}"
    try:
        path = kubeconfig.with_name(f"{kubeconfig.name}-far")
        path.write_text(json.dumps(config))
        yield path
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
