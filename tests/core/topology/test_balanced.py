"""Balanced placement, with the examples of KEP 2724."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from core.topology import Options
from tests.core.topology.worlds import BLOCK, HOST, RACK, asked, domains, placed

BALANCED = Options(balanced=True)


def hosts(*blocks: list[list[int]]) -> dict[str, int]:
    """Nodes with so much cpu, by block and rack."""
    number, found = 0, {}
    for block, racks in enumerate(blocks):
        for rack, cpus in enumerate(racks):
            for cpu in cpus:
                number += 1
                found[f"b{block}/r{rack}/x{number}"] = cpu
    return found


@pytest.mark.parametrize(
    ("nodes", "count", "slices", "expected"),
    [
        pytest.param(hosts([[15], [15]]), 25, (), {"x1": 13, "x2": 12}, id="two racks"),
        pytest.param(hosts([[15, 13, 10]]), 23, (), {"x1": 12, "x2": 11}, id="two of three hosts"),
        pytest.param(hosts([[20, 10], [15, 15]]), 22, (), {"x3": 11, "x4": 11}, id="the more even rack"),
        pytest.param(hosts([[20, 10], [15, 15]]), 20, (), {"x1": 20}, id="one host is enough"),
        pytest.param(hosts([[10, 5], [5, 5, 5]]), 15, (), {"x3": 5, "x4": 5, "x5": 5}, id="even hosts"),
        pytest.param(hosts([[15], [15]], [[15, 15]]), 25, (), {"x3": 13, "x4": 12}, id="one rack of another block"),
        pytest.param(hosts([[15], [15], [15, 15]]), 25, ((HOST, 5),), {"x3": 15, "x4": 10}, id="slices"),
    ],
)
def test_pods_spread_evenly_over_the_fewest_hosts(
    nodes: dict[str, int], count: int, slices: Any, expected: dict[str, int]
) -> None:
    found = placed(domains(nodes), asked(count, preferred=RACK, slices=slices), options=BALANCED)
    assert found == {"main": expected}


def test_required_is_not_balanced() -> None:
    found = placed(domains(hosts([[15, 13, 10]])), asked(23, required=RACK), options=BALANCED)
    assert found == {"main": {"x1": 15, "x3": 8}}


def test_pods_that_fit_no_block_are_placed_by_best_fit() -> None:
    found = placed(domains(hosts([[4]], [[4]])), asked(6, preferred=RACK), options=BALANCED)
    assert found == {"main": {"x1": 4, "x2": 2}}


def test_the_lowest_level_is_balanced_alone() -> None:
    found = placed(domains(hosts([[6, 5, 4]])), asked(10, preferred=HOST), options=BALANCED)
    assert found == {"main": {"x1": 5, "x2": 5}}


def test_the_highest_level_looks_at_all_domains() -> None:
    found = placed(domains(hosts([[6]], [[6]])), asked(10, preferred=BLOCK), options=BALANCED)
    assert found == {"main": {"x1": 5, "x2": 5}}


def test_among_racks_with_as_many_slices_the_one_with_fewer_pods_is_chosen() -> None:
    here = domains(hosts([[2, 4], [4]]))
    assert placed(here, asked(4, preferred=BLOCK, slices=((RACK, 4),)), options=BALANCED) == {"main": {"x3": 4}}


def test_too_many_different_domains_to_compare_are_taken_from_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = hosts([list(range(3, 40))])
    request = asked(120, preferred=HOST)
    compared = placed(domains(nodes), request, options=BALANCED)["main"]
    monkeypatch.setattr(importlib.import_module("core.topology.balanced"), "MOST_STEPS", 0)
    taken = placed(domains(nodes), request, options=BALANCED)["main"]
    assert sum(taken.values()) == sum(compared.values()) == 120
    assert len(taken) == len(compared)
    assert max(taken.values()) - min(taken.values()) <= 1
