"""Whether and which workloads to preempt for a workload, by the algorithm of the policy.

Separate from the algorithms so that they do not depend on each other: the cycle and the search for flavors call this
module.
"""

from __future__ import annotations

from api.names import PODS_RESOURCE
from core.model import FlavorResource
from core.quota.node import borrowing_level
from core.scheduling.flavors import Mode
from core.scheduling.preemption.candidates import Candidate, Preemptor, Room
from core.scheduling.preemption.classical import classical_targets, out_of_reach
from core.scheduling.preemption.fair import fair_targets


def find_targets(preemptor: Preemptor, need: frozenset[FlavorResource], room: Room) -> list[Candidate]:
    """Returns the workloads to preempt so that there is room, if it is needed in ``need``; empty if no preemption
    helps.
    """
    if preemptor.hopeless(need):
        return []
    if preemptor.policy.fair_sharing is None:
        return classical_targets(preemptor, need, room)
    return fair_targets(preemptor, need, room, preemptor.policy.fair_sharing)


def impossible(preemptor: Preemptor, fr: FlavorResource, amount: int) -> bool:
    """Whether it is clear at a glance that no preemption makes room for an amount of a flavor-resource, and so for none
    that asks for others besides; False proves nothing.

    Room for a number of pods is looked for by itself alone (``Assignment.requests``).
    """
    classical = preemptor.policy.fair_sharing is None
    if classical and fr.resource != PODS_RESOURCE and out_of_reach(preemptor, {fr: amount}):
        return True
    return preemptor.hopeless((fr,))


def simulate(preemptor: Preemptor, fr: FlavorResource, amount: int, level: int) -> tuple[Mode, int]:
    """Returns whether preemption makes room for an amount of one flavor-resource, and the level of borrowing after it.

    ``level`` is the level without preemption; it is returned if no workload can be preempted.
    """
    targets = [] if preemptor.hopeless((fr,)) else find_targets(preemptor, frozenset((fr,)), Room({fr: amount}))
    if not targets:
        return Mode.NO_CANDIDATES, level
    preemptor.remove(targets)
    level, _ = borrowing_level(preemptor.node, fr, amount)
    preemptor.add(targets)
    inside = any(target.node is preemptor.node for target in targets)
    return (Mode.PREEMPT if inside else Mode.RECLAIM), level
