"""Reads queues and workloads for the page: each kind is listed once and then watched, in a thread of its own.

Changes wait in a queue of limited length: a page that is slow, or paused, holds the readers back, and memory does not
grow. A watch that ends is begun again where it stood; one that is too old lists again. Positions are asked from the
visibility API for the queue that is open.
"""

from __future__ import annotations

import contextlib
import queue as queues
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import Final, NamedTuple

import orjson

from api import resources, visibility
from api.objects import Key, Raw, Resource, key_of
from cli.reader import PAGE_SIZE, Call, Reader
from cli.target import sentence
from cli.top import model
from cli.top.model import Board, RecordChange
from controller.kube.config import Connection
from controller.kube.errors import ApiError, Forbidden, Gone, Unreachable, from_answer

WATCH_SECONDS: Final = 50
"""A watch is begun again after this time, so that a connection that is dead is noticed."""
LONGEST_LINE: Final = 16 << 20
MOST_WAITING: Final = 20_000
"""So many changes wait for the page."""
POSITIONS_SECONDS: Final = 3.0
LONGEST_PAUSE: Final = 30.0


class ReadKind(NamedTuple):
    """A kind that is read, and how an object of it becomes a record."""

    resource: Resource
    kind: str
    record: Callable[[Raw], model.QueueRecord | model.WorkloadRecord]


SOURCES: Final = (
    ReadKind(resources.CLUSTER_QUEUES, "queue", model.queue),
    ReadKind(resources.LOCAL_QUEUES, "queue", model.queue),
    ReadKind(resources.WORKLOADS, "line", model.line),
)


