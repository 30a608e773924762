"""Who looks again when something changed."""

from typing import cast

from prometheus_client import CollectorRegistry

from controller import resources
from controller.events import Recorder
from controller.jobs import JobReconciler
from controller.metrics import Metrics
from controller.queues import QueueStatuses
from controller.scheduler import Scheduler
from controller.settings import Settings
from controller.wakes import Wakes
from controller.workloads import WorkloadReconciler
from controller.writes import Writer
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from tests.controller.test_caches import filled, made, workload


def connected() -> tuple[Wakes, QueueStatuses, WorkloadReconciler]:
    """Nobody writes in these tests: they look at the lines."""
    caches = filled()
    writer, recorder = cast(Writer, None), cast(Recorder, None)
    metrics = Metrics(CollectorRegistry())
    queues = QueueStatuses(caches, writer)
    workloads = WorkloadReconciler(caches, writer, recorder, metrics, Settings())
    wakes = Wakes(caches, Scheduler(caches, writer, recorder, metrics), workloads, queues, [])
    caches.start()
    return wakes, queues, workloads


def test_a_new_leader_looks_at_everything() -> None:
    wakes, queues, workloads = connected()
    for _ in wakes.everything():
        pass
    assert (len(queues.queue), len(workloads.queue)) == (3, 1), "a ClusterQueue, a LocalQueue, a flavor; a workload"


def test_a_new_leader_looks_at_jobs_that_went_while_nobody_led() -> None:
    caches = filled()
    writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), Metrics(CollectorRegistry())
    owned = workload("owned")
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "gone", "uid": "u", "controller": True}]
    caches.workloads.observe("ADDED", owned)
    caches.start()
    jobs = JobReconciler(BATCH_JOB, caches, writer, recorder, metrics, Settings())
    looked_after = WorkloadReconciler(caches, writer, recorder, metrics, Settings())
    scheduler = Scheduler(caches, writer, recorder, metrics)
    for _ in Wakes(caches, scheduler, looked_after, QueueStatuses(caches, writer), [jobs]).everything():
        pass
    assert len(jobs.queue) == 1


def test_a_reservation_that_came_to_nothing_is_told_by_the_queues_though_no_object_changed() -> None:
    wakes, queues, workloads = connected()
    wakes.taken_back(Key("ns", "w"))
    assert (len(queues.queue), len(workloads.queue)) == (2, 1)


def test_a_flavor_that_comes_late_wakes_the_queues_and_workloads_that_wait_for_it() -> None:
    wakes, _, workloads = connected()
    wakes.connect()
    changed = made("ResourceFlavor", "default", {"nodeLabels": {"a": "b"}})
    changed["metadata"]["resourceVersion"] = "2"
    wakes.caches.stores[resources.RESOURCE_FLAVORS].observe("MODIFIED", changed)
    assert workloads.queue.delayed == 1, "the scheduler has its say first"


def test_nothing_is_kept_of_a_workload_that_was_deleted() -> None:
    wakes, _, _ = connected()
    wakes.connect()
    wakes.scheduler._told_at[Key("ns", "w")] = 1.0
    wakes.caches.workloads.remove_from_write(("ns", "w"), "Workload-w")
    assert not wakes.scheduler._told_at
