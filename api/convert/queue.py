"""v0.1's Queue as the LocalQueue it acts through.

They are two kinds, not two versions of one, so no conversion webhook can turn one into the other: a LocalQueue of the
same name and namespace stands for each Queue, and lives as long as it does.
"""

from api.names import API_VERSION, Kind
from api.objects import Raw


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


def moved(queue: Raw, found: Raw) -> Raw | None:
    """The patch that leads the Queue's own LocalQueue to the ClusterQueue that the Queue names now; None where it is
    there, or is somebody else's.

    What a LocalQueue names is immutable while it names something (as in Kueue), so it first names nothing.
    """
    metadata = found["metadata"]
    owners = [owner.get("uid") for owner in metadata.get("ownerReferences") or ()]
    wanted, named = (((obj.get("spec") or {}).get("clusterQueue")) for obj in (queue, found))
    if queue["metadata"].get("uid") not in owners or wanted == named:
        return None
    return {"metadata": {"uid": metadata["uid"]}, "spec": {"clusterQueue": wanted if named is None else None}}


def status(local_queue: Raw) -> Raw:
    """What a Queue says of itself: how many wait in its LocalQueue."""
    return {"pendingWorkloads": (local_queue.get("status") or {}).get("pendingWorkloads", 0)}
