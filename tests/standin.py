"""An in-memory stand-in for an API server, for what a real one cannot be made to show on demand: an exact resource
version, a compaction at an exact moment, a restore from backup, an answer lost after the write happened. Every other
test uses the real one.

It keeps objects by path, checks resource versions, pages lists, and streams watches from its whole history. It
validates nothing.
"""

import asyncio
import copy
from dataclasses import dataclass

import orjson

from api.objects import Raw
from core.wire.merge import merged
from tests.faults import Reply, Request

JSON = {"Content-Type": "application/json"}
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Change:
    """One entry of the history."""

    version: int
    type: str
    path: str
    raw: Raw


class StandIn:
    """The upstream of a ``FaultProxy``. ``objects`` by path of the object; ``version`` is the latest resource
    version.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Raw] = {}
        self.version = 100
        self.history: list[Change] = []
        self.compacted = 0
        self.watch_list = True
        self.open_watches = 0
        self._uids = 0
        self._news = asyncio.Event()
        self._bookmarks = 0
        self._hung_up = 0

    def put(self, path: str, raw: Raw) -> Raw:
        """Create or replace an object behind the client's back; returns it with its new version."""
        raw = copy.deepcopy(raw)
        metadata = raw.setdefault("metadata", {})
        old = self.objects.get(path)
        self.version += 1
        if old is None:
            self._uids += 1
        metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("name", path.rsplit("/", 1)[-1])
        if "/namespaces/" in path:
            metadata.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        self.objects[path] = raw
        self._record("MODIFIED" if old else "ADDED", path, raw)
        return raw

    def remove(self, path: str) -> Raw:
        """Delete an object behind the client's back."""
        raw = copy.deepcopy(self.objects.pop(path))
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self._record("DELETED", path, raw)
        return raw

    def compact(self) -> None:
        """Forget the history: a watch from an older version is Gone from now on, one that is open goes on."""
        self.compacted = self.version

    def restore(self, version: int) -> None:
        """Go back to how things were at ``version``, as a restored etcd does."""
        for change in reversed([change for change in self.history if change.version > version]):
            earlier = [c for c in self.history if c.path == change.path and c.version <= version]
            if earlier and earlier[-1].type != "DELETED":
                self.objects[change.path] = earlier[-1].raw
            else:
                self.objects.pop(change.path, None)
        self.history = [change for change in self.history if change.version <= version]
        self.version = version
        self.compacted = version
        self.hang_up()

    def bookmark(self) -> None:
        """Send a bookmark on every open watch."""
        self._bookmarks += 1
        self._tell()

    def hang_up(self) -> None:
        """End every open watch politely, as the server does at ``timeoutSeconds``."""
        self._hung_up += 1
        self._tell()

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        if request.query.get("watch") == "true":
            await self._watch(request, reply)
            return
        code, document = self.answer(request)
        await reply.start(code, JSON)
        await reply.send(orjson.dumps(document))
        await reply.end()

    def answer(self, request: Request) -> tuple[int, Raw]:
        """Returns status and body of the answer to a request that is no watch."""
        path = request.path.removesuffix("/status")
        match request.method:
            case "GET" if path in self.objects:
                return 200, self.objects[path]
            case "GET" if self._is_object(path):
                return _status(404, "NotFound")
            case "GET":
                return self._list(request)
            case "POST":
                body = orjson.loads(request.body)
                path = f"{path}/{body['metadata']['name']}"
                return _status(409, "AlreadyExists") if path in self.objects else (201, self.put(path, body))
        if path not in self.objects:
            if request.headers.get("Content-Type") == APPLY:
                return 201, self.put(path, orjson.loads(request.body))
            return _status(404, "NotFound")
        if request.method == "DELETE":
            self.remove(path)
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        body = orjson.loads(request.body)
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected not in (None, self.objects[path]["metadata"]["resourceVersion"]):
            return _status(409, "Conflict")
        return 200, self.put(path, body if request.method == "PUT" else merged(self.objects[path], body))

    def _is_object(self, path: str) -> bool:
        parts = path.strip("/").split("/")
        depth = 3 if parts[0] == "apis" else 2
        return len(parts) - depth - (2 if "namespaces" in parts else 0) == 2

    def _asked(self, request: Request, path: str) -> bool:
        """Whether an object belongs to the collection that is asked for; one without a namespace in its path spans all
        of them. Of field selectors only `metadata.name=` is known, of label selectors only `key=value`.
        """
        collection, plural = request.path, request.path.rsplit("/", 1)[-1]
        field, _, name = request.query.get("fieldSelector", "").partition("=")
        if field == "metadata.name" and path.rsplit("/", 1)[-1] != name:
            return False
        labels = self.objects[path]["metadata"].get("labels") or {} if path in self.objects else {}
        wanted = [each.split("=") for each in request.query.get("labelSelector", "").split(",") if each]
        if any(labels.get(key) != value for key, value in wanted):
            return False
        return path.rsplit("/", 2)[-2] == plural and ("/namespaces/" not in collection or path.startswith(collection))

    def _list(self, request: Request) -> tuple[int, Raw]:
        found = [raw for path, raw in sorted(self.objects.items()) if self._asked(request, path)]
        start = 0
        version = self.version
        if token := request.query.get("continue"):
            start, version = map(int, token.split("."))
            if version < self.compacted:
                return _status(410, "Expired")
        limit = int(request.query.get("limit") or len(found) or 1)
        metadata: Raw = {"resourceVersion": str(version)}
        if start + limit < len(found):
            metadata["continue"] = f"{start + limit}.{version}"
        return 200, {"kind": "List", "metadata": metadata, "items": found[start : start + limit]}

    async def _watch(self, request: Request, reply: Reply) -> None:
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and not self.watch_list:
            code, document = _status(422, "Invalid")
            await reply.start(code, JSON)
            await reply.send(orjson.dumps(document))
            await reply.end()
            return
        await reply.start(200, JSON)
        sent = int(request.query.get("resourceVersion") or 0)
        if initial:
            sent = self.version
            for path, raw in sorted(self.objects.items()):
                if self._asked(request, path):
                    await reply.send(_line("ADDED", raw))
            await reply.send(_line("BOOKMARK", _bookmark(sent, {"k8s.io/initial-events-end": "true"})))
        elif sent < self.compacted:
            await reply.send(_line("ERROR", _status(410, "Expired")[1]))
            await reply.end()
            return
        self.open_watches += 1
        try:
            await self._stream(request, reply, sent)
        finally:
            self.open_watches -= 1
        await reply.end()

    async def _stream(self, request: Request, reply: Reply, sent: int) -> None:
        bookmarks, hung_up = self._bookmarks, self._hung_up
        while hung_up == self._hung_up:
            news = self._news  # taken first, so that no change between looking and waiting is missed
            for change in [change for change in self.history if change.version > sent]:
                sent = change.version
                if self._asked(request, change.path):
                    await reply.send(_line(change.type, change.raw))
            if bookmarks != self._bookmarks:
                bookmarks = self._bookmarks
                await reply.send(_line("BOOKMARK", _bookmark(self.version, {})))
            await news.wait()

    def _record(self, type: str, path: str, raw: Raw) -> None:
        self.history.append(Change(self.version, type, path, copy.deepcopy(raw)))
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _line(type: str, raw: Raw) -> bytes:
    return orjson.dumps({"type": type, "object": raw}) + b"\n"


def _bookmark(version: int, annotations: dict[str, str]) -> Raw:
    return {
        "kind": "Thing",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "annotations": annotations},
    }


def _status(code: int, reason: str) -> tuple[int, Raw]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }
