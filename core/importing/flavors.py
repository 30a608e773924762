"""Which flavor of a resource group the pods of a job use that runs already: decided by the labels of their nodes.

The search for flavors of a cycle is no help here: it takes the first flavor with free quota, and the pods run on nodes
that are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from core.matching.placement import mismatch
from core.model import Labels, Placement, ResourceFlavor

MOST_NAMED: Final = 3
"""So many nodes or flavors are named in a sentence."""


class FlavorChoice(NamedTuple):
    """The flavor of the pods, '' if none is possible; ``text`` says why it was chosen, or what is wrong, and is empty
    where only one was possible for all pods.
    """

    flavor: str
    text: str = ""


def chosen(
    flavors: Sequence[ResourceFlavor], placement: Placement, nodes: Iterable[str], labels: Mapping[str, Labels]
) -> FlavorChoice:
    """Returns the flavor of the nodes on which most of the pods run; of several the one that names most labels of its
    nodes, and of these the first. ``nodes`` has the node of each pod, '' for a pod without one: its node selector and
    affinity count. ``labels`` are those of the nodes by name.
    """
    pods = Counter(nodes) or Counter([""])
    allowed = [flavor for flavor in flavors if mismatch(placement, flavor) is None]
    fits = {flavor.name: sum(n for node, n in pods.items() if _fits(flavor, node, labels)) for flavor in allowed}
    best = max(fits.values(), default=0)
    if not best:
        return FlavorChoice("", _none(flavors, pods, labels))
    possible = [flavor for flavor in allowed if fits[flavor.name] == best]
    on_nodes = any(pods)
    named = [_named(each, placement, on_nodes=on_nodes) for each in possible]
    flavor = possible[named.index(max(named))]
    rule = "comes first in the ClusterQueue" if named.count(max(named)) > 1 else "names most labels of the nodes"
    several = f"flavors {listed(each.name for each in possible)} are possible: {flavor.name} {rule}"
    texts = [*([several] if len(possible) > 1 else []), *_elsewhere(flavor, best, pods, labels)]
    return FlavorChoice(flavor.name, "; ".join(texts))


def _fits(flavor: ResourceFlavor, node: str, labels: Mapping[str, Labels]) -> bool:
    """Whether a node belongs to a flavor; a pod without a node may get one of any flavor that allows it."""
    return not node or flavor.node_labels.items() <= labels.get(node, {}).items()


def _named(flavor: ResourceFlavor, placement: Placement, *, on_nodes: bool) -> int:
    """How many labels of a flavor are known to be those of the pods' nodes."""
    return len(flavor.node_labels if on_nodes else flavor.node_labels.items() & placement.node_selector.items())


def _elsewhere(flavor: ResourceFlavor, best: int, pods: Counter[str], labels: Mapping[str, Labels]) -> Iterator[str]:
    """What to know of pods on nodes that are not of their flavor."""
    total = pods.total()
    if best < total:
        others = sorted(node for node in pods if not _fits(flavor, node, labels))
        yield (
            f"{total - best} of {total} pods run on nodes that are not of flavor {flavor.name} ({listed(others)}):"
            f" all are counted in {flavor.name}"
        )


def _none(flavors: Sequence[ResourceFlavor], pods: Counter[str], labels: Mapping[str, Labels]) -> str:
    known = [
        f"{each.name} ({', '.join(f'{key}={value}' for key, value in sorted(each.node_labels.items())) or 'any'})"
        for each in flavors
    ]
    named = sorted(node for node in pods if node)
    if not named:
        return f"node selector, affinity and tolerations of the pods allow no flavor of {listed(known)}"
    gone = "" if any(node in labels for node in named) else "; the nodes do not exist"
    return (
        f"node{'s' if len(named) > 1 else ''} {listed(named)} belong{'' if len(named) > 1 else 's'} to no flavor of"
        f" {listed(known)} that the pods allow{gone}"
    )


def listed(values: Iterable[str]) -> str:
    """Returns some of these names, and how many others there are."""
    found = list(values)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more
