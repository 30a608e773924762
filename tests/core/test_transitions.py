"""What can happen to a Workload, and the patch that says so."""

from hypothesis import given
from hypothesis import strategies as st

from core.model import Admission, CheckState, Condition, Key, PodSetAssignment, Workload
from core.model.workload import replace
from core.wire.conditions import status_patch, with_condition
from core.wire.timestamps import epoch
from core.workload.transitions import (
    Backoff,
    admitted_in_step,
    backed_off,
    condition,
    deactivated,
    deactivation_target,
    evicted,
    finished,
    preempted,
    released,
    reserved,
    undecided,
    waiting,
)

NEW = Workload(Key("ns", "w"), "uid", 0.0, "lq", 0, (), generation=3, resource_version="7")
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "f"}, {"cpu": 1500, "memory": 1 << 30}, 2),))


def facts(workload: Workload) -> dict[str, str]:
    return {each.type: f"{each.status}/{each.reason}" for each in workload.conditions}


def test_a_transition_time_moves_only_with_the_status() -> None:
    first = with_condition((), Condition("A", True, "x", "", 1.0))
    reworded = with_condition(first, Condition("A", True, "y", "m", 2.0, 4))
    assert reworded == (Condition("A", True, "y", "m", 1.0, 4),)
    assert with_condition(reworded, Condition("A", False, "z", "", 3.0))[0].since == 3.0


def test_reserving_without_checks_admits_in_one_write() -> None:
    after = reserved(NEW, ADMISSION, 60.0)
    assert facts(after) == {"QuotaReserved": "True/QuotaReserved", "Admitted": "True/Admitted"}
    assert status_patch(NEW, after) == {
        "metadata": {"uid": "uid", "resourceVersion": "7"},
        "status": {
            "conditions": [
                {
                    "type": "QuotaReserved",
                    "status": "True",
                    "reason": "QuotaReserved",
                    "message": "Quota reserved in ClusterQueue cq",
                    "lastTransitionTime": "1970-01-01T00:01:00Z",
                    "observedGeneration": 3,
                },
                {
                    "type": "Admitted",
                    "status": "True",
                    "reason": "Admitted",
                    "message": "The workload is admitted",
                    "lastTransitionTime": "1970-01-01T00:01:00Z",
                    "observedGeneration": 3,
                },
            ],
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "flavors": {"cpu": "f"},
                        "resourceUsage": {"cpu": "1500m", "memory": "1Gi"},
                        "count": 2,
                    }
                ],
            },
        },
    }


def test_reserving_with_checks_waits_for_them() -> None:
    after = reserved(NEW, ADMISSION, 60.0, required_checks=["b", "a"])
    assert after.checks == (CheckState("a", "Pending", since=60.0), CheckState("b", "Pending", since=60.0))
    assert facts(after)["Admitted"] == "False/UnsatisfiedAdmissionChecks"
    ready = replace(after, checks=tuple(replace(check, state="Ready") for check in after.checks))
    assert facts(admitted_in_step(ready, 70.0))["Admitted"] == "True/Admitted"


def test_a_new_workload_has_no_condition_about_admission() -> None:
    assert admitted_in_step(NEW, 1.0) is NEW


def test_waiting_gives_reason_and_message_and_takes_back_what_was_held() -> None:
    after = waiting(reserved(NEW, ADMISSION, 60.0), "WaitingForQuota", "1 more needed", 90.0)
    assert after.admission is None
    assert facts(after) == {"QuotaReserved": "False/WaitingForQuota", "Admitted": "False/NoReservation"}
    assert after.past_execution == 30


def test_an_admission_that_lasted_less_than_a_second_is_written_as_zero_and_none_at_all_is_absent() -> None:
    held = reserved(NEW, ADMISSION, 60.0)
    after = waiting(held, "WaitingForQuota", "1 more needed", 60.5)
    patch = status_patch(held, after)
    assert patch is not None and patch["status"]["accumulatedPastExecutionTimeSeconds"] == 0
    never = status_patch(NEW, waiting(NEW, "WaitingForQuota", "1 more needed", 60.5))
    assert never is not None and "accumulatedPastExecutionTimeSeconds" not in never["status"]


def test_a_preempted_workload_keeps_its_quota_until_it_has_stopped_and_is_then_queued_again() -> None:
    gone = preempted(reserved(NEW, ADMISSION, 60.0), "InClusterQueue", "made room", 90.0)
    assert gone.admission == ADMISSION
    assert gone.evictions == (("Preempted", "", 1),)
    after = released(gone, 100.0)
    assert after.admission is None
    assert facts(after) == {
        "QuotaReserved": "False/PendingEvaluation",
        "Admitted": "False/NoReservation",
        "Evicted": "True/Preempted",
        "Preempted": "True/InClusterQueue",
        "Requeued": "True/Preempted",
    }
    again = reserved(after, ADMISSION, 120.0)
    assert facts(again)["Evicted"] == facts(again)["Preempted"] == "False/QuotaReserved"
    evicted_again = again.condition("Evicted")
    assert evicted_again is not None and evicted_again.message == "Previously: made room"


