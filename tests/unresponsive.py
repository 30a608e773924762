"""A server with TLS that begins an answer and does nothing more: no real server can be made to do so."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from certs import pki
from certs.live import LiveContext
from tests.eventually import PATIENCE


@contextlib.contextmanager
def unresponsive() -> Iterator[tuple[str, bytes]]:
    """Answers the first request with 200 and a part of a body; after that not even a client that closes is answered.
    Yields its URL and its authority in PEM.
    """
    now, day = datetime.now(UTC), timedelta(days=1)
    authority, live = pki.new_authority(now, day), LiveContext()
    live.load(pki.new_leaf(authority, ("localhost",), now, day), authority.chain_pem, "localhost", now)
    held: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        held.append(live.context.wrap_socket(accepted, server_side=True))
        held[-1].recv(1000)
        held[-1].sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)  # the test may fail before it connects
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        try:
            yield f"https://localhost:{listening.getsockname()[1]}", authority.chain_pem
        finally:
            serving.join()
            for each in held:
                each.close()
