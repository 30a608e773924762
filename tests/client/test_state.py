"""Where a job stands, by the conditions of its Workload."""

from __future__ import annotations

from typing import Any

import pytest

from seiretsu.client.state import Phase, State, state_of

Raw = dict[str, Any]


def workload(*conditions: tuple[str, str, str, str], queue: str = "") -> Raw:
    status: Raw = {
        "conditions": [
            {"type": kind, "status": holds, "reason": reason, "message": message}
            for kind, holds, reason, message in conditions
        ]
    }
    if queue:
        status["admission"] = {"clusterQueue": queue}
    return {"metadata": {"name": "w"}, "spec": {}, "status": status}


WAITS = ("QuotaReserved", "False", "Pending", "2 more cpu needed")
RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue main")
ADMITTED = ("Admitted", "True", "Admitted", "The workload is admitted")
EVICTED = ("Evicted", "True", "Preempted", "Preempted to accommodate a workload")


@pytest.mark.parametrize(
    ("conditions", "phase", "message"),
    [
        ((), Phase.WAITING, ""),
        ((WAITS,), Phase.WAITING, "2 more cpu needed"),
        ((RESERVED,), Phase.RESERVED, "Quota reserved in ClusterQueue main"),
        ((RESERVED, ADMITTED), Phase.RUNNING, "The workload is admitted"),
        ((RESERVED, ADMITTED, EVICTED), Phase.STOPPING, "Preempted to accommodate a workload"),
        ((WAITS, EVICTED), Phase.WAITING, "2 more cpu needed"),
        ((RESERVED, ADMITTED, ("Finished", "True", "Succeeded", "done")), Phase.SUCCEEDED, "done"),
        ((RESERVED, ADMITTED, ("Finished", "True", "Failed", "broken")), Phase.FAILED, "broken"),
        ((WAITS, ("Finished", "True", "OwnerNotFound", "gone")), Phase.FAILED, "gone"),
    ],
)
def test_the_phase_and_its_sentence_follow_from_the_conditions(conditions: Any, phase: Phase, message: str) -> None:
    found = state_of(workload(*conditions))
    assert (found.phase, found.message) == (phase, message)
    assert found.phase.ended is (phase in (Phase.SUCCEEDED, Phase.FAILED))


def test_a_job_without_workload_is_told_by_the_newest_warning_about_it() -> None:
    events = [
        {"type": "Warning", "reason": "New", "message": "no queue", "lastTimestamp": "2026-01-01T00:00:09Z"},
        {"type": "Warning", "reason": "Old", "message": "old", "lastTimestamp": "2026-01-01T00:00:01Z"},
        {"type": "Normal", "reason": "Suspended", "message": "-", "lastTimestamp": "2026-01-01T00:00:10Z"},
    ]
    assert state_of(None, events) == State(Phase.SUBMITTED, "New", "no queue")
    assert state_of(None) == State(Phase.SUBMITTED)


def test_it_reads_as_one_sentence() -> None:
    assert str(state_of(workload(WAITS))) == "waiting: 2 more cpu needed"
    assert str(state_of(workload(RESERVED, ADMITTED, queue="main"))) == (
        "running in ClusterQueue main: The workload is admitted"
    )
