"""The events people read in ``kubectl describe`` of a Job or a Workload: type, reason and text, in Kueue's words.

Separate from what sends them (``controller.cache.events``), so that every text can be read on one page.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from api import names
from core.model import Key, Victim, Workload
from core.model.messages import WAITS

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

POD_TERMINATED: Final = "Pod terminated by Kueue NodeController due to node taint"

_NEEDS_A_CHANGE = frozenset(
    {
        names.PendingReason.MISCONFIGURED,
        names.PendingReason.NO_MATCHING_FLAVOR,
        names.PendingReason.EXCEEDS_MAX_QUOTA,
    }
)


class Event(NamedTuple):
    """An event of an object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def created_workload(workload: Key) -> Event:
    """On the Job."""
    return Event(NORMAL, names.Event.CREATED_WORKLOAD, f"Created Workload: {workload}")


def updated_workload(workload: Key) -> Event:
    """On the Job: its Workload was made to match it again."""
    return Event(NORMAL, names.Event.UPDATED_WORKLOAD, f"Updated not matching Workload for suspended job: {workload}")


def deleted_workload(workload: Key) -> Event:
    """On the Job: a Workload that does not match it was deleted."""
    return Event(NORMAL, names.Event.DELETED_WORKLOAD, f"Deleted not matching Workload: {workload}")


def started(cluster_queue: str) -> Event:
    """On the Job."""
    return Event(NORMAL, names.Event.STARTED, f"Admitted by clusterQueue {cluster_queue}")


def stopped(message: str) -> Event:
    """On the Job: it was suspended again, with the reason as text."""
    return Event(NORMAL, names.Event.STOPPED, message)


def created_again(kind: str, key: Key, times: int, seconds: float) -> Event:
    """On the job: its Workload, or another object that is made for it, is deleted whenever it was created."""
    text = (
        f"{kind} {key} was created {times} times in a short time; it is created again after {seconds:.0f} s at"
        " the earliest: another object may use its name, or a program may delete it"
    )
    return Event(WARNING, names.Event.WORKLOAD_CREATED_AGAIN, text)


def pods_overdue(seconds: float) -> Event:
    """On the job: its quota is released although pods of it may remain."""
    text = (
        f"Quota is released although pods of this stopped job still terminate after {seconds:g} s: a long"
        " terminationGracePeriodSeconds, a finalizer or a lost node keeps them; delete them to free their nodes"
    )
    return Event(WARNING, names.Condition.PODS_REMAIN, text)


def owners_added(count: int) -> Event:
    """On the Workload of a group of pods."""
    return Event(NORMAL, names.Event.OWNER_REFERENCES_ADDED, f"Added {count} owner reference(s)")


def excess_deleted() -> Event:
    """On a pod that its group has too many."""
    return Event(NORMAL, names.Event.EXCESS_POD_DELETED, "Excess pod deleted")


def pod_terminated() -> Event:
    """On a pod that waits for a node which does not take it."""
    return Event(NORMAL, names.Event.POD_TERMINATED, POD_TERMINATED)


def finished_workload(workload: Key) -> Event:
    """On the Job; on the Workload if its Job is gone."""
    return Event(NORMAL, names.Event.FINISHED_WORKLOAD, f"Workload '{workload}' is declared finished")


def failed(reason: str, message: str) -> Event:
    """Returns the event on the Job: why it gets no Workload or does not start."""
    return Event(WARNING, reason, message)


def workload_refused(workload: Key, sentence: str) -> Event:
    """On the Job: the API server refuses its Workload, with the API server's sentence."""
    text = f"The API server refuses Workload {workload}; it is tried again until it is accepted: {sentence}"
    return Event(WARNING, names.Event.ERR_WORKLOAD_COMPOSE, text)


def job_waits(cluster_queue: str, reason: str, message: str) -> Event:
    """On the Job: why it does not start yet; a warning where waiting alone will not help."""
    where = f"{WAITS} in ClusterQueue {cluster_queue}" if cluster_queue else WAITS
    return Event(WARNING if reason in _NEEDS_A_CHANGE else NORMAL, reason, f"{where}: {message}")


