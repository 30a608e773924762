"""What is known of the objects that own jobs: from the stores of the enabled kinds, others are read once.

A job whose kind is not enabled, or a ReplicaSet, is not watched, and is only passed on the way up. It is read when
somebody asks for it, and the jobs below it are reconciled then. Every replica does this, because every replica answers
admission calls.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from controller.caches import Caches
from controller.kube.client import Client
from controller.kube.errors import Forbidden, NotFound
from controller.kube.workqueue import WorkQueue
from core.jobs.owners import KNOWN, kind_of_owner, known, level
from core.model import Key, Raw
from core.model.owner import Level, Owner, Reference

log = structlog.get_logger(__name__)

WORKERS = 4
DENIED_SECONDS = 300.0
"""An owner that may not be read is read again after this time: the right may be given, or its refusal was a mistake."""
MOST = 10_000
"""So many owners that are not watched are remembered; then all are read again."""


class Owners:
    """Answers ``look`` for nestings. ``run`` it in every replica; ``wake`` is called with each owner that was read."""

    def __init__(self, caches: Caches, client: Client | None = None) -> None:
        self.caches = caches
        self.client = client
        self.wake: Callable[[Owner], None] = lambda owner: None
        self.queue = WorkQueue[tuple[str, Reference]]("owners", longest_seconds=30.0)
        self._read: dict[tuple[str, Reference], Level] = {}
        self._denied: set[tuple[str, Reference]] = set()

    def look(self, namespace: str, owner: Reference) -> Level | None:
        """Returns what is known of an owner; None if it is not, or not yet: then it is read."""
        kind = kind_of_owner(owner)
        kind = kind if kind in self.caches.kinds else None
        if kind is not None:
            raw: Raw | None = self.caches.stores[kind.resource].get(Key(namespace, owner.name))
            if raw is not None:
                return level(kind, raw)
        found = self._read.get((namespace, owner))
        if found is None and known(owner):
            self.queue.add((namespace, owner))
        return found

    async def run(self) -> None:
        """Reads owners until cancelled."""
        await self.queue.run(WORKERS, self._learn)

    async def _learn(self, asked: tuple[str, Reference]) -> float | None:
        """Reads an owner; returns after how many seconds to read it again, if it may not be read now."""
        namespace, owner = asked
        if (asked in self._read and asked not in self._denied) or self.client is None:
            return None
        if len(self._read) >= MOST:
            self._read.clear()
            self._denied.clear()
        before = self._read.get(asked)
        try:
            found = await self._level(self.client, namespace, owner)
            self._denied.discard(asked)
        except Forbidden as error:
            log.warning("an owner of a job may not be read: what is above it is ignored", error=str(error))
            found = Level("")
            self._denied.add(asked)
        self._read[asked] = found
        if found != before:
            self.wake(Owner(owner.group, owner.kind, namespace, owner.name))
        return DENIED_SECONDS if asked in self._denied else None

    async def _level(self, client: Client, namespace: str, owner: Reference) -> Level:
        """Reads an owner; one that is gone ends the way up."""
        kind = kind_of_owner(owner)
        resource = KNOWN[owner.group, owner.kind]
        try:
            raw = await client.get(resource, owner.name, namespace)
        except NotFound:
            return Level("")
        return level(kind if kind in self.caches.kinds else None, raw)
