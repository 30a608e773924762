"""A job that runs may get a queue name only if it is that of its admitted Workload, which an import has created."""

from __future__ import annotations

import pytest

from api.names import Label
from core.model import Condition, Key, Raw, Workload
from core.state.lookup import Lookup
from tests.webhook.cluster import ask, cluster, job, review_of

REFUSED = "field is immutable while the job runs"
PATHS = {"Job": "/validate-batch-v1-job", "Pod": "/validate--v1-pod"}


def knows(queue: str, *true: str) -> Lookup:
    conditions = tuple(Condition(kind, True, "", "") for kind in true)
    workload = Workload(Key("team-a", "w"), "w", 0.0, queue, 0, (), conditions)
    return cluster(workloads={"job-1": workload} if queue else {})


def pod(labels: Raw | None) -> Raw:
    metadata = {"name": "p", "namespace": "team-a", "labels": labels or {}}
    spec = {"containers": [{"name": "main", "image": "i"}], "nodeName": "n"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def said(kind: str, lookup: Lookup, before: str, after: str) -> str:
    """What is said when a running job with the first queue name gets the second; '' where that is allowed."""

    def of(queue: str) -> Raw:
        labels = {Label.QUEUE_NAME: queue} if queue else {}
        made = job(labels=labels) if kind == "Job" else pod({**labels, Label.MANAGED: "true"} if queue else None)
        return {**made, "metadata": {**made["metadata"], "uid": "job-1"}}

    response = ask(PATHS[kind], review_of(of(after), old=of(before), resource=f"{kind.lower()}s"), knows=lookup)
    return str(response.get("status", {}).get("message", ""))


@pytest.mark.parametrize("kind", PATHS)
def test_a_job_that_runs_gets_the_queue_name_of_its_admitted_workload(kind: str) -> None:
    assert said(kind, knows("main", "QuotaReserved", "Admitted"), "", "main") == ""


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize(
    ("lookup", "before", "after"),
    [
        (knows("", "Admitted"), "", "main"),
        (knows("main"), "", "main"),
        (knows("main", "QuotaReserved"), "", "main"),
        (knows("main", "QuotaReserved", "Admitted", "Finished"), "", "main"),
        (knows("main", "QuotaReserved", "Admitted"), "", "other"),
        (knows("main", "QuotaReserved", "Admitted"), "other", "main"),
    ],
    ids=["no workload", "it waits", "it waits for checks", "finished", "another queue", "it has a queue name"],
)
def test_it_gets_no_other_queue_name(kind: str, lookup: Lookup, before: str, after: str) -> None:
    assert REFUSED in said(kind, lookup, before, after)
