"""The event recorder: events are shown by ``kubectl describe``. It never delays other work.

``record`` only stores the event; a task sends it later, slowly, and only while the client has calls to spare. The same
reason about the same object increases the count of the existing event and sets the newest message, as the series of
``events.k8s.io`` do: three victims of one preemptor are one event. Events of one object are rate limited. Namespaces
take turns, and when too many wait, the newest of the namespaces with the most are dropped and counted. A lost event
loses no information: conditions and status have it.
"""

import asyncio
import contextlib
import datetime
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog

from api.objects import Raw
from api.resources import EVENTS
from controller.kube.client import LONGEST_RETRY_AFTER_SECONDS, Client
from controller.kube.errors import AlreadyExists, ApiError, NotFound, TooManyRequests, Unreachable
from controller.kube.flow import limits
from controller.kube.flow.budget import Budget
from controller.kube.flow.pressure import Pressure
from controller.kube.flow.throttle import Throttle
from controller.kube.turns import Turns

EventType = Literal["Normal", "Warning"]

SAME_SECONDS = 600.0
"""The same reason about the same object within ten minutes raises the count of the first event."""
REMEMBERED = 4096
WAITING = 8192
BURST_PER_OBJECT = 25
SECONDS_PER_EVENT = 300.0
"""As client-go's spam filter: 25 events about one object at once, then one in five minutes."""
LONGEST_MESSAGE = 1024
SPARE_POLL_SECONDS = 0.05

log = structlog.get_logger(__name__)


