"""A slice of an elastic job takes over the quota of the slice that it replaces: it needs only the difference."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from core.actions import Patch
from core.explain.analysis import explain
from core.model import (
    Admission,
    Key,
    PodSet,
    PodSetAssignment,
    Preemption,
    Quota,
    Requeue,
    Reserve,
    ResourceFlavor,
    StayPending,
    Workload,
)
from core.model.owner import Owner
from core.model.workload import replace
from core.state.state import State
from core.state.surroundings import surroundings
from core.workload import transitions
from core.workload.lifecycle import next_step
from tests.builders import CPU, DEFAULT, NOW, SPOT, TWO, cluster_queue, cycle, put, reserved, state, workload
from tests.effort import cases

JOB = Owner("batch", "Job", "ns", "j")
OLD = reserved("old", 4, "cq", owner=JOB)


def slice_of(old: Workload, cpu: int, **fields: Any) -> Workload:
    """The pending slice that is to replace another one."""
    return workload("new", cpu, **{"replaces": old.key, "owner": old.owner, "created": 1.0, **fields})


def used(found: State, name: str = "cq") -> int:
    tree = found.reservations.arenas[found.reservations.arena_of[name]]
    return tree.queues[name].usage.get(DEFAULT, 0)


def written(found: State, decision: Any) -> Workload:
    """Puts the workload as it is after its reservation was written."""
    assert isinstance(decision, Reserve)
    after = transitions.reserved(decision.workload, decision.admission, NOW)
    put(found, after)
    return after


def test_a_slice_needs_only_the_difference_and_nothing_is_counted_twice() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, slice_of(OLD, 8))
    decisions = cycle(found)
    assert isinstance(decisions["new"], Reserve)
    assert decisions["new"].admission.pod_sets[0].usage == {CPU: 8}
    assert used(found) == 8
    new = written(found, decisions["new"])
    assert used(found) == 8
    put(found, transitions.finished(OLD, "WorkloadSliceReplaced", "", NOW), workload("fits", 2, created=2.0))
    put(found, workload("does-not", 2, created=3.0))
    assert (isinstance(cycle(found)["fits"], Reserve), used(found)) == (True, 10)
    assert isinstance(cycle(found)["does-not"], StayPending)
    found.set_workload(new.key, None)
    assert used(found) == 2


def test_a_slice_waits_for_the_difference_while_the_old_one_keeps_its_quota() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, reserved("other", 4, "cq"), slice_of(OLD, 8))
    decision = cycle(found)["new"]
    assert isinstance(decision, StayPending)
    assert decision.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2m more needed"
    )
    assert used(found) == 8


@pytest.mark.parametrize(
    ("old", "fields"),
    [
        (reserved("old", 4, "cq", owner=JOB), {"owner": structs.replace(JOB, name="other")}),
        (reserved("old", 4, "cq", owner=JOB), {"owner": None}),
        (reserved("old", 4, "elsewhere", owner=JOB), {}),
        (transitions.evicted(OLD, "Preempted", "", 1.0), {}),
        (workload("old", 4, owner=JOB, active=False), {}),
    ],
    ids=["of another job", "of no job", "in another ClusterQueue", "evicted", "without quota"],
)
def test_what_a_slice_cannot_replace_is_counted_beside_it(old: Workload, fields: dict[str, Any]) -> None:
    queues = (cluster_queue("cq", 10), cluster_queue("elsewhere", 4))
    free = put(state(*queues), old, slice_of(old, 8, **fields))
    before = used(free)
    decision = cycle(free)["new"]
    assert isinstance(decision, Reserve) == (before + 8 <= 10)
    assert used(free) == before + (8 if before + 8 <= 10 else 0)


def test_a_slice_that_waits_is_decided_again_when_its_job_adopts_it() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, slice_of(OLD, 8, owner=None))
    assert isinstance(cycle(found)["new"], StayPending)
    assert found.kinship.successor(OLD.key) == Key("ns", "new")
    put(found, slice_of(OLD, 8))
    assert isinstance(cycle(found)["new"], Reserve)
    assert found.kinship.successor(OLD.key) is None


def test_a_workload_of_another_owner_that_names_the_old_slice_changes_nothing() -> None:
    found = put(state(cluster_queue("cq", 20)), OLD, slice_of(OLD, 8))
    written(found, cycle(found)["new"])
    put(found, replace(workload("stranger", 1, created=5.0), replaces=OLD.key))
    put(found, OLD)
    assert used(found) == 8
    replacement = found.kinship.replacement(OLD)
    assert replacement is not None
    assert replacement.key.name == "new"


def test_a_slice_gets_the_flavor_of_the_old_one_or_waits() -> None:
    quotas = {DEFAULT: Quota(10), SPOT: Quota(6)}
    given = Admission("cq", (PodSetAssignment("main", {CPU: "spot"}, {CPU: 4}, 1),))
    old = replace(OLD, admission=given)
    found = put(state(cluster_queue("cq", groups=TWO, quotas=quotas)), old, slice_of(old, 6))
    found.set_flavor("spot", ResourceFlavor("spot"))
    decision = cycle(found)["new"]
    assert isinstance(decision, Reserve)
    assert decision.admission.pod_sets[0].flavors == {CPU: "spot"}
    found = put(state(cluster_queue("cq", groups=TWO, quotas=quotas)), old, slice_of(old, 7))
    found.set_flavor("spot", ResourceFlavor("spot"))
    waits = cycle(found)["new"]
    assert isinstance(waits, StayPending)
    assert "could not assign default flavor since the original workload is assigned: spot" in waits.message


def test_a_slice_preempts_others_for_the_difference_and_never_the_old_one() -> None:
    rules = Preemption(within_cluster_queue="LowerPriority")
    low, lower = reserved("low", 3, "cq"), reserved("lower", 3, "cq", priority=-1)
    old = replace(OLD, priority=-5)
    found = put(state(cluster_queue("cq", 10, preemption=rules)), old, low, lower, slice_of(old, 6, priority=5))
    decision = cycle(found)["new"]
    assert isinstance(decision, StayPending)
    assert [victim.workload.key.name for victim in decision.victims] == ["lower"]


def test_what_was_taken_over_in_a_cycle_is_no_victim_of_a_later_head() -> None:
    rules = Preemption(within_cluster_queue="Never", reclaim_within_cohort="Any")
    queues = (cluster_queue("cq", 2, cohort="c"), cluster_queue("owner", 4, cohort="c", preemption=rules))
    late = workload("late", 4, queue="owner", created=9.0)
    found = put(state(*queues), OLD, slice_of(OLD, 5), late)
    decisions = cycle(found)
    taken = [isinstance(decisions["new"], Reserve), bool(getattr(decisions["late"], "victims", ()))]
    assert taken in ([True, False], [False, True]), "one of the two, never both"


def test_a_withdrawn_slice_gives_the_quota_back_to_the_old_one() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, slice_of(OLD, 8))
    cycle(found)
    found.unassume(Key("ns", "new"))
    found.check()
    assert used(found) == 4


def test_a_slice_that_is_deleted_gives_the_quota_back_to_the_old_one() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, slice_of(OLD, 8))
    written(found, cycle(found)["new"])
    found.set_workload(Key("ns", "new"), None)
    assert used(found) == 4


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_after_a_restart_only_the_new_slice_is_counted(order: tuple[str, str]) -> None:
    new = reserved("new", 8, "cq", owner=JOB, replaces=OLD.key)
    known = {"old": OLD, "new": new}
    assert used(put(state(cluster_queue("cq", 10)), *(known[name] for name in order))) == 8


def test_a_workload_of_equal_demand_is_not_parked_with_a_slice() -> None:
    found = put(state(cluster_queue("cq", 8)), replace(OLD, owner=None), slice_of(OLD, 8, owner=None))
    put(found, workload("equal", 8, created=0.5))
    decisions = cycle(found)
    assert isinstance(decisions["equal"], StayPending)
    assert decisions["equal"].requeue is Requeue.PARKED
    assert isinstance(cycle(found)["new"], Reserve), "it needs less than the other"


@given(st.lists(st.tuples(st.sampled_from(["old", "new", "newer"]), st.sampled_from(["put", "quota", "gone", "done"]))))
@settings(max_examples=cases(100, 2000))
def test_quota_is_counted_once_for_each_chain_of_slices_that_holds_it(steps: list[tuple[str, str]]) -> None:
    """The usage is that of the slices with quota that no slice with quota replaces."""
    before: dict[str, Key | None] = {"old": None, "new": Key("ns", "old"), "newer": Key("ns", "new")}
    sizes = {"old": 1, "new": 2, "newer": 4}
    found, holding = state(cluster_queue("cq", 100)), set[str]()
    for name, step in steps:
        value = workload(name, sizes[name], replaces=before[name], owner=JOB, active=False)
        if step == "quota":
            value = reserved(name, sizes[name], "cq", replaces=before[name], owner=JOB)
        if step == "done":
            value = transitions.finished(value, "Succeeded", "", NOW)
        (holding.add if step == "quota" else holding.discard)(name)
        found.set_workload(value.key, None if step == "gone" else value)
        found.check()
        replaced = {key.name for each in holding if (key := before[each]) is not None}
        assert used(found) == sum(sizes[each] for each in holding - replaced)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=8))
@settings(max_examples=cases(100, 2000))
def test_slices_that_replace_each_other_in_a_circle_free_no_quota(steps: list[tuple[str, str]]) -> None:
    """Whoever replaces whom: at least one of those with quota is counted, and none twice."""
    found, sizes = state(cluster_queue("cq", 100)), dict(zip("abcd", (1, 2, 4, 8), strict=True))
    for name, of in steps:
        old = Key("ns", of) if of != name else None
        put(found, reserved(name, sizes[name], "cq", replaces=old, owner=JOB))
        found.check()
        held = {key.name for key in found.workloads}
        assert used(found) in {sum(sizes[each] for each in counted) for counted in subsets(held)}


def subsets(names: set[str]) -> list[set[str]]:
    """All subsets but the empty one."""
    return [set(chosen) for size in range(1, len(names) + 1) for chosen in combinations(sorted(names), size)]


@pytest.mark.parametrize("admitted", [True, False], ids=["admitted", "its checks are not ready"])
def test_a_slice_is_finished_when_the_one_that_replaces_it_is_admitted(admitted: bool) -> None:
    new = reserved("new", 8, "cq", owner=JOB, replaces=OLD.key, job_uid="j-uid")
    if not admitted:
        new = transitions.condition(new, "Admitted", status=False, reason="", message="", now=NOW)
    found = put(state(cluster_queue("cq", 10)), OLD, new)
    step = next_step(OLD, surroundings(found, OLD, NOW))
    if not admitted:
        assert not isinstance(step, Patch)
        return
    assert isinstance(step, Patch) and step.after is not None
    done = step.after.condition("Finished")
    assert done is not None
    assert (done.reason, done.message) == (
        "WorkloadSliceReplaced",
        "Replaced to accommodate a workload (UID: uid-new, JobUID: j-uid) due to workload slice aggregation",
    )


def test_the_explanation_of_a_waiting_slice_counts_only_the_difference() -> None:
    found = put(state(cluster_queue("cq", 10)), OLD, reserved("other", 4, "cq"), slice_of(OLD, 8))
    told = explain(found, Key("ns", "new"), NOW)
    assert told is not None
    assert [(cell.asked, cell.free, cell.missing) for cell in told.cells] == [(8, 6, 2)]
    assert [holder.key.name for holder in told.holders] == ["other"]
    assert told.ways == (
        "it fits when ns/other ends",
        "with 2m cpu more quota in flavor default (nominalQuota of ClusterQueue cq)",
    )


def test_a_pod_set_that_stays_as_it_is_asks_for_nothing_more() -> None:
    sets = (PodSet("worker", 2, {CPU: 1}), PodSet("coordinator", 1, {CPU: 2}))
    given = (
        PodSetAssignment("worker", {CPU: "default"}, {CPU: 2}, 2),
        PodSetAssignment("coordinator", {CPU: "default"}, {CPU: 2}, 1),
    )
    old = replace(OLD, pod_sets=sets, admission=Admission("cq", given))
    new = slice_of(old, 0, pod_sets=(sets[0], replace(sets[1], count=3)))
    found = put(state(cluster_queue("cq", 8)), old, new)
    assert isinstance(cycle(found)["new"], Reserve)
    assert used(found) == 8
