"""A small HTTP server for what the real API server cannot be made to do: refuse, throttle, and show what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from api.objects import Raw


class Asked(NamedTuple):
    """A request."""

    path: str
    query: dict[str, list[str]]
    headers: list[tuple[str, str]]
    method: str = "GET"
    body: Mapping[str, Any] = MappingProxyType({})


class Reply(NamedTuple):
    """What is answered."""

    body: Raw
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


EMPTY = Reply({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})


def refusal(code: int, reason: str, message: str) -> Reply:
    return Reply({"kind": "Status", "code": code, "reason": reason, "message": message}, code)


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[tuple[str, list[Asked]]]:
    """Serves until the end of the block; yields its URL and the requests."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
            asked.append(Asked(url.path, parse_qs(url.query), list(self.headers.items()), self.command, sent))
            reply = answer(asked[-1])
            body = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in (
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                *reply.headers,
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(path: Path, server: str, namespace: str = "team-a", user: Raw | None = None) -> Path:
    """A kubeconfig with the contexts `here`, which is the current one, and `there`."""
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}},
        {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team-b"}},
    ]
    document = {
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t", **(user or {})}}],
        "contexts": contexts,
        "current-context": "here",
    }
    path.write_text(json.dumps(document))
    return path