class ObjectReference(NamedTuple):
    """The object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, raw: Raw) -> "ObjectReference":
        """The reference to an object as the wire gives it."""
        metadata = raw["metadata"]
        return cls(raw["apiVersion"], raw["kind"], metadata.get("namespace", ""), metadata["name"], metadata["uid"])


class _Sent(NamedTuple):
    about: ObjectReference
    type: EventType
    reason: str
    component: str


@dataclass(slots=True)
class _Series:
    """One event and how often it was recorded; ``message`` is the newest, ``name`` is set when the API server has
    it. ``number`` makes this name unique.
    """

    number: int
    message: str
    first: datetime.datetime
    last: datetime.datetime
    at: float
    count: int = 1
    name: str = ""


class EventSender:
    """Files events about objects and sends them from ``run``. ``dropped`` counts lost events by why, ``sent`` those
    that arrived.

    ``instance`` names this process (``reportingInstance``).
    """

    def __init__(
        self,
        client: Client,
        *,
        instance: str = "",
        throttle: Throttle | None = None,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.sent = 0
        self._client = client
        self._instance = instance
        self._throttle = throttle or Throttle(50.0, 100)
        self._budget = budget or Budget(Pressure())
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._series: OrderedDict[_Sent, _Series] = OrderedDict()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._waiting: Turns[_Sent] = Turns(lambda event: event.about.namespace)
        self._news = asyncio.Event()
        self._number = 0
        self._closed = False

    def __len__(self) -> int:
        """How many events wait to be sent."""
        return len(self._waiting)

    def waiting_in(self, namespace: str) -> int:
        """How many events about objects of a namespace wait to be sent."""
        return self._waiting.count(namespace)

    def record(self, about: ObjectReference, type: EventType, reason: str, message: str, *, component: str) -> None:
        """Stores an event that ``component`` reports (``source.component``); returns immediately and never fails.

        Messages over 1,024 characters are cut.
        """
        if len(message) > LONGEST_MESSAGE:
            message = message[: LONGEST_MESSAGE - 3] + "..."
        event = _Sent(about, type, reason, component)
        if event not in self._waiting and self._full(event):
            self.dropped["full"] += 1
            return
        if not self._allowed(about.uid):
            self.dropped["chatter"] += 1
            return
        now, at = self._now(), self._clock()
        series = self._series.get(event)
        if series is None or at - series.at > SAME_SECONDS:
            # Nanoseconds since the epoch, as every recorder does, so that two recorders never choose one name.
            self._number = max(self._number + 1, int(now.timestamp() * 1e6) * 1000)
            self._series[event] = _Series(self._number, message, now, now, at)
        else:
            series.message, series.last, series.at, series.count = message, now, at, series.count + 1
        self._series.move_to_end(event)
        while len(self._series) > REMEMBERED + len(self._waiting) or self._oldest_is_over(at):
            self._series.popitem(last=False)
        self._waiting.add(event)
        self._news.set()

    def _full(self, event: _Sent) -> bool:
        """Whether there is no room for another event of this namespace: it may have as many as there are free places.
        So one namespace can take half of them, two a third each, and there is always room for another one.
        """
        return self.waiting_in(event.about.namespace) >= WAITING - len(self._waiting)

    def _oldest_is_over(self, at: float) -> bool:
        """Whether the series that has been silent for the longest time would not be continued any more."""
        event, series = next(iter(self._series.items()))
        return at - series.at > SAME_SECONDS and event not in self._waiting

    async def run(self) -> None:
        """Sends stored events until ``close``, then the rest; returns when none is left."""
        while len(self._waiting) or not self._closed:
            if not len(self._waiting):
                self._news.clear()
                await self._news.wait()
                continue
            while not self._client.throttle.spare() and not self._closed:
                await self._sleep(SPARE_POLL_SECONDS)
            if not self._client.precedence.free:
                await self._sleep(limits.GIVE_WAY_SECONDS)
            await self._throttle.take()
            if self._closed:  # the end of the process does not wait for a busy API server
                await self._deliver(self._waiting.pop())
                continue
            async with self._budget.turn("events"):
                pause = await self._deliver(self._waiting.pop())
            if pause:
                await self._sleep(pause)

    def close(self) -> None:
        """Ends ``run`` when all events stored so far are sent; call it with a time limit."""
        self._closed = True
        self._news.set()

    async def _deliver(self, event: _Sent) -> float:
        """Sends an event; returns for how many seconds no other one should be sent."""
        series = self._series.get(event)
        if series is None:
            self.dropped["forgotten"] += 1
            return 0.0
        try:
            await self._send(event, series)
            self.sent += 1
        except (Unreachable, TooManyRequests) as error:
            if self._closed or self._full(event):
                self.dropped["unreachable"] += 1
            else:
                self._waiting.add(event)
            return min(max(1.0, error.retry_after or 0.0), LONGEST_RETRY_AFTER_SECONDS)
        except ApiError as error:  # no rights, a namespace that is ending: it will not get better
            self.dropped[error.reason] += 1
            log.debug("event dropped", reason=event.reason, about=event.about.name, error=str(error))
        return 0.0

    async def _send(self, event: _Sent, series: _Series) -> None:
        namespace = event.about.namespace or "default"
        change = {"count": series.count, "lastTimestamp": _stamp(series.last), "message": series.message}
        if series.name:
            with contextlib.suppress(NotFound):  # events are kept for an hour: create a new one
                await self._client.patch(EVENTS, series.name, namespace, change)
                return
        name = f"{event.about.name[:230]}.{series.number:x}"
        try:
            await self._client.create(EVENTS, self._event(name, namespace, event, series), namespace)
        except AlreadyExists:  # the answer to its create was lost
            await self._client.patch(EVENTS, name, namespace, change)
        series.name = name

    def _event(self, name: str, namespace: str, event: _Sent, series: _Series) -> Raw:
        about = event.about
        reference = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference | ({"namespace": about.namespace} if about.namespace else {}),
            "type": event.type,
            "reason": event.reason,
            "message": series.message,
            "source": {"component": event.component},
            "reportingComponent": event.component,
            "reportingInstance": self._instance,
            "firstTimestamp": _stamp(series.first),
            "lastTimestamp": _stamp(series.last),
            "count": series.count,
        }

    def _allowed(self, uid: str) -> bool:
        """Whether this object has not used up its share; a token bucket an object, the longest silent forgotten."""
        now = self._clock()
        tokens, at = self._allowances.pop(uid, (float(BURST_PER_OBJECT), now))
        tokens = min(float(BURST_PER_OBJECT), tokens + (now - at) / SECONDS_PER_EVENT)
        allowed = tokens >= 1
        self._allowances[uid] = (tokens - 1 if allowed else tokens, now)
        if len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        return allowed


def _stamp(when: datetime.datetime) -> str:
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
