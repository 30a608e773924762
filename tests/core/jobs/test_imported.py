"""What the controller does about a job that an import has given quota to, if the import ended before its last write."""

from __future__ import annotations

from typing import Any

import pytest

from core.actions import Patch, Wait
from core.jobs.actions import DeleteWorkload, Stop, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.decide import decide
from core.jobs.imported import GATE, being_imported
from core.model import Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import ADMISSION, admitted, after, evicted, job, patches, situation, workload_of

QUEUE, GATED = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission-gated-by"
NAMED = {"metadata": {"uid": "job-uid", "labels": {QUEUE: "lq"}}}


def unnamed(*, suspend: bool = False, active: int = 3, **spec: Any) -> Raw:
    """A Job as it is before the last write of an import."""
    found = job(suspend=suspend, status={"active": active}, **spec)
    del found["metadata"]["labels"][QUEUE]
    return found


def begun() -> Raw:
    """Its Workload after the first write of an import."""
    found = workload_of(job())
    found["metadata"]["annotations"] = {GATED: GATE}
    return found


def counted() -> Raw:
    """Its Workload after the second write."""
    return after(begun(), lambda value: transitions.imported(value, ADMISSION, (), 500.0))


def test_a_job_that_waits_for_the_quota_of_an_import_runs_on() -> None:
    assert decide(situation(unnamed(), begun(), managed=False)) == Wait()
    assert decide(situation(unnamed(parallelism=5, completions=5), begun(), managed=False)) == Wait()


@pytest.mark.parametrize("managed", [False, True])
def test_a_job_with_the_quota_of_an_import_gets_its_queue_name(managed: bool) -> None:
    action = decide(situation(unnamed(), counted(), managed=managed))
    assert isinstance(action, Patch)
    assert action.body == NAMED


def test_then_its_workload_loses_the_gate_and_the_job_runs_on() -> None:
    raw, found = counted(), merged(unnamed(), NAMED)
    action = decide(situation(found, raw))
    assert isinstance(action, UpdateWorkload) and action.why == "gates"
    assert decide(situation(found, merged(raw, action.body))) == Wait()


def test_a_job_that_is_evicted_before_it_has_a_queue_name_is_stopped_and_waits_in_its_queue() -> None:
    raw, found = evicted(counted()), unnamed()
    steps = []
    while not isinstance(action := decide(situation(found, raw, managed=QUEUE in found["metadata"]["labels"])), Wait):
        match action:
            case UpdateWorkload() | UpdateWorkloadStatus():
                raw = merged(raw, action.body)
            case Patch():
                found = merged(found, action.body)
            case Stop():
                for patch in patches(action.steps):
                    found = merged(found, patch.body)
        if found["spec"]["suspend"]:
            found["status"] = {"active": 0, "conditions": [SUSPENDED]}
        steps.append(getattr(action, "why", "") or "stop")
    assert steps == ["gates", "stop", "imported", "release"]
    assert found["metadata"]["labels"][QUEUE] == raw["spec"]["queueName"] == "lq"
    assert raw["status"].get("admission") is None


SUSPENDED = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_job_that_was_scaled_meanwhile_is_queued_with_its_new_size() -> None:
    found = unnamed(parallelism=5, completions=5)
    action = decide(situation(found, counted(), managed=False))
    assert isinstance(action, Patch) and action.body == NAMED
    assert isinstance(decide(situation(merged(found, NAMED), counted())), Stop)


def test_a_job_that_has_ended_meanwhile_gives_its_quota_back() -> None:
    found = unnamed(active=0)
    found["status"]["conditions"] = [{"type": "Complete", "status": "True", "message": "done"}]
    assert isinstance(decide(situation(found, counted(), managed=False)), DeleteWorkload)


def test_quota_that_no_import_gave_names_no_queue() -> None:
    """Its owner has removed the queue name."""
    for raw in (
        admitted(workload_of(job())),
        after(evicted(counted()), lambda value: transitions.released(value, 700.0)),
    ):
        action = decide(situation(unnamed(suspend=True, active=0), raw, managed=False))
        assert not isinstance(action, Patch) or action.why != "imported"


def test_the_gate_of_a_job_is_no_mark_of_an_import_when_it_has_quota() -> None:
    assert being_imported(begun())
    assert not being_imported(counted())
    assert not being_imported(merged(begun(), {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
