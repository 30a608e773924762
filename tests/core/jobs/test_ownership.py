"""Owner references decide nothing about a job of any kind that has quota of its own: every user can write them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from core.actions import Delete
from core.jobs import workload
from core.jobs.actions import Start, Stop, UpdateWorkloadStatus
from core.jobs.decide import decide
from core.jobs.job_reader import Outcome
from core.jobs.kind import JobKind
from core.jobs.kinds import POD, POD_GROUP
from core.jobs.situation import JobSituation
from core.model import Admission, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import CLASSES, FLAVORS, NOW, after, decoded, evicted
from tests.core.jobs.test_kinds import EXAMPLES, RELATED
from tests.core.jobs.test_pod import pod
from tests.core.jobs.test_pod_group import group, three

JOBS: dict[JobKind, Raw] = {**EXAMPLES, POD: pod(), POD_GROUP: group(*three())}
EACH = pytest.mark.parametrize("kind", JOBS, ids=lambda kind: type(kind).__name__ + kind.kind)
OWNERS: list[Raw] = [
    {"ancestor_admitted": admitted, "owner_unread": unread, "nested_wrongly": wrongly}
    for admitted, unread, wrongly in product([None, True, False], [True, False], ["", "owns itself"])
]
"""All that may be known of the owners of a job, as a tenant may have chosen them."""


def reserved(raw: Raw) -> Raw:
    pod_sets = tuple(
        PodSetAssignment(each["name"], {"cpu": "spot"}, {"cpu": 1000}, each["count"]) for each in raw["spec"]["podSets"]
    )
    return after(raw, lambda value: transitions.reserved(value, Admission("cq", pod_sets), 500.0))


def deactivated(raw: Raw) -> Raw:
    return evicted(merged(raw, {"spec": {"active": False}}), "Deactivated", "by an administrator")


STATES: dict[str, Callable[[Raw], Raw]] = {
    "reserved": lambda raw: raw,
    "evicted": evicted,
    "deactivated": deactivated,
    "deleted": lambda raw: merged(raw, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
}


def situation(kind: JobKind, found: Raw, *workloads: Raw, **more: Any) -> JobSituation:
    related = RELATED.get(kind, ())
    given: Raw = {"flavors": FLAVORS, "classes": CLASSES, "decoded": decoded(*workloads), "related": related, **more}
    return JobSituation(kind=kind, job=found, now=NOW, workloads=workloads, **given)


def holding(kind: JobKind) -> Raw:
    raw = copy.deepcopy(workload.manifest(kind, JOBS[kind], {"spec": {"priority": 0}}, related=RELATED.get(kind, ())))
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    return reserved(raw)


def written(found: Raw, writes: Sequence[Any]) -> Raw:
    """The job after the writes of a start or stop that concern itself."""
    for each in writes:
        if isinstance(each, Delete) or (each.target is not None and "members" not in found):
            continue
        if each.target is None:
            found = merged(found, each.body)
        else:
            members = [
                merged(pod, each.body) if pod["metadata"]["name"] == each.target.key.name else pod
                for pod in found["members"]
            ]
            found = {**found, **members[0], "members": members}
    return found


def running(kind: JobKind) -> Raw:
    start = decide(situation(kind, JOBS[kind], holding(kind)))
    assert isinstance(start, Start)
    return written(JOBS[kind], start.steps)


@EACH
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("runs", [True, False], ids=["runs", "does not run yet"])
def test_owners_change_nothing_of_a_job_that_has_quota(kind: JobKind, state: str, runs: bool) -> None:
    found, raw = running(kind) if runs else JOBS[kind], STATES[state](holding(kind))
    decided = decide(situation(kind, found, raw))
    for forged in OWNERS:
        assert decide(situation(kind, found, raw, **forged)) == decided, forged


@EACH
@pytest.mark.parametrize("state", ["evicted", "deactivated", "deleted"])
def test_a_job_stops_for_its_own_workload_whatever_its_owners_and_its_queue_name_are(kind: JobKind, state: str) -> None:
    found, raw = running(kind), STATES[state](holding(kind))
    for forged in ({"ancestor_admitted": True}, {"owner_unread": True}, {"managed": False}):
        assert isinstance(decide(situation(kind, found, raw, **forged)), Stop), forged


@EACH
def test_a_job_that_ended_below_a_forged_owner_finishes_its_workload(kind: JobKind) -> None:
    found, raw = running(kind), holding(kind)
    ended = situation(kind, found, raw, ancestor_admitted=True, ancestor_uid="u")
    vars(ended)["outcome"] = Outcome(True, "done")
    action = decide(ended)
    assert isinstance(action, UpdateWorkloadStatus) and action.why == "finish"
