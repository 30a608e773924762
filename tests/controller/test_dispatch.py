"""Which reconciler gets which key when an object changes."""

import itertools
from collections.abc import Callable
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from api import resources
from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.sweeps import Sweeps
from controller.cache.writes import Writer
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.jobs import JobReconciler
from controller.reconcilers.mirror import QueueMirror
from controller.reconcilers.pod_owners import PodOwnerReconciler
from controller.reconcilers.queues import QueueStatuses
from controller.reconcilers.workloads import WorkloadReconciler
from controller.run.dispatch import AT_ONCE, Dispatcher
from controller.run.watched import dispatch_of, rows
from controller.scheduling.scheduler import Scheduler
from controller.settings import ControllerSettings
from core.jobs.kinds import BATCH_JOB, POD
from core.jobs.pod_owners import LEADER_WORKER_SET, STATEFUL_SET
from core.model import Key, Raw
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy, Strategy
from core.state.drain import drain
from core.state.state import State
from tests.controller.test_caches import controlled_by, filled, made, workload
from tests.core.jobs.test_pod import pod
from tests.cost import times


def connected(caches: Caches | None = None) -> tuple[Dispatcher, QueueStatuses, WorkloadReconciler]:
    """Nobody writes in these tests: they look at the lines."""
    caches = caches or filled()
    writer, recorder = cast(Writer, None), cast(Recorder, None)
    metrics = QueueingMetrics(CollectorRegistry())
    queues = QueueStatuses(caches, writer)
    workloads = WorkloadReconciler(caches, writer, recorder, ControllerSettings())
    scheduler, mirror = Scheduler(caches, writer, recorder, metrics), QueueMirror(caches, writer)
    dispatcher = Dispatcher(caches, scheduler, workloads, queues, [], mirror)
    caches.start()
    return dispatcher, queues, workloads


def with_jobs(caches: Caches) -> Dispatcher:
    """As ``connected``, for Jobs."""
    writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry())
    looked_after = WorkloadReconciler(caches, writer, recorder, ControllerSettings())
    scheduler, mirror = Scheduler(caches, writer, recorder, metrics), QueueMirror(caches, writer)
    jobs = JobReconciler(BATCH_JOB, caches, writer, recorder, metrics, ControllerSettings())
    caches.start()
    return Dispatcher(caches, scheduler, looked_after, QueueStatuses(caches, writer), [jobs], mirror)


def test_a_new_leader_reconciles_everything() -> None:
    dispatcher, queues, workloads = connected()
    for _ in dispatcher.everything():
        pass
    assert (len(queues.queue), len(workloads.queue)) == (3, 1), "a ClusterQueue, a LocalQueue, a flavor; a workload"


@pytest.mark.parametrize(("group", "woken"), [("batch", 1), ("batch.volcano.sh", 0)])
def test_a_new_leader_reconciles_queued_jobs_that_were_deleted_without_a_leader(group: str, woken: int) -> None:
    caches = filled()
    writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry())
    caches.workloads.observe("ADDED", controlled_by(Owner(group, "Job", "ns", "gone"), "owned"))
    caches.start()
    jobs = JobReconciler(BATCH_JOB, caches, writer, recorder, metrics, ControllerSettings())
    looked_after = WorkloadReconciler(caches, writer, recorder, ControllerSettings())
    scheduler = Scheduler(caches, writer, recorder, metrics)
    queues, mirror = QueueStatuses(caches, writer), QueueMirror(caches, writer)
    for _ in Dispatcher(caches, scheduler, looked_after, queues, [jobs], mirror).everything():
        pass
    assert len(jobs.queue) == woken


