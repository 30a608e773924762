"""Reads etcd by its JSON gateway: a list of a range of keys, and a watch that begins where the list ends."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CALL_SECONDS = 60.0


class Entry(NamedTuple):
    """A change of a key. ``value`` is None where it was deleted; ``version`` counts the writes since it was created."""

    key: str
    revision: int
    version: int
    value: bytes | None


class Etcd:
    """One member of etcd, by its client URL (http)."""

    def __init__(self, url: str, first: bytes, last: bytes) -> None:
        self._address = urlsplit(url).netloc
        self._range = {"key": _text(first), "range_end": _text(last)}

    def list(self) -> tuple[int, list[Entry]]:
        """Returns the present revision, and all entries of the range in the order in which they were last written."""
        request = self._range | {"sort_target": "MOD", "sort_order": "ASCEND"}
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=CALL_SECONDS)) as connection:
            connection.request("POST", "/v3/kv/range", json.dumps(request))
            answer = json.loads(connection.getresponse().read())
        return int(answer["header"]["revision"]), [_entry(each) for each in answer.get("kvs", ())]

    def watch(self, revision: int) -> Iterator[Entry]:
        """Yields every change from a revision on, in order. Raises when the connection or the watch ends."""
        request = {"create_request": self._range | {"start_revision": str(revision)}}
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=CALL_SECONDS)) as connection:
            connection.request("POST", "/v3/watch", json.dumps(request))
            assert connection.sock is not None
            connection.sock.settimeout(None)
            for line in connection.getresponse():
                found = json.loads(line).get("result") or {}
                if found.get("canceled"):
                    raise OSError(f"etcd ended the watch at revision {revision}: {found}")
                for each in found.get("events", ()):
                    yield _entry(each["kv"], deleted=each.get("type") == "DELETE")
        raise OSError("the watch ended")


def _entry(found: Any, *, deleted: bool = False) -> Entry:
    value = None if deleted else base64.b64decode(found.get("value", ""))
    key = base64.b64decode(found["key"]).decode()
    return Entry(key, int(found["mod_revision"]), int(found.get("version", 0)), value)


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()
