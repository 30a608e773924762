import asyncio
import datetime
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial

import pytest

from controller.kube.client import Client
from controller.kube.elector import Durations, Election, Elector
from controller.kube.flow.throttle import Throttle
from tests.eventually import PATIENCE, eventually, until
from tests.faults import BlackHole, Fault, FaultProxy, Request, Reset, html, status
from tests.standin import StandIn

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lead"
QUICK = Durations(lease=5.0, renew=2.5, retry=0.2)


class Clock:
    """``due`` happens once, in the sleep in which its time comes. ``reads`` counts who asked what time it is."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reads = 0
        self.due: tuple[float, Callable[[], Awaitable[None]]] | None = None

    def __call__(self) -> float:
        self.reads += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.due is not None and self.due[0] <= self.now:
            (_, happen), self.due = self.due, None
            await happen()


class Place:
    """One Lease on a stand-in server, and candidates each behind their own fault proxy, on one virtual clock."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.server = StandIn()
        self.clock = Clock()
        self.proxies: dict[str, FaultProxy] = {}
        self._stack = stack

    async def proxy(self, identity: str) -> FaultProxy:
        self.proxies[identity] = await self._stack.enter_async_context(FaultProxy(self.server))
        return self.proxies[identity]

    async def candidate(self, identity: str, **clock_skew: float) -> Election:
        proxy = await self.proxy(identity)
        client = await self._stack.enter_async_context(
            Client(proxy.connection, throttle=Throttle(0), throttle_retries=0)
        )
        wall = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(**clock_skew)
        return Election(
            client,
            namespace="ns",
            name="lead",
            identity=identity,
            clock=self.clock,
            now=lambda: wall + datetime.timedelta(seconds=self.clock.now),
            sleep=self.clock.sleep,
            draw=lambda: 0.0,
        )

    @property
    def lease(self) -> dict[str, object]:
        spec = self.server.objects[PATH]["spec"]
        assert isinstance(spec, dict)
        return spec


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        yield Place(stack)


async def test_the_first_takes_the_lease_and_the_second_waits(place: Place) -> None:
    first, second = await place.candidate("first"), await place.candidate("second")
    assert await first.attempt()
    assert not await second.attempt()
    assert place.lease == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:16:40.000000Z",
        "renewTime": "2026-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }
    assert (first.may_write(), second.may_write()) == (True, False)


async def test_renewing_moves_only_the_renew_time_and_costs_one_write(place: Place) -> None:
    first = await place.candidate("first")
    await first.attempt()
    before = dict(place.lease)
    place.clock.now += 2
    await first.attempt()
    assert place.lease == before | {"renewTime": "2026-01-01T00:16:42.000000Z"}
    assert [request.method for request in place.proxies["first"].seen] == ["GET", "POST", "PUT"]


async def test_the_fence_falls_a_second_before_the_deadline_and_the_deadline_before_the_lease(place: Place) -> None:
    first = await place.candidate("first")
    await first.attempt()
    place.clock.now += 8.9
    assert first.may_write()
    place.clock.now += 0.2
    assert not first.may_write() and first.leads()
    place.clock.now += 1
    assert not first.leads()


async def test_a_silent_leader_is_replaced_after_the_lease_by_the_observers_own_clock(place: Place) -> None:
    first, second = await place.candidate("first"), await place.candidate("second")
    await first.attempt()
    assert not await second.attempt()
    place.clock.now += 14.9
    assert not await second.attempt()
    place.clock.now += 0.1
    assert await second.attempt()
    assert (place.lease["holderIdentity"], place.lease["leaseTransitions"]) == ("second", 1)
    assert not await first.attempt() and not first.may_write()


@pytest.mark.parametrize("hours", [5, -5])
async def test_a_wall_clock_that_is_wrong_changes_nothing(place: Place, hours: int) -> None:
    first, second = await place.candidate("first", hours=hours), await place.candidate("second")
    await first.attempt()
    for _ in range(7):
        assert not await second.attempt()
        place.clock.now += 2
        assert await first.attempt()
    assert not await second.attempt()
    place.clock.now += 15
    assert await second.attempt()


