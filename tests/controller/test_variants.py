"""Variants: every write is made once, whichever is the last of a process, and each change queues the parent."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from api import resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import ApiError, Forbidden, Unreachable
from controller.reconcilers.variants import REFUSED_SECONDS, UNSEEN_SECONDS, Variants
from controller.run.watched import rows
from controller.settings import Reading
from core.jobs.kinds import BATCH_JOB
from core.jobs.workload import variant_name
from core.model import Workload
from core.model.policy import SchedulingPolicy
from core.state.state import State
from core.variants.rules import manifest
from core.wire.conditions import status_patch
from core.wire.decode import admission
from core.wire.merge import merged
from core.workload import transitions
from tests.controller.test_provisioning import Api, Told
from tests.core.multikueue.groups import NOW
from tests.core.variants.test_rules import parent

KEY = Key("ns", "job-j-12345")
NAME = variant_name(KEY.name, "u-p", "best")
GROUP: Raw = {"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": []} for name in ("best", "spot")]}
POLICY: Raw = {"migration": {"mode": "TryPreferredFlavors"}}
CLUSTER_QUEUE: Raw = {
    "metadata": {"name": "cq"},
    "spec": {"resourceGroups": [GROUP], "concurrentAdmissionPolicy": POLICY, "namespaceSelector": {}},
}
LOCAL_QUEUE: Raw = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}


class Process:
    """A process that leads: its stores have what the API server had when it started, and then every change."""

    def __init__(self, api: Api) -> None:
        self.api, self.told = api, Told()
        reading = Reading(preemption_gates=True, concurrent_admission=True)
        self.caches = Caches(State(SchedulingPolicy(concurrent_admission=True)), rows([BATCH_JOB]), reading)
        writer = Writer(cast(Any, api), self.caches.stores)
        self.variants = Variants(self.caches, writer, cast(Any, self.told), clock=lambda: NOW)
        self.look()
        self.caches.start()
        self.variants.connect()

    @property
    def parent(self) -> Workload:
        return self.caches.decoded[KEY]

    def look(self) -> None:
        """What the watches report."""
        for (resource, _), raw in list(self.api.objects.items()):
            self.caches.stores[resource].observe("MODIFIED", raw)
        for raw in list(self.caches.workloads):
            if (resources.WORKLOADS, key_of(raw)) not in self.api.objects:
                self.caches.workloads.observe("DELETED", raw)

    async def step(self) -> None:
        try:
            await self.variants.reconcile(KEY)
        except ApiError:
            self.look()


def set_up() -> Api:
    api = Api()
    for resource, raw in (
        (resources.CLUSTER_QUEUES, CLUSTER_QUEUE),
        (resources.LOCAL_QUEUES, LOCAL_QUEUE),
        (resources.WORKLOADS, parent()),
    ):
        api.enter(resource, raw)
    return api


async def settled(process: Process, *, restarts: bool, lost: bool | None) -> Process:
    """Makes all writes that are due; returns the last process. Each write is the last of its process if ``restarts``,
    and is first lost, before it reached the API server or after, if ``lost`` is False or True.
    """
    api = process.api
    for _ in range(20):
        before = len(api.writes)
        if lost is not None:
            api.fails = Unreachable(0, "Reset", "the connection was lost"), lost
            await process.step()
            api.fails = None
        if restarts:
            process = Process(api)
        await process.step()
        process.look()
        if len(api.writes) == before:
            return process
    raise AssertionError(f"no end: {api.writes}")


async def play(api: Api, *, restarts: bool, lost: bool | None) -> list[str]:
    """Makes all writes until the parent runs with its variant for ``spot``, and none waits but for ``best``."""
    process = Process(api)
    process = await settled(process, restarts=restarts, lost=lost)
    reserve(process, "spot")
    process.look()
    process = await settled(process, restarts=restarts, lost=lost)
    found = process.caches.get(KEY)
    assert found is not None and found.holds("Admitted") and found.admission is not None
    assert found.admission.pod_sets[0].flavors == {"cpu": "spot"}
    return api.writes


@pytest.mark.parametrize("lost", [None, False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_every_write_is_made_once_whichever_is_the_last_of_a_process(restarts: bool, lost: bool | None) -> None:
    """The parent is marked and admitted, and has two variants."""
    writes = asyncio.run(play(set_up(), restarts=restarts, lost=lost))
    assert sorted(writes) == ["create workloads"] * 2 + ["patch workloads"] * 2


def test_a_change_of_a_variant_or_of_the_flavors_queues_the_parent() -> None:
    api = set_up()
    asyncio.run(play(api, restarts=False, lost=None))
    process = Process(api)

    def queued() -> int:
        found = len(process.variants.queue)
        process.variants.queue.drop()
        return found

    queued()
    (key,) = (key for _, key in api.objects if "spot" in key.name)
    api.enter(resources.WORKLOADS, api.objects[resources.WORKLOADS, key])
    process.look()
    assert queued() == 1
    status: Raw = merged(CLUSTER_QUEUE, {"status": {"pendingWorkloads": 1}})
    api.enter(resources.CLUSTER_QUEUES, status)
    process.look()
    assert queued() == 0  # nothing that the parent depends on
    api.enter(resources.CLUSTER_QUEUES, merged(CLUSTER_QUEUE, {"spec": {"resourceGroups": []}}))
    process.look()
    assert queued() == 1
    other = merged(CLUSTER_QUEUE, {"metadata": {"name": "other"}})
    api.enter(resources.CLUSTER_QUEUES, other)
    process.look()
    assert queued() == 0


def test_a_local_queue_that_appears_queues_the_workloads_that_wait_for_it() -> None:
    api = Api()
    api.enter(resources.CLUSTER_QUEUES, CLUSTER_QUEUE)
    api.enter(resources.WORKLOADS, parent())
    process = Process(api)
    assert len(process.variants.queue) == 0
    api.enter(resources.LOCAL_QUEUES, LOCAL_QUEUE)
    process.look()
    assert len(process.variants.queue) == 1


@pytest.mark.parametrize("taken", [False, True], ids=["it is refused", "another object has its name"])
def test_a_variant_that_cannot_be_created_is_reported_once_on_its_parent(taken: bool) -> None:
    async def refused(api: Api) -> Process:
        process = Process(api)
        await process.step()  # the parent is marked
        process.look()
        if taken:
            family = process.variants.gather(KEY)
            assert family is not None
            api.enter(
                resources.WORKLOADS, {**manifest(family.raw, "best"), "metadata": {"name": NAME, "namespace": "ns"}}
            )
            process.look()
        for tried in range(2):
            process.variants.clock = partial(operator.add, NOW, tried * REFUSED_SECONDS)
            api.fails = None if taken else (Forbidden(403, "Forbidden", "no more Workloads"), False)
            await process.variants.reconcile(KEY)
            process.look()
        api.fails = None
        await settled(process, restarts=False, lost=None)
        assert await process.variants.reconcile(KEY) == REFUSED_SECONDS
        return process

    process = asyncio.run(refused(set_up()))
    why = "it exists" if taken else "no more Workloads"
    text = f'Variant Workload "ns/{NAME}" could not be created: {why}'
    spot = ("CreatedVariant", f'Variant Workload "ns/{variant_name(KEY.name, "u-p", "spot")}" created')
    assert process.told.events == [("FailedCreate", text), spot]
    left = process.variants.gather(KEY)
    assert left is not None and left.refused == {"best"}


async def test_a_variant_that_exists_and_has_not_arrived_is_not_created_again_at_once() -> None:
    process = Process(set_up())
    await process.step()  # the parent is marked
    process.look()
    family = process.variants.gather(KEY)
    assert family is not None
    process.api.enter(resources.WORKLOADS, manifest(family.raw, "best"))  # no watch reports it
    await process.variants.reconcile(KEY)
    process.variants.queue.drop()
    assert process.told.events == []
    found = process.variants.gather(KEY)
    assert found is not None and found.refused == {"best"}
    process.look()
    process.variants.clock = lambda: NOW + UNSEEN_SECONDS
    await settled(process, restarts=False, lost=None)
    assert [reason for reason, _ in process.told.events] == ["CreatedVariant"]


@pytest.mark.parametrize("evicted", [False, True])
async def test_the_quota_of_a_variant_is_not_held_without_end_when_its_local_queue_is_deleted(evicted: bool) -> None:
    """It was admitted a moment before: the parent runs, as any Workload that was admitted. If it was evicted, the quota
    is released.
    """
    process = await settled(Process(set_up()), restarts=False, lost=None)
    reserve(process, "spot")
    if evicted:
        process.look()
        evict(process)
    del process.api.objects[resources.LOCAL_QUEUES, Key("ns", "lq")]
    process = await settled(Process(process.api), restarts=False, lost=None)
    spot = process.caches.get(Key("ns", variant_name(KEY.name, "u-p", "spot")))
    assert spot is not None
    assert (process.parent.holds("Admitted"), spot.holds("QuotaReserved")) == (not evicted, not evicted)


def reserve(process: Process, flavor: str) -> None:
    """The scheduler's part: quota is reserved for the variant of a flavor."""
    (variant,) = (each for each in process.caches.decoded.values() if each.allowed_flavors == (flavor,))
    given = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": flavor}}]}
    found = admission(given, {})
    assert found is not None
    written(process, variant, transitions.reserved(variant, found, NOW))


