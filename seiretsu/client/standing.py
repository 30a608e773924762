"""Where a queue and a job stand, as the server answers it through the visibility API. Pure.

The server names nothing that the user may not read: other workloads are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from seiretsu.client.estimate import Forecast, forecast
from seiretsu.client.verdict import amount

Raw = dict[str, Any]

PATH: Final = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{}/{}/{}/standing"


@dataclass(frozen=True)
class Limit:
    """A resource of a flavor in the ClusterQueue of a queue. ``available`` is what a job could get now without
    preemption, ``borrowable`` the part of it that would be borrowed; ``borrowing_limit`` is None where there is none.
    ``reserved`` is what all its workloads hold, ``mine`` what those of the queue hold.
    """

    flavor: str
    resource: str
    nominal: Decimal
    borrowing_limit: Decimal | None
    maximum: Decimal
    available: Decimal
    borrowable: Decimal
    reserved: Decimal
    mine: Decimal


@dataclass(frozen=True)
class QueueStanding:
    """Where a queue stands. ``raw`` is the whole answer, with the workloads that wait (``workloads``)."""

    cluster_queue: str
    active: bool
    message: str
    pending: int
    limits: tuple[Limit, ...]
    raw: Raw = field(repr=False, default_factory=dict)


@dataclass(frozen=True)
class JobStanding:
    """Where a job stands: its queue position from 1 (None if it does not wait in a queue) of ``waiting``; why it waits;
    what would let it start, one sentence each. ``forecast`` is when it starts, None while the server does not know.
    ``raw`` is the whole answer: what is free by flavor, and who holds it.
    """

    state: str
    position: int | None
    waiting: int
    reason: str
    message: str
    would_help: tuple[str, ...]
    forecast: Forecast | None = None
    raw: Raw = field(repr=False, default_factory=dict)


def queue_standing(raw: Raw) -> QueueStanding:
    """Returns the answer about a LocalQueue."""
    limits = tuple(
        Limit(
            flavor["name"],
            each["name"],
            nominal=amount(each["nominal"]),
            borrowing_limit=amount(each["borrowingLimit"]) if "borrowingLimit" in each else None,
            maximum=amount(each["maximum"]),
            available=amount(each["available"]),
            borrowable=amount(each["borrowable"]),
            reserved=amount(each["reserved"]),
            mine=amount(each["reservedInLocalQueue"]),
        )
        for flavor in raw["flavors"]
        for each in flavor["resources"]
    )
    return QueueStanding(raw["clusterQueue"], raw["active"], raw["message"], raw["pendingInLocalQueue"], limits, raw)


def job_standing(raw: Raw) -> JobStanding:
    """Returns the answer about a workload."""
    place = raw.get("positionInClusterQueue")
    return JobStanding(
        raw["state"],
        None if place is None else place + 1,
        raw["pendingInClusterQueue"],
        raw["reason"],
        raw["message"],
        tuple(raw["wouldHelp"]),
        forecast(raw.get("forecast")),
        raw,
    )
