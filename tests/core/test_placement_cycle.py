"""Placement in a topology is part of the cycle: it limits what is admitted, preempts, and is repeated later."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER, CheckState, Condition, PendingReason
from core import model
from core.matching.placement import holds
from core.model import (
    Admission,
    AdmissionCheck,
    CheckRule,
    ClusterQueue,
    FlavorResource,
    Key,
    Node,
    Placement,
    Plan,
    PodSet,
    PodSetAssignment,
    Preemption,
    Quota,
    Requeue,
    Requirement,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    StayPending,
    Taint,
    Toleration,
    Topology,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    Workload,
)
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.model.workload import replace
from core.quota.capacity import Amounts
from core.quota.placement import PlacementCapacity
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Head
from core.state.drain import drain, drain_in_steps
from core.state.state import State
from core.topology import Domains
from core.topology import counts as topology_counts
from tests.builders import CPU, FAIR, NOW, cluster_queue, cycle, put, workload
from tests.core.worlds import admitted
from tests.effort import cases

HOST = "kubernetes.io/hostname"
RACK = "rack"
HOSTS = Topology("hosts", (RACK, HOST))
TREE = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
IN_RACK = TopologyRequest(required=RACK)
ON = SchedulingPolicy(topology=TopologyPolicy())


def node(name: str, cpu: int, *, rack: str = "r1", usable: bool = True, pool: str = "a", pods: int = 10) -> Node:
    """A node of the pool with so many milli-cpu."""
    labels = {HOST: name, RACK: rack, "pool": pool}
    return Node(name, labels, (), {CPU: cpu, "pods": pods}, usable)


def queue(name: str, *flavors: str, cpu: int = 100, **fields: object) -> ClusterQueue:
    """A ClusterQueue in a tree of its own, with the same quota in each flavor."""
    quotas = {FlavorResource(flavor, CPU): Quota(cpu) for flavor in flavors}
    fields.setdefault("preemption", TREE)
    groups = (ResourceGroup((CPU,), flavors),)
    return cluster_queue(name, groups=groups, quotas=quotas, cohort=f"of-{name}", **fields)  # type: ignore[arg-type]


def world(*queues: ClusterQueue, nodes: tuple[Node, ...] = (), policy: SchedulingPolicy = ON) -> State:
    """Flavors ``tas`` and ``same`` with the nodes of pool a, ``other`` with those of pool b, and ``plain``."""
    found = State(policy)
    found.set_namespace("ns", {})
    found.set_topology("hosts", HOSTS)
    for name, pool in (("tas", "a"), ("same", "a"), ("other", "b")):
        found.set_flavor(name, ResourceFlavor(name, {"pool": pool}, topology_name="hosts"))
    found.set_flavor("plain", ResourceFlavor("plain"))
    for each in queues:
        found.set_cluster_queue(each.name, each)
        found.set_local_queue(Key("ns", each.name), model.LocalQueue(Key("ns", each.name), each.name))
    for each_node in nodes:
        found.set_node(each_node.name, each_node)
    return found


def asks(
    name: str,
    count: int,
    to: str = "a",
    *,
    cpu: int = 1,
    request: TopologyRequest | None = IN_RACK,
    least: int | None = None,
    **fields: object,
) -> Workload:
    """A waiting workload of so many pods."""
    pod_sets = (PodSet("main", count, {CPU: cpu}, least, topology=request),)
    return workload(name, 1, queue=to, pod_sets=pod_sets, **fields)  # type: ignore[arg-type]


def runs(found: Workload, on: dict[str, int], *, flavor: str = "tas", **fields: object) -> Workload:
    """The workload as it is when it runs on these nodes."""
    (pods,) = found.pod_sets
    domains = TopologyAssignment((HOST,), tuple(TopologyDomain((name,), count) for name, count in on.items()))
    count = sum(on.values())
    usage = {CPU: pods.requests[CPU] * count}
    given = PodSetAssignment(pods.name, {CPU: flavor}, usage, count, domains)
    admission = Admission(found.queue, (given,))
    return replace(admitted(found, admission, NOW), **fields)


def domains(decision: Reserve | StayPending | None) -> dict[str, int]:
    """The pods of an admission by node."""
    assert isinstance(decision, Reserve), decision
    topologies = [given.topology for given in decision.admission.pod_sets]
    return {each.values[-1]: each.count for topology in topologies if topology for each in topology.domains}


def last(found: State, name: str, now: float = NOW) -> Reserve | StayPending | None:
    """The last decision about a workload, after cycles until no head gets any further."""
    decision = None
    for plan in drain(found, found.policy, now):
        for each in plan.decisions:
            decision = each if each.workload.key.name == name else decision
    found.check()
    return decision


def waits(decision: Reserve | StayPending | None) -> tuple[str, list[str]]:
    """The reason why a workload waits, and its victims."""
    assert isinstance(decision, StayPending), decision
    return decision.reason, [victim.workload.key.name for victim in decision.victims]


def used(found: State) -> dict[str, int]:
    """Milli-cpu in use by node; each flavor must know the same of a node."""
    total: dict[str, int] = {}
    for arena in found.reservations.arenas.values():
        capacity = arena.further.get("topology")
        if isinstance(capacity, PlacementCapacity):
            for flavor in capacity.usage().values():
                for values, (_, taken) in flavor.items():
                    assert total.setdefault(values[-1], taken.get(CPU, 0)) == taken.get(CPU, 0)
    return {name: amount for name, amount in total.items() if amount}


def capacities(found: State) -> list[object]:
    """What workloads can use and use, of all resources on all domains."""
    arenas = found.reservations.arenas.values()
    further = (arena.further.get("topology") for arena in arenas)
    return [each.usage() for each in further if isinstance(each, PlacementCapacity)]


def test_a_workload_is_admitted_with_the_domains_of_its_pods() -> None:
    found = put(world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2))), asks("w", 3))
    assert sum(domains(last(found, "w")).values()) == 3
    assert sum(used(found).values()) == 3


def test_with_the_gate_off_a_topology_has_no_effect() -> None:
    found = put(world(queue("a", "tas"), policy=SchedulingPolicy()), asks("w", 3))
    decision = last(found, "w")
    assert isinstance(decision, Reserve) and decision.admission.pod_sets[0].topology is None


def test_what_nodes_hold_limits_admission_although_quota_is_free() -> None:
    found = put(world(queue("a", "tas"), nodes=(node("n1", 2),)), asks("first", 2), asks("second", 1, created=1.0))
    decision = last(found, "second")
    assert waits(decision) == (PendingReason.WAITING_FOR_QUOTA, [])
    assert isinstance(decision, StayPending)
    assert decision.message == (
        "couldn't assign flavors to pod set main: topology \"hosts\" doesn't allow to fit any of 1 pod(s). "
        'Total nodes: 1; excluded: resource "cpu": 1'
    )
    found.set_workload(Key("ns", "first"), None)
    assert domains(last(found, "second")) == {"n1": 1}


def test_pods_that_no_rack_could_ever_hold_preempt_nobody() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2, rack="r2")))
    put(found, runs(asks("low", 1), {"n1": 1}), asks("large", 3, priority=9))
    assert waits(last(found, "large")) == (PendingReason.TOPOLOGY_PLACEMENT_FAILED, [])


@pytest.mark.parametrize("change", ["node", "other pods", "usable"])
def test_a_waiting_workload_is_decided_again_when_nodes_change(change: str) -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2, usable=False)))
    found.set_other_pods("n1", {CPU: 1, "pods": 1})
    assert isinstance(last(put(found, asks("w", 2)), "w"), StayPending)
    match change:
        case "node":
            found.set_node("n3", node("n3", 2))
        case "usable":
            found.set_node("n2", node("n2", 2))
        case _:
            found.set_other_pods("n1", {})
    assert sum(domains(last(found, "w")).values()) == 2


def test_each_workload_gets_the_nodes_that_it_prefers_itself() -> None:
    policy = SchedulingPolicy(topology=TopologyPolicy(preferred_affinity=True))
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2)), policy=policy)
    for name in ("n1", "n2"):
        prefers = Placement(preferred=((1, (Requirement(HOST, "In", (name,)),)),))
        pods = PodSet("main", 1, {CPU: 1}, placement=prefers, topology=TopologyRequest(unconstrained=True))
        assert domains(last(put(found, workload(name, 1, queue="a", pod_sets=(pods,))), name)) == {name: 1}


TAINT = Taint("reserved", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"node_labels": {"pool": "a", "zone": "z"}}, {"node_labels": {"pool": "a"}}),
        ({"tolerations": ()}, {"tolerations": (Toleration("reserved", "Exists"),)}),
        ({"node_taints": (Taint("spot", "", "NoSchedule"),)}, {"node_taints": ()}),
    ],
    ids=["nodeLabels", "tolerations", "nodeTaints"],
)
def test_a_waiting_workload_is_decided_again_when_its_flavor_with_a_topology_changes(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    found = world(queue("a", "tas"), nodes=(replace(node("n1", 3), taints=(TAINT,)),))
    flavor = replace(found.reservations.flavors["tas"], **before)
    found.set_flavor("tas", flavor)
    put(found, runs(asks("running", 1), {"n1": 1}))
    assert isinstance(last(put(found, asks("w", 2)), "w"), StayPending)
    tolerations = (Toleration("reserved", "Exists"),)
    found.set_flavor("tas", replace(flavor, **{"tolerations": tolerations, **after}))
    assert domains(last(found, "w")) == {"n1": 2}
    assert used(found) == {"n1": 3}
    found.check()


def test_pods_outside_of_topology_use_their_nodes() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2)))
    found.set_other_pods("n1", {CPU: 2, "pods": 1})
    assert domains(last(put(found, asks("w", 2)), "w")) == {"n2": 2}


def test_a_node_that_comes_back_has_the_pods_that_were_on_it() -> None:
    found = put(world(queue("a", "tas"), nodes=(node("n1", 2),)), runs(asks("w", 2), {"n1": 2}))
    found.set_node("n1", None)
    assert used(found) == {}
    found.set_node("n1", node("n1", 4))
    assert used(found) == {"n1": 2}
    found.check()


def test_a_node_that_was_never_there_has_only_what_runs_on_it_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its domains have other numbers then; a cluster that grows has many such nodes, and thousands of workloads."""
    found = world(queue("a", "tas", "same"), nodes=(node("n1", 4), node("n3", 4, rack="r3")))
    put(found, *(runs(asks(f"w{n}", 1), {f"n{n}": 1}, flavor="same" if n == 2 else "tas") for n in (1, 2, 3)))
    assert used(found) == {"n1": 1, "n3": 1}
    counted: list[tuple[str, ...]] = []
    add = Domains.add

    def noted(self: Domains, values: tuple[str, ...], requests: model.Requests, count: int) -> None:
        counted.append(values)
        add(self, values, requests, count)

    monkeypatch.setattr(Domains, "add", noted)
    found.set_node("n2", node("n2", 4, rack="r2"))
    assert used(found) == {"n1": 1, "n2": 1, "n3": 1}
    assert set(counted) == {("n2",)}
    found.check()


