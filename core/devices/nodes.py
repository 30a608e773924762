"""How many devices nodes have, by the resource as which they count.

Separate from what claims count for: a claim is compared with the devices of the cluster, a node with its own. Which
device of its node a pod gets, and whether a selector of its claim matches it, is decided by kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from api.quantity import CPU
from core.devices.extended import resources_of
from core.devices.mapping import DeviceRules
from core.devices.matching import Matching, newest
from core.devices.model import Device, DeviceClass, Slice
from core.model import Node
from core.steps import Steps


class CountableClasses(NamedTuple):
    """The classes whose devices count as one resource, and the other extended resources that stand for them."""

    classes: tuple[DeviceClass, ...]
    standing: frozenset[str]


def countable(
    classes: Mapping[str, DeviceClass], extended: Mapping[str, DeviceClass], rules: DeviceRules
) -> dict[str, CountableClasses]:
    """Returns the classes whose devices count by device, by the resource as which they count. ``extended`` has the
    class that stands for an extended resource.
    """
    found: dict[str, CountableClasses] = {}
    for name, device_class in sorted(classes.items()):
        if rules.by_counter(name) or rules.by_capacity(name):
            continue
        standing = [
            each for each in resources_of(device_class) if rules.extended and extended.get(each) == device_class
        ]
        mapped = rules.resources.get(name)
        for resource in (mapped,) if mapped else standing:
            if resource != CPU:
                known = found.get(resource, CountableClasses((), frozenset()))
                others = known.standing.union(standing) - {resource}
                found[resource] = CountableClasses((*known.classes, device_class), others)
    return found


def devices_of(
    slices: Iterable[Slice], counted: Mapping[str, CountableClasses], matching: Matching
) -> Steps[Mapping[str, int]]:
    """Returns the devices of these slices by resource; a device of two classes counts once. Of each pool the slices of
    the newest generation count.
    """
    present = [each for pool in newest(slices).values() for each in pool]
    devices = [device for each in present for device in each.devices]
    found: dict[str, int] = {}
    for resource, (classes, _) in counted.items() if present else ():
        places: set[int] = set()
        for device_class in classes:
            results = yield from matching.results(present, device_class.selectors)
            # What cannot be evaluated here is left to kube-scheduler: no job must wait for ever for it.
            places.update(place for place, result in enumerate(results) if result is not False)
        if places:
            found[resource] = sum(MANY if _is_shared(devices[place]) else 1 for place in places)
    return found


MANY: Final = 2**31
"""A device that many claims may share at once limits nothing."""


def _is_shared(device: Device) -> bool:
    return bool(device.variables.get("allowMultipleAllocations"))


def with_devices(node: Node, devices: Mapping[str, int], counted: Mapping[str, CountableClasses]) -> Node:
    """Returns a node that has these devices, too. Where a device plugin offers an extended resource that a class stands
    for, both are devices of that class.
    """
    more = dict(devices)
    for resource, (_, standing) in counted.items():
        for each in standing:
            more[resource] = more.get(resource, 0) + node.allocatable.get(each, 0)
    allocatable = {**node.allocatable}
    for name in sorted(more):
        if more[name]:
            allocatable[name] = allocatable.get(name, 0) + more[name]
    if allocatable == node.allocatable:
        return node
    return structs.replace(node, allocatable=allocatable)
