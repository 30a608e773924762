"""What `explain` says of a topology: room by rack, who is there, and what would make room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.explain import topology
from core.explain.analysis import explain
from core.explain.explanation import Explanation
from core.model import (
    Key,
    Node,
    PodSet,
    Reserve,
    ResourceFlavor,
    Topology,
    TopologyRequest,
    Workload,
)
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.topology import Asked, Domains, Options, place
from tests.builders import CPU, NOW, cluster_queue, cycle, put, state, workload
from tests.effort import cases

RACK, HOSTNAME = "cloud/rack", "kubernetes.io/hostname"
REQUIRED = TopologyRequest(required=RACK)


def racks(number: int = 2, nodes: int = 2, cpu: int = 4, quota: int = 100) -> State:
    """So many racks of equal nodes, and one queue."""
    found = state(cluster_queue("cq", quota), policy=SchedulingPolicy(topology=TopologyPolicy()))
    found.set_topology("t", Topology("t", (RACK, HOSTNAME)))
    found.set_flavor("default", ResourceFlavor("default", topology_name="t"))
    for rack in "abcdefgh"[:number]:
        for each in range(nodes):
            name = f"{rack}{each}"
            found.set_node(name, Node(name, {RACK: rack, HOSTNAME: name}, (), {CPU: cpu, "pods": 10}))
    return found


def asks(name: str, pods: int, cpu: int, request: TopologyRequest = REQUIRED, **fields: Any) -> Workload:
    return workload(name, 0, pod_sets=(PodSet("main", pods, {CPU: cpu}, topology=request),), **fields)


def run(found: State, *workloads: Workload) -> None:
    """Admits workloads one after the other."""
    for each in workloads:
        decision = cycle(put(found, each))[each.key.name]
        assert isinstance(decision, Reserve), decision


def told(found: State, name: str) -> Explanation:
    answer = explain(found, Key("ns", name), NOW)
    assert answer is not None
    return answer


def test_each_rack_has_its_room_now_its_room_when_empty_and_who_is_there() -> None:
    found = racks()
    run(found, asks("first", 3, 2), asks("second", 3, 2))
    cycle(put(found, asks("third", 2, 2)))
    answer = told(found, "third")
    assert "allows to fit only 1 out of 2 pod(s)" in answer.message
    (rooms,) = answer.rooms
    assert (rooms.level, rooms.wanted, rooms.unit, rooms.required) == (RACK, 2, "pod", True)
    assert {each.domain: (each.now, each.ever) for each in rooms.domains} == {"a": (1, 4), "b": (1, 4)}
    assert sorted(each.taken for each in rooms.domains) == [((Key("ns", "first"), 3),), ((Key("ns", "second"), 3),)]


def test_the_end_of_who_sits_there_would_let_it_start() -> None:
    found = racks(number=1)
    run(found, asks("first", 3, 2))
    cycle(put(found, asks("second", 2, 2)))
    answer = told(found, "second")
    assert "it fits when ns/first ends" in answer.ways
    assert [holder.key.name for holder in answer.holders] == ["first"]


def test_a_restart_that_would_make_room_is_named() -> None:
    """A small job in each rack: one of them fits beside the other."""
    found = racks()
    run(found, asks("left", 1, 4), asks("filler", 1, 4), asks("right", 1, 4))
    found.set_workload(Key("ns", "filler"), None)
    cycle(put(found, asks("large", 2, 4)))
    (rooms,) = told(found, "large").rooms
    assert [(each.now, len(each.taken)) for each in rooms.domains] == [(1, 1), (1, 1)]
    (hint,) = [way for way in told(found, "large").ways if "restarted" in way]
    assert hint == (
        "if ns/left was restarted, it would fit elsewhere, and this workload in a (nothing is restarted for it)"
    )


def fragmented() -> State:
    """Two racks of two nodes with 4 cpu: in each one node is free, and a job on the other one could share its rack."""
    found = racks()
    run(found, asks("left", 1, 4), asks("filler", 1, 4), asks("right", 1, 4))
    found.set_workload(Key("ns", "filler"), None)
    return found


SLICED = TopologyRequest(slices=((RACK, 2),))


@pytest.mark.parametrize(
    ("pod_sets", "hint"),
    [
        (
            (
                PodSet("leader", 1, {CPU: 2}, topology=replace(REQUIRED, group="g")),
                PodSet("workers", 3, {CPU: 2}, topology=replace(REQUIRED, group="g")),
            ),
            "this workload in a",
        ),
        ((PodSet("main", 2, {CPU: 4}, topology=SLICED),), "this workload would fit too"),
        (
            (PodSet("one", 1, {CPU: 4}, topology=REQUIRED), PodSet("two", 2, {CPU: 2}, topology=SLICED)),
            "",
        ),
        (
            (
                PodSet("one", 2, {CPU: 3}, topology=REQUIRED),
                PodSet("two", 2, {CPU: 1}, topology=REQUIRED),
            ),
            "this workload would fit too",
        ),
        ((PodSet("main", 3, {CPU: 4}, topology=REQUIRED),), ""),
    ],
    ids=["leader and workers", "slices", "fits without", "several pod sets", "too large for a rack"],
)
def test_a_restart_helps_also_groups_slices_and_several_pod_sets(pod_sets: tuple[PodSet, ...], hint: str) -> None:
    found = fragmented()
    put(found, workload("next", 0, pod_sets=pod_sets))
    told_ways = [way for way in told(found, "next").ways if "restarted" in way]
    expected = f"if ns/left was restarted, it would fit elsewhere, and {hint} (nothing is restarted for it)"
    assert told_ways == ([expected] if hint else [])


@pytest.mark.parametrize("request_", [TopologyRequest(unconstrained=True), TopologyRequest(preferred=RACK)])
def test_a_restart_joins_what_is_free_on_two_nodes(request_: TopologyRequest) -> None:
    found = racks(number=1)
    anywhere = TopologyRequest(unconstrained=True)
    run(found, asks("left", 1, 1, anywhere), asks("filler", 1, 3, anywhere), asks("right", 1, 1, anywhere))
    found.set_workload(Key("ns", "filler"), None)
    put(found, asks("next", 1, 4, request_))
    (hint,) = [way for way in told(found, "next").ways if "restarted" in way]
    assert hint.startswith("if ns/left was restarted, it would fit elsewhere, and this workload would fit too")


def test_restarts_are_looked_for_in_a_bounded_number_of_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    found = racks(number=8, nodes=2)
    run(found, *(asks(f"job-{number}", 2, 3) for number in range(8)))
    put(found, asks("next", 2, 4))
    tried: list[int] = []

    def counted(domains: Domains, asked: Sequence[Asked], options: Options) -> object:
        tried.append(1)
        return place(domains, asked, options)

    monkeypatch.setattr(topology, "place", counted)
    assert not [way for way in told(found, "next").ways if "restarted" in way]
    assert 1 < len(tried) <= 1 + topology.MOST_TRIED * topology.MOST_MOVED * (1 + topology.MOST_MOVED)


def test_pods_that_are_in_no_whole_slice_are_told() -> None:
    found = racks(cpu=2)
    cycle(put(found, asks("sliced", 11, 1, TopologyRequest(slices=((RACK, 2),)))))
    answer = told(found, "sliced")
    (rooms,) = answer.rooms
    assert (rooms.wanted, rooms.unit, rooms.left) == (5, "slice of 2 pods", 1)


def test_more_quota_is_no_way_where_no_rack_could_ever_hold_the_pods() -> None:
    found = racks(quota=8)
    run(found, asks("first", 2, 2))
    cycle(put(found, asks("large", 5, 2)))
    answer = told(found, "large")
    assert [(each.most, each.wanted, each.hopeless) for each in answer.rooms] == [(4, 5, True)]
    assert answer.ways == (
        "with fewer pods, or a level with more room, or more nodes: pod set main asks for 5 pods in one rack: the"
        " largest of flavor default could ever hold 4 (2 nodes with 4m cpu each)",
    )
    cycle(put(found, asks("everywhere", 9, 2, TopologyRequest(preferred=RACK))))
    (way,) = told(found, "everywhere").ways[-1:]
    assert way.endswith("pod set main asks for 9 pods: flavor default could ever hold 8 (4 nodes with 4m cpu each)")


def test_without_a_topology_there_are_no_rooms() -> None:
    found = state(cluster_queue("cq", 1), policy=SchedulingPolicy(topology=TopologyPolicy()))
    put(found, workload("job", 2))
    assert told(found, "job").rooms == ()


def test_quota_that_is_missing_is_named_before_the_topology() -> None:
    found = racks(quota=4)
    run(found, asks("first", 2, 2))
    cycle(put(found, asks("second", 1, 2)))
    answer = told(found, "second")
    assert answer.cells[0].missing == 2
    assert not [way for way in answer.ways if "restarted" in way]


@settings(max_examples=cases(60, 500))
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=2, max_size=7),
    st.lists(st.integers(0, 6), max_size=3, unique=True),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([REQUIRED, SLICED, TopologyRequest(preferred=RACK)]),
)
def test_after_the_restarts_of_a_hint_all_of_them_run(
    jobs: list[tuple[int, int]], ended: list[int], pods: int, cpu: int, request: TopologyRequest
) -> None:
    found = racks()
    for number, (count, size) in enumerate(jobs):
        cycle(put(found, asks(f"job-{number}", count, size)))
    for number in ended:
        found.set_workload(Key("ns", f"job-{number}"), None)
    waiting = [key for key in found.workloads if found.reservations.get(key) is None]
    for key in waiting:
        found.set_workload(key, None)
    put(found, asks("next", pods, cpu, request))
    hints = [way for way in told(found, "next").ways if "restarted" in way]
    for hint in hints:
        moved = [asks(name, *jobs[int(name[4:])]) for name in re.findall(r"ns/(job-\d)", hint)]
        assert moved
        for each in moved:
            found.set_workload(each.key, None)
        run(found, asks("next", pods, cpu, request), *moved)
