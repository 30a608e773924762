"""``resources.deviceClassMappings`` of the Configuration: as which resources the devices of a class count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from api.feature_gates import Gates, enabled
from api.objects import Raw


@dataclass(frozen=True, slots=True)
class Source:
    """Where the amount of a device comes from: a counter that it consumes, or one of its capacities. ``selector`` is an
    expression that chooses devices of the driver.
    """

    resource: str
    driver: str
    name: str
    selector: str


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """The mapping and the feature gates.

    ``resources`` has the resource of each device class, ``counters`` and ``capacities`` the sources of those that are
    not counted by device. ``extended`` is KueueDRAIntegrationExtendedResource, ``partitionable``
    KueueDRAIntegrationPartitionableDevices, ``consumable`` KueueDRAIntegrationConsumableCapacity, ``on_nodes``
    KueueDRADeviceFeasibility.
    """

    resources: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    capacities: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    extended: bool = True
    partitionable: bool = True
    consumable: bool = False
    on_nodes: bool = True

    def by_counter(self, device_class: str) -> tuple[Source, ...]:
        """The counters by which devices of this class count; none if they count by device."""
        return self.counters.get(device_class, ()) if self.partitionable else ()

    def by_capacity(self, device_class: str) -> tuple[Source, ...]:
        """The capacities by which devices of this class count."""
        return self.capacities.get(device_class, ()) if self.consumable else ()


def device_rules(mappings: Iterable[Raw], gates: Gates) -> DeviceRules:
    """Returns the rules of a Configuration. A class that two mappings name has the resource of the first, and the
    sources of both.
    """
    resources: dict[str, str] = {}
    counters: dict[str, tuple[Source, ...]] = {}
    capacities: dict[str, tuple[Source, ...]] = {}
    for mapping in mappings:
        for device_class in mapping.get("deviceClassNames") or ():
            resources.setdefault(device_class, mapping["name"])
            for source in mapping.get("sources") or ():
                for kind, found in (("counter", counters), ("capacity", capacities)):
                    if source.get(kind):
                        # The capacities of a class count as its resource, whichever mapping has them.
                        name = mapping["name"] if kind == "counter" else resources[device_class]
                        found[device_class] = (*found.get(device_class, ()), _source(name, source[kind]))
    return DeviceRules(
        resources,
        counters,
        capacities,
        extended=enabled("KueueDRAIntegrationExtendedResource", gates),
        partitionable=enabled("KueueDRAIntegrationPartitionableDevices", gates),
        consumable=enabled("KueueDRAIntegrationConsumableCapacity", gates),
        on_nodes=enabled("KueueDRADeviceFeasibility", gates),
    )


def _source(resource: str, raw: Raw) -> Source:
    selector = (raw.get("deviceSelector") or {}).get("cel") or {}
    return Source(resource, raw.get("driver") or "", raw.get("name") or "", selector.get("expression") or "")
