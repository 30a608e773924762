"""A v0.1 Queue and the LocalQueue it acts through."""

from typing import Any

import pytest

from api.convert.queue import local_queue, moved
from api.objects import Raw


def queue(cluster_queue: str | None, uid: str = "1") -> Raw:
    spec = {} if cluster_queue is None else {"clusterQueue": cluster_queue}
    metadata = {"name": "main", "namespace": "team-a", "uid": uid}
    return {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "Queue", "metadata": metadata, "spec": spec}


def active_condition(cluster_queue: str | None, of: str = "1") -> Raw:
    made = local_queue(queue(cluster_queue, of))
    return {**made, "metadata": {**made["metadata"], "uid": "2"}}


MOVES: dict[str, tuple[Raw, Raw, Any]] = {
    "it names the same": (queue("a"), active_condition("a"), None),
    "it names one at last": (queue("a"), active_condition(None), {"clusterQueue": "a"}),
    "it names another: first none": (queue("b"), active_condition("a"), {"clusterQueue": None}),
    "it names none any more": (queue(None), active_condition("a"), {"clusterQueue": None}),
    "it is somebody else's": (queue("a"), active_condition("b", of="9"), None),
}


@pytest.mark.parametrize(("queue", "found", "spec"), MOVES.values(), ids=MOVES.keys())
def test_its_local_queue_follows_a_queue(queue: Raw, found: Raw, spec: Any) -> None:
    assert moved(queue, found) == (None if spec is None else {"metadata": {"uid": "2"}, "spec": spec})
