"""What is known of the objects that own jobs: from the stores of the enabled kinds, others are read once.

A job whose kind is not enabled, or a ReplicaSet, is not watched, and is only passed on the way up. It is read when
somebody asks for it, if anything above it may be queued, and the jobs below it are reconciled then. Every replica does
this, because every replica answers admission calls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from controller.cache.caches import Caches
from controller.kube.client import Client
from controller.kube.errors import Forbidden, NotFound
from controller.kube.workqueue import WorkQueue
from core.jobs.kind import JobKind
from core.jobs.owners import KNOWN, known, level, makers
from core.jobs.pod_owners import GROUP_OWNERS, PodOwner
from core.model import Key, Raw
from core.model.owner import Level, Owner, Reference

log = structlog.get_logger(__name__)

WORKERS = 4
FIRST_DENIED_SECONDS, LONGEST_DENIED_SECONDS = 5.0, 60.0
"""An owner that may not be read is read again after this time, which doubles: the right may be given meanwhile."""
MOST = 10_000
"""So many owners that are not watched are remembered: those that were asked for last."""


_Place = tuple[str, str, str]
"""Namespace, group and kind of owners: the right to read them is given for these."""


@dataclass(slots=True)
class _Denied:
    owners: dict[tuple[str, Reference], None] = field(default_factory=dict)
    tries: int = 0


_NOTHING = Level("")
"""What is known of an owner above which nothing is queued."""


class Owners:
    """Answers ``look`` for nestings. ``run`` it in every replica; ``wake`` is called with each owner that was read."""

    def __init__(self, caches: Caches, client: Client | None = None, *, external: bool = False) -> None:
        """``external``: there are external frameworks, which may be above objects of any kind."""
        self.caches = caches
        self.client = client
        self.wake: Callable[[Owner], None] = lambda owner: None
        self.queue = WorkQueue[tuple[str, Reference]]("owners", longest_seconds=30.0, tenant=lambda asked: asked[0])
        self._read: OrderedDict[tuple[str, Reference], Level] = OrderedDict()
        """What was read; the owner that was asked for last comes last."""
        watched = [each.resource for each in GROUP_OWNERS if each.resource in caches.stores]
        watched += [each.resource for each in caches.kinds]
        enabled = {(each.group, each.kind) for each in watched}
        self._passed = {each for each in KNOWN if external or not enabled.isdisjoint(makers(each))}
        """The kinds of which owners are read: anything above them may be queued."""
        self._denied: dict[_Place, _Denied] = {}
        self._below: dict[Owner, set[Owner]] = {}

    def look(self, namespace: str, owner: Reference) -> Level | None:
        """Returns what is known of an owner; None if it is not, or not yet: then it is read."""
        kind, asked = self._enabled(owner), (namespace, owner)
        found = self._read.get(asked)
        if kind is not None:
            raw: Raw | None = self.caches.stores[kind.resource].get(Key(namespace, owner.name))
            if raw is not None:
                if found is not None:  # the store reports its end, too
                    self._forget(asked, self._read.pop(asked))
                return level(kind, raw)
        if found is not None:
            self._read.move_to_end(asked)
        elif (owner.group, owner.kind) in self._passed:
            self.queue.add(asked)
        elif known(owner):
            return _NOTHING
        return found

    def below(self, above: Owner) -> Sequence[Owner]:
        """The objects that an object controls, of those that are not watched and were read."""
        return sorted(self._below.get(above, ()))

    async def run(self) -> None:
        """Reads owners until cancelled."""
        await self.queue.run(WORKERS, self._learn)

    async def _learn(self, asked: tuple[str, Reference]) -> float | None:
        """Reads an owner; returns after how many seconds to read it again, if it may not be read now."""
        namespace, owner = asked
        place = (namespace, owner.group, owner.kind)
        denied = self._denied.get(place)
        if (asked in self._read and (denied is None or asked not in denied.owners)) or self.client is None:
            return None
        before, again = self._read.get(asked), None
        try:
            found = await self._level(self.client, namespace, owner)
            self._allowed(place)
        except Forbidden as error:
            again = self._refused(place, asked, str(error))
            found = Level("")
        self._read[asked] = found
        self._read.move_to_end(asked)
        this = _object(namespace, owner)
        if found.above is not None:
            self._below.setdefault(_object(namespace, found.above), set()).add(this)
        while len(self._read) > MOST:
            self._forget(*self._read.popitem(last=False))
        if found != before:
            self.wake(this)
        return again

    def _forget(self, asked: tuple[str, Reference], found: Level) -> None:
        """Forgets an owner that was not asked for for the longest time: it is read again when it is."""
        namespace, owner = asked
        if found.above is not None:
            above = _object(namespace, found.above)
            below = self._below.get(above, set())
            below.discard(_object(namespace, owner))
            if not below:
                self._below.pop(above, None)
        place = namespace, owner.group, owner.kind
        denied = self._denied.get(place)
        if denied is None or asked not in denied.owners:
            return
        first = next(iter(denied.owners)) == asked
        del denied.owners[asked]
        if not denied.owners:
            del self._denied[place]
        elif first:  # it would have been read again after a time: another one is
            self.queue.add(next(iter(denied.owners)))

    def _refused(self, place: _Place, asked: tuple[str, Reference], error: str) -> float | None:
        """Notes that owners of this kind may not be read in this namespace; one of them is read again after a time."""
        denied = self._denied.setdefault(place, _Denied())
        denied.owners[asked] = None
        if next(iter(denied.owners)) != asked:
            return None
        if not denied.tries:
            log.warning("an owner of a job may not be read: what is above it is ignored", error=error)
        denied.tries += 1
        wait: float = FIRST_DENIED_SECONDS * 2 ** min(denied.tries - 1, 10)
        return min(wait, LONGEST_DENIED_SECONDS)

    def _allowed(self, place: _Place) -> None:
        """Reads all owners of this kind and namespace again that could not be read before."""
        denied = self._denied.pop(place, None)
        for each in denied.owners if denied is not None else ():
            self._read.pop(each, None)
            self.queue.add(each)

    async def _level(self, client: Client, namespace: str, owner: Reference) -> Level:
        """Reads an owner; one that is gone ends the way up."""
        resource = KNOWN[owner.group, owner.kind]
        try:
            raw = await client.get(resource, owner.name, namespace)
        except NotFound:
            return Level("", gone=True)
        return level(self._enabled(owner), raw)

    def _enabled(self, owner: Reference) -> JobKind | PodOwner | None:
        """The kind of an owner if its objects are queued, or their pods as groups."""
        watched = (each for each in GROUP_OWNERS if each.resource in self.caches.stores)
        found = (each for each in (*self.caches.kinds, *watched) if each.resource.kind == owner.kind)
        return next((each for each in found if each.resource.group == owner.group), None)


def _object(namespace: str, owner: Reference) -> Owner:
    return Owner(owner.group, owner.kind, namespace, owner.name)
