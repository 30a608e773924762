"""What holds for every placement, over random worlds."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from core.model import Node, PodSet, TopologyAssignment, TopologyRequest
from core.topology import Asked, Domains, Misfit, Options, has_room, place
from core.topology.counts import Counts, Shape, counts, node_filter, requests_of
from core.topology.place import most
from core.topology.request import Goal, goal
from tests.core.topology.worlds import BLOCK, FLAVOR, HOST, LEVELS, RACK, node
from tests.effort import cases

CPU, GPU = "cpu", "gpu"
RANDOM = settings(max_examples=cases(60, 3000), deadline=None)
Value = TypeVar("Value")
Usage = tuple[str, int, int]
"""Hostname, cpu of a pod, and the number of pods."""


@dataclass(frozen=True)
class World:
    """Nodes by path with cpu and gpu, what workloads use, and a request."""

    nodes: tuple[tuple[str, int, int], ...]
    usage: tuple[Usage, ...]
    request: Asked
    leader: Asked | None
    options: Options

    def built(self, nodes: list[Node] | None = None) -> Domains:
        """The domains, from the nodes in some order."""
        return Domains(LEVELS, FLAVOR, self.given() if nodes is None else nodes, {})

    def given(self) -> list[Node]:
        return [node(path, cpu, allocatable={CPU: cpu, GPU: gpu, "pods": 20}) for path, cpu, gpu in self.nodes]

    def used(self) -> Domains:
        found = self.built()
        for hostname, cpu, count in self.usage:
            found.add((hostname,), {CPU: cpu}, count)
        return found

    @property
    def asked(self) -> list[Asked]:
        return [self.request] if self.leader is None else [self.leader, self.request]

    @property
    def goal(self) -> Goal:
        found = goal(self.request.topology, LEVELS, self.options, implied=False)
        assert isinstance(found, Goal)
        return found


SLICES = (
    (),
    ((RACK, 2),),
    ((HOST, 2),),
    ((RACK, 4), (HOST, 2)),
    ((BLOCK, 4), (HOST, 2)),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 12))
    nodes = tuple(
        (
            f"b{draw(st.integers(0, 2))}/r{draw(st.integers(0, 2))}/x{n}",
            draw(st.integers(0, 9)),
            draw(st.integers(0, 4)),
        )
        for n in range(size)
    )
    usage = tuple(
        (f"x{draw(st.integers(0, size))}", draw(st.integers(0, 3)), draw(st.integers(1, 3)))
        for _ in range(draw(st.integers(0, 6)))
    )
    slices = draw(st.sampled_from(SLICES))
    highest = LEVELS.index(slices[0][0]) if slices else 2
    level = draw(st.sampled_from(LEVELS[: highest + 1]))
    kind = draw(st.sampled_from(("required", "preferred", "unconstrained")))
    fields = {"unconstrained": True} if kind == "unconstrained" else {kind: level}
    topology = TopologyRequest(**fields, slices=slices)
    group = draw(st.sampled_from(("", "", "g")))
    count = slices[0][1] * draw(st.integers(1, 5)) if slices else draw(st.integers(2, 15))
    per_pod = {CPU: draw(st.integers(0, 3)), GPU: draw(st.sampled_from((0, 0, 1)))}
    workers = Asked(PodSet("main", count, per_pod, topology=topology), count, group=group)
    leader = Asked(PodSet("leader", 1, {CPU: draw(st.integers(0, 4))}, topology=topology), 1, group=group)
    options = Options(mixed_profile=draw(st.booleans()), balanced=draw(st.booleans()))
    return World(nodes, usage, workers, leader if group else None, options)


def placements(world: World) -> Mapping[str, TopologyAssignment | Misfit]:
    return place(world.used(), world.asked, world.options)


@RANDOM
@given(worlds())
def test_a_placement_fits(world: World) -> None:
    found, here = placements(world), world.used()
    before = {hostname: free(here, hostname) for hostname in hostnames(here)}
    for asked in world.asked:
        assigned = found[asked.pod_set.name]
        if isinstance(assigned, Misfit):
            return
        assert sum(domain.count for domain in assigned.domains) == asked.count
        assert all(domain.count > 0 for domain in assigned.domains)
        assert len({domain.values for domain in assigned.domains}) == len(assigned.domains)
        for domain in assigned.domains:
            here.add(domain.values, asked.per_pod, domain.count)
    for hostname in hostnames(here):
        for resource, left in free(here, hostname).items():
            assert left == before[hostname][resource] or left >= 0


@RANDOM
@given(worlds())
def test_a_placement_keeps_slices_and_required_levels_together(world: World) -> None:
    found, tree = placements(world)["main"], world.built().tree
    if isinstance(found, Misfit):
        return
    for level, size in world.goal.layers:
        assert all(count % size == 0 for count in by_domain(world.built(), found, level).values())
    if world.request.topology.required:
        assert len(by_domain(world.built(), found, tree.levels.index(world.request.topology.required))) == 1


@RANDOM
@given(worlds())
def test_a_placement_is_minimal_by_its_profile(world: World) -> None:
    """No other domain of the level has less room and is enough, with the leader if there is one; and preferred pods are
    not spread if one domain is enough.
    """
    found, here, wanted = placements(world)["main"], world.used(), world.goal
    if world.options.balanced and world.request.topology.preferred:
        return  # that has a property of its own
    counted = counted_for(here, world)
    need = world.request.count // wanted.size
    enough = {level: rooms(counted, level, need) for level in range(wanted.level + 1)}
    if isinstance(found, Misfit):
        assert not enough[wanted.level]
        assert wanted.required or sum(counted.plain.units[0]) < need or world.leader is not None
        return
    levels = [wanted.level] if wanted.required or wanted.unconstrained else range(wanted.level, -1, -1)
    for level in levels:
        if enough[level]:
            (domain,) = by_domain(here, found, level)
            assert enough[level][domain] == min(enough[level].values())
            return
    assert not wanted.required


@RANDOM
@given(worlds())
def test_best_fit_takes_the_fewest_domains(world: World) -> None:
    """At each level down to that of slices, of all sets of domains below those that are used at the level above."""
    found, here, wanted = placements(world)["main"], world.used(), world.goal
    balances = world.options.balanced and world.request.topology.preferred
    if isinstance(found, Misfit) or world.leader is not None or not wanted.best_fit or balances:
        return
    counted, need = counted_for(here, world), world.request.count // wanted.size
    levels = [wanted.level] if wanted.unconstrained else range(wanted.slice_level + 1)
    above: Iterable[int] | None = None
    for level in levels:
        used = by_domain(here, found, level)
        numbers = (
            range(here.tree.size(level))
            if above is None
            else [number for parent in above for number in here.tree.children[level - 1][parent]]
        )
        assert len(used) == fewest(counted, level, numbers, need)
        above = used


@RANDOM
@given(worlds())
def test_balanced_pods_are_on_the_fewest_domains_below_one(world: World) -> None:
    """Without slices, where the domains below one together hold all."""
    request = world.request.topology
    found, here, wanted = placements(world)["main"], world.used(), world.goal
    if isinstance(found, Misfit) or world.leader is not None or request.slices or not request.preferred:
        return
    counted, need = counted_for(here, world), world.request.count
    level, tree = wanted.level, here.tree
    siblings = [range(tree.size(0))] if not level else list(tree.children[level - 1])
    if world.options.balanced and any(sum(counted.plain.units[level][n] for n in each) >= need for each in siblings):
        used = by_domain(here, found, level)
        (together,) = [each for each in siblings if used.keys() & set(each)]
        assert len(used) == fewest(counted, level, together, need)


def rooms(counted: Counts, level: int, need: int) -> dict[int, int]:
    """By domain the slices that it holds, beside the leader if there is one; of those that are enough."""
    leads = counted.leads[level] if counted.leads else [True] * len(counted.led.units[level])
    return {n: held for n, held in enumerate(counted.led.units[level]) if held >= need and leads[n]}


def fewest(counted: Counts, level: int, numbers: Iterable[int], need: int) -> int:
    """The size of the smallest set of these domains that holds all, by trying each set."""
    units = [held for n in numbers if (held := counted.plain.units[level][n])]
    return next(
        size for size in range(len(units) + 1) if any(sum(each) >= need for each in itertools.combinations(units, size))
    )


@RANDOM
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_of_dictionaries_does_not_matter(world: World, chance: random.Random) -> None:
    nodes = world.given()
    chance.shuffle(nodes)
    nodes = [
        Node(each.name, shuffled(each.labels, chance), allocatable=shuffled(each.allocatable, chance)) for each in nodes
    ]
    other, usage = world.built(nodes), list(world.usage)
    chance.shuffle(usage)
    for hostname, cpu, count in usage:
        other.add((hostname,), {CPU: cpu}, count)
    assert place(other, world.asked, world.options) == placements(world)


@RANDOM
@given(worlds(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(-2, 3)), max_size=25))
def test_counts_after_a_history_are_those_computed_afresh(world: World, history: list[tuple[int, int, int]]) -> None:
    here = world.used()
    copies = [here]
    for step, (host, cpu, count) in enumerate(history):
        copy = copies[step % len(copies)]
        if step % 4 == 3:
            copies.append(copy.copy())
        copy.add((f"x{host}",), {CPU: cpu}, count)
        followed = counted_for(copy, world)
        afresh = Counts.of(copy, followed.shape)
        assert figures(followed, copy) == figures(afresh, copy)
    assert all(
        place(copy, world.asked, world.options) == place(rebuilt(copy, world), world.asked, world.options)
        for copy in copies
    )


@RANDOM
@given(worlds(), st.integers(1, 3), st.lists(st.tuples(st.integers(0, 12), st.integers(-4, 4)), max_size=20))
def test_an_answer_that_is_used_again_is_that_of_a_new_search(
    world: World, units: int, history: list[tuple[int, int]]
) -> None:
    """Mostly the pods are added where they were placed, as in a cycle; sometimes others are, on any node."""
    asked = structs.replace(world.request, count=units * world.goal.size)
    here = world.used()
    for host, count in history:
        found = place(here, [asked], world.options)["main"]
        assert found == place(rebuilt(here, world), [asked], world.options)["main"]
        if count == 1 or abs(count) == 2:
            here.add((f"x{host}",), {CPU: 1}, count)
        elif isinstance(found, TopologyAssignment):
            here = here.copy() if count == 3 else here
            for domain in found.domains:
                here.add(domain.values, asked.per_pod, domain.count)


@RANDOM
@given(worlds(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(-2, 3)), max_size=10))
def test_there_is_room_exactly_where_domains_are_found(world: World, history: list[tuple[int, int, int]]) -> None:
    here = world.used()
    for host, cpu, count in [(0, 0, 0), *history]:
        here.add((f"x{host}",), {CPU: cpu}, count)
        found = has_room(here, world.asked, world.options)
        placed = place(here, world.asked, world.options)
        assert found is not any(isinstance(each, Misfit) for each in placed.values())


@RANDOM
@given(worlds(), st.integers(0, 11), st.integers(1, 3))
def test_more_room_never_makes_a_required_request_fail(world: World, host: int, cpu: int) -> None:
    """Holds without a leader: where that one is put depends on the room of its domain."""
    if world.leader is not None or isinstance(placements(world)["main"], Misfit):
        return
    here = world.used()
    here.add((f"x{host}",), {CPU: -cpu}, 1)
    here.add((f"x{host}",), {}, -1)
    assert not isinstance(place(here, world.asked, world.options)["main"], Misfit)


@RANDOM
@given(worlds())
def test_what_fits_never_failed_for_fewer_pods(world: World) -> None:
    size = world.goal.size
    if world.leader is not None or world.request.count <= size or isinstance(placements(world)["main"], Misfit):
        return
    fewer = Asked(world.request.pod_set, world.request.count - size)
    assert not isinstance(place(world.used(), [fewer], world.options)["main"], Misfit)


@RANDOM
@given(worlds())
def test_no_more_pods_fit_than_the_most(world: World) -> None:
    alone = structs.replace(world.request, group="")
    more = structs.replace(alone, count=most(world.used(), alone, world.options) + 1)
    assert isinstance(place(world.used(), [more], world.options)["main"], Misfit)


@RANDOM
@given(worlds())
def test_placing_changes_nothing(world: World) -> None:
    here = world.used()
    place(here, world.asked, world.options)
    assert here.pages == world.used().pages


@pytest.mark.parametrize("size", [300, 700])
def test_large_levels_are_placed_as_small_ones(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large pools follow a ranking, small ones are sorted: both give the same."""
    chance = random.Random(size)
    nodes = [node(f"b{n % 3}/r{n % 7}/x{n}", chance.randrange(6)) for n in range(size)]
    here = Domains(LEVELS, FLAVOR, nodes, {})
    requests = [
        Asked(PodSet("main", count, {CPU: 1}, topology=topology), count)
        for count in (3, 40, 200)
        for topology in (
            TopologyRequest(required=BLOCK),
            TopologyRequest(preferred=HOST),
            TopologyRequest(unconstrained=True),
            TopologyRequest(slices=((HOST, 2),)),
        )
    ]
    ranked = [place(here, [each], options) for each in requests for options in OPTIONS]
    monkeypatch.setattr(importlib.import_module("core.topology.place"), "_SMALL", 10**9)
    here = Domains(LEVELS, FLAVOR, nodes, {})
    assert [place(here, [each], options) for each in requests for options in OPTIONS] == ranked