def test_pods_come_to_a_node_whose_flavor_was_deleted_before_its_topology_got_other_levels() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2),))
    assert domains(last(put(found, asks("w", 1)), "w")) == {"n1": 1}
    found.set_cluster_queue("a", None)
    found.set_flavor("tas", None)
    found.set_topology("hosts", Topology("hosts", (HOST,)))
    found.set_node("n2", Node("n2", {HOST: "n2", "pool": "a"}, (), {CPU: 2, "pods": 10}, usable=True))
    found.set_other_pods("n2", {CPU: 1, "pods": 1})
    found.check()


def test_a_flavor_that_is_created_again_has_the_nodes_that_exist_now() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2),))
    flavor = found.reservations.flavors["tas"]
    assert domains(last(put(found, asks("w", 1)), "w")) == {"n1": 1}
    found.set_workload(Key("ns", "w"), None)
    found.set_flavor("tas", None)
    found.set_node("n1", node("n1", 2, usable=False))
    found.set_flavor("tas", flavor)
    assert isinstance(last(put(found, asks("v", 1)), "v"), StayPending)


def test_a_decision_for_a_node_that_has_gone_since_is_void() -> None:
    found = put(
        world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 1))),
        asks("w", 2, request=TopologyRequest(required=HOST)),
    )
    heads = found.heads(NOW)
    plan = schedule(found.snapshot(), heads, found.policy, NOW)
    assert domains(plan.decisions[0]) == {"n1": 2}
    found.set_node("n1", None)
    found.apply(plan)
    assert isinstance(last(found, "w"), StayPending) and used(found) == {}
    found.set_node("n1", node("n1", 2))
    assert domains(last(found, "w")) == {"n1": 2}


