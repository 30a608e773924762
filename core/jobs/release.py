"""How a Workload goes that nothing stands behind any more: our finalizer is taken off, then it is deleted.

Separate from the rules that say when (`core.jobs.decide`).
"""

from __future__ import annotations

from collections.abc import Iterable

from api import names
from core.jobs import workload
from core.jobs.actions import Action, DeleteWorkload, Nothing, RemoveFinalizer
from core.model import Raw


def deleted(workloads: Iterable[Raw]) -> Action | None:
    """Of these the first is deleted, or let go where it is on its way out; None where there is none."""
    for raw in workloads:
        if "deletionTimestamp" in raw["metadata"]:
            return without_finalizer(raw) or Nothing()
        release = without_finalizer(raw)
        return DeleteWorkload(workload.key(raw), raw["metadata"]["uid"], release.patch if release else None)
    return None


def let_go(raw: Raw) -> Action | None:
    """For one that nobody needs to delete: it goes once it is on its way out."""
    return without_finalizer(raw) if "deletionTimestamp" in raw["metadata"] else None


def without_finalizer(raw: Raw) -> RemoveFinalizer | None:
    """Take our finalizer off; None where it is off."""
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE not in finalizers:
        return None
    metadata = {key: raw["metadata"][key] for key in ("uid", "resourceVersion")}
    left = [finalizer for finalizer in finalizers if finalizer != names.Finalizer.RESOURCE_IN_USE]
    return RemoveFinalizer(workload.key(raw), {"metadata": {**metadata, "finalizers": left or None}})
