"""How templates, classes and devices reach State: what is counted anew, and what keeps a workload out of its queue."""

from __future__ import annotations

from typing import Any, cast

import pytest

from api import resources
from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.sweeps import Sweeps
from controller.kube.client import Client
from controller.run.controller import Controller
from controller.run.watched import rows
from controller.settings import ControllerSettings, Reading, from_configuration
from core.devices.inventory import DISABLED, NOT_COUNTED_YET
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Raw, Reserve
from core.model.policy import SchedulingPolicy
from core.state.drain import drain
from core.state.state import State
from tests.controller.test_caches import made, workload
from tests.controller.test_watched import Lists
from tests.core.devices.samples import a_class, a_slice, device, exactly, template

from api.configuration import load  # isort: skip

MAPPED = "resources: {deviceClassMappings: [{name: gpus, deviceClassNames: [gpu]}]}"
TEMPLATES, CLASSES = resources.RESOURCE_CLAIM_TEMPLATES, resources.DEVICE_CLASSES
SLICES = resources.RESOURCE_SLICES
SELECTED = template("one", exactly("gpu", 1, "device.driver == 'gpu.example.com'"))


def reading(text: str = MAPPED) -> Reading:
    return from_configuration(load(text).configuration, elect=False).reading


def claiming(name: str, claim: Raw | None = None, requests: Raw | None = None) -> Raw:
    raw = workload(name)
    spec = raw["spec"]["podSets"][0]["template"]["spec"]
    if requests is None:
        spec["resourceClaims"] = [{"name": "gpu", **(claim or {"resourceClaimTemplateName": "one"})}]
    else:
        spec["containers"][0]["resources"]["requests"] = requests
    return raw


class World:
    """Caches with a queue that covers cpu and gpus, and workloads."""

    def __init__(self, *workloads: Raw, reads: Reading | None = None) -> None:
        self.caches = Caches(State(), rows([BATCH_JOB]), reads or reading())
        self.sweeps = Sweeps()
        self.caches.in_steps = self.sweeps.add
        self.told: list[str] = []
        self.caches.caught_up = lambda key: self.told.append(key.name)
        self.version = 1
        amounts = [{"name": name, "nominalQuota": "4"} for name in ("cpu", "gpus")]
        group = {"coveredResources": ["cpu", "gpus"], "flavors": [{"name": "default", "resources": amounts}]}
        self.put(resources.RESOURCE_FLAVORS, made("ResourceFlavor", "default"))
        self.put(resources.NAMESPACES, made("Namespace", "ns"))
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        self.put(resources.CLUSTER_QUEUES, made("ClusterQueue", "cq", spec))
        self.put(resources.LOCAL_QUEUES, made("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="ns"))
        for raw in workloads:
            self.put(resources.WORKLOADS, raw)
        self.caches.start()

    def put(self, resource: Resource, raw: Raw, event: str = "ADDED") -> None:
        """A change of an object, and all that follows from it."""
        self.version += 1
        raw["metadata"] = {"uid": f"{resource.plural}-{raw['metadata']['name']}", **raw["metadata"]}
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.caches.stores[resource].observe(event, raw)
        self.settle()

    def settle(self) -> None:
        while self.sweeps.step():
            pass

    def uncounted(self, name: str = "w") -> str:
        found = self.caches.get(Key("ns", name))
        assert found is not None
        return found.uncounted

    def requests(self, name: str = "w") -> dict[str, int]:
        found = self.caches.get(Key("ns", name))
        assert found is not None
        return dict(found.pod_sets[0].requests)

    @property
    def heads(self) -> list[str]:
        return [head.workload.key.name for head in self.caches.state.heads(0.0)]


def test_a_workload_is_queued_when_its_template_appears_and_not_before() -> None:
    world = World(claiming("w"))
    assert 'resourceclaimtemplates.resource.k8s.io "one" not found' in world.uncounted()
    assert world.heads == []
    world.put(TEMPLATES, template("one", exactly("gpu", 2)))
    assert world.requests() == {"cpu": 1000, "gpus": 2}
    assert world.told == ["w"], "its status is changed"
    assert world.heads == ["w"]


def test_an_uncounted_workload_does_not_hold_up_the_others() -> None:
    assert World(claiming("a"), workload("b")).heads == ["b"]


def test_a_template_that_is_deleted_takes_its_workloads_out_of_the_queue() -> None:
    world = World(claiming("w"))
    world.put(TEMPLATES, template("one", exactly("gpu")))
    world.put(TEMPLATES, template("one", exactly("gpu")), "DELETED")
    assert "not found" in world.uncounted()
    assert world.heads == []


def test_devices_that_appear_let_workloads_with_selectors_in() -> None:
    world = World(claiming("w"))
    world.put(CLASSES, a_class("gpu"))
    world.put(TEMPLATES, SELECTED)
    assert "0 device(s) match" in world.uncounted()
    world.put(SLICES, a_slice("s", device()))
    assert (world.uncounted(), world.heads) == ("", ["w"])
    world.put(SLICES, a_slice("s", device()), "DELETED")
    assert "0 device(s) match" in world.uncounted()


def test_many_devices_are_looked_at_in_steps() -> None:
    world = World()
    world.put(CLASSES, a_class("gpu"))
    world.put(SLICES, a_slice("s", *[device()] * 400))
    world.put(TEMPLATES, template("one", exactly("gpu", 1, "device.driver == 'gpu.example.com'")))
    raw = claiming("w")
    world.caches.workloads.observe("ADDED", raw)
    assert world.uncounted() == NOT_COUNTED_YET
    assert world.heads == []
    world.settle()
    assert (world.uncounted(), world.heads, world.told) == ("", ["w"], ["w"])


def test_a_class_that_appears_counts_the_extended_resource_for_which_it_stands() -> None:
    world = World(claiming("w", requests={"example.com/gpu": "2"}))
    assert world.requests() == {"example.com/gpu": 2}
    world.put(CLASSES, a_class("gpu", resource="example.com/gpu"))
    assert world.requests() == {"gpus": 2}
    found = world.caches.get(Key("ns", "w"))
    assert found is not None
    assert found.pod_sets[0].per_pod == {"example.com/gpu": 2}, "what the pod requests of its node"
    world.put(CLASSES, a_class("gpu", resource="example.com/gpu"), "DELETED")
    assert world.requests() == {"example.com/gpu": 2}


def admitted(count: int) -> Raw:
    """A Workload of one pod that was admitted for so many devices at ten o'clock."""
    raw = claiming("w")
    assigned = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "default", "gpus": "default"},
        "resourceUsage": {"cpu": "1", "gpus": str(count)},
    }
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    raw["status"] = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        "conditions": [{**reserved, "lastTransitionTime": "2026-01-01T10:00:00Z"}],
    }
    return raw


