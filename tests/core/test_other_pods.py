"""What pods outside of topology use on nodes changes without anything being built or counted again from the start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model import Key, Node, PodSet, Reserve, ResourceFlavor, Topology, TopologyRequest
from core.quota.placement import PlacementCapacity
from core.state.state import State
from core.topology import Asked, Options, place
from core.topology.nodes import Domains
from tests.builders import CPU, NOW, cycle, put
from tests.core.explain.test_topology import HOSTNAME, RACK, asks, racks

NODES = [
    Node(f"{rack}{n}", {RACK: rack, HOSTNAME: f"{rack}{n}"}, (), {CPU: 4, "pods": 9}) for rack in "ab" for n in "01"
]
CHANGES = st.lists(st.tuples(st.sampled_from([node.name for node in NODES]), st.integers(0, 5)), max_size=12)


def domains(state: State) -> Domains:
    (arena,) = state.reservations.arenas.values()
    capacity = arena.further["topology"]
    assert isinstance(capacity, PlacementCapacity)
    return capacity.domains["default"]


def test_a_workload_starts_when_a_pod_of_others_is_gone() -> None:
    found = racks(number=1)
    found.set_other_pods("a0", {CPU: 1, "pods": 1})
    assert not isinstance(cycle(put(found, asks("job", 4, 2)))["job"], Reserve)
    found.set_other_pods("a0", {})
    assert isinstance(cycle(found)["job"], Reserve)


def test_a_pod_of_others_takes_the_room_of_workloads() -> None:
    found = racks(number=1)
    assert isinstance(cycle(put(found, asks("first", 2, 2)))["first"], Reserve)
    found.set_workload(Key("ns", "first"), None)
    found.set_other_pods("a1", {CPU: 3, "pods": 1})
    assert not isinstance(cycle(put(found, asks("second", 4, 2)))["second"], Reserve)


@pytest.mark.parametrize("levels", [(RACK, HOSTNAME), (RACK,)])
@given(CHANGES, st.booleans())
def test_a_history_of_changes_leaves_what_a_new_state_has(
    levels: tuple[str, ...], changes: list[tuple[str, int]], read: bool
) -> None:
    found = racks(number=0)
    found.set_topology("t", Topology("t", levels))
    for node in NODES:
        found.set_node(node.name, node)
    probe = [Asked(PodSet("main", 3, {CPU: 2}, topology=TopologyRequest(preferred=RACK)), 3)]
    found.heads(NOW)
    others = {}
    for name, cpu in changes:
        others[name] = {CPU: cpu, "pods": 1} if cpu else {}
        snapshot = found.snapshot() if read else None
        place(domains(found), probe, Options())
        found.set_other_pods(name, others[name])
        if snapshot is not None:
            found.release(snapshot)
    fresh = Domains(levels, ResourceFlavor("default", topology_name="t"), NODES, others)
    assert [leaf.capacity for leaf in domains(found).tree.leaves] == [leaf.capacity for leaf in fresh.tree.leaves]
    assert place(domains(found), probe, Options()) == place(fresh, probe, Options())
    assert place(domains(found), probe, Options(), empty=True) == place(fresh, probe, Options())
