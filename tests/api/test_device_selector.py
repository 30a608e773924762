"""Selectors of devices: what they match, and that none takes long."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.device_selector import CelQuantity, DeviceDomains, DeviceSelector, SelectorError, compiled, version

DEVICE: dict[str, Any] = {
    "driver": "gpu.example.com",
    "attributes": DeviceDomains(
        {
            "gpu.example.com": {
                "model": "a100",
                "index": 3,
                "healthy": True,
                "firmware": version("1.10.2"),
                "nodes": ["x", "y"],
            }
        }
    ),
    "capacity": DeviceDomains({"gpu.example.com": {"memory": CelQuantity(Fraction(80 * 2**30))}}),
    "allowMultipleAllocations": False,
}
GPU = "device.attributes['gpu.example.com']"
MEMORY = "device.capacity['gpu.example.com'].memory"


def matches(source: str) -> bool:
    selector = compiled(source)
    assert isinstance(selector, DeviceSelector), selector
    return selector.matches(DEVICE)


@pytest.mark.parametrize(
    "source",
    [
        "device.driver == 'gpu.example.com'",
        f"{GPU}.model == 'a100' && {GPU}.index >= 3",
        f"{GPU}.index + 1 == 4 && {GPU}.index * 2 - 6 == 0 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1",
        f"!({GPU}.model in ['h100', 'l4'])",
        f"{GPU}.model.matches('^a[0-9]+$') && {GPU}.model.startsWith('a') && {GPU}.model.contains('10')",
        f"{MEMORY}.compareTo(quantity('80Gi')) == 0 && {MEMORY}.isGreaterThan(quantity('40Gi'))",
        f"{GPU}.firmware.isGreaterThan(semver('1.9.0')) && {GPU}.firmware.major() == 1",
        f"{GPU}.healthy ? true : false",
        "'gpu.example.com' in device.attributes && !('other' in device.attributes)",
        "!has(device.attributes['other'].model)",
        "device.attributes['other'].?model.orValue('none') == 'none'",
        f"{GPU}.nodes.exists(n, n == 'y') && {GPU}.nodes.all(n, size(n) == 1) && {GPU}.nodes.includes('x')",
        f"cel.bind(g, {GPU}, g.model == 'a100' && g.index == 3)",
        "false && device.attributes['other'].model == 'x' || true",
        "device.attributes['other'].model == 'x' || true",
        "!device.allowMultipleAllocations",
        "[1, 2, 3].filter(x, x > 1).size() == 2 && [1, 2].map(x, x + 1) == [2, 3]",
    ],
)
def test_a_device_is_selected(source: str) -> None:
    assert matches(source)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("device.attributes['other'].model == 'x'", "no such key: model"),
        (f"{GPU}.model > 3", "no such overload"),
        (f"{GPU}.model", "CEL result of type string could not be converted to bool"),
        ("1 / 0 == 1", "division by zero"),
        (f"{GPU}.model.compareTo(quantity('1'))  == 0", "no such overload"),
        (
            "[1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7, 8].all(b, [1, 2, 3, 4, 5, 6, 7].all(c, true)))",
            "cost",
        ),
        ("'a'.matches('(')", "error parsing regexp"),
    ],
)
def test_what_cannot_be_evaluated_has_the_reason(source: str, problem: str) -> None:
    with pytest.raises(SelectorError, match=problem.replace("(", r"\(")):
        matches(source)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "this is not valid CEL!!!",
            "compilation failed: ERROR: <input>:1:6: Syntax error: mismatched input 'is' expecting <EOF>\n"
            " | this is not valid CEL!!!\n | .....^",
        ),
        ("devise.driver == 'a'", "undeclared reference to 'devise' (in container '')"),
        ("device.diver == 'a'", "undefined field 'diver'"),
        ("device.driver.beginsWith('a')", "undeclared reference to 'beginsWith'"),
        ("'text'", "must evaluate to bool"),
        ("device.driver", "must evaluate to bool"),
        ("1 + 1", "must evaluate to bool"),
        ("(" * 5000, "compilation failed"),
        ("!-" * 3000 + "true", ""),
        ("true" + " || true" * 2000, "longer than 10240 characters"),
    ],
)
def test_a_mistake_is_found_before_a_device_is_looked_at(source: str, problem: str) -> None:
    found = compiled(source)
    assert isinstance(found, str)
    assert problem in found


@given(st.text(alphabet="devic.(attrbus[']\"x)=!&|<>?:{},+-*/% 0123456789", max_size=60))
def test_no_text_makes_it_fail(source: str) -> None:
    found = compiled(source)
    if isinstance(found, DeviceSelector):
        try:
            assert found.matches(DEVICE) in (True, False)
        except SelectorError as error:
            assert str(error)


def test_versions_are_ordered_as_semantic_versions() -> None:
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.2.0", "1.10.0"]
    assert sorted(ordered, key=lambda text: version(text).order) == ordered