@pytest.mark.parametrize("changed", ["Namespace", "PriorityClass", "WorkloadPriorityClass"])
def test_a_change_that_concerns_many_jobs_queues_them_in_steps(changed: str) -> None:
    caches, many = Caches(State(), table := rows([BATCH_JOB, POD])), 2 * AT_ONCE
    caches.namespaces.observe("ADDED", made("Namespace", "ns"))
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    for place in range(many):
        found = pod(name=f"p{place}", uid=f"p{place}", labels=labels)
        caches.stores[POD.resource].observe("ADDED", found)
    writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry())
    pods = JobReconciler(POD, caches, writer, recorder, metrics, ControllerSettings())
    jobs = JobReconciler(BATCH_JOB, caches, writer, recorder, metrics, ControllerSettings())
    looked_after, mirror = (
        WorkloadReconciler(caches, writer, recorder, ControllerSettings()),
        QueueMirror(caches, writer),
    )
    scheduler, queues = Scheduler(caches, writer, recorder, metrics), QueueStatuses(caches, writer)
    caches.start()
    Dispatcher(caches, scheduler, looked_after, queues, [jobs, pods], mirror).connect(dispatch_of(table))
    sweeps = Sweeps()
    caches.in_steps = sweeps.add
    if changed == "Namespace":
        after = made("Namespace", "ns")
        after["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "2"}
        caches.namespaces.observe("MODIFIED", after)
    elif changed == "PriorityClass":
        caches.priority_classes.observe("ADDED", made("PriorityClass", "low", value=1))
    else:
        caches.workload_priority_classes.observe("ADDED", made("WorkloadPriorityClass", "high", value=1))
    assert (len(sweeps), len(pods.queue)) == (1, 0)
    assert [len(pods.queue) for _ in iter(sweeps.step, False)] == [AT_ONCE, many, many]


def test_many_namespaces_that_are_relabelled_together_cost_one_walk_through_the_jobs() -> None:
    caches = Caches(State(), table := rows([BATCH_JOB]))
    for number in range(3):
        caches.namespaces.observe("ADDED", made("Namespace", f"ns{number}"))
        job = made("Job", "j", namespace=f"ns{number}")
        caches.stores[BATCH_JOB.resource].observe("ADDED", {**job, "apiVersion": "batch/v1"})
    jobs, sweeps = with_jobs(caches), Sweeps()
    jobs.connect(dispatch_of(table))
    caches.in_steps = sweeps.add
    for name in ("ns0", "ns1", "ns0"):
        after = made("Namespace", name)
        after["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "2"}
        caches.namespaces.observe("MODIFIED", after)
    assert len(sweeps) == 1
    while sweeps.step():
        pass
    (reconciler,) = jobs.jobs.values()
    assert len(reconciler.queue) == 2


@pytest.mark.parametrize("below", ["owner", "prebuilt"])
def test_jobs_below_one_object_are_queued_in_steps_if_they_are_many(below: str) -> None:
    """Users decide how many jobs they put below one object, or have name one Workload."""
    caches, many = Caches(State(), rows([BATCH_JOB])), 2 * AT_ONCE
    above = Owner("batch", "Job", "ns", "above")
    for number in range(many):
        job = {**made("Job", f"j{number}", namespace="ns"), "apiVersion": "batch/v1"}
        if below == "owner":
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": "u", "controller": True}
            job["metadata"]["ownerReferences"] = [reference]
        else:
            job["metadata"]["labels"] = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}
        caches.stores[BATCH_JOB.resource].observe("ADDED", job)
    dispatcher, sweeps = with_jobs(caches), Sweeps()
    caches.in_steps = sweeps.add
    (reconciler,) = dispatcher.jobs.values()
    if below == "owner":
        dispatcher.jobs_below(above)
    else:
        dispatcher.workload(None, workload("w"))
    assert len(reconciler.queue) == AT_ONCE
    while sweeps.step():
        pass
    assert len(reconciler.queue) == many


@pytest.mark.parametrize("edited", [resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.RESOURCE_FLAVORS])
def test_an_edit_that_concerns_many_workloads_queues_them_in_steps(edited: Resource) -> None:
    """All at once would hold up admission calls: 0.05 s of CPU for 10,000."""
    caches, many = filled(), 2 * AT_ONCE
    for place in range(many):
        caches.workloads.observe("ADDED", workload(f"w{place}"))
    dispatcher, _, workloads = connected(caches)
    dispatcher.connect(dispatch_of(rows([])))
    sweeps = Sweeps()
    caches.in_steps = sweeps.add
    (found,) = caches.stores[edited]
    caches.stores[edited].observe("MODIFIED", newer({**found, "spec": {**found["spec"], "stopPolicy": "Hold"}}))
    assert workloads.queue.delayed == 0
    assert sum(1 for _ in iter(sweeps.step, False)) >= many // AT_ONCE
    assert workloads.queue.delayed == many + 1


def test_a_deleted_pod_wakes_the_set_whose_quota_it_used() -> None:
    caches = Caches(State(), rows([POD], [STATEFUL_SET]))
    writer, recorder, metrics = cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry())
    jobs = JobReconciler(POD, caches, writer, recorder, metrics, ControllerSettings())
    sets = PodOwnerReconciler(STATEFUL_SET, caches, writer, recorder, ControllerSettings())
    looked_after = WorkloadReconciler(caches, writer, recorder, ControllerSettings())
    scheduler = Scheduler(caches, writer, recorder, metrics)
    queues, mirror = QueueStatuses(caches, writer), QueueMirror(caches, writer)
    found = pod(name="s-0", ownerReferences=[{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}])
    found["metadata"]["ownerReferences"][0]["controller"] = True
    caches.stores[POD.resource].observe("ADDED", found)
    caches.start()
    dispatcher = Dispatcher(caches, scheduler, looked_after, queues, [jobs], mirror, [sets])
    dispatcher.connect(dispatch_of(rows([POD], [STATEFUL_SET])))
    assert len(sets.queue) == 0
    caches.stores[POD.resource].observe("DELETED", found)
    assert len(sets.queue) == 1


