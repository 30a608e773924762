"""Reads an API server with the standard library: one call after the other, on one connection.

For the commands of ``kubectl seiretsu``, which make a few calls: ``controller.kube.client`` is made for a process that
runs for months, and its library alone takes a third of the time in which ``kubectl seiretsu explain`` answers.
``cli.writer`` adds the calls that change something.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, RemoteDisconnected
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from api import names
from api.document import loads
from api.objects import Raw, Resource
from cli.words import GIVEN
from controller.kube.config import Connection
from controller.kube.errors import ApiError, Forbidden, Unintelligible, Unreachable, from_answer, is_json

Headers = list[tuple[str, str]]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
PAGE_SIZE = 500
TRIES = 4
"""How often a call is sent that is answered with 429."""


class Call(NamedTuple):
    """A request; ``content_type`` is that of ``body``, which is empty for a GET."""

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    accept: str = "application/json"


class Reader:
    """Reads as the account of a connection. Every error is an ``ApiError``. Use as ``with``.

    ``seconds`` is how long an answer may take; 0 is what the command line says, else half a minute.
    """

    def __init__(self, connection: Connection, seconds: float = 0.0) -> None:
        self.connection = connection
        self._seconds = seconds or GIVEN.get().get("request_timeout") or ANSWER_SECONDS
        self._server = urlsplit(connection.server)
        self._open: HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", most: int = 0
    ) -> list[Raw] | None:
        """Returns the objects of a kind, the first ``most`` of them if that is not 0; none where the cluster does not
        serve it, None where the user may not list them.
        """
        query = {"limit": str(most or PAGE_SIZE)}
        query |= {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        found = []
        while True:
            try:
                page = self.get(resource.path(namespace), query)
            except Forbidden:
                return None
            except ApiError as error:
                if error.status == 404:
                    return []
                raise
            for item in page.get("items") or ():
                found.append({"apiVersion": resource.api_version, "kind": resource.kind, **item})
            token = (page.get("metadata") or {}).get("continue")
            if not token or most:
                return found
            query["continue"] = token

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Raw:
        """Returns the JSON object at a path."""
        return self._called(Call("GET", self._target(path, query)))

    def table(self, path: str, query: Mapping[str, str] | None = None) -> Raw:
        """Returns what is at a path as the API server's own table: what ``kubectl get`` prints."""
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        return self._called(Call("GET", self._target(path, query), accept=accept))

    def _target(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return self._server.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")

    def _called(self, call: Call) -> Raw:
        """Returns the answer to a request; one that is refused with 401 or 429 is sent again."""
        fresh = False
        for left in range(TRIES, 0, -1):
            status, headers, body = self._answered(call, fresh)
            content_type = headers.get("Content-Type", "")
            if 200 <= status < 300:
                self._warned(headers)
                return _document(status, content_type, body)
            waits = headers.get("Retry-After", "")
            refusal = from_answer(status, content_type, body, float(waits) if waits.isdigit() else None)
            if status == 401 and not fresh:
                fresh = True
            elif status == 429 and left > 1:
                time.sleep(min(refusal.retry_after or 1.0, ANSWER_SECONDS))
            else:
                raise refusal
        raise refusal

    def _warned(self, headers: HTTPMessage) -> None:
        """Nothing that is read is warned about."""

    def _answered(self, call: Call, fresh: bool) -> tuple[int, HTTPMessage, bytes]:
        """Sends a request; on a new connection if the server has closed the present one meanwhile. What creates an
        object is sent once, on a connection of its own: if that breaks, the object may exist.
        """
        headers = self._headers(call, fresh)
        if call.method == "POST":
            self._close()
        reused = self._open is not None
        try:
            try:
                response = self._sent(call, headers)
            except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                if not reused:
                    raise
                self._close()
                response = self._sent(call, headers)
            body = response.read()
        except (OSError, HTTPException) as error:
            self._close()
            raise Unreachable(0, type(error).__name__, f"at {self.connection.server}: {error}") from error
        if response.will_close:
            self._close()
        return response.status, response.headers, body

    def _sent(self, call: Call, headers: Headers) -> HTTPResponse:
        if self._open is None:
            self._open = self._opened()
        plain_proxy = self.connection.proxy and self._server.scheme == "http"
        target = f"http://{self._server.netloc}{call.target}" if plain_proxy else call.target
        self._open.putrequest(call.method, target)
        for name, value in headers:
            self._open.putheader(name, value)
        self._open.endheaders(call.body or None)
        return self._open.getresponse()

    def _opened(self) -> HTTPConnection:
        """A connection to the server, or to the proxy before it."""
        port = self._server.port or (443 if self._server.scheme == "https" else 80)
        host = self._server.hostname or ""
        if self.connection.proxy:
            proxy = urlsplit(self.connection.proxy)
            made = HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=CONNECT_SECONDS)
            if self._server.scheme == "https":
                made.set_tunnel(host, port, headers=_authorization(proxy))
        else:
            made = HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        made.connect()
        if self._server.scheme == "https":
            context = self.connection.tls or ssl.create_default_context()
            made.sock = context.wrap_socket(made.sock, server_hostname=self.connection.server_name or host)
        made.sock.settimeout(self._seconds)
        return made

    def _headers(self, call: Call, fresh: bool) -> Headers:
        """The credentials; those of a plugin are asked for on an event loop."""
        found: Headers = [("Accept", call.accept), ("User-Agent", names.FIELD_MANAGER)]
        if call.body:
            found += [("Content-Type", call.content_type), ("Content-Length", str(len(call.body)))]
        if authorization := asyncio.run(self.connection.credentials.authorization(fresh=fresh)):
            if not authorization.isprintable():
                raise Unreachable(0, "BadCredentials", "the credentials have a line end in them")
            found.append(("Authorization", authorization))
        if self.connection.account is not None:
            found += self.connection.account.headers()
        return found

    def _close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(OSError):
                self._open.close()
        self._open = None


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _document(status: int, content_type: str, body: bytes) -> Raw:
    found: object = None
    if is_json(content_type):
        with contextlib.suppress(ValueError):
            found = loads(body)
    if not isinstance(found, dict):
        raise Unintelligible(status, "Unintelligible", f"not a Kubernetes answer ({content_type or 'no type'})")
    return found
