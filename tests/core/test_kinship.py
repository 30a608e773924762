"""Whose usage a workload counts as, asked of the relatives that State knows; counting itself is in `test_slices.py` and
`test_variants.py`.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import Condition, Key, Migration, Workload
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.state.kinship import Counted
from core.state.state import State
from core.workload import transitions
from tests.builders import NOW, cluster_queue, put, reserved, state, workload
from tests.core.worlds import copy
from tests.effort import cases

JOB = Owner("batch", "Job", "ns", "j")
OLD, NEW = Key("ns", "old"), Key("ns", "new")


def elastic(*workloads: Workload) -> State:
    return put(state(cluster_queue("cq", 100)), *workloads)


def counts(found: State, name: str) -> Counted:
    return found.kinship.counted(found.workloads[Key("ns", name)])


def counted(found: State) -> set[str]:
    return {key.name for key in found.workloads if key in found.reservations}


def test_a_slice_counts_as_its_successor_once_that_holds_quota() -> None:
    old = reserved("old", 1, "cq", owner=JOB)
    found = elastic(old, workload("new", 2, owner=JOB, replaces=OLD))
    assert (counts(found, "old"), counts(found, "new")) == (Counted.ITSELF, Counted.ITSELF)
    put(found, reserved("new", 2, "cq", owner=JOB, replaces=OLD))
    assert (counts(found, "old"), counts(found, "new")) == (Counted.SUCCESSOR, Counted.ITSELF)


def test_a_parent_counts_as_its_family_and_a_variant_without_the_gate_too() -> None:
    concurrent = SchedulingPolicy(concurrent_admission=True)
    parent, variant = workload("p", 1, parent=True), workload("v", 1, variant_of="uid-p")
    found = put(state(cluster_queue("cq", 100, migration=Migration()), policy=concurrent), parent, variant)
    assert (counts(found, "p"), counts(found, "v")) == (Counted.FAMILY, Counted.ITSELF)
    assert counts(elastic(variant), "v") is Counted.FAMILY


def test_the_answer_changes_nothing() -> None:
    found = elastic(reserved("old", 1, "cq", owner=JOB), reserved("new", 2, "cq", owner=JOB, replaces=OLD))
    before = counted(found)
    for name in ("old", "new", "old"):
        counts(found, name)
    assert counted(found) == before == {"new"}


def test_a_slice_that_names_another_one_no_longer_gives_its_quota_back() -> None:
    found = elastic(reserved("old", 1, "cq", owner=JOB), reserved("new", 2, "cq", owner=JOB, replaces=OLD))
    assert counted(found) == {"new"}
    put(found, reserved("new", 2, "cq", owner=JOB))
    assert counted(found) == {"old", "new"}


def test_a_change_of_a_workload_without_relatives_concerns_none() -> None:
    found = elastic(workload("alone", 1), reserved("old", 1, "cq"))
    assert list(found.kinship.concerned(found.workloads[Key("ns", "alone")], None)) == []


NAMES = ("old", "new", "newer", "p", "v", "w")
STEPS = ("waits", "quota", "evicted", "unrelated", "done", "gone")


def version(name: str, step: str) -> Workload | None:
    """A workload after a step; slices replace each other in order, ``v`` and ``w`` are variants of ``p``."""
    if step == "gone":
        return None
    make = workload(name, 1) if step == "waits" else reserved(name, 1, "cq")
    if name in ("p", "v", "w"):
        made = replace(make, parent=name == "p", variant_of="" if name == "p" else "uid-p")
    else:
        before = NAMES[NAMES.index(name) - 1] if name != "old" else ""
        made = replace(make, owner=JOB, replaces=Key("ns", before) if before else None)
    if step == "unrelated":
        made = replace(made, replaces=None, variant_of="")
    if step == "evicted":
        made = replace(made, conditions=(*made.conditions, Condition("Evicted", True)))
    return transitions.finished(made, "Succeeded", "", NOW) if step == "done" else made


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(STEPS))))
@settings(max_examples=cases(150, 3000))
def test_after_any_history_the_same_workloads_are_counted_as_in_a_state_built_afresh(
    steps: list[tuple[str, str]],
) -> None:
    policy = SchedulingPolicy(concurrent_admission=True)
    found = state(cluster_queue("cq", 100, migration=Migration()), policy=policy)
    for name, step in steps:
        found.set_workload(Key("ns", name), version(name, step))
        found.check()
    afresh = copy(found)
    assert counted(afresh) == counted(found)
    for key in found.workloads:
        afresh.set_workload(key, None)
    for key in reversed(found.workloads):
        afresh.set_workload(key, found.workloads[key])
    assert counted(afresh) == counted(found), "the order of the first list does not matter"
