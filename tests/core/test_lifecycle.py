"""The life of a Workload: each test is something that happens to one, and what is done about it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import PendingReason
from core.actions import Delete, Patch, Wait, Writes
from core.devices.inventory import CLAIMS_NOT_SUPPORTED, NOT_COUNTED_YET
from core.model import (
    Admission,
    CheckRule,
    CheckState,
    ClusterQueue,
    Key,
    LocalQueue,
    PodSetAssignment,
    Raw,
    Requirement,
    ResourceGroup,
    Selector,
    StopPolicy,
    Workload,
)
from core.model.events import deleted_finished
from core.model.owner import Owner
from core.model.workload import replace
from core.workload import lifecycle, transitions
from core.workload.actions import (
    Evict,
    LifePolicy,
    PodsReadyPolicy,
    ReleaseOrphan,
    Surroundings,
)
from core.workload.lifecycle import BYPASSED, next_step
from core.workload.transitions import Backoff

NOW = 10_000.0
CQ = ClusterQueue("cq", groups=(ResourceGroup(("cpu",), ("f", "g")),), namespace_selector=Selector())
LQ = LocalQueue(Key("ns", "lq"), "cq")
JOB = Owner("batch", "Job", "ns", "j")
PENDING = Workload(Key("ns", "w"), "u", 0.0, "lq", 0, (), owner=JOB, job_uid="j", resource_version="1")
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "f"}, {"cpu": 1000}, 1),))
RUNNING = transitions.reserved(PENDING, ADMISSION, NOW - 100)
RESERVED = transitions.reserved(PENDING, ADMISSION, NOW - 100, required_checks=["ac"])


def around(**more: Any) -> Surroundings:
    names = ("pods_ready", "after_finished", "explicit_status", "guards", "finishes_orphans")
    policy = LifePolicy(**{name: more.pop(name) for name in names if name in more})
    return Surroundings(
        **{"now": NOW, "policy": policy, "local_queue": LQ, "cluster_queue": CQ, "namespace": {}, **more}
    )


def stopped(queue: Any, policy: StopPolicy) -> Any:
    return replace(queue, stop_policy=policy)


def facts(workload: Workload) -> dict[str, str]:
    return {each.type: f"{each.status}/{each.reason}" for each in workload.conditions}


def message(workload: Workload, kind: str) -> str:
    found = workload.condition(kind)
    assert found is not None
    return found.message


def live(workload: Workload, surroundings: Surroundings) -> Workload:
    """The Workload when nothing is left to do, deactivation applied as the API server would."""
    for _ in range(10):
        step = next_step(workload, surroundings)
        match step:
            case Patch(after=Workload() as after):
                workload = after
            case Patch(why="deactivate"):
                workload = replace(workload, active=False)
            case _:
                return workload
    raise AssertionError(f"never comes to rest: {workload}")


def test_a_fresh_workload_in_good_order_is_left_to_the_cycle() -> None:
    assert next_step(PENDING, around()) == Wait()


def test_an_admitted_workload_runs_in_peace() -> None:
    assert next_step(RUNNING, around()) == Wait()


@pytest.mark.parametrize(
    ("surroundings", "reason", "text"),
    [
        ({"local_queue": None}, "Misconfigured", "LocalQueue lq doesn't exist"),
        ({"local_queue": stopped(LQ, StopPolicy.HOLD)}, "Suspended", "LocalQueue lq is inactive"),
        ({"cluster_queue": None}, "Misconfigured", "ClusterQueue cq doesn't exist"),
        ({"active": False}, "Suspended", "ClusterQueue cq is inactive"),
        (
            {"cluster_queue": replace(CQ, namespace_selector=Selector((Requirement("team", "Exists"),)))},
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
        ),
        (
            {"cluster_queue": replace(CQ, namespace_selector=None)},
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
        ),
    ],
)
def test_a_workload_that_cannot_be_queued_has_the_reason_until_it_is_resolved(
    surroundings: dict[str, Any], reason: str, text: str
) -> None:
    after = live(PENDING, around(**surroundings))
    assert facts(after) == {"QuotaReserved": f"False/{reason}", "Admitted": "False/NoReservation"}
    assert message(after, "QuotaReserved") == text
    assert facts(live(after, around()))["QuotaReserved"] == "False/PendingEvaluation"


def test_the_reason_written_by_a_cycle_is_kept() -> None:
    waiting = transitions.waiting(PENDING, "WaitingForQuota", "1 more needed", NOW - 5)
    assert next_step(waiting, around()) == Wait()


def test_a_workload_that_is_admitted_through_variants_has_no_reason_of_a_queue_any_more() -> None:
    """It waited itself before its ClusterQueue asked for variants."""
    waiting = transitions.waiting(PENDING, "WaitingForQuota", "1 more needed", NOW - 5)
    assert facts(live(replace(waiting, parent=True), around()))["QuotaReserved"] == "False/PendingEvaluation"


def test_requests_that_violate_a_rule_are_reported() -> None:
    after = live(replace(PENDING, invalid=("resources validation failed: x",)), around())
    assert message(after, "QuotaReserved") == "resources validation failed: x"


def test_hold_keeps_what_runs_and_hold_and_drain_evicts_it() -> None:
    for kind, queue in (("local_queue", LQ), ("cluster_queue", CQ)):
        assert next_step(RUNNING, around(**{kind: stopped(queue, StopPolicy.HOLD)})) == Wait()
        step = next_step(RUNNING, around(**{kind: stopped(queue, StopPolicy.HOLD_AND_DRAIN)}))
        assert isinstance(step, Evict)
        name = "LocalQueue" if queue is LQ else "ClusterQueue"
        assert (step.reason, message(step.after, "Evicted")) == (f"{name}Stopped", f"The {name} is stopped")


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])
def test_a_stopped_queue_takes_back_what_is_only_reserved(policy: StopPolicy) -> None:
    step = next_step(RESERVED, around(cluster_queue=stopped(replace(CQ, checks=(CheckRule("ac"),)), policy)))
    assert isinstance(step, Patch) and step.after is not None
    assert step.after.admission is None
    assert message(step.after, "QuotaReserved") == "ClusterQueue cq is stopped"


def test_a_workload_drained_by_a_queue_is_queued_again_when_that_restarts() -> None:
    drained = live(RUNNING, around(cluster_queue=stopped(CQ, StopPolicy.HOLD_AND_DRAIN), active=False))
    gone = transitions.released(drained, NOW)
    held = live(gone, around(cluster_queue=stopped(CQ, StopPolicy.HOLD_AND_DRAIN), active=False))
    assert facts(held) == {
        "QuotaReserved": "False/Suspended",
        "Admitted": "False/NoReservation",
        "Evicted": "True/ClusterQueueStopped",
        "Requeued": "False/ClusterQueueStopped",
    }
    again = live(held, around())
    assert facts(again)["Requeued"] == "True/ClusterQueueRestarted"
    assert facts(again)["QuotaReserved"] == "False/PendingEvaluation"


def test_a_deactivated_workload_is_evicted_and_starts_again_when_activated() -> None:
    after = live(replace(RUNNING, active=False, requeue_count=3, requeue_at=NOW + 5), around())
    assert facts(after)["Evicted"] == "True/Deactivated"
    assert (after.requeue_count, after.requeue_at) == (0, None)
    gone = live(transitions.released(after, NOW), around())
    assert facts(gone)["QuotaReserved"] == "False/Deactivated"
    back = live(replace(gone, active=True), around())
    assert facts(back)["Requeued"] == "True/Reactivated"
    assert facts(back)["QuotaReserved"] == "False/PendingEvaluation"


@pytest.mark.parametrize("quota", [True, False], ids=["its pods still stop", "it waits"])
def test_a_mark_for_deactivation_goes_although_the_workload_was_evicted_before(quota: bool) -> None:
    """Else it would be deactivated again whenever it is activated."""
    evicted = transitions.preempted(RUNNING, "InClusterQueue", "for another", NOW - 10)
    if not quota:
        evicted = transitions.released(evicted, NOW - 5)
    marked = transitions.deactivation_target(evicted, "AdmissionCheck", "never", NOW)
    after = live(marked, around())
    assert not after.active
    assert "DeactivationTarget" not in facts(after)
    assert facts(after)["Evicted"] == "True/DeactivatedDueToAdmissionCheck"
    assert message(after, "Evicted") == "The workload is deactivated due to never"
    assert after.evictions == evicted.evictions, "one eviction, not two"
    eviction = after.condition("Evicted")
    assert eviction is not None and eviction.since == NOW, "a retention counts from the deactivation"
    gone = live(transitions.released(after, NOW) if quota else after, around())
    back = live(replace(gone, active=True), around())
    assert back.active
    assert facts(back)["QuotaReserved"] == "False/PendingEvaluation"
    assert facts(back)["Requeued"] == ("True/Reactivated" if quota else "True/Preempted")


def test_checks_are_added_as_pending_and_all_ready_admits() -> None:
    queue = replace(CQ, checks=(CheckRule("ac"), CheckRule("only-g", frozenset({"g"}))))
    waits = live(PENDING, around(cluster_queue=queue))
    assert waits.checks == (CheckState("ac", "Pending", since=NOW),)
    ready = replace(RESERVED, checks=(CheckState("ac", "Ready"),))
    step = next_step(ready, around(cluster_queue=queue))
    assert isinstance(step, Patch) and step.after is not None
    assert (step.why, facts(step.after)["Admitted"]) == ("admit", "True/Admitted")


@pytest.mark.parametrize(
    ("more", "wanted"),
    [({}, ""), ({"pods_ready": PodsReadyPolicy()}, "False/WaitForStart")],
    ids=["without waitForPodsReady", "with waitForPodsReady"],
)
def test_pods_are_awaited_in_the_write_that_admits(more: dict[str, PodsReadyPolicy], wanted: str) -> None:
    queue = replace(CQ, checks=(CheckRule("ac"),))
    step = next_step(replace(RESERVED, checks=(CheckState("ac", "Ready"),)), around(cluster_queue=queue, **more))
    assert isinstance(step, Patch) and step.after is not None
    assert (step.why, facts(step.after).get("PodsReady", "")) == ("admit", wanted)


def test_a_check_that_is_not_asked_for_any_more_is_dropped() -> None:
    after = live(RESERVED, around())
    assert after.checks == ()
    assert facts(after)["Admitted"] == "True/Admitted"


WITH_CHECK = {"cluster_queue": replace(CQ, checks=(CheckRule("ac"), CheckRule("b")))}


def with_states(workload: Workload, *checks: CheckState) -> Workload:
    return replace(workload, checks=checks)


def test_a_rejected_check_deactivates() -> None:
    rejected = with_states(RESERVED, CheckState("ac", "Rejected", "no nodes"), CheckState("b", "Rejected"))
    after = live(rejected, around(**WITH_CHECK))
    assert not after.active
    assert facts(after)["Evicted"] == "True/DeactivatedDueToAdmissionCheck"
    told = 'The workload is deactivated due to AdmissionChecks in Rejected state: "ac" (no nodes); "b"'
    assert message(after, "Evicted") == told


def test_a_check_to_be_retried_evicts_and_puts_off() -> None:
    retry = CheckState("ac", "Retry", "busy", since=NOW - 10, requeue_after=60)
    after = live(with_states(RESERVED, retry, CheckState("b", "Ready")), around(**WITH_CHECK))
    assert facts(after)["Evicted"] == "True/AdmissionCheck"
    assert message(after, "Evicted") == 'Evicted due to AdmissionCheck in Retry state: "ac" (busy)'
    assert after.requeue_at == NOW + 50
    gone = transitions.released(after, NOW)
    assert next_step(gone, around(**WITH_CHECK)) == Wait(50.0)
    later = live(gone, around(now=NOW + 50, **WITH_CHECK))
    assert (later.requeue_at, facts(later)["Requeued"]) == (None, "True/BackoffFinished")


SLOW = PodsReadyPolicy(timeout=100, recovery_timeout=50, backoff=Backoff(60, 3600), limit=2)


STARTING = transitions.condition(
    RUNNING, "PodsReady", status=False, reason="WaitForStart", message="Not all pods are ready", now=NOW - 100
)
"""As the scheduler writes it: PodsReady begins with admission."""


def test_pods_that_do_not_come_up_are_evicted_with_growing_backoff() -> None:
    assert next_step(STARTING, around(now=NOW - 40, pods_ready=SLOW)) == Wait(40.0)
    step = next_step(replace(STARTING, requeue_count=1), around(pods_ready=SLOW))
    assert isinstance(step, Evict)
    assert (step.reason, step.cause) == ("PodsReadyTimeout", "WaitForStart")
    assert message(step.after, "Evicted") == "Exceeded the PodsReady timeout ns/w"
    assert (step.after.requeue_count, step.after.requeue_at) == (2, NOW + 120)


def test_the_time_of_pods_that_nobody_watched_begins_when_they_are_first_watched() -> None:
    """Kueue without waitForPodsReady admits without the condition, and its jobs may have run for days."""
    assert RUNNING.condition("PodsReady") is None
    after = live(RUNNING, around(pods_ready=SLOW))
    assert "Evicted" not in facts(after)
    assert facts(after)["PodsReady"] == "False/WaitForStart"
    assert next_step(after, around(now=NOW + 60, pods_ready=SLOW)) == Wait(40.0)
    step = next_step(after, around(now=NOW + 100, pods_ready=SLOW))
    assert isinstance(step, Evict)
    assert step.reason == "PodsReadyTimeout"


def test_once_too_often_deactivates() -> None:
    after = live(replace(STARTING, requeue_count=2), around(pods_ready=SLOW))
    assert facts(after)["Evicted"] == "True/DeactivatedDueToRequeuingLimitExceeded"
    text = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    assert message(after, "Evicted") == text


def test_pods_that_were_ready_have_their_own_time_to_recover() -> None:
    def ready(*, status: bool, reason: str) -> Workload:
        kind = "PodsReady"
        return transitions.condition(RUNNING, kind, status=status, reason=reason, message="", now=NOW - 20)

    assert next_step(ready(status=True, reason="Started"), around(pods_ready=SLOW)) == Wait()
    broken = ready(status=False, reason="WaitForRecovery")
    assert next_step(broken, around(pods_ready=SLOW)) == Wait(30.0)
    step = next_step(broken, around(now=NOW + 30, pods_ready=SLOW))
    assert isinstance(step, Evict)
    assert step.cause == "WaitForRecovery"


def test_the_execution_time_of_all_runs_together_is_limited() -> None:
    limited = replace(RUNNING, max_execution=150, past_execution=30)
    assert next_step(limited, around()) == Wait(20.0)
    after = live(limited, around(now=NOW + 20))
    assert facts(after)["Evicted"] == "True/DeactivatedDueToMaximumExecutionTimeExceeded"
    assert transitions.released(after, NOW + 20).past_execution is None, "activated again it has all its time"


def test_a_finished_workload_is_kept_as_long_as_configured() -> None:
    done = transitions.finished(RUNNING, "Succeeded", "", NOW - 10)
    assert next_step(done, around()) == Wait()
    assert next_step(done, around(after_finished=60.0)) == Wait(50.0)
    assert next_step(done, around(after_finished=5.0)) == Writes(
        (Delete(done.uid),), why="retention", events=(deleted_finished(),)
    )


def test_a_gate_keeps_a_workload_out_until_it_is_taken_away() -> None:
    gated = live(replace(PENDING, gates=("example.com/a",)), around())
    assert facts(gated)["QuotaReserved"] == "False/AdmissionGated"
    assert message(gated, "QuotaReserved") == "Admission is gated by: example.com/a"
    free = next_step(replace(gated, gates=()), around())
    assert isinstance(free, Patch) and free.after is not None
    assert (free.why, facts(free.after)["QuotaReserved"]) == ("ungate", "False/PendingEvaluation")


def test_an_evicted_workload_without_owner_keeps_its_quota_for_the_time_that_pods_have_to_end() -> None:
    evicted = transitions.preempted(replace(RUNNING, owner=None, job_uid=""), "InClusterQueue", "room", NOW)
    assert next_step(evicted, around()) == Wait(30.0)
    assert next_step(evicted, around(now=NOW + 29.0)) == Wait(1.0)
    after = live(evicted, around(now=NOW + 30.0))
    assert after.admission is None
    assert facts(after)["Requeued"] == "True/Preempted"


def test_a_backoff_ends_in_its_time_also_while_the_pods_still_hold_quota() -> None:
    evicted = transitions.evicted(replace(RUNNING, owner=None, job_uid=""), "PodsReadyTimeout", "late", NOW)
    put_off = transitions.requeued(
        replace(evicted, requeue_at=NOW + 5.0), "PodsReadyTimeout", "late", NOW, status=False
    )
    assert next_step(put_off, around()) == Wait(5.0)
    over = live(put_off, around(now=NOW + 5.0))
    assert (over.requeue_at, facts(over)["Requeued"]) == (None, "True/BackoffFinished")
    assert facts(over)["QuotaReserved"] == "True/QuotaReserved"


def test_the_end_of_a_backoff_stays_recorded_while_the_workload_holds_quota_and_is_not_to_be_requeued() -> None:
    """As in Kueue, a finished Workload shows the backoff of its last eviction."""
    evicted = transitions.evicted(replace(RUNNING, owner=None, job_uid=""), "PodsReadyTimeout", "late", NOW)
    backing_off = replace(evicted, requeue_count=1, requeue_at=NOW + 5.0)
    assert next_step(backing_off, around()) == Wait(5.0)
    assert next_step(backing_off, around(now=NOW + 10.0)) == Wait(20.0)
    done = transitions.finished(backing_off, "Succeeded", "done", NOW + 10.0)
    assert live(done, around(now=NOW + 40.0)).requeue_at == NOW + 5.0
    released = live(backing_off, around(now=NOW + 30.0))
    assert (released.requeue_at, facts(released)["QuotaReserved"]) == (None, "False/PendingEvaluation")


def test_an_admission_that_was_left_after_its_release_is_removed() -> None:
    evicted = transitions.preempted(replace(RUNNING, owner=None, job_uid=""), "InClusterQueue", "room", NOW)
    theirs = transitions.waiting(evicted, PendingReason.PENDING_EVALUATION, "stopped", NOW)
    assert live(replace(theirs, admission=evicted.admission), around()) == theirs


def test_an_evicted_workload_that_its_creator_released_is_queued_again_at_once() -> None:
    evicted = transitions.preempted(replace(RUNNING, owner=None, job_uid=""), "InClusterQueue", "room", NOW)
    theirs = transitions.waiting(evicted, PendingReason.PENDING_EVALUATION, "stopped", NOW)
    assert next_step(theirs, around()) == Wait()


@pytest.mark.parametrize(
    "owned",
    [
        {"owner": JOB},
        {"owner": Owner("workload.example.com", "Train", "ns", "t")},
        {"co_owned": True},
        {"made_for": "set"},
    ],
    ids=["a Job", "an object of another controller", "several pods, none of which controls it", "one named by Kueue"],
)
def test_a_workload_that_somebody_runs_keeps_its_quota_until_its_owner_has_stopped_its_pods(owned: Raw) -> None:
    theirs = replace(RUNNING, **{"owner": None, "job_uid": "", **owned})
    evicted = transitions.preempted(theirs, "InClusterQueue", "room", NOW)
    for after in (evicted, live(evicted, around())):
        assert facts(after)["QuotaReserved"] == "True/QuotaReserved"
        assert after.admission is not None


def test_a_workload_without_its_owner_reference_is_released() -> None:
    assert next_step(replace(RUNNING, owner=None), around()) == ReleaseOrphan()
    assert next_step(replace(PENDING, owner=None, job_uid="", deleting=True), around()) == ReleaseOrphan()
    several = replace(RUNNING, owner=None, co_owned=True)
    assert next_step(several, around()) != ReleaseOrphan(), "the pods of a group own it together"


def test_without_the_gate_a_workload_without_its_owner_reference_stays_until_it_is_deleted() -> None:
    off = around(finishes_orphans=False)
    assert next_step(replace(RUNNING, owner=None), off) == Wait()
    assert next_step(replace(RUNNING, owner=None, deleting=True), off) == ReleaseOrphan()


@pytest.mark.parametrize(
    ("surroundings", "detailed", "coarse"),
    [
        ({"local_queue": None}, "Misconfigured", "Inadmissible"),
        ({"local_queue": stopped(LQ, StopPolicy.HOLD)}, "Suspended", "Inadmissible"),
        ({"active": False}, "Suspended", "Inadmissible"),
        ({"explicit_status": True}, "PendingEvaluation", ""),
    ],
)
def test_without_the_gate_it_waits_for_a_reason_of_earlier_releases(
    surroundings: dict[str, Any], detailed: str, coarse: str
) -> None:
    for workload, reason in ((PENDING, detailed), (replace(PENDING, coarse_reasons=True), coarse)):
        after = live(workload, around(**surroundings))
        assert facts(after).get("QuotaReserved", "") == (reason and f"False/{reason}")


def test_without_the_gate_what_the_cycle_has_said_stays() -> None:
    waits = transitions.undecided(replace(PENDING, coarse_reasons=True), "WaitingForQuota", "no quota", NOW)
    assert facts(waits) == {"QuotaReserved": "False/Pending"}
    assert live(waits, around()) == waits
    assert message(live(waits, around(local_queue=None)), "QuotaReserved") == "LocalQueue lq doesn't exist"


def test_without_the_gate_a_gated_workload_is_pending_when_its_gate_is_gone() -> None:
    gated = live(replace(PENDING, coarse_reasons=True, gates=("a/b",)), around())
    assert facts(gated) == {"QuotaReserved": "False/AdmissionGated"}
    assert facts(live(replace(gated, gates=()), around())) == {"QuotaReserved": "False/Pending"}


def test_every_rule_says_what_it_is_for() -> None:
    assert all(rule.__doc__ for rule in lifecycle.RULES)


queues = st.sampled_from([None, LQ, *(stopped(LQ, policy) for policy in StopPolicy)])
cluster_queues = st.sampled_from(
    [
        None,
        CQ,
        *(stopped(CQ, policy) for policy in StopPolicy),
        replace(CQ, checks=(CheckRule("ac"),)),
        replace(CQ, namespace_selector=None, deleting=True),
    ]
)
lives = st.builds(
    lambda base, eviction, owner, active, count, at, limit, gates, state: replace(
        transitions.evicted(base, eviction, "m", NOW - 50) if eviction else base,
        owner=owner,
        job_uid="",
        active=active,
        requeue_count=count,
        requeue_at=at,
        max_execution=limit,
        gates=gates,
        checks=tuple(replace(check, state=state, requeue_after=20.0) for check in base.checks),
    ),
    st.sampled_from([PENDING, RUNNING, RESERVED, transitions.waiting(PENDING, "Suspended", "", NOW - 9)]),
    st.sampled_from(["", "Preempted", "PodsReadyTimeout", "ClusterQueueStopped", "Deactivated", "AdmissionCheck"]),
    st.sampled_from([None, JOB]),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([None, NOW - 5, NOW + 5]),
    st.sampled_from([None, 50, 500]),
    st.sampled_from([(), ("example.com/g",)]),
    st.sampled_from(["Pending", "Ready", "Retry", "Rejected"]),
)


@given(lives, queues, cluster_queues, st.booleans(), st.sampled_from([None, SLOW]), st.booleans())
def test_every_life_comes_to_rest(
    workload: Workload,
    queue: LocalQueue | None,
    cluster_queue: ClusterQueue | None,
    active: bool,
    pods_ready: PodsReadyPolicy | None,
    released: bool,
) -> None:
    """However a Workload and its queues stand, the rules do not write for ever; also once its job was stopped."""
    surroundings = around(local_queue=queue, cluster_queue=cluster_queue, active=active, pods_ready=pods_ready)
    after = live(workload, surroundings)
    if released and after.holds("Evicted") and after.holds("QuotaReserved"):
        after = live(transitions.released(after, NOW), surroundings)
    assert (after.admission is None) == (not after.holds("QuotaReserved"))
    assert not after.holds("Admitted") or after.holds("QuotaReserved")


@pytest.mark.parametrize("before", ["Suspended", "PendingEvaluation", "Deactivated"])
def test_a_requeued_workload_gets_the_reason_of_equal_parked_workloads(before: str) -> None:
    waits = transitions.waiting(PENDING, before, "", NOW - 5)
    told = live(waits, around(bypassed="WaitingForQuota"))
    assert facts(told)["QuotaReserved"] == "False/WaitingForQuota"
    assert message(told, "QuotaReserved").startswith("Bypassed scheduling evaluation")
    assert facts(live(waits, around()))["QuotaReserved"] == "False/PendingEvaluation"


def test_what_the_cycle_said_of_a_workload_itself_stands_whatever_others_wait_for() -> None:
    waits = transitions.waiting(PENDING, "ExceedsMaxQuota", "9 more", NOW - 5)
    assert live(waits, around(bypassed="WaitingForQuota")) == waits
    assert live(PENDING, around(bypassed="WaitingForQuota")) == PENDING, "a new one is told by the cycle"


@pytest.mark.parametrize(
    ("bypassed", "reason", "said"),
    [
        ("", "PendingEvaluation", "Workload is pending evaluation in the scheduling queue"),
        ("WaitingForQuota", "WaitingForQuota", BYPASSED),
    ],
)
def test_where_the_status_is_to_be_explicit_a_new_workload_says_at_once_that_it_waits(
    bypassed: str, reason: str, said: str
) -> None:
    told = live(PENDING, around(bypassed=bypassed, explicit_status=True))
    assert facts(told) == {"QuotaReserved": f"False/{reason}", "Admitted": "False/NoReservation"}
    assert message(told, "QuotaReserved") == said


def test_a_workload_whose_devices_cannot_be_counted_is_inadmissible_and_told_why() -> None:
    waiting = live(replace(PENDING, uncounted="DeviceClass nic is not mapped"), around())
    assert facts(waiting) == {
        "QuotaReserved": "False/Misconfigured",
        "Admitted": "False/NoReservation",
        "Requeued": "False/Inadmissible",
    }
    assert message(waiting, "QuotaReserved") == message(waiting, "Requeued") == "DeviceClass nic is not mapped"
    counted = live(replace(waiting, uncounted=""), around())
    assert facts(counted) == {"QuotaReserved": "False/PendingEvaluation", "Admitted": "False/NoReservation"}


def test_claims_of_their_own_are_refused_in_two_sentences() -> None:
    waiting = live(replace(PENDING, uncounted=CLAIMS_NOT_SUPPORTED), around())
    assert message(waiting, "QuotaReserved") == "KueueDRAIntegration feature does not support use of resource claims"
    assert message(waiting, "Requeued") == "DRA resource claims not supported"


def test_nothing_is_written_while_devices_are_being_counted() -> None:
    counting = replace(PENDING, uncounted=NOT_COUNTED_YET)
    assert live(counting, around()) == counting


def test_a_workload_that_may_use_more_devices_than_admitted_is_evicted_for_longer_each_time() -> None:
    grown = replace(RUNNING, outgrown="ResourceClaimTemplate one was made again")
    step = next_step(grown, around())
    assert isinstance(step, Evict)
    assert (step.reason, step.after.requeue_at) == ("PodsWithoutQuota", NOW + 5)
    again = replace(grown, evictions=(("PodsWithoutQuota", "", 3),))
    step = next_step(again, around())
    assert isinstance(step, Evict)
    assert step.after.requeue_at == NOW + 40
    assert next_step(grown, around(guards=False)) == Wait()


def test_an_admitted_workload_stays_whatever_becomes_of_its_template() -> None:
    assert facts(live(replace(RUNNING, uncounted="ResourceClaimTemplate one not found"), around())) == facts(RUNNING)