@pytest.mark.parametrize(("groups", "at_once"), [(3, True), (2000, False)])
async def test_a_set_with_thousands_of_groups_is_considered_once_for_many_changes(groups: int, at_once: bool) -> None:
    """Each group that changes is a change of the set, and each look at it is at all groups."""
    caches = Caches(State(), rows([POD], [LEADER_WORKER_SET]))
    sets = PodOwnerReconciler(LEADER_WORKER_SET, caches, cast(Writer, None), cast(Recorder, None), ControllerSettings())
    found = made("LeaderWorkerSet", "l", {"replicas": groups})
    found["metadata"] |= {"namespace": "ns", "resourceVersion": "1", "uid": "u"}
    caches.stores[LEADER_WORKER_SET.resource].observe("ADDED", found)
    for _ in range(3):
        sets.changed(Key("ns", "l"))
    assert (len(sets.queue), sets.queue.delayed) == ((1, 0) if at_once else (0, 1))
    sets.queue.close()


def test_a_withdrawn_reservation_updates_the_queue_statuses_although_no_object_changed() -> None:
    dispatcher, queues, workloads = connected()
    dispatcher.taken_back(Key("ns", "w"))
    assert (len(queues.queue), len(workloads.queue)) == (2, 1)


def test_a_flavor_that_comes_late_wakes_the_queues_and_workloads_that_wait_for_it() -> None:
    dispatcher, _, workloads = connected()
    dispatcher.connect(dispatch_of(rows([])))
    changed = made("ResourceFlavor", "default", {"nodeLabels": {"a": "b"}})
    changed["metadata"]["resourceVersion"] = "2"
    dispatcher.caches.stores[resources.RESOURCE_FLAVORS].observe("MODIFIED", changed)
    assert workloads.queue.delayed == 1, "the scheduler has its say first"


@pytest.mark.parametrize("checks", [[], None], ids=["it asks for others", "it is deleted"])
def test_an_admission_check_is_reconciled_when_a_clusterqueue_no_longer_uses_it(
    checks: list[Raw] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = neighbours(State())
    spec = {**SPEC, "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
    caches.cluster_queues.observe("ADDED", made("ClusterQueue", "user", spec))
    dispatcher, queues, _ = connected(caches)
    dispatcher.connect(dispatch_of(rows([])))
    looked: list[object] = []
    monkeypatch.setattr(queues, "changed", lambda resource, key: looked.append((resource, key)))
    without = made("ClusterQueue", "user", {**SPEC, "admissionChecksStrategy": {"admissionChecks": checks}})
    without["metadata"]["resourceVersion"] = "2"
    caches.cluster_queues.observe("DELETED" if checks is None else "MODIFIED", without)
    assert (resources.ADMISSION_CHECKS, Key("", "check")) in looked


@pytest.mark.parametrize("event", ["ADDED", "MODIFIED", "DELETED"])
def test_a_topology_wakes_the_queues_with_a_flavor_that_names_it(event: str) -> None:
    caches = neighbours(State())
    flavor, topology = made("ResourceFlavor", "default", {"topologyName": "racks"}), made("Topology", "racks")
    caches.stores[resources.RESOURCE_FLAVORS].observe("MODIFIED", newer(flavor))
    if event != "ADDED":
        caches.stores[resources.TOPOLOGIES].observe("ADDED", topology)
    dispatcher, queues, _ = connected(caches)
    dispatcher.connect(dispatch_of(rows([])))
    caches.stores[resources.TOPOLOGIES].observe(event, newer({**topology, "spec": {"levels": [{"nodeLabel": "rack"}]}}))
    looked = {(kind, name) for kind, name in woken(queues) if kind in ("ClusterQueue", "Topology")}
    assert looked == {("Topology", "racks"), ("ClusterQueue", "ours"), ("ClusterQueue", "theirs")}


def test_a_topology_is_reconciled_when_no_flavor_names_it_any_more() -> None:
    caches = neighbours(State())
    flavor = newer(made("ResourceFlavor", "default", {"topologyName": "racks"}))
    caches.stores[resources.RESOURCE_FLAVORS].observe("MODIFIED", flavor)
    dispatcher, queues, _ = connected(caches)
    dispatcher.connect(dispatch_of(rows([])))
    caches.stores[resources.RESOURCE_FLAVORS].observe("DELETED", newer(flavor, "3"))
    assert ("Topology", "racks") in woken(queues)


def test_nothing_is_kept_of_a_workload_that_was_deleted() -> None:
    dispatcher, _, _ = connected()
    dispatcher.connect(dispatch_of(rows([])))
    dispatcher.scheduler.reasons._written_at[Key("ns", "w")] = 1.0
    dispatcher.caches.workloads.remove_from_write(("ns", "w"), "Workload-w")
    assert not dispatcher.scheduler.reasons._written_at


READY = {"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads"}
FLAVORS = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
SPEC = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": FLAVORS}]}


def neighbours(state: State) -> Caches:
    """Two ClusterQueues in cohorts of different trees, each with a LocalQueue; every key is recorded."""
    caches = Caches(state, rows([BATCH_JOB]))
    caches.stores[resources.RESOURCE_FLAVORS].observe("ADDED", made("ResourceFlavor", "default"))
    caches.namespaces.observe("ADDED", made("Namespace", "ns"))
    for name in ("ours", "theirs"):
        caches.cohorts.observe("ADDED", made("Cohort", f"{name}-team", {"parentName": f"{name}-root"}))
        spec = {**SPEC, "cohortName": f"{name}-team"}
        caches.cluster_queues.observe("ADDED", made("ClusterQueue", name, spec, status={"conditions": [READY]}))
        caches.local_queues.observe("ADDED", made("LocalQueue", name, {"clusterQueue": name}, namespace="ns"))
    return caches


def waits(queue: str, message: str = "", version: str = "1") -> Raw:
    found = workload("waits", cpu="9")
    found["spec"]["queueName"] = queue
    found["metadata"]["resourceVersion"] = version
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "ExceedsMaxQuota", "message": message}
    return {**found, "status": {"conditions": [reserved]}}


def newer(raw: Raw, version: str = "2") -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}}


