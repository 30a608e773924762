"""The groups of objects that have several, each with a Workload of its own (``core.multikueue.siblings``): read from
the cache at the first question about an object, and then kept up to date.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from weakref import WeakValueDictionary

from api import names
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from core.jobs import meta
from core.jobs.mirrored_owners import several_of
from core.model import Workload
from core.multikueue.group import Worker
from core.multikueue.siblings import Siblings


class SiblingIndex:
    """The groups of each object, by its uid."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._siblings: dict[str, Siblings] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, raw: Raw) -> Siblings:
        """The groups of the object that a Workload is one group of; empty for other Workloads."""
        return self._of_object(job_uid(raw)) if several_of(raw) is not None else Siblings()

    def groups(self, uid: str) -> Iterator[Workload]:
        """The Workloads of the groups of the object with this uid."""
        for raw in self._caches.workloads.by_index("job-uid", uid):
            value = self._caches.get(key_of(raw))
            if value is not None and several_of(raw) is not None:
                yield value

    def changed(self, key: Key, old: Raw | None, new: Raw | None) -> None:
        """A Workload has changed: counts it among the groups of its object, if these were asked for before."""
        uids = {job_uid(raw) for raw in (old, new) if raw is not None}
        for uid in uids & self._siblings.keys():
            mine = new is not None and job_uid(new) == uid and several_of(new) is not None
            self._siblings[uid].set(key, self._caches.get(key) if mine else None)
            if not self._siblings[uid]:
                del self._siblings[uid]

    def shared(self, worker: Worker, key: Key) -> Worker:
        """The worker, with whether other Workloads run there by the same objects."""
        origins = {meta.annotations(each).get(names.Annotation.MULTIKUEUE_ORIGIN_UID) for each in worker.jobs}
        runs = any(self._of_object(str(uid)).runs_in(worker.name, without=key) for uid in origins if uid)
        return replace(worker, shared=True) if runs else worker

    def one_by_one(self, key: Key) -> contextlib.AbstractAsyncContextManager[None]:
        """A lock for the groups of one object; none for other Workloads."""
        raw = self._caches.workloads.get(key)
        if raw is None or several_of(raw) is None:
            return contextlib.nullcontext()
        return self._locks.setdefault(str(meta.labels(raw).get(names.Label.JOB_UID)), asyncio.Lock())

    def _of_object(self, uid: str) -> Siblings:
        found = self._siblings.get(uid)
        if found is None:
            found = Siblings(self.groups(uid))
            if found:
                self._siblings[uid] = found
        return found


def job_uid(raw: Raw) -> str:
    """The uid of the job of a Workload, or of the object of which it is one of several groups."""
    return str(meta.labels(raw).get(names.Label.JOB_UID) or "")
