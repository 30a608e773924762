"""Which pods the guard counts for which job, and what it stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
import structlog

from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.owners import Owners
from controller.cache.writes import Writer
from controller.kube.flow.precedence import Precedence
from controller.reconcilers.guard import (
    CONFIRM_SECONDS,
    IMPATIENT_SECONDS,
    REPORTED_SECONDS,
    SOON_SECONDS,
    SWEEP_SECONDS,
    PodGuard,
)
from controller.reconcilers.living import living_pods, read
from controller.reconcilers.managed import Managed
from controller.run.watched import rows
from controller.settings import ControllerSettings, GuardSettings
from core.guard.grants import STOPS_SECONDS
from core.guard.judge import LEAVES_SECONDS
from core.guard.pods import totals
from core.jobs.kinds import BATCH_JOB, JOB_SET, POD
from core.model import Admission, Key, PodSetAssignment, Raw, TopologyAssignment
from core.model.owner import Level, reference
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.model.topology import TopologyDomain
from core.state.state import State
from core.topology.health import FailureRules
from core.wire.merge import merged
from core.wire.timestamps import stamp
from tests.controller.test_caches import made
from tests.controller.test_jobs import Told
from tests.core.jobs.samples import admitted, job, workload_of

QUEUE = "kueue.x-k8s.io/queue-name"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}


def pod(name: str, *, owner: Raw | None = JOB, cpu: str = "1", **metadata: Any) -> Raw:
    """A pod on a node; of the job if no other owner is named."""
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **({"ownerReferences": [owner]} if owner else {}),
            **metadata,
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }


KID = {**JOB, "name": "kid", "uid": "kid-uid"}


ELSEWHERE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c-uid", "controller": True}
"""An owner that is no job: who may patch a pod can write it."""


def below(owner: Raw, above: Raw) -> Raw:
    """The job that an owner reference is about, below another one."""
    metadata = {"name": owner["name"], "uid": owner["uid"], "ownerReferences": [above]}
    return merged(job(suspend=False), {"kind": owner["kind"], "apiVersion": owner["apiVersion"], "metadata": metadata})


def gone(world: World, owner: Raw) -> None:
    """An owner was looked for, and is not there."""
    found = reference({"metadata": {"ownerReferences": [owner]}})
    assert found is not None
    world.guard.managed.owners._read["ns", found] = Level("", gone=True)


class Api:
    """An API server with the pods of one namespace, which keeps what is deleted and patched."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists = 0
        self.seconds = 0.0  # that a deletion takes
        self.deleted: list[tuple[str, int | None]] = []
        self.evicted: list[tuple[str, str]] = []
        self.precedence = Precedence(lambda: 0.0)

    async def pages(self, resource: Resource, namespace: str, **_: Any) -> AsyncGenerator[Raw, None]:
        self.lists += 1
        yield {"metadata": {}, "items": list(self.world.pods.values())}

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str, grace: int | None) -> Raw:
        found = self.world.pods[name]
        assert found["metadata"]["uid"] == uid
        self.world.now += self.seconds
        self.deleted.append((name, grace))
        self.world.see(merged(found, {"metadata": {"deletionTimestamp": stamp(self.world.now)}}))
        return {"kind": "Status"}

    async def patch(self, resource: Resource, name: str, *_: Any, **__: Any) -> Raw:
        raise AssertionError("a status that is known is replaced")

    async def update(self, resource: Resource, body: Raw, *, subresource: str, **_: Any) -> Raw:
        found = next(each for each in body["status"]["conditions"] if each["type"] == "Evicted")
        self.evicted.append((body["metadata"]["name"], found["reason"]))
        self.world.version += 1
        known = self.world.caches.workloads.get(Key("ns", body["metadata"]["name"]))
        return {**merged(known, {"metadata": {"resourceVersion": str(self.world.version)}}), "status": body["status"]}


