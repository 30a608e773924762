"""Which domains are chosen, rule by rule."""

from __future__ import annotations

from core.topology import Options
from tests.core.topology.worlds import BLOCK, HOST, RACK, asked, domains, placed


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