def test_trees_whose_flavors_may_share_nodes_are_decided_together() -> None:
    found = world(queue("a", "tas"), queue("b", "same"), queue("c", "other"), nodes=(node("n1", 2),))
    assert sorted(sorted(arena.queues) for arena in found.reservations.arenas.values()) == [["a", "b"], ["c"]]
    put(found, runs(asks("w", 2), {"n1": 2}), asks("v", 1, "b"))
    assert isinstance(last(found, "v"), StayPending)
    found.set_workload(Key("ns", "w"), None)
    assert domains(last(found, "v")) == {"n1": 1}


def test_what_is_released_in_one_tree_wakes_in_another_only_what_had_no_room() -> None:
    """A workload that lacks quota of its own tree cannot start because of another one."""
    found = world(queue("a", "tas"), queue("b", "same", cpu=6), nodes=(node("n1", 2), node("n2", 4, rack="r2")))
    put(found, runs(asks("w", 2), {"n1": 2}), runs(asks("x", 1, "b", cpu=3), {"n2": 1}, flavor="same"))
    put(found, asks("no-room", 1, "b", cpu=2), asks("no-quota", 4, "b", created=1.0))
    put(found, replace(asks("small", 1, "b", created=2.0), priority=-1))
    assert isinstance(last(found, "small"), Reserve), "the other two are parked"
    assert found.pending.queues["b"].active == 0
    found.set_workload(Key("ns", "w"), None)
    found.heads(NOW)
    found.heads(NOW + 1)
    waiting = found.pending.queues["b"]
    assert [each.workload.key.name for each in waiting if waiting.is_active(each)] == ["no-room"]


def test_workloads_that_lack_the_same_quota_are_decided_together_wherever_their_pods_are_to_be() -> None:
    found = world(queue("a", "tas", cpu=4), queue("b", "same"), nodes=(node("n1", 2), node("n2", 4, rack="r2")))
    put(found, runs(asks("w", 2), {"n1": 2}))
    last(found, "nobody")  # what the new queues wake
    put(found, asks("x", 3), asks("y", 3, created=1.0, request=TopologyRequest(preferred=RACK)))
    put(found, asks("z", 4, created=2.0))
    assert [len(plan.decisions) for plan in drain(found, ON, NOW)] == [1, 1], "y is parked with x, and z is not"
    found.check()
    found.set_workload(Key("ns", "w"), None)
    assert domains(last(found, "x")) == {"n2": 3}


def test_workloads_that_lack_the_same_room_are_decided_each_by_itself() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 1, rack="r2")))
    put(found, asks("x", 3), asks("y", 3, created=1.0, request=TopologyRequest(preferred=RACK)))
    assert sum(domains(last(found, "y")).values()) == 3


@pytest.mark.parametrize("recompute", [True, False])
def test_a_workload_that_lost_its_place_and_went_on_to_another_flavor_is_woken_by_room_in_the_first(
    recompute: bool,
) -> None:
    policy = SchedulingPolicy(topology=TopologyPolicy(recompute=recompute))
    nodes = (node("n1", 2), node("n3", 2, pool="b"))
    found = world(queue("a", "tas", "other", cpu=2), queue("b", "same"), nodes=nodes, policy=policy)
    put(found, runs(asks("in-other", 1), {"n3": 1}, flavor="other"))
    last(found, "nobody")  # what the new queues wake
    put(found, asks("w", 2, "b"), asks("v", 2, created=1.0))
    assert isinstance(last(found, "w"), Reserve)
    assert found.pending.queues["a"].active == 0, "it is parked, after the second flavor"
    found.set_workload(Key("ns", "w"), None)
    assert domains(last(found, "v")) == {"n1": 2}


def test_trees_are_joined_and_parted_as_labels_of_flavors_change() -> None:
    found = world(queue("a", "tas"), queue("c", "other"))
    found.set_flavor("other", ResourceFlavor("other", {"zone": "z"}, topology_name="hosts"))
    assert len(found.reservations.arenas) == 1
    found.set_flavor("other", ResourceFlavor("other", {"pool": "b"}, topology_name="hosts"))
    assert len(found.reservations.arenas) == 2
    found.set_topology("hosts", Topology("hosts", (RACK,)))
    found.set_flavor("other", ResourceFlavor("other", {}, topology_name="hosts"))
    assert len(found.reservations.arenas) == 2
    found.check()


def test_a_workload_that_asks_for_no_topology_takes_no_flavor_with_one_unless_all_have() -> None:
    mixed = queue("a", "tas", "plain")
    found = put(world(mixed, queue("b", "tas"), nodes=(node("n1", 9),)), asks("w", 1, request=None))
    put(found, asks("v", 1, "b", request=None), asks("u", 1, created=1.0))
    decisions = cycle(found)
    chosen = {name: d.admission.pod_sets[0].flavors[CPU] for name, d in decisions.items() if isinstance(d, Reserve)}
    assert chosen == {"w": "plain", "v": "tas"}
    assert domains(decisions["v"]) == {"n1": 1}
    assert isinstance(u := last(found, "u"), Reserve) and u.admission.pod_sets[0].flavors[CPU] == "tas"


