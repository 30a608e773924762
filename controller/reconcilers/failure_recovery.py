"""Ends pods that are stuck on unreachable nodes, if they are annotated as safe to delete by force (feature gate
FailureRecoveryPolicy).

The pods of a node are listed when it becomes unreachable and from then on every few seconds, at most one node at a
time: nothing is read or kept while all nodes answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from api import resources
from api.objects import Raw, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.kube.log import get_logger
from core.jobs import stuck_pods
from core.model import Node
from core.model.events import Event

LOOK_SECONDS: Final = 10.0
"""How often the pods of an unreachable node are listed."""
EACH_SECONDS: Final = 0.2
"""Between the lists of two nodes."""

log = get_logger(__name__)


class FailureRecovery:
    """``connect`` when the nodes are known, then ``run`` while this process leads. ``clock`` is in seconds since the
    epoch.
    """

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        recorder: Recorder,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._due: dict[str, float] = {}
        """The unreachable nodes, and when to list their pods; the next one comes first."""
        self._news = asyncio.Event()

    def connect(self) -> None:
        """Listens to nodes, and notes those that are unreachable now."""
        self.caches.nodes.listen(self._node)
        for node in tuple(self.caches.nodes):
            self._node(None, node)

    async def run(self) -> None:
        """Ends stuck pods until cancelled."""
        while True:
            self._news.clear()
            if not self._due:
                await self._news.wait()
                continue
            name, at = next(iter(self._due.items()))
            if (wait := at - self._clock()) > 0:
                await self._sleep(min(wait, LOOK_SECONDS))
                continue
            await self.look(name)
            await self._sleep(EACH_SECONDS)

    async def look(self, name: str) -> None:
        """Ends the stuck pods of a node, if it is unreachable, and notes when to look again."""
        if self._due.pop(name, None) is None:
            return
        again = LOOK_SECONDS
        try:
            pods = self._client.pages(resources.PODS, field_selector=f"spec.nodeName={name}")
            async for page in pods:
                for pod in page["items"]:
                    left = stuck_pods.stuck_in(pod, self._clock())
                    if left == 0.0 and not stuck_pods.over(pod):
                        await self._end(pod)
                    elif left:
                        again = min(again, left)
        except ApiError as error:
            log.warning("pods of an unreachable node cannot be read or ended", node=name, error=str(error))
        if stuck_pods.unreachable(self.caches.nodes.get(("", name))):
            self._due[name] = self._clock() + again

    async def _end(self, pod: Raw) -> None:
        """The pod fails and is deleted; each write is for this very pod, as it was listed."""
        key, uid = key_of(pod), pod["metadata"]["uid"]
        if not stuck_pods.unreachable(self.caches.nodes.get(("", pod["spec"]["nodeName"]))):
            return  # it has come back meanwhile
        try:
            if (body := stuck_pods.failed(pod, self._clock())) is not None:
                await self.writer.patch(resources.PODS, key, body, subresource="status")
                text = stuck_pods.message(pod)
                self.recorder.record(resources.PODS, key, uid, Event("Warning", stuck_pods.REASON, text))
                log.info("pod deleted by force", pod=str(key), node=pod["spec"]["nodeName"])
            await self.writer.delete(resources.PODS, key, uid, grace=0)
        except (Conflict, NotFound):  # it has changed: it is listed again
            return

    def _node(self, old: Node | None, new: Node | None) -> None:
        if stuck_pods.unreachable(new):
            assert new is not None
            self._due.setdefault(new.name, self._clock())
            self._news.set()
        elif (either := new or old) is not None:
            self._due.pop(either.name, None)
