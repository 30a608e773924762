"""How many devices nodes have, by the resource as which they count.

Separate from what claims count for: a claim is compared with the devices of the cluster, a node with its own. Which
device of its node a pod gets, and whether a selector of its claim matches it, is decided by kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from api.quantity import CPU
from core.devices.claims import DeviceCluster
from core.devices.extended import resources_of, selected
from core.devices.matching import newest
from core.devices.model import Device, DeviceClass, Slice
from core.model import Node
from core.steps import Steps


def countable(cluster: DeviceCluster) -> dict[str, list[DeviceClass]]:
    """Returns the classes whose devices count by device, by the resource as which they count."""
    found: dict[str, list[DeviceClass]] = {}
    for name, device_class in sorted(cluster.classes.items()):
        if cluster.rules.by_counter(name) or cluster.rules.by_capacity(name):
            continue
        mapped = cluster.rules.resources.get(name)
        for resource in (mapped,) if mapped else _standing_for(device_class, cluster):
            if resource != CPU:
                found.setdefault(resource, []).append(device_class)
    return found


def _standing_for(device_class: DeviceClass, cluster: DeviceCluster) -> tuple[str, ...]:
    """The extended resources that a class stands for, alone or before others."""
    if not cluster.rules.extended:
        return ()

    def chosen(resource: str) -> bool:
        return selected(c for c in cluster.classes.values() if resource in resources_of(c)) == device_class

    return tuple(filter(chosen, resources_of(device_class)))


def devices_of(slices: Iterable[Slice], cluster: DeviceCluster) -> Steps[Mapping[str, int]]:
    """Returns the devices of these slices by resource; a device of two classes counts once. Of each pool the slices of
    the newest generation count.
    """
    present = [each for pool in newest(slices).values() for each in pool]
    found: dict[str, int] = {}
    for resource, classes in countable(cluster).items() if present else ():
        matching: set[int] = set()
        for device_class in classes:
            results = yield from cluster.matching.results(present, device_class.selectors)
            # What cannot be evaluated here is left to kube-scheduler: no job must wait for ever for it.
            matching.update(place for place, result in enumerate(results) if result is not False)
        devices = [device for each in present for device in each.devices]
        if matching:
            found[resource] = sum(MANY if _is_shared(devices[place]) else 1 for place in matching)
    return found


MANY: Final = 2**31
"""A device that many claims may share at once limits nothing."""


def _is_shared(device: Device) -> bool:
    return bool(device.variables.get("allowMultipleAllocations"))


def with_devices(node: Node, devices: Mapping[str, int], cluster: DeviceCluster) -> Node:
    """Returns a node that has these devices, too. Where a device plugin offers an extended resource that a class stands
    for, both are devices of that class.
    """
    more = dict(devices)
    for resource, classes in countable(cluster).items():
        for standing in {name for each in classes for name in _standing_for(each, cluster)} - {resource}:
            more[resource] = more.get(resource, 0) + node.allocatable.get(standing, 0)
    allocatable = {**node.allocatable}
    for name in sorted(more):
        if more[name]:
            allocatable[name] = allocatable.get(name, 0) + more[name]
    if allocatable == node.allocatable:
        return node
    return structs.replace(node, allocatable=allocatable)
