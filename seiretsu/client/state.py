"""What is known of a job in a queue, from its Workload: pure functions on the objects of the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

Raw = dict[str, Any]


class Phase(Enum):
    """Where a job stands. ``SUBMITTED``: it has no Workload yet; ``RESERVED``: admission checks are outstanding."""

    SUBMITTED = "submitted"
    WAITING = "waiting"
    RESERVED = "reserved"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether the job will not run again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True)
class State:
    """Where a job stands and why: ``reason`` is one word, ``message`` the sentence of its Workload's condition."""

    phase: Phase
    reason: str = ""
    message: str = ""
    cluster_queue: str = ""
    workload: str = ""

    def __str__(self) -> str:
        where = f" in ClusterQueue {self.cluster_queue}" if self.cluster_queue else ""
        return f"{self.phase.value}{where}" + (f": {self.message}" if self.message else "")


def state_of(workload: Raw | None, events: Iterable[Raw] = ()) -> State:
    """The state of the job that has this Workload; of one that has none, with the newest warning among its events."""
    if workload is None:
        warnings = sorted((each for each in events if each.get("type") == "Warning"), key=_when)
        newest = warnings[-1] if warnings else {}
        return State(Phase.SUBMITTED, newest.get("reason", ""), newest.get("message", ""))
    phase, condition = _phase(workload)
    admission = (workload.get("status") or {}).get("admission") or {}
    return State(
        phase,
        condition.get("reason", ""),
        condition.get("message", ""),
        admission.get("clusterQueue", ""),
        workload["metadata"]["name"],
    )


def condition_of(workload: Raw, kind: str) -> Raw:
    """A condition of a Workload; empty where it has none of that type."""
    found = (workload.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def _phase(workload: Raw) -> tuple[Phase, Raw]:
    """The phase and the condition that says why."""
    finished, evicted, admitted, reserved = (
        condition_of(workload, kind) for kind in ("Finished", "Evicted", "Admitted", "QuotaReserved")
    )
    if _holds(finished):
        return (Phase.SUCCEEDED if finished["reason"] == "Succeeded" else Phase.FAILED), finished
    if _holds(evicted) and _holds(reserved):
        return Phase.STOPPING, evicted
    if _holds(admitted):
        return Phase.RUNNING, admitted
    if _holds(reserved):
        return Phase.RESERVED, admitted or reserved
    return Phase.WAITING, reserved


def _holds(condition: Raw) -> bool:
    return bool(condition.get("status") == "True")


def _when(event: Raw) -> str:
    metadata = event.get("metadata") or {}
    return str(event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp") or "")
