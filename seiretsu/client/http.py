"""Calls of the API server with the standard library: JSON in, JSON out, warnings and watches."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from seiretsu.depth import without_depths

Raw = dict[str, Any]

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER: Final = "https://kubernetes.default.svc"
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_SECONDS: Final = 60.0


class ApiError(Exception):
    """The API server refused a call. ``status`` is the HTTP code, the text what kubectl would print."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class UnreachableError(ApiError, OSError):
    """The API server does not answer; ``status`` is 0, the text names its address. Also an ``OSError``, as that of the
    standard library is.
    """

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Configuration(Protocol):
    """The part of ``kubernetes.client.Configuration`` that is read, the same in all its versions."""

    host: str
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool

    def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The value of the header ``Authorization``; renewed when it has expired."""


@dataclass(frozen=True)
class Answer:
    """An object from the API server, and the warnings that kubectl would print."""

    body: Raw
    warnings: tuple[str, ...] = ()


class Api:
    """The API server at a URL. ``authorization`` gives the value of that header for each call, '' for none."""

    def __init__(self, url: str, context: ssl.SSLContext, authorization: Callable[[], str]) -> None:
        self._url, self._authorization = url.rstrip("/"), authorization
        self._opener = build_opener(HTTPSHandler(context=context))

    @classmethod
    def of(cls, configuration: Configuration) -> Api:
        """As the official ``kubernetes`` package is configured."""
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def authorization() -> str:
            known = getattr(configuration, "api_key", {})
            name = next((each for each in ("BearerToken", "authorization") if each in known), "BearerToken")
            return configuration.get_api_key_with_prefix(name) or ""

        return cls(configuration.host, context, authorization)

    @classmethod
    def in_cluster(cls) -> Api:
        """With the service account of the pod that this runs in; its token is read anew for each call."""
        context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
        return cls(_IN_CLUSTER, context, lambda: f"Bearer {(_ACCOUNT / 'token').read_text().strip()}")

    def get(self, path: str, **query: str) -> Raw:
        """Read an object or a list."""
        return self._call("GET", path, None, query).body

    def create(self, path: str, body: Raw) -> Answer:
        """Create an object."""
        return self._call("POST", path, body, {})

    def patch(self, path: str, body: Raw) -> Answer:
        """Change an object, or a subresource of it, with a JSON merge patch."""
        return self._call("PATCH", path, body, {})

    def delete(self, path: str) -> None:
        """Delete an object; what it owns is deleted in the background."""
        self._call("DELETE", path, {"propagationPolicy": "Background"}, {})

    def watch(self, path: str, seconds: float, **query: str) -> Iterator[Raw]:
        """The events of a watch, for at most so many seconds."""
        limit = {"watch": "true", "timeoutSeconds": str(max(1, round(seconds)))}
        request = self._request("GET", path, None, query | limit)
        try:
            with self._opener.open(request, timeout=seconds + _SECONDS) as lines:
                for line in lines:
                    yield document(line)
        except HTTPError as error:
            raise refusal(error.code, error.read()) from None
        except OSError as error:
            raise UnreachableError(unreachable(self._url, error)) from error

    def _request(self, method: str, path: str, body: Raw | None, query: Mapping[str, str]) -> Request:
        url = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data=data, method=method)
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", f"application/{'merge-patch+' if method == 'PATCH' else ''}json")
        if authorization := self._authorization():
            request.add_header("Authorization", authorization)
        return request

    def _call(self, method: str, path: str, body: Raw | None, query: Mapping[str, str]) -> Answer:
        try:
            with self._opener.open(self._request(method, path, body, query), timeout=_SECONDS) as response:
                return Answer(document(response.read()), warnings(response.headers.get_all("Warning") or ()))
        except HTTPError as error:
            raise refusal(error.code, error.read()) from None
        except (OSError, HTTPException) as error:
            raise UnreachableError(unreachable(self._url, error)) from error


def document(text: bytes) -> Raw:
    """The object in an answer, without what somebody has nested too deep in it."""
    try:
        found: Raw = json.loads(text)
    except RecursionError:
        found = json.loads(without_depths(text))
    return found


def unreachable(url: str, error: Exception) -> str:
    """Returns what kubectl prints if there is no answer from this address."""
    host = urlsplit(url).netloc
    why = getattr(error, "reason", error)
    if isinstance(why, ConnectionRefusedError):
        return f"The connection to the server {host} was refused - did you specify the right host or port?"
    if isinstance(why, ssl.SSLCertVerificationError):
        return f"Unable to connect to the server {host}: its certificate is not valid: {why.verify_message}"
    if isinstance(why, gaierror):
        return f"Unable to connect to the server: there is no host {urlsplit(url).hostname}"
    if isinstance(why, TimeoutError):
        return f"Unable to connect to the server {host}: it does not answer in time"
    return f"Unable to connect to the server {host}: {getattr(why, 'strerror', None) or why}"


def warnings(headers: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Returns the texts of ``Warning`` headers (RFC 7234: ``299 - "text"``, several of them separated by commas)."""
    found = (match[1] for header in headers for match in _WARNING.finditer(header))
    return tuple(text.encode("latin-1", "replace").decode("utf-8", "replace").replace('\\"', '"') for text in found)


def refusal(status: int, body: bytes) -> ApiError:
    """The error for an answer with that HTTP code; its body is a ``Status`` or any text."""
    try:
        answer = json.loads(body)
        return ApiError(status, str(answer.get("reason") or ""), str(answer.get("message") or f"HTTP {status}"))
    except (ValueError, AttributeError):
        return ApiError(status, "", body.decode(errors="replace").strip() or f"HTTP {status}")
