"""Tenants take turns, and the keys of each keep their order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.objects import Key
from controller.kube.turns import OLDEST_EVERY, Turns, namespace_of

KEYS = st.builds(Key, st.sampled_from("abc"), st.sampled_from("0123456"))
STEPS = st.lists(
    st.one_of(st.tuples(st.just("add"), KEYS), st.tuples(st.just("discard"), KEYS), st.just(("pop", None)))
)


@given(STEPS)
def test_no_key_is_lost_or_doubled_and_none_waits_for_more_than_one_key_of_each_other_tenant_for_each_of_its_own(
    steps: list[tuple[str, Key | None]],
) -> None:
    turns: Turns[Key] = Turns()
    lines: dict[str, list[Key]] = {namespace: [] for namespace in "abc"}
    waits: dict[Key, tuple[int, Counter[str]]] = {}
    """How many of its own tenant a key had before it, and how many of others were taken since."""
    for step, key in steps:
        if key is None:
            if not len(turns):
                continue
            taken = turns.pop()
            assert lines[taken.namespace].pop(0) == taken, "first in, first out"
            for _, since in waits.values():
                since[taken.namespace] += 1
            before, others = waits.pop(taken)
            assert all(count <= before + 1 for namespace, count in others.items() if namespace != taken.namespace)
        elif step == "add" and key not in turns:
            waits[key] = (len(lines[key.namespace]), Counter())
            lines[key.namespace].append(key)
            turns.add(key)
        elif step == "add":
            turns.add(key)
        else:
            assert (key in turns) == (key in lines[key.namespace])
            turns.discard(key)
            if key in lines[key.namespace]:
                lines[key.namespace].remove(key)
                del waits[key]
        turns._check()
        assert sorted(turns) == sorted(key for line in lines.values() for key in line)
        assert len(turns) == len(list(turns))
        assert all(turns.count(namespace) == len(line) for namespace, line in lines.items())


@pytest.mark.parametrize("tenants", range(1, 2 * OLDEST_EVERY + 1))
def test_where_the_newest_come_first_the_oldest_key_of_each_tenant_has_its_turn_however_many_tenants_there_are(
    tenants: int,
) -> None:
    """With as many tenants as turns, a count of all turns would give the oldest of the same tenant each time."""
    turns: Turns[Key] = Turns(newest_first=True)
    for tenant in range(tenants):
        turns.add(Key(str(tenant), "oldest"))
        turns.add(Key(str(tenant), "next"))
    taken = []
    for number in range(tenants * 2 * OLDEST_EVERY):
        taken.append(turns.pop())
        turns.add(Key(taken[-1].namespace, f"new{number}"))
    assert {key.namespace for key in taken if key.name == "oldest"} == set(map(str, range(tenants)))


def test_a_tenant_that_passes_its_turn_comes_after_all_others() -> None:
    turns: Turns[Key] = Turns()
    for namespace in "abc":
        turns.add(Key(namespace, "k"))
    assert turns.next_tenant == "a"
    turns.pass_turn()
    assert [turns.pop().namespace for _ in range(3)] == ["b", "c", "a"]


def test_keys_without_a_namespace_are_of_one_tenant() -> None:
    assert [namespace_of(key) for key in (Key("ns", "a"), Key("", "a"), "text", ("ns", "a"))] == ["ns", "", "", ""]
    with pytest.raises(StopIteration):
        Turns[str]().pop()
