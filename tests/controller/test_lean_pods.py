"""The memory that the caches need for pods."""

from __future__ import annotations

import gc
import tracemalloc

import orjson

from controller.cache.caches import Caches
from controller.run.watched import rows
from core.jobs.kinds import POD
from core.model import Raw
from core.state.state import State

PODS = 2_000
MOST_BYTES = 60 * 2**20 / 10_000
"""For each pod: 60 MiB for ten thousand."""


def received(number: int) -> Raw:
    """A running pod as the API server sends it, with the fields that make it large."""
    name, token = f"worker-{number:05d}", f"kube-api-access-{number:05x}"
    container = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "env": [{"name": f"VARIABLE_{each}", "value": "v" * 20} for each in range(10)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    own = {
        "queue-name": "main",
        "managed": "true",
        "podset": "main",
        "cluster-queue-name": "team",
        "local-queue-name": "main",
    }
    conditions = ("Ready", "ContainersReady", "Initialized", "PodScheduled")
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {f"kueue.x-k8s.io/{key}": value for key, value in own.items()},
            "annotations": {"kueue.x-k8s.io/role-hash": "12345678", "kueue.x-k8s.io/workload": f"pod-{name}-abcde"},
            "finalizers": ["kueue.x-k8s.io/managed"],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"set-{number // 100}", "uid": "u"}
            ],
            "managedFields": [{"manager": "m", "fieldsV1": {f"f:{each}": {} for each in range(60)}}],
        },
        "spec": {"nodeName": f"node-{number % 500}", "containers": [container], "volumes": [{"name": token}]},
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{number // 250}.{number % 250}",
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": f"2026-01-01T00:{number % 60:02d}:00Z"}
                for each in conditions
            ],
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{number}", "ready": True}],
        },
    }


def test_ten_thousand_pods_need_less_than_sixty_mebibytes() -> None:
    store = Caches(State(), rows([POD])).stores[POD.resource]
    lines = [orjson.dumps(received(number)) for number in range(PODS)]
    gc.collect()
    tracemalloc.start()
    try:
        for line in lines:
            store.observe("ADDED", orjson.loads(line))
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) == PODS
    assert used / PODS < MOST_BYTES


def test_pods_that_are_gone_leave_nothing_behind_however_different_their_specs_were() -> None:
    """A spec that equals no other is 10 KB, and thousands of pods come and go in a day."""
    store = Caches(State(), rows([POD])).stores[POD.resource]

    def live(number: int, image: str) -> Raw:
        found = received(number)
        found["spec"]["containers"][0]["image"] = image
        return found

    for number in range(50):
        store.observe("ADDED", live(number, "one"))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(100, 100 + PODS):
            store.observe("ADDED", gone := live(number, f"image-{number}"))
            store.observe("DELETED", {"metadata": gone["metadata"] | {"resourceVersion": "9999"}})
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / PODS < 500, "deletions are remembered for a while"
    store.observe("ADDED", live(50, "one"))
    assert len({id(raw["spec"]["containers"]) for raw in store}) == 1, "the living ones share theirs, old and new"


def test_the_answer_to_a_write_of_a_pod_that_is_not_watched_is_not_kept() -> None:
    """An elastic Job's pods are patched without being queued themselves."""
    store = Caches(State(), rows([POD])).stores[POD.resource]
    ours, other = received(1), received(2)
    del other["metadata"]["labels"]["kueue.x-k8s.io/managed"]
    for pod in (ours, other):
        store.put_from_write(pod)
    assert [each["metadata"]["name"] for each in store] == ["worker-00001"]
