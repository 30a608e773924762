"""The observer notices each rule that is broken: it is of use only if it can fail."""

from __future__ import annotations

import pytest

from api.objects import Raw
from tests.observer import Change, judge


def workload(name: str, job: str, *true: str, cpu: str = "2") -> Raw:
    given = {"podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": cpu}}]}
    conditions = [{"type": kind, "status": "True"} for kind in true]
    metadata = {"name": name, "uid": f"wl-{name}", "labels": {"kueue.x-k8s.io/job-uid": job}}
    return {"metadata": metadata, "status": {"admission": given, "conditions": conditions}}


def job(uid: str, *, suspend: bool) -> Raw:
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    return {"metadata": {"name": uid, "uid": uid, "labels": labels}, "spec": {"suspend": suspend}, "status": {}}


def pod(name: str, job: str, phase: str = "Running") -> Raw:
    containers = [{"resources": {"requests": {"cpu": "1500m"}}}]
    metadata = {"name": name, "uid": name, "labels": {"batch.kubernetes.io/controller-uid": job}}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}}


HELD = ("QuotaReserved", "Admitted")
WAITS, ADMITTED = ("workloads", workload("a", "j")), ("workloads", workload("a", "j", *HELD))
CASES: dict[str, tuple[list[tuple[str, Raw]], str]] = {
    "a job that waits, starts and ends": (
        [
            *[
                ("jobs", job("j", suspend=True)),
                WAITS,
                ADMITTED,
                ("jobs", job("j", suspend=False)),
                ("pods", pod("p", "j")),
            ],
            *[("pods", pod("p", "j", "Succeeded")), ("workloads", workload("a", "j", *HELD, "Finished"))],
            *[("workloads", workload("b", "k", *HELD))],
        ],
        "",
    ),
    "more is reserved than there is": (
        [ADMITTED, ("workloads", workload("b", "k", "QuotaReserved", cpu="500m"))],
        "2.5 cpu are reserved of 2",
    ),
    "more pods run than there is quota for": (
        [ADMITTED, ("pods", pod("p", "j")), ("pods", pod("q", "j", "Pending"))],
        "pods of 3 cpu run on a quota of 2",
    ),
    "two Workloads of one job": (
        [("workloads", workload(name, "j", *HELD, cpu="1")) for name in "ab"],
        "two Workloads hold quota for the job j",
    ),
    "a job runs that waits": ([WAITS, ("jobs", job("j", suspend=False))], "the job runs, and has no admitted Workload"),
    "a job runs whose Workload is finished": (
        [("workloads", workload("a", "j", *HELD, "Finished")), ("jobs", job("j", suspend=False))],
        "the job runs, and has no admitted Workload",
    ),
}


@pytest.mark.parametrize(("states", "broken"), CASES.values(), ids=CASES.keys())
def test_it_notices(states: list[tuple[str, Raw]], broken: str) -> None:
    changes = [Change(version, resource, deleted=False, raw=raw) for version, (resource, raw) in enumerate(states)]
    found = judge(changes[::-1], 2).broken
    assert [each.partition(": ")[2] for each in found][-1:] == ([broken] if broken else [])


def test_it_counts_admissions_and_the_most_that_was_reserved() -> None:
    states = [WAITS, ADMITTED, ADMITTED, WAITS, ADMITTED]
    verdict = judge([Change(n, resource, deleted=False, raw=raw) for n, (resource, raw) in enumerate(states)], 2)
    assert (verdict.broken, verdict.admitted, verdict.most) == ([], {"a": 2}, 2.0)
