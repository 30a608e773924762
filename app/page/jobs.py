"""The documents about jobs: the story of one, which of them can be found by name, and who preempted whom.

Separate from ``app.page.answers``, which is about queues. Events are read from the API server, if the user may read
them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Final

import orjson
import structlog
import yaml

from api import resources, visibility
from api.names import Condition
from api.objects import Key, Raw
from api.visibility import Page, VisibilityRequest
from app.limits import RefusedCallError
from app.page.rights import Rights
from app.pieces import in_pieces
from app.standing import Standings
from controller.cache.caches import Caches
from controller.history import queries
from controller.history.database import DatabaseFailedError
from controller.history.history import HistoryReader
from controller.kube.client import Client
from controller.kube.errors import ApiError
from core.explain.preemption import read
from core.explain.sight import Sight
from core.history.report import window
from core.model import Workload
from core.model.owner import owner
from core.page import preemptions, story
from core.page.queue import JobOf, asks

log = structlog.get_logger("seiretsu.page")

MOST_EVENTS: Final = 200
MOST_FOUND: Final = 20
MOST_PREEMPTED: Final = 500
LONGEST_YAML: Final = 512 * 1024
"""Characters of the JSON: a larger object is not shown."""
SCANNED: Final = 200
"""So many workloads are compared between two pauses."""
DAY: Final = 86_400.0


class JobAnswers:
    """Computes the documents about jobs. ``reader`` is None if there is no history."""

    def __init__(
        self,
        caches: Caches,
        client: Client,
        standings: Standings,
        job_of: JobOf,
        reader: HistoryReader | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self._client = client
        self._standings = standings
        self._job_of = job_of
        self._reader = reader
        self._clock = clock

    async def job(self, rights: Rights, key: Key) -> Raw:
        """Returns the story of a Workload, what would let it start, its YAML and its events."""
        await rights.require("get", resources.WORKLOADS, key.namespace, key.name)
        raw = self.caches.workloads.get(key)
        if raw is None:
            return await self._gone(rights, key)
        sight = await self._sight(rights, key)
        about = VisibilityRequest(visibility.VERSIONS[0], visibility.WORKLOADS, *key, visibility.STANDING)
        standing, recorded, events, text = await asyncio.gather(
            self._standings.answer(about, Page(0, 0), rights.user, rights.reviews),
            self._recorded_timeline(key, sight, raw["metadata"].get("uid", "")),
            self._events(rights, raw),
            asyncio.to_thread(_yaml, raw),
        )
        workload = self.caches.get(key)
        by = owner(raw)
        return {
            **key._asdict(),
            "job": self._job_of(key),
            "kind": by.kind if by is not None else "",
            "queue": (raw.get("spec") or {}).get("queueName", ""),
            "created": workload.created if workload is not None else None,
            **(asks(workload) if workload is not None else {}),
            "cluster": workload.cluster_name if workload is not None else "",
            "standing": standing,
            "timeline": recorded if recorded is not None else await self._timeline(raw, sight),
            "events": events,
            "yaml": text,
            "placed": _placed(workload),
            "now": self._clock(),
        }

    async def _gone(self, rights: Rights, key: Key) -> Raw:
        """The story of a workload that the history alone knows."""
        sight = Sight(frozenset({key.namespace}), cluster_queues=True)
        found = await self._ask_history(key, sight)
        if found is None:
            raise RefusedCallError(404, f'there is no workload "{key.name}" in the namespace "{key.namespace}"')
        life = found.workload
        names = {uid: each.key for uid, each in found.preemptors.items()}
        return {
            **key._asdict(),
            "job": life.job,
            "kind": life.job_kind,
            "queue": life.local_queue,
            "created": life.created,
            "gone": True,
            "standing": {"state": "finished" if life.finished else "gone", "message": life.message},
            "timeline": story.of_history(found.steps, names.get, sight),
            "now": self._clock(),
        }

    async def _recorded_timeline(self, key: Key, sight: Sight, uid: str) -> list[Raw] | None:
        found = await self._ask_history(key, sight, uid)
        if found is None or not found.steps:
            return None
        names = {each: known.key for each, known in found.preemptors.items()}
        return story.of_history(found.steps, names.get, sight)

    async def _ask_history(self, key: Key, sight: Sight, uid: str = "") -> queries.LifeStory | None:
        if self._reader is None:
            return None
        try:
            return await self._reader.ask(lambda database: queries.story(database, key, sight, uid))
        except DatabaseFailedError as error:
            log.warning("The page shows a job without its history", error=str(error))
            return None

    async def _sight(self, rights: Rights, key: Key) -> Sight:
        """Returns what may be named in the story of a workload that the user may read."""
        sight = await rights.sight([key.namespace])
        if sight.namespaces is None:
            return sight
        return replace(sight, namespaces=frozenset({*sight.namespaces, key.namespace}))

    async def _timeline(self, raw: Raw, sight: Sight) -> list[Raw]:
        """Returns the entries that a Workload's own object has; what it names is looked for among all, in pieces."""
        wanted = set[str]()
        found = story.timeline(raw, wanted.add, sight)
        wanted.discard("")
        return found if not wanted else story.timeline(raw, (await in_pieces(self._with_uids(wanted))).get, sight)

    def _with_uids(self, wanted: set[str]) -> Generator[None, None, dict[str, Key]]:
        found: dict[str, Key] = {}
        for number, (key, each) in enumerate(tuple(self.caches.decoded.items())):
            if number % SCANNED == SCANNED - 1:
                yield
            if each.uid in wanted:
                found[each.uid] = key
                if len(found) == len(wanted):
                    break
        return found

    async def _events(self, rights: Rights, raw: Raw) -> list[Raw] | None:
        """Returns the events on the Workload and its job; None if the user may not list them, or they are not read."""
        namespace = raw["metadata"]["namespace"]
        if not await rights.may("list", resources.EVENTS, namespace):
            return None
        by = owner(raw)
        names = dict.fromkeys([raw["metadata"]["name"], *([by.name] if by is not None else [])])
        found: list[Raw] = []
        try:
            async with asyncio.timeout(2.0):
                for name in names:
                    pages = self._client.pages(
                        resources.EVENTS, namespace, field_selector=f"involvedObject.name={name}", limit=MOST_EVENTS
                    )
                    async for page in pages:
                        found += page["items"]
                        break
                    await pages.aclose()
        except (ApiError, TimeoutError) as error:
            log.warning("The page shows a job without its events", error=str(error))
            return None
        return story.events(found)[:MOST_EVENTS]

    async def find(self, rights: Rights, text: str, namespace: str) -> Raw:
        """Returns workloads with a text in their name or that of their job, of namespaces that the user may read."""
        if not 2 <= len(text) <= 253:
            raise RefusedCallError(400, "q: 2 to 253 characters are searched for")
        everywhere = await rights.may("list", resources.WORKLOADS)
        if not everywhere:
            await rights.require("list", resources.WORKLOADS, namespace)
        within = "" if everywhere else namespace
        rows = await in_pieces(self._find(text, within))
        return {"rows": rows}

    def _find(self, text: str, namespace: str) -> Generator[None, None, list[Raw]]:
        found: list[Raw] = []
        for number, key in enumerate(tuple(self.caches.decoded)):
            if number % SCANNED == SCANNED - 1:
                yield
            if (not namespace or key.namespace == namespace) and (text in key.name or text in self._job_of(key)):
                found.append({**key._asdict(), "job": self._job_of(key)})
                if len(found) == MOST_FOUND:
                    break
        return found

    async def preemptions(self, rights: Rights, namespace: str, days: float) -> Raw:
        """Returns who preempted whom: of the last days if there is a history, else what Workloads still show."""
        everywhere = await rights.may("list", resources.WORKLOADS)
        if not everywhere:
            await rights.require("list", resources.WORKLOADS, namespace)
        sight = await rights.sight([namespace])
        if self._reader is not None:
            over = window(self._clock() - min(days, 400.0) * DAY, self._clock())
            try:
                found = await self._reader.ask(lambda database: queries.preemptions(database, over, sight, limit=500))
                return {"rows": _of_history(found, sight), "since": over.start}
            except DatabaseFailedError as error:
                log.warning("The page shows preemptions without the history", error=str(error))
        uids, raws = await in_pieces(self._preempted())
        return {"rows": preemptions.rows(raws, uids.get, sight, self._job_of), "since": None}

    def _preempted(self) -> Generator[None, None, tuple[dict[str, Key], list[Raw]]]:
        """Returns the Workloads that show a preemption, and all Workloads by their uids."""
        uids, raws = dict[str, Key](), list[Raw]()
        for number, key in enumerate(tuple(self.caches.decoded)):
            if number % SCANNED == SCANNED - 1:
                yield
            each, raw = self.caches.get(key), self.caches.workloads.get(key)
            if each is None or raw is None:
                continue
            uids[each.uid] = key
            if len(raws) < MOST_PREEMPTED and each.condition(Condition.PREEMPTED) is not None:
                raws.append(raw)
        return uids, raws