class World:
    """A job of three pods that are admitted; a clock; the guard. ``kinds`` are enabled."""

    def __init__(self, **options: Any) -> None:
        self.now, self.version = 2_000_000_000.0, 100
        self.pods: dict[str, Raw] = {}
        self.api, self.told = Api(self), Told()
        kinds = [BATCH_JOB, JOB_SET, POD]
        self.caches = Caches(State(SchedulingPolicy(topology=TopologyPolicy())), rows(kinds))
        self.caches.namespaces.observe("ADDED", made("Namespace", "ns"))
        self.caches.local_queues.observe("ADDED", merged(made("LocalQueue", "lq"), {"metadata": {"namespace": "ns"}}))
        self.caches.stores[BATCH_JOB.resource].observe("ADDED", job(suspend=False))
        workload = admitted(workload_of(job()))
        workload["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.workload = workload["metadata"]["name"]
        self.caches.workloads.observe("ADDED", workload)
        self.caches.start()
        settings = ControllerSettings(
            frameworks=tuple(each.framework for each in kinds), **{"guard": GuardSettings(), **options}
        )
        managed = Managed(self.caches, settings, Owners(self.caches))
        client: Any = self.api
        writer = Writer(client, self.caches.stores)
        pods = living_pods(settings.reading)
        self.guard = PodGuard(
            self.caches, writer, client, managed, self.told, settings, pods=pods, clock=lambda: self.now
        )
        self.caches.local_queues.on_change(self.guard._queue_changed)
        self.caches.cluster_queues.on_change(self.guard._quota_changed)
        self.caches.observers.append(self.guard.workload_changed)
        assert not list(pods.catch_up(self.guard.changed))

    def see(self, *pods: Raw, event: str = "MODIFIED") -> None:
        """Pods change, and the watch reports it."""
        for each in pods:
            self.version += 1
            raw = merged(each, {"metadata": {"resourceVersion": str(self.version)}})
            name = raw["metadata"]["name"]
            if event == "DELETED":
                self.pods.pop(name, None)
            else:
                self.pods[name] = raw
            assert self.guard.pods.observe(event, raw)

    def change(self, change: Raw) -> None:
        """The Workload changes."""
        self.version += 1
        raw = self.caches.workloads.get(Key("ns", self.workload))
        assert raw is not None
        after = merged(raw, merged(change, {"metadata": {"resourceVersion": str(self.version)}}))
        self.caches.workloads.observe("MODIFIED", after)

    def condition(self, kind: str, reason: str = "Any") -> None:
        raw = self.caches.workloads.get(Key("ns", self.workload))
        assert raw is not None
        since = stamp(self.now)
        more = {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": since}
        self.change({"status": {"conditions": [*raw["status"]["conditions"], more]}})

    async def after(self, seconds: float) -> None:
        """Time passes, and the guard does what is due."""
        ends = self.now + seconds
        while self.now < ends:
            self.now = min(ends, self.now + 0.2)
            await self.guard.reconcile("ns")

    def at_rest(self) -> None:
        """Nothing was asked of the API server, and nothing stopped."""
        assert (self.api.lists, self.api.deleted, self.api.evicted, self.told.events) == (0, [], [], [])


def without_its_job() -> World:
    """The job is gone, and one below it is still there: garbage collection deletes that later."""
    world = World(manage_jobs_without_queue_name=True)
    jobs = world.caches.stores[BATCH_JOB.resource]
    jobs.observe("ADDED", below(KID, JOB))
    jobs.observe("DELETED", job(suspend=False))
    gone(world, JOB)
    return world


async def sweep(world: World) -> None:
    """The guard looks at all pods, at least once."""
    with patch("controller.reconcilers.guard.SWEEP_SECONDS", 0.0):
        sweeping = asyncio.create_task(world.guard._sweep())
        for _ in range(10):
            await asyncio.sleep(0)
        sweeping.cancel()


@pytest.fixture
def world() -> World:
    return World()


SECOND = 1.0


async def test_pods_that_are_admitted_cost_no_call(world: World) -> None:
    world.see(pod("a"), pod("b"), pod("c"))
    await world.after(60)
    world.at_rest()


async def test_a_pod_more_than_admitted_evicts_the_workload_within_a_second(world: World) -> None:
    world.see(*map(pod, "abcd"))
    await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]
    assert world.api.deleted == []
    assert [each.reason for each in world.told.events] == ["EvictedDueToPodsWithoutQuota"]


async def test_pods_of_a_template_that_asks_for_more_evict_the_workload(world: World) -> None:
    """As when the template of an object below the job is changed (a RayCluster, a StatefulSet of a LeaderWorkerSet)."""
    world.caches.cluster_queues.observe("ADDED", covers("cq", "cpu"))
    world.see(pod("a"), pod("b"), pod("c", cpu="2"))
    await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]


@pytest.mark.parametrize("finished", [False, True])
async def test_a_workload_that_changes_while_its_eviction_waits_is_decided_again(world: World, finished: bool) -> None:
    """An eviction that was decided before the turn would take such a change back, or be refused."""
    versions: list[str] = []
    update = world.api.update

    async def keeping(resource: Resource, body: Raw, **given: Any) -> Raw:
        versions.append(body["metadata"]["resourceVersion"])
        return await update(resource, body, **given)

    @contextlib.asynccontextmanager
    async def turn(*_: object, **__: object) -> AsyncIterator[None]:
        if finished:
            world.condition("Finished")
        else:
            world.change({"metadata": {"labels": {"a": "b"}}})
        yield

    with patch.object(world.guard.writer, "turn", turn), patch.object(world.api, "update", keeping):
        world.see(*map(pod, "abcd"))
        await world.after(SECOND)
    assert versions == ([] if finished else [str(world.version - 1)])
    assert [each.reason.startswith("Evicted") for each in world.told.events].count(True) == len(versions)


async def test_an_eviction_is_not_repeated_while_the_job_stops(world: World) -> None:
    world.see(*map(pod, "abcd"))
    await world.after(STOPS_SECONDS - 1)
    assert (len(world.api.evicted), world.api.deleted) == (1, [])


async def test_pods_of_an_evicted_job_that_does_not_stop_are_deleted(world: World) -> None:
    world.see(pod("a"))
    world.condition("Evicted")
    await world.after(STOPS_SECONDS + SECOND)
    assert world.api.deleted[0] == ("a", None)


