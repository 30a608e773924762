"""Kinds of jobs of other vendors that may run in another cluster (``multiKueue.externalFrameworks``).

Their own controllers make their Workloads. Nothing is known of them but ``spec.managedBy`` and ``status``.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.objects import Resource
from core.jobs.fields import without
from core.jobs.mirrored import Mirrored
from core.model import Raw


class External(Mirrored):
    """One of these kinds."""

    managed_by = ("spec", "managedBy")

    def __init__(self, framework: str) -> None:
        """``framework`` is Kind.version.group. The plural is the usual one of the kind."""
        kind, version, group = framework.split(".", 2)
        self.resource = Resource(group, version, plural(kind), kind)

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw]) -> Raw:
        """Returns the job, run by the controller of its kind."""
        return without(job, self.managed_by)

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """Returns the whole status; None while there is none."""
        return remote.get("status")

    def ended_in_worker(self, remotes: Sequence[Raw], now: float) -> None:
        """None: no two kinds say it in the same way, so only what the Workload there says of its end counts."""


def plural(kind: str) -> str:
    """The usual plural of a kind, as generators of CRDs write it and as Kubernetes guesses it."""
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
