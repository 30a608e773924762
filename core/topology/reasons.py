"""Why pods do not fit a topology, with Kueue's texts."""

from __future__ import annotations

from typing import Final

from core.model import Placement
from core.topology.counts import Counts, effort
from core.topology.request import Asked, Goal

MOST_EFFORT: Final = 400
"""One requirement of node affinity takes a microsecond for each node: so that 10,000 nodes take a few seconds at most,
and once for all equal pod sets.
"""


def misfit(topology: str, goal: Goal, counts: Counts, wanted: int, fit: int) -> str:
    """Returns why ``wanted`` slices do not fit, of which ``fit`` would."""
    found = f"allows to fit only {fit} out of {wanted}" if fit else f"doesn't allow to fit any of {wanted}"
    return f'topology "{topology}" {found} {goal.unit}' + exclusions(counts)


def layers(topology: str, goal: Goal, counts: Counts, level: int, domain: int, pods: int) -> str:
    """Returns why nested slices do not fit: for each constraint how many of its slices would fit into one domain."""
    text = f'topology "{topology}" doesn\'t allow to fit'
    for at, size in goal.layers:
        fit = sum(counts.plain.pods[at][number] // size for number in counts.tree.below(level, domain, at))
        text += f"; {fit}/{pods // size} slice(s) fit on level {counts.tree.levels[at]}"
    return text + exclusions(counts)


def exclusions(counts: Counts) -> str:
    """Which leaves hold no pod and why, in the order of the texts; '' if there are none."""
    if not counts.excluded:
        return ""
    found = ", ".join(sorted(f"{why}: {number}" for why, number in counts.excluded.items()))
    return f". Total nodes: {counts.tree.leaves.present}; excluded: {found}"


def too_much(asked: Asked) -> str:
    """Returns that a pod set has more to compare with each node than there is time for; '' if it has not."""
    if sum(_effort(each) for each in (asked.pod_set.placement, *asked.updates)) <= MOST_EFFORT:
        return ""
    text = "to compare with each node; use fewer requirements, or labels that many nodes share"
    return f"PodSet {asked.pod_set.name} has too many node affinity requirements and tolerations {text}"


def _effort(placement: Placement) -> int:
    """How long it takes to compare a node, in requirements of node affinity."""
    return effort((*(placement.affinity or ()), *(term for _, term in placement.preferred)), placement.tolerations)


def conflict(asked: Asked) -> str:
    """The node selector of which the pod set or an admission check says one value, and another check another; '' if
    there is none.
    """
    known = dict(asked.pod_set.placement.node_selector)
    for update in asked.updates:
        for key, value in sorted(update.node_selector.items()):
            if known.setdefault(key, value) != value:
                text = f"conflict for key={key}, value1={known[key]}, value2={value}"
                where = f"invalid podSetUpdate for PodSet {asked.pod_set.name}, error: "
                return f"{where}invalid admission check PodSetUpdate: conflict for nodeSelector: {text}"
    return ""
