"""What claims count for, and what a change of a template, class or slice concerns."""

from __future__ import annotations

from typing import Any

import pytest

from core.devices.extended import IMPLICIT
from core.devices.inventory import EVERY_NODE, NOT_COUNTED_YET, Affected, DeviceCharge, PodClaims, RefusedClaims
from core.devices.model import claim_template, device_class, resource_slice
from core.model import Key, Raw
from tests.core.devices.samples import a_class, a_slice, charge, device, enter, exactly, inventory, template

GPUS: list[Raw] = [{"name": "gpus", "deviceClassNames": ["gpu"]}]
SELECTOR = {"cel": {"expression": "true"}}
BY_MEMORY: list[Raw] = [
    {
        "name": "memory",
        "deviceClassNames": ["mig"],
        "sources": [{"counter": {"driver": "gpu.example.com", "name": "memory", "deviceSelector": SELECTOR}}],
    }
]
BY_CAPACITY: list[Raw] = [
    {
        "name": "share",
        "deviceClassNames": ["mig"],
        "sources": [{"capacity": {"driver": "gpu.example.com", "name": "memory", "deviceSelector": SELECTOR}}],
    }
]
CONSUMABLE = {"KueueDRAIntegrationConsumableCapacity": True}
PATH = "spec.podSets[0].template.spec.resourceClaims[0]"


def test_each_claim_of_a_pod_counts() -> None:
    found = inventory(GPUS, template("two", exactly("gpu", 2)), template("one", exactly("gpu")))
    assert charge(found, "two", "one", "two").amounts == ({"gpus": 5},)


def test_a_missing_template_is_named_and_counts_when_it_appears() -> None:
    found = inventory(GPUS)
    assert charge(found, "two").problem == (
        f"{PATH}: Internal error: failed to get claim spec for ResourceClaimTemplate two in podset main:"
        ' resourceclaimtemplates.resource.k8s.io "two" not found'
    )
    enter(found, template("two", exactly("gpu", 2)))
    assert charge(found, "two").amounts == ({"gpus": 2},)


def test_templates_of_other_namespaces_do_not_count() -> None:
    found = inventory(GPUS, template("two", exactly("gpu", 2), namespace="other"))
    assert "not found" in charge(found, "two").problem


def test_a_template_that_is_made_again_is_counted_again() -> None:
    found = inventory(GPUS, template("t", exactly("gpu", 1)))
    assert charge(found, "t").amounts == ({"gpus": 1},)
    assert found.set_template(Key("ns", "t"), None) == Affected((Key("ns", "t"),))
    enter(found, template("t", exactly("gpu", 8)))
    assert charge(found, "t").amounts == ({"gpus": 8},)


def test_administrators_access_takes_no_device() -> None:
    found = inventory(GPUS, template("t", exactly("gpu", 4, adminAccess=True)))
    assert charge(found, "t").amounts == ({},)


def test_counts_stop_at_the_largest_amount() -> None:
    found = inventory(GPUS, template("t", exactly("gpu", 2**63 - 1), exactly("gpu", 5)))
    assert charge(found, "t").amounts == ({"gpus": 2**63 - 1},)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (exactly("gpu", allocationMode="All"), "AllocationMode 'All' is not supported"),
        (exactly("gpu", 1, "device.driver =="), "CEL compilation failed"),
        (exactly("nic"), "DeviceClass nic is not mapped in DRA configuration for podset main"),
        (exactly("nic", 1, "true"), 'failed to get DeviceClass nic: deviceclasses.resource.k8s.io "nic" not found'),
    ],
)
def test_what_is_not_supported_is_explained(request_: Raw, problem: str) -> None:
    assert problem in charge(inventory(GPUS, template("t", request_)), "t").problem


def test_alternatives_are_not_supported() -> None:
    raw = template("t")
    raw["spec"]["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": [{"name": "a"}]}]
    assert "FirstAvailable device selection is not supported" in charge(inventory(GPUS, raw), "t").problem


def test_claims_that_are_named_directly_are_not_supported() -> None:
    assert inventory(GPUS).charge("ns", (PodClaims("main", (("", "mine"),)),)).problem == (
        "KueueDRAIntegration feature does not support use of resource claims"
    )