def _yaml(raw: Raw) -> str:
    """Returns an object as kubectl prints it. Parts of it are shared with other objects, so it is copied first."""
    content = orjson.dumps(raw)
    if len(content) > LONGEST_YAML:
        return "# It is larger than this page shows: kubectl get workload NAME -o yaml\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(orjson.loads(content), Dumper=dumper, default_flow_style=False)
    return text


def _placed(workload: Workload | None) -> list[Raw]:
    """Returns the domains that its pods were given."""
    if workload is None or workload.admission is None:
        return []
    return [
        {
            "podSet": each.name,
            "level": each.topology.levels[-1].rpartition("/")[2],
            "domains": [{"name": domain.values[-1], "pods": domain.count} for domain in each.topology.domains],
        }
        for each in workload.admission.pod_sets
        if each.topology is not None
    ]


def _of_history(found: Iterable[queries.Preempted], sight: Sight) -> list[Raw]:
    """Returns the same rows from the history, whose rows the reader may see."""
    rows = []
    for each in found:
        preemption = read(each.message, each.at)
        by = each.by
        rows.append(
            {
                "at": each.at,
                "namespace": each.victim.key.namespace,
                "name": each.victim.key.name,
                "job": each.victim.job,
                "queue": each.victim.cluster_queue,
                "by": {"hidden": True} if by is None else {**by.key._asdict(), "job": by.job},
                "byQueue": by.cluster_queue if by is not None and sight.cluster_queues else "",
                "cause": preemption.rule if preemption is not None else each.rule,
                "rule": preemption.rule if preemption is not None else each.rule,
                "wouldHelp": preemption.way if preemption is not None else "",
            }
        )
    return rows
