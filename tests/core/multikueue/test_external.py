"""Kinds of other vendors in other clusters: only ``spec.managedBy`` and ``status`` are known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Raw, Resource
from core.actions import Patch, Wait, Writes
from core.jobs.external import External, plural
from core.multikueue import here
from core.multikueue.group import Group, Worker
from core.multikueue.there import decide
from tests.core.multikueue.groups import copy, group, manifests

KIND = External("PipelineRun.v1.tekton.dev")


def run(managed_by: str = MULTIKUEUE_CONTROLLER, status: Raw | None = None) -> Raw:
    owners = [{"apiVersion": "example.com/v1", "kind": "Owner", "name": "o", "uid": "u-o"}]
    metadata = {"name": "r", "namespace": "ns", "uid": "u-r", "resourceVersion": "4", "ownerReferences": owners}
    return {
        "metadata": metadata,
        "spec": {"managedBy": managed_by, "tasks": [1]},
        **({"status": status} if status else {}),
    }


def of_run(job: Raw, **given: str) -> Group:
    made = group(check=given.get("check", CheckState.READY), cluster=given.get("cluster", "w1"))
    return replace(made, kind=KIND, job=job)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("PipelineRun", "pipelineruns"), ("Policy", "policies"), ("Process", "processes"), ("Job", "jobs")],
)
def test_the_resource_has_the_usual_plural(kind: str, wanted: str) -> None:
    assert plural(kind) == wanted
    assert External(f"{kind}.v1.example.com").resource == Resource("example.com", "v1", wanted, kind)


def test_the_job_in_the_worker_is_run_by_its_own_controller_and_has_no_owner() -> None:
    found = decide(of_run(run()), Worker("w1", workload=copy(Admitted="True")))
    assert isinstance(found, Writes) and found.why == "begin"
    (made,) = manifests(found)
    assert (made["apiVersion"], made["kind"], made["spec"]) == ("tekton.dev/v1", "PipelineRun", {"tasks": [1]})
    assert made["metadata"].keys() == {"name", "namespace", "labels", "annotations"}


def test_its_whole_status_is_shown_here() -> None:
    status = {"conditions": [{"type": "Succeeded", "status": "Unknown"}]}
    remote = run("", status)
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(remote,))
    found = here.decide(replace(of_run(run()), workers=(worker,)))
    assert (
        isinstance(found, Patch)
        and found.why == "copy"
        and found.target is not None
        and found.target.resource == KIND.resource
    )
    assert found.body["status"] == status
    bare = replace(worker, jobs=(run(""),))
    assert here.decide(replace(of_run(run(status=status)), workers=(bare,))) == Wait()


def test_a_job_that_another_controller_runs_is_rejected() -> None:
    found = here.decide(of_run(run("another"), check=CheckState.PENDING, cluster=""))
    assert isinstance(found, Patch) and found.why == "reject"


@pytest.mark.parametrize(
    ("check", "cluster", "wanted"),
    [(CheckState.READY, "w1", "retry"), (CheckState.PENDING, "", None)],
    ids=["while it runs there", "while it waits again, and its copy was not withdrawn completely"],
)
def test_it_is_not_finished_when_it_was_only_deleted_there(check: str, cluster: str, wanted: str | None) -> None:
    left = Worker("w1", workload=copy(Admitted="True", Finished="True/OwnerNotFound"))
    found = here.decide(replace(of_run(run(), check=check, cluster=cluster), workers=(left, Worker("w2"))))
    assert (found.why if isinstance(found, Patch) and found.after is not None else None) == wanted


def test_it_is_finished_with_its_workload_there() -> None:
    worker = Worker("w1", workload=copy(Admitted="True", Finished="True/Succeeded"), jobs=(run(""),))
    found = here.decide(replace(of_run(run()), workers=(worker,)))
    assert isinstance(found, Patch) and found.why == "finish"
