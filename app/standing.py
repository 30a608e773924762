"""Answers where a LocalQueue or a workload stands, with no more names than the user may read.

Separate from ``app.visibility``, which knows who asks: here is what is computed, in pieces, so that a user who asks
delays nobody. Workloads of other namespaces, other ClusterQueues and nodes are named only to users who may read them
(SubjectAccessReview), and counted for all others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from api import names, resources, visibility
from api.objects import Key, Raw, Resource
from api.visibility import Page, VisibilityRequest
from app.access import UNREVIEWED, Reviews, User
from app.limits import RefusedCallError
from app.pieces import in_pieces
from core.explain import document, standing
from core.explain.analysis import Audience, ExplanationBounds, explain_in_steps
from core.explain.explanation import Explanation
from core.explain.parts import job_name
from core.explain.sight import EVERYTHING, Sight, of_namespace
from core.explain.standing import LONGEST_MESSAGE
from core.forecast import document as forecast_document
from core.model import LocalQueue
from core.queue.queue import QueueEntry
from core.state.lookup import Lookup
from core.state.orders import Order, Orders

BOUNDS: Final = ExplanationBounds(queues=100, holders=400, tries=24, nodes=1_000, names=20)
"""What an explanation may cost: 24 cycles of a millisecond or two, between which other requests are answered."""
MOST_NAMESPACES: Final = 5
"""Of so many namespaces it is asked whether a user may read their workloads, if he may not read all."""


def forecasts_of(lookup: Lookup) -> Callable[[Key], Raw | None]:
    """Returns what returns the forecast of a workload as the visibility API has it; None while there is none."""

    def forecast(key: Key) -> Raw | None:
        start = lookup.forecast(key)
        return forecast_document.written(start, time.time()) if start is not None else None

    return forecast


class Standings:
    """Computes the answers, one at a time. ``clock`` is in epoch seconds."""

    def __init__(
        self,
        lookup: Lookup,
        raw: Callable[[Key], Raw | None],
        one_at_a_time: asyncio.Lock,
        forecast: Callable[[Key], Raw | None] = lambda key: None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._raw = raw
        self._one_at_a_time = one_at_a_time
        self._forecast = forecast
        self._clock = clock
        self._monotonic = monotonic
        self._orders = Orders(lookup.state)

    async def answer(self, about: VisibilityRequest, page: Page, user: User, reviews: Reviews) -> Raw:
        """Returns the document that a user asks for. Raises `RefusedCallError`."""
        key = Key(about.namespace, about.name)
        if about.resource == visibility.WORKLOADS:
            return await self._of_workload(about, key, user, reviews)
        queue = self._lookup.local_queue(key)
        if queue is None:
            raise RefusedCallError(404, visibility.not_found(about))
        async with self._one_at_a_time:
            fields = standing.standing(self._lookup.state, queue)
            fields["workloads"] = await self._waiting(queue, page)
        metadata = {"name": key.name, "namespace": key.namespace}
        return visibility.standing(about.version, visibility.QUEUE_STANDING, metadata, fields)

    async def _waiting(self, queue: LocalQueue, page: Page) -> list[Raw]:
        """Returns a page of the workloads that wait in a LocalQueue."""
        order = await in_pieces(self._orders.fresh(queue.cluster_queue, self._monotonic()))
        sight = of_namespace(queue.key.namespace)
        steps = standing.waiting(self._lookup.state, queue, order, page.offset, page.limit, sight)
        return [
            {"metadata": visibility.workload_metadata(raw), **shown, **self._expected(key)}
            for key, shown in await in_pieces(steps)
            if (raw := self._raw(key)) is not None
        ]

    async def _of_workload(self, about: VisibilityRequest, key: Key, user: User, reviews: Reviews) -> Raw:
        raw = self._raw(key)
        if raw is None:
            raise RefusedCallError(404, visibility.not_found(about))
        sight = await self._sight(user, reviews, key)
        explanation = await self._explained(key, sight)
        if explanation is not None and explanation.hidden and sight.namespaces is not None:
            wider = await self._wider(user, reviews, sight, sorted(explanation.hidden)[:MOST_NAMESPACES])
            explanation = explanation if wider == sight else await self._explained(key, wider)
        if explanation is None:
            explanation = _finished(key, raw)
        shown = replace(
            explanation, message=explanation.message[:LONGEST_MESSAGE], before=explanation.before[:LONGEST_MESSAGE]
        )
        fields = {
            "localQueueName": (raw.get("spec") or {}).get("queueName", ""),
            **document.written(shown, self._job_of),
            **self._expected(key),
        }
        return visibility.standing(
            about.version, visibility.WORKLOAD_STANDING, visibility.workload_metadata(raw), fields
        )

    def _expected(self, key: Key) -> Raw:
        found = self._forecast(key)
        return {} if found is None else {"forecast": found}

    def _job_of(self, key: Key) -> str:
        return job_name(self._raw(key))

    async def _explained(self, key: Key, sight: Sight) -> Explanation | None:
        async with self._one_at_a_time:
            state = self._lookup.state
            name = state.pending.where(key)
            order = Order(0.0)
            if name is not None:
                order = await in_pieces(self._orders.fresh(name, self._monotonic(), key))

            def in_order(wanted: str) -> Sequence[QueueEntry]:
                kept = order if wanted == name else self._orders.kept(wanted, self._monotonic())
                return kept.entries if kept is not None else ()

            return await in_pieces(explain_in_steps(state, key, self._clock(), Audience(sight, BOUNDS, in_order)))

    async def _sight(self, user: User, reviews: Reviews, key: Key) -> Sight:
        """Returns what may be named to a user who may ask about a workload."""
        if UNREVIEWED.intersection(user.groups):
            return EVERYTHING
        workloads, queues, nodes = await asyncio.gather(
            reviews.may(user, _listing(resources.WORKLOADS)),
            reviews.may(user, _listing(resources.CLUSTER_QUEUES)),
            reviews.may(user, _listing(resources.NODES)) if self._placed(key) else _no(),
        )
        return Sight(None if workloads else frozenset({key.namespace}), cluster_queues=queues, nodes=nodes)

    async def _wider(self, user: User, reviews: Reviews, sight: Sight, namespaces: Sequence[str]) -> Sight:
        """Returns the sight with those of the namespaces that a user may read."""
        allowed = await asyncio.gather(*(reviews.may(user, _listing(resources.WORKLOADS, each)) for each in namespaces))
        found = [each for each, may in zip(namespaces, allowed, strict=True) if may]
        return replace(sight, namespaces=frozenset({*(sight.namespaces or ()), *found}))

    def _placed(self, key: Key) -> bool:
        """Whether nodes may be named in the answer: its ClusterQueue has a flavor with a topology."""
        state = self._lookup.state
        queue = self._lookup.cluster_queue(state.pending.where(key) or "")
        flavors = [name for group in queue.groups for name in group.flavors] if queue is not None else []
        return any(flavor.topology_name for name in flavors if (flavor := self._lookup.flavor(name)) is not None)


def _finished(key: Key, raw: Raw) -> Explanation:
    """The explanation of a Workload that no decision is about any more."""
    known = (raw.get("status") or {}).get("conditions") or ()
    last: Raw = next((each for each in known if each["type"] == names.Condition.FINISHED), {})
    return Explanation(key, "finished", reason=last.get("reason", ""), message=last.get("message", ""))


async def _no() -> bool:
    return False


def _listing(resource: Resource, namespace: str = "") -> Mapping[str, str]:
    attributes = {"verb": "list", "group": resource.group, "version": resource.version, "resource": resource.plural}
    return {**attributes, "namespace": namespace}
