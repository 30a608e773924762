"""The domains of a flavor with a topology: what each has, what is used there, and which workloads have pods there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from core.explain.sight import Sight
from core.model import Key, Raw
from core.page.queue import JobOf
from core.quota.placement import Place, PlacementCapacity
from core.state.state import State
from core.topology import Domains

STEP: Final = 50
MOST_NAMED: Final = 10
"""So many workloads are named on a domain."""


def domains(state: State, flavor: str, sight: Sight, job_of: JobOf) -> Generator[None, None, Raw | None]:
    """Returns the domains of a flavor, each with those below it; None if the flavor has none. Yields where the caller
    may pause.
    """
    for arena in state.reservations.arenas.values():
        capacity = arena.further.get("topology")
        if isinstance(capacity, PlacementCapacity) and flavor in capacity.domains:
            found = capacity.domains[flavor]
            taken = _taken(state, flavor, found)
            yield
            return (yield from _tree(found, flavor, taken, sight, job_of))
    return None


def _taken(state: State, flavor: str, found: Domains) -> Mapping[int, dict[Key, int]]:
    """The pods of each workload on each leaf."""
    taken: dict[int, dict[Key, int]] = {}
    for arena in state.reservations.arenas.values():
        for node in arena.queues.values():
            for key, held in node.reserved.items():
                for place, count in held.usage.further.get("topology", {}).items():
                    leaf = found.number(place.values) if isinstance(place, Place) and place.flavor == flavor else None
                    if leaf is not None:
                        of_leaf = taken.setdefault(leaf, {})
                        of_leaf[key] = of_leaf.get(key, 0) + count
    return taken


def _tree(
    found: Domains, flavor: str, taken: Mapping[int, dict[Key, int]], sight: Sight, job_of: JobOf
) -> Generator[None, None, Raw]:
    tree = found.tree
    leaves: list[Raw] = []
    for number, leaf in enumerate(tree.leaves):
        used = found.used(number)
        pods = taken.get(number, {})
        named = sorted(key for key in pods if sight.names(key))
        leaves.append(
            {
                "name": leaf.path[-1],
                "present": leaf.present,
                "amounts": {
                    name: {"has": amount, "used": used.get(name, 0)} for name, amount in sorted(leaf.capacity.items())
                },
                "workloads": [
                    {"namespace": key.namespace, "name": key.name, "job": job_of(key), "pods": pods[key]}
                    for key in named[:MOST_NAMED]
                ],
                "others": sum(count for key, count in pods.items() if key not in named[:MOST_NAMED]),
            }
        )
        if number % STEP == STEP - 1:
            yield
    below = leaves
    for level in range(tree.lowest - 1, -1, -1):
        below = [
            {
                "name": tree.path(level, number)[-1],
                "amounts": _sum(below[first.start : first.stop]),
                "domains": below[first.start : first.stop],
            }
            for number, first in enumerate(tree.children[level])
        ]
        yield
    return {"flavor": flavor, "levels": [each.rpartition("/")[2] for each in tree.levels], "domains": below}


def _sum(below: list[Raw]) -> Raw:
    total: dict[str, dict[str, int]] = {}
    for each in below:
        for name, amount in each["amounts"].items():
            known = total.setdefault(name, {"has": 0, "used": 0})
            known["has"] += amount["has"]
            known["used"] += amount["used"]
    return total
