"""What is kept of a pod that runs."""

from __future__ import annotations

from typing import Any

from core.guard.pods import Lean, RunningPod
from core.model import Key, Raw
from core.wire.pod_requests import RequestRules

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}


def raw(name: str, *, cpu: str = "1", **metadata: Any) -> Raw:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "12",
            "creationTimestamp": "1970-01-01T00:10:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "lq", "batch.kubernetes.io/job-completion-index": name},
            "ownerReferences": [OWNER],
            **metadata,
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }


def read(*raws: Raw) -> list[RunningPod]:
    return list(map(Lean(RequestRules()), raws))


def test_pods_of_one_job_share_what_is_equal() -> None:
    """Labels that do not count differ."""
    first, second = read(raw("0"), raw("1"))
    assert first.kin is second.kin
    assert first.shape is second.shape
    assert (first.key, first.created, first.version) == (Key("ns", "0"), 600.0, 12)


def test_what_counts_is_kept() -> None:
    labels = {"kueue.x-k8s.io/managed": "true", "app": "x"}
    (found,) = read(raw("0", labels=labels, annotations={"note": "long"}, ownerReferences=[]))
    assert found.kin.marked
    assert found.kin.above is None
    assert found.kin.raw == {
        "metadata": {"namespace": "ns", "labels": {"kueue.x-k8s.io/managed": "true"}, "annotations": {}}
    }


def test_other_requests_are_another_shape() -> None:
    first, second = read(raw("0"), raw("1", cpu="2"))
    assert (first.shape.requests, second.shape.requests) == ({"cpu": 1000}, {"cpu": 2000})


def test_a_container_that_runs_before_the_others_is_no_container_that_runs_with_them() -> None:
    """The same containers in other lists are another shape."""
    one = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    lean = Lean(RequestRules())
    metadata = raw("0")["metadata"]
    both = lean({"metadata": metadata, "spec": {"containers": [*one, {**one[0], "name": "d"}]}})
    before = lean({"metadata": metadata, "spec": {"containers": one, "initContainers": [{**one[0], "name": "d"}]}})
    assert (both.shape.requests, before.shape.requests) == ({"cpu": 2000}, {"cpu": 1000})


def test_the_time_of_a_deletion_is_when_it_was_requested() -> None:
    (found,) = read(raw("0", deletionTimestamp="1970-01-02T00:01:40Z", deletionGracePeriodSeconds=86400))
    assert found.deleted == 100.0
