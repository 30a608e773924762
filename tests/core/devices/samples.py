"""Templates, classes and slices in short form."""

from __future__ import annotations

from typing import Any

from core.devices.inventory import DeviceCharge, Inventory, PodClaims
from core.devices.mapping import device_rules
from core.devices.model import claim_template, device_class, resource_slice
from core.model import Key, Raw

DRIVER = "gpu.example.com"


def template(name: str, *requests: Raw, namespace: str = "ns") -> Raw:
    """A ResourceClaimTemplate with these ``exactly``."""
    asked = [{"name": f"r{index}", "exactly": each} for index, each in enumerate(requests)]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"spec": {"devices": {"requests": asked}}},
    }


def exactly(device_class: str, count: int = 1, *selectors: str, **others: Any) -> Raw:
    """A request of devices."""
    chosen = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **chosen, **others}


def a_class(name: str, *selectors: str, resource: str = "", created: str = "") -> Raw:
    """A DeviceClass."""
    spec: Raw = {"selectors": [{"cel": {"expression": each}} for each in selectors]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def a_slice(
    name: str,
    *devices: Raw,
    driver: str = DRIVER,
    pool: str = "",
    generation: int = 1,
    of: int = 1,
    node: str = "",
) -> Raw:
    """A ResourceSlice, of a node if one is named; its pool is its own unless named."""
    numbered = [{"name": f"{name}-{index}", **each} for index, each in enumerate(devices)]
    pool_of = {"name": pool or name, "generation": generation, "resourceSliceCount": of}
    of_node = {"nodeName": node} if node else {}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": pool_of, "devices": numbered, **of_node}}


def device(profile: str = "", memory: str = "", capacity: Raw | None = None) -> Raw:
    """A device with an attribute, what it consumes of the counter ``memory``, and capacities."""
    found: Raw = {}
    if profile:
        found["attributes"] = {"profile": {"string": profile}}
    if memory:
        found["consumesCounters"] = [{"counterSet": "s", "counters": {"memory": {"value": memory}}}]
    if capacity:
        found["capacity"] = capacity
    return found


def inventory(mappings: list[Raw], *objects: Raw, **gates: bool) -> Inventory:
    """An inventory of these objects, told apart by their form."""
    found = Inventory(device_rules(mappings, gates))
    for raw in objects:
        enter(found, raw)
    return found


def enter(found: Inventory, raw: Raw) -> None:
    """Enters one object."""
    spec, name = raw["spec"], raw["metadata"]["name"]
    if "driver" in spec:
        found.set_slice(name, resource_slice(raw))
    elif "spec" in spec:
        found.set_template(Key(raw["metadata"]["namespace"], name), claim_template(raw))
    else:
        found.set_class(name, device_class(raw))


def charge(found: Inventory, *templates: str, namespace: str = "ns") -> DeviceCharge:
    """What a workload with one pod set with claims of these templates counts for."""
    pods = (PodClaims("main", tuple((name, "") for name in templates)),)
    for key in found.unanswered(namespace, pods):
        for _ in found.counting(key):
            pass
    return found.charge(namespace, pods)
