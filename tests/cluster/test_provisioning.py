"""Nodes that are asked for with ProvisioningRequests, on the real control plane.

The autoscaler is a stand-in (``provisioning.Autoscaler``). The definition of ProvisioningRequests is the one that
cluster-autoscaler publishes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.wire.timestamps import stamp
from devcluster.controlplane import ControlPlane
from tests.cluster.operators import define
from tests.cluster.provisioning import (
    CLASS,
    CLASS_NAME,
    CONSUMES,
    Autoscaler,
    a_condition,
    asks,
    check,
    config,
    owner,
    request_name,
    requests,
    state,
    uid,
)
from tests.cluster.test_topology import REQUIRED, all_placed, hostnames, node, ranked, with_topology
from tests.cluster.world import World, condition, holds
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster


EXAMPLE = Path(__file__).parents[2] / "examples" / "provisioning.yaml"
FOR = "example.com/for"
"""The label of nodes that were made for one request."""


def test_a_job_starts_when_its_nodes_are_provisioned(world: World) -> None:
    name = world.namespace
    selector = [{"key": "kubernetes.io/os", "valueFromProvisioningClassDetail": "System"}]
    world.create(config(name, parameters={"zone": "a"}, podSetUpdates={"nodeSelector": selector}), check(name))
    world.queue("team", 4, admissionChecksStrategy=asks(name))
    world.job("early", "team", seconds=1)

    def active() -> tuple[str, str, str]:
        return condition(world.get("admissionchecks", name), "Active")

    world.until("the check reports what is missing", lambda: active()[:2] == ("False", "ProvisioningRequestNotServed"))
    world.until("its queue is not active", lambda: world.active("team")[1] == "AdmissionCheckInactive")
    define(world, "provisioningrequests")
    assert world.plane.kubectl("create", "--dry-run=server", "-f", str(EXAMPLE)).returncode == 0
    world.until("the check is active", lambda: active() == ("True", "Active", "The admission check is active"))
    first = world.until("there is a request", lambda: requests(world, "early"))[0]
    assert first == request_name(world, "early", 1, name)
    assert world.until("it is reported", lambda: "ProvisioningRequestCreated" in events(world, "early"))

    made = world.get("provisioningrequests", first)
    template = f"ppt-{first}-main"
    assert made["spec"] == {
        "provisioningClassName": CLASS,
        "parameters": {"zone": "a"},
        "podSets": [{"podTemplateRef": {"name": template}, "count": 1}],
    }
    world.until("the template is the request's", lambda: owner(world.get("podtemplates", template)) == uid(made))
    autoscaler = Autoscaler(world)
    autoscaler.answer(first, Accepted="True", Provisioned="False", message="ETA 10:30")
    world.until("the message is that of the autoscaler", lambda: state(world, "early") == ("Pending", "ETA 10:30"))
    assert "ETA 10:30" in world.explain("job/early")
    assert world.jobs()["early"]["spec"]["suspend"] is True
    autoscaler.answer(first, Provisioned="True", details={"System": "linux"})
    world.until("it runs", lambda: not world.jobs()["early"]["spec"]["suspend"])
    pods = world.jobs()["early"]["spec"]["template"]
    assert pods["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    found = pods["metadata"]["annotations"]
    assert (found[CONSUMES], found[CLASS_NAME]) == (first, CLASS)
    world.until("the request is deleted when it has finished", lambda: not world.get("provisioningrequests", first))
    world.until("and the template with it", lambda: not world.get("podtemplates", template))
    reported = {"AdmissionCheckUpdated", "ProvisioningRequestCreated"}
    world.until("both are reported", lambda: reported <= events(world, "early"))


def events(world: World, job: str) -> set[str]:
    return world.events("Workload", world.workload(job)["metadata"]["name"])


def test_a_job_is_placed_on_the_nodes_that_were_provisioned_for_it(
    cluster: ControlPlane, served: Served, namespace: str
) -> None:
    """Quota first; its domains when the nodes are there, and of those with room only the new ones."""
    world = World(cluster, namespace)
    define(world, "provisioningrequests")
    selector = [{"key": FOR, "valueFromProvisioningClassDetail": "For"}]
    world.create(config(namespace, podSetUpdates={"nodeSelector": selector}), check(namespace))
    with_topology(world)
    world.queue("team", 48, admissionChecksStrategy=asks(namespace))
    nodes = [node(f"{namespace}-{place}", namespace, place[0]) for place in ("a-1", "a-2", "a-3", "b-1", "b-2")]
    new = nodes[3:]
    for each in new:
        each["metadata"]["labels"][FOR] = "job"
    world.create(*nodes[:3], ranked("job", 4, REQUIRED))
    (request,) = world.until("nodes are asked for", lambda: requests(world, "job"))
    (pods,) = world.workload("job")["status"]["admission"]["podSetAssignments"]
    assert (pods["count"], pods["delayedTopologyRequest"], pods.get("topologyAssignment")) == (4, "Pending", None)

    world.create(new[0])
    Autoscaler(world).answer(request, Provisioned="True", details={"For": "job"})
    world.until("one node is not enough", lambda: "SecondPassFailed" in events(world, "job"))
    assert world.jobs()["job"]["spec"]["suspend"] is True
    assert holds(world.workload("job"), "QuotaReserved")
    world.create(new[1])
    placed = all_placed(world, "job", 4)
    assert Counter(placed.values()) == {each["metadata"]["name"]: 2 for each in new}
    assert [placed[rank] for rank in sorted(placed)] == sorted(placed.values())
    (pods,) = world.workload("job")["status"]["admission"]["podSetAssignments"]
    assert pods["delayedTopologyRequest"] == "Ready"
    assert dict(hostnames(pods["topologyAssignment"])) == Counter(placed.values())
    for each in nodes:
        world.remove(each)


class Crash(NamedTuple):
    """What was written last when the process ended, or by others while no process ran, and what must follow.

    It begins with quota, a request of the first attempt and its template.
    """

    write: Callable[[World, str], None]
    then: Callable[[World, str], bool]


def first(world: World, job: str) -> str:
    return request_name(world, job, 1, "nodes")


def without_request(world: World, job: str) -> None:
    world.delete("provisioningrequests", first(world, job))
    world.until("it is gone", lambda: not world.get("provisioningrequests", first(world, job)))


def without_template(world: World, job: str) -> None:
    without_request(world, job)
    world.until("the template is gone", lambda: not world.get("podtemplates", f"ppt-{first(world, job)}-main"))


def not_adopted(world: World, job: str) -> None:
    """The template belongs to the Workload, as when it was created."""
    found = world.workload(job)["metadata"]
    reference = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "controller": True}
    references = [{**reference, "name": found["name"], "uid": found["uid"], "blockOwnerDeletion": True}]
    patch = {"metadata": {"ownerReferences": references}}
    world.patch("podtemplates", f"ppt-{first(world, job)}-main", patch)


def only_template(world: World, job: str) -> None:
    not_adopted(world, job)
    without_request(world, job)


def answered(world: World, job: str, **conditions: str) -> None:
    Autoscaler(world).answer(first(world, job), message="as it is", details=None, **conditions)


def decided(world: World, job: str, verdict: str, *conditions: str, **fields: Any) -> None:
    """The check has this state, and the Workload these conditions."""
    found = world.workload(job)
    (before,) = found["status"]["admissionChecks"]
    kept = [each for each in found["status"]["conditions"] if each["type"] not in conditions]
    new = [a_condition(kind, reason="AdmissionCheck") for kind in conditions]
    now = stamp(time.time())
    status = {"admissionChecks": [{**before, "state": verdict, "lastTransitionTime": now, **fields}]}
    status |= {"conditions": [*kept, *new]} if new else {}
    world.patch("workloads", found["metadata"]["name"], {"status": status}, subresource="status")


def retried(world: World, job: str, *, evicted: bool) -> None:
    answered(world, job, Failed="True")
    if evicted:
        decided(world, job, "Pending", "Evicted", retryCount=1)
    else:
        decided(world, job, "Retry", requeueAfterSeconds=1)


def cleaned(world: World, job: str) -> None:
    """Evicted, and the request is deleted; its template belongs to the Workload still."""
    not_adopted(world, job)
    decided(world, job, "Pending", "Evicted", retryCount=1)
    without_request(world, job)


def without_check(world: World, job: str) -> None:
    world.patch("clusterqueues", world.full(job), {"spec": {"admissionChecksStrategy": None}})


def asks_for_nodes(world: World, job: str) -> bool:
    """The first request exists, and has its template."""
    made = world.get("provisioningrequests", first(world, job))
    return bool(made) and owner(world.get("podtemplates", f"ppt-{first(world, job)}-main")) == uid(made)


def asks_again(world: World, job: str) -> bool:
    """The request of the second attempt is the only one, and its template too."""
    second = request_name(world, job, 2, "nodes")
    left = world.get("podtemplates", f"ppt-{first(world, job)}-main")
    return requests(world, job) == [second] and bool(world.get("podtemplates", f"ppt-{second}-main")) and not left


def starts(world: World, job: str) -> bool:
    found = world.jobs()[job]["spec"]["template"]["metadata"]["annotations"]
    return job in world.running() and found.get(CONSUMES) == first(world, job)


def ends(world: World, job: str) -> bool:
    return not world.workload(job)["spec"]["active"] and not requests(world, job)


def runs_without(world: World, job: str) -> bool:
    return job in world.running() and not requests(world, job)


def has_new_class(world: World, job: str) -> bool:
    made = world.get("provisioningrequests", request_name(world, job, 1, "later"))
    return bool(made) and made["spec"]["provisioningClassName"] == "another.example.com"


CRASH_POINTS = {
    "quota-reserved": Crash(without_template, asks_for_nodes),
    "template-created": Crash(only_template, asks_for_nodes),
    "request-created": Crash(not_adopted, asks_for_nodes),
    "provisioned": Crash(partial(answered, Provisioned="True"), starts),
    "failed": Crash(partial(answered, Failed="True"), asks_again),
    "expired": Crash(partial(answered, BookingExpired="True"), asks_again),
    "retry-written": Crash(partial(retried, evicted=False), asks_again),
    "evicted": Crash(partial(retried, evicted=True), asks_again),
    "request-deleted": Crash(cleaned, asks_again),
    "revoked": Crash(partial(answered, CapacityRevoked="True"), ends),
    "check-removed": Crash(without_check, runs_without),
    "class-changed": Crash(
        lambda world, job: world.patch(
            "provisioningrequestconfigs", "later", {"spec": {"provisioningClassName": "another.example.com"}}
        ),
        has_new_class,
    ),
}


def test_a_process_killed_at_any_step_of_a_request_continues(
    unserved: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    world = World(unserved, namespace)
    define(world, "provisioningrequests")
    with serving(unserved.kubeconfig, tmp_path) as process:
        process.ready()
        world.flavor()
        for name in ("nodes", "later"):
            world.create(config(name), check(name))
        for name in CRASH_POINTS:
            world.queue(name, 1, admissionChecksStrategy=asks("later" if name == "class-changed" else "nodes"))
            world.job(name, name, seconds=600)
        world.until("all ask for nodes", lambda: all(len(requests(world, name)) == 1 for name in CRASH_POINTS))
        owned = {name: f"ppt-{requests(world, name)[0]}-main" for name in CRASH_POINTS}

        def adopted(name: str) -> bool:
            made = world.get("provisioningrequests", requests(world, name)[0])
            return owner(world.get("podtemplates", owned[name])) == uid(made)

        world.until("their templates are theirs", lambda: all(map(adopted, CRASH_POINTS)))
        process.process.kill()
        process.wait()
    for kind in ("validating", "mutating"):  # another replica would answer; the next process installs them again
        unserved.kubectl("delete", f"{kind}webhookconfigurations", "--all", check=True)
    for name, point in CRASH_POINTS.items():
        point.write(world, name)
    with serving(unserved.kubeconfig, tmp_path) as process:
        process.ready()
        for name, point in CRASH_POINTS.items():
            world.until(f"{name} goes on", partial(point.then, world, name))