async def test_a_retry_and_a_replacement_are_no_excess(world: World) -> None:
    """A pod that has failed leaves before the next one has a node, or terminates."""
    world.see(pod("a"), pod("b"), pod("c"))
    world.see(pod("c"), event="DELETED")
    world.see(pod("d"))
    leaving: Raw = {"deletionTimestamp": "2033-05-18T03:33:50Z", "deletionGracePeriodSeconds": 30}
    world.see(pod("a", **leaving), pod("e"))
    await world.after(10)
    world.at_rest()


async def test_what_only_the_watch_shows_is_left_alone(world: World) -> None:
    world.see(*map(pod, "abcd"))
    del world.pods["a"]
    await world.after(SECOND)
    assert (world.api.lists, world.api.evicted) == (1, [])


async def test_pods_of_a_job_that_ended_have_a_moment_to_go(world: World) -> None:
    world.see(pod("a"))
    world.condition("Finished")
    await world.after(LEAVES_SECONDS - 1)
    world.at_rest()
    await world.after(SECOND + 1)
    assert world.api.deleted[0] == ("a", None)


async def sentence(world: World) -> str:
    """What is logged of pods that run on for some time."""
    with structlog.testing.capture_logs() as logs:
        await world.after(LEAVES_SECONDS + SECOND)
    return str(next(each["what"] for each in logs if each["event"] == "pods run without quota"))


@pytest.mark.parametrize("deleted", [False, True])
async def test_the_sentence_says_that_the_job_of_the_pods_has_ended(world: World, *, deleted: bool) -> None:
    world.see(pod("a"))
    world.condition("Finished", "Succeeded")
    await world.after(1)
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    if deleted:
        world.caches.workloads.observe("DELETED", raw)
    assert await sentence(world) == "Pods run without quota: 1 pod runs, none admitted; their job has ended"


async def test_a_job_that_waits_again_before_its_pods_are_gone_has_not_ended(world: World) -> None:
    world.see(pod("a"))
    world.condition("Evicted")
    await world.after(2)
    world.change({"status": {"admission": None, "conditions": []}})
    assert await sentence(world) == "Pods run without quota: 1 pod runs, none admitted"


async def test_one_job_after_the_other_that_leaves_pods_gains_no_time(world: World) -> None:
    """As with a kind whose controller deletes no pods when the job ends (`cleanPodPolicy: None`)."""
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    admitted = {"status": {"conditions": raw["status"]["conditions"]}}

    async def leaves(name: str) -> float:
        """How long the pod of a job that ends is left alone."""
        world.change(admitted)
        world.see(pod(name))
        world.condition("Finished")
        ended = world.now
        while (name, None) not in world.api.deleted:
            await world.after(0.2)
        world.see(pod(name), event="DELETED")
        return world.now - ended

    assert LEAVES_SECONDS < await leaves("a") < LEAVES_SECONDS + SECOND
    assert await leaves("b") < SOON_SECONDS + SECOND
    assert [*world.guard._left_pods_at] == [("ns", "Job")]
    await world.after(IMPATIENT_SECONDS)
    assert await leaves("c") > LEAVES_SECONDS


async def test_many_pods_without_quota_are_deleted_one_hundred_after_the_other_without_a_pause(world: World) -> None:
    """Only the time of the lists is limited: that of the deletions is needed."""
    world.api.seconds = 0.01
    world.condition("Finished")
    world.see(*(pod(f"p{number}") for number in range(250)))
    await world.after(2.5 + 4 * CONFIRM_SECONDS)
    assert len(world.api.deleted) == 250


async def test_a_pod_that_starts_after_its_job_has_ended_is_deleted_at_once(world: World) -> None:
    world.condition("Finished")
    world.see(pod("a"))
    await world.after(SECOND)
    assert world.api.deleted == [("a", 1)]  # it has no time to terminate


async def test_a_job_that_shrinks_may_delete_its_pods(world: World) -> None:
    world.see(pod("a"), pod("b"), pod("c"))
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    world.change({"spec": {"podSets": [{**raw["spec"]["podSets"][0], "count": 2}]}})
    await world.after(LEAVES_SECONDS - 1)
    world.see(pod("c"), event="DELETED")
    await world.after(10)
    world.at_rest()


async def test_a_pod_without_labels_and_owner_is_counted_for_the_job_that_it_was_of(world: World) -> None:
    world.see(pod("a"), pod("b"), pod("c"))
    world.see(pod("a", owner=None))
    await world.after(SECOND)
    world.at_rest()
    world.see(pod("d"))
    await world.after(SECOND)
    assert (world.api.deleted, world.api.evicted) == ([("a", None)], [])


def covers(name: str, *names: str) -> Raw:
    """A ClusterQueue with quota of these resources."""
    quotas = [{"name": each, "nominalQuota": "9"} for each in names]
    groups = [{"coveredResources": [*names], "flavors": [{"name": "spot", "resources": quotas}]}]
    return made("ClusterQueue", name, {"resourceGroups": groups})


