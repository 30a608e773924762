"""The rules of `resources.deviceClassMappings`: each device class counts as one resource, or by several counters."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from api import device_selector, syntax
from api.configuration.resources import DeviceAmount, DeviceClassMapping
from api.errors import FieldError, duplicate, invalid, required

PATH: Final = "resources.deviceClassMappings"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_LONGEST_DRIVER: Final = 63


def check(mappings: list[DeviceClassMapping], gates: Mapping[str, bool]) -> Iterator[FieldError]:
    """Returns everything that does not fit together."""
    names: set[str] = set()
    mapped: dict[str, str] = {}
    counted: dict[str, set[str]] = {}
    for index, mapping in enumerate(mappings):
        path = f"{PATH}[{index}]"
        yield from syntax.checked(f"{path}.name", mapping.name, syntax.qualified_name)
        if mapping.name in names:
            yield duplicate(f"{path}.name", mapping.name)
        names.add(mapping.name)
        yield from _classes(path, mapping, mapped, counted)
        yield from _sources(f"{path}.sources", mapping, gates)


def _classes(
    path: str, mapping: DeviceClassMapping, mapped: dict[str, str], counted: dict[str, set[str]]
) -> Iterator[FieldError]:
    """A class may be in several mappings only if each of them counts another counter of its devices."""
    counter = next((each.counter.name for each in mapping.sources if each.counter is not None), "")
    seen: set[str] = set()
    for place, name in enumerate(mapping.device_class_names):
        where = f"{path}.deviceClassNames[{place}]"
        yield from syntax.checked(where, name, syntax.qualified_name)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)
        before = mapped.setdefault(name, mapping.name)
        if before != mapping.name:
            if not counter or not counted[name]:
                yield invalid(where, name, f"device class already mapped to resource {before}")
            elif counter in counted[name]:
                yield invalid(where, name, f'device class already has a counter source for counter "{counter}"')
        counted.setdefault(name, set()).update({counter} - {""})


def _sources(path: str, mapping: DeviceClassMapping, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    for place, source in enumerate(mapping.sources):
        where = f"{path}[{place}]"
        if (source.counter is None) == (source.capacity is None):
            yield required(where, "exactly one source type must be set per entry")
        for kind, found, gate in (
            ("counter", source.counter, "KueueDRAIntegrationPartitionableDevices"),
            ("capacity", source.capacity, "KueueDRAIntegrationConsumableCapacity"),
        ):
            if found is not None and not gates[gate]:
                yield invalid(f"{where}.{kind}", True, f"{kind} sources require {gate} to be enabled")
            elif found is not None:
                yield from _amount(f"{where}.{kind}", found, counter=kind == "counter")
    if any(each.counter for each in mapping.sources) and any(each.capacity for each in mapping.sources):
        yield invalid(path, len(mapping.sources), "cannot mix counter and capacity sources in the same mapping")


def _amount(path: str, found: DeviceAmount, *, counter: bool) -> Iterator[FieldError]:
    if not found.name:
        yield required(f"{path}.name")
    elif counter:
        yield from syntax.checked(f"{path}.name", found.name, syntax.dns1123_label)
    else:
        yield from _qualified(f"{path}.name", found.name)
    if not found.driver:
        yield required(f"{path}.driver")
    elif len(found.driver) > _LONGEST_DRIVER:
        yield invalid(f"{path}.driver", found.driver, f"must not exceed {_LONGEST_DRIVER} characters")
    else:
        yield from syntax.checked(f"{path}.driver", found.driver, syntax.dns1123_subdomain)
    where, cel = f"{path}.deviceSelector.cel.expression", found.device_selector.cel
    if cel is None or not cel.expression:
        yield required(where)
    elif isinstance(wrong := device_selector.compiled(cel.expression), str):
        yield invalid(where, cel.expression, f"CEL compilation failed: {wrong}")


def _qualified(path: str, name: str) -> Iterator[FieldError]:
    """A capacity is named by an identifier, which may have a domain before it."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from syntax.checked(path, domain, syntax.dns1123_subdomain)
    if not _IDENTIFIER.fullmatch(identifier):
        yield invalid(path, identifier, "must be an identifier of at most 32 letters, digits and _")
