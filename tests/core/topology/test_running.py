"""Pods that run stay where they are: elastic jobs, and the replacement of a failed node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.model import TopologyAssignment, TopologyDomain
from core.topology import Asked, Domains, Options, replacement
from tests.core.topology.worlds import BLOCK, HOST, RACK, asked, domains, placed, shown

ELASTIC = Options(elastic=True)


def assigned(counts: Mapping[str, int]) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(TopologyDomain((name,), count) for name, count in counts.items()))


def replaced(where: Domains, request: Asked, before: Mapping[str, int], failed: str) -> dict[str, Any]:
    """The new assignment when a node failed; what the pods use counts already."""
    for name, count in before.items():
        where.add((name,), request.per_pod, count)
    found = replacement(where, [request], {"main": assigned(before)}, failed, Options())
    return {name: shown(each) for name, each in found.items()}


def test_only_the_new_pods_of_an_elastic_job_are_placed() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r1/x2": 9})
    request = asked(5, unconstrained=True, previous=assigned({"x2": 2}))
    assert placed(here, request, options=ELASTIC) == {"main": {"x1": 3, "x2": 2}}


def test_an_elastic_job_loses_the_last_pods_of_the_stored_order() -> None:
    here = domains({"b1/r1/x1": 9, "b1/r1/x2": 9})
    request = asked(3, unconstrained=True, previous=assigned({"x2": 2, "x1": 4}))
    assert placed(here, request, options=ELASTIC) == {"main": {"x2": 2, "x1": 1}}


def test_a_vanished_node_places_an_elastic_job_anew() -> None:
    here = domains({"b1/r1/x1": 9})
    request = asked(3, unconstrained=True, previous=assigned({"x2": 2}))
    assert placed(here, request, options=ELASTIC) == {"main": {"x1": 3}}


def test_without_the_gate_a_slice_is_placed_anew() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r1/x2": 9})
    request = asked(3, unconstrained=True, previous=assigned({"x2": 2}))
    assert placed(here, request) == {"main": {"x1": 3}}


def test_the_pods_of_a_failed_node_stay_in_the_required_domain() -> None:
    here = domains({"b1/r1/x1": 2, "b1/r1/x3": 2, "b1/r2/x4": 1})
    request = asked(3, required=RACK)
    assert replaced(here, request, {"x1": 2, "x2": 1}, "x2") == {"main": {"x1": 2, "x3": 1}}


def test_a_required_domain_without_room_fails() -> None:
    here = domains({"b1/r1/x1": 2, "b1/r2/x4": 1})
    text = (
        'topology "default" doesn\'t allow to fit any of 1 pod(s).'
        ' Total nodes: 2; excluded: resource "cpu": 1, topologyDomain: 1'
    )
    assert replaced(here, asked(3, required=RACK), {"x1": 2, "x2": 1}, "x2") == {"main": text}


def test_preferred_pods_of_a_failed_node_go_anywhere() -> None:
    here = domains({"b1/r1/x1": 2, "b2/r2/x4": 1})
    assert replaced(here, asked(3, preferred=RACK), {"x1": 2, "x2": 1}, "x2") == {"main": {"x1": 2, "x4": 1}}


def test_a_cut_slice_is_completed_where_it_is() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r2/x3": 2, "b1/r2/x4": 1})
    request = asked(4, required=BLOCK, slices=((RACK, 2),))
    assert replaced(here, request, {"x1": 2, "x3": 1, "x2": 1}, "x2") == {"main": {"x1": 2, "x3": 2}}


def test_an_assignment_with_another_vanished_node_is_not_repaired() -> None:
    here = domains({"b1/r1/x1": 3})
    text = (
        "Cannot replace the node, because the existing topologyAssignment is invalid,"
        " as it contains the stale domain x3"
    )
    assert replaced(here, asked(3, preferred=RACK), {"x1": 1, "x2": 1, "x3": 1}, "x2") == {"main": text}


def test_pod_sets_on_other_nodes_are_left_alone() -> None:
    assert replaced(domains({"b1/r1/x1": 3}), asked(1, required=RACK), {"x1": 1}, "x2") == {}