@pytest.mark.parametrize(
    ("elsewhere", "evicted"), [("example.com/other", False), ("example.com/device", True)], ids=["nowhere", "elsewhere"]
)
async def test_only_resources_of_which_there_is_quota_are_compared(world: World, elsewhere: str, evicted: bool) -> None:
    """Others add a resource to the pods of a job whose own ClusterQueue does not cover it."""
    world.caches.cluster_queues.observe("ADDED", covers("cq", "cpu"))
    device = {"requests": {"cpu": "1", "example.com/device": "1"}}
    for name in "abc":
        made_by_others = pod(name)
        made_by_others["spec"]["containers"][0]["resources"] = device
        world.see(made_by_others)
    await world.after(10)
    world.at_rest()
    world.caches.cluster_queues.observe("ADDED", covers("other", elsewhere))
    world.see(world.pods["a"] | {"metadata": {**world.pods["a"]["metadata"], "labels": {QUEUE: "lq"}}})
    await world.after(SECOND)
    assert world.api.evicted == ([(world.workload, "PodsWithoutQuota")] if evicted else [])


async def test_the_only_pod_of_a_job_is_still_counted_for_it(world: World) -> None:
    """It loses its labels and its owner, and others take its place."""
    world.see(pod("a"))
    world.see(pod("a", owner=None))
    world.see(*map(pod, "bcd"))
    await world.after(SECOND)
    assert (world.api.deleted, world.api.evicted) == ([("a", None)], [])


@pytest.mark.parametrize("label", ["kueue.x-k8s.io/job-uid", "batch.kubernetes.io/controller-uid"])
async def test_a_pod_that_names_a_job_is_counted_for_it(world: World, label: str) -> None:
    world.see(*map(pod, "abc"), pod("d", owner=None, labels={label: "job-uid"}))
    await world.after(SECOND)
    assert (world.api.deleted, world.api.evicted) == ([("d", None)], [])


async def test_pods_of_a_child_are_counted_for_the_job_above_it(world: World) -> None:
    """A Job below a JobSet that has a Workload."""
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}
    child = merged(job(suspend=False), {"metadata": {"name": "kid", "uid": "kid-uid", "ownerReferences": [above]}})
    world.caches.stores[BATCH_JOB.resource].observe("ADDED", child)
    kid = {**JOB, "name": "kid", "uid": "kid-uid"}
    world.see(*map(pod, "abc"), pod("d", owner=kid))
    await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]


async def test_pods_below_a_job_that_is_gone_terminate_with_the_quota_that_it_holds() -> None:
    """Garbage collection deletes what is below it later, up to half a minute for a kind that was just defined."""
    world = World(manage_jobs_without_queue_name=True)
    jobs = world.caches.stores[BATCH_JOB.resource]
    middle = {**JOB, "kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2", "name": "middle", "uid": "middle-uid"}
    world.caches.stores[JOB_SET.resource].observe("ADDED", below(middle, JOB))
    jobs.observe("ADDED", below(KID, middle))
    pods = [pod(each, owner=KID) for each in "abc"]
    world.see(*pods)
    world.caches.stores[JOB_SET.resource].observe("DELETED", below(middle, JOB))
    gone(world, middle)
    ends = {"deletionTimestamp": stamp(world.now + 30), "deletionGracePeriodSeconds": 30}
    world.see(*(merged(each, {"metadata": ends}) for each in pods))
    await world.after(10)
    world.at_rest()


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again with its name"])
async def test_pods_that_start_below_a_job_that_is_gone_use_the_quota_that_it_holds(again: bool) -> None:
    world = without_its_job()
    if again:
        another = merged(job(), {"metadata": {"uid": "another", "resourceVersion": "9"}})
        world.caches.stores[BATCH_JOB.resource].observe("ADDED", another)
    world.see(*(pod(each, owner=KID) for each in "abc"))
    await world.after(10)
    world.at_rest()
    world.see(pod("d", owner=KID))
    await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]


async def test_a_pod_with_a_queue_that_never_had_a_workload_is_deleted(world: World) -> None:
    late: Raw = {"creationTimestamp": "2033-05-18T03:33:21Z", "labels": {QUEUE: "lq"}}
    world.see(pod("a", owner=None, **late))
    await world.after(SECOND)
    assert world.api.deleted == [("a", 1)]  # it has no time to terminate
    assert {each.reason for each in world.told.events} == {"RunsWithoutQuota"}


async def test_a_pod_with_a_queue_that_ran_before_is_left_alone(world: World) -> None:
    """Enabling a kind stops nothing that runs."""
    world.see(pod("a", owner=None, labels={QUEUE: "lq"}))
    await world.after(10)
    world.at_rest()


async def test_a_pod_that_admission_has_marked_is_deleted_whenever_it_came(world: World) -> None:
    world.see(pod("a", owner=None, finalizers=["kueue.x-k8s.io/managed"]))
    await world.after(SECOND)
    assert world.api.deleted == [("a", 1)]  # it has no time to terminate


async def test_pods_of_a_group_are_counted_for_its_workload(world: World) -> None:
    """It has none, so they have no quota."""
    world.see(pod("a", owner=None, labels={"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/managed": "true"}))
    await world.after(SECOND)
    assert world.api.deleted == [("a", 1)]  # it has no time to terminate