def evict(process: Process) -> None:
    (variant,) = (each for each in process.caches.decoded.values() if each.allowed_flavors == ("spot",))
    written(process, variant, transitions.evicted(variant, "FlavorMigration", "", NOW))


def release(process: Process) -> None:
    """The pods of the parent are gone."""
    written(process, process.parent, transitions.released(process.parent, NOW))


def block(process: Process) -> None:
    """The preferred variant could be admitted only by preemption."""
    (variant,) = (each for each in process.caches.decoded.values() if each.allowed_flavors == ("best",))
    written(process, variant, transitions.preemption_gated(variant, "", NOW))


def finish(process: Process) -> None:
    written(process, process.parent, transitions.finished(process.parent, "Succeeded", "", NOW))


def remove_flavor(process: Process) -> None:
    spec = {**CLUSTER_QUEUE["spec"], "resourceGroups": [{**GROUP, "flavors": GROUP["flavors"][1:]}]}
    process.api.enter(resources.CLUSTER_QUEUES, {**CLUSTER_QUEUE, "spec": spec})


def written(process: Process, before: Workload, after: Workload) -> None:
    patch = status_patch(before, after)
    assert patch is not None
    patch.pop("metadata")
    process.api.enter(resources.WORKLOADS, merged(process.api.objects[resources.WORKLOADS, before.key], patch))


