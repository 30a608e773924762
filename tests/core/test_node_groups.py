"""The nodes with the labels of a flavor, while nodes come, go and change."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import Labels, Node
from core.state.node_groups import NodeGroup, NodeGroups
from tests.effort import cases

LABELS = st.dictionaries(st.sampled_from(["pool", "zone"]), st.sampled_from(["a", "b"]))
CHANGE = st.tuples(st.integers(0, 4), st.none() | LABELS)


@given(st.lists(LABELS, max_size=4), st.lists(CHANGE, max_size=12))
@settings(max_examples=cases(60, 1000))
def test_groups_are_those_that_a_comparison_of_all_nodes_finds(
    asked: list[Labels], changes: list[tuple[int, Labels | None]]
) -> None:
    nodes: dict[str, Node] = {f"n{number}": Node(f"n{number}", {"pool": "a"}) for number in range(2)}
    groups = NodeGroups(nodes.values)
    for number, labels in changes:
        for each in asked:
            groups.having(each)
        name = f"n{number}"
        old, new = nodes.get(name), None if labels is None else Node(name, labels)
        nodes.pop(name, None)
        if new is not None:
            nodes[name] = new
        groups.changed(old, new)
    for each in [*asked, {}]:
        found = sorted(node.name for node in groups.having(each))
        assert found == sorted(name for name, node in nodes.items() if each.items() <= node.labels.items())


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 3))


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | AMOUNTS), max_size=20))
@settings(max_examples=cases(60, 1000))
def test_what_is_known_of_a_group_is_what_a_count_of_its_nodes_finds(
    changes: list[tuple[int, dict[str, int] | None]],
) -> None:
    group, known = NodeGroup(()), dict[str, Node]()
    for number, amounts in changes:
        name = f"n{number}"
        group.remove(name)
        known.pop(name, None)
        if amounts is not None:
            known[name] = Node(name, allocatable=amounts)
            group.add(known[name])
        assert list(group) == list(known.values()) and len(group) == len(known)
        assert group.reports == all(node.allocatable for node in known.values())
        for resource in ("cpu", "gpu"):
            assert group.most(resource) == max((n.allocatable.get(resource, 0) for n in known.values()), default=0)
            for amount in range(5):
                lacks = all(node.allocatable.get(resource, amount) < amount for node in known.values())
                assert group.lacks(resource, amount) == (lacks and (bool(known) or amount > 0))


def test_what_nodes_had_before_is_not_kept() -> None:
    group = NodeGroup([Node("n", allocatable={"cpu": 10**6}), Node("m", allocatable={"cpu": 1})])
    assert group.most("cpu") == 10**6
    for amount in range(2, 1000):
        group.add(Node("m", allocatable={"cpu": amount}))
    assert len(group) == 2 and len(group._of("cpu")._heap) < 100
    group.remove("n")
    assert group.most("cpu") == 999


def test_nodes_are_compared_once_for_each_question() -> None:
    read: list[int] = []

    def nodes() -> Iterable[Node]:
        read.append(1)
        return [Node("n", {"pool": "a"})]

    groups = NodeGroups(nodes)
    for _ in range(3):
        assert len(groups.having({"pool": "a"})) == 1
        groups.changed(Node("n", {"pool": "a"}), Node("n", {"pool": "a"}))
    assert len(read) == 1