OPTIONS = (Options(), Options(mixed_profile=False))


def hostnames(here: Domains) -> Iterator[str]:
    return (leaf.path[-1] for leaf in here.tree.leaves)


def by_domain(here: Domains, found: TopologyAssignment, level: int) -> dict[int, int]:
    """Pods by domain of a level."""
    counted: dict[int, int] = {}
    for domain in found.domains:
        number = here.tree.above(here.tree.numbers[domain.values], level)
        counted[number] = counted.get(number, 0) + domain.count
    return counted


def counted_for(here: Domains, world: World) -> Counts:
    leader = requests_of(world.leader.per_pod) if world.leader else None
    selected = node_filter(world.request.pod_set.placement, FLAVOR)
    wanted = world.goal
    return counts(here, Shape(requests_of(world.request.per_pod), leader, selected, wanted.slice_level, wanted.sizes))


def figures(counted: Counts, here: Domains) -> object:
    rankings = [
        (list(table.ranking(level).ascending()), list(table.ranking(level).descending()))
        for table in (counted.plain, counted.led)
        for level in range(len(here.tree.levels))
    ]
    tables = [(table.pods, table.units) for table in (counted.plain, counted.led)]
    return tables, counted.leads, counted.excluded, rankings


def free(here: Domains, hostname: str) -> dict[str, int]:
    leaf = here.tree.numbers[hostname,]
    used = here.used(leaf)
    return {name: amount - used.get(name, 0) for name, amount in here.tree.leaves[leaf].capacity.items()}


def rebuilt(here: Domains, world: World) -> Domains:
    """The same usage in domains that know no counts."""
    found = world.built()
    for number, leaf in enumerate(found.tree.leaves):
        used = dict(here.used(number))
        found.add(leaf.path, {**used, "pods": used.get("pods", 0) - 1}, 1)
    return found


def shuffled(given: Mapping[str, Value], chance: random.Random) -> dict[str, Value]:
    items = list(given.items())
    chance.shuffle(items)
    return dict(items)
