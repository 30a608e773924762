"""Which pods run outside of the domains of their job, from its Workloads and the labels of the nodes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from core.guard.domains import DomainKey, GrantedDomains, RunningInDomains, granted_domains
from core.model import Admission, Key, PodSetAssignment, TopologyAssignment, Workload
from core.model.topology import TopologyDomain
from tests.core.guard.test_judge import workload

HOSTNAME = "kubernetes.io/hostname"
RACKS = ("block", "rack")
Labels = Mapping[str, str]
NODES: Mapping[str, Labels] = {
    f"{rack}{number}": {"block": "b", "rack": rack, HOSTNAME: f"{rack}{number}"} for rack in "xy" for number in (1, 2)
}


def placed(levels: tuple[str, ...], pods: Mapping[str, int], *, name: str = "main") -> PodSetAssignment:
    """A pod set with so many pods in each domain; values are separated by commas."""
    domains = tuple(TopologyDomain(tuple(each.split(",")), count) for each, count in pods.items())
    return PodSetAssignment(name, {}, {}, sum(pods.values()), TopologyAssignment(levels, domains))


def anywhere(count: int, *, delayed: str = "") -> PodSetAssignment:
    return PodSetAssignment("launcher", {}, {}, count, delayed=delayed)


def given(*assigned: PodSetAssignment, **more: Any) -> Workload:
    return workload(admission=Admission("cq", assigned), pod_sets=(), **more)


def outside(has: GrantedDomains | None, *nodes: str, selector: Labels | None = None) -> str:
    """The sentence for a pod on each of these nodes, all with one node selector."""
    assert has is not None
    running = RunningInDomains(has)
    for name in nodes:
        running.add(name, has.of(NODES[name], selector or {}))
    return running.outside()


ON_HOSTS = placed((HOSTNAME,), {"x1": 2, "x2": 1})
IN_RACK = placed(RACKS, {"b,x": 2})
TEXT = "Pods run outside of their topology assignment: "


@pytest.mark.parametrize(
    ("assigned", "nodes", "sentence"),
    [
        ([ON_HOSTS], ["x1", "x1", "x2"], ""),
        ([ON_HOSTS], ["x1"], ""),
        ([ON_HOSTS], ["x1", "x2", "x2"], "2 pods run on x2, 1 assigned"),
        ([ON_HOSTS], ["x1", "y1"], "1 pod runs on y1, none assigned"),
        ([IN_RACK], ["x1", "x2"], ""),
        ([IN_RACK], ["x1", "x2", "x2"], "3 pods run on b, x, 2 assigned"),
        ([IN_RACK], ["x1", "y2", "y1"], "1 pod runs on y1, none assigned; 1 pod runs on y2, none assigned"),
        ([ON_HOSTS, anywhere(1)], ["x1", "x1", "x2", "y1"], ""),
        ([ON_HOSTS, anywhere(1)], ["x1", "x1", "x2", "x2"], ""),
        ([ON_HOSTS, anywhere(1)], ["y1", "y1"], "2 pods run on y1, none assigned"),
        ([ON_HOSTS, anywhere(1, delayed="Pending")], ["y1"], "1 pod runs on y1, none assigned"),
        ([ON_HOSTS, IN_RACK], ["x1"] * 3 + ["x2"] * 2, ""),
        ([ON_HOSTS, IN_RACK], ["x1"] * 5, "3 pods run on x1, 2 assigned"),
    ],
)
def test_pods_beyond_those_assigned_to_a_domain_are_outside(
    assigned: list[PodSetAssignment], nodes: list[str], sentence: str
) -> None:
    found = outside(granted_domains([given(*assigned)]), *nodes)
    assert found == (f"{TEXT}{sentence}" if sentence else "")


def test_slices_that_replace_each_other_may_use_the_domains_of_both() -> None:
    has = granted_domains([given(placed((HOSTNAME,), {"x1": 1})), given(placed((HOSTNAME,), {"x1": 2, "x2": 1}))])
    assert outside(has, "x1", "x1", "x2") == ""
    assert outside(has, "x1", "x1", "x1") != ""


def test_an_elastic_job_is_not_judged_once_it_has_changed_its_size() -> None:
    """Its pods run on; those of the slice that replaced the first one may have been placed elsewhere."""
    first = given(ON_HOSTS, key=Key("ns", "first"), slice_name="first")
    assert outside(granted_domains([first]), "y1") != ""
    assert granted_domains([first, given(ON_HOSTS, key=Key("ns", "second"), slice_name="first")]) is None


def test_a_label_that_a_node_has_got_later_moves_no_pod() -> None:
    """Its own node selector names the rack in which kube-scheduler has put it."""
    has = granted_domains([given(IN_RACK)])
    assert outside(has, "y1") != ""
    assert outside(has, "y1", selector={"block": "b", "rack": "x"}) == ""
    assert outside(has, "x1", selector={"rack": "y"}) != ""


def test_workloads_without_quota_or_topology_grant_no_domains() -> None:
    assert granted_domains([given(ON_HOSTS, finished=True)]) is None
    assert granted_domains([given(anywhere(3))]) is None
    assert granted_domains([]) is None


def test_two_topologies_of_which_neither_contains_the_other_are_not_judged() -> None:
    assert granted_domains([given(IN_RACK, placed(("row",), {"r": 1}))]) is None
    has = granted_domains([given(IN_RACK, placed(("block",), {"b": 1}))])
    assert has is not None
    assert has.of(NODES["x1"], {}) == (DomainKey(RACKS, ("b", "x")), DomainKey(("block",), ("b",)))


def test_only_a_few_domains_are_named() -> None:
    has = granted_domains([given(placed((HOSTNAME,), {"z": 1}))])
    assert outside(has, *NODES).endswith("1 pod runs on y1, none assigned; 1 more place")


@hypothesis_given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 3), st.randoms())
def test_any_pods_up_to_those_assigned_are_inside_and_one_more_is_outside(
    counts: list[int], others: int, chance: random.Random
) -> None:
    """Whatever the order in which they are seen, and wherever those of pod sets without a topology run."""
    hosts = {f"h{number}": count for number, count in enumerate(counts)}
    has = granted_domains([given(placed((HOSTNAME,), hosts), anywhere(others))])
    assert has is not None
    pods = [name for name, count in hosts.items() for _ in range(count)]
    pods += [chance.choice([*hosts, "elsewhere"]) for _ in range(others)]
    for more in (False, True):
        if more:
            pods.append(chance.choice([*hosts, "elsewhere"]))
        chance.shuffle(pods)
        running = RunningInDomains(has)
        for name in pods:
            running.add(name, has.of({HOSTNAME: name}, {}))
        assert bool(running.outside()) is more
