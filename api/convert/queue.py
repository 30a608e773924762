"""v0.1's Queue as the LocalQueue it acts through.

They are two kinds, not two versions of one, so no conversion webhook can turn one into the other: a LocalQueue of the
same name and namespace stands for each Queue, and lives as long as it does.
"""

from typing import Any

from api.names import API_VERSION, Kind

Raw = dict[str, Any]


def local_queue(queue: Raw) -> Raw:
    """The LocalQueue that stands for a Queue; owned by it where it is on an API server."""
    metadata = queue["metadata"]
    made: Raw = {"name": metadata["name"]}
    if "namespace" in metadata:
        made["namespace"] = metadata["namespace"]
    if "uid" in metadata:
        made["ownerReferences"] = [
            {
                "apiVersion": queue["apiVersion"],
                "kind": Kind.QUEUE,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
            }
        ]
    spec = queue.get("spec") or {}
    named = {"clusterQueue": spec["clusterQueue"]} if "clusterQueue" in spec else {}
    return {"apiVersion": API_VERSION, "kind": Kind.LOCAL_QUEUE, "metadata": made, "spec": named}


def status(local_queue: Raw) -> Raw:
    """What a Queue says of itself: how many wait in its LocalQueue."""
    return {"pendingWorkloads": (local_queue.get("status") or {}).get("pendingWorkloads", 0)}
