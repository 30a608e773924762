"""The guard of a patch: it applies only to the version on which the decision was made, or the API server answers 409
Conflict.

Separate because every patch of an object that others write too needs it, and because a merge patch replaces lists as a
whole: without the version it would undo the writes of others.
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


def unversioned(patch: Raw) -> Raw:
    """The guarded patch for whatever version its object has."""
    return {**patch, "metadata": {key: value for key, value in patch["metadata"].items() if key != "resourceVersion"}}


def guards_version(guard: Raw, metadata: Raw) -> bool:
    """Whether the metadata of a patch are the guard of an object with these metadata and of its version, no more."""
    found = {name: metadata.get(name) for name in ("uid", "resourceVersion")}
    return guard == found and all(found.values())
