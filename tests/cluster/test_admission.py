"""Which Jobs start: borrowing, the order in a queue, and Jobs that are deleted or unsuspended by hand."""

from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, holds, job, of_flavor, ours
from tests.serving import AS_US, serving

pytestmark = pytest.mark.cluster


def test_a_queue_borrows_what_its_cohort_does_not_use_and_no_more(world: World) -> None:
    world.queue("a", 2, cohort=True)
    world.queue("b", 2, cohort=True)
    world.job("borrows", "a", cpu=3, seconds=600)
    world.until("borrowing", lambda: world.used("a") == ("3", "1"))
    world.job("too-much", "b", cpu=2, seconds=600)
    world.job("fits", "b", cpu=1, seconds=600)
    world.until("the rest is taken", lambda: "fits" in world.running())
    assert world.running() == {"borrows", "fits"}


def test_a_job_of_a_cron_job_is_queued_like_any_other(world: World) -> None:
    world.queue("team", 1)
    template = job("unused", "team", cpu=1, pods=1, seconds=600)
    metadata = {"labels": template["metadata"]["labels"]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"metadata": metadata, "spec": template["spec"]}}
    world.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
    world.job("first", "team", seconds=600)
    world.until("the first runs", lambda: "first" in world.running())
    world.until("the controller of CronJobs has made one", lambda: len(world.jobs()) > 1)
    (made,) = [found for name, found in world.jobs().items() if name != "first"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    assert made["spec"]["suspend"] is True


def test_a_job_without_a_queue_goes_to_the_local_queue_named_default_where_there_is_one(world: World) -> None:
    world.queue("default", 1)
    template = job("asks-for-none", "unused", cpu=1, pods=1, seconds=1)
    del template["metadata"]["labels"]

    def made() -> bool:
        world.plane.kubectl("delete", "job", "asks-for-none", "-n", world.namespace)
        world.create(template)  # our cache may learn of the LocalQueue a moment after it was made
        return "kueue.x-k8s.io/queue-name" in world.jobs()["asks-for-none"]["metadata"].get("labels", {})

    world.until("it is given the default queue", made)
    world.until("it is admitted", lambda: "asks-for-none" in world.workloads())


def test_no_workload_passes_the_head_of_a_strict_queue_but_some_in_a_best_effort_queue(world: World) -> None:
    world.queue("strict", 2, queueingStrategy="StrictFIFO")
    world.queue("best", 2)
    for queue in ("strict", "best"):
        world.job(f"{queue}-runs", queue, cpu=1, seconds=600)
        world.until("the first runs", lambda queue=queue: f"{queue}-runs" in world.running())  # type: ignore[misc]
        world.job(f"{queue}-big", queue, cpu=2, seconds=1)
        world.outlive_second_of(f"{queue}-big")
        world.job(f"{queue}-small", queue, cpu=1, seconds=600)
    world.until("the small one passes", lambda: "best-small" in world.running())
    assert world.running() == {"strict-runs", "best-runs", "best-small"}


def test_a_job_that_is_deleted_gives_its_quota_to_the_next(world: World) -> None:
    world.queue("team", 1)
    world.job("gone", "team", seconds=600)
    world.until("it runs", lambda: "gone" in world.running())
    world.job("next", "team", seconds=600)
    world.plane.kubectl("delete", "job", "gone", "-n", world.namespace, check=True)
    world.until("the next runs", lambda: world.running() == {"next"})
    world.until("no Workload is left behind", lambda: set(world.workloads()) == {"next"})


@pytest.mark.exceeds
def test_a_job_unsuspended_without_admission_is_suspended_again(world: World) -> None:
    world.queue("team", 1)
    world.job("runs", "team", seconds=600)
    world.until("it runs", lambda: "runs" in world.running())
    world.job("sneaks", "team", seconds=600)
    world.until("it has its Workload", lambda: world.workloads().get("sneaks"))
    patch = '{"spec": {"suspend": false}}'
    # with the controller's own account, for admission refuses all others
    world.plane.kubectl("patch", "job", "sneaks", "-n", world.namespace, "-p", patch, *AS_US, check=True)
    world.until("it is suspended again", lambda: "sneaks" not in world.running())
    world.until("an event on the Job has the reason", lambda: "Stopped" in world.events("Job", "sneaks"))
    assert world.running() == {"runs"}
    assert not holds(world.workloads()["sneaks"], "Admitted")


def test_a_drained_queue_stops_its_jobs_and_continues_when_it_is_started_again(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    world.until("it runs", lambda: "job" in world.running())
    name = f"clusterqueue.kueue.x-k8s.io/{world.full('team')}"
    for policy in ("HoldAndDrain", "None"):
        patch = f'{{"spec": {{"stopPolicy": "{policy}"}}}}'
        world.plane.kubectl("patch", name, "--type", "merge", "-p", patch, check=True)
        if policy == "HoldAndDrain":
            world.until("it is stopped", lambda: not world.running() and world.used("team") == ("0", "0"))
            assert holds(world.workloads()["job"], "Evicted")
    world.until("it runs again", lambda: "job" in world.running())
    world.complete("job")


def test_a_cluster_queue_in_use_stays_until_its_last_job_is_gone(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    world.until("it runs", lambda: "job" in world.running())
    name = f"clusterqueue.kueue.x-k8s.io/{world.full('team')}"
    world.plane.kubectl("delete", name, "--wait=false", check=True)
    world.until(
        "the status of the queue has the reason",
        lambda: world.status("team").get("conditions", [{}])[0].get("reason") == "Terminating",
    )
    assert world.running() == {"job"}
    world.plane.kubectl("delete", "job", "job", "-n", world.namespace, check=True)
    world.until("it is gone", lambda: not world.get("clusterqueues", world.full("team")))


def test_a_job_moves_to_the_preferred_flavor_when_that_is_free(
    unserved: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Concurrent admission; the last test here, because `seiretsu serve` has a configuration of its own."""
    (tmp_path / "configuration.yaml").write_text("featureGates: {ConcurrentAdmission: true}\n")
    world = World(unserved, namespace)
    best, other = f"{namespace}-best", f"{namespace}-other"

    def flavor(name: str) -> str:
        """The flavor in which a Job runs, '' if it does not."""
        (given,) = world.workload(name).get("status", {}).get("admission", {}).get("podSetAssignments") or [{}]
        return str(given["flavors"]["cpu"]) if name in world.running() and given else ""

    with serving(unserved.kubeconfig, tmp_path, "--config", str(tmp_path / "configuration.yaml")) as process:
        process.ready()
        world.create(ours("ResourceFlavor", best, {}), ours("ResourceFlavor", other, {}))
        flavors = [of_flavor(name, 1)["flavors"][0] for name in (best, other)]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        migration = {"migration": {"mode": "TryPreferredFlavors"}}
        world.queue("team", 1, resourceGroups=groups, concurrentAdmissionPolicy=migration)
        world.job("first", "team", seconds=600)
        world.until("the first runs in the preferred flavor", lambda: flavor("first") == best)
        world.job("second", "team", seconds=600)
        world.until("the second runs in the other one", lambda: flavor("second") == other)
        world.delete("jobs", "first")
        world.until("it moves when the preferred flavor is free", lambda: flavor("second") == best)
        parent = world.workload("second")
        assert [each["reason"] for each in parent["status"]["schedulingStats"]["evictions"]] == ["VariantEvicted"]
        name, evicted = parent["metadata"]["name"], "EvictedDueToConcurrentAdmission"
        owned = [
            each for each in world.get("workloads")["items"] if each["metadata"]["ownerReferences"][0]["name"] == name
        ]
        (variant,) = (each for each in owned if holds(each, "QuotaReserved"))
        world.delete("workloads", variant["metadata"]["name"])
        world.until("without its variant it is evicted", lambda: evicted in world.events("Workload", name))
        world.until("it runs with another one", lambda: flavor("second") == best)
        world.delete("jobs", "second")
        world.until("nothing is left", lambda: not world.workloads())
