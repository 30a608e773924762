"""Removes the scheduling gates from pods of elastic jobs that are admitted.

Pods with gates are not watched: a job's status shows when it has pods that are not ready, and only then, for elastic
jobs alone, they are listed.
"""

from __future__ import annotations

import asyncio
import contextlib

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


async def ungate(writer: Writer, namespace: str, action: Ungate) -> None:
    """Ungates as many pods of each pod set as are granted; raises if a pod changed meanwhile, to be called again."""
    pods = await writer.all_of(resources.PODS, namespace, labels=f"{action.label}={action.uid}", fields=UNFINISHED)
    chosen = to_ungate(pods, action.granted)
    for place in range(0, len(chosen), AT_ONCE):
        await asyncio.gather(*(_ungate_one(writer, pod) for pod in chosen[place : place + AT_ONCE]))
    if chosen:
        log.info("pods ungated", job_uid=action.uid, pods=len(chosen))


async def _ungate_one(writer: Writer, pod: Raw) -> None:
    async with writer.turn(pod["metadata"]["namespace"], first=True):
        with contextlib.suppress(NotFound):
            await writer.patch(resources.PODS, key_of(pod), ungated(pod))