def woken(queues: QueueStatuses) -> set[tuple[str, str]]:
    """Kinds and names of the objects whose status is reconciled."""
    return {(resource.kind, key.name) for resource, key in queues.queue}


def test_a_cohort_that_changes_refreshes_no_status_of_a_clusterqueue_that_it_does_not_change() -> None:
    """Else what is shown of a stopped LocalQueue's workloads would depend on who is busy in other trees."""
    dispatcher, queues, _ = connected(neighbours(State()))
    dispatcher.connect(dispatch_of(rows([])))
    quota = {"parentName": "theirs-root", "resourceGroups": SPEC["resourceGroups"]}
    dispatcher.caches.cohorts.observe("MODIFIED", newer(made("Cohort", "theirs-team", quota)))
    dispatcher.caches.cohorts.observe("ADDED", made("Cohort", "ours-root", {}))
    assert woken(queues) == {("Cohort", "theirs-team"), ("Cohort", "ours-root")}


def test_a_cycle_of_cohorts_updates_the_statuses_of_its_queues_only() -> None:
    dispatcher, queues, _ = connected(neighbours(State()))
    dispatcher.connect(dispatch_of(rows([])))
    dispatcher.caches.cohorts.observe("ADDED", made("Cohort", "ours-root", {"parentName": "ours-team"}))
    assert woken(queues) == {("Cohort", "ours-root"), ("ClusterQueue", "ours"), ("LocalQueue", "ours")}


def test_with_fair_sharing_a_cohort_that_changes_refreshes_the_shares_in_the_trees_it_leaves_and_enters() -> None:
    dispatcher, queues, _ = connected(neighbours(State(SchedulingPolicy(fair_sharing=tuple(Strategy)))))
    dispatcher.connect(dispatch_of(rows([])))
    dispatcher.caches.cohorts.observe("MODIFIED", newer(made("Cohort", "ours-team", {"fairSharing": {"weight": "2"}})))
    assert ("ClusterQueue", "ours") in woken(queues)
    assert ("ClusterQueue", "theirs") not in woken(queues)