RUNNING: list[Callable[[Process], None]] = [partial(reserve, flavor="spot")]
STORIES: dict[str, tuple[list[Callable[[Process], None]], list[str]]] = {
    "admit the parent": (RUNNING, ["patch workloads"]),
    "evict the parent": ([*RUNNING, evict], ["patch workloads"]),
    "release the variant": ([*RUNNING, evict, release], ["patch workloads"]),
    "deactivate a variant": ([partial(reserve, flavor="best")], ["patch workloads"] * 2),
    "open a preemption gate": ([block], ["patch workloads"]),
    "finish the variants": ([*RUNNING, finish], ["patch workloads"] * 2),
    "delete a variant": ([remove_flavor], ["delete workloads"]),
}
"""What happens until a write is due, and which writes the last event causes."""


@pytest.mark.parametrize("lost", [None, False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("story", STORIES)
def test_each_kind_of_write_is_made_once_whichever_is_the_last_of_a_process(
    story: str, restarts: bool, lost: bool | None
) -> None:
    async def tell(api: Api) -> list[str]:
        events, _ = STORIES[story]
        process = await settled(Process(api), restarts=restarts, lost=lost)
        for event in events:
            event(process)
            process.look()
            before = len(api.writes)
            process = await settled(process, restarts=restarts, lost=lost)
        return api.writes[before:]

    assert asyncio.run(tell(set_up())) == STORIES[story][1]
