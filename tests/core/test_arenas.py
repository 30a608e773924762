"""Cohort trees that share a flavor with a topology are one arena: ready, woken, copied and decided together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import (
    Cohort,
    FlavorResource,
    Key,
    QueueingStrategy,
    Quota,
    Requeue,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    StayPending,
)
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.scheduling.cycle import schedule
from core.state.drain import drain
from core.state.state import State
from tests.builders import CPU, FAIR, NOW, cluster_queue, put, reserved, state, workload
from tests.core.test_properties import outcome
from tests.core.worlds import copy, worlds
from tests.effort import cases

STRICT = QueueingStrategy.STRICT_FIFO


def racks(topology: str | None = "racks") -> ResourceFlavor:
    return ResourceFlavor("default", topology_name=topology)


def two(topology: str | None = "racks", **fields: Any) -> State:
    """ClusterQueues ``a`` and ``b``, each of 4 in a tree of its own, with one flavor."""
    found = state(cluster_queue("a", 4, **fields), cluster_queue("b", 4, **fields))
    found.set_flavor("default", racks(topology))
    return found


def arenas(found: State) -> list[list[str]]:
    """The ClusterQueues of each arena."""
    found.check()
    return sorted(sorted(arena.queues) for arena in found.reservations.arenas.values())


def idle(found: State) -> State:
    """After cycles until no head gets any further."""
    for _ in drain(found, found.policy, NOW):
        pass
    return found


def test_two_trees_become_one_arena_by_a_flavor_with_a_topology_and_split_again() -> None:
    found = put(two(None), reserved("runs", 1, "a"))
    assert arenas(found) == [["a"], ["b"]]
    found.set_flavor("default", racks())
    assert arenas(found) == [["a", "b"]]
    found.set_flavor("default", racks(None))
    assert arenas(found) == [["a"], ["b"]]


@pytest.mark.parametrize("how", ["another flavor", "deleted"])
def test_an_arena_splits_when_the_tree_that_joins_its_trees_goes(how: str) -> None:
    """``b`` uses the flavors of both others."""
    spot = FlavorResource("spot", CPU)
    found = two()
    found.set_flavor("spot", ResourceFlavor("spot", topology_name="blocks"))
    both = ResourceGroup((CPU,), ("default", "spot"))
    joins = cluster_queue("b", groups=(both,), quotas={FlavorResource("default", CPU): Quota(1), spot: Quota(1)})
    alone = cluster_queue("b", groups=(ResourceGroup((CPU,), ("spot",)),), quotas={spot: Quota(1)})
    found.set_cluster_queue("b", joins)
    found.set_cluster_queue("c", replace(alone, name="c", cohort="team"))
    found.set_cluster_queue("d", cluster_queue("d", 1, cohort="team"))
    found.set_cluster_queue("e", replace(alone, name="e", groups=(), quotas={}))
    assert arenas(found) == [["a", "b", "c", "d"], ["e"]]
    found.set_cluster_queue("d", None)
    assert arenas(found) == [["a", "b", "c"], ["e"]]
    if how == "deleted":
        found.set_cluster_queue("b", None)
        assert arenas(found) == [["a"], ["c"], ["e"]]
    else:
        found.set_cluster_queue("b", alone)
        assert arenas(found) == [["a"], ["b", "c"], ["e"]]


@pytest.mark.parametrize("topology", ["racks", None])
def test_a_change_in_one_tree_makes_the_heads_of_both_ready(topology: str | None) -> None:
    found = put(two(topology, strategy=STRICT), workload("large", 9, queue="b"))
    assert found.reservations.arena_of["b"] and idle(found).heads(NOW) == ()
    heads = put(found, workload("new", 1, queue="a")).heads(NOW)
    assert [head.workload.key.name for head in heads] == (["new", "large"] if topology else ["new"])


@pytest.mark.parametrize("topology", ["racks", None])
def test_a_release_in_one_tree_wakes_nothing_in_another_that_waits_for_its_own_quota(topology: str | None) -> None:
    found = idle(put(two(topology), reserved("runs", 4, "a"), reserved("full", 4, "b"), workload("w", 4, queue="b")))
    assert found.pending.queues["b"].active == 0
    found.set_workload(Key("ns", "runs"), None)
    found.heads(NOW)
    found.heads(NOW + 1)
    assert found.pending.queues["b"].active == 0


@pytest.mark.parametrize("topology", ["racks", None])
def test_a_release_in_one_tree_lets_a_search_for_flavors_start_again_in_the_other(topology: str | None) -> None:
    found = put(two(topology), reserved("runs", 4, "a"))
    before = found.reservations.arenas[found.reservations.arena_of["b"]].generation
    found.set_workload(Key("ns", "runs"), None)
    after = found.reservations.arenas[found.reservations.arena_of["b"]].generation
    assert (after > before) is (topology is not None)


def test_a_copy_for_heads_has_their_trees_alone() -> None:
    found = put(two(), reserved("held", 1, "a", queue="a"))
    (arena,) = found.reservations.arenas.values()
    copied = arena.copy({"a"})
    assert copied.queues.keys() == {"a"} and copied.quota.same_specification(arena.copy({"a"}).quota)
    assert copied.queues["a"].usage == arena.queues["a"].usage
    assert arena.copy().queues.keys() == {"a", "b"}


@pytest.mark.parametrize("topology", ["racks", None])
def test_a_change_in_one_tree_copies_both_while_a_snapshot_reads_them(topology: str | None) -> None:
    found = put(two(topology), reserved("runs", 4, "a"))
    snapshot = found.snapshot()
    found.set_workload(Key("ns", "runs"), None)
    nodes = {name: snapshot.arenas[snapshot.arena_of[name]].queues[name] for name in "ab"}
    assert nodes["a"].usage == {("default", CPU): 4}, "a snapshot does not change"
    assert (found.reservations.node("b") is not nodes["b"]) is (topology is not None)
    found.release(snapshot)
    found.check()


@pytest.mark.parametrize("policy", [SchedulingPolicy(), FAIR], ids=["classical", "fair sharing"])
def test_heads_of_both_trees_are_decided_in_one_cycle_by_their_own_quota(policy: SchedulingPolicy) -> None:
    """Fair sharing compares heads of one tree only."""
    queues = (cluster_queue("a", 4, cohort="x"), cluster_queue("b", 4, cohort="y"))
    found = state(*queues, policy=policy)
    found.set_flavor("default", racks())
    put(found, workload("fits", 4, queue="a"), workload("large", 5, queue="b"))
    heads = found.heads(NOW)
    plan = schedule(found.snapshot(), heads, found.policy, NOW)
    by_name = {decision.workload.key.name: decision for decision in plan.decisions}
    assert isinstance(by_name["fits"], Reserve)
    assert isinstance(by_name["large"], StayPending) and by_name["large"].requeue is Requeue.PARKED


EDITS = st.tuples(
    st.sampled_from(["topology", "flavors", "cohort", "parent", "gone", "reserve", "release"]),
    st.integers(0, 3),
    st.integers(0, 3),
)


@given(st.lists(EDITS, max_size=15))
@settings(max_examples=cases(100, 3000))
def test_after_any_edits_the_arenas_are_those_of_a_state_built_afresh(edits: list[tuple[str, int, int]]) -> None:
    """Checked after each, as ``State.check`` compares arenas with those of the specifications."""
    found = state(cluster_queue("q0", 4))
    for what, one, other in edits:
        name, cohort = f"q{one}", ("", "c0", "c1", "c2")[other]
        queue = found.reservations.cluster_queues.get(name) or cluster_queue(name, 4)
        match what:
            case "topology":
                found.set_flavor(f"f{one}", ResourceFlavor(f"f{one}", topology_name=(None, "t")[other % 2]))
            case "flavors":
                flavors = (f"f{other}", f"f{one}")[: 1 + (one != other)]
                quotas = {FlavorResource(flavor, CPU): Quota(4) for flavor in flavors}
                groups = (ResourceGroup((CPU,), flavors),)
                found.set_cluster_queue(name, replace(queue, groups=groups, quotas=quotas))
            case "cohort":
                found.set_cluster_queue(name, replace(queue, cohort=cohort))
            case "parent":
                found.set_cohort(f"c{one}", Cohort(f"c{one}", parent=cohort) if other else None)
            case "gone":
                found.set_cluster_queue(name, None)
            case "reserve":
                put(found, reserved(f"w{other}", 1, name))
            case "release":
                found.set_workload(Key("ns", f"w{other}"), None)
        found.check()
    assert arenas(copy(found)) == arenas(found)


@given(worlds())
@settings(max_examples=cases(60, 1000))
def test_a_topology_alone_changes_no_decision(found: State) -> None:
    """Nothing places pods yet: what shares nodes is decided together, and as it was decided apart."""
    other = copy(found)
    for name, flavor in found.reservations.flavors.items():
        found.set_flavor(name, replace(flavor, topology_name=None))
        other.set_flavor(name, replace(flavor, topology_name="racks"))
    assert outcome(idle(found)) == outcome(idle(other))