@pytest.mark.parametrize("end", ["deleted", "withdrawn"])
def test_a_reservation_that_no_object_has_shown_frees_its_clusterqueue_also_without_the_localqueue(end: str) -> None:
    """Else the ClusterQueue would report it, and keep its finalizer, until the next restart."""
    dispatcher, queues, _ = connected(neighbours(State()))
    caches, key = dispatcher.caches, Key("ns", "w")
    pending = workload("w")
    pending["spec"]["queueName"] = "ours"
    caches.workloads.observe("ADDED", pending)
    for _ in drain(caches.state, caches.state.policy, 0.0):
        pass
    dispatcher.connect(dispatch_of(rows([])))
    assert caches.state.assumed(key)
    caches.local_queues.observe("DELETED", newer(made("LocalQueue", "ours", {"clusterQueue": "ours"}, namespace="ns")))
    assert ("ClusterQueue", "ours") not in woken(queues)
    if end == "deleted":
        caches.workloads.observe("DELETED", newer(pending))
    else:
        caches.state.unassume(key)
        dispatcher.taken_back(key)
    assert ("ClusterQueue", "ours") in woken(queues)


def test_a_localqueue_that_is_stopped_or_runs_again_leaves_the_clusterqueues_count_until_a_workload_changes() -> None:
    dispatcher, queues, _ = connected(neighbours(State()))
    dispatcher.caches.workloads.observe("ADDED", waits("ours"))
    dispatcher.connect(dispatch_of(rows([])))
    stopped = {"clusterQueue": "ours", "stopPolicy": "Hold"}
    dispatcher.caches.local_queues.observe("MODIFIED", newer(made("LocalQueue", "ours", stopped, namespace="ns")))
    dispatcher.caches.workloads.observe("MODIFIED", waits("ours", "told once more", "2"))
    assert woken(queues) == {("LocalQueue", "ours")}
    again = made("LocalQueue", "ours", {"clusterQueue": "ours"}, namespace="ns")
    dispatcher.caches.local_queues.observe("MODIFIED", newer(again, "3"))
    assert woken(queues) == {("LocalQueue", "ours")}
    dispatcher.caches.workloads.observe("MODIFIED", waits("ours", "told once more", "3"))
    assert woken(queues) == {("LocalQueue", "ours"), ("ClusterQueue", "ours")}


def test_a_flavor_that_is_respecified_changes_no_status_and_one_that_goes_does() -> None:
    dispatcher, queues, _ = connected(neighbours(State()))
    dispatcher.connect(dispatch_of(rows([])))
    flavor = made("ResourceFlavor", "default", {"nodeLabels": {"a": "b"}})
    dispatcher.caches.stores[resources.RESOURCE_FLAVORS].observe("MODIFIED", newer(flavor))
    assert woken(queues) == {("ResourceFlavor", "default")}
    dispatcher.caches.stores[resources.RESOURCE_FLAVORS].observe("DELETED", newer(flavor, "3"))
    assert {("ClusterQueue", "ours"), ("LocalQueue", "ours")} <= woken(queues)


POLICIES = ("None", "Hold")


def changing(resource: Resource, others: int) -> Callable[[], None]:
    """Changes one object in a cluster of so many other queues, ten times, and computes the statuses of that queue."""
    caches = neighbours(State())
    for number in range(others):
        name, spec = f"other-{number}", {**SPEC, "cohortName": f"cohort-{number % (others // 10)}"}
        caches.cluster_queues.observe("ADDED", made("ClusterQueue", name, spec, status={"conditions": [READY]}))
        caches.local_queues.observe("ADDED", made("LocalQueue", name, {"clusterQueue": name}, namespace="ns"))
    caches.workloads.observe("ADDED", waits("ours"))
    dispatcher, queues, _ = connected(caches)
    dispatcher.connect(dispatch_of(rows([])))
    store, versions = caches.stores[resource], itertools.count(2)
    (changed,) = (raw for raw in store if raw["metadata"]["name"] in ("ours", "waits"))

    def change() -> None:
        for _ in range(10):
            version = next(versions)
            field = {"priority": version} if resource == resources.WORKLOADS else {"stopPolicy": POLICIES[version % 2]}
            store.observe("MODIFIED", newer({**changed, "spec": {**changed["spec"], **field}}, str(version)))
            queues._patch((resources.CLUSTER_QUEUES, Key("", "ours")))
            queues._patch((resources.LOCAL_QUEUES, Key("ns", "ours")))

    return change


@pytest.mark.parametrize("resource", [resources.WORKLOADS, resources.LOCAL_QUEUES, resources.CLUSTER_QUEUES])
def test_a_change_of_one_queue_costs_the_same_however_many_others_there_are(resource: Resource) -> None:
    few, many = times(changing(resource, 20), changing(resource, 2_000))
    assert many < 4 * few, f"{many * 1000:.2f} ms among 2,000 queues, {few * 1000:.2f} ms among 20"
