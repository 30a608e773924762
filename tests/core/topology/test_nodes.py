"""Nodes that come, go and change: the domains are those of a tree that is built afresh, and are not built again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.model import Node, Placement, PodSet, Requirement, ResourceFlavor, Taint, Toleration, TopologyRequest
from core.topology import Asked, Domains, Misfit, Options, place
from core.topology.counts import Exclusions, Filter
from core.topology.nodes import FlavorNodes
from tests.core.topology.worlds import HOST
from tests.effort import cases

CPU, RACK, ZONE = "cpu", "rack", "zone"
FLAVOR = ResourceFlavor("tas", {"pool": "a"}, topology_name="t")
TAINT = Taint("dedicated", "x", "NoSchedule")


def node(number: int, *, rack: int | None = None, host: int | None = None, pool: str = "a", cpu: int = 4) -> Node:
    labels = {
        RACK: f"r{number // 3 if rack is None else rack}",
        HOST: f"n{number if host is None else host}",
        ZONE: f"z{number % 2}",
        "pool": pool,
    }
    return Node(f"n{number}", labels, (), {CPU: cpu, "pods": 9})


def asked(count: int, request: TopologyRequest, **placement: object) -> Asked:
    return Asked(PodSet("main", count, {CPU: 1}, placement=Placement(**placement), topology=request), count)  # type: ignore[arg-type]


PROBES = [
    asked(6, TopologyRequest(required=RACK)),
    asked(9, TopologyRequest(preferred=RACK), node_selector={ZONE: "z0"}),
    asked(8, TopologyRequest(unconstrained=True), tolerations=(Toleration(operator="Exists"),)),
    asked(40, TopologyRequest(preferred=RACK, slices=((RACK, 4),))),
]
CHANGE = st.tuples(
    st.sampled_from(
        ["gone", "back", "unready", "taint", "larger", "rack", "host", "pool", "new", "others", "use", "less", "ask"]
    ),
    st.integers(0, 8),
    st.integers(0, 5),
)


def changed(what: str, number: int, amount: int, old: Node | None) -> Node | None:
    """The node after a change."""
    plain = old or node(number)
    match what:
        case "gone":
            return None
        case "unready":
            return replace(plain, usable=False)
        case "taint":
            return replace(plain, taints=() if plain.taints else (TAINT,))
        case "larger":
            return replace(plain, allocatable={**plain.allocatable, CPU: 4 + amount, "gpu": amount})
        case "rack":
            return node(number, rack=amount % 4)
        case "host":
            return node(number, host=amount)
        case "pool":
            return node(number, pool="b")
        case _:
            return node(number)


@pytest.mark.parametrize("levels", [(RACK, HOST), (RACK,), (HOST,)], ids=["hosts in racks", "racks", "hosts"])
@given(st.lists(CHANGE, max_size=30))
@settings(max_examples=cases(60, 2000))
def test_after_any_history_the_domains_are_those_of_a_tree_built_afresh(
    levels: tuple[str, ...], changes: list[tuple[str, int, int]]
) -> None:
    nodes = {each.name: each for each in map(node, range(6))}
    others: dict[str, dict[str, int]] = {}
    uses: dict[tuple[str, ...], int] = {}
    probes = [each for each in PROBES if RACK in levels]
    found = FlavorNodes(levels, FLAVOR, nodes, others)
    here = found.domains.copy()
    for what, number, amount in changes:
        name = f"n{number}"
        before = nodes.get(name)
        match what:
            case "ask":
                for probe in probes:
                    place(here, [probe], Options())
                    place(here, [probe], Options(), empty=True)
                continue
            case "use" | "less":
                values = (name,) if HOST in levels else (f"r{number // 3}",)
                count = amount if what == "use" else -min(amount, uses.get(values, 0))
                uses[values] = uses.get(values, 0) + count
                here.add(values, {CPU: 1}, count)
                continue
            case "others":
                others[name] = {CPU: amount, "pods": 1}
            case _:
                now = changed(what, number, amount, before)
                if now is None:
                    nodes.pop(name, None)
                else:
                    nodes[name] = now
        follows = found.change(name, before, nodes.get(name))
        if follows is None:
            assert found.outdated
            if amount % 2:
                continue  # several nodes may be new
        if found.outdated:
            found = found.renewed()
            here = used(found.domains.copy(), uses)
        elif follows:
            here.adopt(found.domains.tree)
    if found.outdated:
        here = used(found.renewed().domains.copy(), uses)
    afresh = used(Domains(levels, FLAVOR, nodes.values(), others), uses)
    assert leaves(here) == leaves(afresh)
    for probe in probes:
        assert answer(here, probe) == answer(afresh, probe)
        assert answer(here, probe, empty=True) == answer(afresh, probe, empty=True)


def used(domains: Domains, uses: dict[tuple[str, ...], int]) -> Domains:
    for values, count in uses.items():
        domains.add(values, {CPU: 1}, count)
    return domains


def leaves(domains: Domains) -> list[object]:
    """The leaves that have nodes, in order, with what is used there."""
    every = enumerate(domains.tree.leaves)
    return [(leaf.path, leaf.capacity, leaf.node, domains.used(number)) for number, leaf in every if leaf.present]


def answer(domains: Domains, probe: Asked, *, empty: bool = False) -> object:
    found = place(domains, [probe], Options(), empty=empty)["main"]
    return found.text if isinstance(found, Misfit) else found


@pytest.mark.parametrize("what", ["gone", "unready", "taint", "larger"])
def test_a_node_that_goes_or_changes_and_comes_back_builds_nothing(what: str) -> None:
    nodes = {each.name: each for each in map(node, range(300))}
    found = FlavorNodes((RACK, HOST), FLAVOR, nodes, {})
    tree, old = found.domains.tree, nodes["n7"]
    now = changed(what, 7, 3, old)
    assert found.change("n7", old, now) is True
    other = found.domains.tree
    assert other.numbers is tree.numbers and other.children is tree.children
    pages = zip(tree.leaves.pages, other.leaves.pages, strict=True)
    assert [before is after for before, after in pages].count(False) == 1, "one page is copied"
    assert found.change("n7", now, old) is True
    assert list(found.domains.tree.leaves) == list(tree.leaves)


def test_nodes_that_are_new_take_their_place_among_the_leaves_of_the_others() -> None:
    nodes = {each.name: each for each in map(node, range(0, 300, 2))}
    found = FlavorNodes((RACK, HOST), FLAVOR, nodes, {})
    before = {leaf.path: leaf for leaf in found.domains.tree.leaves}
    for number in (7, 1001):
        nodes[f"n{number}"] = node(number)
        assert found.change(f"n{number}", None, nodes[f"n{number}"]) is None
    renewed = found.renewed().domains.tree.leaves
    assert [leaf.path for leaf in renewed] == sorted([*before, ("r2", "n7"), ("r333", "n1001")])
    assert all(leaf is before[leaf.path] for leaf in renewed if leaf.path in before), "no leaf is made again"


def test_pods_are_compared_once_with_nodes_that_are_alike_in_what_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    exclusion = Filter.exclusion

    def counted(self: Filter, each: Node) -> str:
        compared.append(each.name)
        return exclusion(self, each)

    monkeypatch.setattr(Filter, "exclusion", counted)
    by_zone = Exclusions(Filter(affinity=tuple((Requirement(ZONE, "NotIn", (f"z{n}",)),) for n in range(1, 99))))
    nodes = [node(number) for number in range(100)]
    assert [by_zone.why(each) for each in nodes] == ["", ""] * 50
    assert len(compared) == 2
    assert [by_zone.why(replace(each, taints=(TAINT,))) for each in nodes[:2]] == ['taint "dedicated=x:NoSchedule"'] * 2
