"""Workloads of one service on several domains: which take one more, and which of them comes first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from api.topology_spreading import ONE
from core.model import SpreadRule
from core.topology import Domains
from core.topology.spread import DomainAt, Spread, domains_of
from tests.core.topology.worlds import BLOCK, HOST, RACK, asked, domains, placed


def rule(level: str, share: float, *, required: bool = True) -> SpreadRule:
    return SpreadRule(level, int(share * ONE), required)


def spread(here: Domains, on: Mapping[str, int], *rules: SpreadRule) -> Spread:
    """The rules where so many workloads have their pods on each of these hosts."""
    standing: dict[DomainAt, int] = {}
    for host, count in on.items():
        for each in domains_of(here.tree, [(host,)]):
            standing[each] = standing.get(each, 0) + count
    return Spread(tuple(rules), standing)


def host(here: Domains, on: Mapping[str, int], *rules: SpreadRule, level: str = RACK, pods: int = 1) -> str:
    """Where a workload is placed, or why it is not."""
    found = placed(here, asked(pods, required=level, spread=spread(here, on, *rules)))["main"]
    return "+".join(found) if isinstance(found, dict) else str(found)


ROOM = {"b1/r1/x1": 8, "b2/r2/x2": 8, "b3/r3/x3": 8}


def test_the_table_of_kep_13746() -> None:
    here, on = domains(ROOM), {"x1": 0, "x2": 0, "x3": 0}
    chosen = []
    for _ in range(6):
        found = host(here, {name: count for name, count in on.items() if count}, rule(BLOCK, 0.34), level=BLOCK)
        on[found] += 1
        chosen.append(found)
    assert chosen == ["x1", "x2", "x3", "x1", "x2", "x3"]


def test_nothing_there_excludes_nothing() -> None:
    assert host(domains(ROOM), {}, rule(BLOCK, 0.01)) == "x1"


def test_a_share_that_is_reached_is_not_exceeded() -> None:
    here = domains(ROOM)
    assert host(here, {"x1": 1, "x2": 1}, rule(BLOCK, 0.5), level=BLOCK) == "x1"
    assert host(here, {"x1": 1, "x2": 1}, rule(BLOCK, 0.49), level=BLOCK) == "x3"


def test_all_domains_may_be_excluded() -> None:
    here = domains({"b1/r1/x1": 8, "b2/r2/x2": 8})
    text = "topology spreading excludes all topology domains at level: block"
    assert host(here, {"x1": 1, "x2": 1}, rule(BLOCK, 0.4), level=BLOCK) == text


def test_a_domain_in_use_comes_before_a_free_one() -> None:
    assert host(domains(ROOM), {"x2": 1, "x3": 1}, rule(BLOCK, 0.5), level=BLOCK) == "x2"


def test_of_domains_alike_the_smallest_that_is_enough_is_taken() -> None:
    here = domains({"b1/r1/x1": 8, "b2/r2/x2": 4, "b3/r3/x3": 8})
    assert host(here, {"x3": 1}, rule(BLOCK, 0.5), level=BLOCK, pods=2) == "x2"


def test_a_domain_without_room_leaves_it_to_the_next() -> None:
    here = domains({"b1/r1/x1": 1, "b2/r2/x2": 8})
    assert host(here, {"x1": 1}, rule(BLOCK, 0.9, required=False), level=BLOCK, pods=2) == "x2"
    text = 'topology "default" allows to fit only 1 out of 2 pod(s)'
    assert host(here, {"x2": 1}, rule(BLOCK, 0.9), level=BLOCK, pods=2) == text


@pytest.mark.parametrize(("on", "expected"), [({"x1": 1}, "x2"), ({"x1": 2, "x2": 1, "x3": 3}, "x2")])
def test_a_preferred_rule_takes_domains_beyond_their_share_last(on: dict[str, int], expected: str) -> None:
    assert host(domains(ROOM), on, rule(BLOCK, 0.1, required=False), level=BLOCK) == expected


def test_a_rule_of_a_higher_level_excludes_what_is_below() -> None:
    here = domains({"b1/r1/x1": 8, "b1/r2/x2": 8, "b2/r3/x3": 8})
    assert host(here, {"x1": 1}, rule(BLOCK, 0.5)) == "x3"
    assert host(here, {"x1": 1, "x3": 1}, rule(BLOCK, 0.5), rule(RACK, 0.5)) == "x2", (
        "the share of a rack is of its block"
    )


def test_a_rule_below_the_level_that_is_asked_for_cannot_be_kept() -> None:
    text = "topology spreading level rack is below the podset topology block"
    assert host(domains(ROOM), {}, rule(RACK, 0.5), level=BLOCK) == text


def test_a_rule_for_a_level_of_another_topology_has_no_effect() -> None:
    assert host(domains(ROOM), {"x1": 1}, rule("zone", 0.5)) == "x1"


def test_hosts_are_a_level_too() -> None:
    here = domains({"b1/r1/x1": 8, "b1/r1/x2": 8})
    assert host(here, {"x1": 1}, rule(HOST, 0.5), level=HOST) == "x2"