def test_a_level_that_no_flavor_has_is_told() -> None:
    found = put(world(queue("a", "tas", "plain")), asks("w", 1, request=TopologyRequest(required="block")))
    decision = last(found, "w")
    assert isinstance(decision, StayPending)
    assert decision.message == (
        'couldn\'t assign flavors to pod set main: Flavor "plain" does not support TopologyAwareScheduling, '
        'Flavor "tas" does not contain the requested level'
    )
    assert decision.reason == PendingReason.NO_MATCHING_FLAVOR


@pytest.mark.parametrize("fair", [False, True], ids=["classical", "fair sharing"])
def test_victims_make_room_in_one_rack_and_are_as_few_as_that_needs(fair: bool) -> None:
    policy = SchedulingPolicy(fair_sharing=FAIR.fair_sharing if fair else None, topology=ON.topology)
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2, rack="r2")), policy=policy)
    put(found, runs(asks("one", 1), {"n1": 1}), runs(asks("two", 1), {"n2": 1}), asks("w", 2, priority=5))
    reason, victims = waits(cycle(found)["w"])
    assert (reason, len(victims)) == (PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS, 1)
    found.set_workload(Key("ns", victims[0]), None)
    assert sum(domains(last(found, "w")).values()) == 2


@pytest.mark.parametrize("recompute", [True, False])
def test_a_head_whose_domain_an_earlier_head_takes_is_placed_elsewhere_in_the_same_cycle(recompute: bool) -> None:
    policy = SchedulingPolicy(topology=TopologyPolicy(recompute=recompute))
    nodes = (node("n1", 2), node("n2", 2, rack="r2"))
    found = world(queue("a", "tas"), queue("b", "same"), nodes=nodes, policy=policy)
    put(found, asks("w", 2), asks("v", 2, "b", created=1.0))
    decisions = cycle(found)
    assert domains(decisions["w"]) == {"n1": 2}
    if recompute:
        assert domains(decisions["v"]) == {"n2": 2}
    else:
        assert waits(decisions["v"]) == (PendingReason.WAITING_FOR_QUOTA, [])


