"""Which domains are chosen, rule by rule."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from core.model import Node, Placement, Requirement, Taint, Toleration
from core.model.kubernetes import NODE_NAME
from core.topology import Domains, Options, place
from tests.core.topology.worlds import BLOCK, FLAVOR, HOST, LEVELS, RACK, asked, domains, node, placed


def test_required_takes_the_domain_with_the_least_room_that_is_enough() -> None:
    here = domains({"b1/r1/x1": 8, "b1/r2/x2": 3, "b1/r2/x3": 2, "b2/r3/x4": 4})
    assert placed(here, asked(4, required=RACK)) == {"main": {"x4": 4}}


def test_the_first_domain_by_path_is_chosen_among_equal_ones() -> None:
    assert placed(domains({"b2/r1/x1": 4, "b1/r1/x2": 4}), asked(4, required=RACK)) == {"main": {"x2": 4}}


def test_required_does_not_fit_into_two_domains() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r2/x2": 2})
    text = 'topology "default" allows to fit only 3 out of 4 pod(s)'
    assert placed(here, asked(4, required=RACK)) == {"main": text}


def test_preferred_goes_one_level_up_where_no_domain_is_enough() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r2/x2": 2, "b2/r3/x3": 2})
    assert placed(here, asked(5, preferred=RACK)) == {"main": {"x1": 3, "x2": 2}}


def test_answers_that_name_many_domains_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("core.topology.place"), "MOST_ANSWERED", 5)
    here = domains({"b1/r1/x1": 1, "b1/r2/x2": 1, "b2/r3/x3": 1})
    for count in (3, 2, 1, 4):
        place(here, [asked(count, unconstrained=True)], Options())
    assert len(here.answers) == 3, "those of 3, 2, and of 4, which do not fit"
    assert here.answers.domains == 5


@pytest.mark.parametrize(
    "placement",
    [
        Placement({}, tuple((Requirement(HOST, "NotIn", (f"x{n}",)),) for n in range(1000))),
        Placement({}, ((Requirement(HOST, "In", tuple(f"x{n}" for n in range(100_000))),),)),
        Placement({}, None, tuple(Toleration(f"k{n}") for n in range(10_000))),
    ],
    ids=["terms", "values", "tolerations"],
)
def test_more_than_can_be_compared_with_each_node_is_refused(placement: Placement) -> None:
    here = domains({"b1/r1/x1": 8})
    [found] = placed(here, asked(1, required=RACK, placement=placement)).values()
    assert "has too many node affinity requirements and tolerations" in found


def test_preferred_takes_several_domains_of_the_highest_level_at_last() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r2/x2": 2, "b2/r3/x3": 2, "b3/r4/x4": 1})
    assert placed(here, asked(6, preferred=RACK)) == {"main": {"x1": 3, "x2": 2, "x4": 1}}


def test_best_fit_exchanges_the_last_domain_for_the_smallest_that_is_enough() -> None:
    here = domains({"b1/r1/x1": 4, "b1/r1/x2": 3, "b1/r1/x3": 1})
    assert placed(here, asked(5, required=RACK)) == {"main": {"x1": 4, "x3": 1}}


def test_unconstrained_fills_the_smallest_gaps_first() -> None:
    here = domains({"b1/r1/x1": 8, "b1/r1/x2": 1, "b2/r2/x3": 2})
    assert placed(here, asked(3, unconstrained=True)) == {"main": {"x1": 3}}
    assert placed(here, asked(9, unconstrained=True)) == {"main": {"x1": 6, "x2": 1, "x3": 2}}


def test_without_the_mixed_profile_unconstrained_is_best_fit() -> None:
    here = domains({"b1/r1/x1": 8, "b1/r1/x2": 1, "b2/r2/x3": 2})
    found = placed(here, asked(9, unconstrained=True), options=Options(mixed_profile=False))
    assert found == {"main": {"x1": 8, "x2": 1}}


def test_a_slice_is_never_spread_over_two_domains_of_its_level() -> None:
    here = domains({"b1/r1/x1": 5, "b1/r2/x2": 5, "b1/r3/x3": 3})
    assert placed(here, asked(8, required=BLOCK, slices=((RACK, 4),))) == {"main": {"x1": 4, "x2": 4}}
    text = 'topology "default" allows to fit only 2 out of 3 slice(s)'
    assert placed(here, asked(12, required=BLOCK, slices=((RACK, 4),))) == {"main": text}


def test_inner_slices_round_down_what_a_host_holds() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r1/x2": 3, "b1/r2/x3": 2, "b1/r2/x4": 2})
    assert placed(here, asked(4, required=BLOCK, slices=((RACK, 4), (HOST, 2)))) == {"main": {"x1": 2, "x2": 2}}


def test_the_leader_is_in_the_domain_of_its_workers() -> None:
    here = domains({"b1/r1/x1": 4, "b1/r1/x2": 2, "b2/r2/x3": 5})
    workers = asked(5, name="workers", required=RACK, group="g")
    leader = asked(1, name="leader", cpu=1, required=RACK, group="g")
    assert placed(here, leader, workers) == {"workers": {"x1": 3, "x2": 2}, "leader": {"x1": 1}}


def test_a_group_of_three_pod_sets_is_not_placed() -> None:
    """Kinds whose groups Kueue does not check at the create may have one: e.g. a TFJob."""
    here = domains({"b1/r1/x1": 9})
    three = [asked(1, name=name, required=RACK, group="g") for name in ("chief", "ps", "worker")]
    text = "can only place groups of at most 2 pod sets, got: 3 pod set(s)"
    assert placed(here, *three) == dict.fromkeys(("chief", "ps", "worker"), text)


def test_a_group_without_a_single_leader_is_not_placed() -> None:
    """A leader has one domain: further pods of it would never get one."""
    here = domains({"b1/r1/x1": 9})
    three = asked(3, name="lead", required=RACK, group="g")
    four = asked(4, name="work", required=RACK, group="g")
    text = "can only place groups where one pod set has 1 pod, got: 3, 4"
    assert placed(here, three, four) == {"lead": text, "work": text}


def test_a_pod_set_sees_what_those_before_it_take() -> None:
    here = domains({"b1/r1/x1": 4, "b1/r1/x2": 3})
    found = placed(here, asked(3, name="a", required=HOST), asked(3, name="b", required=HOST))
    assert found == {"a": {"x2": 3}, "b": {"x1": 3}}


def test_pod_sets_after_one_that_does_not_fit_are_left_out() -> None:
    here = domains({"b1/r1/x1": 4})
    assert list(placed(here, asked(5, name="a", required=HOST), asked(1, name="b", required=HOST))) == ["a"]


def test_empty_ignores_workloads() -> None:
    here = domains({"b1/r1/x1": 4})
    here.add(("x1",), {"cpu": 1}, 2)
    text = 'topology "default" allows to fit only 2 out of 3 pod(s)'
    assert placed(here, asked(3, required=HOST)) == {"main": text}
    assert placed(here, asked(3, required=HOST), empty=True) == {"main": {"x1": 3}}
    here.add(("x1",), {"cpu": 1}, -2)
    assert placed(here, asked(3, required=HOST)) == {"main": {"x1": 3}}


def test_a_leader_that_takes_too_much_of_one_domain_goes_to_another() -> None:
    here = domains({"b1/r1/x1": 4, "b1/r1/x2": 1})
    workers = asked(2, cpu=2, name="workers", preferred=HOST, group="g")
    leader = asked(1, name="leader", preferred=HOST, group="g")
    assert placed(here, workers, leader) == {"workers": {"x1": 2}, "leader": {"x2": 1}}


def test_pods_of_a_slice_that_is_not_complete_are_left_out() -> None:
    assert placed(domains({"b1/r1/x1": 9}), asked(9, required=RACK, slices=((RACK, 4),))) == {"main": {"x1": 8}}


def test_without_the_hostname_as_a_level_assignments_have_whole_paths() -> None:
    nodes = [node("b1/r1/x1", 2), node("b1/r1/x2", 2), node("b2/r1/x3", 3)]
    here = Domains(LEVELS[:2], FLAVOR, nodes, {})
    assert placed(here, asked(4, required=RACK)) == {"main": {"b1/r1": 4}}


ZONE_A = (Requirement("zone", "In", ("a",)),)


@pytest.mark.parametrize(
    ("placement", "excluded"),
    [
        pytest.param(Placement(), 'resource "cpu": 1, taint "gpu=only:NoSchedule": 1', id="a taint"),
        pytest.param(Placement({"zone": "a"}), 'nodeSelector: 1, taint "gpu=only:NoSchedule": 1', id="a node selector"),
        pytest.param(Placement(affinity=(ZONE_A,)), 'affinity: 1, taint "gpu=only:NoSchedule": 1', id="an affinity"),
        pytest.param(
            Placement({"zone": "a"}, tolerations=(Toleration("gpu", "Exists"),)),
            'nodeSelector: 1, resource "cpu": 1',
            id="a toleration",
        ),
        pytest.param(
            Placement(affinity=((Requirement(NODE_NAME, "In", ("b1/r1/x2",)),),)),
            'resource "cpu": 1, taint "gpu=only:NoSchedule": 1',
            id="the name of a node",
        ),
    ],
)
def test_the_reason_counts_why_nodes_are_excluded(placement: Placement, excluded: str) -> None:
    tainted = node("b1/r1/x1", 1, labels={"zone": "a"}, taints=(Taint("gpu", "only", "NoSchedule"),))
    here = Domains(LEVELS, FLAVOR, [tainted, node("b1/r1/x2", 1)], {})
    found = placed(here, asked(1, cpu=2, required=HOST, placement=placement))
    text = f'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 2; excluded: {excluded}'
    assert found == {"main": text}


def test_what_admission_checks_add_selects_nodes() -> None:
    nodes = [node("b1/r1/x1", 1), node("b1/r1/x2", 1, labels={"zone": "a"})]
    here = Domains(LEVELS, FLAVOR, nodes, {})
    assert placed(here, asked(1, required=HOST, updates=(Placement({"zone": "a"}),))) == {"main": {"x2": 1}}
    twice = asked(1, required=HOST, updates=(Placement({"zone": "a"}), Placement({"zone": "b"})))
    assert "conflict for key=zone, value1=a, value2=b" in placed(here, twice)["main"]


def test_nodes_without_a_level_or_not_ready_do_not_exist() -> None:
    partial = Node("x3", {BLOCK: "b1", HOST: "x3"}, allocatable={"cpu": 9, "pods": 9})
    here = Domains(LEVELS, FLAVOR, [node("b1/r1/x1", 1), node("b1/r1/x2", 9, usable=False), partial], {})
    text = 'topology "default" allows to fit only 1 out of 2 pod(s)'
    assert placed(here, asked(2, required=BLOCK)) == {"main": text}


def test_pods_outside_of_topology_use_their_nodes() -> None:
    here = Domains(LEVELS, FLAVOR, [node("b1/r1/x1", 4)], {"b1/r1/x1": {"cpu": 3, "pods": 1}})
    text = 'topology "default" allows to fit only 1 out of 2 pod(s)'
    assert placed(here, asked(2, required=HOST), empty=True) == {"main": text}


def test_preferred_nodes_are_taken_first() -> None:
    preferred = ((50, (Requirement("disk", "In", ("ssd",)),)),)
    nodes = [node("b1/r1/x1", 2), node("b1/r1/x2", 4, labels={"disk": "ssd"})]
    here = Domains(LEVELS, FLAVOR, nodes, {})
    request = asked(2, required=HOST, placement=Placement(preferred=preferred))
    assert placed(here, request) == {"main": {"x1": 2}}
    assert placed(here, request, options=Options(preferred_affinity=True)) == {"main": {"x2": 2}}


def test_the_number_that_fits_is_that_of_the_domain_which_preferred_nodes_put_first() -> None:
    preferred = ((50, (Requirement("disk", "In", ("ssd",)),)),)
    nodes = [node("b1/r1/x1", 3), node("b1/r1/x2", 1, labels={"disk": "ssd"})]
    request = asked(4, required=HOST, placement=Placement(preferred=preferred))
    here, options = Domains(LEVELS, FLAVOR, nodes, {}), Options(preferred_affinity=True)
    assert placed(here, request, options=options) == {"main": 'topology "default" allows to fit only 1 out of 4 pod(s)'}


def test_nested_slices_are_counted_in_the_first_of_the_domains_with_most_of_them() -> None:
    """The leader and the pods that domains hold beside whole slices do not decide which one that is."""
    text = (
        'topology "default" doesn\'t allow to fit; 0/2 slice(s) fit on level rack;'
        " 1/4 slice(s) fit on level kubernetes.io/hostname"
    )
    slices = ((RACK, 4), (HOST, 2))
    for cpu in ({"b1/r1/x1": 3, "b1/r2/x2": 1}, {"b1/r1/x1": 3, "b1/r2/x2": 3, "b1/r3/x3": 2}):
        found = placed(domains(cpu), asked(8, required=RACK, slices=slices))["main"]
        assert found.split(". Total")[0] == text
    here = domains({"b1/r1/x1": 1, "b1/r2/x2": 3})
    workers = asked(8, required=RACK, slices=slices, group="g")
    found = placed(here, asked(1, cpu=3, name="leader", required=RACK, group="g"), workers)["main"]
    assert found.split(". Total")[0] == text.replace("1/4", "0/4")


def test_nested_slices_that_do_not_fit_name_each_level() -> None:
    here = domains({"b1/r1/x1": 3, "b1/r1/x2": 3})
    text = (
        'topology "default" doesn\'t allow to fit; 1/2 slice(s) fit on level rack;'
        " 2/4 slice(s) fit on level kubernetes.io/hostname"
    )
    assert placed(here, asked(8, required=RACK, slices=((RACK, 4), (HOST, 2)))) == {"main": text}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        pytest.param({"required": "row"}, "no requested topology level: row", id="an unknown level"),
        pytest.param(
            {"required": RACK, "slices": ((BLOCK, 2),)},
            "podset slice topology block is above the podset topology rack",
            id="slices above the level",
        ),
        pytest.param(
            {"required": BLOCK, "slices": ((RACK, 4), (HOST, 3))},
            "additional slice layer size 3 must evenly divide parent layer size 4",
            id="slices that do not divide",
        ),
        pytest.param(
            {"required": BLOCK, "slices": ((RACK, 0),)},
            "slice topology requested, but slice size not provided",
            id="no size",
        ),
        pytest.param({}, "topology level not specified", id="no level"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: dict[str, Any], text: str) -> None:
    assert placed(domains({"b1/r1/x1": 9}), asked(4, **request_)) == {"main": text}


def test_an_implied_request_is_unconstrained() -> None:
    assert placed(domains({"b1/r1/x1": 3, "b1/r1/x2": 2}), asked(2, implied=True)) == {"main": {"x2": 2}}
