"""What pods outside of topology use of each node, kept up to date while they come and go.

Separate from the trees of domains, which belong to flavors: a pod that no Workload accounts for uses its node whatever
flavors the node has. Source: KEP 2724.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from core.model import Requests
from core.topology.nodes import PODS


class OtherPods:
    """Sums of requests by node name, with the number of pods as ``pods``. A change costs the resources of one pod."""

    def __init__(self) -> None:
        self._used: dict[str, Requests] = {}
        """By node; a sum is replaced and never changed, so that State has the same."""
        self._changed: OrderedDict[str, None] = OrderedDict()

    def add(self, node: str, requests: Requests) -> None:
        """Counts a pod on a node; ``requests`` are its effective requests, without the pod itself."""
        self._count(node, requests, 1)

    def remove(self, node: str, requests: Requests) -> None:
        """Undoes ``add``."""
        self._count(node, requests, -1)

    def used(self, node: str) -> Requests:
        """What the pods on a node use; nothing if there are none."""
        return self._used.get(node) or {}

    def take_changed(self) -> Iterator[str]:
        """Yields the names of the nodes that have changed, each once, until there are none. What one caller has not
        reached yet, another one that begins later yields.
        """
        while self._changed:
            name, _ = self._changed.popitem(last=False)
            yield name

    def _count(self, node: str, requests: Requests, sign: int) -> None:
        used = dict(self._used.get(node) or {})
        for resource, amount in (*requests.items(), (PODS, 1)):
            total = used.get(resource, 0) + sign * amount
            if total:
                used[resource] = total
            else:
                used.pop(resource, None)
        if used:
            self._used[node] = used
        else:
            self._used.pop(node, None)
        self._changed[node] = None
