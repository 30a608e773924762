"""What a Workload's life depends on, as State knows it."""

from __future__ import annotations

import pytest

from core.model import Key, LocalQueue, StopPolicy
from core.state.drain import drain
from core.state.surroundings import surroundings
from core.workload.actions import LifePolicy, Surroundings
from tests.builders import cluster_queue, state, workload

POLICY = LifePolicy(after_finished=60.0)
QUEUE = cluster_queue("a", 5)
STOPPED = cluster_queue("stopped", 5, stop_policy=StopPolicy.HOLD)
LABELS = {"team": "red"}


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("to-a", {"local_queue": LocalQueue(Key("ns", "to-a"), "a"), "cluster_queue": QUEUE, "active": True}),
        (
            "to-stopped",
            {"local_queue": LocalQueue(Key("ns", "to-stopped"), "stopped"), "cluster_queue": STOPPED, "active": False},
        ),
        ("to-nothing", {"local_queue": LocalQueue(Key("ns", "to-nothing"), "gone"), "active": False}),
        ("unknown", {"active": False}),
    ],
    ids=["it can be admitted", "its ClusterQueue is stopped", "its ClusterQueue is gone", "there is no LocalQueue"],
)
def test_the_surroundings_are_the_queues_that_the_workload_names(queue: str, expected: dict[str, object]) -> None:
    found = state(QUEUE, STOPPED, local={"to-a": "a", "to-stopped": "stopped", "to-nothing": "gone"})
    found.set_namespace("ns", LABELS)
    given = surroundings(found, workload("w", 1, queue=queue), 7.0, POLICY)
    assert given == Surroundings(now=7.0, policy=POLICY, namespace=LABELS, **expected)  # type: ignore[arg-type]


def test_a_workload_that_came_when_equal_ones_did_not_fit_has_their_reason() -> None:
    found = state(QUEUE, local={"to-a": "a"})
    first, second = (workload(name, 9, queue="to-a", created=at) for name, at in (("first", 0.0), ("second", 1.0)))
    found.set_workload(first.key, first)
    list(drain(found, found.policy, 0.0))
    found.set_workload(second.key, second)
    assert [surroundings(found, each, 0.0).bypassed for each in (first, second)] == ["", "ExceedsMaxQuota"]
