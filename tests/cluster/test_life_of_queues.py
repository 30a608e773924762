"""What can happen to queues and what they depend on while Jobs wait and run in them, on the real control plane: stopped
and drained; flavors, queues and cohorts created late, changed and deleted; namespaces relabelled; quota moved.

Reasons and messages are Kueue's: people and programs match on them.
"""

from __future__ import annotations

import pytest

from api.objects import Raw
from tests.cluster.world import World, condition, holds, job, of_flavor, ours, pod_of, quota, runs

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_queue_on_hold_admits_no_workload_and_lets_running_ones_finish(world: World, kind: str) -> None:
    world.queue("team", 2)
    world.job("before", "team", seconds=600)
    runs(world, "before")
    resource, name = world.either("team", kind)
    world.patch(resource, name, {"spec": {"stopPolicy": "Hold"}})
    world.until(
        "its status has the reason", lambda: condition(world.get(resource, name), "Active")[:2] == ("False", "Stopped")
    )
    world.job("meanwhile", "team", seconds=600)
    told = ("False", "Suspended", f"{kind} {name} is inactive")
    world.until("the next one waits", lambda: world.condition("meanwhile", "QuotaReserved") == told)
    assert world.running() == {"before"}
    world.patch(resource, name, {"spec": {"stopPolicy": "None"}})
    runs(world, "before", "meanwhile")
    assert not holds(world.workload("before"), "Evicted")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_drained_queue_stops_its_jobs_and_restarts_them_before_later_jobs(world: World, kind: str) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    runs(world, "job")
    resource, name = world.either("team", kind)
    world.patch(resource, name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.until("it is empty", lambda: not world.running() and world.used("team") == ("0", "0"))
    stopped = (f"{kind}Stopped", f"The {kind} is stopped")
    world.until("its quota is released", lambda: world.condition("job", "Requeued") == ("False", *stopped))
    assert world.condition("job", "Evicted") == ("True", *stopped)
    world.until("it waits", lambda: world.reason("job", "QuotaReserved") == "False/Suspended")
    world.outlive_second_of("job")
    world.job("meanwhile", "team", seconds=600)
    told = ("False", "Suspended", f"{kind} {name} is inactive")
    world.until("so does the next one", lambda: world.condition("meanwhile", "QuotaReserved") == told)
    assert not world.running()
    world.patch(resource, name, {"spec": {"stopPolicy": "None"}})
    turned_away = ("False", "WaitingForQuota")
    world.until(
        "the younger one is looked at", lambda: world.condition("meanwhile", "QuotaReserved")[:2] == turned_away
    )
    runs(world, "job")
    world.until(
        "it says why",
        lambda: (
            world.condition("job", "Requeued")
            == ("True", f"{kind}Restarted", f"The {kind} was restarted after being stopped")
        ),
    )


def test_a_relabelled_namespace_is_selected_or_no_longer_selected(world: World) -> None:
    world.queue("team", 2, namespaceSelector={"matchLabels": {"team": "a"}})
    world.job("first", "team", seconds=600)
    told = ("False", "Misconfigured", "workload namespace doesn't match ClusterQueue selector")
    world.until("it waits", lambda: world.condition("first", "QuotaReserved") == told)
    world.patch("namespaces", world.namespace, {"metadata": {"labels": {"team": "a"}}})
    runs(world, "first")
    world.patch("namespaces", world.namespace, {"metadata": {"labels": {"team": "b"}}})
    world.job("second", "team", seconds=600)
    world.until("the next one waits", lambda: world.condition("second", "QuotaReserved") == told)
    assert world.running() == {"first"}


def test_a_flavor_may_come_late_and_goes_only_when_no_queue_has_it_any_more(world: World) -> None:
    late = world.full("late")
    world.queue("team", 1, resourceGroups=[of_flavor(late, 1)])
    inactive = f"Can't admit new workloads: references missing ResourceFlavor(s): {late}."
    world.until(
        "the status of the queue has the reason", lambda: world.active("team") == ("False", "FlavorNotFound", inactive)
    )
    world.job("job", "team", seconds=600)
    told = ("False", "Suspended", f"ClusterQueue {world.full('team')} is inactive")
    world.until("it waits", lambda: world.condition("job", "QuotaReserved") == told)
    world.create(ours("ResourceFlavor", late, {"nodeLabels": {"kubernetes.io/os": "linux"}}))
    runs(world, "job")
    world.until("so does the queue", lambda: world.active("team") == ("True", "Ready", "Can admit new workloads"))

    world.patch("resourceflavors", late, {"spec": {"nodeLabels": {"kubernetes.io/arch": "amd64"}}})
    world.delete("resourceflavors", late)
    world.until("it is leaving", lambda: "deletionTimestamp" in world.get("resourceflavors", late)["metadata"])
    world.delete("clusterqueues", world.full("team"))
    world.until("the queue is leaving", lambda: world.active("team")[:2] == ("False", "Terminating"))
    assert world.running() == {"job"}
    assert world.get("resourceflavors", late), "a flavor in use has gone"
    world.delete("jobs", "job")
    world.until("the queue is gone", lambda: not world.get("clusterqueues", world.full("team")))
    world.until("the flavor is deleted", lambda: not world.get("resourceflavors", late))


def test_an_admission_check_in_use_is_gone_only_when_no_clusterqueue_asks_for_it(world: World) -> None:
    check = world.full("check")
    world.create(ours("AdmissionCheck", check, {"controllerName": "seiretsu.dev/test"}))
    strategy = {"admissionChecks": [{"name": check}]}
    world.queue("team", 1, admissionChecksStrategy=strategy)
    world.until("it is kept", lambda: world.get("admissionchecks", check)["metadata"].get("finalizers"))
    world.delete("admissionchecks", check)
    world.until("it is leaving", lambda: "deletionTimestamp" in world.get("admissionchecks", check)["metadata"])
    world.patch("clusterqueues", world.full("team"), {"spec": {"admissionChecksStrategy": None}})
    world.until("it is gone", lambda: not world.get("admissionchecks", check))


def test_a_changed_flavor_leaves_running_jobs_and_admits_those_that_waited_for_the_change(world: World) -> None:
    changed = world.full("changed")
    world.create(ours("ResourceFlavor", changed, {"nodeLabels": {"kubernetes.io/os": "linux"}}))
    world.queue("team", 2, resourceGroups=[of_flavor(changed, 2)])
    world.job("before", "team", seconds=600)
    runs(world, "before")
    wants = job("wants", "team", cpu=1, pods=1, seconds=600)
    wants["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/os": "plan9"}
    world.create(wants)
    world.until("it fits nowhere", lambda: world.reason("wants", "QuotaReserved") == "False/NoMatchingFlavor")
    generation = world.jobs()["before"]["metadata"]["generation"]
    toleration = {"key": "reserved", "operator": "Exists"}
    labels = {"kubernetes.io/os": "plan9"}
    world.patch("resourceflavors", changed, {"spec": {"nodeLabels": labels, "tolerations": [toleration]}})
    runs(world, "before", "wants")
    assert (pod_of(world, "wants")["nodeSelector"], pod_of(world, "wants")["tolerations"]) == (labels, [toleration])
    assert pod_of(world, "before")["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert world.jobs()["before"]["metadata"]["generation"] == generation, "it was stopped meanwhile"


def test_a_queue_may_change_its_flavors_under_a_job_that_runs(world: World) -> None:
    old, new = world.full("old"), world.full("new")
    world.create(ours("ResourceFlavor", old, {"nodeLabels": {"kubernetes.io/os": "linux"}}))
    world.create(ours("ResourceFlavor", new, {"nodeLabels": {"kubernetes.io/arch": "amd64"}}))
    world.queue("team", 2, resourceGroups=[of_flavor(old, 2)])
    wide = job("wide", "team", cpu=1, pods=3, seconds=600)
    wide["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    world.create(wide)
    runs(world, "wide")
    generation = world.jobs()["wide"]["metadata"]["generation"]
    world.patch("clusterqueues", world.full("team"), {"spec": {"resourceGroups": [of_flavor(new, 1)]}})
    world.delete("resourceflavors", old)
    world.until("the old flavor is gone", lambda: not world.get("resourceflavors", old))
    world.job("next", "team", seconds=600)
    runs(world, "wide", "next")
    assert pod_of(world, "next")["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert world.jobs()["wide"]["metadata"]["generation"] == generation, "it was stopped meanwhile"
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.until("its template is as it was", lambda: world.jobs()["wide"]["spec"]["parallelism"] == 3)
    assert "nodeSelector" not in pod_of(world, "wide")


def test_queues_may_come_after_their_jobs_and_go_before_them(world: World) -> None:
    world.job("early", "team", seconds=600)
    told = ("False", "Misconfigured", "LocalQueue team doesn't exist")
    world.until("it waits for its queue", lambda: world.condition("early", "QuotaReserved") == told)
    world.create(ours("LocalQueue", "team", {"clusterQueue": world.full("team")}))
    told = ("False", "Misconfigured", f"ClusterQueue {world.full('team')} doesn't exist")
    world.until("it waits for the ClusterQueue", lambda: world.condition("early", "QuotaReserved") == told)
    fields = {"namespaceSelector": {}, **quota(world, 1)["spec"]}
    world.create(ours("ClusterQueue", world.full("team"), fields))
    runs(world, "early")
    world.job("late", "team", seconds=600)
    world.until("the next one waits", lambda: world.reason("late", "QuotaReserved") == "False/WaitingForQuota")
    world.delete("localqueues", "team")
    told = ("False", "Misconfigured", "LocalQueue team doesn't exist")
    world.until("it has no queue any more", lambda: world.condition("late", "QuotaReserved") == told)
    assert world.running() == {"early"}


def test_an_idle_cluster_queue_is_deleted_immediately_and_waiting_workloads_say_so(
    world: World,
) -> None:
    world.queue("team", 0)
    world.job("job", "team", seconds=600)
    world.until("it waits", lambda: world.reason("job", "QuotaReserved") == "False/ExceedsMaxQuota")
    world.delete("clusterqueues", world.full("team"))
    world.until("the queue is gone", lambda: not world.get("clusterqueues", world.full("team")))
    told = ("False", "Misconfigured", f"ClusterQueue {world.full('team')} doesn't exist")
    world.until("its Workload has the reason", lambda: world.condition("job", "QuotaReserved") == told)
    world.create(ours("ClusterQueue", world.full("team"), {"namespaceSelector": {}, **quota(world, 1)["spec"]}))
    runs(world, "job")


def test_a_queue_that_leaves_its_cohort_keeps_what_it_borrowed_and_borrows_no_more(world: World) -> None:
    world.queue("team", 1, cohort=True)
    world.queue("other", 1, cohort=True)
    world.job("big", "team", cpu=2, seconds=600)
    world.until("it borrows", lambda: world.used("team") == ("2", "1"))
    world.job("theirs", "other", seconds=600)
    world.until("nothing is left", lambda: world.reason("theirs", "QuotaReserved") == "False/WaitingForQuota")
    world.patch("clusterqueues", world.full("team"), {"spec": {"cohortName": None}})
    runs(world, "big", "theirs")
    world.delete("jobs", "theirs")
    world.job("bigger", "team", cpu=2, seconds=600)
    world.delete("jobs", "big")
    world.until("it is too big now", lambda: world.reason("bigger", "QuotaReserved") == "False/ExceedsMaxQuota")
    assert not world.running()
    world.patch("clusterqueues", world.full("team"), {"spec": {"cohortName": world.namespace}})
    runs(world, "bigger")
    world.until("it borrows again", lambda: world.used("team") == ("2", "1"))


def test_a_cohort_may_come_late_change_and_go_without_disturbing_what_runs(world: World) -> None:
    world.queue("team", 1, cohort=True)
    world.job("big", "team", cpu=2, seconds=600)
    world.until("it is too big", lambda: world.reason("big", "QuotaReserved") == "False/ExceedsMaxQuota")
    shared = quota(world, 2)["spec"]
    world.create(ours("Cohort", world.namespace, shared))
    runs(world, "big")
    world.until("it borrows", lambda: world.used("team") == ("2", "1"))
    world.job("small", "team", seconds=600)
    runs(world, "big", "small")
    world.patch("cohorts", world.namespace, quota(world, 0))
    world.delete("jobs", "small")
    runs(world, "big")
    world.job("later", "team", seconds=600)
    world.until("nothing is left", lambda: world.reason("later", "QuotaReserved") == "False/WaitingForQuota")
    world.delete("cohorts", world.namespace)
    world.delete("jobs", "big")
    runs(world, "later")


def test_a_cycle_of_cohorts_stops_only_their_queues_until_it_is_resolved(world: World) -> None:
    world.queue("inside", 1, cohort=True)
    world.queue("outside", 1)
    above = world.full("above")
    world.create(ours("Cohort", world.namespace, {"parentName": above}))
    world.create(ours("Cohort", above, {"parentName": world.namespace}))
    world.until("its status has the reason", lambda: world.active("inside")[:2] == ("False", "CohortCycle"))
    world.job("in", "inside", seconds=600)
    world.job("out", "outside", seconds=600)
    runs(world, "out")
    world.until("the other one waits", lambda: world.reason("in", "QuotaReserved") == "False/Suspended")
    world.patch("cohorts", above, {"spec": {"parentName": None}})
    runs(world, "in", "out")


def test_lowered_quota_leaves_running_jobs_and_raised_quota_admits_the_next(world: World) -> None:
    world.queue("team", 2)
    for name in ("a", "b"):
        world.job(name, "team", seconds=600)
    runs(world, "a", "b")
    world.patch("clusterqueues", world.full("team"), quota(world, 1))
    world.job("c", "team", seconds=600)
    world.until("the next one waits", lambda: world.reason("c", "QuotaReserved") == "False/WaitingForQuota")
    world.until("more is used than there is", lambda: world.used("team") == ("2", "0"))
    assert world.running() == {"a", "b"}
    world.delete("jobs", "a")
    world.until("what is used fits again", lambda: world.used("team") == ("1", "0"))
    assert world.running() == {"b"}
    world.patch("clusterqueues", world.full("team"), quota(world, 2))
    runs(world, "b", "c")


def test_after_a_burst_of_jobs_statuses_of_queues_are_right_with_fewer_writes_than_jobs(world: World) -> None:
    """All are queued in one moment: how fast a machine creates Jobs must not matter."""
    world.queue("team", 5, stopPolicy="Hold")
    world.create(*(job(f"job-{number}", "team", cpu=1, pods=1, seconds=600) for number in range(40)))
    world.until("all are queued", lambda: len(world.workloads()) == 40)
    since = world.version("localqueues")
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "None"}})
    counts = {"pendingWorkloads": 35, "reservingWorkloads": 5, "admittedWorkloads": 5}

    def right(status: Raw) -> bool:
        return {name: status.get(name) for name in counts} == counts

    world.until("the ClusterQueue has the counts", lambda: right(world.status("team")))
    states = world.seen("localqueues", since, lambda found: right(found["status"]))
    assert len(states) < 40
    world.until("and the usage", lambda: world.used("team") == ("5", "0"))
