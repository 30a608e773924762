"""Siblings are counted change by change: the result is that of looking at all of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import CheckState, Condition, Key, Workload
from core.model.workload import replace
from core.multikueue.siblings import Siblings, turn
from tests.builders import workload
from tests.effort import cases

KINDS = ("QuotaReserved", "Evicted", "Finished")
GROUPS = st.builds(
    lambda name, created, holds, cluster, nominated, checks, deleting: workload(
        name,
        1,
        created=created,
        conditions=tuple(Condition(kind, True) for kind in holds),
        cluster_name=cluster,
        nominated=nominated,
        checks=tuple(CheckState(each, "Pending") for each in checks),
        deleting=deleting,
    ),
    st.sampled_from("abcd"),
    st.sampled_from((1.0, 2.0)),
    st.sets(st.sampled_from(KINDS)),
    st.sampled_from(("", "w1", "w2")),
    st.sampled_from(((), ("w1",))),
    st.sets(st.sampled_from(("mk", "other"))),
    st.booleans(),
)


def goes_on(each: Workload, check: str) -> bool:
    over = each.holds("Evicted") or each.holds("Finished") or each.deleting
    return each.holds("QuotaReserved") and not over and any(found.name == check for found in each.checks)


def runs_in(each: Workload, worker: str) -> bool:
    over = each.holds("Evicted") or each.holds("Finished")
    return each.cluster_name == worker and each.holds("QuotaReserved") and not over


@settings(max_examples=cases(100, 2000))
@given(st.lists(st.one_of(GROUPS, st.sampled_from("abcd")), max_size=20))
def test_after_any_changes_the_counts_are_those_of_all_groups(changes: list[Workload | str]) -> None:
    known, found = dict[Key, Workload](), Siblings()
    for change in changes:
        if isinstance(change, str):
            known.pop(Key("ns", change), None)
            found.set(Key("ns", change), None)
        else:
            known[change.key] = change
            found.set(change.key, change)
        for check in ("mk", "other"):
            count = [each for each in known.values() if goes_on(each, check)]
            assert found.place(check) == min((each.cluster_name for each in count if each.cluster_name), default="")
            assert found.first(check) == min(map(turn, count), default=None)
    for key in (Key("ns", name) for name in "abcd"):
        others = [each for each in known.values() if each.key != key]
        for worker in ("w1", "w2"):
            assert found.runs_in(worker, without=key) == any(runs_in(each, worker) for each in others)
        placed = [
            each for each in others if each.cluster_name and any(goes_on(each, check) for check in ("mk", "other"))
        ]
        assert found.placed_without(key) == bool(placed)
    assert len(found) == len(known)


def test_an_object_may_have_thousands_of_groups() -> None:
    """Each change and each question looks at a few of them, whatever happened before."""
    looked = 0

    class Counted(Key):
        def __lt__(self, other: tuple[str, ...]) -> bool:
            nonlocal looked
            looked += 1
            return super().__lt__(other)

    waiting = workload("x", 1, conditions=(Condition("QuotaReserved", True),), checks=(CheckState("mk", "Pending"),))
    number, found = 2000, Siblings()
    for place in range(number):
        key = Counted("ns", f"{place:05}")
        found.set(key, replace(waiting, key=key))
    for place in range(number):
        first = found.first("mk")
        assert first is not None and first.key.name == f"{place:05}"
        assert not found.placed_without(first.key) and found.place("mk") == ""
        found.set(first.key, None)
    assert found.first("mk") is None and 0 < looked < 60 * number


def test_groups_that_change_for_ever_behind_the_first_cost_no_memory() -> None:
    """The first one stays the first, so that no question removes what was remembered of the others."""
    first = workload("a", 1, conditions=(Condition("QuotaReserved", True),), checks=(CheckState("mk", "Pending"),))
    other = replace(first, key=Key("ns", "b"), created=first.created + 1)
    found = Siblings((first, other))
    for _ in range(1000):
        for each in (replace(other, nominated=("w1",)), other):
            found.set(other.key, each)
        assert found.first("mk") == turn(first)
    assert sum(map(len, found._turns.values())) < 100
    found.set(first.key, None)
    assert found.first("mk") == turn(other)
