"""`resources.deviceClassMappings`: what can be combined, in Kueue's texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.configuration.load import ConfigurationError, load

CAPACITY = {"KueueDRAIntegrationConsumableCapacity": True}
SELECTOR = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}


def source(kind: str = "counter", **changed: Any) -> dict[str, Any]:
    found = {"name": "memory", "driver": "gpu.example.com", "deviceSelector": SELECTOR, **changed}
    return {kind: {name: each for name, each in found.items() if each is not None}}


def mapping(name: str, *classes: str, sources: list[Any] | None = None) -> dict[str, Any]:
    return {"name": name, "deviceClassNames": list(classes), "sources": sources or []}


def problems(*mappings: Any, gates: dict[str, bool] | None = None) -> list[str]:
    text = {"resources": {"deviceClassMappings": list(mappings)}, "featureGates": gates or {}}
    try:
        load(json.dumps(text))
    except ConfigurationError as error:
        return [str(each).removeprefix("resources.deviceClassMappings") for each in error.errors]
    return []


@pytest.mark.parametrize(
    ("mappings", "found"),
    [
        ([mapping("gpus", "gpu.example.com", "other.example.com")], []),
        ([mapping("gpus", "a"), mapping("gpus", "b")], ['[1].name: Duplicate value: "gpus"']),
        ([mapping("gpus", "a", "a")], ['[0].deviceClassNames[1]: Duplicate value: "a"']),
        (
            [mapping("one", "a"), mapping("two", "a")],
            ['[1].deviceClassNames[0]: Invalid value: "a": device class already mapped to resource one'],
        ),
        ([mapping("one", "a", sources=[source()]), mapping("two", "a", sources=[source(name="cores")])], []),
        (
            [mapping("one", "a", sources=[source()]), mapping("two", "a", sources=[source()])],
            [
                '[1].deviceClassNames[0]: Invalid value: "a": device class already has a counter source for counter'
                ' "memory"'
            ],
        ),
        (
            [mapping("gpus", "a", sources=[{}])],
            ["[0].sources[0]: Required value: exactly one source type must be set per entry"],
        ),
        ([mapping("gpus", "a", sources=[source(driver=None)])], ["[0].sources[0].counter.driver: Required value"]),
        (
            [mapping("gpus", "a", sources=[source(deviceSelector={})])],
            ["[0].sources[0].counter.deviceSelector.cel.expression: Required value"],
        ),
        (
            [mapping("gpus", "a", sources=[source("capacity")])],
            [
                "[0].sources[0].capacity: Invalid value: true: capacity sources require"
                " KueueDRAIntegrationConsumableCapacity to be enabled"
            ],
        ),
    ],
)
def test_what_can_be_combined(mappings: list[Any], found: list[str]) -> None:
    assert problems(*mappings) == found


def test_a_capacity_is_an_identifier() -> None:
    assert problems(mapping("g", "a", sources=[source("capacity", name="x.io/memory")]), gates=CAPACITY) == []
    assert problems(mapping("g", "a", sources=[source("capacity", name="7-up")]), gates=CAPACITY) == [
        '[0].sources[0].capacity.name: Invalid value: "7-up": must be an identifier of at most 32 letters, digits and _'
    ]


def test_a_mapping_has_sources_of_one_kind() -> None:
    both = mapping("g", "a", sources=[source(), source("capacity")])
    assert problems(both, gates=CAPACITY) == [
        "[0].sources: Invalid value: 2: cannot mix counter and capacity sources in the same mapping"
    ]


def test_a_counter_needs_its_gate() -> None:
    off = {"KueueDRAIntegrationPartitionableDevices": False}
    assert problems(mapping("g", "a", sources=[source()]), gates=off) == [
        "[0].sources[0].counter: Invalid value: true: counter sources require KueueDRAIntegrationPartitionableDevices"
        " to be enabled"
    ]


def test_a_selector_must_compile() -> None:
    wrong = source(deviceSelector={"cel": {"expression": "devise.driver == 'x'"}})
    (found,) = problems(mapping("g", "a", sources=[wrong]))
    assert "CEL compilation failed: compilation failed: ERROR: <input>:1:1: undeclared reference to 'devise'" in found
