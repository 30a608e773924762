"""What the status of queues says."""

from core import status
from core.model import Key, LocalQueue, StopPolicy
from tests.builders import cluster_queue, reserved, state, workload

NOW = 1_700_000_000.0


def test_a_cluster_queue_tells_who_waits_who_runs_and_what_is_borrowed() -> None:
    found = state(cluster_queue("a", 1000, cohort="all"), cluster_queue("b", 1000, cohort="all"))
    found.set_workload(Key("ns", "run"), reserved("run", 1500, "a"))
    found.set_workload(Key("ns", "wait"), workload("wait", 1))
    used = [{"name": "default", "resources": [{"name": "cpu", "total": "1500m", "borrowed": "500m"}]}]
    assert status.cluster_queue_status(found, "a", {}, NOW) == {
        "conditions": [
            {
                "type": "Active",
                "status": "True",
                "reason": "Ready",
                "message": "Can admit new workloads",
                "lastTransitionTime": "2023-11-14T22:13:20Z",
            }
        ],
        "pendingWorkloads": 1,
        "reservingWorkloads": 1,
        "admittedWorkloads": 1,
        "flavorsReservation": used,
        "flavorsUsage": used,
    }


def test_a_local_queue_counts_only_its_own() -> None:
    found = state(cluster_queue("a", 1000), local={"mine": "a", "other": "a"})
    found.set_workload(Key("ns", "run"), reserved("run", 500, "a", queue="mine"))
    found.set_workload(Key("ns", "wait"), workload("wait", 1, queue="other"))
    mine = status.local_queue_status(found, Key("ns", "mine"), {}, NOW)
    assert (mine["pendingWorkloads"], mine["reservingWorkloads"], mine["admittedWorkloads"]) == (0, 1, 1)
    assert mine["flavorsUsage"] == [{"name": "default", "resources": [{"name": "cpu", "total": "500m"}]}]
    other = status.local_queue_status(found, Key("ns", "other"), {}, NOW)
    assert (other["pendingWorkloads"], other["reservingWorkloads"]) == (1, 0)


def test_a_stopped_local_queue_says_so_and_has_nobody_waiting() -> None:
    found = state(cluster_queue("a", 1000))
    found.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "a", stop_policy=StopPolicy.HOLD))
    found.set_workload(Key("ns", "wait"), workload("wait", 1))
    got = status.local_queue_status(found, Key("ns", "lq"), {}, NOW)
    assert got["pendingWorkloads"] == 0
    assert [(c["type"], c["status"], c["reason"]) for c in got["conditions"]] == [("Active", "False", "Stopped")]


def test_a_local_queue_whose_cluster_queue_does_not_exist_says_so() -> None:
    found = state(cluster_queue("a", 1000), local={"lost": "nowhere"})
    got = status.local_queue_status(found, Key("ns", "lost"), {}, NOW)
    assert got["conditions"][0]["reason"] == "ClusterQueueDoesNotExist"
    assert got["flavorsUsage"] == []


def test_the_transition_time_moves_only_with_the_status_and_foreign_conditions_stay() -> None:
    found = state(cluster_queue("a", 1000))
    foreign = {"type": "Theirs", "status": "True"}
    first = status.cluster_queue_status(found, "a", {"conditions": [foreign]}, NOW)
    again = status.cluster_queue_status(found, "a", first, NOW + 60)
    assert again == first
    assert first["conditions"][0] is foreign
    found.set_cluster_queue("a", cluster_queue("a", 1000, stop_policy=StopPolicy.HOLD))
    stopped = status.cluster_queue_status(found, "a", first, NOW + 60)["conditions"][1]
    assert (stopped["status"], stopped["reason"], stopped["lastTransitionTime"]) == (
        "False",
        "Stopped",
        "2023-11-14T22:14:20Z",
    )
