"""T16: objects that no API server accepts today, but that are stored: read by the controller, and harmless to others.

They go straight into etcd, past every schema and webhook, as an older release or a restored backup leaves them.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator

import pytest

from api.objects import Raw
from tests.cluster.test_stored_by_kueue import put_into_etcd
from tests.cluster.world import World, done, ours
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster

TEMPLATE: Raw = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]}}
QUOTAS: dict[str, object] = {
    "an-integer": 4,
    "an-exponent": "1e3",
    "a-fraction": "0.5Gi",
    "negative": "-3",
    "no-quantity": "many",
    "null": None,
}


def queue(quota: object) -> Raw:
    resources = [{"name": "cpu", "nominalQuota": quota}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "odd", "resources": resources}]}
    return {"resourceGroups": [group], "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO"}


def pod_sets(**fields: object) -> Raw:
    return {"queueName": "team", "podSets": [{"name": "main", "count": 1, "template": TEMPLATE, **fields}]}


WORKLOADS: dict[str, Raw] = {
    "null-lists": {"queueName": "team", "podSets": None},
    "null-containers": pod_sets(template={"spec": {"containers": None, "tolerations": None}}),
    "negative-count": pod_sets(count=-1),
    "no-number": pod_sets(count="three"),
    "no-template": pod_sets(template=None),
    "no-spec": {},
}
CLUSTER_QUEUES: dict[str, Raw] = {
    **{name: queue(quota) for name, quota in QUOTAS.items()},
    "null-groups": {"resourceGroups": None, "namespaceSelector": None},
    "unknown-enums": {**queue("1"), "queueingStrategy": "Random", "stopPolicy": "Perhaps", "preemption": {"x": "y"}},
}


def odd(world: World) -> Iterator[Raw]:
    """Yields objects with names of this test's own."""
    for name, spec in CLUSTER_QUEUES.items():
        yield ours("ClusterQueue", f"{world.namespace}-{name}", spec)
    for name, spec in WORKLOADS.items():
        yield in_namespace(world, ours("Workload", name, spec))
    heavy = in_namespace(world, ours("Workload", "heavy", pod_sets()))
    heavy["metadata"]["annotations"] = {"note": "x" * 1_400_000}
    yield heavy
    yield in_namespace(world, ours("LocalQueue", "null", {"clusterQueue": None}))


def in_namespace(world: World, obj: Raw) -> Raw:
    obj["metadata"]["namespace"] = world.namespace
    return obj


def delete_from_etcd(world: World, folder: str) -> None:
    """Deletes what is below a folder whose objects have this test's names: the API server cannot change them."""
    start = f"/registry/kueue.x-k8s.io/{folder}".encode()
    pair = {"key": start, "range_end": start[:-1] + bytes([start[-1] + 1])}
    body = json.dumps({name: base64.b64encode(text).decode() for name, text in pair.items()}).encode()
    url = f"http://127.0.0.1:{world.plane.ports.etcd}/v3/kv/deleterange"
    with urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_t16_odd_objects_in_etcd_do_not_keep_a_queue_from_moving(world: World) -> None:
    """T16: null lists, numbers as quantities, `1e3`, negative ones, unknown enums, annotations of 1.4 MB.

    The watch reports them before the Workloads of the Jobs, so the Jobs run only if the controller got past them.
    """
    world.queue("team", 1)
    try:
        for number, obj in enumerate(odd(world)):
            obj["metadata"] |= {
                "uid": f"00000000-0000-4000-8000-{number:012}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "generation": 1,
            }
            put_into_etcd(world.plane, obj)
        for name in ("first", "second"):
            world.job(name, "team", seconds=0.2)
        world.until("both Jobs have run", lambda: [done(each) for each in world.jobs().values()] == [True, True])
    finally:
        delete_from_etcd(world, f"clusterqueues/{world.namespace}-")
        for kind in ("workloads", "localqueues"):
            delete_from_etcd(world, f"{kind}/{world.namespace}/")
