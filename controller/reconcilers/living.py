"""The pods that are on a node and have not ended, of all namespaces, in the form of ``core.guard.pods``.

Separate from the stores of ``controller.kube.store``, of which it has what a reflector calls: no write of this process
enters here, nothing needs an index, and an entry must be small. The API server selects the pods: one enters when it
gets a node, and leaves when it ends. One watch serves the guard, which follows all pods while this process leads, and
the nodes of topologies, which do so only while a flavor has a topology. Without both there is no watch, and no pod is
kept.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypedDict, cast

import msgspec
import structlog

from api import resources
from controller.cache.switch import Switch
from controller.kube.client import Client
from controller.kube.reflector import Reflector, decoded
from controller.kube.store import SLICE, Store, number_of
from controller.settings import Reading
from core.guard.pods import RUNNING, Fields, Lean, RunningPod
from core.model import Raw
from core.wire.pod_requests import RequestRules

log = structlog.get_logger(__name__)


class _Event(TypedDict):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Fields


_EVENT = msgspec.json.Decoder(_Event)


def read(line: bytes) -> tuple[str, Raw]:
    """Returns the type and the object of a watch event of pods, with the fields of ``Fields`` alone; a bookmark, an
    error, and a pod that is nested too deep are read whole.
    """
    try:
        event = _EVENT.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return decoded(line)
    return event["type"], event["object"]  # type: ignore[return-value]  # a TypedDict is a dict


def living_pods(reading: Reading) -> LivingPods:
    """Returns the pods, none yet, whose requests are counted as the Configuration has Workloads read."""
    rules = RequestRules(transformations=reading.transformations, excluded_prefixes=reading.excluded_prefixes)
    return LivingPods(Lean(rules))


Changed = Callable[[RunningPod | None, RunningPod | None], None]
"""Called with a pod before and after its change."""


PARTS: Final = 256
"""The pods are kept in so many parts: a copy of all keys of 100,000 pods would take six milliseconds in one step."""


class _Listener:
    """A handler, and which pods it has been called for: those of the parts before ``part``, and in this one those that
    are not ``remaining``.
    """

    __slots__ = ("handler", "part", "remaining")

    def __init__(self, handler: Changed) -> None:
        self.handler = handler
        self.part = -1
        self.remaining: dict[str, None] = {}

    def knows(self, part: int, uid: str) -> bool:
        """Whether the handler has been called for a pod, or is to be called now because it is new there."""
        return part < self.part or (part == self.part and uid not in self.remaining)


class LivingPods:
    """The pods by uid, in parts."""

    def __init__(self, lean: Lean) -> None:
        self.lean = lean
        self._parts: list[dict[str, RunningPod]] = [{} for _ in range(PARTS)]
        self._listeners: list[_Listener] = []

    def reflector(self, client: Client, *, on_synced: Callable[[], None] = lambda: None) -> Reflector[RunningPod]:
        """Returns what follows the API server."""
        store = cast("Store[RunningPod]", self)
        return Reflector(client, resources.PODS, store, field_selector=RUNNING, decode=read, on_synced=on_synced)

    def catch_up(self, handler: Changed) -> Iterator[None]:
        """Calls a handler, which must be short, with each pod as added, in steps, and from then on with its changes."""
        listener = _Listener(handler)
        self._listeners.append(listener)
        place = 0
        for listener.part, pods in enumerate(self._parts):
            listener.remaining = dict.fromkeys(pods)
            for uid in tuple(pods):
                if uid in listener.remaining:
                    del listener.remaining[uid]
                    handler(None, pods[uid])
                place += 1
                if not place % SLICE:
                    yield
        listener.part = PARTS

    def leave(self, handler: Changed) -> None:
        """Calls a handler no more."""
        self._listeners = [each for each in self._listeners if each.handler != handler]

    def _changed(self, uid: str, old: RunningPod | None, new: RunningPod | None) -> None:
        part = _part(uid)
        for each in self._listeners:
            if each.knows(part, uid):
                each.handler(old, new)
            elif new is None and part == each.part:
                del each.remaining[uid]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[RunningPod]:
        """Yields the pods, those of each part as they are when it begins: others may change them meanwhile."""
        for pods in self._parts:
            yield from tuple(pods.values())

    def get(self, uid: str) -> RunningPod | None:
        """The pod with that uid; None if it does not run."""
        return self._parts[_part(uid)].get(uid)

    def observe(self, event: str, raw: Raw) -> bool:
        """A watch event; False where the object cannot be read."""
        try:
            if event == "DELETED":
                self._remove(raw["metadata"]["uid"])
            else:
                self.enter(self.lean(raw))
        except Exception as error:
            log.warning("pod skipped: not readable", error=repr(error))
            return False
        return True

    def bookmark(self, version: str) -> None:
        """Nothing depends on how far the watch is."""

    def listing(self) -> PodListing:
        """Begins to gather a complete list."""
        return PodListing(self)

    def enter(self, pod: RunningPod) -> None:
        """Enters a pod, unless a later version of it is known."""
        pods = self._parts[_part(pod.uid)]
        old = pods.get(pod.uid)
        if old is not None and pod.version <= old.version:
            return
        pods[pod.uid] = pod
        self._changed(pod.uid, old, pod)

    def _remove(self, uid: str) -> None:
        old = self._parts[_part(uid)].pop(uid, None)
        if old is not None:
            self._changed(uid, old, None)

    def clear(self) -> Iterator[None]:
        """Removes all pods, in steps."""
        for place, pod in enumerate(self, start=1):
            self._remove(pod.uid)
            if not place % SLICE:
                yield

    def _keep(self, listed: dict[str, RunningPod], version: int) -> Iterator[None]:
        for place, pod in enumerate(listed.values(), start=1):
            self.enter(pod)
            if not place % SLICE:
                yield
        for place, held in enumerate(self, start=1):
            if held.uid not in listed and (not version or held.version <= version):
                self._remove(held.uid)
            if not place % SLICE:
                yield


class FollowedPods:
    """The watch of the pods, as long as anything wants it; ``synced`` is set while all pods are known. ``run`` it in
    one task.
    """

    def __init__(self, pods: LivingPods, client: Client) -> None:
        self.synced = asyncio.Event()
        self._pods = pods
        self._client = client
        self._wanted_by: dict[str, None] = {}
        self._wanted = Switch()
        self._current: object = None
        """The watch that follows them."""

    def want(self, name: str, on: bool) -> None:
        """Something wants the pods, or does not any more."""
        if on:
            self._wanted_by[name] = None
        else:
            self._wanted_by.pop(name, None)
        self._wanted.turn(bool(self._wanted_by))
        if not self._wanted:  # at once: what wants them next waits for the next list
            self._current = None
            self.synced.clear()

    async def run(self) -> None:
        """Follows the pods while they are wanted, until cancelled."""
        while True:
            await self._wanted.while_on(self._follow)
            for _ in self._pods.clear():
                await asyncio.sleep(0)

    async def _follow(self) -> None:
        current = self._current = object()

        def listed() -> None:
            if self._current is current:
                self.synced.set()

        await self._pods.reflector(self._client, on_synced=listed).run()


def _part(uid: str) -> int:
    """The part in which a pod is."""
    return zlib.crc32(uid.encode()) % PARTS


class PodListing:
    """A complete list of the pods while it is received."""

    def __init__(self, pods: LivingPods) -> None:
        self._pods = pods
        self._staged: dict[str, RunningPod] = {}

    def add(self, raw: Raw) -> bool:
        """Reads one pod of the list; False if it cannot be read."""
        try:
            pod = self._pods.lean(raw)
        except Exception as error:
            log.warning("pod skipped: not readable", error=repr(error))
            return False
        self._staged[pod.uid] = pod
        return True

    def discard(self, raw: Raw) -> bool:
        """Removes a pod that ended while the list was received."""
        return self._staged.pop(str(raw["metadata"].get("uid")), None) is not None

    def enter(self, version: str) -> Iterator[None]:
        """Enters the list, and removes the pods that are not in it, in steps."""
        yield from self._pods._keep(self._staged, number_of(version))