def made_at(time: str, request: Raw) -> Raw:
    raw = template("one", request)
    raw["metadata"]["creationTimestamp"] = f"2026-01-01T{time}Z"
    return raw


@pytest.mark.parametrize(
    ("again", "sentence"),
    [
        (made_at("09:00:00", exactly("gpu", 8)), ""),
        (made_at("11:00:00", exactly("gpu", 1)), ""),
        (
            made_at("11:00:00", exactly("gpu", 8)),
            "ResourceClaimTemplate one was made again after the admission: each pod asks for 8 gpus now, and was"
            " admitted for 1",
        ),
        (
            made_at("11:00:00", exactly("gpu", allocationMode="All")),
            "ResourceClaimTemplate one was made again after the admission: spec.podSets[0].template.spec"
            '.resourceClaims[0].devices.requests[0].exactly.allocationMode: Invalid value: "All":'
            " ResourceClaimTemplate one: AllocationMode 'All' is not supported",
        ),
    ],
    ids=["before", "the same", "more", "all"],
)
def test_a_template_that_is_made_again_after_the_admission_must_not_ask_for_more(again: Raw, sentence: str) -> None:
    world = World(admitted(1))
    world.put(TEMPLATES, again)
    found = world.caches.get(Key("ns", "w"))
    assert found is not None
    assert found.outgrown == sentence


def test_an_admitted_workload_without_its_template_has_not_outgrown_its_quota() -> None:
    found = World(admitted(1)).caches.get(Key("ns", "w"))
    assert found is not None
    assert (found.outgrown, "not found" in found.uncounted) == ("", True)


@pytest.mark.parametrize(("count", "fits"), [(4, True), (5, False)])
def test_a_slice_of_an_elastic_job_needs_quota_for_its_new_devices_only(count: int, fits: bool) -> None:
    old = admitted(2)
    old["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    ]
    new = claiming("new", {"resourceClaimTemplateName": "larger"})
    new["metadata"] |= {
        "ownerReferences": old["metadata"]["ownerReferences"],
        "annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": "ns/w"},
    }
    world = World(old, new)
    world.put(TEMPLATES, made_at("09:00:00", exactly("gpu", 2)))
    world.put(TEMPLATES, template("larger", exactly("gpu", count)))
    decisions = [each for plan in drain(world.caches.state, SchedulingPolicy(), 0.0) for each in plan.decisions]
    assert any(isinstance(each, Reserve) for each in decisions) is fits


OFF = "featureGates: {KueueDRAIntegration: false}"
IGNORED = "featureGates: {KueueDRAIntegration: false, KueueDRARejectWorkloadsWhenDRADisabled: false}"


@pytest.mark.parametrize(("text", "problem"), [(OFF, DISABLED), (IGNORED, "")])
def test_without_the_integration_claims_are_refused_or_count_for_nothing(text: str, problem: str) -> None:
    world = World(claiming("w"), reads=reading(text))
    assert world.uncounted() == problem
    assert world.heads == ([] if problem else ["w"])
    assert world.requests() == {"cpu": 1000}


@pytest.mark.parametrize(("text", "followed"), [("", True), (OFF, False), (IGNORED, False)])
def test_without_the_integration_nothing_is_watched(text: str, followed: bool) -> None:
    settings = ControllerSettings(reading=reading(text))
    controller = Controller(cast(Client, Lists()), settings)
    watched = {each.resource for each in controller.reflectors}
    assert {TEMPLATES, CLASSES, SLICES} & watched == ({TEMPLATES, CLASSES, SLICES} if followed else set())
    assert all(each._optional for each in controller.reflectors if each.resource in (TEMPLATES, CLASSES, SLICES))


def test_the_stores_keep_values_and_not_the_objects() -> None:
    world = World()
    raw: Any = a_slice("s", device("large", "10Gi"))
    world.put(SLICES, raw)
    (kept,) = world.caches.stores[SLICES]
    assert sorted(kept) == ["metadata", "value"]