async def test_a_pod_whose_group_has_the_name_of_a_jobs_workload_is_counted_for_its_own_job(world: World) -> None:
    """Users choose the names of groups: the quota of that Workload would count twice."""
    group = {"kueue.x-k8s.io/pod-group-name": world.workload, "batch.kubernetes.io/controller-uid": "job-uid"}
    world.see(*map(pod, "abc"), pod("d", owner=ELSEWHERE, labels=group))
    await world.after(SECOND)
    assert (world.api.deleted, world.api.evicted) == ([("d", None)], [(world.workload, "PodsWithoutQuota")])


async def test_a_pod_that_somebody_moves_to_a_group_without_quota_loses_that_of_its_job(world: World) -> None:
    """It would run on for half a minute after its job, one short job after the other."""
    world.see(*map(pod, "abc"))
    marked: Raw = {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "finalizers": ["kueue.x-k8s.io/managed"]}
    world.see(pod("a", owner=ELSEWHERE, **marked))
    await world.after(SECOND)
    assert world.api.deleted == [("a", 1)]


async def test_pods_below_a_job_that_is_gone_are_stopped_soon_after_its_workload_has_finished() -> None:
    """They do not wait for the next sweep."""
    world = without_its_job()
    world.see(*(pod(each, owner=KID) for each in "abc"))
    world.condition("Finished")
    await world.after(LEAVES_SECONDS + 4 * SECOND)
    assert {name for name, _ in world.api.deleted} == {"a", "b", "c"}


async def test_pods_below_a_job_that_has_ended_have_their_moment_while_others_are_stopped() -> None:
    world = without_its_job()
    world.see(*(pod(each, owner=KID) for each in "abc"))
    world.condition("Finished")
    world.see(pod("x", owner=None, finalizers=["kueue.x-k8s.io/managed"]))
    await world.after(LEAVES_SECONDS - SECOND)
    assert world.api.deleted == [("x", 1)]


