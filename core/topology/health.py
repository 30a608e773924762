"""Whether a node on which pods of a workload were placed has failed for this workload.

Pods that still run on a node keep it: only when they have ended are they placed on another one. Separate from what
follows for the workload (``core.workload.node_failures``), and from the choice of another node
(``core.topology.replace``). Source: KEP 2724, node failures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.matching.placement import untolerated
from core.model import Node, Toleration
from core.model.topology import NEVER_READY

FIXED_SECONDS: Final = 30.0
"""How long a node may be not ready until it has failed, where that does not depend on pods."""

Tolerations = tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class FailureRules:
    """The feature gates of node failures, with Kueue's defaults: TASReplaceNodeOnPodTermination,
    TASReplaceNodeDueToNotReadyOverFixedTime and TASReplaceNodeOnNodeTaints.
    """

    on_termination: bool = True
    over_fixed_time: bool = False
    on_taints: bool = True


class NodeHealth(NamedTuple):
    """``failed`` is None while that is not known. In ``seconds`` it may be otherwise without any change. ``ends_pods``:
    pods that wait for this node are to be ended, so that their job creates them again for another node.
    """

    failed: bool | None
    seconds: float | None = None
    ends_pods: bool = False


HEALTHY: Final = NodeHealth(failed=False)
FAILED: Final = NodeHealth(failed=True)


def health(
    node: Node | None, pod_sets: Iterable[Tolerations], rules: FailureRules, now: float, *, runs: bool
) -> NodeHealth:
    """Returns the health of a node for a workload. None is a node that does not exist.

    ``pod_sets``: by pod set that was placed there, the tolerations of its pods with those of the flavor and of
    admission checks. ``runs`` is whether pods of the workload are on the node that have not ended and do not terminate.
    """
    if node is None or node.unready_since == NEVER_READY:
        return FAILED
    if node.unready_since is not None:
        left = node.unready_since + FIXED_SECONDS - now
        if left <= 0 and (rules.over_fixed_time or not rules.on_termination):
            return FAILED
        if not rules.on_termination:
            return NodeHealth(None, left)
        return NodeHealth(not runs, left if rules.over_fixed_time else None, ends_pods=True)
    if not rules.on_taints or not node.taints:
        return HEALTHY
    repelled, expelled = _repelled(node, tuple(pod_sets))
    if repelled and not rules.on_termination:
        return FAILED
    return NodeHealth(not runs, ends_pods=True) if repelled or expelled else HEALTHY


def _repelled(node: Node, pod_sets: tuple[Tolerations, ...]) -> tuple[bool, bool]:
    """Whether a taint is not tolerated by the pods, and whether one is tolerated for a limited time alone."""
    lasting = (tuple(each for each in tolerations if not each.temporary) for tolerations in pod_sets)
    return (
        any(untolerated(node.taints, tolerations) for tolerations in pod_sets),
        any(untolerated(node.taints, tolerations) for tolerations in lasting),
    )