class Watcher(Reader):
    """Reads like Reader, and watches."""

    def watch(self, resource: Resource, namespace: str, version: str) -> Iterator[Raw]:
        """Yields the events of a watch until the server ends it."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        query["allowWatchBookmarks"] = "true"
        call = Call("GET", self._target(resource.path(namespace), query))
        response = self._streamed(call)
        try:
            while line := response.readline(LONGEST_LINE):
                event = orjson.loads(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    kind = Gone if status.get("code") == 410 else ApiError
                    raise kind(
                        int(status.get("code") or 0), str(status.get("reason", "")), str(status.get("message", ""))
                    )
                yield event
        except (OSError, ValueError) as error:
            raise Unreachable(0, type(error).__name__, f"at {self.connection.server}: {error}") from error
        finally:
            self._close()

    def _streamed(self, call: Call) -> HTTPResponse:
        """Returns an answer of which the body is still to be read. Credentials that have ended are renewed once."""
        for fresh in (False, True):
            try:
                response = self._sent(call, self._headers(call, fresh))
                if response.status == 200:
                    return response
                body = response.read(LONGEST_LINE)
            except (OSError, HTTPException) as error:
                self._close()
                raise Unreachable(0, type(error).__name__, f"at {self.connection.server}: {error}") from error
            self._close()
            if response.status != 401 or fresh:
                break
        raise from_answer(response.status, response.headers.get("Content-Type", ""), body, None)


class Feed:
    """The threads that read. ``notice`` is what the page shows of them."""

    def __init__(self, connection: Connection, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        """``namespace`` is the only one to read; empty: all, or that of the context if the rights end there."""
        self._connection = connection
        self._namespace = namespace
        self._clock = clock
        self._changes: queues.Queue[RecordChange] = queues.Queue(MOST_WAITING)
        self._stop = threading.Event()
        self._states: dict[str, str] = {}
        self._positions: dict[Key, int] = {}
        self._open: tuple[Key, ...] = ()
        self._asked = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(each,), daemon=True) for each in SOURCES]
        self._threads.append(threading.Thread(target=self._ask_positions, daemon=True))

    def start(self) -> None:
        """Begins to read."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Ends the threads; those that wait for the API server end with the process."""
        self._stop.set()
        self._asked.set()

    def notice(self) -> str:
        """What is being loaded, or why nothing is."""
        return "; ".join(text for _, text in sorted(self._states.items()) if text)

    def open(self, places: tuple[Key, ...]) -> None:
        """Chooses the queues whose positions are asked for: a ClusterQueue has no namespace."""
        if places != self._open:
            self._open = places
            self._asked.set()

    def enter(self, board: Board, seconds: float) -> bool:
        """Enters the changes that wait into the board, for at most so many seconds; returns whether there were any."""
        end = self._clock() + seconds
        entered = False
        while self._clock() < end:
            batch = []
            with contextlib.suppress(queues.Empty):
                for _ in range(500):
                    batch.append(self._changes.get_nowait())
            if not batch:
                break
            board.apply(batch)
            entered = True
        if self._positions != board.positions:
            board.positions = self._positions
            board.version += 1
        return entered

    def _put(self, change: RecordChange) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queues.Full):
                self._changes.put(change, timeout=0.5)
                return

    def _read(self, source: ReadKind) -> None:
        """Lists and watches one kind, until the page ends."""
        known: dict[Key, str] = {}
        pause = 1.0
        namespace = self._namespace if source.resource.namespaced else ""
        version = ""
        while not self._stop.is_set():
            try:
                with Watcher(self._connection, WATCH_SECONDS + 20.0) as reader:
                    if not version:
                        version = self._list(reader, source, namespace, known)
                    self._states[source.resource.plural] = ""
                    began = self._clock()
                    version = self._watch(reader, source, namespace, version, known)
                    pause = 1.0
                    if (
                        self._clock() - began < pause
                    ):  # a server that ends each watch at once is not asked again at once
                        self._stop.wait(pause)
            except Gone:
                version = ""
            except Forbidden as error:
                if source.resource.namespaced and not namespace:
                    namespace = self._connection.namespace
                    continue
                if source.resource.namespaced:
                    self._states[source.resource.plural] = sentence(error, self._connection.server)
                return
            except ApiError as error:
                self._states[source.resource.plural] = f"{sentence(error, self._connection.server)}: asks again"
                self._stop.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _list(self, reader: Reader, source: ReadKind, namespace: str, known: dict[Key, str]) -> str:
        """Enters all objects, page after page; what is gone since the last list is removed. Returns the version."""
        query = {"limit": str(PAGE_SIZE)}
        seen: set[Key] = set()
        while not self._stop.is_set():
            found = reader.get(source.resource.path(namespace), query)
            metadata = found.get("metadata") or {}
            for raw in found.get("items") or ():
                seen.add(key_of(raw))
                self._enter(source, raw, known)
            token = metadata.get("continue")
            if not token:
                break
            rest = metadata.get("remainingItemCount")
            of = f" of {len(seen) + int(rest)}" if rest else ""
            self._states[source.resource.plural] = f"loading {source.resource.plural}: {len(seen)}{of}"
            query["continue"] = str(token)
        for key in [each for each in known if each not in seen]:
            self._remove(source, key, known)
        return str(metadata.get("resourceVersion", ""))

    def _watch(self, reader: Watcher, source: ReadKind, namespace: str, version: str, known: dict[Key, str]) -> str:
        """Enters changes until the watch ends; returns the version to go on with."""
        for event in reader.watch(source.resource, namespace, version):
            raw = event.get("object") or {}
            version = str((raw.get("metadata") or {}).get("resourceVersion", version))
            if event.get("type") == "DELETED":
                self._remove(source, key_of(raw), known)
            elif event.get("type") in ("ADDED", "MODIFIED"):
                self._enter(source, raw, known)
            if self._stop.is_set():
                break
        return version

    def _enter(self, source: ReadKind, raw: Raw, known: dict[Key, str]) -> None:
        key, version = key_of(raw), str(raw["metadata"].get("resourceVersion", ""))
        if known.get(key) != version:
            known[key] = version
            self._put(RecordChange(source.kind, key, source.record(raw)))  # type: ignore[arg-type]

    def _remove(self, source: ReadKind, key: Key, known: dict[Key, str]) -> None:
        known.pop(key, None)
        self._put(RecordChange(source.kind, key, None))  # type: ignore[arg-type]

    def _ask_positions(self) -> None:
        """Asks for the positions in the queue that is open, every few seconds; without the right, never again."""
        with Reader(self._connection) as reader:
            while not self._stop.is_set():
                found: dict[Key, int] = {}
                for place in self._open:
                    found |= self._in_queue(reader, place)
                self._positions = found
                self._asked.clear()
                self._asked.wait(POSITIONS_SECONDS if self._open else None)

    def _in_queue(self, reader: Reader, place: Key) -> dict[Key, int]:
        where = f"namespaces/{place.namespace}/localqueues" if place.namespace else "clusterqueues"
        path = f"/apis/{visibility.GROUP}/{visibility.VERSIONS[0]}/{where}/{place.name}/{visibility.PENDING_WORKLOADS}"
        field = "positionInLocalQueue" if place.namespace else "positionInClusterQueue"
        with contextlib.suppress(ApiError, KeyError, ValueError):
            items = reader.get(path, {"limit": str(visibility.DEFAULT_LIMIT)}).get("items") or ()
            return {key_of(each): int(each[field]) + 1 for each in items}
        return {}
