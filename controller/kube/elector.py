"""Leader election: one Lease, held by renewing it in time. Two leaders would admit the same quota twice, so in doubt a
process does not lead.

The holder counts its time from *before* it sent the renewal, the others from when *they* saw the record change, each
with its own clock: clocks are never compared. Renewal runs in a thread with its own loop and connections, so that a
long computation does not lose leadership; but it stops when the main loop has not responded for as long as a renewal
may take.
"""

import asyncio
import contextlib
import datetime
import random
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

import structlog

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import ApiError, NotFound
from controller.kube.flow.throttle import Throttle

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
RELEASE_SECONDS = 2.0
RENEWALS_PER_RETRY, TRIES_PER_RETRY = 2, 4
"""How often in ``retry`` seconds a leader renews, and how often one tries that may not wait: a leader whose renewal
failed, and a follower, which so notices a release and the last renewal of a killed leader. A leader renewed at most
half of ``retry`` ago when errors begin, and tries again a quarter after they end: 8 s of errors cost no lease of 10.
"""
SHORTEST_CALL_SECONDS = 0.05
"""Nothing is tried with less time left; a connection cut off in its first instant is never closed by asyncio."""

log = structlog.get_logger(__name__)


class Durations(NamedTuple):
    """How long others wait for a silent leader, how long a leader may go without renewing, how often it tries;
    seconds.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


def boottime() -> float:
    """A clock that nobody sets and that, if the system has one, continues while the machine is suspended."""
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(kind) if kind is not None else time.monotonic()


def new_identity() -> str:
    """Returns a name that no other process has, including an earlier one of the same pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Election:
    """One candidate for one Lease. ``campaign`` is the loop; ``attempt`` tries once to take or renew it."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        durations: Durations = Durations(),  # noqa: B008 - a NamedTuple is as constant as a number
        call_seconds: float = 5.0,
        clock: Callable[[], float] = boottime,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if not durations.lease > durations.renew > durations.retry > 0:
            raise ValueError(f"lease > renew > retry > 0 must hold, or two may lead at once: {durations}")
        self.identity = identity
        self.transitions = 0
        self._client = client
        self._namespace = namespace
        self._name = name
        self._durations = durations
        self._call_seconds = call_seconds
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._draw = draw
        self._deadline = float("-inf")
        self._lease: Raw | None = None
        self._seen_record: Raw | None = None
        self._ends_at = 0.0

    def leads(self) -> bool:
        """Whether the last renewal is still valid."""
        return self._clock() < self._deadline

    def may_write(self) -> bool:
        """The fence every write passes: leading, with a second (a tenth of ``renew``) left for the write to arrive.

        Any thread may ask.
        """
        return self._clock() < self._deadline - self._durations.renew / 10

    async def campaign(self, elected: Callable[[], None], alive: Callable[[], bool] = lambda: True) -> None:
        """Waits for the lease, calls ``elected``, renews; returns when it is lost. If ``alive`` returns False, it
        expires.
        """
        while not await self.attempt():
            await self._sleep(self._until_next())
        log.info("leading", lease=self._name, identity=self.identity)
        elected()
        while self.leads():
            tries = RENEWALS_PER_RETRY if self._lease is not None else TRIES_PER_RETRY
            await self._sleep(max(0.0, min(self._durations.retry / tries, self._deadline - self._clock())))
            if self._deadline - self._clock() > SHORTEST_CALL_SECONDS and alive():
                await self.attempt()
        log.error("leadership lost", lease=self._name, identity=self.identity)

    def _until_next(self) -> float:
        """The seconds until a follower tries again: soon, and exactly when the lease of a silent leader ends."""
        soon = self._durations.retry / TRIES_PER_RETRY * (1 + 0.2 * self._draw())
        left = self._ends_at - self._clock()
        return min(soon, left) if left > 0 else soon

    async def attempt(self) -> bool:
        """Takes or renews the lease once, if this process may; errors only cost time. Returns True while it leads."""
        began = self._clock()
        patience = min(self._call_seconds, self._deadline - began) if self.leads() else self._call_seconds
        try:
            async with asyncio.timeout(patience):
                await self._take(began)
        except (ApiError, TimeoutError) as error:
            self._lease = None  # its state is unknown, so read it again
            log.warning("lease not renewed", lease=self._name, error=str(error) or type(error).__name__)
        return self.leads()

    async def release(self) -> None:
        """Releases the lease immediately, so that the next leader need not wait. No write may follow."""
        if not self.leads():
            return
        self._deadline = float("-inf")
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = self._lease or await self._client.get(LEASES, self._name, self._namespace)
                if lease["spec"].get("holderIdentity") == self.identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
                    await self._client.update(LEASES, lease)
                    log.info("lease released", lease=self._name)

    async def _take(self, began: float) -> None:
        if self._lease is None:
            try:
                lease = await self._client.get(LEASES, self._name, self._namespace)
            except NotFound:
                lease = None
            if lease is not None and not self._free(lease):
                return
            self._lease = lease
        if self._lease is None:
            self._lease = await self._client.create(LEASES, self._record(None), self._namespace)
        else:
            self._lease = await self._client.update(LEASES, self._record(self._lease))
        self._deadline = began + self._durations.renew
        self.transitions = self._lease["spec"].get("leaseTransitions") or 0

    def _free(self, lease: Raw) -> bool:
        """Whether this process may take the lease: it holds it, it is released, or it did not change for its whole
        duration by the local clock.
        """
        record = lease.get("spec") or {}
        if record != self._seen_record:
            duration = record.get("leaseDurationSeconds") or self._durations.lease
            self._seen_record, self._ends_at = record, self._clock() + duration
        holder = record.get("holderIdentity")
        if holder == self.identity or not holder:
            return True
        self._deadline = float("-inf")
        return self._clock() >= self._ends_at

    def _record(self, lease: Raw | None) -> Raw:
        stamp = self._stamp()
        old = (lease or {}).get("spec") or {}
        ours = old.get("holderIdentity") == self.identity
        spec = old | {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._durations.lease)),
            "acquireTime": old.get("acquireTime", stamp) if ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": (old.get("leaseTransitions") or 0) + (0 if ours or lease is None else 1),
        }
        blank: Raw = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        return (lease or blank) | {"spec": spec}

    def _stamp(self) -> str:
        return self._now().astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Elector:
    """Runs an election in its own thread. Use as ``async with`` in the main loop.

    Wait for ``elected``; then pass ``may_write`` to the client, and end the process as soon as ``lost`` is set: its
    data is no longer current. Leaving the block releases the lease.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        name: str,
        identity: str | None = None,
        durations: Durations = Durations(),  # noqa: B008 - a NamedTuple is as constant as a number
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.identity = identity or new_identity()
        self.elected = asyncio.Event()
        self.lost = asyncio.Event()
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._durations = durations
        self._election: Election | None = None
        self._clock = clock
        self._beat_at = clock()
        self._main: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._campaign: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="elector", daemon=True)
        self._beating: asyncio.Task[None] | None = None

    def may_write(self) -> bool:
        """Whether a write may be sent now; see ``Election.may_write``."""
        return self._election is not None and self._election.may_write()

    def leads(self) -> bool:
        """Whether we lead now."""
        return self._election is not None and self._election.leads()

    async def __aenter__(self) -> Self:
        self._main = asyncio.get_running_loop()
        self._beating = asyncio.create_task(self._beat(), name="elector-beat")
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._beating
        self._beating.cancel()
        if self._own and self._campaign:
            with contextlib.suppress(RuntimeError):  # the thread may have ended by itself
                self._own.call_soon_threadsafe(self._campaign.cancel)
        await asyncio.to_thread(self._thread.join, RELEASE_SECONDS + 1)

    async def _beat(self) -> None:
        while True:
            self._beat_at = self._clock()
            await asyncio.sleep(self._durations.retry / 4)

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:  # a bug in the elector ends leadership in the same way as a lost lease
            log.exception("elector failed")
        finally:
            self._notify(self.lost)

    async def _elect(self) -> None:
        self._own = asyncio.get_running_loop()
        async with Client(self._connection, throttle=Throttle(0), deadline_seconds=self._durations.renew) as client:
            election = Election(
                client,
                namespace=self._namespace,
                name=self._name,
                identity=self.identity,
                durations=self._durations,
                call_seconds=self._durations.renew / 2,
                clock=self._clock,
            )
            self._election = election
            self._campaign = asyncio.create_task(
                election.campaign(
                    lambda: self._notify(self.elected),
                    alive=lambda: self._clock() - self._beat_at < self._durations.renew,
                )
            )
            with contextlib.suppress(asyncio.CancelledError):
                await self._campaign
            await election.release()

    def _notify(self, event: asyncio.Event) -> None:
        assert self._main
        with contextlib.suppress(RuntimeError):  # the main loop has ended: there is nothing left to notify
            self._main.call_soon_threadsafe(event.set)