async def test_a_lease_held_by_a_stranger_is_waited_for_in_full(place: Place) -> None:
    place.server.put(
        PATH, {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 40, "renewTime": "2999-01-01T00:00:00Z"}}
    )
    second = await place.candidate("second")
    assert not await second.attempt()
    place.clock.now += 39
    assert not await second.attempt()
    place.clock.now += 1
    assert await second.attempt()


async def test_errors_for_8_seconds_cost_no_leadership(place: Place) -> None:
    first = await place.candidate("first")
    await first.attempt()
    proxy = place.proxies["first"]
    for fault in (html(), status(500, "InternalError"), status(409, "Conflict"), Reset()):
        proxy.inject(fault, times=2)
        place.clock.now += 2
        assert await first.attempt()
        proxy.heal()
    place.clock.now += 1
    assert await first.attempt() and first.may_write()
    assert place.lease["leaseTransitions"] == 0


@pytest.mark.parametrize("since_renewal", [0.0, 0.5, 0.99, 1.5, 1.99])
async def test_errors_for_8_seconds_cost_no_leadership_whenever_they_begin(place: Place, since_renewal: float) -> None:
    first = await place.candidate("first")
    faults: Iterator[Fault] = itertools.cycle([html(), status(500, "InternalError"), status(409, "Conflict"), Reset()])
    began = 1000.0 + since_renewal

    def draw(request: Request) -> Fault | None:
        return next(faults) if began < place.clock.now < began + 8 or place.clock.now > began + 12 else None

    place.proxies["first"].draw = draw
    await first.campaign(lambda: None)
    assert place.clock.now > began + 20, "it led until errors lasted longer"


async def test_errors_until_the_deadline_end_the_campaign(place: Place) -> None:
    first = await place.candidate("first")
    heard: list[float] = []

    def elected() -> None:
        heard.append(place.clock.now)
        place.proxies["first"].inject(html(), times=1000)

    await first.campaign(elected)
    assert heard == [1000.0]
    assert place.clock.now == 1010.0 and not first.may_write()


async def test_a_deleted_lease_is_made_again_without_a_gap(place: Place) -> None:
    first = await place.candidate("first")
    await first.attempt()
    place.server.remove(PATH)
    place.clock.now += 2
    assert await first.attempt()
    place.clock.now += 2
    assert await first.attempt() and place.lease["holderIdentity"] == "first"


async def test_a_renewal_whose_answer_is_lost_is_recognized(place: Place) -> None:
    first = await place.candidate("first")
    await first.attempt()
    place.proxies["first"].inject(Reset(1, reaches=True), method="PUT")
    place.clock.now += 2
    await first.attempt()
    place.clock.now += 2
    assert await first.attempt()
    place.clock.now += 9
    assert first.leads() and place.lease["leaseTransitions"] == 0


def electing(place: Place) -> tuple[list[float], Callable[[], None]]:
    """When the second candidate was elected, and what it calls then: it cannot renew, so its campaign ends."""
    elected: list[float] = []

    def lead() -> None:
        elected.append(place.clock.now)
        place.proxies["second"].inject(html(), times=1000)

    return elected, lead


async def test_a_follower_leads_when_the_lease_of_a_silent_leader_ends_and_not_later(place: Place) -> None:
    first, second = await place.candidate("first"), await place.candidate("second")
    await first.attempt()
    elected, lead = electing(place)
    place.clock.now += 0.1  # between two renewals of the leader
    await second.campaign(lead)
    assert elected == [1015.1], "the whole lease since the follower saw it, and no time until its next look"


async def test_a_follower_leads_half_a_second_after_a_release(place: Place) -> None:
    first, second = await place.candidate("first"), await place.candidate("second")
    await first.attempt()
    elected, lead = electing(place)
    place.clock.due = (1003.1, first.release)
    await second.campaign(lead)
    assert elected == [1003.5]