def test_without_the_integration_all_claims_are_refused() -> None:
    refused = RefusedClaims()
    for claim in (("t", ""), ("", "mine")):
        assert "feature gate is not enabled" in refused.charge("ns", (PodClaims("main", (claim,)),)).problem
    assert refused.charge("ns", (PodClaims("main"),)) == DeviceCharge()


def test_each_request_with_a_selector_needs_devices_of_its_own() -> None:
    selector = "device.attributes['gpu.example.com'].profile == 'large'"
    objects = (a_class("gpu"), a_slice("s", device("large"), device("small"), device("large")))
    one = template("one", exactly("gpu", 1, selector), exactly("gpu", 1, selector))
    two = template("two", exactly("gpu", 2, selector), exactly("gpu", 1, selector))
    found = inventory(GPUS, *objects, one, two)
    assert charge(found, "one").amounts == ({"gpus": 2},)
    assert charge(found, "two").problem == (
        f"{PATH}.devices.requests[1].exactly.selectors: Internal error: ResourceClaimTemplate two: insufficient"
        " matching devices for CEL selector in DeviceClass gpu: 0 device(s) match in the cluster but 1 requested"
    )


def test_the_largest_device_that_matches_decides_a_counter() -> None:
    objects = (a_class("mig"), a_slice("s", device("a", "10Gi"), device("b", "20Gi"), device("c", "40Gi")))
    selector = "device.attributes['gpu.example.com'].profile in ['a', 'b']"
    found = inventory(BY_MEMORY, *objects, template("t", exactly("mig", 2, selector)))
    assert charge(found, "t").amounts == ({"memory": 2 * 20 * 2**30},)


def test_without_its_gate_a_counter_is_not_used() -> None:
    found = inventory(
        BY_MEMORY,
        a_class("mig"),
        a_slice("s", device("a", "10Gi")),
        template("t", exactly("mig")),
        KueueDRAIntegrationPartitionableDevices=False,
    )
    assert charge(found, "t").amounts == ({"memory": 1},)


def test_only_complete_pools_of_the_newest_generation_have_devices() -> None:
    whole = inventory(BY_MEMORY, a_class("mig"), template("t", exactly("mig")))
    enter(whole, a_slice("half", device("a", "10Gi"), pool="p", of=2))
    assert "0 device(s) match but 1 requested" in charge(whole, "t").problem
    enter(whole, a_slice("other", device("a", "20Gi"), pool="p", of=2))
    assert charge(whole, "t").amounts == ({"memory": 20 * 2**30},)
    enter(whole, a_slice("newer", device("a", "5Gi"), pool="p", generation=2, of=1))
    assert charge(whole, "t").amounts == ({"memory": 5 * 2**30},)


@pytest.mark.parametrize(
    ("capacity", "asked", "amount"),
    [
        ({"value": "80Gi"}, None, "80"),
        ({"value": "80Gi", "requestPolicy": {"default": "10Gi"}}, None, "10"),
        ({"value": "80Gi"}, "30Gi", "30"),
        ({"value": "80Gi", "requestPolicy": {"validValues": ["10Gi", "40Gi"]}}, "30Gi", "40"),
        ({"value": "80Gi", "requestPolicy": {"validRange": {"min": "4Gi", "step": "3Gi"}}}, "5Gi", "7"),
        ({"value": "80Gi", "requestPolicy": {"validRange": {"min": "4Gi"}}}, "1Gi", "4"),
        ({"value": "80Gi", "requestPolicy": {"validRange": {"min": "4Gi", "max": "8Gi"}}}, "9Gi", ""),
        ({"value": "80Gi", "requestPolicy": {"validValues": ["10Gi"]}}, "30Gi", ""),
    ],
)
def test_a_capacity_is_what_the_device_gives_for_the_request(capacity: Raw, asked: str | None, amount: str) -> None:
    more: dict[str, Any] = {"capacity": {"requests": {"memory": asked}}} if asked else {}
    found = inventory(
        BY_CAPACITY,
        a_class("mig"),
        a_slice("s", device(capacity={"memory": capacity})),
        template("t", exactly("mig", 1, **more)),
        **CONSUMABLE,
    )
    if amount:
        assert charge(found, "t").amounts == ({"share": int(amount) * 2**30},)
    else:
        assert "cannot be satisfied by any matched device's RequestPolicy" in charge(found, "t").problem


