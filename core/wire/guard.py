"""The guard of a patch: what a decision was made on is what it changes, or the API server answers 409 Conflict.

Separate because every patch of an object that is not ours alone needs it, and because a merge patch replaces lists
whole: without the version it would undo what others wrote meanwhile.
"""

from __future__ import annotations

from core.model import Raw, Workload


def guarded(patch: Raw, judged: Raw | Workload, *, version: bool = True) -> Raw:
    """The merge patch, to be refused on another object of the same name and, with ``version``, on another version of
    the object that was judged.
    """
    if isinstance(judged, Workload):
        uid, resource_version = judged.uid, judged.resource_version
    else:
        metadata = judged["metadata"]
        uid, resource_version = metadata["uid"], metadata.get("resourceVersion", "")
    guard = {"uid": uid, "resourceVersion": resource_version} if version and resource_version else {"uid": uid}
    return {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