def test_equal_heads_that_fill_one_node_after_another_need_a_search_for_each_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them was nominated for the first node."""
    queues = tuple(queue(f"q{number:02}", "tas") for number in range(40))
    found = world(*queues, nodes=tuple(node(f"n{number}", 10) for number in range(8)))
    put(found, *(asks(f"w{each.name}", 1, to=each.name) for each in queues))
    searched: list[object] = []
    module = importlib.import_module("core.topology.place")
    search = module._alone_placed

    def counted(*args: object) -> object:
        searched.append(args)
        return search(*args)

    monkeypatch.setattr(module, "_alone_placed", counted)
    decided = schedule(found.snapshot(), found.heads(NOW), found.policy, NOW).decisions
    assert Counter(name for each in decided for name in domains(each)) == {"n0": 10, "n1": 10, "n2": 10, "n3": 10}
    assert len(searched) == 4


def capacity(found: State) -> PlacementCapacity:
    """The capacity of the only arena, with the usage of nobody."""
    (arena,) = found.reservations.arenas.values()
    one = arena.further["topology"]
    assert isinstance(one, PlacementCapacity)
    return one.copy()


@settings(max_examples=cases(40, 1000), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("add", "add", "repeat", "remove"))), max_size=14))
def test_what_is_known_of_the_last_placement_is_what_a_capacity_finds_that_knows_nothing(
    steps: list[tuple[int, str]],
) -> None:
    nodes = tuple(node(f"n{number}", 2 + number, rack=f"r{number % 2}") for number in range(3))
    found = world(queue("a", "tas"), nodes=nodes)
    small = tuple(asks(f"w{cpu}", 1, cpu=cpu, request=request) for cpu, request in ((1, IN_RACK), (2, IN_RACK)))
    shapes = (*small, asks("both", 2, request=TopologyRequest(preferred=HOST)))
    proposed = [
        Admission("a", (PodSetAssignment("main", {CPU: "tas"}, {CPU: each.pod_sets[0].count}, each.pod_sets[0].count),))
        for each in shapes
    ]
    here, used = capacity(found), list[Amounts]()
    assert found.placement is not None

    def asked(shape: int) -> object:
        afresh = capacity(world(queue("a", "tas"), nodes=nodes))
        for each in used:
            afresh.add("a", dict(each))
        placed = here.place(shapes[shape], proposed[shape])
        assert placed == afresh.place(shapes[shape], proposed[shape])
        assert [here.fits("a", each) for each in used] == [afresh.fits("a", dict(each)) for each in used]
        return placed

    for shape, action in steps:
        placed = asked(shape)
        if action == "remove" and used:
            here.remove("a", used.pop(shape % len(used)))
        elif action == "repeat" and used:  # whatever was placed last
            used.append(used[shape % len(used)])
            here.add("a", used[-1])
        elif action == "add" and isinstance(placed, Admission):
            used.append(found.placement.amounts(shapes[shape], placed))
            here.add("a", used[-1])
        asked(shape)


def test_two_pod_sets_of_one_workload_are_checked_together_with_their_number_of_pods() -> None:
    """Kueue checks each pod set alone and without the number of pods: there this head overbooks the node."""
    pair = (
        PodSet("one", 1, {CPU: 1}, topology=TopologyRequest(required=HOST)),
        PodSet("two", 1, {CPU: 1}, topology=TopologyRequest(required=HOST)),
    )
    found = world(queue("a", "tas"), queue("b", "same"), nodes=(node("n1", 9, pods=3),))
    put(found, asks("w", 2), replace(asks("v", 1, "b", created=1.0), pod_sets=pair))
    decisions = cycle(found)
    assert domains(decisions["w"]) == {"n1": 2}
    assert isinstance(decisions["v"], StayPending)


def test_a_head_does_not_start_on_the_node_of_a_victim_that_still_runs() -> None:
    """In Kueue it does: a victim of an earlier head counts as gone, although its pods still run."""
    nodes = (node("n1", 3), node("n2", 4, rack="r2"))
    found = world(queue("a", "tas"), queue("b", "same"), queue("c", "same"), nodes=nodes)
    put(found, runs(asks("low", 5, request=TopologyRequest(unconstrained=True)), {"n1": 1, "n2": 4}))
    put(found, asks("high", 4, priority=9), asks("one", 2, "b", created=1.0), asks("two", 1, "c", created=2.0))
    decisions = cycle(found)
    assert waits(decisions["high"])[1] == ["low"]
    assert domains(decisions["one"]) == {"n1": 2}
    assert isinstance(decisions["two"], StayPending)


def test_partial_admission_finds_the_pods_that_fit_in_one_rack() -> None:
    found = put(world(queue("a", "tas"), nodes=(node("n1", 3),)), asks("w", 8, least=1))
    assert domains(last(found, "w")) == {"n1": 3}


def test_a_preemptor_without_victims_reserves_the_domains_of_an_empty_cluster() -> None:
    stays = queue("a", "tas", preemption=Preemption())
    found = world(stays, queue("b", "same"), nodes=(node("n1", 2),))
    put(found, runs(asks("r", 1, "b"), {"n1": 1}, flavor="same"), asks("w", 2), asks("v", 1, "b", created=1.0))
    decisions = cycle(found)
    assert isinstance(decisions["w"], StayPending) and isinstance(decisions["v"], StayPending)


def test_reclaimable_pods_free_quota_and_no_domain() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2),))
    put(found, replace(runs(asks("r", 2), {"n1": 2}), reclaimable={"main": 1}), asks("w", 1))
    assert isinstance(last(found, "w"), StayPending)
    assert used(found) == {"n1": 2}


# Second passes.


def provisioned(**fields: object) -> State:
    """A ClusterQueue whose nodes are asked for first."""
    found = world(queue("a", "tas", checks=(CheckRule("nodes"),)), **fields)  # type: ignore[arg-type]
    found.set_admission_check("nodes", AdmissionCheck("nodes", PROVISIONING_REQUEST_CONTROLLER, active=True))
    return found


def reserved_first(found: State) -> Workload:
    """The workload ``w`` with its quota and a ready check, before it is placed."""
    decision = last(put(found, asks("w", 2)), "w")
    assert isinstance(decision, Reserve) and not decision.admitted
    assert [given.delayed for given in decision.admission.pod_sets] == ["Pending"]
    made = admitted(decision.workload, decision.admission, NOW)
    conditions = tuple(each for each in made.conditions if each.type != Condition.ADMITTED)
    return replace(made, conditions=conditions, checks=(model.CheckState("nodes", CheckState.READY),))


def test_domains_are_decided_when_the_nodes_that_were_asked_for_are_there() -> None:
    found = provisioned()
    put(found, reserved_first(found))
    assert found.next_wake(NOW) == NOW + 1.0
    failed = last(found, "w", NOW + 1)
    assert isinstance(failed, StayPending) and failed.second_pass
    assert Key("ns", "w") in found.reservations
    assert found.next_wake(NOW + 1) == NOW + 3.0
    found.set_node("n1", node("n1", 2))
    placed = last(found, "w", NOW + 3)
    assert isinstance(placed, Reserve) and placed.second_pass and placed.admitted
    assert domains(placed) == {"n1": 2}
    assert [given.delayed for given in placed.admission.pod_sets] == ["Ready"]
    assert used(found) == {"n1": 2}
    assert last(found, "w", NOW + 60) is None


def test_a_second_pass_that_could_not_be_written_is_repeated() -> None:
    found = provisioned(nodes=(node("n1", 2),))
    put(found, waiting := reserved_first(found))
    assert isinstance(last(found, "w", NOW + 1), Reserve)
    assert found.assumed(waiting.key)
    put(found, replace(waiting, resource_version="2"))  # another write about it does not undo it
    assert used(found) == {"n1": 2}
    found.unassume(waiting.key)
    assert (used(found), found.assumed(waiting.key)) == ({}, False)
    assert isinstance(last(found, "w", NOW + 10), Reserve)


@pytest.mark.parametrize("room", [True, False])
def test_the_pods_of_a_failed_node_are_placed_anew_or_the_workload_is_evicted(room: bool) -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2)))
    failing = runs(asks("w", 4), {"n1": 2, "n2": 2}, unhealthy_nodes=("n1",))
    put(found, failing)
    found.set_node("n1", None)
    if room:
        found.set_node("n3", node("n3", 2))
        assert domains(last(found, "w", NOW + 1)) == {"n2": 2, "n3": 2}
        return
    reason, victims = waits(last(found, "w", NOW + 1))
    assert (reason, victims) == ("NodeFailures", ["w"])
    assert found.is_evicting(failing.key)
    assert last(found, "w", NOW + 60) is None


def test_without_fail_fast_a_workload_keeps_its_quota_until_there_is_another_node() -> None:
    policy = SchedulingPolicy(topology=TopologyPolicy(fail_fast=False))
    found = world(queue("a", "tas"), nodes=(node("n1", 2),), policy=policy)
    put(found, runs(asks("w", 2), {"n1": 2}, unhealthy_nodes=("n1",)))
    found.set_node("n1", None)
    assert waits(last(found, "w", NOW + 1)) == (PendingReason.WAITING_FOR_QUOTA, [])
    found.set_node("n2", node("n2", 2))
    assert domains(last(found, "w", NOW + 60)) == {"n2": 2}


def failing() -> State:
    """A workload ``w`` of 2 pods with its quota, for which there is no place: three tries have failed."""
    found = provisioned()
    put(found, reserved_first(found))
    for seconds in (1, 3, 7):
        assert isinstance(last(found, "w", NOW + seconds), StayPending)
    assert found.next_wake(NOW + 7) == NOW + 15
    return found


def full() -> State:
    """``failing``, with a node of which another workload and other pods use 1 milli-cpu each, and 1 is free."""
    found = failing()
    put(found, runs(asks("r", 1, priority=9), {"n1": 1}))
    found.set_other_pods("n1", {CPU: 1, "pods": 1})
    found.set_node("n1", node("n1", 3))
    assert isinstance(last(found, "w", NOW + 8), StayPending)
    return found


def new_node(found: State) -> None:
    found.set_node("n2", node("n2", 2))


def larger_node(found: State) -> None:
    found.set_node("n1", node("n1", 4))


def fewer_others(found: State) -> None:
    found.set_other_pods("n1", {})


def end_of_another(found: State) -> None:
    found.set_workload(Key("ns", "r"), None)


def new_labels(found: State) -> None:
    found.set_node("n3", node("n3", 2, pool="c"))
    found.set_flavor("tas", ResourceFlavor("tas", {"pool": "c"}, topology_name="hosts"))


@pytest.mark.parametrize("change", [new_node, larger_node, fewer_others, end_of_another, new_labels])
def test_a_second_pass_comes_when_there_is_more_room_and_not_at_its_time(change: Callable[[State], None]) -> None:
    found = full()
    change(found)
    assert isinstance(last(found, "w", NOW + 9), Reserve)


def more_others(found: State) -> None:
    found.set_other_pods("n1", {CPU: 2, "pods": 2})


def other_flavor(found: State) -> None:
    found.set_node("n3", node("n3", 2, pool="b"))


def heartbeat(found: State) -> None:
    found.set_node("n1", node("n1", 3))


def new_workload(found: State) -> None:
    put(found, asks("v", 1))


@pytest.mark.parametrize("change", [more_others, other_flavor, heartbeat, new_workload])
def test_what_makes_no_room_causes_no_second_pass(change: Callable[[State], None]) -> None:
    found = full()
    change(found)
    assert last(found, "w", NOW + 9) is None
    assert found.next_wake(NOW + 9) == NOW + 24


def test_a_burst_of_changes_causes_one_second_pass_a_second() -> None:
    """Nodes that come one by one, too small each: no change is lost, and none of them has a try of its own."""
    found = failing()
    tries = []
    for tenth in range(80, 125):
        name = f"n{tenth}"
        found.set_node(name, node(name, 1, rack=name))
        now = NOW + tenth / 10
        tries += [now - NOW for plan in drain(found, found.policy, now) for each in plan.decisions]
    assert tries == pytest.approx([8, 9, 10, 11, 12])
    assert found.next_wake(NOW + 12) == NOW + 13  # what came since the last try
    assert isinstance(last(found, "w", NOW + 13), StayPending)
    assert found.next_wake(NOW + 13) == NOW + 43  # and then by time


def test_a_change_during_a_second_pass_causes_another_one() -> None:
    found = failing()
    new_node(found)
    (head,) = found.heads(NOW + 8)
    snapshot = found.snapshot()
    found.set_node("n4", node("n4", 1, rack="r4"))
    found.apply(Plan((wait_of(head),)))
    found.release(snapshot)
    assert last(found, "w", NOW + 8) is None
    assert found.next_wake(NOW + 8) == NOW + 9
    assert domains(last(found, "w", NOW + 9)) == {"n2": 2}


def wait_of(head: Head) -> StayPending:
    """A second pass that found no room."""
    return StayPending(head.workload, "a", PendingReason.WAITING_FOR_QUOTA, "", Requeue.HEAP, second_pass=True)


def test_a_change_repeats_no_second_pass_whose_write_was_refused_before_its_time() -> None:
    """Its domains become free again by the refusal: neither that nor anything else undoes the backoff."""
    found = provisioned(nodes=(node("n1", 2),))
    put(found, waiting := reserved_first(found))
    assert isinstance(last(found, "w", NOW + 1), Reserve)
    found.unassume(waiting.key, NOW + 21)
    new_node(found)
    assert last(found, "w", NOW + 20) is None
    assert found.next_wake(NOW + 20) == NOW + 21
    assert isinstance(last(found, "w", NOW + 21), Reserve)
    found.unassume(waiting.key)  # only in conflict with another write
    assert isinstance(last(found, "w", NOW + 22), Reserve)


def test_a_workload_that_is_placed_in_another_cluster_does_not_keep_the_scheduler_awake() -> None:
    found = provisioned()
    put(found, reserved_first(found))
    found.set_cluster_queue("a", queue("a", "tas", checks=(CheckRule("nodes"), CheckRule("workers"))))
    found.set_admission_check("workers", AdmissionCheck("workers", MULTIKUEUE_CONTROLLER, active=True))
    assert not [each for plan in drain(found, found.policy, NOW + 1) for each in plan.decisions]
    assert found.next_wake(NOW + 1) == NOW + 3


def test_a_workload_with_a_group_of_three_pod_sets_waits_and_says_why() -> None:
    request = TopologyRequest(required=RACK, group="g")
    third = PodSet("ps", 1, {CPU: 1}, topology=request)
    found = world(queue("a", "tas"), nodes=(node("n1", 8),))
    put(found, replace(asks("w", 1), pod_sets=(*with_leader(2), third)))
    decision = last(found, "w")
    assert isinstance(decision, StayPending)
    assert "can only place groups of at most 2 pod sets, got: 3 pod set(s)" in decision.message


def test_a_second_pass_comes_before_the_heads_of_queues() -> None:
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2), node("n3", 2)))
    put(found, runs(asks("w", 4), {"n1": 2, "n2": 2}, unhealthy_nodes=("n1",)), asks("v", 2, priority=9))
    found.set_node("n1", None)
    plan = next(iter(drain(found, found.policy, NOW + 1)))
    assert [decision.workload.key.name for decision in plan.decisions] == ["w", "v"]
    assert domains(plan.decisions[0])["n3"] == 2
    assert isinstance(plan.decisions[1], StayPending)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 7),
            st.integers(1, 4),
            st.integers(0, 2),
            st.sampled_from(["add", "group", "resize", "resize", "end", "node", "fail", "others"]),
        ),
        max_size=25,
    ),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=cases(60, 1500))
def test_after_any_history_no_node_is_overbooked_and_usage_is_that_of_a_state_built_afresh(
    steps: list[tuple[int, int, int, str]], fail_fast: bool, elastic: bool
) -> None:
    """Nodes go with or without the pods on them being replaced by a second pass; groups have a leader. Elastic jobs get
    a larger or a smaller slice; the one that it replaces finishes at once, or after the cycles.
    """
    nodes = (node("n0", 3), node("n1", 3), node("n2", 3, rack="r2"))
    policy = SchedulingPolicy(topology=TopologyPolicy(fail_fast=fail_fast, elastic=elastic))
    found = world(queue("a", "tas"), queue("b", "same"), nodes=nodes, policy=policy)
    gone: set[str] = set()
    others: dict[str, dict[str, int]] = {}
    for step, (number, size, priority, what) in enumerate(steps):
        name = f"n{number % 3}"
        if what == "node":
            gone ^= {name}
            found.set_node(name, None if name in gone else nodes[number % 3])
        elif what == "fail":
            gone.add(name)
            found.set_node(name, None)
            put(found, *(replace(each, unhealthy_nodes=(name,)) for each in placed_on(found, name)))
        elif what == "others":
            others[name] = {CPU: size - 1, "pods": 1} if size > 1 else {}
            found.set_other_pods(name, others[name])
        else:
            made = asks(f"w{number}", size, "ab"[number % 2], priority=priority, created=float(number))
            if what == "group":
                made = replace(made, pod_sets=with_leader(size))
            if what == "resize":
                resize(found, f"e{number % 2}", made, step)
            else:
                found.set_workload(made.key, None if what == "end" else made)
        for plan in drain(found, found.policy, NOW + 40 * step):
            for decision in plan.decisions:
                if isinstance(decision, Reserve):
                    now_admitted = admitted(decision.workload, decision.admission, NOW)
                    put(found, replace(now_admitted, unhealthy_nodes=()))
                    assert not gone & nodes_of(decision.admission)
                    if decision.workload.replaces is not None and priority:
                        found.set_workload(decision.workload.replaces, None)
        for key in (*replaced_slices(found), *sorted(found.reservations.evicted)):
            found.set_workload(key, None)
        found.check()
        assert all(amount <= 3 for amount in used(found).values())
    left = tuple(each for each in nodes if each.name not in gone)
    afresh = world(queue("a", "tas"), queue("b", "same"), nodes=left, policy=policy)
    for name, requests in others.items():
        afresh.set_other_pods(name, requests)
    put(afresh, *found.workloads.values())
    assert used(afresh) == used(found)
    assert capacities(afresh) == capacities(found)


def test_an_elastic_job_grows_into_the_room_that_is_left_beside_its_own_pods() -> None:
    policy = SchedulingPolicy(topology=TopologyPolicy(elastic=True))
    found = world(queue("a", "tas"), nodes=(node("n1", 2), node("n2", 2)), policy=policy)
    for step, pods in enumerate((1, 3, 4)):
        resize(found, "e", asks("e", pods), step)
        decision = last(found, f"e-{step}")
        assert sum(domains(decision).values()) == pods
        assert isinstance(decision, Reserve)
        put(found, admitted(decision.workload, decision.admission, NOW))
        for key in replaced_slices(found):
            found.set_workload(key, None)
    assert used(found) == {"n1": 2, "n2": 2}


def test_an_elastic_job_does_not_grow_into_the_place_of_its_own_pods_that_end() -> None:
    """They still run when its other pod set gets more."""
    policy = SchedulingPolicy(topology=TopologyPolicy(elastic=True))
    found = world(queue("a", "tas"), nodes=(node("n1", 4),), policy=policy)
    for step, (more, fewer) in enumerate(((2, 2), (4, 0))):
        made, (pods,) = asks("e", 1), asks("e", 1).pod_sets
        pods = replace(pods, topology=TopologyRequest(unconstrained=True))
        resize(found, "e", made, step)
        both = (replace(pods, name="more", count=more), replace(pods, name="fewer", count=fewer))
        put(found, replace(found.workloads[Key("ns", f"e-{step}")], pod_sets=both))
        decision = last(found, f"e-{step}")
        assert isinstance(decision, Reserve) == (step == 0)
        if isinstance(decision, Reserve):
            put(found, admitted(decision.workload, decision.admission, NOW))


def replaced_slices(found: State) -> list[Key]:
    """The slices of elastic jobs that were replaced by one that holds quota."""
    return [each.replaces for each in found.workloads.values() if each.replaces is not None and each.admission]


def resize(found: State, job: str, made: Workload, step: int) -> None:
    """An elastic job gets a slice with the pods of ``made``, which may be anywhere. It replaces the newest one that
    holds quota; all others are gone.
    """
    slices = sorted(
        (each for each in found.workloads.values() if each.slice_name == job), key=lambda each: each.created
    )
    held = [each for each in slices if each.admission is not None]
    for each in slices:
        if each not in held[-1:]:
            found.set_workload(each.key, None)
    fields: dict[str, Any] = {"replaces": held[-1].key, "queue": held[-1].queue} if held else {}
    pods = (replace(made.pod_sets[0], topology=TopologyRequest(unconstrained=True)),)
    key, owner = Key("ns", f"{job}-{step}"), Owner("batch", "Job", "ns", job)
    fields |= {"key": key, "uid": f"uid-{key.name}", "pod_sets": pods, "owner": owner, "slice_name": job}
    found.set_workload(key, replace(made, created=100.0 + step, **fields))


def with_leader(size: int) -> tuple[PodSet, ...]:
    """A leader and so many workers in one domain."""
    request = TopologyRequest(required=RACK, group="g")
    return (PodSet("leader", 1, {CPU: 1}, topology=request), PodSet("workers", size, {CPU: 1}, topology=request))


def nodes_of(admission: Admission | None) -> set[str]:
    """The nodes of an admission."""
    topologies = [given.topology for given in admission.pod_sets] if admission else []
    return {domain.values[-1] for topology in topologies if topology for domain in topology.domains}


def placed_on(found: State, name: str) -> list[Workload]:
    """The workloads that have pods on a node."""
    return [each for each in found.workloads.values() if name in nodes_of(each.admission)]


STEP = st.tuples(
    st.integers(0, 9), st.integers(1, 4), st.integers(0, 2), st.sampled_from(["add", "end", "node", "others"])
)


@given(st.lists(STEP, max_size=25), st.booleans(), st.booleans())
@settings(max_examples=cases(100, 2000))
def test_what_stays_parked_after_any_history_does_not_start_in_a_state_built_afresh_either(
    steps: list[tuple[int, int, int, str]], recompute: bool, several: bool
) -> None:
    """So nothing is missed although a release wakes only those that it can help: also not those that went on to another
    flavor, and lacked room in the first.
    """
    nodes = (node("n0", 3), node("n1", 3), node("n2", 3, rack="r2"))
    a = queue("a", "tas", "other", cpu=4) if several else queue("a", "tas", cpu=4)
    queues = (a, queue("b", "same", cpu=4), queue("c", "same", cpu=6))
    policy = SchedulingPolicy(topology=TopologyPolicy(recompute=recompute))
    found = world(*queues, nodes=(*nodes, node("n3", 2, pool="b")), policy=policy)
    present = {each.name: each for each in nodes}
    others: dict[str, dict[str, int]] = {}
    for now, (number, size, priority, what) in enumerate(steps):
        name = f"n{number % 3}"
        if what == "node":
            if present.pop(name, None) is None:
                present[name] = nodes[number % 3]
            found.set_node(name, present.get(name))
        elif what == "others":
            others[name] = {CPU: size - 1, "pods": 1} if size > 1 else {}
            found.set_other_pods(name, others[name])
        else:
            request = (IN_RACK, TopologyRequest(preferred=RACK), TopologyRequest(unconstrained=True))[number // 3 % 3]
            made = asks(
                f"w{number}", size, "abc"[number % 3], priority=priority, created=float(number), request=request
            )
            found.set_workload(made.key, None if what == "end" else made)
        for again in range(3):
            for plan in drain(found, found.policy, NOW + 3 * now + again):
                for decision in plan.decisions:
                    if isinstance(decision, Reserve):
                        put(found, admitted(decision.workload, decision.admission, NOW))
            for victim in sorted(found.reservations.evicted):
                found.set_workload(victim, None)
    afresh = world(*queues, nodes=(*present.values(), node("n3", 2, pool="b")), policy=policy)
    for name, requests in others.items():
        afresh.set_other_pods(name, requests)
    put(afresh, *found.workloads.values())
    plans = list(drain(afresh, afresh.policy, NOW))
    assert not [each for plan in plans for each in plan.decisions if isinstance(each, Reserve)]


def test_a_shape_that_is_new_is_counted_in_steps_among_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of a cycle compares a pod with more than a part of the nodes; what its owner asks for takes long."""
    compared: list[int] = [0]

    def counted(requirement: Requirement, labels: model.Labels) -> bool:
        compared[0] += 1
        return holds(requirement, labels)

    nodes = tuple(node(f"n{number}", 2, rack=f"r{number // 16}") for number in range(1_000))
    found = world(queue("a", "tas"), nodes=nodes)
    terms = tuple((Requirement(HOST, "In", (f"n{number}",)),) for number in range(100))
    picky = PodSet("main", 2, {CPU: 1}, placement=Placement(affinity=terms), topology=IN_RACK)
    put(found, workload("w", 1, queue="a", pod_sets=(picky,)))
    monkeypatch.setattr(topology_counts, "holds", counted)
    longest, plan = 0, None
    for plan in drain_in_steps(found, ON, NOW):
        longest, compared[0] = max(longest, compared[0]), 0
        if plan is not None:
            break
    assert plan is not None and isinstance(plan.decisions[0], Reserve)
    assert longest <= 2 * topology_counts.STEP, "a step has compared a pod with too many nodes"


