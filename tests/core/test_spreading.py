"""Workloads of a service are spread over domains as they are admitted (feature gate TASTopologySpreading)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pytest

from api.names import PendingReason
from api.objects import Raw
from api.topology_spreading import ONE
from core.model import (
    Key,
    PodSet,
    Preemption,
    ResourceFlavor,
    Spreading,
    SpreadRule,
    StayPending,
    TopologyRequest,
    Workload,
)
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.model.workload import replace
from core.quota.members import Member, Members
from core.quota.placement import PlacementCapacity
from core.quota.usage import Reservation
from core.state.drain import drain
from core.state.state import State
from core.topology.nodes import Domains
from core.topology.spread import ALL
from core.wire import decode
from tests.builders import CPU, NOW, put
from tests.core.test_placement_cycle import HOSTS, RACK, asks, domains, last, node, queue, runs, waits, world
from tests.effort import cases

ON = SchedulingPolicy(topology=TopologyPolicy(spreading=True))
RACKS = (node("n1", 9), node("n2", 9, rack="r2"))
LOWER = Preemption(within_cluster_queue="LowerPriority")
JOB_UID = "kueue.x-k8s.io/job-uid"
ANNOTATION = "kueue.x-k8s.io/podset-topology-spreading"


def spreading(share: float, *, required: bool = True, app: str = "web", namespace: str = "ns") -> Spreading:
    return Spreading(namespace, "app", (app,), (SpreadRule(RACK, int(share * ONE), required),))


def replica(name: str, share: float | None = 0.4, *, to: str = "a", app: str = "web", **fields: object) -> Workload:
    """A waiting workload of a service, with rules or without."""
    rules = spreading(share, app=app) if share is not None else None
    found = asks(name, 1, to, request=TopologyRequest(required=RACK, spreading=rules), **fields)  # type: ignore[arg-type]
    return replace(found, labels=(("app", app),))


def serving(*there: Workload, policy: SchedulingPolicy = ON) -> State:
    return put(world(queue("a", "tas", preemption=LOWER), queue("b", "tas"), nodes=RACKS, policy=policy), *there)


def test_replicas_go_to_the_rack_that_has_the_smaller_share() -> None:
    found = serving(runs(replica("one"), {"n1": 1}))
    assert domains(last(put(found, replica("two")), "two")) == {"n2": 1}


def test_a_replica_waits_while_all_racks_have_their_share() -> None:
    found = serving(runs(replica("one"), {"n1": 1}), runs(replica("two"), {"n2": 1}))
    decision = last(put(found, replica("three")), "three")
    assert waits(decision) == (PendingReason.WAITING_FOR_QUOTA, [])
    assert isinstance(decision, StayPending)
    assert "topology spreading excludes all topology domains at level: rack" in decision.message
    found.set_workload(Key("ns", "two"), None)
    assert domains(last(found, "three")) == {"n2": 1}


def test_with_the_gate_off_the_rules_have_no_effect() -> None:
    off = SchedulingPolicy(topology=TopologyPolicy())
    found = serving(runs(replica("one"), {"n1": 1}), policy=off)
    pods = replica("two", None)
    assert domains(last(put(found, pods), "two")) == {"n1": 1}, "the smallest gap"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica("one", None), id="without rules"),
        pytest.param(replica("one", to="b"), id="of another ClusterQueue"),
    ],
)
def test_all_that_have_the_label_count(other: Workload) -> None:
    found = serving(runs(other, {"n1": 1}))
    assert domains(last(put(found, replica("two")), "two")) == {"n2": 1}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica("one", app="db"), id="of another service"),
        pytest.param(replace(replica("one"), key=Key("other", "one")), id="in another namespace"),
        pytest.param(
            replace(
                replica("one"), pod_sets=(PodSet("workers", 1, {CPU: 1}, topology=TopologyRequest(required=RACK)),)
            ),
            id="another pod set",
        ),
    ],
)
def test_others_do_not_count(other: Workload) -> None:
    found = serving(runs(other, {"n1": 1}))
    assert domains(last(put(found, replica("two")), "two")) == {"n1": 1}


def test_two_that_are_admitted_in_one_cycle_see_each_other() -> None:
    found = serving()
    put(found, replica("one"), replica("two", to="b"), replica("three", created=1.0))
    last(found, "three")
    where = {each.workload.key.name: each.workload.admission for each in reservations(found)}
    hosts = {
        name: given.pod_sets[0].topology.domains[0].values
        for name, given in where.items()
        if given and given.pod_sets[0].topology
    }
    assert hosts == {"one": ("n1",), "two": ("n2",)}
    decision = last(found, "three")
    assert decision is None or isinstance(decision, StayPending)


def reservations(found: State) -> list[Reservation]:
    nodes = (node for arena in found.reservations.arenas.values() for node in arena.queues.values())
    return [held for each in nodes for held in each.reserved.values()]


def test_a_preemptor_takes_the_place_of_a_replica_in_its_rack() -> None:
    found = serving(runs(replica("one"), {"n1": 1}), runs(replica("two"), {"n2": 1}))
    put(found, replica("high", priority=9))
    plans = list(drain(found, found.policy, NOW))
    victims = [
        each.workload.key
        for plan in plans
        for decided in plan.decisions
        if isinstance(decided, StayPending)
        for each in decided.victims
    ]
    assert victims == [Key("ns", "one")]
    found.set_workload(victims[0], None)
    assert domains(last(found, "high")) == {"n1": 1}


def half_on_each() -> State:
    """One replica on each of two racks, a third that waits because both have half of them, and a rack for others."""
    found = world(queue("a", "tas"), queue("b", "tas"), nodes=(*RACKS, node("n3", 1, rack="r3")), policy=ON)
    found.set_other_pods("n3", {CPU: 1})
    put(found, runs(replica("one"), {"n1": 1}), runs(replica("two"), {"n2": 1}))
    assert isinstance(last(put(found, replica("three")), "three"), StayPending)
    return found


@pytest.mark.parametrize("share", [0.4, None], ids=["with rules", "without rules"])
def test_an_admission_elsewhere_lets_a_waiting_replica_in(share: float | None) -> None:
    found = put(half_on_each(), runs(replica("four", share, to="b"), {"n3": 1}))
    assert domains(last(found, "three")) == {"n1": 1}, "which has a third of them now"


def test_an_admission_that_no_rule_selects_wakes_nobody() -> None:
    found = put(half_on_each(), runs(replica("four", None, to="b", app="db"), {"n3": 1}))
    assert last(found, "three") is None
    found.set_workload(Key("ns", "three"), None)
    found.set_workload(Key("ns", "one"), None)
    found.set_workload(Key("ns", "two"), None)
    assert found.placement is not None
    assert not found.placement._selected._rules, "nothing is kept of workloads that are gone"


def test_a_flavor_without_the_level_is_not_used() -> None:
    found = world(queue("a", "tas"), nodes=RACKS, policy=ON)
    rules = Spreading("ns", "app", ("web",), (SpreadRule("zone", ONE // 2),))
    decision = last(put(found, asks("w", 1, request=TopologyRequest(required=RACK, spreading=rules))), "w")
    assert isinstance(decision, StayPending)
    assert 'Flavor "tas" does not contain a topology level required by topology spreading' in decision.message
    preferred = Spreading("ns", "app", ("web",), (SpreadRule("zone", ONE // 2, False),))
    found.set_workload(Key("ns", "w"), None)
    put(found, asks("w", 1, request=TopologyRequest(required=RACK, spreading=preferred)))
    assert sum(domains(last(found, "w")).values()) == 1


def test_a_leader_and_its_workers_count_once() -> None:
    rules = spreading(0.5)
    both = TopologyRequest(required=RACK, group="replica", spreading=rules)
    pod_sets = tuple(PodSet(name, 1, {CPU: 1}, topology=both) for name in ("leader", "worker"))
    groups = [
        replace(replica(name, created=float(at)), pod_sets=pod_sets) for at, name in enumerate(("one", "two", "three"))
    ]
    found = serving()
    hosts = [set(domains(last(put(found, each), each.key.name))) for each in groups]
    assert hosts == [{"n1"}, {"n2"}, {"n1"}]


def standing(found: State) -> object:
    """What is counted, by arena."""
    capacities = (arena.further["topology"] for arena in found.reservations.arenas.values())
    return [each._members._standing for each in capacities if isinstance(each, PlacementCapacity)]


def test_what_is_counted_is_what_a_restart_counts() -> None:
    chance = random.Random(7)
    for _ in range(cases(20, 200)):
        found = serving()
        now: dict[str, Workload] = {}
        for _step in range(12):
            name = f"w{chance.randrange(6)}"
            if chance.random() < 0.3:
                found.set_workload(Key("ns", name), None)
                now.pop(name, None)
                continue
            made = runs(
                replica(name, chance.choice([0.4, None]), app=chance.choice(["web", "db"])),
                {chance.choice(["n1", "n2"]): 1},
            )
            put(found, made)
            now[name] = made
            found.check()
        assert standing(found) == standing(serving(*now.values()))


def test_a_copy_of_what_is_counted_is_separate_in_both_directions() -> None:
    tree = Domains(HOSTS.levels, ResourceFlavor("tas", topology_name="hosts"), RACKS, {})
    member = Member("tas", "ns", "main", (("app", "web"),), (("n1",),), None)
    first = Members()
    first.count(member, tree, 1)
    second = first.copy()
    for each, more in ((first, 1), (second, 2), (first, 1)):
        each.count(member, tree, more)
    rules = spreading(0.4)
    assert [each.spread("tas", "main", rules).standing[ALL] for each in (first, second)] == [3, 3]
    second.count(member, tree, -3)
    assert (first.spread("tas", "main", rules).standing[ALL], second._standing) == (3, {})


# Reading.


def raw(labels: Mapping[str, str], text: str, **topology: str) -> Raw:
    template = {"metadata": {"annotations": {ANNOTATION: text}}, "spec": {"containers": [{"name": "c"}]}}
    pod_set = {"name": "main", "count": 1, "template": template, "topologyRequest": topology}
    return {"metadata": {"name": "w", "namespace": "team", "labels": dict(labels)}, "spec": {"podSets": [pod_set]}}


def read(found: Raw, *, gate: bool = True) -> Spreading | None:
    pods = decode.workload(found, decode.WorkloadContext(spreading=gate)).pod_sets[0]
    return pods.topology.spreading if pods.topology is not None else None


RULES = json.dumps({"rules": [{"topologyKey": RACK, "maxShareAllowingPlacement": "0.5"}]})
HALF = (SpreadRule(RACK, ONE // 2),)


def test_without_a_selector_the_workloads_of_the_same_job_count() -> None:
    assert read(raw({JOB_UID: "u"}, RULES, required=RACK)) == Spreading("team", JOB_UID, ("u",), HALF)
    assert read(raw({}, RULES, required=RACK)) == Spreading("team", JOB_UID, (), HALF), "there is no job: none counts"


def test_a_selector_names_a_label_of_workloads() -> None:
    text = json.dumps(
        json.loads(RULES) | {"workloadLabelSelectors": [{"key": "app", "operator": "In", "values": ["b", "a"]}]}
    )
    assert read(raw({JOB_UID: "u"}, text, required=RACK)) == Spreading("team", "app", ("a", "b"), HALF)


@pytest.mark.parametrize(
    ("found", "gate"),
    [
        pytest.param(raw({}, RULES, required=RACK), False, id="gate off"),
        pytest.param(raw({}, RULES, preferred=RACK), True, id="not required"),
        pytest.param(raw({}, "{", required=RACK), True, id="wrong"),
    ],
)
def test_else_nothing_is_spread(found: Raw, gate: bool) -> None:
    assert read(found, gate=gate) is None


def test_labels_are_kept_with_the_gate_alone() -> None:
    found = raw({"app": "web"}, RULES, required=RACK)
    assert decode.workload(found, decode.WorkloadContext(spreading=True)).labels == (("app", "web"),)
    assert decode.workload(found, decode.WorkloadContext()).labels == ()


def test_a_workload_counts_by_so_many_labels_alone_and_always_by_its_job() -> None:
    many = {f"a{number:04d}": "x" for number in range(5000)} | {JOB_UID: "u"}
    kept = decode.workload(raw(many, RULES, required=RACK), decode.WorkloadContext(spreading=True)).labels
    assert len(kept) == decode.MOST_LABELS
    assert (JOB_UID, "u") in kept


def test_equal_pod_sets_are_one_value() -> None:
    context = decode.WorkloadContext(spreading=True)
    one, two, other = (decode.workload(raw({JOB_UID: uid}, RULES, required=RACK), context) for uid in ("u", "u", "v"))
    assert one.pod_sets is two.pod_sets
    assert one.pod_sets != other.pod_sets
