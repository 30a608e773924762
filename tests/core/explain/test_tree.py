"""The tree of domains that `explain` draws: free and used, where it fits, who is there; and whom a head preempts."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.explained import WIDTH, plain, text
from core.explain import document
from core.explain.analysis import Audience, explain_in_steps
from core.explain.explanation import DomainRoom, Explanation, Rooms
from core.explain.sight import of_namespace
from core.model import Key, Node, PodSet, Preemption, Topology, TopologyRequest, Workload
from core.quota.placement import PlacementCapacity
from core.state.state import State
from core.steps import completed
from core.topology import Asked, Misfit, place
from tests.builders import CPU, NOW, cluster_queue, cycle, put, workload
from tests.core.explain.test_topology import HOSTNAME, RACK, REQUIRED, asks, racks, run, told
from tests.effort import cases

BLOCK = "cloud/block"
GROUP = TopologyRequest(required=RACK, group="g")


def blocks(number: int, each: int, nodes: int, *, name: str = "{}-{}-{}") -> State:
    """So many blocks of so many racks with nodes of 8 cpu."""
    found = racks(number=0, quota=10**9)
    found.set_topology("t", Topology("t", (BLOCK, RACK, HOSTNAME)))
    for b, r, n in product(range(number), range(each), range(nodes)):
        called = name.format(b, r, n)
        labels = {BLOCK: f"b{b}", RACK: f"r{b}-{r}", HOSTNAME: called}
        found.set_node(called, Node(called, labels, (), {CPU: 8, "pods": 10}))
    return found


def grouped(workers: tuple[int, int], leader: tuple[int, int], request: TopologyRequest = GROUP) -> Workload:
    """A leader and workers in one domain: each the number of pods, and the cpu of one."""
    pod_sets = (
        PodSet("leader", leader[0], {CPU: leader[1]}, topology=request),
        PodSet("workers", workers[0], {CPU: workers[1]}, topology=request),
    )
    return workload("grouped", 0, pod_sets=pod_sets)


def test_domains_are_in_those_above_with_what_is_free_and_used_and_who_is_there() -> None:
    found = blocks(2, 2, 2)
    run(found, asks("a", 3, 4), asks("b", 3, 4), asks("c", 3, 4), asks("d", 4, 4))
    cycle(put(found, asks("e", 2, 4)))
    (rooms,) = told(found, "e").rooms
    rows = [(each.depth, each.domain, each.now, each.fits, each.amounts) for each in rooms.tree]
    assert rows == [
        (0, "b0", 2, "", (("cpu", 8, 24),)),
        (1, "r0-0", 1, "if empty", (("cpu", 4, 12),)),
        (2, "0-0-1", 1, "", (("cpu", 4, 4),)),
        (2, "0-0-0", 0, "", (("cpu", 0, 8),)),
        (1, "r0-1", 1, "if empty", (("cpu", 4, 12),)),
        (0, "b1", 1, "", (("cpu", 4, 28),)),
        (1, "r1-0", 1, "if empty", (("cpu", 4, 12),)),
        (2, "1-0-1", 1, "", (("cpu", 4, 4),)),
        (2, "1-0-0", 0, "", (("cpu", 0, 8),)),
        (1, "r1-1", 0, "if empty", (("cpu", 0, 16),)),
    ]
    assert rooms.tree[0].taken == ((Key("ns", "a"), 3), (Key("ns", "b"), 3))
    assert rooms.tree[1].taken == ((Key("ns", "a"), 3),)


def test_a_block_with_one_large_gap_is_before_one_with_more_small_gaps() -> None:
    found = blocks(1, 2, 1)
    found.set_node("large", Node("large", {BLOCK: "b1", RACK: "r1-0", HOSTNAME: "large"}, (), {CPU: 12, "pods": 10}))
    put(found, asks("next", 4, 4))
    (rooms,) = told(found, "next").rooms
    assert [(each.domain, each.now) for each in rooms.tree if each.depth < 2] == [
        ("b1", 3),
        ("r1-0", 3),
        ("b0", 4),
        ("r0-0", 2),
        ("r0-1", 2),
    ]


def test_the_tree_of_many_nodes_has_few_lines_and_says_how_many_more_there_are() -> None:
    found = blocks(10, 10, 20, name="ip-10-{}-{}-{}.eu-central-1.compute.internal")
    run(found, *(asks(f"a-job-with-a-long-name-{number}", 40, 4) for number in range(100)))
    cycle(put(found, asks("next", 30, 4)))
    answer = told(found, "next")
    (rooms,) = answer.rooms
    assert (len(rooms.tree), rooms.tree_more) == (20, 6)
    assert [each.hidden for each in rooms.tree if each.hidden is not None] == [6, 16, 6, 16]
    drawn = text(answer).partition("ROOM is in pods")[2].partition("\n\n")[0].splitlines()
    assert len(drawn) == 27
    assert max(map(len, drawn)) <= WIDTH
    assert [line.strip() for line in drawn if "and " in line] == ["and 16 more", "and 6 more"] * 2 + ["and 6 more"]


def test_long_names_and_large_amounts_stay_within_the_width_of_a_terminal() -> None:
    taken = tuple((Key("a-long-namespace", f"a-long-name-of-a-workload-{n}"), 100) for n in range(5))
    amounts = tuple((f"example.com/{name * 12}", 123_456_789_012, 123_456_789_013) for name in "abc")
    row = DomainRoom("n" * 60, 1000, 1000, taken, 7, 2, amounts, "if empty")
    answer = Explanation(Key("ns", "w"), "waiting", rooms=(Rooms("m", "f", RACK, 1, "pod", True, (), tree=(row,)),))
    drawn = text(answer).partition("ROOM is in pods")[2].splitlines()[1:]
    assert max(map(len, drawn)) <= WIDTH


def test_programs_get_the_tree_beside_the_fields_that_they_had() -> None:
    found = blocks(1, 1, 2)
    run(found, asks("a", 3, 4))
    cycle(put(found, asks("b", 2, 4)))
    answer = told(found, "b")
    (rooms,) = plain(answer)["topology"]
    assert [(each["name"], each["room"]) for each in rooms["domains"]] == [("b0/r0-0", 1)]
    assert rooms["tree"][1] == {
        "name": "r0-0",
        "room": 1,
        "roomIfEmpty": 4,
        "takenBy": [{"job": "ns/a", "pods": 3}],
        "podsOfOthers": 0,
        "depth": 1,
        "fits": "if empty",
        "resources": [{"resource": CPU, "free": "4m", "used": "12m"}],
        "domainsNotShown": 0,
    }
    raw = document.written(answer, lambda key: "")
    assert document.read({"metadata": {"namespace": "ns", "name": "b"}, **raw}).rooms == answer.rooms


def test_who_may_not_name_nodes_gets_no_tree() -> None:
    found = blocks(1, 1, 2)
    run(found, asks("a", 3, 4))
    cycle(put(found, asks("b", 2, 4)))
    answer = completed(explain_in_steps(found, Key("ns", "b"), NOW, Audience(of_namespace("ns"))))
    assert answer is not None
    assert [(each.tree, each.tree_more) for each in answer.rooms] == [((), 0)]


def test_a_leader_and_its_workers_are_judged_together() -> None:
    """A rack of 8 cpu holds the four workers, and the leader, but not both."""
    found = racks()
    cycle(put(found, grouped((4, 2), (1, 2))))
    answer = told(found, "grouped")
    (rooms,) = answer.rooms
    assert (rooms.pod_set, rooms.leader, rooms.wanted, rooms.most, rooms.hopeless) == ("workers", "leader", 4, 3, True)
    assert [(each.now, each.ever) for each in rooms.domains] == [(3, 3), (3, 3)]
    assert {each.fits for each in rooms.tree if each.depth == 0} == {"never"}
    assert answer.ways == (
        "with fewer pods, or a level with more room, or more nodes: pod set workers (with leader in the same domain)"
        " asks for 4 pods in one rack: the largest of flavor default could ever hold 3",
    )


@settings(max_examples=cases(60, 500))
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 5)),
    st.tuples(st.integers(1, 1), st.integers(1, 5)),
    st.sampled_from([GROUP, TopologyRequest(preferred=RACK, group="g")]),
    st.integers(1, 3),
)
def test_a_group_is_hopeless_exactly_where_it_has_no_place_in_an_empty_cluster(
    workers: tuple[int, int], leader: tuple[int, int], request: TopologyRequest, nodes: int
) -> None:
    found = racks(nodes=nodes)
    put(found, grouped(workers, leader, request))
    (arena,) = (each for each in found.reservations.arenas.values() if "topology" in each.further)
    capacity = arena.further["topology"]
    assert isinstance(capacity, PlacementCapacity)
    asked = [Asked(each, each.count, "g") for each in found.workloads[Key("ns", "grouped")].pod_sets]
    placed = place(capacity.domains["default"], asked, capacity.options, empty=True)
    (rooms,) = told(found, "grouped").rooms
    assert rooms.hopeless == any(isinstance(each, Misfit) for each in placed.values())
    if request.required:
        assert ("now" in {each.fits for each in rooms.tree}) != rooms.hopeless


@pytest.mark.parametrize("victims", [1, 2])
def test_whom_it_preempts_now_is_named(victims: int) -> None:
    found = racks(number=1)
    found.set_cluster_queue("cq", cluster_queue("cq", 100, preemption=Preemption("LowerPriority")))
    run(found, asks("a", 2, 2), asks("b", 2, 2))
    put(found, asks("high", 2 * victims, 2, REQUIRED, priority=1))
    ways = told(found, "high").ways
    (way,) = [each for each in ways if "preempts" in each]
    assert (
        way
        in {
            1: {f"it preempts ns/{name} when it is decided next, and starts when it has stopped" for name in "ab"},
            2: {"it preempts ns/a and ns/b when it is decided next, and starts when they have stopped"},
        }[victims]
    )
