"""Whether jobs of a namespace are managed: one answer for webhooks, their configurations, controller and simulation.

Jobs that only one of them took for managed would be suspended and never started, or get a Workload and run anyway.
"""

from __future__ import annotations

from api import names
from core.matching.placement import matches
from core.model import Labels, Selector


def never_managed(own: str) -> tuple[str, ...]:
    """The namespaces whose jobs are never managed, regardless of the Configuration: those of the system, and ``own``.

    Pods that Seiretsu needs for its own start must not wait for it.
    """
    return tuple(sorted({"kube-node-lease", *names.SYSTEM_NAMESPACES, own}))


def managed(namespace: str, labels: Labels, selector: Selector | None, *, own: str = names.NAMESPACE) -> bool:
    """Whether ``managedJobsNamespaceSelector`` (None selects all) selects a namespace, and it may be managed at all."""
    return namespace not in never_managed(own) and (selector is None or matches(selector, labels))