async def test_a_pod_that_its_statefulset_replaces_is_counted_for_the_workload_of_the_others(world: World) -> None:
    """It was let go without being one of the group."""
    owner = {**JOB, "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "set-uid"}
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    annotations = {"kueue.x-k8s.io/is-group-workload": "true", "kueue.x-k8s.io/job-owner-name": "s"}
    mine: Raw = {"name": "set", "uid": "w-set", "annotations": annotations, "ownerReferences": None}
    world.caches.workloads.observe(
        "ADDED", merged(raw, {"metadata": {**mine, "labels": {"kueue.x-k8s.io/job-uid": "set-uid"}}})
    )
    marks: Raw = {
        "labels": {"kueue.x-k8s.io/managed": "true"},
        "annotations": {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"},
    }
    world.see(pod("s-0", owner=owner, **marks))
    await world.after(10)
    world.at_rest()
    world.see(*(pod(f"s-{number}", owner=owner, **marks) for number in range(1, 4)))
    await world.after(SECOND)
    assert world.api.evicted == [("set", "PodsWithoutQuota")]


@pytest.mark.parametrize("owner", [None, {**JOB, "kind": "DaemonSet", "apiVersion": "apps/v1", "uid": "other"}])
async def test_pods_of_jobs_that_are_not_managed_are_left_alone(world: World, owner: Raw | None) -> None:
    late: Raw = {"creationTimestamp": "2033-05-18T03:33:21Z"}
    world.see(pod("a", owner=owner, **late))
    await world.after(10)
    world.at_rest()


async def test_pods_of_a_namespace_that_is_not_managed_are_left_alone(world: World) -> None:
    found = merged(pod("a", owner=None, finalizers=["kueue.x-k8s.io/managed"]), {"metadata": {"namespace": "other"}})
    world.see(found)
    await world.guard.reconcile("other")
    world.at_rest()


async def test_pods_of_a_namespace_that_is_deleted_are_left_alone(world: World) -> None:
    """Everything in it is deleted, in no order."""
    leaving = merged(made("Namespace", "ns"), {"metadata": {"deletionTimestamp": "x", "resourceVersion": "2"}})
    world.caches.namespaces.observe("MODIFIED", leaving)
    world.see(*map(pod, "abcd"))
    await world.after(SECOND)
    assert (world.api.deleted, world.api.evicted, world.told.events) == ([], [], [])


async def test_a_pod_that_terminates_for_too_long_is_ended(world: World) -> None:
    """An hour of grace, requested an hour ago; the pods that replace it run."""
    leaving: Raw = {"deletionTimestamp": "2033-05-18T03:33:20Z", "deletionGracePeriodSeconds": 3600}
    world.see(pod("old", **leaving), *map(pod, "abc"))
    (old,) = (each for each in world.guard.pods if each.name == "old")
    world.guard.overdue(old)
    await world.after(SECOND)
    assert (world.api.deleted[:1], world.api.evicted) == ([("old", 1)], [])


async def test_a_guard_that_warns_stops_nothing_and_reports_once() -> None:
    world = World(guard=GuardSettings(evicts=False))
    world.see(*map(pod, "abcd"))
    await world.after(60)
    assert (world.api.evicted, world.api.deleted) == ([], [])
    assert [each.reason for each in world.told.events] == ["RunsWithoutQuota"]
    await world.after(REPORTED_SECONDS)
    assert len(world.told.events) == 2


async def test_nothing_is_left_of_pods_that_are_gone(world: World) -> None:
    world.see(*map(pod, "abcd"))
    world.see(*map(pod, "abcd"), event="DELETED")
    await world.after(SECOND)
    assert (len(world.guard.pods), world.guard._counted, dict(world.guard._suspects)) == (0, {}, {})


def test_an_event_is_read_without_the_fields_that_do_not_count() -> None:
    line = (
        b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u",'
        b'"resourceVersion":"3","managedFields":[{"manager":"x"}]},"spec":{"nodeName":"n","containers":[{"name":"c",'
        b'"image":"i","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}}'
    )
    assert read(line) == (
        "ADDED",
        {
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "3"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        },
    )


def test_a_bookmark_is_read_although_its_object_is_none() -> None:
    line = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9",'
        b'"creationTimestamp":null},"spec":{"containers":null},"status":{}}}'
    )
    assert read(line)[1]["metadata"]["resourceVersion"] == "9"


async def test_pods_that_end_while_they_are_looked_at_again_end_nothing_else(world: World) -> None:
    """Their job is gone from its store: more of them than are looked at without a pause."""
    workload = world.caches.workloads.get(Key("ns", world.workload))
    assert workload is not None
    world.caches.workloads.observe("DELETED", workload)
    world.caches.stores[BATCH_JOB.resource].observe("DELETED", job())
    names = [f"p{number}" for number in range(60)]
    world.see(*map(pod, names))
    assert len(world.guard._unsettled) == len(names)
    running = asyncio.create_task(world.guard._settle())
    with patch("controller.reconcilers.guard.SETTLE_SECONDS", 0):
        await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
            world.see(*[world.pods[name] for name in list(world.pods)[-10:]], event="DELETED")
        await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()


async def test_a_pod_that_is_attributed_again_is_counted_once(world: World) -> None:
    world.see(*map(pod, "abc"))
    for each in world.guard.pods:
        world.guard._again(each)
    (counted,) = world.guard._counted.values()
    assert (counted.pods, sum(counted.shapes.values())) == (3, 3)
    world.see(*map(pod, "abc"), event="DELETED")
    assert world.guard._counted == {}


async def test_a_stray_that_terminates_is_counted_as_one_when_it_is_attributed_again(world: World) -> None:
    """An hour of grace, requested an hour ago; the sweep looks at strays again, and at those that are late."""
    labels = {"batch.kubernetes.io/controller-uid": "job-uid"}
    ends: Raw = {"deletionTimestamp": "2033-05-18T03:33:20Z", "deletionGracePeriodSeconds": 3600}
    world.see(pod("old", owner=None, labels=labels, **ends), *map(pod, "abc"))
    (counted,) = world.guard._counted.values()
    await sweep(world)
    assert ([*counted.leaving], counted.going.total(), counted.pods) == (["uid-old"], 1, 4)
    await world.after(SECOND)
    assert (world.api.deleted[:1], world.api.evicted) == ([("old", 1)], [])


async def test_a_pod_on_a_node_that_is_lost_is_ended_once(world: World) -> None:
    """Nobody confirms that it has ended: it is neither listed nor deleted again and again."""
    leaving: Raw = {"deletionTimestamp": "2033-05-18T03:33:20Z", "deletionGracePeriodSeconds": 3600}
    world.see(pod("old", **leaving), *map(pod, "abc"))
    (old,) = (each for each in world.guard.pods if each.name == "old")
    world.guard.overdue(old)
    await world.after(60)
    assert ([name for name, _ in world.api.deleted], world.api.lists < 5) == (["old"], True)


async def test_pods_with_the_label_of_a_group_that_were_never_queued_run_on(world: World) -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "mine"}
    world.see(pod("free", owner=None, labels=labels))
    await world.after(SECOND)
    world.at_rest()


def deleted(world: World, name: str, grace: int = 3600) -> Raw:
    """A pod that was deleted now, with an hour to terminate."""
    leaving: Raw = {"deletionTimestamp": stamp(world.now + grace), "deletionGracePeriodSeconds": grace}
    return pod(name, **leaving)


def admitted_since(world: World, seconds: float) -> None:
    """The job has had its quota for so long."""
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    conditions = [{**each, "lastTransitionTime": stamp(world.now - seconds)} for each in raw["status"]["conditions"]]
    world.change({"status": {"conditions": conditions}})


HOUR = 3600.0


async def test_pods_of_a_drained_job_terminate_in_peace(world: World) -> None:
    admitted_since(world, HOUR)
    world.see(*map(pod, "abc"))
    world.see(*(deleted(world, each) for each in "abc"), *map(pod, "def"))
    await world.after(30)
    world.see(*map(pod, "abc"), event="DELETED")
    await world.after(300)
    world.at_rest()


async def test_a_part_of_a_drained_job_may_terminate_for_longer(world: World) -> None:
    admitted_since(world, HOUR)
    world.see(deleted(world, "a"), *map(pod, "bcd"))
    await world.after(120)
    world.at_rest()
    await world.after(180)
    assert ([name for name, _ in world.api.deleted], world.api.evicted) == (["a"], [])


