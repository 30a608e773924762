"""The stored form of a topology assignment (v1beta2): domains in slices, which keep what values have in common once.

One slice has all domains, or (feature gate TASAssignmentsEncodingByHostnamePrefix) there is one for each run of domains
whose hostnames begin alike; the shorter JSON of both is stored. Decoding is in ``core.wire.decode``. Source: KEP 2724.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Final

import orjson
from msgspec.structs import replace

from api.convert.topology_assignment import part
from core.model import Raw, TopologyAssignment, TopologyDomain
from core.topology.nodes import HOSTNAME

MOST_SLICES: Final = 1000
"""The API server stores so many at most."""


def encode(assignment: TopologyAssignment, *, by_prefix: bool = True) -> Raw:
    """Returns ``topologyAssignment`` of a pod set as it is stored; without domains it has no slices."""
    found: Raw = {"levels": list(assignment.levels)}
    domains = assignment.domains
    if not domains:
        return found
    slices = [_slice(domains)]
    if by_prefix and assignment.levels[-1:] == (HOSTNAME,):
        runs = [_slice(run) for run in _runs(domains)]
        if len(orjson.dumps(runs)) <= len(orjson.dumps(slices)):
            slices = runs
    return {**found, "slices": slices}


def truncated(assignment: TopologyAssignment, count: int) -> TopologyAssignment:
    """Returns the assignment of the first so many pods, in stored order."""
    kept = []
    for domain, before in zip(assignment.domains, _before(assignment.domains), strict=True):
        if before >= count:
            break
        kept.append(TopologyDomain(domain.values, min(domain.count, count - before)))
    return replace(assignment, domains=tuple(kept))


def _before(domains: Sequence[TopologyDomain]) -> list[int]:
    """The number of pods on the domains before each."""
    return [0, *accumulate(domain.count for domain in domains)][:-1]


def _slice(domains: Sequence[TopologyDomain]) -> Raw:
    return part([domain.values for domain in domains], [domain.count for domain in domains])


def _runs(domains: Sequence[TopologyDomain]) -> list[Sequence[TopologyDomain]]:
    """Consecutive domains whose hostnames have the same prefix: the longest of at least two of all hostnames that ends
    in a dash; a shorter one where there would be more runs than can be stored.
    """
    prefixes = [_prefixes(domain.values[-1]) for domain in domains]
    shared = Counter(prefix for each in prefixes for prefix in each)
    longest = max(map(len, prefixes))
    runs: list[Sequence[TopologyDomain]] = [domains]
    for most in range(longest, 0, -1):
        chosen = [next((prefix for prefix in reversed(each[:most]) if shared[prefix] > 1), "") for each in prefixes]
        places = [[place for place, _ in run] for _, run in groupby(enumerate(chosen), key=lambda each: each[1])]
        if len(places) <= MOST_SLICES:
            return [[domains[place] for place in run] for run in places]
    return runs


def _prefixes(value: str) -> list[str]:
    """All beginnings of a hostname that end in a dash, the shortest first."""
    return [value[: place + 1] for place, char in enumerate(value) if char == "-"]
