"""What one claim of a ResourceClaimTemplate counts for: devices by class, counters, capacities; or why that is
unknown, in Kueue's words.

The three are apart, because Kueue judges the claims of a whole workload by one before the next: which error a user
reads depends on it. Paths are relative to the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from api.device_selector import compiled
from api.errors import FieldError, aggregate, internal, invalid
from core.devices.mapping import DeviceRules, Source
from core.devices.matching import Matching, MatchResult, pools
from core.devices.model import EXACT_COUNT, ClaimTemplate, Device, DeviceClass, DeviceRequest, Slice
from core.steps import Steps

MOST: Final = 2**63 - 1
"""Amounts of devices stop here, as in Kueue."""
DeviceAmounts = Mapping[str, int]
_FAILED: Final = "CEL compilation failed"


@dataclass(frozen=True, slots=True)
class CountedClaims:
    """Amounts by resource, or the errors instead."""

    amounts: DeviceAmounts = field(default_factory=dict)
    errors: tuple[FieldError, ...] = ()
    unmapped: str = ""
    """The device class that the Configuration does not map."""


@dataclass(frozen=True, slots=True)
class ClaimCount:
    """What a claim counts for. ``classes`` are the device classes that it depends on, ``on_devices`` is whether it
    depends on the devices of the cluster.
    """

    devices: CountedClaims = CountedClaims()
    counters: CountedClaims = CountedClaims()
    capacities: CountedClaims = CountedClaims()
    classes: frozenset[str] = frozenset()
    on_devices: bool = False


@dataclass(frozen=True, slots=True)
class DeviceCluster:
    """What claims are counted against: ``slices`` in the order of their names."""

    rules: DeviceRules
    classes: Mapping[str, DeviceClass]
    slices: tuple[Slice, ...]
    matching: Matching

    def of_driver(self, driver: str) -> tuple[Slice, ...]:
        """The slices of a driver."""
        return tuple(each for each in self.slices if each.driver == driver)


class _FailedError(Exception):
    def __init__(self, *errors: FieldError) -> None:
        super().__init__()
        self.errors = errors


def claim_count(template: ClaimTemplate, cluster: DeviceCluster) -> Steps[ClaimCount]:
    """Returns what a claim of the template counts for."""
    requests = [each for each in template.requests if isinstance(each, DeviceRequest)]
    classes = frozenset(each.device_class for each in requests)
    by_source = any(cluster.rules.by_counter(name) or cluster.rules.by_capacity(name) for name in classes)
    devices = yield from _by_device(template, cluster)
    counters, capacities = CountedClaims(), CountedClaims()
    if not devices.errors and not devices.unmapped and by_source:
        counters = yield from _by_source(template, cluster, cluster.rules.by_counter, _counter_charge)
        capacities = yield from _by_source(template, cluster, cluster.rules.by_capacity, _capacity_charge)
    on_devices = by_source or any(each.selectors for each in requests)
    return ClaimCount(devices, counters, capacities, classes, on_devices)


# By device.


def _by_device(template: ClaimTemplate, cluster: DeviceCluster) -> Steps[CountedClaims]:
    try:
        wanted = _wanted(template)
    except _FailedError as failed:
        return CountedClaims(errors=_named(template, failed.errors))
    problems = yield from _unsatisfied(template, cluster)
    if problems:
        return CountedClaims(errors=_named(template, problems))
    rules = cluster.rules
    amounts: dict[str, int] = {}
    for name in sorted(wanted):
        resource = rules.resources.get(name)
        if resource is None:
            return CountedClaims(unmapped=name)
        if not rules.by_counter(name) and not rules.by_capacity(name):
            amounts[resource] = min(amounts.get(resource, 0) + wanted[name], MOST)
    return CountedClaims(amounts)


def _named(template: ClaimTemplate, errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    prefix = f"ResourceClaimTemplate {template.key.name}: "
    return tuple(FieldError(each.type, each.field, each.value, prefix + each.detail) for each in errors)


def _wanted(template: ClaimTemplate) -> DeviceAmounts:
    """Returns the number of devices of each class. Access for administrators takes no device."""
    found: dict[str, int] = {}
    for index, request in enumerate(template.requests):
        path = f"devices.requests[{index}]"
        if isinstance(request, str):
            raise _FailedError(invalid(path, None, request))
        wrong = _wrong_selectors(request.selectors, f"{path}.exactly.selectors", _FAILED)
        if wrong:
            raise _FailedError(invalid(f"{path}.exactly.selectors", None, aggregate(wrong)))
        if request.admin:
            continue
        if request.mode != EXACT_COUNT:
            text = "AllocationMode 'All' is not supported"
            known = text if request.mode == "All" else f"unsupported allocation mode: {request.mode}"
            raise _FailedError(invalid(f"{path}.exactly.allocationMode", request.mode, known))
        if request.device_class:
            found[request.device_class] = min(found.get(request.device_class, 0) + request.count, MOST)
    return found


def _wrong_selectors(selectors: Iterable[str], path: str, what: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{index}].cel.expression", expression, f"{what}: {wrong}")
        for index, expression in enumerate(selectors)
        if expression and isinstance(wrong := compiled(expression), str)
    ]


def _unsatisfied(template: ClaimTemplate, cluster: DeviceCluster) -> Steps[list[FieldError]]:
    """Returns the requests with selectors for which there are too few devices; a device serves one request."""
    asked = [
        (index, request)
        for index, request in enumerate(template.requests)
        if isinstance(request, DeviceRequest) and any(request.selectors)
    ]
    slices = _candidates([request.device_class for _, request in asked], cluster)
    taken: set[int] = set()
    problems: list[FieldError] = []
    for index, request in asked:
        path = f"devices.requests[{index}]"
        try:
            selectors = _class_selectors(request, cluster, path)
        except _FailedError as failed:
            problems += failed.errors
            continue
        results = yield from cluster.matching.results(slices, (*selectors, *request.selectors))
        matching, wrong = _first_that_match(results, taken, request.count)
        where = f"{path}.exactly.selectors"
        if wrong:
            text = f"CEL evaluation failed for DeviceClass {request.device_class}: {wrong}"
            problems.append(invalid(where, None, text))
        elif matching < request.count:
            text = f"insufficient matching devices for CEL selector in DeviceClass {request.device_class}"
            numbers = f"{matching} device(s) match in the cluster but {request.count} requested"
            problems.append(internal(where, f"{text}: {numbers}"))
    return problems


def _first_that_match(results: list[MatchResult], taken: set[int], wanted: int) -> tuple[int, str]:
    """Takes so many devices that match. Returns how many there are, and the error of a device before that."""
    matching = 0
    for place, result in enumerate(results):
        if place in taken or result is False:
            continue
        if isinstance(result, str):
            return matching, result
        taken.add(place)
        matching += 1
        if matching >= wanted:
            break
    return matching, ""


def _candidates(classes: Iterable[str], cluster: DeviceCluster) -> tuple[Slice, ...]:
    """Returns the slices whose devices are looked at: all, or those of the drivers that sources name if every class has
    sources.
    """
    drivers: dict[str, None] = {}
    for name in classes:
        sources = (*cluster.rules.counters.get(name, ()), *cluster.rules.capacities.get(name, ()))
        if not sources:
            return cluster.slices
        drivers.update(dict.fromkeys(source.driver for source in sources))
    return tuple(each for driver in drivers for each in cluster.of_driver(driver))


def _class_selectors(request: DeviceRequest, cluster: DeviceCluster, path: str) -> tuple[str, ...]:
    if not request.device_class:
        return ()
    known = cluster.classes.get(request.device_class)
    if known is None:
        missing = f'deviceclasses.resource.k8s.io "{request.device_class}" not found'
        raise _FailedError(internal(path, f"failed to get DeviceClass {request.device_class}: {missing}"))
    what = f"DeviceClass {request.device_class} has invalid CEL selector"
    if wrong := _wrong_selectors(known.selectors, path, what):
        raise _FailedError(wrong[0])
    return known.selectors


# By counter, and by capacity.

_Charge = Callable[[Source, DeviceRequest, list[Device], str], Fraction]


def _by_source(
    template: ClaimTemplate, cluster: DeviceCluster, sources: Callable[[str], tuple[Source, ...]], charge: _Charge
) -> Steps[CountedClaims]:
    amounts: dict[str, int] = {}
    try:
        for index, request in enumerate(template.requests):
            if isinstance(request, str) or request.admin:
                continue
            for source in sources(request.device_class):
                path = f"devices.requests[{index}]"
                devices = yield from _matched(request, source, cluster, path)
                if len(devices) < request.count:
                    kind = "counter" if charge is _counter_charge else "capacity"
                    text = f"insufficient matching devices for {kind} driver"
                    numbers = f"{len(devices)} device(s) match but {request.count} requested"
                    raise _FailedError(internal(path, f"{text}: {numbers}"))
                each = min(max(ceil(charge(source, request, devices, path)), 0), MOST)
                total = min(each * max(request.count, 1), MOST)
                amounts[source.resource] = min(amounts.get(source.resource, 0) + total, MOST)
    except _FailedError as failed:
        return CountedClaims(errors=failed.errors)
    return CountedClaims(amounts)


def _matched(request: DeviceRequest, source: Source, cluster: DeviceCluster, path: str) -> Steps[list[Device]]:
    """Returns the devices of complete pools that the source, the class and the request select."""
    selectors = _class_selectors(request, cluster, path)
    if wrong := _wrong_selectors(request.selectors, f"{path}.exactly.selectors", _FAILED):
        raise _FailedError(*wrong)
    if wrong := _wrong_selectors((source.selector,), path, "deviceSelector CEL compilation failed"):
        raise _FailedError(*wrong)
    slices = [each for pool in pools(cluster.slices, source.driver) for each in pool]
    devices = [device for each in slices for device in each.devices]
    left = list(range(len(devices)))
    groups = (("deviceSelector", (source.selector,)), ("DeviceClass selector", selectors))
    for what, expressions in (*groups, ("request selector", request.selectors)):
        results = yield from cluster.matching.results(slices, expressions)
        for place in left:
            if isinstance(result := results[place], str):
                text = f"CEL evaluation error in {what} for device {devices[place].name}: {result}"
                raise _FailedError(internal(path, text))
        left = [place for place in left if results[place]]
    return [devices[place] for place in left]


def _counter_charge(source: Source, request: DeviceRequest, devices: list[Device], path: str) -> Fraction:
    """The most that any of the devices consumes of the counter."""
    found = [amount for device in devices for name, amount in device.counters if name == source.name]
    if not found:
        text = f'matched devices have no consumesCounters entry for counter "{source.name}"'
        raise _FailedError(internal(path, text))
    return max(found)


def _capacity_charge(source: Source, request: DeviceRequest, devices: list[Device], path: str) -> Fraction:
    """The most that any of the devices would give of the capacity: what is asked for, or its default, or all of it, in
    the amounts that it allows.
    """
    offered = [found for device in devices if (found := device.capacities.get(source.name)) is not None]
    if not offered:
        raise _FailedError(internal(path, f'matched devices have no capacity dimension "{source.name}"'))
    charges = []
    for capacity in offered:
        asked = request.capacity.get(source.name)
        base = asked if asked is not None else capacity.value if capacity.default is None else capacity.default
        if capacity.values:
            charges += list(_smallest_above(base, capacity.values))
        else:
            charges += list(_in_range(base, capacity.minimum, capacity.maximum, capacity.step))
    if not charges:
        text = "capacity request cannot be satisfied by any matched device's RequestPolicy for dimension"
        raise _FailedError(invalid(path, None, f'{text} "{source.name}"'))
    return max(charges)


def _smallest_above(base: Fraction, values: Iterable[Fraction]) -> Iterator[Fraction]:
    """Yields the first valid value that is enough; they are in ascending order."""
    yield from [value for value in values if value >= base][:1]


def _in_range(
    base: Fraction, least: Fraction | None, most: Fraction | None, step: Fraction | None
) -> Iterator[Fraction]:
    """Yields the amount that a range gives for a base: at least the minimum, in steps from it; none above the
    maximum.
    """
    if least is None and most is None and step is None:
        yield base
        return
    found = ceil(base)
    if least is not None:
        lowest = ceil(least)
        found = max(found, lowest)
        if step is not None and ceil(step) > 0:
            found = lowest + -(-(found - lowest) // ceil(step)) * ceil(step)
    if most is None or found <= ceil(most):
        yield Fraction(found)
