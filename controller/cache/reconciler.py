"""The reconciler of all controllers that follow rules: gathers what is known of an object, decides, waits for its turn,
gathers and decides again, and makes that one write. Every status that rules decide is written here.

Separate so that no controller can forget to decide again: other writes were made while one waited for its turn.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Generic, TypeVar, assert_never

from api.objects import Key, Raw, Resource, key_of
from controller.cache.events import Recorder
from controller.cache.writes import Writer, WriterPatchType
from controller.kube.errors import ApiError, Conflict, Invalid, NotFound
from controller.kube.log import get_logger
from controller.kube.workqueue import WorkQueue
from core.actions import Action, Create, Deferred, Delete, Patch, Target, Wait, Write, Writes, steps_of
from core.model.events import Event, created_again

log = get_logger(__name__)

S = TypeVar("S")


class Reconciler(ABC, Generic[S]):
    """Reconciles the objects of one resource, each by its situation: what is known of it. ``run`` it while this process
    leads.

    A subclass gathers situations and decides with rules of ``core``. It may add what a refusal means (``refused``), and
    what is to be done after a write (``written``).
    """

    workers: ClassVar[int]

    def __init__(
        self,
        name: str,
        resource: Resource,
        writer: Writer,
        recorder: Recorder,
        *,
        queue: WorkQueue[Key] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.resource = resource
        self.writer = writer
        self.recorder = recorder
        self.clock = clock
        self.queue = queue if queue is not None else WorkQueue[Key](name, longest_seconds=30.0)

    def gather(self, key: Key) -> S | None:
        """Returns the situation of an object; None if it is gone, or if nothing may be decided about it now."""
        raise NotImplementedError

    def decide(self, situation: S) -> Action:
        """Returns the next action."""
        raise NotImplementedError

    @abstractmethod
    def about(self, situation: S) -> tuple[Key, str]:
        """The key and the uid of the object on which events are emitted."""

    def goes_first(self, situation: S, action: Action) -> bool:
        """Whether the write is made before those that can wait longer, e.g. because it uses or releases quota."""
        return True

    async def idle(self, key: Key, situation: S, wait: Wait) -> float | None:
        """There is nothing to write. Returns when to look again, in seconds."""
        return wait.seconds

    async def deferred(self, key: Key, situation: S, action: Deferred) -> float | None:
        """Does work that does not fit in this turn. Returns when to look again, in seconds."""
        raise NotImplementedError

    async def refused(self, key: Key, situation: S, write: Write, error: ApiError) -> None:
        """The API server refuses a write: raises the error if it is to be tried again with backoff."""
        raise error

    def created(self, key: Key, situation: S, create: Create, answer: Raw) -> None:
        """An object was created; ``answer`` is how the API server stores it."""

    async def written(self, key: Key, situation: S, action: Write | Writes) -> None:
        """The writes of an action were made. The changes that they cause queue the objects that depend on them."""

    def turn(self, key: Key, *, first: bool) -> AbstractAsyncContextManager[None]:
        """The context in which a write is decided and made: it waits while admission calls have precedence."""
        return self.writer.turn(key.namespace, first=first)

    async def run(self) -> None:
        """Reconciles until cancelled."""
        await self.queue.run(self.workers, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Makes the next write about an object. Returns when to look again, in seconds."""
        found = await self.look(key)
        return await self.act(key, *found) if found is not None else None

    async def look(self, key: Key) -> tuple[S, Action] | None:
        """Returns the situation of an object and what is decided about it."""
        situation = self.gather(key)
        return (situation, self.decide(situation)) if situation is not None else None

    def is_current(self, key: Key, situation: S, action: Write | Writes) -> bool:
        """Whether it is known that nothing has changed since it was decided: then it is not decided again."""
        return False

    async def act(self, key: Key, situation: S, action: Action) -> float | None:
        """Applies an action, or in its turn what is decided then; what is created again and again, later. Returns when
        to look again, in seconds.
        """
        if not isinstance(action, Wait | Deferred):
            async with self.turn(key, first=self.goes_first(situation, action)):
                if not self.is_current(key, situation, action):
                    found = await self.look(key)  # it may have changed while it waited
                    if found is None:
                        return None
                    situation, action = found
                if not isinstance(action, Wait | Deferred):
                    again = self._again(action)
                    if not again:
                        await self.apply(key, situation, action)
                    return again or None
        if isinstance(action, Deferred):
            return await self.deferred(key, situation, action)
        return await self.idle(key, situation, action)

    def _again(self, action: Write | Writes) -> float:
        """After how many seconds an action may be applied that creates what is created again and again."""
        created = (each for each in steps_of(action) if isinstance(each, Create))
        return max((self.writer.churn.wait(each.resource, key_of(each.manifest)) for each in created), default=0.0)

    async def apply(self, key: Key, situation: S, action: Write | Writes) -> None:
        """Makes the writes of an action and emits its events."""
        log.debug("write", queue=self.queue.name, key=str(key), action=type(action).__name__, why=action.why)
        made = [await self._made(key, situation, each) for each in steps_of(action)]
        if any(made):
            self.emit(situation, *action.events)
            await self.written(key, situation, action)

    async def _made(self, key: Key, situation: S, write: Write) -> bool:
        """Makes a write. Returns False if its object is gone, or if the API server refuses it and that is handled."""
        try:
            await self._write(key, situation, write)
        except ApiError as error:
            if isinstance(write, Create) or not isinstance(error, NotFound):  # else the watch will report it
                await self.refused(key, situation, write, error)
            return False
        return True

    async def _write(self, key: Key, situation: S, write: Write) -> None:
        match write:
            case Patch():
                at = write.target or Target(self.resource, key)
                how: WriterPatchType = "apply" if write.apply else "merge"
                try:
                    await self.writer.patch(*at, write.body, subresource=write.subresource, kind=how)
                except (Conflict, Invalid):
                    if write.or_else is None:
                        raise
                    await self.writer.patch(*at, write.or_else, subresource=write.subresource, kind=how)
                for event in write.target_events:
                    self.recorder.record(*at, write.body["metadata"]["uid"], event)
            case Create():
                self.created(key, situation, write, await self.writer.create(write.resource, write.manifest))
                made = key_of(write.manifest)
                if times := self.writer.churn.times(write.resource, made):
                    seconds = self.writer.churn.wait(write.resource, made)
                    self.emit(situation, created_again(write.resource.kind, made, times, seconds))
            case Delete():
                await self.writer.delete(*(write.target or Target(self.resource, key)), write.uid)
            case _:
                assert_never(write)

    def emit(self, situation: S, *events: Event) -> None:
        """Emits events on the object."""
        for each in events:
            self.recorder.record(self.resource, *self.about(situation), each)
