"""What holds for every cluster, however it is made up."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.model import FlavorResource, Key, Quota, Reserve, StayPending
from core.scheduling.cycle import schedule
from core.scheduling.preemption.algorithm import find_targets
from core.scheduling.preemption.candidates import Preemptor, Room
from core.state.drain import drain
from core.state.state import State
from tests.core.worlds import FLAVORS, RESOURCES, admitted, copy, crowded, worlds

NOW = 100.0
EVERY = [FlavorResource(flavor, resource) for flavor in FLAVORS for resource in RESOURCES]
thorough = settings(suppress_health_check=[HealthCheck.too_slow])


def outcome(state: State) -> dict[Key, object]:
    """The workloads that hold quota, and the victims that were found."""
    found: dict[Key, object] = {}
    for key in state.workloads:
        held = state.reservations.get(key)
        found[key] = None if held is None else (held.cluster_queue, dict(held.usage.quota), held.evicted)
    return found


class Account:
    """Quota and usage of a node by the definitions, worked out from the objects alone: nothing of ours is asked."""

    def __init__(self, state: State, fr: FlavorResource, *, evicted: bool = True) -> None:
        self.state = state
        self.fr = fr
        self.evicted = evicted
        """Whether what those on their way out still hold counts as well."""
        self.cohorts = state.reservations.cohorts
        self.queues = state.reservations.cluster_queues

    def limits(self, name: str, *, queue: bool) -> Quota:
        spec = self.queues[name] if queue else self.cohorts.get(name)
        return spec.quotas.get(self.fr, Quota()) if spec is not None else Quota()

    def members(self, cohort: str) -> list[tuple[str, bool]]:
        below = [(name, False) for name in ("c0", "c1", "c2") if self.parent(name) == cohort]
        return below + [(name, True) for name, spec in self.queues.items() if spec.cohort == cohort]

    def parent(self, cohort: str) -> str:
        spec = self.cohorts.get(cohort)
        return spec.parent if spec is not None else ""

    def quota(self, name: str, *, queue: bool) -> int:
        """Its own, and what those below lend."""
        own = self.limits(name, queue=queue).nominal
        members = [] if queue else self.members(name)
        return own + sum(self.quota(n, queue=q) - self.kept(n, queue=q) for n, q in members)

    def kept(self, name: str, *, queue: bool) -> int:
        """The quota that is not lent."""
        lending = self.limits(name, queue=queue).lending_limit
        return 0 if lending is None else max(0, self.quota(name, queue=queue) - lending)

    def used(self, name: str, *, queue: bool) -> int:
        """By its workloads, or by those below beyond what they keep for themselves."""
        if queue:
            held = [found for key in self.state.workloads if (found := self.state.reservations.get(key)) is not None]
            held = [each for each in held if each.cluster_queue == name and (self.evicted or not each.evicted)]
            given = [each.workload.admission for each in held]
            return sum(
                pod_set.usage[resource]
                for admission in given
                if admission is not None
                for pod_set in admission.pod_sets
                for resource, flavor in pod_set.flavors.items()
                if FlavorResource(flavor, resource) == self.fr
            )
        return sum(max(0, self.used(n, queue=q) - self.kept(n, queue=q)) for n, q in self.members(name))

    def check(self, name: str, *, queue: bool) -> None:
        parent = self.queues[name].cohort if queue else self.parent(name)
        used, quota = self.used(name, queue=queue), self.quota(name, queue=queue)
        borrowing = self.limits(name, queue=queue).borrowing_limit
        if not parent:
            assert used <= quota, f"{name} uses {used} of {quota} {self.fr}"
        elif borrowing is not None:
            assert used <= quota + borrowing, f"{name} uses {used} of {quota} {self.fr}, and may borrow {borrowing}"


def check_limits(state: State) -> None:
    """Does not count the usage of victims that have not stopped yet: as in Kueue, a workload that fits without them is
    admitted, so that a cohort may exceed its quota by their usage until then.
    """
    state.check()
    for fr in EVERY:
        account = Account(state, fr, evicted=False)
        for name in ("c0", "c1", "c2"):
            account.check(name, queue=False)
        for name in account.queues:
            account.check(name, queue=True)


@thorough
@given(worlds(occupied=False), st.data())
def test_nothing_is_ever_above_what_its_limits_allow_but_by_what_victims_still_hold(
    state: State, data: st.DataObject
) -> None:
    """Workloads arrive by and by, and some of those told to go linger for a while."""
    arrivals = sorted(state.workloads.values(), key=lambda workload: (workload.priority, workload.key))
    for workload in arrivals:
        state.set_workload(workload.key, None)
    while arrivals:
        for _ in range(data.draw(st.integers(1, 4), label="arrive")):
            workload = arrivals.pop(0)
            state.set_workload(workload.key, workload)
            if not arrivals:
                break
        for _ in drain(state, state.policy, NOW):
            check_limits(state)
        for key in sorted(state.reservations.evicted):
            if data.draw(st.booleans(), label=f"{key} is gone"):
                state.set_workload(key, None)
                check_limits(state)


@thorough
@given(worlds() | crowded())
def test_a_search_that_is_remembered_comes_to_what_a_search_anew_comes_to(state: State) -> None:
    for number in range(12):
        heads, snapshot = state.heads(NOW), state.snapshot()
        nodes = [node for tree in snapshot.arenas.values() for node in tree.queues.values()]
        plan = schedule(snapshot, heads, state.policy, NOW)
        known = [dict(node.known) for node in nodes]
        for node in nodes:
            node.known.clear()
        assert schedule(snapshot, heads, state.policy, NOW) == plan
        for node, before in zip(nodes, known, strict=True):
            node.known.update(before)
        state.apply(plan)
        running = sorted(key for key in state.workloads if key in state.reservations)
        if running:  # somebody ends: most of those who wait are looked at again, on other figures
            state.set_workload(running[number % len(running)], None)


@thorough
@given(worlds())
def test_usage_and_what_is_free_are_as_defined(state: State) -> None:
    for _ in drain(state, state.policy, NOW):
        pass
    for tree in state.reservations.arenas.values():
        for node in (*tree.queues.values(), *tree.cohorts.values()):
            for fr in EVERY:
                account, queue = Account(state, fr), node.name in tree.queues
                assert node.usage.get(fr, 0) == account.used(node.name, queue=queue)
                assert node.subtree.get(fr, 0) == account.quota(node.name, queue=queue)
                assert node.available(fr) <= node.potential(fr)


@thorough
@given(worlds())
def test_the_same_snapshot_gives_the_same_plan_in_whatever_order_heads_come_and_is_left_as_it_was(state: State) -> None:
    heads, snapshot = state.heads(NOW), state.snapshot()
    first = schedule(snapshot, heads, state.policy, NOW)
    state.check()
    assert schedule(snapshot, heads, state.policy, NOW) == first
    other = copy(state)
    assert schedule(other.snapshot(), other.heads(NOW), other.policy, NOW).decisions == first.decisions
    turned = schedule(snapshot, heads[::-1], state.policy, NOW)
    assert {d.workload.key: d for d in turned.decisions} == {d.workload.key: d for d in first.decisions}


@thorough
@given(worlds())
def test_usage_that_is_kept_is_usage_recomputed_after_every_cycle(state: State) -> None:
    for plan in drain(state, state.policy, NOW):
        state.check()
        assert plan.decisions
    assert state.heads(NOW) == ()


@thorough
@given(worlds() | crowded())
def test_a_set_of_victims_is_not_enough_when_any_one_is_left_out(state: State) -> None:
    snapshot = state.snapshot()
    for head in state.heads(NOW):
        arena = snapshot.arenas[snapshot.arena_of[head.cluster_queue]].copy()
        node = arena.queues[head.cluster_queue]
        preemptor = Preemptor(head, arena, node, state.policy)
        requests = {FlavorResource("fa", r): amount for r, amount in head.demand.totals[0].requests.items()}
        need = frozenset(fr for fr, amount in requests.items() if amount > max(0, node.available(fr)))
        targets = find_targets(preemptor, need, room := Room(requests)) if need else []
        arena.check()
        if not targets:
            continue
        preemptor.remove(targets)
        assert preemptor.fits(room, borrowing=True)
        borrowing = not preemptor.fits(room, borrowing=False)
        for target in targets:
            preemptor.add([target])
            assert not preemptor.fits(room, borrowing=borrowing), f"{target.key} need not go"
            preemptor.remove([target])


@thorough
@given(worlds())
def test_a_drain_comes_to_what_cycles_with_a_write_after_each_come_to(state: State) -> None:
    other = copy(state)
    for _ in drain(state, state.policy, NOW):
        pass
    while heads := other.heads(NOW):
        plan = schedule(other.snapshot(), heads, other.policy, NOW)
        other.apply(plan)
        for decision in plan.decisions:
            if isinstance(decision, Reserve):
                workload = admitted(decision.workload, decision.admission, NOW)
                other.set_workload(workload.key, workload)
        other.check()
    assert outcome(state) == outcome(other)


@thorough
@given(worlds())
def test_victims_that_go_make_room_for_whom_they_were_preempted_for(state: State) -> None:
    """However victims are chosen, evicting them and going on comes to an end with everything accounted for."""
    for _ in range(30):
        victims = [
            victim.workload.key
            for plan in drain(state, state.policy, NOW)
            for decision in plan.decisions
            if isinstance(decision, StayPending)
            for victim in decision.victims
        ]
        if not victims:
            break
        assert len(set(victims)) == len(victims), "a workload is preempted twice"
        for key in victims:
            state.set_workload(key, None)
        state.check()
    else:
        raise AssertionError("preemption goes on and on")
