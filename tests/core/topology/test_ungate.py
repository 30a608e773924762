"""Pods get their domains: by rank where they are numbered, and never more than a domain is assigned."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.model import TopologyAssignment, TopologyDomain
from core.topology.ungate import (
    UNNUMBERED,
    AssignedPod,
    GroupMember,
    PodNumbering,
    first_numbers,
    node_selectors,
)
from tests.effort import cases

HOSTNAME, INDEX, REPLICA = "kubernetes.io/hostname", "example.com/index", "example.com/replica"
NUMBERED = PodNumbering(INDEX)


def assigned(*counts: int, levels: tuple[str, ...] = (HOSTNAME,)) -> TopologyAssignment:
    """Nodes n0, n1, ... with so many pods each."""
    values = ((f"n{place}",) if len(levels) == 1 else ("block", f"n{place}") for place in range(len(counts)))
    return TopologyAssignment(levels, tuple(map(TopologyDomain, values, counts)))


def waits(name: str, number: int | None = None, **more: object) -> AssignedPod:
    numbers = {} if number is None else {INDEX: str(number)}
    return replace(AssignedPod(name, name, waits=True, numbers=numbers), **more)


def runs(name: str, node: str, number: int | None = None, **more: object) -> AssignedPod:
    return replace(waits(name, number), waits=False, node_selector={HOSTNAME: node}, **more)


def chosen(
    assignment: TopologyAssignment,
    *pods: AssignedPod,
    numbering: PodNumbering = NUMBERED,
    count: int = 0,
    avoided: str = "",
) -> dict[str, str]:
    """The node of each pod that gets one now."""
    size = count or sum(each.count for each in assignment.domains)
    found = node_selectors(assignment, pods, numbering, count=size, avoided=(avoided,))
    return {uid: selector[assignment.levels[-1]] for uid, selector in found.items()}


def test_numbered_pods_get_the_domains_in_their_order_whatever_their_names_are() -> None:
    pods = [waits(name, number) for name, number in (("d", 0), ("c", 1), ("b", 2), ("a", 3))]
    assert chosen(assigned(2, 1, 1), *pods) == {"d": "n0", "c": "n0", "b": "n1", "a": "n2"}
    assert chosen(assigned(2, 1, 1), pods[3]) == {"a": "n2"}, "also while others are not created yet"


def test_pods_without_numbers_get_the_first_domain_with_room() -> None:
    pods = [waits(name) for name in "dcba"]
    assert chosen(assigned(2, 1, 1), *pods) == {"a": "n0", "b": "n0", "c": "n1", "d": "n2"}
    assert chosen(assigned(2, 2), runs("x", "n0"), runs("y", "n1"), runs("z", "n1"), *pods) == {"a": "n0"}


def test_an_assignment_of_more_pods_than_memory_holds_is_not_written_out() -> None:
    pods = [waits("a", 0), waits("b", 2**29)]
    assert chosen(assigned(2**29, 2**29), *pods) == {"a": "n0", "b": "n1"}


def test_the_node_selector_names_each_level_of_the_assignment() -> None:
    found = node_selectors(assigned(1, levels=("b", "r")), [waits("a")], UNNUMBERED, count=1)
    assert found == {"a": {"b": "block", "r": "n0"}}


@pytest.mark.parametrize(
    "pods",
    [
        [waits("a", 0), waits("b", 0)],
        [waits("a", 0), waits("b", 2)],
        [waits("a", 0), waits("b")],
        [waits("a", 0), replace(waits("b"), numbers={INDEX: "-1"})],
        [waits("a", 0), replace(waits("b"), numbers={INDEX: "one"})],
    ],
    ids=["two pods have one rank", "a rank is out of range", "a label is missing", "below zero", "no number"],
)
def test_ranks_that_contradict_each_other_are_not_used(pods: list[AssignedPod]) -> None:
    assert chosen(assigned(1, 1), *pods) == {"a": "n0", "b": "n1"}


def test_a_rank_without_domain_is_not_used_where_the_assignment_has_fewer_pods_than_the_pod_set() -> None:
    assert chosen(assigned(1, 1), waits("a", 2), waits("b", 1), count=3) == {"a": "n0", "b": "n1"}


def test_ranks_are_not_used_beside_a_pod_with_another_domain_than_that_of_its_rank() -> None:
    """After a failed node was replaced the order of domains is another one."""
    assert chosen(assigned(1, 1), runs("a", "n1", 0), waits("b", 1)) == {"b": "n0"}


def test_a_pod_that_is_created_again_waits_for_the_one_it_replaces_and_gets_its_domain() -> None:
    assignment = assigned(1, 1, 1)
    others = [runs("a", "n0", 0), runs("c", "n2", 2)]
    old = runs("old", "n1", 1, terminates=True)
    assert chosen(assignment, *others, old, waits("new", 1)) == {}
    assert chosen(assignment, *others, waits("new", 1)) == {"new": "n1"}


def test_two_pods_that_are_created_again_do_not_exchange_their_domains() -> None:
    old = runs("old", "n1", 1, terminates=True)
    assert chosen(assigned(1, 1), old, waits("a-new", 1), waits("b-new", 0)) == {"b-new": "n0"}


def test_a_pod_that_terminates_without_a_domain_gets_none() -> None:
    assert chosen(assigned(1), waits("a", terminates=True), waits("b")) == {"b": "n0"}


def test_a_failed_node_is_given_to_no_pod() -> None:
    assert chosen(assigned(1, 1), waits("a", 0), waits("b", 1), avoided="n0") == {"b": "n1"}
    assert chosen(assigned(1, 1), waits("a"), waits("b"), avoided="n0") == {"a": "n1"}
    levels = ("block", "rack")
    assert chosen(assigned(1, levels=levels), waits("a"), avoided="n0") == {"a": "n0"}, "a rack of that name"


def test_the_ranks_of_replicas_follow_each_other() -> None:
    numbering = PodNumbering(INDEX, REPLICA, 2)
    pods = [
        replace(waits(f"{replica}-{number}", number), numbers={INDEX: str(number), REPLICA: str(replica)})
        for replica in (1, 0)
        for number in (1, 0)
    ]
    nodes = {"0-0": "n0", "0-1": "n1", "1-0": "n2", "1-1": "n3"}
    assert chosen(assigned(1, 1, 1, 1), *pods, numbering=numbering) == nodes
    greedy = chosen(assigned(1, 1, 1, 1), *pods, waits("z", 2), numbering=numbering)
    assert greedy == nodes, "the same by name: a number of a pod beyond its replica"
    assert chosen(assigned(1, 1), waits("a", 0), numbering=PodNumbering(INDEX, REPLICA, 0)) == {"a": "n0"}


def test_workers_are_numbered_after_their_leader() -> None:
    pod_sets = [GroupMember("workers", "g", 3), GroupMember("other", "", 2), GroupMember("leader", "g", 1)]
    assert first_numbers(pod_sets) == {"workers": 1, "other": 0, "leader": 0}
    equal = [GroupMember("a", "g", 1), GroupMember("b", "g", 1)]
    assert first_numbers(equal) == {"a": 0, "b": 1}
    workers = PodNumbering(INDEX, first=1)
    assert chosen(assigned(1, 1), waits("a", 2), waits("b", 1), numbering=workers) == {"a": "n1", "b": "n0"}


def test_the_numbers_of_workers_begin_with_one_where_the_annotation_of_their_pods_says_so() -> None:
    pods = [replace(waits(name, number), offset=1) for name, number in (("a", 2), ("b", 1))]
    assert chosen(assigned(1, 1), *pods) == {"a": "n1", "b": "n0"}


@settings(max_examples=cases(100, 3000))
@given(seed=st.integers(0, 2**32), numbered=st.booleans())
def test_in_every_history_no_domain_has_too_many_pods_and_each_rank_keeps_its_domain(seed: int, numbered: bool) -> None:
    """Pods are created late, fail, terminate slowly and are created again in any order."""
    draw = random.Random(seed)
    assignment = assigned(*(draw.randint(1, 3) for _ in range(draw.randint(1, 4))))
    size = sum(each.count for each in assignment.domains)
    limits = {each.values[0]: each.count for each in assignment.domains}
    of_ranks = [each.values[0] for each in assignment.domains for _ in range(each.count)]
    pods: dict[str, AssignedPod] = {}
    made = 0
    for _ in range(40):
        living = {int(each.numbers[INDEX]) for each in pods.values() if not each.terminates}
        absent = [rank for rank in range(size) if rank not in living]
        match draw.choice(("create", "terminate", "end", "give", "give")):
            case "create" if absent:
                made += 1
                name = f"{draw.randint(0, 9)}-{made}"
                pods[name] = waits(name, draw.choice(absent))
            case "terminate" if pods:
                name = draw.choice(sorted(pods))
                pods[name] = replace(pods[name], terminates=True)
            case "end" if pods:
                del pods[draw.choice(sorted(pods))]
            case "give":
                numbering = NUMBERED if numbered else UNNUMBERED
                some = draw.sample(sorted(pods.values(), key=lambda each: each.name), len(pods))
                for uid, selector in node_selectors(assignment, some, numbering, count=size).items():
                    assert pods[uid].waits
                    assert not pods[uid].terminates
                    pods[uid] = replace(pods[uid], waits=False, node_selector=selector)
        nodes = Counter(each.node_selector[HOSTNAME] for each in pods.values() if not each.waits)
        assert all(number <= limits[node] for node, number in nodes.items())
        if numbered:
            ranked = (each for each in pods.values() if not each.waits)
            assert all(each.node_selector[HOSTNAME] == of_ranks[int(each.numbers[INDEX])] for each in ranked)
    pods = {name: each for name, each in pods.items() if not each.terminates}
    found = node_selectors(assignment, pods.values(), NUMBERED if numbered else UNNUMBERED, count=size)
    assert found.keys() == {name for name, each in pods.items() if each.waits}, "when none terminates, no pod waits"
