"""A server with TLS that answers once and does nothing more, not even when its client closes the connection.

It is a stand-in: a real API server that is paused does the same, but cannot be paused in the middle of an answer, and
there is no other program here that receives notifications.
"""

import asyncio
import contextlib
import gc
import socket
import threading
import warnings
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from certs import pki
from certs.live import LiveContext
from tests.eventually import PATIENCE

UNFINISHED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
"""A status and a part of a body."""
WHOLE = b"HTTP/1.1 204 No Content\r\n\r\n"


@contextlib.contextmanager
def unresponsive(answer: bytes = UNFINISHED) -> Iterator[tuple[str, bytes]]:
    """Gives this answer to the first request. Yields the URL and the authority in PEM."""
    now, day = datetime.now(UTC), timedelta(days=1)
    authority, live = pki.new_authority(now, day), LiveContext()
    live.load(pki.new_leaf(authority, ("localhost",), now, day), authority.chain_pem, "localhost", now)
    held: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        held.append(listening.accept()[0])
        held[0].settimeout(PATIENCE)  # the test may fail at any step
        held.append(live.context.wrap_socket(held[0], server_side=True))
        held[1].recv(1000)
        held[1].sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        try:
            yield f"https://localhost:{listening.getsockname()[1]}", authority.chain_pem
        finally:
            serving.join()
            for each in held:
                each.close()


def left_open_by(work: Coroutine[Any, Any, None]) -> list[str]:
    """Runs this in an event loop of its own, and returns the warnings about what is open when that has ended."""
    gc.collect()  # what earlier tests have left
    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as left:
        asyncio.run(work)
        gc.collect()
    return [str(each.message) for each in left]