CORDONED = Toleration("node.kubernetes.io/unschedulable", operator="Exists")
LIBRARY = SchedulingPolicy(topology=TopologyPolicy(tolerable_nodes=True))


@pytest.mark.parametrize(
    ("policy", "tolerations", "unready_since", "placed"),
    [
        pytest.param(LIBRARY, (CORDONED,), None, True, id="on, tolerated"),
        pytest.param(LIBRARY, (), None, False, id="on, not tolerated"),
        pytest.param(ON, (CORDONED,), None, False, id="off, tolerated"),
        pytest.param(LIBRARY, (CORDONED,), NOW, False, id="on, and not ready, which is not tolerated"),
    ],
)
def test_a_cordoned_node_is_for_pods_that_tolerate_it_with_the_scheduler_library(
    policy: SchedulingPolicy, tolerations: tuple[Toleration, ...], unready_since: float | None, placed: bool
) -> None:
    """The gate SchedulerLibraryIntegration: Kueue asks the filters of kube-scheduler, which know such pods."""
    cordoned = replace(node("n", 10, usable=False), unready_since=unready_since)
    found = world(queue("a", "tas"), nodes=(cordoned,), policy=policy)
    pods = PodSet("main", 1, {CPU: 1}, placement=Placement(tolerations=tolerations), topology=IN_RACK)
    put(found, workload("w", 1, queue="a", pod_sets=(pods,)))
    assert isinstance(last(found, "w"), Reserve) is placed
    found.set_node("n", replace(cordoned, usable=True, unready_since=None))
    if placed:
        return
    assert isinstance(last(found, "w"), Reserve), "and when it is back, for all"


def test_levels_that_do_not_end_in_the_hostname_have_no_cordoned_nodes() -> None:
    found = world(queue("a", "tas"), nodes=(node("n", 10, usable=False),), policy=LIBRARY)
    found.set_topology("hosts", Topology("hosts", (RACK,)))
    pods = PodSet("main", 1, {CPU: 1}, placement=Placement(tolerations=(CORDONED,)), topology=IN_RACK)
    put(found, workload("w", 1, queue="a", pod_sets=(pods,)))
    assert isinstance(last(found, "w"), StayPending)
