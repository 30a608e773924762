"""What pods outside of topology use of each node, kept up to date while they come and go.

Separate from the trees of domains, which belong to flavors: a pod that no Workload accounts for uses its node whatever
flavors the node has. Source: KEP 2724.
"""

from __future__ import annotations

from collections import Counter

from core.model import Requests
from core.topology.nodes import PODS


class OtherPods:
    """Sums of requests by node name, with the number of pods as ``pods``. A change costs the resources of one pod."""

    def __init__(self) -> None:
        self._used: dict[str, Counter[str]] = {}
        self._changed: dict[str, None] = {}

    def add(self, node: str, requests: Requests) -> None:
        """Counts a pod on a node; ``requests`` are its effective requests, without the pod itself."""
        self._count(node, requests, 1)

    def remove(self, node: str, requests: Requests) -> None:
        """Undoes ``add``."""
        self._count(node, requests, -1)

    def used(self, node: str) -> Requests:
        """What the pods on a node use; nothing if there are none."""
        return dict(self._used.get(node) or {})

    def take_changed(self) -> tuple[str, ...]:
        """Returns the names of the nodes that have changed since the last call. Their sums are not copied here: that
        would take some ten milliseconds for 10,000 nodes.
        """
        changed, self._changed = self._changed, {}
        return tuple(changed)

    def _count(self, node: str, requests: Requests, sign: int) -> None:
        used = self._used.setdefault(node, Counter())
        for resource, amount in (*requests.items(), (PODS, 1)):
            if used[resource] + sign * amount:
                used[resource] += sign * amount
            else:
                del used[resource]
        if not used:
            del self._used[node]
        self._changed[node] = None
