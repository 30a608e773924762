"""What is written into the status of queues."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

import pytest

from api import resources
from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.flow.budget import Budget
from controller.kube.flow.limits import MOST
from controller.kube.flow.precedence import Precedence
from controller.kube.flow.pressure import Pressure
from controller.reconcilers.queues import INTERVAL_SECONDS, SETTLE_SECONDS, QueueStatuses, difference
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.state.state import State
from core.wire.merge import merged
from tests.controller.test_caches import made, workload
from tests.eventually import eventually

FLAVORS = [{"name": "default", "resources": []}]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({}, {"flavorsReservation": []}, {}, id="an empty list that is absent stays absent"),
        pytest.param(
            {"flavorsReservation": FLAVORS},
            {"flavorsReservation": []},
            {"flavorsReservation": None},
            id="a list that becomes empty is removed",
        ),
        pytest.param(
            {"flavorsReservation": []},
            {"flavorsReservation": []},
            {"flavorsReservation": None},
            id="an empty list that an earlier release wrote is removed",
        ),
        pytest.param({}, {"pendingWorkloads": 0}, {"pendingWorkloads": 0}, id="a count of zero is written"),
        pytest.param({"pendingWorkloads": 0}, {"pendingWorkloads": 0}, {}, id="what is there already is not written"),
        pytest.param({"foreign": 1}, {"pendingWorkloads": 2}, {"pendingWorkloads": 2}, id="other fields stay"),
    ],
)
def test_a_status_patch_contains_what_differs_and_no_empty_list(old: Raw, new: Raw, patch: Raw) -> None:
    assert difference(old, new) == patch


IN_USE = "kueue.x-k8s.io/resource-in-use"
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


CHECKED: Raw = {"admissionChecksStrategy": {"admissionChecks": [{"name": "used"}]}}


class Patches:
    """A writer that only notes."""

    def __init__(self) -> None:
        self.sent: list[Raw] = []

    async def patch(self, resource: Resource, key: Key, body: Raw) -> None:
        self.sent.append(body["metadata"])


@pytest.mark.parametrize(
    ("metadata", "in_use", "finalizers"),
    [
        pytest.param({}, False, [IN_USE], id="a new one is kept"),
        pytest.param({"finalizers": ["other"]}, True, ["other", IN_USE], id="finalizers of others stay"),
        pytest.param({"finalizers": [IN_USE]}, True, "nothing", id="one that is kept already is not written"),
        pytest.param({"finalizers": [IN_USE], **LEAVING}, True, "nothing", id="one in use is not released"),
        pytest.param({"finalizers": ["other"], **LEAVING}, True, "nothing", id="one that is deleted already gets none"),
        pytest.param({"finalizers": [IN_USE], **LEAVING}, False, None, id="an unused object is released"),
        pytest.param(
            {"finalizers": [IN_USE, "other"], **LEAVING}, False, ["other"], id="only our finalizer is removed"
        ),
    ],
)
@pytest.mark.parametrize(
    ("used", "user", "spec"),
    [
        pytest.param(resources.ADMISSION_CHECKS, resources.CLUSTER_QUEUES, CHECKED, id="a check of a ClusterQueue"),
        pytest.param(
            resources.TOPOLOGIES, resources.RESOURCE_FLAVORS, {"topologyName": "used"}, id="a Topology of a flavor"
        ),
    ],
)
async def test_an_object_stays_while_another_one_uses_it(
    used: Resource, user: Resource, spec: Raw, metadata: Raw, in_use: bool, finalizers: object
) -> None:
    caches, patches = Caches(State(), rows([BATCH_JOB])), Patches()
    found = made(used.kind, "used")
    found["metadata"] |= metadata
    caches.stores[used].observe("ADDED", found)
    if in_use:
        caches.stores[user].observe("ADDED", made(user.kind, "user", spec))
    await QueueStatuses(caches, cast(Writer, patches)).reconcile((used, Key("", "used")))
    expected = [] if finalizers == "nothing" else [{"uid": f"{used.kind}-used", "resourceVersion": "1"}]
    assert [{"uid": each["uid"], "resourceVersion": each["resourceVersion"]} for each in patches.sent] == expected
    assert all(each["finalizers"] == finalizers for each in patches.sent)


# When statuses are written.

STEP_SECONDS = 0.01
IDLE_SECONDS, BUSY_SECONDS = 0.004, 0.06


class Write(NamedTuple):
    at: float
    kind: str
    name: str
    body: Raw


class World:
    """ClusterQueues with LocalQueues of the same name, their statuses, and an API server, on the test's own clock.

    While ``busy`` other writes take fifteen times as long as at an idle API server.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.busy = False
        self.patch_seconds = 0.0
        self.writes: list[Write] = []
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.caches.namespaces.observe("ADDED", made("Namespace", "ns"))
        self.caches.stores[resources.RESOURCE_FLAVORS].observe("ADDED", made("ResourceFlavor", "default"))
        self.caches.start()
        self.pressure = Pressure(lambda: self.now)
        self.precedence = Precedence(lambda: 0.0)
        self.wrote(IDLE_SECONDS, 50)
        budget = Budget(self.pressure, clock=lambda: self.now, sleep=self.sleep)
        writer = Writer(cast(Client, self), self.caches.stores)
        self.statuses = QueueStatuses(
            self.caches, writer, budget=budget, clock=lambda: self.now, monotonic=lambda: self.now
        )
        self._versions = itertools.count(2)

    def wrote(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.pressure.wrote("patch", seconds)

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:  # noqa: ASYNC110 - the test moves the clock
            await asyncio.sleep(0)

    async def patch(
        self, resource: Resource, name: str, namespace: str, body: Raw, subresource: str = "", **_: Any
    ) -> Raw:
        self.writes.append(Write(self.now, resource.kind, name, body))
        await self.sleep(self.patch_seconds)
        self.wrote(BUSY_SECONDS if self.busy else IDLE_SECONDS, 1)
        raw = merged(self.caches.stores[resource].get((namespace, name)), body)
        return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(next(self._versions))}}

    def add(self, name: str, *, local: str = "", flavor: str = "default") -> None:
        """Adds a ClusterQueue, unless ``local`` names it, and a LocalQueue."""
        quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "4"}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
        if not local:
            self.enter(resources.CLUSTER_QUEUES, made("ClusterQueue", name, spec))
        self.enter(resources.LOCAL_QUEUES, made("LocalQueue", name, {"clusterQueue": local or name}, namespace="ns"))

    def enter(self, resource: Resource, raw: Raw) -> None:
        raw["metadata"]["resourceVersion"] = str(next(self._versions))
        self.caches.stores[resource].observe("ADDED", raw)
        self.changed(resource, raw["metadata"]["name"])

    def changed(self, resource: Resource, name: str) -> None:
        self.statuses.changed(resource, Key("ns" if resource == resources.LOCAL_QUEUES else "", name))

    def submit(self, name: str, queue: str) -> None:
        """A workload arrives, which changes two counts."""
        raw = workload(name)
        raw["spec"]["queueName"] = queue
        raw["metadata"]["uid"] = f"uid-{name}"
        self.caches.workloads.observe("ADDED", raw)
        self.changed(resources.LOCAL_QUEUES, queue)
        self.changed(resources.CLUSTER_QUEUES, queue)

    def wrong(self) -> list[str]:
        """The objects whose status is not what it should be."""
        return [
            f"{resource.kind} {key.name}"
            for resource in (resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES)
            for key in self.caches.stores[resource].keys()  # noqa: SIM118 - a store iterates over values
            if self.statuses._patch((resource, key)) is not None
        ]

    async def passes(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += STEP_SECONDS
            if self.busy:
                self.wrote(BUSY_SECONDS, 1)
            for queue in (self.statuses.queue, *self.statuses.lanes.values()):
                queue.release_due()
            for _ in range(60):
                await asyncio.sleep(0)

    def written(self) -> list[tuple[str, str]]:
        return [(write.kind, write.name) for write in self.writes]


@contextlib.asynccontextmanager
async def running(*queues: str, busy: bool = False) -> AsyncIterator[World]:
    """The world with these queues, whose statuses are written already."""
    world = World()
    task = asyncio.create_task(world.statuses.run())
    try:
        for name in queues:
            world.add(name)
        await world.passes(INTERVAL_SECONDS + len(queues) * STEP_SECONDS)
        assert not world.wrong()
        world.writes.clear()
        world.busy = busy
        await world.passes(1.0)
        yield world
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_at_an_idle_api_server_a_status_is_right_0_3_s_after_its_change() -> None:
    async with running(*(f"q{number}" for number in range(20))) as world:
        for number in range(60):
            world.submit(f"w{number}", f"q{number % 20}")
            await world.passes(STEP_SECONDS)
        await world.passes(INTERVAL_SECONDS)
        assert not world.wrong()


async def test_an_object_is_written_once_in_0_3_s_and_once_after_its_last_change() -> None:
    async with running("q") as world:
        for number in range(50):
            world.submit(f"w{number}", "q")
            await world.passes(STEP_SECONDS)
        await world.passes(INTERVAL_SECONDS)
        times = [write.at for write in world.writes if write.kind == "ClusterQueue"]
        assert len(times) >= 2
        assert all(later - earlier >= INTERVAL_SECONDS - 1e-9 for earlier, later in itertools.pairwise(times))
        assert not world.wrong()


async def test_counts_that_change_twice_within_a_moment_are_written_once() -> None:
    async with running("q") as world:
        world.submit("w0", "q")
        await world.passes(SETTLE_SECONDS / 2)
        world.submit("w1", "q")
        await world.passes(SETTLE_SECONDS)
        assert sorted(write.kind for write in world.writes) == ["ClusterQueue", "LocalQueue"]
        assert not world.wrong()


async def test_at_a_busy_api_server_the_statuses_of_all_queues_share_a_few_writes_a_second() -> None:
    queues = [f"q{number}" for number in range(30)]
    async with running(*queues, busy=True) as world:
        for number in range(1_000):
            world.submit(f"w{number}", queues[number % 30])
            await world.passes(STEP_SECONDS)
        assert 10 <= len(world.writes) <= 50, "in ten seconds"
        kinds = Counter(write.kind for write in world.writes)
        assert kinds["ClusterQueue"] == pytest.approx(kinds["LocalQueue"], abs=2)


async def test_statuses_are_right_within_a_second_once_the_api_server_is_idle_again() -> None:
    queues = [f"q{number}" for number in range(30)]
    async with running(*queues, busy=True) as world:
        for number in range(100):
            world.submit(f"w{number}", queues[number % 30])
        await world.passes(1.0)
        assert world.wrong()
        world.busy = False
        await world.passes(1.0)
        assert not world.wrong()


async def test_a_status_has_what_is_true_when_its_turn_comes() -> None:
    async with running("q", busy=True) as world:
        for number in range(30):
            world.submit(f"w{number}", "q")
            await world.passes(STEP_SECONDS)
        world.busy = False
        await world.passes(2.0)
        counts = [write.body["status"]["pendingWorkloads"] for write in world.writes if write.kind == "ClusterQueue"]
        assert counts[-1] == 30 and len(counts) <= 3


async def test_a_status_has_what_is_true_when_admission_calls_let_it_be_written() -> None:
    async with running("q") as world:
        await world.passes(1.0)
        before, answered = len(world.writes), asyncio.Event()
        world.precedence.called()
        others = [asyncio.create_task(_hold(world.precedence, answered)) for _ in range(MOST)]
        world.submit("first", "q")
        await world.passes(2 * SETTLE_SECONDS)
        await eventually(lambda: world.precedence._waiting)
        world.submit("second", "q")
        answered.set()
        await asyncio.gather(*others)
        await world.passes(1.0)
        counts = [write.body["status"].get("pendingWorkloads") for write in world.writes[before:]]
        assert counts and set(counts) == {2}


async def _hold(precedence: Precedence, until: asyncio.Event) -> None:
    async with precedence.turn():
        await until.wait()


async def test_many_local_queues_do_not_delay_the_status_of_a_cluster_queue() -> None:
    async with running("other", busy=True) as world:
        for number in range(200):
            world.add(f"lq{number}", local="other")
        await world.passes(0.05)
        world.add("new")
        world.submit("w", "other")
        await world.passes(4.0)
        assert {("ClusterQueue", "new"), ("ClusterQueue", "other")} <= set(world.written())


async def test_many_counts_do_not_delay_a_condition_that_changes() -> None:
    queues = [f"q{number}" for number in range(100)]
    async with running(*queues, busy=True) as world:
        for number, name in enumerate(queues):
            world.submit(f"w{number}", name)
        await world.passes(0.05)
        world.add("inactive", flavor="missing")
        await world.passes(3.0)
        assert {("ClusterQueue", "inactive"), ("LocalQueue", "inactive")} <= set(world.written())
        assert len(world.writes) < 20


async def test_an_object_is_not_written_twice_at_once() -> None:
    """Else the write that arrives last decides, which may be the older one."""
    async with running("q") as world:
        world.patch_seconds = 0.5
        world.submit("w", "q")
        await world.passes(0.05)
        world.caches.stores[resources.RESOURCE_FLAVORS].remove_from_write(("", "default"), "ResourceFlavor-default")
        world.changed(resources.CLUSTER_QUEUES, "q")
        world.changed(resources.LOCAL_QUEUES, "q")
        await world.passes(0.1)
        assert sorted(world.written()) == [("ClusterQueue", "q"), ("LocalQueue", "q")]
        await world.passes(2.0)
        assert not world.wrong()


async def test_a_status_that_is_right_already_takes_no_turn() -> None:
    async with running("q", busy=True) as world:
        world.statuses.budget = cast(Budget, None)
        world.changed(resources.CLUSTER_QUEUES, "q")
        world.changed(resources.LOCAL_QUEUES, "q")
        await world.passes(2.0)
        assert not any(queue.retried for queue in world.statuses.lanes.values())


async def test_finalizers_wait_for_no_turn_and_for_no_status() -> None:
    queues = [f"q{number}" for number in range(100)]
    async with running(*queues, busy=True) as world:
        for number, name in enumerate(queues):
            world.submit(f"w{number}", name)
        deleted = made("ClusterQueue", "deleted", {"namespaceSelector": {}})
        deleted["metadata"] |= {"finalizers": [IN_USE], **LEAVING}
        world.enter(resources.CLUSTER_QUEUES, deleted)
        await world.passes(STEP_SECONDS)
        assert ("ClusterQueue", "deleted") in world.written()