async def test_pods_of_a_new_job_have_no_time_beside_those_that_replace_them(world: World) -> None:
    admitted_since(world, 0)
    world.see(*map(pod, "abc"))
    world.see(*(deleted(world, each) for each in "abc"), *map(pod, "def"))
    await world.after(SECOND)
    assert (sorted(world.api.deleted), world.api.evicted) == ([(each, 1) for each in "abc"], [])


async def test_a_job_whose_pods_are_deleted_in_a_loop_is_stopped(world: World) -> None:
    """Whatever is ended, others terminate; that all of its pods were gone for a moment forgets nothing."""
    admitted_since(world, HOUR)
    for number in range(200):
        if world.api.evicted:
            break
        for name in list(world.pods):
            world.see(deleted(world, name), event="MODIFIED")
        if not number % 3:
            world.see(*map(pod, list(world.pods)), event="DELETED")
            assert world.guard._counted == {}
        world.see(*(pod(f"{each}{number}") for each in "abc"))
        await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]
    assert "again and again" in world.told.events[-1].message


async def test_pods_on_lost_nodes_stop_no_job(world: World) -> None:
    """They are replaced, and their kubelet never answers."""
    admitted_since(world, HOUR)
    world.see(*(deleted(world, each, 30) for each in "abc"), *map(pod, "def"))
    await world.after(2 * HOUR)
    assert (world.api.evicted, len(world.api.deleted) <= 3) == ([], True)


async def test_an_elastic_job_that_shrinks_leaves_no_pods_beside_those_of_others(world: World) -> None:
    admitted_since(world, 200)
    world.see(*map(pod, "abc"))
    raw = world.caches.workloads.get(Key("ns", world.workload))
    assert raw is not None
    world.change({"spec": {"podSets": [{**raw["spec"]["podSets"][0], "count": 1}]}})
    world.see(deleted(world, "b"), deleted(world, "c"))
    await world.after(10)
    world.at_rest()
    await world.after(20)
    assert (sorted(world.api.deleted), world.api.evicted) == ([("b", 1), ("c", 1)], [])


async def test_pods_that_nobody_controls_have_no_time_when_their_job_gives_up_its_quota(world: World) -> None:
    labels = {"batch.kubernetes.io/controller-uid": "job-uid"}
    world.see(pod("a"), pod("b", owner=None, labels=labels))
    world.condition("Finished")
    await world.after(SECOND)
    assert [name for name, _ in world.api.deleted if name == "a"] == []
    assert world.api.deleted[0] == ("b", None)


HOSTNAME = "kubernetes.io/hostname"


def assigned(world: World, **pods: int) -> None:
    """The Workload is admitted with so many pods on each of these nodes."""
    domains = tuple(TopologyDomain((name,), count) for name, count in pods.items())
    given = PodSetAssignment("main", {}, {"cpu": 3000}, 3, TopologyAssignment((HOSTNAME,), domains))
    raw = admitted(workload_of(job()), Admission("cq", (given,)))
    world.change({"status": {"admission": raw["status"]["admission"]}})


