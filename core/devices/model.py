"""What is read of ResourceClaimTemplates, DeviceClasses and ResourceSlices (resource.k8s.io/v1).

Values of the API server were checked by it; those of files that ``simulate`` reads may be anything, so a part that
cannot be read is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from api import quantity
from api.device_selector import CelQuantity, DeviceDomains, SelectorError, version
from api.objects import Key, Raw, key_of


class DeviceRequest(Struct, frozen=True, gc=False):
    """``exactly`` of a request of devices. ``selectors`` are the expressions, '' for one that is not in CEL;
    ``capacity`` has the amounts that are asked of each device.
    """

    device_class: str
    count: int
    mode: str
    admin: bool = False
    selectors: tuple[str, ...] = ()
    capacity: Mapping[str, Fraction] = {}


class ClaimTemplate(Struct, frozen=True, gc=False):
    """A ResourceClaimTemplate: its requests; a text instead of one that is not supported, the reason. ``created`` is
    the text of its time.
    """

    key: Key
    requests: tuple[DeviceRequest | str, ...]
    created: str = ""


class DeviceClass(Struct, frozen=True, gc=False):
    """A DeviceClass; ``created`` is the text of its time, which sorts as the time does."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: str = ""


class DeviceCapacity(Struct, frozen=True, gc=False):
    """A capacity of a device: its amount, and the amounts that may be asked for. ``values`` are the valid ones,
    ``minimum``, ``step`` and ``maximum`` a range instead.
    """

    value: Fraction
    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    step: Fraction | None = None


class Device(Struct, frozen=True):
    """A device. ``variables`` is what selectors see as ``device``; ``counters`` what it consumes of shared counters, by
    name, once for each set that has it.
    """

    name: str
    variables: Mapping[str, Any]
    capacities: Mapping[str, DeviceCapacity] = {}
    counters: tuple[tuple[str, Fraction], ...] = ()


class Slice(Struct, frozen=True):
    """A ResourceSlice: some devices of a pool, which is complete when ``slices`` of the newest generation are there."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    node: str
    devices: tuple[Device, ...]


FIRST_AVAILABLE = "FirstAvailable device selection is not supported"
NO_REQUEST = "Exactly must be set if FirstAvailable is nil"
EXACT_COUNT = "ExactCount"


def claim_template(raw: Raw) -> ClaimTemplate:
    """A ResourceClaimTemplate."""
    devices = ((raw.get("spec") or {}).get("spec") or {}).get("devices") or {}
    requests = tuple(_request(each) for each in devices.get("requests") or ())
    return ClaimTemplate(key_of(raw), requests, raw["metadata"].get("creationTimestamp") or "")


def device_class(raw: Raw) -> DeviceClass:
    """A DeviceClass."""
    spec, metadata = raw.get("spec") or {}, raw["metadata"]
    return DeviceClass(
        metadata["name"],
        _selectors(spec.get("selectors")),
        spec.get("extendedResourceName") or "",
        metadata.get("creationTimestamp") or "",
    )


def resource_slice(raw: Raw) -> Slice:
    """A ResourceSlice."""
    spec = raw.get("spec") or {}
    pool, driver = spec.get("pool") or {}, spec.get("driver") or ""
    return Slice(
        raw["metadata"]["name"],
        driver,
        pool.get("name") or "",
        pool.get("generation") or 0,
        pool.get("resourceSliceCount") or 0,
        spec.get("nodeName") or "",
        tuple(_device(each, driver) for each in spec.get("devices") or ()),
    )


def _request(raw: Raw) -> DeviceRequest | str:
    if raw.get("firstAvailable") is not None:
        return FIRST_AVAILABLE
    exactly = raw.get("exactly")
    if exactly is None:
        return NO_REQUEST
    mode = exactly.get("allocationMode") or EXACT_COUNT
    asked = (exactly.get("capacity") or {}).get("requests") or {}
    return DeviceRequest(
        exactly.get("deviceClassName") or "",
        exactly.get("count") or (1 if mode == EXACT_COUNT else 0),
        mode,
        bool(exactly.get("adminAccess")),
        _selectors(exactly.get("selectors")),
        _amounts(asked),
    )


def _selectors(raw: Iterable[Raw] | None) -> tuple[str, ...]:
    return tuple((each.get("cel") or {}).get("expression") or "" for each in raw or ())


def _device(raw: Raw, driver: str) -> Device:
    capacities = {name: found for name, each in (raw.get("capacity") or {}).items() if (found := _capacity(each))}
    variables = {
        "driver": driver,
        "attributes": _domains(
            {name: _attribute(each) for name, each in (raw.get("attributes") or {}).items()}, driver
        ),
        "capacity": _domains({name: CelQuantity(each.value) for name, each in capacities.items()}, driver),
        "allowMultipleAllocations": bool(raw.get("allowMultipleAllocations")),
    }
    counters = (
        (name, amount)
        for consumed in raw.get("consumesCounters") or ()
        for name, amount in _amounts(
            {name: each.get("value") for name, each in (consumed.get("counters") or {}).items()}
        ).items()
    )
    return Device(raw.get("name") or "", variables, capacities, tuple(counters))


def _domains(values: Mapping[str, Any], driver: str) -> DeviceDomains:
    """The values by domain and name; a name without a domain belongs to the driver."""
    found = DeviceDomains()
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        where = found.setdefault(domain if slash else driver, {})
        where[identifier if slash else name] = value  # type: ignore[index]
    return found


def _attribute(raw: Raw) -> Any:
    """The value of an attribute: a text, a number, a boolean, a version, or a list of these."""
    if "version" in raw or "versions" in raw:
        with contextlib.suppress(SelectorError, TypeError):
            return version(raw["version"]) if "version" in raw else [version(each) for each in raw["versions"]]
        return None
    return next(iter(raw.values()), None)


def _capacity(raw: Raw) -> DeviceCapacity | None:
    policy = raw.get("requestPolicy") or {}
    span = policy.get("validRange") or {}
    amounts = _amounts({"value": raw.get("value"), "default": policy.get("default"), **span})
    if "value" not in amounts:
        return None
    values = [_amounts({"": each}).get("") for each in policy.get("validValues") or ()]
    return DeviceCapacity(
        amounts["value"],
        amounts.get("default"),
        tuple(each for each in values if each is not None),
        amounts.get("min"),
        amounts.get("max"),
        amounts.get("step"),
    )


def _amounts(raw: Mapping[str, Any]) -> dict[str, Fraction]:
    found = {}
    for name, value in raw.items():
        with contextlib.suppress(ValueError):
            found[name] = quantity.exact(value)
    return found