async def test_a_released_lease_is_taken_at_once_and_may_not_be_written_with(place: Place) -> None:
    first, second = await place.candidate("first"), await place.candidate("second")
    await first.attempt()
    await first.release()
    assert not first.may_write() and place.lease["holderIdentity"] == ""
    assert await second.attempt()
    assert place.lease["leaseTransitions"] == 1


async def test_of_many_candidates_exactly_one_leads(place: Place) -> None:
    candidates = [await place.candidate(f"c{number}") for number in range(20)]
    led = await asyncio.gather(*(candidate.attempt() for candidate in candidates))
    assert sum(led) == 1
    place.clock.now += 16
    await asyncio.gather(*(candidate.attempt() for candidate in candidates))
    place.clock.now += 16
    led = await asyncio.gather(*(candidate.attempt() for candidate in candidates))
    assert sum(led) == 1


def test_durations_that_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="two may lead"):
        Election(Client.__new__(Client), namespace="", name="", identity="", durations=Durations(10, 10, 2))


async def test_a_server_that_hangs_for_the_leader_gives_way_to_one_leader_never_two(place: Place) -> None:
    """In real threads: the old leader's fence is down before the new one is up. Only the test moves the time on which
    that depends, so a busy machine can only make it take longer.
    """
    old_proxy, new_proxy = await place.proxy("old"), await place.proxy("new")
    election = partial(Elector, namespace="ns", name="lead", durations=QUICK, clock=place.clock)
    async with election(old_proxy.connection, identity="old") as old:
        await asyncio.wait_for(old.elected.wait(), PATIENCE)
        assert old.may_write()
        async with election(new_proxy.connection, identity="new") as new:
            await eventually(lambda: len(new_proxy.seen) > 1)  # it has seen the record
            old_proxy.inject(BlackHole(), times=1000)
            place.clock.now += QUICK.renew
            assert not old.may_write()
            await asyncio.wait_for(old.lost.wait(), PATIENCE)
            asked = len(new_proxy.seen)
            await eventually(lambda: len(new_proxy.seen) > asked)
            assert not new.elected.is_set() and not new.may_write()
            place.clock.now += QUICK.lease
            await asyncio.wait_for(new.elected.wait(), PATIENCE)
            assert new.may_write() and not old.may_write()
        await eventually(lambda: place.lease["holderIdentity"] == "")


async def test_a_short_stall_of_the_main_loop_costs_nothing_and_a_long_one_the_leadership(place: Place) -> None:
    """The main loop runs nothing while the test waits in ``until``; only the test moves the time."""
    ready: list[FaultProxy] = []
    stop = threading.Event()

    async def serve() -> None:  # in a thread and a loop of its own, because the main loop is what stalls
        async with FaultProxy(place.server) as proxy:
            ready.append(proxy)
            await asyncio.to_thread(stop.wait)

    def renewals() -> int:
        return sum(request.method == "PUT" for request in ready[0].seen)

    clock, step = place.clock, 0.6 * QUICK.renew
    serving = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(serve())))
    try:
        await eventually(lambda: ready)
        async with Elector(ready[0].connection, namespace="ns", name="lead", durations=QUICK, clock=clock) as elector:
            await asyncio.wait_for(elector.elected.wait(), PATIENCE)
            clock.now += step
            before = renewals()
            until(lambda: renewals() > before + 1, "renewals during a short stall")  # the first may have begun earlier
            assert elector.may_write()
            clock.now += step
            reads = clock.reads
            until(lambda: clock.reads > reads + 20, "the elector looks at the time again and again")
            assert elector.leads()
            clock.now += step
            assert not elector.leads(), "it has renewed nothing since the main loop stalled for longer than a renewal"
            await asyncio.wait_for(elector.lost.wait(), PATIENCE)
    finally:  # a thread that waits on would keep the whole run from ending
        stop.set()
        await serving
