"""v0.1's Queue and its LocalQueue.

They are two kinds, not two versions of one, so no conversion webhook can convert one into the other: a LocalQueue with
the same name and namespace exists for each Queue, and is deleted with it.
"""

from api.names import API_VERSION, Kind
from api.objects import Raw


def local_queue(queue: Raw) -> Raw:
    """Returns the LocalQueue of a Queue; owned by it if it is stored in an API server."""
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


def moved(queue: Raw, found: Raw) -> Raw | None:
    """Returns the patch that sets the ClusterQueue of the Queue's own LocalQueue to that of the Queue; None if it is
    set, or if the LocalQueue is not the Queue's.

    The ClusterQueue of a LocalQueue is immutable once set (as in Kueue), so the patch first removes it.
    """
    metadata = found["metadata"]
    owners = [owner.get("uid") for owner in metadata.get("ownerReferences") or ()]
    wanted, named = (((obj.get("spec") or {}).get("clusterQueue")) for obj in (queue, found))
    if queue["metadata"].get("uid") not in owners or wanted == named:
        return None
    return {"metadata": {"uid": metadata["uid"]}, "spec": {"clusterQueue": wanted if named is None else None}}


def status(local_queue: Raw) -> Raw:
    """Returns the status of a Queue: how many workloads wait in its LocalQueue."""
    return {"pendingWorkloads": (local_queue.get("status") or {}).get("pendingWorkloads", 0)}
