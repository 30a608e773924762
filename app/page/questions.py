"""The documents about what is computed for the page alone: what if a quota were another one, domains of a topology,
worker clusters, and use over time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Final

from api import resources
from api.objects import Raw
from app.limits import OneAtATime, RefusedCallError
from app.page.rights import Rights
from app.pieces import in_pieces
from controller.cache.caches import Caches
from controller.forecasts.comparison import MOST_SECONDS
from controller.forecasts.process import WorkerLostError
from controller.history import queries
from controller.history.database import Database, DatabaseFailedError
from controller.history.history import HistoryReader
from controller.history.queries import GroupedBy
from core.forecast.edits import ObjectEdit, arenas, before_edit, concerned
from core.forecast.situation import Situation
from core.history.report import SeriesByGroup, window
from core.model import FlavorResource
from core.model.effects import Effects
from core.page import topology, what_if
from core.page.queue import JobOf
from core.wire import decode

MOST_PLAYED: Final = 2_000
"""Workloads in the cohorts of a question: some seconds of CPU, in a process of its own."""
MOST_WAITING: Final = 4
"""So many users wait at most while a question is played: the last of them is answered before a connection ends."""
FULL: Final = (
    f"{MOST_WAITING + 1} users asked what other quotas would do, and each answer takes up to {MOST_SECONDS:g} s: try"
    " again in a minute, or run kubectl seiretsu plan -f FILE --from-cluster, which computes it where you are"
)
MOST_EDITS: Final = 50
SCANNED: Final = 1_000
"""So many workloads are looked at between two pauses."""
MOST_SERIES: Final = 12
LONGEST_DAYS: Final = 400.0
DAY: Final = 86_400.0
Comparer = Callable[[Situation, ObjectEdit], Awaitable[tuple[Effects, bool]]]


class QuestionAnswers:
    """Computes the documents. ``reader`` is None if there is no history; ``compare`` returns whom an edit hits, and
    whether it is known whose start moves.
    """

    def __init__(
        self,
        caches: Caches,
        job_of: JobOf,
        reader: HistoryReader | None = None,
        clock: Callable[[], float] = time.time,
        *,
        compare: Comparer,
    ) -> None:
        self.caches = caches
        self._compare = compare
        self._job_of = job_of
        self._reader = reader
        self._clock = clock
        self._playing = OneAtATime(MOST_WAITING, FULL)

    async def what_if(self, rights: Rights, name: str, edits: list[str]) -> Raw:
        """Returns whom other quotas of a ClusterQueue hit, and the patch that makes them. Nothing is written."""
        await rights.require("list", resources.CLUSTER_QUEUES)
        raw = self.caches.cluster_queues.get(("", name))
        if raw is None:
            raise RefusedCallError(404, f'there is no ClusterQueue "{name}"')
        try:
            new = what_if.changed(raw, _edits(edits))
            edit = ObjectEdit(decode.cluster_queue(raw), decode.cluster_queue(new))
        except (ValueError, KeyError, TypeError) as error:
            raise RefusedCallError(400, str(error)) from None
        found, starts = await self._played(rights.user.name, edit)
        named = [*(each.key for each in found.stopped), *found.exposed, *found.starting, *found.never]
        sight = await rights.sight(key.namespace for key in named)
        return {
            "patch": what_if.patch(name, new["spec"]),
            "changed": edit.old != edit.new,
            "effects": what_if.written(found, sight, self._job_of),
            "starts": starts,
        }

    async def _played(self, user: str, edit: ObjectEdit) -> tuple[Effects, bool]:
        state = self.caches.state
        if edit.old == edit.new:
            return Effects(), True
        named = arenas(state, edit)
        running, waiting = concerned(state, named)
        if running + waiting > MOST_PLAYED:
            return Effects(running=running, waiting=waiting, uncounted=True), False
        async with self._playing.of(user):
            before = before_edit(state, edit, named, self._clock())
            try:
                return await self._compare(before, edit)
            except (WorkerLostError, OSError) as error:
                raise RefusedCallError(503, f"the change could not be played: {error}") from None

    async def topology(self, rights: Rights, flavor: str) -> Raw:
        """Returns the domains of a flavor."""
        await rights.require("list", resources.NODES)
        sight = await rights.sight(nodes=True)
        found = await in_pieces(topology.domains(self.caches.state, flavor, sight, self._job_of))
        if found is None:
            raise RefusedCallError(404, f'there is no flavor "{flavor}" with a topology in a ClusterQueue')
        return found

    async def clusters(self, rights: Rights) -> Raw:
        """Returns the worker clusters of MultiKueue, whether they are connected, and how many jobs went to each."""
        await rights.require("list", resources.MULTIKUEUE_CLUSTERS)
        everywhere = await rights.may("list", resources.WORKLOADS)
        went, offered = await in_pieces(self._dispatched()) if everywhere else (Counter[str](), Counter[str]())
        rows = []
        for raw in self.caches.stores[resources.MULTIKUEUE_CLUSTERS]:
            name = raw["metadata"]["name"]
            conditions = (raw.get("status") or {}).get("conditions") or ()
            active: Raw = next((each for each in conditions if each["type"] == "Active"), {})
            rows.append(
                {
                    "name": name,
                    "active": active.get("status") == "True",
                    "message": active.get("message", ""),
                    **({"running": went[name], "offered": offered[name]} if everywhere else {}),
                }
            )
        return {"rows": sorted(rows, key=lambda row: row["name"])}

    def _dispatched(self) -> Generator[None, None, tuple[Counter[str], Counter[str]]]:
        """Counts the workloads that went to each worker cluster, and those that are offered to it."""
        went, offered = Counter[str](), Counter[str]()
        for number, each in enumerate(tuple(self.caches.state.workloads.values())):
            if number % SCANNED == SCANNED - 1:
                yield
            if each.cluster_name:
                went[each.cluster_name] += 1
            else:
                offered.update(each.nominated)
        return went, offered

    async def usage(self, rights: Rights, by: str, days: float, namespace: str, group: str = "") -> Raw:
        """Returns use and quota over time, from the history; of one group, or of those that used most."""
        if self._reader is None:
            raise RefusedCallError(404, "there is no history: an administrator must set history.enabled")
        if by not in set(GroupedBy) or not 0 < days <= LONGEST_DAYS:
            raise RefusedCallError(400, f"by must be one of {', '.join(GroupedBy)}, days at most {LONGEST_DAYS:g}")
        if not await rights.may("list", resources.WORKLOADS):
            await rights.require("list", resources.WORKLOADS, namespace)
        sight = await rights.sight([namespace])
        over = window(self._clock() - days * DAY, self._clock(), parts=120)
        grouped = GroupedBy(by)
        quotas = grouped in (GroupedBy.QUEUE, GroupedBy.COHORT) and sight.cluster_queues

        def asked(database: Database) -> tuple[SeriesByGroup, SeriesByGroup, SeriesByGroup]:
            used = queries.use_over_time(database, over, grouped, sight)
            waiting = queries.waiting_over_time(database, over, grouped, sight)
            return used, queries.quota_over_time(database, over, grouped) if quotas else {}, waiting

        try:
            used, nominal, waiting = await self._reader.ask(asked)
        except DatabaseFailedError as error:
            raise RefusedCallError(503, str(error)) from None
        if group:
            used, nominal, waiting = (
                {key: values for key, values in each.items() if key[0] == group} for each in (used, nominal, waiting)
            )
        times = [over.part(number)[0] for number in range(over.parts)]
        lengths = [over.part(number)[1] - over.part(number)[0] for number in range(over.parts)]
        return {
            "times": times,
            "used": _series(used, lengths),
            "nominal": _series(nominal, lengths, most=100),
            "waiting": _series(waiting, lengths),
        }


def _series(found: SeriesByGroup, lengths: list[float], most: int = MOST_SERIES * 4) -> list[Raw]:
    """Returns the largest series, as amounts."""
    largest = sorted(found, key=lambda key: (-sum(found[key]), key))[:most]
    return [
        {
            "group": group,
            "flavor": fr.flavor,
            "resource": fr.resource,
            "values": [round(value / length, 3) for value, length in zip(found[group, fr], lengths, strict=True)],
        }
        for group, fr in largest
    ]


def _edits(texts: list[str]) -> Mapping[FlavorResource, Mapping[str, str]]:
    """Returns the edits in texts like ``nominal/h100/nvidia.com/gpu=16``. Raises ValueError for any other text."""
    if not 0 < len(texts) <= MOST_EDITS:
        raise ValueError(f"1 to {MOST_EDITS} edits are played: ?edit=nominal/FLAVOR/RESOURCE=QUANTITY")
    found: dict[FlavorResource, dict[str, str]] = {}
    for text in texts:
        what, equals, value = text.partition("=")
        field, _, rest = what.partition("/")
        flavor, _, resource = rest.partition("/")
        if not equals or field not in what_if.FIELDS or not flavor or not resource:
            raise ValueError(f"{text!r} is no edit: nominal/FLAVOR/RESOURCE=QUANTITY, also borrowing and lending")
        found.setdefault(FlavorResource(flavor, resource), {})[field] = value.strip()
    return found