def test_an_eviction_by_a_stopped_queue_is_not_queued_again_by_itself() -> None:
    after = released(
        evicted(reserved(NEW, ADMISSION, 0.0), "ClusterQueueStopped", "The ClusterQueue is stopped", 1.0), 2.0
    )
    assert facts(after)["Requeued"] == "False/ClusterQueueStopped"


def test_an_eviction_resets_the_checks_and_counts_retries() -> None:
    checks = (
        CheckState("a", "Retry", retry_count=1, requeue_after=9.0),
        CheckState("b", "Ready", pod_set_updates=({},)),
    )
    after = evicted(replace(NEW, checks=checks), "AdmissionCheck", "m", 5.0)
    assert after.checks == (
        CheckState("a", "Pending", "Reset to Pending after eviction. Previously: Retry", 5.0, 2, 9.0),
        CheckState("b", "Pending", "Reset to Pending after eviction. Previously: Ready", 5.0),
    )


def test_deactivation_names_its_cause_and_forgets_the_backoff() -> None:
    tired = deactivation_target(backed_off(NEW, Backoff(), 0.0), "RequeuingLimitExceeded", "too many retries", 1.0)
    after = deactivated(tired, 2.0)
    found = after.condition("Evicted")
    assert found is not None
    assert found.reason == "DeactivatedDueToRequeuingLimitExceeded"
    assert found.message == "The workload is deactivated due to too many retries"
    assert (after.requeue_count, after.requeue_at, after.condition("DeactivationTarget")) == (0, None, None)
    patch = status_patch(tired, after)
    assert patch is not None and patch["status"]["requeueState"] is None


@given(st.floats(0, 1e6), st.integers(1, 3600))
def test_all_times_are_written_cut_to_their_second(now: float, base: int) -> None:
    """As Kueue's metav1.Time: a deadline and the end of a backoff are counted in the same seconds."""
    after = evicted(backed_off(NEW, Backoff(float(base)), now), "PodsReadyTimeout", "late", now)
    patch = status_patch(NEW, after)
    assert patch is not None
    (condition,) = patch["status"]["conditions"]
    assert epoch(condition["lastTransitionTime"]) == int(now)
    assert epoch(patch["status"]["requeueState"]["requeueAt"]) == int(now) + base


def test_nothing_changed_is_no_write() -> None:
    assert status_patch(NEW, NEW) is None
    done = finished(NEW, "Succeeded", "ok", 1.0)
    assert status_patch(done, finished(done, "Succeeded", "ok", 2.0)) is None


@given(st.integers(1, 40))
def test_the_backoff_doubles_up_to_its_limit(count: int) -> None:
    backoff = Backoff(60, 3600)
    assert backoff.seconds(count) <= 3600
    assert backoff.seconds(count + 1) == min(2 * backoff.seconds(count), 3600)


def test_a_message_longer_than_a_condition_may_be_is_cut() -> None:
    found = condition(NEW, "X", status=False, reason="R", message="x" * 50_000, now=0.0)
    assert len(found.conditions[0].message) == 32_768
    assert found.conditions[0].message.endswith(" ...")


OPEN = (CheckState("ac", "Pending"),)


def test_the_reasons_of_admitted_are_those_of_the_gate_for_unadmitted_workloads() -> None:
    detailed = reserved(NEW, ADMISSION, 1.0, required_checks=["ac"])
    assert facts(detailed)["Admitted"] == "False/UnsatisfiedAdmissionChecks"
    assert facts(waiting(detailed, "WaitingForQuota", "m", 2.0))["Admitted"] == "False/NoReservation"

    coarse = reserved(replace(NEW, coarse_reasons=True), ADMISSION, 1.0, required_checks=["ac"])
    assert facts(coarse) == {"QuotaReserved": "True/QuotaReserved"}, "it was never admitted"
    ready = tuple(replace(check, state="Ready") for check in coarse.checks)
    admitted = admitted_in_step(replace(coarse, checks=ready), 2.0)
    assert facts(admitted)["Admitted"] == "True/Admitted"
    lost = admitted_in_step(replace(admitted, checks=OPEN), 3.0)
    assert facts(lost)["Admitted"] == "False/UnsatisfiedChecks"
    none = waiting(replace(admitted, checks=OPEN), "WaitingForQuota", "m", 3.0)
    assert facts(none) == {"QuotaReserved": "False/Pending", "Admitted": "False/NoReservationUnsatisfiedChecks"}
    assert facts(waiting(admitted, "WaitingForQuota", "m", 3.0))["Admitted"] == "False/NoReservation"


def test_the_reasons_of_the_cycle_are_those_of_the_gate_for_unadmitted_workloads() -> None:
    old = {"WaitingForQuota": "Pending", "Misconfigured": "Pending", "WaitingForPodsReady": "Waiting"}
    for reason, coarse in old.items():
        assert facts(undecided(NEW, reason, "m", 1.0)) == {"QuotaReserved": f"False/{reason}"} | {
            "Admitted": "False/NoReservation"
        }
        found = undecided(replace(NEW, coarse_reasons=True), reason, "m", 1.0)
        assert facts(found) == {"QuotaReserved": f"False/{coarse}"}