def not_running(runs: int, wanted: int, why: str) -> Event:
    """On the Job and its Workload: it was admitted, but pods of it do not run."""
    return Event(WARNING, names.Event.PODS_NOT_RUNNING, f"{runs} of {wanted} pods run or have succeeded: {why}")


def updated_checks(message: str) -> Event:
    """On the Job, which has quota: what the admission checks say for which it waits."""
    return Event(NORMAL, names.Event.UPDATED_ADMISSION_CHECK, message)


def gate_cleared() -> Event:
    """On the Workload: its last admission gate was removed."""
    return Event(NORMAL, names.Event.ADMISSION_GATE_CLEARED, "Admission gate cleared, workload is now admissible")


def quota_reserved(cluster_queue: str, waited: float, considered: str = "") -> Event:
    """On the Workload; ``waited`` in seconds since it was queued, ``considered`` the flavors that did not simply
    fit.
    """
    text = f"Quota reserved in ClusterQueue {cluster_queue}, wait time since queued was {waited:.0f}s"
    if considered:
        text += f"; Flavors considered: {considered}"
    return Event(NORMAL, names.Event.QUOTA_RESERVED, text)


def admitted(cluster_queue: str, waited: float) -> Event:
    """On the Workload; ``waited`` in seconds since its reservation."""
    text = f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited:.0f}s"
    return Event(NORMAL, names.Event.ADMITTED, text)


def admitted_by_checks(workload: Workload, now: float) -> Event:
    """On the Workload, which had quota already: all its checks are ready."""
    assert workload.admission is not None
    reserved = workload.condition(names.Condition.QUOTA_RESERVED)
    return admitted(workload.admission.cluster_queue, now - reserved.since if reserved else 0.0)


def waits(reason: str, message: str) -> Event:
    """Returns the event on the Workload: it was decided and may not start now."""
    return Event(WARNING, reason, message)


def second_pass_failed(message: str) -> Event:
    """On the Workload: it keeps its quota, but its pods could not be placed in a topology."""
    return Event(WARNING, names.Event.SECOND_PASS_FAILED, message)


def evicted(reason: str, message: str, cause: str = "") -> Event:
    """On the Workload."""
    due = f"{names.EvictedReason.DUE_TO}{cause}" if cause else ""
    return Event(NORMAL, f"{names.Event.EVICTED_DUE_TO}{reason}{due}", message)


def without_quota(sentence: str) -> Event:
    """On a pod that is deleted because it runs without quota, or on what would be stopped if the guard only reports."""
    return Event(WARNING, names.Event.RUNS_WITHOUT_QUOTA, sentence)


def evicted_by_preemption(victim: Victim) -> Event:
    """On the victim: it is evicted, and for which workload."""
    return evicted(names.EvictedReason.PREEMPTED, victim.message)


def preempted(victim: Victim, preemptor: Workload) -> Event:
    """On the victim: as ``evicted_by_preemption``, with the priorities that decided."""
    return Event(NORMAL, names.Event.PREEMPTED, f"{victim.message}; {_priorities(preemptor, victim.workload)}")


def preempted_other(victim: Victim, preemptor: Workload) -> Event:
    """On the preemptor."""
    gone = victim.workload
    text = f"Preempted workload {gone.key} (UID: {gone.uid}) in ClusterQueue {victim.cluster_queue}"
    return Event(NORMAL, names.Event.PREEMPTED_WORKLOAD, f"{text}; {_priorities(preemptor, gone)}")


def deleted_job() -> Event:
    """On the Job: ``objectRetentionPolicies.workloads.afterDeactivatedByKueue`` has passed."""
    return Event(NORMAL, names.Event.DELETED, "Deleted job: deactivation retention period expired")


def deleted_finished() -> Event:
    """On the Workload: ``objectRetentionPolicies.workloads.afterFinished`` has passed."""
    return Event(NORMAL, names.Event.DELETED, "Deleted finished workload due to elapsed retention")


def _priorities(preemptor: Workload, preemptee: Workload) -> str:
    return f"preemptor effective priority: {_priority(preemptor)}; preemptee effective priority: {_priority(preemptee)}"


def _priority(workload: Workload) -> str:
    return f"{workload.priority} (base: {workload.priority}, boost: 0)"
