"""Removes the scheduling gates from pods of elastic jobs that are admitted.

Pods with gates are not watched: a job's status shows when it has pods that are not ready, and only then, for elastic
jobs alone, they are listed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

import structlog

from api import resources
from api.objects import key_of
from controller.cache.writes import Writer
from controller.kube.errors import NotFound
from controller.reconcilers.departures import UNFINISHED
from core.jobs.actions import Ungate
from core.jobs.elastic import to_ungate, ungated
from core.model import Raw

log = structlog.get_logger(__name__)

AT_ONCE = 10


async def ungate(
    writer: Writer, namespace: str, action: Ungate, granted: Callable[[], Awaitable[Mapping[str, int]]]
) -> None:
    """Ungates as many pods of each pod set as are granted; raises if a pod changed meanwhile, to be called again.

    ``granted`` decides again, in the turn of each pod: the Workload may have been evicted while the pod waited.
    """
    pods = await writer.all_of(resources.PODS, namespace, labels=f"{action.label}={action.uid}", fields=UNFINISHED)
    chosen = to_ungate(pods, action.granted)

    async def ungate_one(pod: Raw) -> bool:
        async with writer.turn(pod["metadata"]["namespace"], first=True):
            now = await granted()
            if now != action.granted and not any(each is pod for each in to_ungate(pods, now)):
                return False
            with contextlib.suppress(NotFound):
                await writer.patch(resources.PODS, key_of(pod), ungated(pod))
            return True

    done = 0
    for place in range(0, len(chosen), AT_ONCE):
        done += sum(await asyncio.gather(*(ungate_one(pod) for pod in chosen[place : place + AT_ONCE])))
    if done:
        log.info("pods ungated", job_uid=action.uid, pods=done)
