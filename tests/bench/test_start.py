"""The objects that the start bench stores are those that an API server would have."""

from __future__ import annotations

from bench.start import many_queues, many_workloads, stored


def test_stored_queues_have_keys_as_in_an_api_server_and_the_statuses_that_the_controller_would_write() -> None:
    found = dict(stored(many_queues(2)))
    group = "/registry/kueue.x-k8s.io"
    assert list(found) == [
        f"{group}/clusterqueues/cq-00000",
        f"{group}/localqueues/bench/cq-00000",
        f"{group}/clusterqueues/cq-00001",
        f"{group}/localqueues/bench/cq-00001",
    ]
    for raw in found.values():
        (active,) = raw["status"]["conditions"]
        assert (active["status"], active["observedGeneration"]) == ("True", raw["metadata"]["generation"])


def test_stored_workloads_are_pending_in_queues_whose_quota_is_enough_for_one_in_a_hundred() -> None:
    found = [raw for _, raw in stored(many_workloads(6_000))]
    quota = sum(
        int(raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])
        for raw in found
        if raw["kind"] == "ClusterQueue"
    )
    pending = [raw for raw in found if raw["kind"] == "Workload"]
    assert (quota, len(pending)) == (60, 6_000)
    assert not any("status" in raw for raw in pending)
