"""MultiKueue on three real control planes: a manager, in which nothing runs, and two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.objects import Raw
from tests.cluster.fleet import Fleet, fleet
from tests.cluster.world import World, done, job, of_flavor

pytestmark = pytest.mark.cluster

MANAGED = "kueue.x-k8s.io/multikueue"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        yield made


def managed(name: str, queue: str, **more: object) -> Raw:
    made = job(name, queue, **({"cpu": 1, "pods": 1, "seconds": 1.0} | more))  # type: ignore[arg-type]
    made["spec"]["managedBy"] = MANAGED
    return made


def copies(worker: World) -> list[Raw]:
    """The Workloads of the namespace in a worker."""
    found: list[Raw] = worker.get("workloads").get("items", [])
    return found


def test_a_job_runs_in_one_worker_and_its_status_comes_back(clusters: Fleet) -> None:
    here = clusters.manager
    here.until("both workers are connected", lambda: all(clusters.active(f"worker{n}")[0] == "True" for n in (1, 2)))
    clusters.queue("slice")
    here.create(managed("one", "slice"))
    here.until("it is done here", lambda: done(here.jobs()["one"]))
    assert here.condition("one", "Finished")[:2] == ("True", "Succeeded")
    assert here.jobs()["one"]["status"]["succeeded"] == 1
    here.until("the workers have no copy", lambda: not any(map(copies, clusters.workers)))
    here.until("nor a job", lambda: clusters.where("one") == [])


def test_the_webhook_leaves_a_job_of_such_a_queue_to_the_workers(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("defaulted")
    here.job("left", "defaulted")
    assert here.jobs()["left"]["spec"]["managedBy"] == MANAGED
    here.until("it is done", lambda: done(here.jobs()["left"]))


def test_the_worker_with_room_runs_the_job_and_the_other_loses_its_copy(clusters: Fleet) -> None:
    here, (full, free) = clusters.manager, clusters.workers
    clusters.queue("room", there=(1, 8))
    here.create(managed("wide", "room", cpu=2, seconds=600.0))
    here.until("it runs in the second worker", lambda: clusters.where("wide") == ["worker2"])
    here.until("the first has no copy", lambda: not copies(full))
    workload = here.workload("wide")
    assert workload["status"]["clusterName"] == "worker2"
    assert "nominatedClusterNames" not in workload["status"]
    (check,) = workload["status"]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", 'The workload was admitted on "worker2"')
    here.until("its status is shown", lambda: here.jobs()["wide"].get("status", {}).get("active") == 1)
    here.until("and it is started here", lambda: not here.jobs()["wide"]["spec"]["suspend"])
    (copy,) = copies(free)
    assert copy["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    here.delete("jobs", "wide")
    here.until("nothing is left of it", lambda: not free.jobs() and not copies(free))
    here.until("nor here", lambda: "wide" not in here.jobs() and not here.workload("wide"))


def test_a_job_that_its_worker_evicts_runs_in_the_other_one(clusters: Fleet) -> None:
    here, (one, other) = clusters.manager, clusters.workers
    clusters.queue("moves", there=(8, 1))
    here.create(managed("moved", "moves", cpu=2, seconds=600.0))
    here.until("it runs in the first worker", lambda: clusters.where("moved") == ["worker1"])
    spec = {"resourceGroups": [of_flavor(here.full("moves"), 8)]}
    other.patch("clusterqueues", here.full("moves"), {"spec": spec})
    one.patch("clusterqueues", here.full("moves"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    here.until("it runs in the second worker", lambda: clusters.where("moved") == ["worker2"])
    assert "EvictedDueToAdmissionCheck" in here.events("Workload", here.workload("moved")["metadata"]["name"])
    here.delete("jobs", "moved")


def test_a_job_that_is_evicted_here_stops_in_its_worker(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("drained")
    here.create(managed("stopped", "drained", seconds=600.0))
    here.until("it runs", lambda: here.jobs()["stopped"].get("status", {}).get("active") == 1)
    here.patch("clusterqueues", here.full("drained"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    here.until("it has no quota", lambda: here.condition("stopped", "QuotaReserved")[0] == "False")
    here.until("no worker has it", lambda: clusters.where("stopped") == [])
    assert here.jobs()["stopped"]["spec"]["suspend"]
    here.delete("jobs", "stopped")
