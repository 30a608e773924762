"""What `explain` says of a topology: room by rack, who is there, and what would make room."""

from __future__ import annotations

from typing import Any

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
from tests.builders import CPU, NOW, cluster_queue, cycle, put, state, workload

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
        "with fewer pods, or a level with more room, or more nodes: pod set main asks for 5 pods, the largest rack of"
        " flavor default could ever hold 4",
    )
    cycle(put(found, asks("everywhere", 9, 2, TopologyRequest(preferred=RACK))))
    (way,) = told(found, "everywhere").ways[-1:]
    assert way.endswith("pod set main asks for 9 pods, flavor default could ever hold 8")


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