def test_without_its_gate_a_capacity_is_not_used() -> None:
    found = inventory(BY_CAPACITY, template("t", exactly("mig", 3)))
    assert charge(found, "t").amounts == ({"share": 3},)


def test_a_class_concerns_the_claims_that_depend_on_it() -> None:
    found = inventory(GPUS, a_class("gpu"), template("t", exactly("gpu")), template("u", exactly("nic")))
    assert charge(found, "t").problem == ""
    every = (EVERY_NODE,)
    assert found.set_class("nic", device_class(a_class("nic"))) == Affected((), frozenset({f"{IMPLICIT}nic"}), every)
    changed = Affected((Key("ns", "t"),), frozenset({f"{IMPLICIT}gpu"}), every)
    assert found.set_class("gpu", device_class(a_class("gpu", "true"))) == changed
    assert charge(found, "t").amounts == ({"gpus": 1},)


def test_a_slice_concerns_claims_with_selectors_alone() -> None:
    found = inventory(
        GPUS, a_class("gpu"), template("plain", exactly("gpu")), template("one", exactly("gpu", 1, "true"))
    )
    charge(found, "plain")
    assert "0 device(s) match" in charge(found, "one").problem
    changed = resource_slice(a_slice("s", device(), node="n1"))
    assert found.set_slice("s", changed) == Affected((Key("ns", "one"),), nodes=("n1",))
    assert charge(found, "one").amounts == ({"gpus": 1},)
    assert found.set_slice("s", changed) == Affected()
    moved = resource_slice(a_slice("s", device(), node="n2"))
    assert found.set_slice("s", moved).nodes == ("n1", "n2")


def test_an_extended_resource_counts_as_its_newest_class() -> None:
    resource = "example.com/gpu"
    found = inventory(GPUS, a_class("other", resource=resource, created="2026-01-01T00:00:00Z"))
    assert found.extended[resource].name == "other"
    newer = device_class(a_class("gpu", resource=resource, created="2026-01-02T00:00:00Z"))
    both = Affected(resources=frozenset({resource, f"{IMPLICIT}gpu"}), nodes=(EVERY_NODE,))
    assert found.set_class("gpu", newer) == both
    assert found.extended[resource].name == found.extended[f"{IMPLICIT}gpu"].name == "gpu"
    assert found.set_class("gpu", None) == both
    assert found.extended[resource].name == found.extended[f"{IMPLICIT}other"].name == "other"
    found.set_class("other", None)
    assert not found.extended


def test_without_its_gate_no_class_stands_for_a_resource() -> None:
    found = inventory(GPUS, a_class("gpu", resource="a.b/c"), KueueDRAIntegrationExtendedResource=False)
    assert not found.extended


def test_nothing_is_counted_before_selectors_were_evaluated() -> None:
    found = inventory(GPUS, a_class("gpu"), a_slice("s", *[device()] * 400), template("t", exactly("gpu", 1, "true")))
    pods = (PodClaims("main", (("t", ""),)),)
    assert found.charge("ns", pods) == DeviceCharge(problem=NOT_COUNTED_YET)
    (key,) = found.unanswered("ns", pods)
    assert sum(1 for _ in found.counting(key)) >= 1
    assert found.unanswered("ns", pods) == ()
    assert found.charge("ns", pods).amounts == ({"gpus": 1},)


def test_an_answer_is_not_kept_if_the_template_was_replaced_meanwhile() -> None:
    found = inventory(GPUS, a_class("gpu"), a_slice("s", *[device()] * 400), template("t", exactly("gpu", 1, "true")))
    counting = found.counting(Key("ns", "t"))
    next(counting)
    found.set_template(Key("ns", "t"), claim_template(template("t", exactly("gpu", 7))))
    list(counting)
    assert charge(found, "t").amounts == ({"gpus": 7},)
