"""What the status of queues says."""

import pytest

from core.model import Condition, Decision, Key, LocalQueue, Plan, QueueingStrategy, Requeue, StayPending, StopPolicy
from core.state import queries, queue_status
from core.state.drain import drain
from core.state.queries import PendingCounts
from core.state.state import State
from tests.builders import cluster_queue, cycle, reserved, state, workload

NOW = 1_700_000_000.0


def why(found: State, name: str) -> tuple[str, str]:
    return queue_status.why_waiting(found, found.workloads[Key("ns", name)])


def test_a_workload_behind_an_equal_one_has_the_reason_of_that_one() -> None:
    found = state(cluster_queue("a", 1))
    for number, name in enumerate(("first", "second", "other")):
        found.set_workload(Key("ns", name), workload(name, 3 if name == "other" else 2, created=float(number)))
    assert why(found, "second") == ("", ""), "no cycle has looked at anybody"
    plans = list(drain(found, found.policy, 0.0))
    told = {d.workload.key.name: d.message for plan in plans for d in plan.decisions if isinstance(d, StayPending)}
    assert set(told) == {"first", "other"}
    assert why(found, "second") == ("ExceedsMaxQuota", told["first"])
    found.set_cluster_queue("a", cluster_queue("a", 2))
    assert [head.workload.key.name for head in found.heads(0.0)] == ["first"]
    assert why(found, "second") == ("", ""), "they are about to be looked at again"


@pytest.mark.parametrize(
    ("strategy", "preempting", "waits_for", "reason"),
    [
        (QueueingStrategy.STRICT_FIFO, False, "WaitingForQuota", "the queue is StrictFIFO"),
        (QueueingStrategy.BEST_EFFORT_FIFO, True, "WaitingForQuota", "it waits for the workloads that it preempts"),
        (
            QueueingStrategy.BEST_EFFORT_FIFO,
            False,
            "WaitingForPodsReady",
            "it waits until the pods of other workloads are ready",
        ),
    ],
)
def test_a_workload_behind_a_head_that_keeps_its_position_names_that_head(
    strategy: QueueingStrategy, preempting: bool, waits_for: str, reason: str
) -> None:
    found = state(cluster_queue("a", 5, strategy=strategy))
    found.set_workload(Key("ns", "big"), workload("big", 9))
    found.set_workload(Key("ns", "small"), workload("small", 1, created=1.0))
    (head,) = found.heads(0.0)
    found.apply(Plan((StayPending(head.workload, "a", waits_for, "", Requeue.HEAP, preempting=preempting),)))
    assert why(found, "small") == (
        "PendingEvaluation",
        f"behind ns/big, which is first in ClusterQueue a: {reason}",
    )


def test_a_workload_in_no_queue_has_the_reason_of_its_status() -> None:
    found = state(cluster_queue("a", 5))
    told = Condition("QuotaReserved", False, "Misconfigured", "LocalQueue lost doesn't exist")
    found.set_workload(Key("ns", "w"), workload("w", 1, queue="lost", conditions=(told,)))
    assert why(found, "w") == ("Misconfigured", "LocalQueue lost doesn't exist")


