"""Which pods on unreachable nodes are ended by force."""

from __future__ import annotations

from typing import Any

import pytest

from core.jobs.stuck_pods import failed, message, over, stuck_in, unreachable
from core.model import Node, Raw, Taint
from core.wire.merge import merged

SAFE = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
DELETED = 1_000.0


def pod(phase: str = "Running", **metadata: Any) -> Raw:
    deleted = {"deletionTimestamp": "1970-01-01T00:16:40Z", "deletionGracePeriodSeconds": 30}
    found = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", "annotations": SAFE, **deleted}
    conditions = [{"type": "Ready", "status": "False"}]
    return {
        "metadata": found | metadata,
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("found", "now", "left"),
    [
        pytest.param(pod(), DELETED, 60.0, id="a minute after its grace period"),
        pytest.param(pod(), DELETED + 60, 0.0, id="now"),
        pytest.param(pod("Succeeded"), DELETED + 60, 0.0, id="one that has ended is stuck, too"),
        pytest.param(pod(annotations={}), DELETED + 60, None, id="not without the annotation"),
        pytest.param(
            pod(annotations={"kueue.x-k8s.io/safe-to-forcefully-delete": "yes"}), DELETED + 60, None, id="other value"
        ),
        pytest.param(pod(deletionTimestamp=None), DELETED + 60, None, id="not one that is not deleted"),
    ],
)
def test_when_a_pod_is_stuck(found: Raw, now: float, left: float | None) -> None:
    assert stuck_in(found, now) == left


def test_the_pod_fails_for_its_job_and_says_why() -> None:
    patch = failed(pod(), 1_060.0)
    assert patch is not None
    assert patch["status"]["phase"] == "Failed"
    assert patch["metadata"]["resourceVersion"] == "1"
    ready, ours = patch["status"]["conditions"]
    assert ready["type"] == "Ready", "the others stay"
    assert ours == {
        "type": "KueueFailureRecovery",
        "status": "True",
        "reason": "KueueForcefullyDeleted",
        "message": message(pod()),
        "lastTransitionTime": "1970-01-01T00:17:40Z",
    }
    assert message(pod()) == (
        "Pod forcefully terminated after 90s grace period due to unreachable node `n` (triggered by"
        " `kueue.x-k8s.io/safe-to-forcefully-delete` annotation)"
    )


def test_a_pod_that_has_ended_keeps_its_phase() -> None:
    patch = failed(pod("Succeeded"), 1_060.0)
    assert patch is not None
    assert "phase" not in patch["status"]


def test_nothing_is_written_twice() -> None:
    patch = failed(pod(), 1_060.0)
    assert patch is not None
    after = merged(pod(), patch)
    assert failed(after, 1_070.0) is None
    assert not over(after)
    assert over(merged(after, {"metadata": {"deletionGracePeriodSeconds": 0}}))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Node("n", taints=(Taint("node.kubernetes.io/unreachable", "", "NoExecute"),)), True),
        (Node("n", taints=(Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)), False),
        (Node("n"), False),
        (None, False),
    ],
)
def test_unreachable_nodes(node: Node | None, expected: bool) -> None:
    assert unreachable(node) is expected
