"""ResourceQuotas of Kubernetes: which pods one counts, and what one pod counts for.

They are not Kueue's quota: the API server refuses pods beyond them after the job was admitted. Source:
https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from api import quantity
from api.names import PODS_RESOURCE
from core.model import Raw
from core.wire.pod_requests import ChargedAmount

_REQUESTS, _LIMITS = "requests.", "limits."
_ALSO_BARE = ("cpu", "memory", "ephemeral-storage", "hugepages-")
"""Resources whose requests may be named without prefix."""


class Measure(NamedTuple):
    """A limit of a ResourceQuota for pods: their number (``pods``), or the requests or limits of a resource."""

    resource: str
    limits: bool = False


class Scope(NamedTuple):
    """One condition on pods; those of a ResourceQuota must all hold."""

    name: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """``hard`` is the maximum of all pods together, in base units; if a measure is named twice, the lower amount."""

    namespace: str
    name: str
    hard: Mapping[Measure, int]
    scopes: tuple[Scope, ...] = ()

    def counts(self, pod: ChargedAmount) -> bool:
        """Whether the pod is surely among those that it counts: False too where a scope cannot be judged."""
        return all(_holds(scope, pod) for scope in self.scopes)


def read(raw: Raw) -> NamespaceQuota:
    """Decodes the limits for pods; nothing else is kept, because the status changes with every pod. Raises
    ValueError.
    """
    spec = raw.get("spec") or {}
    hard: dict[Measure, int] = {}
    for key, value in (spec.get("hard") or {}).items():
        measure = _measure(key)
        if measure is not None:
            amount = quantity.amount(measure.resource, value)
            hard[measure] = min(amount, hard.get(measure, amount))
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return NamespaceQuota(
        raw["metadata"].get("namespace", ""),
        raw["metadata"]["name"],
        dict(sorted(hard.items())),
        (
            *(Scope(name, "Exists", ()) for name in spec.get("scopes") or ()),
            *(Scope(each["scopeName"], each["operator"], tuple(each.get("values") or ())) for each in selected),
        ),
    )


def charged(pod: ChargedAmount, measure: Measure) -> int:
    """Returns what one pod counts for."""
    if measure.resource == PODS_RESOURCE:
        return 1
    return (pod.limits if measure.limits else pod.requests).get(measure.resource, 0)


def _measure(key: str) -> Measure | None:
    """Returns None for a resource that is not about pods, such as ``services``."""
    if key in (PODS_RESOURCE, "count/pods"):
        return Measure(PODS_RESOURCE)
    if key.startswith(_LIMITS):
        return Measure(key.removeprefix(_LIMITS), limits=True)
    if key == "requests.storage" or not key.startswith((_REQUESTS, *_ALSO_BARE)):
        return None
    return Measure(key.removeprefix(_REQUESTS))


def _holds(scope: Scope, pod: ChargedAmount) -> bool:
    match scope.name:
        case "Terminating":
            return pod.terminating
        case "NotTerminating":
            return not pod.terminating
        case "BestEffort":
            return pod.best_effort
        case "NotBestEffort":
            return not pod.best_effort
        case "PriorityClass" if pod.priority_class:  # without one the cluster's default is given
            return {
                "Exists": True,
                "In": pod.priority_class in scope.values,
                "NotIn": pod.priority_class not in scope.values,
            }.get(scope.operator, False)
    return False