def nodes(world: World, *names: str, ready: bool = True, taints: Sequence[Raw] = ()) -> None:
    for name in names:
        world.version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(world.version), "labels": {HOSTNAME: name}}
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        spec = {"taints": list(taints)}
        world.caches.nodes.observe("ADDED", {"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}})


def on(name: str, node: str, **more: Any) -> Raw:
    """A pod of the job on a node."""
    return merged(pod(name, **more), {"spec": {"nodeName": node}})


@pytest.fixture
def topology(world: World) -> World:
    """Two pods are assigned to node x and one to y; z is a node, too."""
    nodes(world, "x", "y", "z")
    assigned(world, x=2, y=1)
    return world


async def test_pods_in_their_domains_cost_no_call(topology: World) -> None:
    topology.see(on("a", "x"), on("b", "x"), on("c", "y"))
    await topology.after(60)
    topology.at_rest()


async def test_a_pod_outside_of_its_domains_evicts_the_workload_within_a_second(topology: World) -> None:
    """Its template has lost the scheduling gate; the pods are within quota."""
    topology.see(on("a", "x"), on("b", "z"))
    await topology.after(SECOND)
    assert topology.api.evicted == [(topology.workload, "PodsWithoutQuota")]
    assert topology.api.deleted == []
    text = "Pods run outside of their topology assignment: 1 pod runs on z, none assigned"
    assert [each.message for each in topology.told.events] == [text]


async def test_more_pods_on_a_domain_than_assigned_evict_the_workload(topology: World) -> None:
    topology.see(on("a", "x"), on("b", "y"))
    await topology.after(SECOND)
    topology.at_rest()
    topology.see(on("c", "y"))
    await topology.after(SECOND)
    assert topology.api.evicted == [(topology.workload, "PodsWithoutQuota")]


async def test_pods_that_do_not_stop_outside_of_their_domains_are_deleted(topology: World) -> None:
    topology.see(on("a", "z"))
    await topology.after(STOPS_SECONDS + 2 * SECOND)
    assert topology.api.deleted[0] == ("a", None)


async def test_a_stray_outside_of_the_domains_is_deleted_alone(topology: World) -> None:
    topology.see(on("a", "x"), on("d", "z", owner=None, labels={"kueue.x-k8s.io/job-uid": "job-uid"}))
    await topology.after(SECOND)
    assert (topology.api.deleted, topology.api.evicted) == ([("d", None)], [])


async def test_a_pod_that_terminates_is_replaced_on_its_domain(topology: World) -> None:
    topology.see(on("a", "x"), on("b", "x"), on("c", "y"))
    leaving: Raw = {"deletionTimestamp": "2033-05-18T03:33:21Z", "deletionGracePeriodSeconds": 1}
    topology.see(on("c", "y", **leaving), on("d", "y"))
    await topology.after(SECOND)
    topology.at_rest()


async def test_pods_have_a_moment_to_leave_a_domain_that_was_replaced(topology: World) -> None:
    topology.see(on("a", "x"), on("c", "y"))
    await topology.after(SECOND)
    assigned(topology, x=2, z=1)
    await topology.after(LEAVES_SECONDS - SECOND)
    topology.see(on("c", "y"), event="DELETED")
    topology.see(on("d", "z"))
    await topology.after(60)
    topology.at_rest()


async def test_pods_on_a_node_that_is_gone_stop_no_job(topology: World) -> None:
    topology.see(on("a", "x"), on("b", "gone"))
    await topology.after(10)
    topology.at_rest()
    nodes(topology, "gone")  # it was only not known yet
    await topology.after(SWEEP_SECONDS)
    assert topology.api.evicted == [(topology.workload, "PodsWithoutQuota")]


async def test_pods_on_a_node_that_is_not_ready_have_until_it_is(topology: World) -> None:
    """Their domain was replaced, and Kubernetes deletes them only some minutes later."""
    topology.see(on("a", "x"), on("b", "y"))
    nodes(topology, "y", ready=False)
    assigned(topology, x=2, z=1)
    await topology.after(60)
    topology.at_rest()
    nodes(topology, "y")
    await topology.after(SWEEP_SECONDS)
    assert topology.api.evicted == [(topology.workload, "PodsWithoutQuota")]


@pytest.mark.parametrize("tolerates", [False, True])
async def test_pods_that_ran_before_a_taint_for_which_their_domain_is_replaced_at_once_stop_no_job(
    tolerates: bool,
) -> None:
    """TASReplaceNodeOnNodeTaints without TASReplaceNodeOnPodTermination: no taint that the pods tolerate replaces."""
    world = World(node_failures=FailureRules(on_termination=False))
    nodes(world, "x", "z")
    assigned(world, x=2, y=1)
    taint = {"key": "drained", "effect": "NoSchedule"}
    tolerations = {"tolerations": [{"operator": "Exists"}]} if tolerates else {}
    world.see(on("a", "x"), merged(on("b", "y"), {"spec": tolerations}))
    nodes(world, "y", taints=[taint])
    assigned(world, x=2, z=1)
    await world.after(LEAVES_SECONDS + 2 * SECOND)
    assert world.api.evicted == ([(world.workload, "PodsWithoutQuota")] if tolerates else [])


async def test_a_node_with_another_label_stops_no_job(topology: World) -> None:
    """The watch shows only the node; the list shows for which domain the pod was scheduled."""
    topology.see(merged(on("a", "z"), {"spec": {"nodeSelector": {HOSTNAME: "x"}}}))
    await topology.after(20)
    assert (topology.api.lists, topology.api.evicted) == (1, [])


async def test_pods_that_ran_before_their_workload_had_domains_are_found_by_the_next_sweep(world: World) -> None:
    nodes(world, "x", "z")
    world.see(on("a", "z"))
    assigned(world, x=3)
    await world.after(SECOND)
    world.at_rest()
    await sweep(world)
    await world.after(SECOND)
    assert world.api.evicted == [(world.workload, "PodsWithoutQuota")]


async def test_nodes_of_pods_are_not_kept_without_a_topology(world: World) -> None:
    world.see(on("a", "x"), on("b", "y"))
    assert [each.nodes for each in world.guard._counted.values()] == [{}]


async def test_nodes_of_pods_that_are_gone_are_not_kept(topology: World) -> None:
    topology.see(on("a", "x"), on("b", "x"))
    topology.see(on("a", "x"), event="DELETED")
    (counted,) = topology.guard._counted.values()
    assert counted.nodes == {"uid-b": "x"}


@pytest.mark.parametrize("deleted", [False, True], ids=["run", "terminate"])
async def test_pods_that_all_differ_are_not_counted_again_with_each_of_them(world: World, deleted: bool) -> None:
    """A tenant gives pods of its own the label of its job, and each another request."""
    label = {"kueue.x-k8s.io/job-uid": "job-uid"}
    ends = {"deletionTimestamp": stamp(world.now + 3000), "deletionGracePeriodSeconds": 3000} if deleted else {}
    others = [pod(f"p{number}", owner=None, cpu=f"{number}m", labels=label, **ends) for number in range(1, 1001)]
    world.see(*map(pod, "abc"))
    with (
        patch("core.guard.judge.totals", wraps=totals) as judged,
        patch("core.guard.overlap.totals", wraps=totals) as overlapped,
    ):
        world.see(*others)
        assert judged.call_count + overlapped.call_count < len(others)
        await world.after(SECOND)
        assert judged.call_count + overlapped.call_count < len(others)
    assert len(world.api.deleted) >= 100
