"""The stored form of a topology assignment (v1beta2): domains in slices, which keep what values have in common once.

One slice has all domains, or (feature gate TASAssignmentsEncodingByHostnamePrefix) there is one for each run of domains
whose hostnames begin alike; the shorter JSON of both is stored. Decoding is in ``core.wire.decode``. Source: KEP 2724.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import orjson
from msgspec.structs import replace

from api.convert.topology_assignment import parts
from core.model import Raw, TopologyAssignment, TopologyDomain
from core.topology.nodes import HOSTNAME

MOST_SLICES: Final = 1000
"""The API server stores no more slices of one assignment."""


def encode(assignment: TopologyAssignment, *, by_prefix: bool = True) -> Raw:
    """Returns ``topologyAssignment`` of a pod set as it is stored; without domains it has no slices."""
    found: Raw = {"levels": list(assignment.levels)}
    domains = assignment.domains
    if not domains:
        return found
    slices = _slices([domains])
    if by_prefix and assignment.levels[-1:] == (HOSTNAME,):
        runs = _runs(domains)
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


def _slices(runs: Sequence[Sequence[TopologyDomain]]) -> list[Raw]:
    """The slices of runs of domains; one run is several slices where it has more domains than one slice can have."""
    made = (parts([domain.values for domain in run], [domain.count for domain in run]) for run in runs)
    return [each for some in made for each in some]


def _runs(domains: Sequence[TopologyDomain]) -> list[Raw]:
    """The slices of consecutive domains whose hostnames have the same prefix: the longest of at least two of all
    hostnames that ends in a dash; a shorter one where there would be more slices than can be stored.
    """
    prefixes = [_prefixes(domain.values[-1]) for domain in domains]
    count = Counter(prefix for each in prefixes for prefix in each)
    shared = [[prefix for prefix in each if count[prefix] > 1] for each in prefixes]
    depths = [_depth_of_difference(one, other) for one, other in pairwise(shared)]
    for most in sorted({*depths} - {0}, reverse=True):
        starts = [0, *(place for place, depth in enumerate(depths, start=1) if 0 < depth <= most)]
        if len(starts) <= MOST_SLICES:
            slices = _slices([domains[start:end] for start, end in pairwise((*starts, len(domains)))])
            if len(slices) <= MOST_SLICES:
                return slices
    return _slices([domains])


def _prefixes(value: str) -> list[str]:
    """All beginnings of a hostname that end in a dash, the shortest first; the whole hostname is none."""
    return [value[: place + 1] for place, char in enumerate(value[:-1]) if char == "-"]


def _depth_of_difference(one: Sequence[str], other: Sequence[str]) -> int:
    """How many prefixes must be allowed so that the longest allowed ones differ; 0 if they never differ."""
    if one == other:
        return 0
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same + 1
