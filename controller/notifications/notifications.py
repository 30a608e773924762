"""Hands notifications of Workloads to the sender of each receiver that wants them. Only the leader does.

A change costs a few microseconds on the event loop, and nothing without receivers. What is not delivered when a process
ends is lost: notifications are news, conditions and events have the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from controller.cache.caches import Caches
from controller.kube.store import in_steps
from controller.notifications.sender import Sender
from core.explain.sight import of_namespace
from core.matching.placement import matches
from core.model import Workload
from core.notifications.model import Notification, NotificationPolicy, Recipient
from core.notifications.watch import Watch
from core.state.queue_status import why_waiting

LOOKS_AT_ONCE: Final = 50
LOOK_SECONDS: Final = 5.0
"""Waits are looked at so often: they are counted in hours."""


class Notifications:
    """``connect``, ``everything`` and ``run`` while this process leads."""

    def __init__(
        self,
        caches: Caches,
        recipients: Iterable[Recipient],
        policy: NotificationPolicy,
        source: str,
        registry: CollectorRegistry,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self._now = now
        self._watch = Watch(policy)
        results = Counter(
            "seiretsu_notifications_total",
            "Notifications by receiver and result: sent, failed (the receiver does not accept it), dropped.",
            ["receiver", "result"],
            registry=registry,
        )
        self.senders = [Sender(each, source, results) for each in recipients]

    def connect(self) -> None:
        """Listens to Workloads from now on."""
        self.caches.observers.append(self._changed)

    def everything(self) -> Iterator[None]:
        """Notes what waits and what holds quota; yields, so that other tasks can run."""

        def note(workload: Workload) -> None:
            if self.caches.get(workload.key) is workload:
                self._watch.changed(None, workload, self._now())

        return in_steps(tuple(self.caches.decoded.values()), note)

    async def run(self) -> None:
        """Sends notifications until cancelled."""
        async with asyncio.TaskGroup() as group:
            for sender in self.senders:
                group.create_task(sender.run(), name=f"notifications-{sender.recipient.name}")
            group.create_task(self._look_again_and_again(), name="notifications-waits")

    async def _look_again_and_again(self) -> None:
        while True:
            more = self.look()
            await asyncio.sleep(0 if more else LOOK_SECONDS)

    def look(self) -> bool:
        """Looks at a few workloads whose wait is long enough; returns whether there may be more."""
        now = self._now()
        for each in self._watch.due(now, self.caches.get, self._why, LOOKS_AT_ONCE):
            self._hand(each)
        return self._watch.next_due is not None and self._watch.next_due <= now

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        for each in self._watch.changed(old, new, self._now()):
            self._hand(each)

    def _hand(self, notification: Notification) -> None:
        for sender in self.senders:
            recipient = sender.recipient
            if notification.kind not in recipient.kinds:
                continue
            if recipient.namespaces is not None:
                namespace = self.caches.namespaces.get(("", notification.key.namespace)) or {"metadata": {}}
                if not matches(recipient.namespaces, namespace["metadata"].get("labels") or {}):
                    continue
            sender.add(notification)

    def _why(self, workload: Workload) -> tuple[str, str]:
        """The ClusterQueue in which a workload waits and why; other tenants are not named."""
        state = self.caches.state
        _, message = why_waiting(state, workload, of_namespace(workload.key.namespace).named)
        return state.pending.where(workload.key) or "", message
