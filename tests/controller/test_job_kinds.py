"""Jobs that consist of objects of other kinds: which job owns an object, and which is reconciled when one changes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.owners import Owners
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.jobs import JobReconciler
from controller.reconcilers.mirror import QueueMirror
from controller.reconcilers.queues import QueueStatuses
from controller.reconcilers.workloads import WorkloadReconciler
from controller.run.dispatch import Dispatcher
from controller.run.watched import dispatch_of, rows
from controller.scheduling.scheduler import Scheduler
from controller.settings import ControllerSettings
from core.actions import Delete, Wait
from core.jobs import workload
from core.jobs.actions import AwaitPods, CreateWorkload, Problem, Start, Stop
from core.jobs.decide import decide
from core.jobs.kind import JobKind
from core.jobs.kinds import BATCH_JOB, JOB_SET, POD
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.release import awaits_pods
from core.model import Admission, Key, PodSetAssignment, Raw
from core.model.owner import Level, Owner, reference
from core.state.state import State
from core.workload import transitions
from tests.controller.test_caches import controlled_by, made
from tests.core.jobs.samples import FLAVORS, job, read, with_status
from tests.core.jobs.test_jobset import job_set
from tests.core.jobs.test_pod import pod

JOBS, SETS = BATCH_JOB.resource, JOB_SET.resource
KEY = Key("ns", "set")
ADMISSION = Admission(
    "cq",
    (PodSetAssignment("driver", {"cpu": "spot"}, {}, 1), PodSetAssignment("workers", {"cpu": "spot"}, {}, 6)),
)


class World:
    """A JobSet that is queued, and the reconcilers of the kinds that are enabled."""

    def __init__(self, *kinds: JobKind, external: tuple[str, ...] = ()) -> None:
        self.caches = Caches(State(), table := rows(kinds))
        self.caches.namespaces.observe("ADDED", made("Namespace", "ns"))
        if JOB_SET in kinds:
            self.caches.stores[SETS].observe("ADDED", queued_set())
        self.caches.start()
        writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry())
        settings = ControllerSettings(frameworks=tuple(kind.framework for kind in kinds), external_frameworks=external)
        common = (self.caches, writer, recorder)
        self.owners = Owners(self.caches)
        self.jobs = {kind: JobReconciler(kind, *common, metrics, settings, owners=self.owners) for kind in kinds}
        rest = (WorkloadReconciler(*common, settings), QueueStatuses(self.caches, writer), [*self.jobs.values()])
        scheduler, mirror = Scheduler(*common, metrics), QueueMirror(self.caches, writer)
        Dispatcher(self.caches, scheduler, *rest, mirror, owners=self.owners).connect(dispatch_of(table))

    def admit(self, *, admitted: bool) -> Raw:
        raw = workload.manifest(JOB_SET, queued_set(), {"spec": {"priority": 0}})
        raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
        if admitted:
            raw = with_status(raw, read(raw), transitions.reserved(read(raw), ADMISSION, 1.0))
        self.caches.workloads.observe("ADDED", raw)
        return raw

    def decided(self, kind: JobKind, found: Raw) -> Any:
        return decide(self.jobs[kind]._situation(key_of(found), found))


def queued_set() -> Raw:
    return job_set(labels={"kueue.x-k8s.io/queue-name": "lq"})


def child(name: str, *, suspend: bool, of: Raw | None = None, **template: Any) -> Raw:
    """A Job of the JobSet, or of another Job; queued by itself if nothing above it is."""
    found, above = job(suspend=suspend), of or job_set()
    owner = {"apiVersion": above.get("apiVersion", "batch/v1"), "kind": above.get("kind", "Job"), "controller": True}
    metadata = above["metadata"]
    found["metadata"] |= {"name": name, "uid": f"{name}-uid"}
    found["metadata"]["ownerReferences"] = [{**owner, "name": metadata["name"], "uid": metadata["uid"]}]
    found["spec"]["template"]["metadata"] |= template
    return found


@pytest.mark.parametrize("suspend", [True, False], ids=["suspended", "running"])
@pytest.mark.parametrize("admitted", [True, False, None], ids=["admitted", "waiting", "without Workload yet"])
def test_a_job_of_a_jobset_follows_it_and_is_started_by_its_controller(admitted: bool | None, suspend: bool) -> None:
    world = World(BATCH_JOB, JOB_SET)
    if admitted is not None:
        world.admit(admitted=admitted)
    found = child("set-driver-0", suspend=suspend)
    action = world.decided(BATCH_JOB, found)
    assert isinstance(action, Stop if not suspend and not admitted else Wait)


def test_a_job_below_a_job_of_a_jobset_follows_that_jobset_and_is_started_by_the_controller() -> None:
    world = World(BATCH_JOB, JOB_SET)
    world.admit(admitted=True)
    above = child("set-driver-0", suspend=False)
    world.caches.stores[JOBS].observe("ADDED", above)
    assert isinstance(world.decided(BATCH_JOB, child("below", suspend=True, of=above)), Start)


@pytest.mark.parametrize("suspend", [True, False], ids=["suspended", "running"])
def test_a_job_of_a_jobset_that_is_not_enabled_is_queued_by_itself_when_its_owner_was_read(suspend: bool) -> None:
    found = child("set-driver-0", suspend=suspend)
    alone = World(BATCH_JOB).decided(BATCH_JOB, found)
    assert isinstance(alone, CreateWorkload if suspend else Stop), "nothing above a JobSet can be queued"
    world = World(BATCH_JOB, TRAIN_JOB)
    assert world.decided(BATCH_JOB, found) == Wait(), "an owner of the JobSet may be queued instead"
    above = reference(found)
    assert above is not None
    world.owners._read["ns", above] = Level(above.uid, named=True)
    assert isinstance(world.decided(BATCH_JOB, found), CreateWorkload if suspend else Stop)


class JobsOf:
    """An API server that has one Job of the JobSet."""

    async def get(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> Raw:
        return child("set-driver-0", suspend=False)


async def test_a_pod_below_a_jobset_is_not_queued_when_its_job_is_not_watched() -> None:
    world = World(JOB_SET, POD)
    world.owners.client = cast(Client, JobsOf())
    raw = world.admit(admitted=True)
    between = {"apiVersion": "batch/v1", "kind": "Job", "name": "set-driver-0", "uid": "set-driver-0-uid"}
    found = pod(ownerReferences=[{**between, "controller": True}])
    world.caches.stores[POD.resource].observe("ADDED", found)
    assert world.decided(POD, found) == Wait(), "the Job may be below a queued object"
    above = reference(found)
    assert above is not None
    await world.owners._learn(("ns", above))
    assert isinstance(world.decided(POD, found), Start)
    pods = world.jobs[POD].queue
    pods.drop()
    world.caches.workloads.observe("DELETED", raw)
    assert list(pods) == [key_of(found)], "it follows the JobSet"
    assert world.decided(POD, found) == Wait()


def test_a_pod_of_an_external_framework_follows_the_workload_of_its_owner() -> None:
    world = World(POD, external=("Wrapper.v1.example.com",))
    wrapper = {"apiVersion": "example.com/v1", "kind": "Wrapper", "name": "w", "uid": "w-uid", "controller": True}
    found = pod(ownerReferences=[wrapper])
    world.caches.stores[POD.resource].observe("ADDED", found)
    assert isinstance(world.decided(POD, found), CreateWorkload), "its owner has no Workload"
    raw = controlled_by(Owner("example.com", "Wrapper", "ns", "w"), "of-wrapper")
    raw["metadata"]["ownerReferences"][0]["uid"] = "w-uid"
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": "w-uid"}
    world.jobs[POD].queue.drop()
    world.caches.workloads.observe("ADDED", raw)
    assert world.decided(POD, found) == Wait()
    assert list(world.jobs[POD].queue) == [key_of(found)]


def test_owners_that_own_each_other_are_reported_and_nothing_is_done() -> None:
    world = World(BATCH_JOB, JOB_SET)
    above = queued_set()
    above["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "set-driver-0-uid", "controller": True}
    ]
    above["metadata"]["resourceVersion"] = "99"
    world.caches.stores[SETS].observe("MODIFIED", above)
    action = world.decided(BATCH_JOB, child("set-driver-0", suspend=True))
    assert isinstance(action, Problem)
    assert (action.reason, action.message) == (
        "JobNestingTooDeep",
        'Job "x" owns itself through other objects: remove an owner reference',
    )


@pytest.mark.parametrize("kinds", [(BATCH_JOB, JOB_SET), (JOB_SET,)], ids=["both enabled", "JobSets alone"])
def test_a_jobset_is_reconciled_when_one_of_its_jobs_changes(kinds: tuple[JobKind, ...]) -> None:
    world = World(*kinds)
    assert len(world.jobs[JOB_SET].queue) == 0
    world.caches.stores[JOBS].observe("ADDED", child("set-driver-0", suspend=True))
    assert list(world.jobs[JOB_SET].queue) == [KEY]
    world.caches.stores[JOBS].observe("ADDED", job())
    assert list(world.jobs[JOB_SET].queue) == [KEY], "one that belongs to no JobSet matters to none"


@pytest.mark.parametrize("kinds", [(BATCH_JOB, JOB_SET), (JOB_SET,)], ids=["both enabled", "JobSets alone"])
def test_a_jobset_starts_without_the_jobs_of_its_earlier_start(kinds: tuple[JobKind, ...]) -> None:
    world = World(*kinds)
    world.admit(admitted=True)
    world.caches.flavors.update(FLAVORS)
    mark = {"annotations": {"kueue.x-k8s.io/workload": "jobset-set-1"}}
    for each in (child("set-driver-0", suspend=True, **mark), child("set-workers-0", suspend=True), job()):
        world.caches.stores[JOBS].observe("ADDED", each)
    action = world.decided(JOB_SET, queued_set())
    assert isinstance(action, Start)
    deleted = [write for write in action.steps if isinstance(write, Delete)]
    assert [(write.uid, write.target and write.target.key) for write in deleted] == [
        ("set-driver-0-uid", Key("ns", "set-driver-0"))
    ]


@pytest.mark.parametrize("owned", [True, False], ids=["with its owner reference", "orphaned"])
def test_pods_of_a_deleted_jobset_are_found_by_the_label_that_jobset_gives_them(owned: bool) -> None:
    raw = World(JOB_SET).admit(admitted=True)
    if not owned:
        raw["metadata"]["ownerReferences"] = []
    waits = awaits_pods(raw, read(raw), ())
    assert waits == AwaitPods(key_of(raw), "set-uid", "jobset.sigs.k8s.io/jobset-uid")
