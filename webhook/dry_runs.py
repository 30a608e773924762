"""When a job would start that is only tried, with ``--dry-run=server``: forecast while its client waits.

Separate from ``webhook.routes``, whose answers never wait: at a real create the warning has the forecast of a job like
it, as far as there is one. A dry run may take a moment, so it is computed for exactly this job, in a thread, one at a
time and no longer than ``SECONDS``. In a larger arena than ``MOST`` there is no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog
from msgspec import structs

from core.forecast.basis import Basis
from core.forecast.edits import concerned
from core.forecast.newcomers import NewcomerKind, kind_of, newcomer, of_newcomer
from core.forecast.situation import Situation, situation
from core.model import Key, PodSet, Workload
from core.model.forecast import StartForecast
from webhook.review import Response
from webhook.settings import Context

_LOG: Final = structlog.get_logger("webhook")
MOST: Final = 1_000
"""Workloads in the arena: a run takes a quarter of a second of CPU."""
SECONDS: Final = 1.5
"""The API server waits for 5 s; kubectl should feel immediate."""
TOO_MANY: Final = "too many workloads wait and run to forecast it while you wait"
BUSY: Final = "another dry run is being forecast; ask again"

Compute = Callable[[Situation, Workload, Basis], StartForecast | None]


class DryRuns:
    """Answers for all hooks of one process. ``compute`` and ``clock`` (epoch seconds) are replaced by tests."""

    def __init__(
        self, context: Context, compute: Compute | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.context = context
        self._compute = compute or computed
        self._clock = clock
        self._busy = False

    async def answer(self, judge: Callable[[Context], Response]) -> Response:
        """Returns the answer of ``judge``, which knows when the job would start."""
        lookup, basis = self.context.lookup, self.context.basis
        if basis is None or not lookup.synced:
            return judge(self.context)
        known: dict[NewcomerKind, StartForecast | None] = {}
        asked: list[tuple[NewcomerKind, tuple[PodSet, ...]]] = []

        def ask(local_queue: Key, priority: int, pod_sets: tuple[PodSet, ...]) -> StartForecast | None:
            kind = kind_of(local_queue, priority, pod_sets)
            if kind not in known:
                known[kind] = lookup.newcomer_forecast(local_queue, priority, pod_sets)
                asked.append((kind, pod_sets))
            return known[kind]

        knowing = replace(self.context, lookup=replace(lookup, newcomer_forecast=ask))
        answer = judge(knowing)
        if not asked or known[asked[0][0]] is not None:
            return answer
        kind, pod_sets = asked[0]
        try:
            known[kind] = await self._forecast(kind, pod_sets, basis)
        except Exception:
            _LOG.exception("the forecast of a dry run failed", queue=str(kind.local_queue))
        return judge(knowing) if known[kind] is not None else answer

    async def _forecast(self, kind: NewcomerKind, pod_sets: tuple[PodSet, ...], basis: Basis) -> StartForecast | None:
        state, now = self.context.lookup.state, self._clock()
        queue = self.context.lookup.local_queue(kind.local_queue)
        arena = state.reservations.arena_of.get(queue.cluster_queue) if queue is not None else None
        if queue is None or arena is None:
            return None
        unknown = StartForecast(kind.local_queue, queue.cluster_queue, now)
        if sum(concerned(state, [arena])) > MOST:
            return structs.replace(unknown, unknown=TOO_MANY)
        if self._busy:
            return structs.replace(unknown, unknown=BUSY)
        about = situation(state, arena, now, basis.life)
        made = newcomer(about, kind.local_queue, kind.priority, pod_sets)
        rates = basis.rates(about)
        self._busy = True
        try:
            found = await asyncio.to_thread(self._compute, about, made, replace(basis, rates=lambda about: rates))
        finally:
            self._busy = False
        return structs.replace(unknown, unknown=TOO_MANY) if found is None else basis.corrected(found)


def computed(about: Situation, made: Workload, basis: Basis) -> StartForecast | None:
    """Returns when a newcomer would start, the best answer within ``SECONDS``; None if there is none by then."""
    end = time.monotonic() + SECONDS
    found: Mapping[Key, StartForecast] = {}
    for step in of_newcomer(about, [made], basis.run_times, int(about.now), basis.rates(about)):
        found = step or found
        if time.monotonic() > end:
            break
    return found.get(made.key)
