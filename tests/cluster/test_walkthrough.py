"""A Job's way from `kubectl create` to its end and to the start of the next one, station by station.

A failure names the station at which the Job was stuck.
"""

from functools import partial

import pytest

from tests.cluster.world import World, done, holds

pytestmark = pytest.mark.cluster


def test_walkthrough(world: World) -> None:
    world.queue("team", 2)
    world.job("first", "team", cpu=2, seconds=600)
    world.job("second", "team", cpu=1, seconds=1)

    world.until("1: the Job is suspended by the webhook", lambda: "first" in world.jobs())
    world.until("2: the Job has its Workload", lambda: "first" in world.workloads())
    assert world.workloads()["first"]["spec"]["queueName"] == "team"
    world.until("3: quota is reserved", lambda: holds(world.workloads()["first"], "QuotaReserved"))
    world.until("4: it is admitted", lambda: holds(world.workloads()["first"], "Admitted"))
    assert world.workloads()["first"]["status"]["admission"]["clusterQueue"] == world.full("team")
    world.until("5: the Job is unsuspended", lambda: "first" in world.running())
    world.until("6: its pods run", lambda: world.jobs()["first"]["status"].get("ready") == 1)
    world.until("7: the status of the queue counts it", lambda: world.used("team") == ("2", "0"))
    world.until("8: the second waits with a reason", lambda: _waits(world, "second"))
    waits = _waits(world, "second")
    assert waits["reason"] == "WaitingForQuota", waits
    assert "insufficient unused quota for cpu" in waits["message"]
    assert "second" not in world.running()
    world.job("third", "team", cpu=1, seconds=1)  # like the second, behind which it is not looked at itself
    for name in ("second", "third"):
        world.until(f"8a: kubectl describe job {name} says why it waits", partial(_described, world, name))
    third = world.workload("third")["metadata"]["name"]
    world.until("8b: so do the events of its Workload", lambda: "WaitingForQuota" in world.events("Workload", third))
    world.complete("first")
    world.until("10: its Workload is finished", lambda: holds(world.workloads()["first"], "Finished"))
    world.until("11: the next one has its quota", lambda: holds(world.workloads()["second"], "Admitted"))
    world.until("12: the next one completes", lambda: done(world.jobs()["second"]))
    world.until("12a: and the one like it", lambda: done(world.jobs()["third"]))
    world.until("13: all quota is free", lambda: world.used("team") == ("0", "0"))
    story = {"CreatedWorkload", "Started", "FinishedWorkload"}
    world.until("14: events tell the story", lambda: story <= world.events("Job", "first"))
    name = world.workloads()["first"]["metadata"]["name"]
    world.until("15: of the Workload, too", lambda: {"QuotaReserved", "Admitted"} <= world.events("Workload", name))
    world.until(
        "16: nothing holds up its deletion", lambda: not world.workloads()["first"]["metadata"].get("finalizers")
    )


def _described(world: World, job: str) -> bool:
    """Whether the events below a Job's description say why it waits."""
    printed = world.plane.kubectl("describe", "job", job, "--namespace", world.namespace, check=True).stdout
    events = printed.partition("Events:")[2]
    message = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor"
    return "WaitingForQuota" in events and f"Waits in ClusterQueue {world.full('team')}: {message}" in events


def _waits(world: World, name: str) -> dict[str, str]:
    conditions = world.workloads().get(name, {}).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "QuotaReserved" and c["status"] == "False"), {})
