"""A second capacity beside quota is one file: two made-up ones are here, which core does not know.

Licences limit how many pods run in a flavor, in all trees together. Desks hold the pods of a workload together, and the
choice of the desk is part of the admission, as a placement in a topology is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    FlavorResource,
    Key,
    PodSet,
    Preemption,
    Reserve,
    ResourceFlavor,
    StayPending,
    TopologyRequest,
    Workload,
)
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.quota.capacity import Amounts, Capacity, CapacityKind, FurtherCapacity, Shortage
from core.quota.demand import Demands
from core.quota.tree import build_trees
from core.quota.usage import Reservation
from core.state.drain import drain
from core.state.state import State
from tests.builders import CPU, DEFAULT, FAIR, NOW, cluster_queue, cycle, put, reserved, state, workload
from tests.core.test_properties import outcome
from tests.core.worlds import admitted, worlds
from tests.effort import cases

PREEMPTS = Preemption(within_cluster_queue="LowerPriority")
JOB = Owner("batch", "Job", "ns", "j")


@dataclass
class Licences:
    """Licences of each flavor; one for a pod."""

    total: Mapping[str, int]
    used: dict[Hashable, int] = field(default_factory=dict)

    def copy(self) -> Licences:
        return Licences(self.total, dict(self.used))

    def add(self, cluster_queue: str, amounts: Amounts) -> None:
        for flavor, pods in amounts.items():
            self.used[flavor] = self.used.get(flavor, 0) + pods
            if not self.used[flavor]:
                del self.used[flavor]

    def remove(self, cluster_queue: str, amounts: Amounts) -> None:
        self.add(cluster_queue, {flavor: -pods for flavor, pods in amounts.items()})

    def fits(self, cluster_queue: str, amounts: Amounts) -> bool:
        return all(pods <= self.free(flavor) for flavor, pods in amounts.items() if pods > 0)

    def free(self, flavor: Hashable) -> int:
        return self.total[str(flavor)] - self.used.get(flavor, 0)

    def place(
        self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None, empty: bool = False
    ) -> Admission | Shortage:
        for each, pods in LicenceKind(self.total).amounts(workload, admission).items():
            flavor = str(each)
            if pods > (self.total[flavor] if empty else self.free(flavor)):
                text = (
                    f"{pods} licences of {flavor} are asked for, {self.free(flavor)} of {self.total[flavor]} are free"
                )
                return Shortage("NoLicence", text, frozenset((flavor,)))
        return admission

    def prepare(self, workload: Workload, cluster_queue: str) -> Iterator[None]:
        return iter(())

    def refill(self, held: Iterable[tuple[str, Amounts]], before: object) -> None:
        for queue, amounts in held:
            self.add(queue, amounts)

    def has_room(self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None) -> bool:
        return not isinstance(self.place(workload, admission, replaced=replaced), Shortage)


@dataclass(frozen=True)
class LicenceKind:
    total: Mapping[str, int]
    name: str = "licences"

    def shares(self, flavor: ResourceFlavor, other: ResourceFlavor) -> bool:
        return flavor.name == other.name and flavor.name in self.total

    def capacity(
        self,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        checks: Mapping[str, AdmissionCheck],
    ) -> FurtherCapacity | None:
        return Licences(self.total) if flavors.keys() & self.total.keys() else None

    def amounts(self, workload: Workload, admission: Admission) -> Amounts:
        found: dict[Hashable, int] = {}
        for assigned in admission.pod_sets:
            for flavor in sorted(set(assigned.flavors.values()) & self.total.keys()):
                pods = max(0, assigned.count - workload.reclaimable.get(assigned.name, 0))
                found[flavor] = found.get(flavor, 0) + pods
        return found


@dataclass
class Desks:
    """Desks with places for pods; all pods of a pod set sit at one, and the admission says at which."""

    places: Mapping[str, int]
    used: dict[Hashable, int] = field(default_factory=dict)

    def copy(self) -> Desks:
        return Desks(self.places, dict(self.used))

    def add(self, cluster_queue: str, amounts: Amounts) -> None:
        for desk, pods in amounts.items():
            self.used[desk] = self.used.get(desk, 0) + pods
            if not self.used[desk]:
                del self.used[desk]

    def remove(self, cluster_queue: str, amounts: Amounts) -> None:
        self.add(cluster_queue, {desk: -pods for desk, pods in amounts.items()})

    def fits(self, cluster_queue: str, amounts: Amounts) -> bool:
        return all(self.used.get(desk, 0) + pods <= self.places[str(desk)] for desk, pods in amounts.items())

    def place(
        self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None, empty: bool = False
    ) -> Admission | Shortage:
        (pods,) = admission.pod_sets
        for desk, places in self.places.items():
            if (0 if empty else self.used.get(desk, 0)) + pods.count <= places:
                return replace(admission, pod_sets=(replace(pods, usage={**pods.usage, desk: pods.count}),))
        return Shortage("NoDesk", "no desk has room", frozenset(pods.flavors.values()))

    def prepare(self, workload: Workload, cluster_queue: str) -> Iterator[None]:
        return iter(())

    def refill(self, held: Iterable[tuple[str, Amounts]], before: object) -> None:
        for queue, amounts in held:
            self.add(queue, amounts)

    def has_room(self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None) -> bool:
        return not isinstance(self.place(workload, admission, replaced=replaced), Shortage)


@dataclass(frozen=True)
class DeskKind:
    places: Mapping[str, int]
    name: str = "desks"

    def shares(self, flavor: ResourceFlavor, other: ResourceFlavor) -> bool:
        return True

    def capacity(
        self,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        checks: Mapping[str, AdmissionCheck],
    ) -> FurtherCapacity | None:
        return Desks(self.places)

    def amounts(self, workload: Workload, admission: Admission) -> Amounts:
        return {desk: n for each in admission.pod_sets for desk, n in each.usage.items() if desk in self.places}


def licensed(
    total: int,
    *,
    kind: CapacityKind | None = None,
    policy: SchedulingPolicy | None = None,
    preemption: Preemption = PREEMPTS,
) -> State:
    """ClusterQueues ``a`` and ``b`` in trees of their own, each with quota for a hundred pods in one flavor."""
    queues = [cluster_queue(name, 100, preemption=preemption, cohort=f"of-{name}") for name in ("a", "b")]
    plain = state(*queues, policy=policy)
    found = State(policy, (kind or LicenceKind({"default": total}),))
    found.set_namespace("ns", {})
    found.set_flavor("default", ResourceFlavor("default"))
    for queue in queues:
        found.set_cluster_queue(queue.name, queue)
    for key, local in plain.pending.local_queues.items():
        found.set_local_queue(key, local)
    return found


def pods(name: str, count: int, queue: str = "a", *, least: int | None = None, **fields: object) -> Workload:
    """A waiting workload of so many pods of one milli-cpu."""
    return workload(name, 1, queue=queue, pod_sets=(PodSet("main", count, {CPU: 1}, least),), **fields)  # type: ignore[arg-type]


def runs(name: str, count: int, queue: str = "a", **fields: object) -> Workload:
    """A workload that runs with so many pods."""
    made = reserved(name, count, queue, **fields)  # type: ignore[arg-type]
    assert made.admission is not None
    (given,) = made.admission.pod_sets
    admission = Admission(queue, (replace(given, count=count),))
    return replace(made, queue=queue, admission=admission, pod_sets=(PodSet("main", count, {CPU: 1}),))


def used(found: State) -> int:
    """The licences in use, all arenas together."""
    found.check()
    licences = [arena.further["licences"] for arena in found.reservations.arenas.values()]
    return sum(sum(each.used.values()) for each in licences if isinstance(each, Licences))


def decided(found: State, name: str, now: float = NOW) -> Reserve | StayPending | None:
    """The last decision about a workload, after cycles until no head gets any further."""
    last = None
    for plan in drain(found, found.policy, now):
        for decision in plan.decisions:
            last = decision if decision.workload.key.name == name else last
    return last


def test_workloads_that_ask_for_different_topologies_have_different_demands() -> None:
    """Else one that finds no rack would park one that needs none."""
    demands = Demands()
    plain, racks, again = (
        workload(name, 1, pod_sets=(PodSet("main", 1, {CPU: 1}, topology=topology),))
        for name, topology in (
            ("plain", None),
            ("racks", TopologyRequest(required="rack")),
            ("again", TopologyRequest(required="rack")),
        )
    )
    assert demands.of(plain) is not demands.of(racks)
    kept = demands.of(racks)
    assert demands.of(again) is kept
    equal, other = (PodSet("main", 1, {CPU: 1}, topology=TopologyRequest(required=level)) for level in ("rack", "row"))
    assert demands.alike((equal,)) is kept.pod_sets
    assert demands.alike((other,)) == (other,)


def test_quota_is_a_capacity_too() -> None:
    (forest,) = build_trees({}, {"a": cluster_queue("a", 3)}, ()).values()
    quota: Capacity[FlavorResource] = forest
    quota.add("a", {DEFAULT: 2})
    copy = quota.copy()
    copy.remove("a", {DEFAULT: 1})
    assert (quota.fits("a", {DEFAULT: 2}), copy.fits("a", {DEFAULT: 2})) == (False, True)


def test_a_capacity_beside_quota_limits_what_is_admitted_in_all_trees_that_share_it() -> None:
    found = put(licensed(3), runs("first", 2), pods("fits", 1, "b"), pods("waits", 1, "b", created=1.0))
    assert sorted(sorted(arena.queues) for arena in found.reservations.arenas.values()) == [["a", "b"]]
    waits = decided(found, "waits")
    assert isinstance(waits, StayPending)
    assert (waits.reason, waits.message) == (
        "NoLicence",
        "couldn't assign flavors to pod set main: 1 licences of default are asked for, 0 of 3 are free",
    )
    assert (used(found), Key("ns", "fits") in found.reservations) == (3, True)


def test_what_is_released_in_one_tree_lets_a_workload_of_another_start() -> None:
    found = put(licensed(2), runs("first", 2), pods("waits", 1, "b"))
    assert isinstance(decided(found, "waits"), StayPending)
    found.set_workload(Key("ns", "first"), None)
    assert isinstance(decided(found, "waits"), Reserve)
    assert used(found) == 1


def test_pods_that_are_reclaimable_release_their_licences() -> None:
    found = put(licensed(2), runs("first", 2), pods("waits", 1, "b"))
    assert isinstance(decided(found, "waits"), StayPending)
    put(found, replace(runs("first", 2), reclaimable={"main": 1}))
    assert isinstance(decided(found, "waits"), Reserve)


def test_a_workload_that_asks_for_more_than_there_is_waits_and_preempts_nobody() -> None:
    found = put(licensed(2), runs("low", 1), pods("large", 3, priority=9))
    waits = decided(found, "large")
    assert isinstance(waits, StayPending)
    assert (waits.victims, waits.reason) == ((), "NoLicence")


@pytest.mark.parametrize("policy", [SchedulingPolicy(), FAIR], ids=["classical", "fair sharing"])
def test_a_workload_preempts_for_a_licence_although_quota_is_free(policy: SchedulingPolicy) -> None:
    found = put(licensed(4, policy=policy), runs("large", 3, priority=1), runs("small", 1), pods("high", 1, priority=2))
    decision = cycle(found)["high"]
    assert isinstance(decision, StayPending)
    assert [victim.workload.key.name for victim in decision.victims] == ["small"]
    found.set_workload(Key("ns", "small"), None)
    assert isinstance(decided(found, "high", NOW + 1), Reserve)
    assert used(found) == 4


def test_a_workload_that_may_not_preempt_waits_for_a_licence() -> None:
    found = put(licensed(1, preemption=Preemption()), runs("low", 1), pods("high", 1, priority=2))
    waits = decided(found, "high")
    assert isinstance(waits, StayPending)
    assert (waits.victims, waits.reason) == ((), "NoLicence")


def test_of_two_heads_of_one_cycle_only_one_gets_the_last_licence() -> None:
    found = put(licensed(1), pods("one", 1, "a"), pods("two", 1, "b"))
    decisions = cycle(found)
    assert sorted(type(decision).__name__ for decision in decisions.values()) == ["Reserve", "StayPending"]
    assert used(found) == 1


def test_partial_admission_finds_the_pods_for_which_there_are_licences() -> None:
    found = put(licensed(3), pods("partly", 8, least=1))
    decision = decided(found, "partly")
    assert isinstance(decision, Reserve)
    assert decision.admission.pod_sets[0].count == 3


def test_a_slice_of_an_elastic_job_needs_only_the_licences_that_are_more() -> None:
    found = put(licensed(3), runs("old", 2, owner=JOB), pods("new", 3, owner=JOB, replaces=Key("ns", "old")))
    assert isinstance(decided(found, "new"), Reserve)
    assert used(found) == 3


def test_a_snapshot_keeps_the_usage_of_its_time() -> None:
    found = put(licensed(3), runs("first", 2))
    snapshot = found.snapshot()
    found.set_workload(Key("ns", "first"), None)
    (arena,) = snapshot.arenas.values()
    licences = arena.further["licences"]
    assert isinstance(licences, Licences) and licences.used == {"default": 2}
    found.release(snapshot)
    assert used(found) == 0


def test_more_licences_let_a_waiting_workload_start_and_fewer_evict_nobody() -> None:
    total = {"default": 1}
    found = put(licensed(0, kind=LicenceKind(total)), runs("first", 1), pods("waits", 1, "b"))
    assert isinstance(decided(found, "waits"), StayPending)
    total["default"] = 2
    found.capacity_changed("default")
    assert isinstance(decided(found, "waits"), Reserve)
    total["default"] = 1
    found.capacity_changed("default")
    assert isinstance(decided(put(found, pods("late", 1)), "late"), StayPending)
    assert used(found) == 2


def test_a_flavor_without_licences_is_not_limited_and_joins_no_trees() -> None:
    found = put(licensed(0, kind=LicenceKind({"other": 0})), pods("one", 5))
    assert len(found.reservations.arenas) == 2
    assert isinstance(decided(found, "one"), Reserve)


def test_a_head_whose_desk_an_earlier_head_takes_is_placed_at_another_one_in_the_same_cycle() -> None:
    found = licensed(0, kind=DeskKind({"left": 3, "right": 2}))
    put(found, pods("one", 2, "a"), pods("two", 2, "b", created=1.0), pods("three", 2, "b", created=2.0))
    decisions = cycle(found)
    desks = {
        name: decision.admission.pod_sets[0].usage
        for name, decision in decisions.items()
        if isinstance(decision, Reserve)
    }
    assert desks == {"one": {CPU: 2, "left": 2}, "two": {CPU: 2, "right": 2}}
    assert isinstance(decided(found, "three"), StayPending)
    found.check()


def test_victims_are_chosen_by_where_they_sit() -> None:
    """Each desk has a free place: two pods fit at one of them when what sits there goes."""
    found = licensed(0, kind=DeskKind({"left": 2, "right": 2}))
    for name, desk, priority in (("l", "left", 1), ("r", "right", 0)):
        made = runs(name, 1, priority=priority)
        assert made.admission is not None
        (given,) = made.admission.pod_sets
        seated = replace(given, usage={**given.usage, desk: 1})
        put(found, replace(made, admission=Admission("a", (seated,))))
    decision = cycle(put(found, pods("both", 2, priority=2)))["both"]
    assert isinstance(decision, StayPending)
    assert [victim.workload.key.name for victim in decision.victims] == ["r"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=25))
@settings(max_examples=cases(60, 1500))
def test_after_any_history_licences_are_counted_as_in_a_state_built_afresh_and_never_exceeded(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    found = licensed(4)
    for number, size, priority, goes in steps:
        made = pods(f"w{number}", size, "ab"[number % 2], priority=priority, created=float(number))
        found.set_workload(made.key, None if goes else made)
        for plan in drain(found, found.policy, NOW):
            for decision in plan.decisions:
                if isinstance(decision, Reserve):
                    put(found, admitted(decision.workload, decision.admission, NOW))
            assert used(found) <= 4
        for victim in sorted(found.reservations.evicted):
            found.set_workload(victim, None)
    afresh = put(licensed(4), *found.workloads.values())
    assert used(afresh) == used(found)


@given(worlds())
@settings(max_examples=cases(60, 1000))
def test_a_capacity_that_lacks_nothing_changes_no_decision(found: State) -> None:
    other = State(found.policy, (LicenceKind({"fa": 1_000_000}),))
    other.set_namespace("ns", {})
    for name, flavor in found.reservations.flavors.items():
        other.set_flavor(name, flavor)
    for name, cohort in found.reservations.cohorts.items():
        other.set_cohort(name, cohort)
    for name, queue in found.reservations.cluster_queues.items():
        other.set_cluster_queue(name, queue)
    for key, local in found.pending.local_queues.items():
        other.set_local_queue(key, local)
    put(other, *found.workloads.values())
    for each in (found, other):
        for _ in drain(each, each.policy, NOW):
            pass
    assert outcome(found) == outcome(other)
    other.check()
