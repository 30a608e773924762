"""How many workloads of a service are on each domain, and which domains may take one more of them.

A rule limits the share of a domain in the workloads of the domain above it (of all, at the highest level), before the
new one is placed. Separate from the search: here a domain is judged by who is there, not by the room that it has.
Source: KEP 13746.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api.topology_spreading import ONE
from core.model import SpreadRule
from core.topology.nodes import Tree


class DomainAt(NamedTuple):
    """A domain by its level and number."""

    level: int
    number: int


ALL: Final = DomainAt(-1, 0)
"""What is above the highest level."""

Rank = tuple[tuple[int, int], ...]
"""By rule, the highest level first: 0 for a domain that is in use, 1 for one that is not, 2 for one beyond its share,
with the workloads there.
"""


@dataclass(frozen=True, slots=True)
class Spread:
    """The rules for one more workload, and how many are on each domain; on ``ALL`` all of them."""

    rules: tuple[SpreadRule, ...]
    standing: Mapping[DomainAt, int] = field(default_factory=dict)

    def ranks(self, tree: Tree, level: int) -> list[Rank | None]:
        """Returns the rank of each domain of a level, by number, lower ones are taken first; None for those that a
        required rule excludes. Costs two references for each domain of it and of the levels above.
        """
        rules = dict(_by_level(self.rules, tree.levels))
        found: list[Rank | None] = [()]
        for at in range(level + 1):
            parents = tree.parents[at] if at else (0,) * tree.size(0)
            rule = rules.get(at)
            unused = found if rule is None else [None if rank is None else (*rank, (1, 0)) for rank in found]
            these = [unused[parent] for parent in parents]
            for domain, count in self.standing.items() if rule is not None else ():
                if domain.level == at and rule is not None:
                    above = parents[domain.number]
                    total = self.standing.get(DomainAt(at - 1, above), 0)
                    these[domain.number] = _judged(rule, found[above], count, total)
            found = these
        return found

    def too_low(self, levels: Sequence[str], level: int) -> str:
        """Returns the level of a rule below the one that is asked for, on which no choice is left; '' if none is."""
        return next((rule.level for depth, rule in _by_level(self.rules, levels) if depth > level), "")


def _by_level(rules: Iterable[SpreadRule], levels: Sequence[str]) -> list[tuple[int, SpreadRule]]:
    """The rules for levels that the topology has."""
    return [(levels.index(rule.level), rule) for rule in rules if rule.level in levels]


def _judged(rule: SpreadRule, above: Rank | None, count: int, total: int) -> Rank | None:
    """The rank of a domain that is in use, of a total of workloads in the domain above it, which has a rank, too."""
    if above is None:
        return None
    if count * ONE <= rule.share * total:
        return (*above, (0, 0))
    return None if rule.required else (*above, (2, count))


def domains_of(tree: Tree, values: Iterable[tuple[str, ...]]) -> frozenset[DomainAt]:
    """Returns all domains, of every level, in which these leaves are, which are named as assignments name them."""
    found: set[DomainAt] = set()
    for each in values:
        leaf = tree.numbers.get(each)
        if leaf is not None:
            found.add(ALL)
            found.update(DomainAt(level, tree.above(leaf, level)) for level in range(len(tree.levels)))
    return frozenset(found)


def unit(pod_set: str, group: str) -> str:
    """Returns the name under which a pod set counts: pod sets of one group count together."""
    return f"{group}/" if group else pod_set
