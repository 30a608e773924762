"""The workloads on the domains of an arena, counted by their labels, so that others can be spread beside them.

Separate from the room on domains (``core.topology.nodes``), which pods use up: here a workload counts once on a domain,
however many pods it has there. Only with the feature gate TASTopologySpreading. Source: KEP 13746.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from core.model import Admission, PodSet, Spreading, Workload
from core.quota.usage import Usage
from core.topology.nodes import Domains
from core.topology.spread import DomainAt, Spread, domains_of, unit

Values = tuple[str, ...]


class Member(NamedTuple):
    """A pod set of a workload (or a group of them) on its domains, of which usage is 1. ``spreading`` are the rules
    under which it was placed.
    """

    flavor: str
    namespace: str
    unit: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[Values, ...]
    spreading: Spreading | None


class _Labelled(NamedTuple):
    """Those that count together: the key of ``Members``."""

    flavor: str
    namespace: str
    unit: str
    key: str
    value: str


class Members:
    """How many workloads are on each domain, by label. Costs of a change: the domains of the workload, for each label;
    and, for the first change of a group since the last copy, all domains that the group is on.
    """

    __slots__ = ("_own", "_standing")

    def __init__(self, standing: Mapping[_Labelled, dict[DomainAt, int]] | None = None) -> None:
        self._standing = dict(standing or {})
        self._own: set[_Labelled] = set()
        """The groups whose counts no copy has: only these may be changed in place."""

    def copy(self) -> Members:
        """Returns the same with separate counts."""
        self._own.clear()
        return Members(self._standing)

    def count(self, member: Member, domains: Domains, count: int) -> None:
        """Counts a workload on its domains, or (with a negative number) no longer."""
        where = domains_of(domains.tree, member.domains)
        for key, value in member.labels if where else ():
            group = _Labelled(member.flavor, member.namespace, member.unit, key, value)
            standing = self._standing.get(group, {})
            if group not in self._own:
                self._own.add(group)
                standing = self._standing[group] = dict(standing)
            for each in where:
                standing[each] = standing.get(each, 0) + count
                if not standing[each]:
                    del standing[each]
            if not standing:
                del self._standing[group]
                self._own.discard(group)

    def spread(self, flavor: str, name: str, spreading: Spreading) -> Spread:
        """Returns the rules of a unit in a flavor, with those who are there."""
        total: dict[DomainAt, int] = {}
        for value in spreading.values:
            group = _Labelled(flavor, spreading.namespace, name, spreading.key, value)
            for domain, count in self._standing.get(group, {}).items():
                total[domain] = total.get(domain, 0) + count
        return Spread(spreading.rules, total)

    def admits(self, member: Member, domains: Domains) -> bool:
        """Whether the rules of a workload let it onto its domains, as the counts are now."""
        if member.spreading is None:
            return True
        tree = domains.tree
        leaf = next((leaf for values in member.domains if (leaf := domains.number(values)) is not None), None)
        if leaf is None:
            return False
        # All its domains are in one of the level that it asks for, and no rule is about a lower one.
        level = max(
            (tree.levels.index(rule.level) for rule in member.spreading.rules if rule.level in tree.levels), default=0
        )
        ranks = self.spread(member.flavor, member.unit, member.spreading).ranks(tree, level)
        return ranks[tree.above(leaf, level)] is not None


def members(workload: Workload, admission: Admission) -> Iterable[Member]:
    """Yields the units of a workload that are placed, with all their domains."""
    pod_sets: dict[str, PodSet] = {each.name: each for each in workload.pod_sets}
    found: dict[tuple[str, str], tuple[dict[Values, None], Spreading | None]] = {}
    for given in admission.pod_sets:
        pod_set = pod_sets.get(given.name)
        if given.topology is None or pod_set is None:
            continue
        asked = pod_set.topology
        name = unit(pod_set.name, asked.group if asked is not None else "")
        for flavor in sorted(set(given.flavors.values())):
            domains, spreading = found.get((flavor, name), ({}, None))
            domains.update(dict.fromkeys(each.values for each in given.topology.domains))
            found[flavor, name] = domains, spreading or (asked.spreading if asked is not None else None)
    for (flavor, name), (domains, spreading) in found.items():
        rules = None if workload.unhealthy_nodes else spreading  # a failed node is replaced whoever is elsewhere
        if workload.labels or rules is not None:
            yield Member(flavor, workload.key.namespace, name, workload.labels, tuple(domains), rules)


class Selected:
    """Which labels of workloads the rules of known workloads select."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: Counter[tuple[str, str, str]] = Counter()
        """How many rules select a label of a namespace."""

    def change(self, before: Workload | None, now: Workload | None) -> None:
        """A workload was added, changed or removed."""
        self._rules.subtract(_selects(before))
        self._rules.update(_selects(now))
        for each in _selects(before):
            if not self._rules[each]:
                del self._rules[each]

    def lets_others_in(self, usage: Usage) -> bool:
        """Whether workloads that are spread may be admitted because this one is, with rules of its own or without: it
        makes the share of all domains smaller but its own, for those that select one of its labels.
        """
        members = (key for amounts in usage.further.values() for key in amounts if isinstance(key, Member))
        return any((each.namespace, *label) in self._rules for each in members for label in each.labels)


def _selects(workload: Workload | None) -> Iterator[tuple[str, str, str]]:
    """Yields the labels that the rules of a workload select."""
    for pod_set in workload.pod_sets if workload is not None else ():
        spreading = pod_set.topology.spreading if pod_set.topology is not None else None
        if spreading is not None:
            for value in spreading.values:
                yield spreading.namespace, spreading.key, value
