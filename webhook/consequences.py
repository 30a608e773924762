"""Whom an administrator's edit hits: asked of ``core.forecast`` in a thread, so that other calls go on meanwhile.

Separate from ``webhook.advice``, whose rules are answered at once: this question plays cycles of the scheduler. It is
asked about immutable copies, one question at a time, and the answer is waited for no longer than ``SECONDS``: a
change that concerns too many workloads or queues gets the numbers of workloads alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog
from msgspec.structs import replace

from api.names import Kind
from core.feedback import Finding
from core.feedback.affected import of_effects
from core.forecast.edits import Edited, ObjectEdit, PriorityClass, arenas, concerned, queues_concerned, situations
from core.forecast.effects import effects
from core.forecast.situation import Situation
from core.model import Raw
from core.model.effects import Effects
from core.wire import decode
from core.workload.priority import value_of
from webhook.policy import judge
from webhook.review import Request, Response
from webhook.settings import Context

_LOG: Final = structlog.get_logger("webhook")
MOST: Final = 2_000
"""Workloads in the arenas concerned: half a second of CPU."""
MOST_QUEUES: Final = 500
"""ClusterQueues and LocalQueues: they are taken on the event loop, 4 us each."""
SECONDS: Final = 1.5
"""The API server waits for 5 s; kubectl should feel immediate."""


def _priority_class(raw: Raw) -> PriorityClass:
    return PriorityClass(raw["metadata"]["name"], value_of(raw))


_READ: Final[dict[str, Callable[[Raw], Edited]]] = {
    Kind.CLUSTER_QUEUE: decode.cluster_queue,
    Kind.COHORT: decode.cohort,
    Kind.LOCAL_QUEUE: decode.local_queue,
    Kind.RESOURCE_FLAVOR: decode.resource_flavor,
    Kind.WORKLOAD_PRIORITY_CLASS: _priority_class,
}


class Consequences:
    """Answers for all hooks of one process. ``compute`` and ``clock`` (epoch seconds) are replaced by tests."""

    def __init__(
        self,
        context: Context,
        compute: Callable[[Situation, Situation], Effects] = effects,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.context = context
        self._compute = compute
        self._clock = clock
        self._asked: asyncio.Future[Effects] | None = None

    async def beside(self, response: Response, request: Request) -> Response:
        """Returns the answer to an edit with what it means for workloads; unchanged if that cannot be computed."""
        if not response.allowed:
            return response
        try:
            found = await self._findings(request)
        except Exception:
            _LOG.exception("consequences failed", kind=request.kind, name=request.name)
            return response
        labels = self.context.labels_of(request.namespace)
        judged = judge(found, self.context.settings.feedback, labels).response()
        if not judged.allowed:
            return judged
        return Response(
            allowed=True,
            patch=response.patch,
            warnings=response.warnings + judged.warnings,
            rules=response.rules + judged.rules,
        )

    async def _findings(self, request: Request) -> tuple[Finding, ...]:
        lookup, edit = self.context.lookup, _edit(request)
        if not lookup.synced or edit is None:
            return ()
        state = lookup.state
        named = arenas(state, edit)
        running, waiting = concerned(state, named)
        many = Effects(running=running, waiting=waiting, uncounted=True)
        if running + waiting > MOST or self._asked is not None or queues_concerned(state, edit, named) > MOST_QUEUES:
            return of_effects(many, lookup) if running + waiting else ()
        before, after = situations(state, edit, named, self._clock())
        if not before.waiting and not before.holding:
            return ()
        self._asked = asyncio.ensure_future(asyncio.to_thread(self._compute, before, after))
        self._asked.add_done_callback(self._answered)
        try:
            async with asyncio.timeout(SECONDS):
                found = await asyncio.shield(self._asked)
        except TimeoutError:
            return of_effects(many, lookup)
        # Who may edit a LocalQueue may have no right to read other namespaces.
        return of_effects(replace(found, named_in=request.namespace), lookup)

    def _answered(self, asked: asyncio.Future[Effects]) -> None:
        """Lets the next question be asked; reads the error of one for which nobody waits any more."""
        self._asked = None
        if not asked.cancelled():
            asked.exception()


def _edit(request: Request) -> ObjectEdit | None:
    """The edit of a request; None if nothing changes for workloads, or for an object that validation refuses."""
    read = _READ[request.kind]
    try:
        old, new = (read(raw) if raw is not None else None for raw in (request.old_object, request.object))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return None if old == new else ObjectEdit(old, new)
