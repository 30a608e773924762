"""A notification, and the policy by which they come about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from core.model import Key, Selector
from core.model.owner import Owner

Network = IPv4Network | IPv6Network


class NotificationKind(StrEnum):
    """What a notification is about."""

    ADMITTED = "admitted"
    PREEMPTED = "preempted"
    FAILED = "failed"
    WAITING = "waiting"
    STARVING = "starving"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class Notification:
    """What happened to a Workload at a time, in seconds since the epoch. ``reason`` and ``message`` are those of its
    condition; ``seconds`` is how long it has waited, ``times`` how many workloads overtook it or how often it was
    evicted.
    """

    kind: NotificationKind
    at: float
    key: Key
    uid: str
    job: Owner | None
    local_queue: str
    cluster_queue: str
    priority: int
    reason: str = ""
    message: str = ""
    seconds: int | None = None
    times: int | None = None

    @property
    def id(self) -> str:
        """The same for the same event of the same workload, also after a restart."""
        return f"{self.uid}.{self.kind}.{int(self.at)}"


@dataclass(frozen=True, slots=True)
class NotificationPolicy:
    """When a wait, overtakers and evictions cause notifications; ``wanted`` are the kinds that a receiver has."""

    wanted: frozenset[NotificationKind] = frozenset(NotificationKind)
    waiting_seconds: float = 3600.0
    overtaken_by: int = 20
    evictions: int = 5
    within_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Recipient:
    """A receiver of notifications, as the section ``seiretsu.notifications`` has it. ``header`` is a name and a file;
    without ``body`` CloudEvents are sent; ``namespaces`` None is all.
    """

    name: str
    url: str
    kinds: frozenset[NotificationKind]
    path_file: str = ""
    header: tuple[str, str] | None = None
    ca_file: str = ""
    networks: tuple[Network, ...] = ()
    namespaces: Selector | None = None
    rate_per_minute: int = 60
    queue_length: int = 1000
    body: Mapping[str, Any] | None = field(default=None, hash=False)