def test_a_cluster_queue_status_has_pending_admitted_and_borrowed() -> None:
    found = state(cluster_queue("a", 1000, cohort="all"), cluster_queue("b", 1000, cohort="all"))
    found.set_workload(Key("ns", "run"), reserved("run", 1500, "a"))
    found.set_workload(Key("ns", "wait"), workload("wait", 1))
    used = [{"name": "default", "resources": [{"name": "cpu", "total": "1500m", "borrowed": "500m"}]}]
    assert queue_status.cluster_queue_status(found, "a", {}, NOW) == {
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


def test_the_loser_of_a_cycle_is_inadmissible_only_after_a_decision_with_the_winners_usage() -> None:
    """In a BestEffortFIFO queue too: as in Kueue it stays active for the next cycle, and is active again when quota is
    released.
    """
    queues = (
        cluster_queue("a", 0, cohort="all"),
        cluster_queue("b", 0, cohort="all"),
        cluster_queue("c", 5, cohort="all"),
    )
    found = state(*queues, local={"a": "a", "b": "b"})
    for number, name in enumerate("ab"):
        found.set_workload(Key("ns", name), workload(name, 5, queue=name, created=float(number)))
    assert (queries.pending(found, "a"), queries.pending(found, "b")) == (PendingCounts(1, 0), PendingCounts(1, 0))
    assert why_not(cycle(found)["b"]) == "Workload no longer fits after processing another workload"
    assert queries.pending(found, "b") == PendingCounts(1, 0), "it is the next to be judged"
    assert why_not(cycle(found)["b"]).startswith("couldn't assign flavors")
    assert (queries.pending(found, "a"), queries.pending(found, "b")) == (PendingCounts(0, 0), PendingCounts(0, 1))
    found.set_workload(Key("ns", "a"), None)
    assert [head.workload.key.name for head in found.heads(0.0)] == ["b"]
    assert queries.pending(found, "b") == PendingCounts(1, 0)


def why_not(decision: Decision) -> str:
    assert isinstance(decision, StayPending)
    return decision.message


def test_a_local_queue_counts_only_its_own() -> None:
    found = state(cluster_queue("a", 1000), local={"mine": "a", "other": "a"})
    found.set_workload(Key("ns", "run"), reserved("run", 500, "a", queue="mine"))
    found.set_workload(Key("ns", "wait"), workload("wait", 1, queue="other"))
    mine = queue_status.local_queue_status(found, Key("ns", "mine"), {}, NOW)
    assert (mine["pendingWorkloads"], mine["reservingWorkloads"], mine["admittedWorkloads"]) == (0, 1, 1)
    assert mine["flavorsUsage"] == [{"name": "default", "resources": [{"name": "cpu", "total": "500m"}]}]
    other = queue_status.local_queue_status(found, Key("ns", "other"), {}, NOW)
    assert (other["pendingWorkloads"], other["reservingWorkloads"]) == (1, 0)


def test_a_stopped_local_queue_has_that_reason_and_no_pending_workloads() -> None:
    found = state(cluster_queue("a", 1000))
    found.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "a", stop_policy=StopPolicy.HOLD))
    found.set_workload(Key("ns", "wait"), workload("wait", 1))
    got = queue_status.local_queue_status(found, Key("ns", "lq"), {}, NOW)
    assert got["pendingWorkloads"] == 0
    assert [(c["type"], c["status"], c["reason"]) for c in got["conditions"]] == [("Active", "False", "Stopped")]


def test_a_local_queue_whose_cluster_queue_does_not_exist_has_that_reason() -> None:
    found = state(cluster_queue("a", 1000), local={"lost": "nowhere"})
    got = queue_status.local_queue_status(found, Key("ns", "lost"), {}, NOW)
    assert got["conditions"][0]["reason"] == "ClusterQueueDoesNotExist"
    assert got["flavorsUsage"] == []


def test_the_transition_time_moves_only_with_the_status_and_foreign_conditions_stay() -> None:
    found = state(cluster_queue("a", 1000))
    foreign = {"type": "Theirs", "status": "True"}
    first = queue_status.cluster_queue_status(found, "a", {"conditions": [foreign]}, NOW)
    again = queue_status.cluster_queue_status(found, "a", first, NOW + 60)
    assert again == first
    assert first["conditions"][0] is foreign
    found.set_cluster_queue("a", cluster_queue("a", 1000, stop_policy=StopPolicy.HOLD))
    stopped = queue_status.cluster_queue_status(found, "a", first, NOW + 60)["conditions"][1]
    assert (stopped["status"], stopped["reason"], stopped["lastTransitionTime"]) == (
        "False",
        "Stopped",
        "2023-11-14T22:14:20Z",
    )
