"""What is written in a worker: one case for each rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import CheckState
from api.objects import Raw
from core.actions import Create, Delete, Patch, Writes
from core.multikueue.group import Group, Worker
from core.multikueue.there import decide
from tests.core.multikueue.groups import copy, group, job, manifests, there, withdrawn, word

READY = CheckState.READY


def on(
    *, jobs: tuple[Raw, ...] = (), spec: Raw | None = None, owned: bool = False, origin: str = "", **found: str
) -> Worker:
    return Worker("w1", workload=copy(spec=spec, owned=owned, origin=origin, **found), jobs=jobs)


def unnamed(worker: Worker) -> Worker:
    """The worker, which the MultiKueueConfig does not name."""
    return replace(worker, configured=False)


NONE = Worker("w1")
GONE = replace(group(), local=None, raw=None, check=None, job=None)
CASES: dict[str, tuple[Group, Worker, str]] = {
    "a nominated worker gets the Workload": (group(), NONE, "offer"),
    "it gets it once": (group(), on(), ""),
    "a worker that is not nominated gets nothing": (group(nominated=("w2",)), NONE, ""),
    "a worker that is not nominated any more loses it": (group(nominated=("w2",)), on(), "withdraw"),
    "a nominated worker that the MultiKueueConfig does not name gets nothing": (group(), unnamed(NONE), ""),
    "a nominated worker that the MultiKueueConfig does not name any more loses it": (
        group(),
        unnamed(on(Admitted="True")),
        "withdraw",
    ),
    "when the list of nominated workers is emptied all lose it": (group(nominated=()), on(Admitted="True"), "withdraw"),
    "nothing is written to a worker that is not connected": (group(), Worker("w1", connected=False), ""),
    "nothing is offered before the other checks are ready": (group(other=CheckState.PENDING), NONE, ""),
    "a worker that admits it gets no job before it is chosen": (group(), on(Admitted="True"), ""),
    "the chosen worker gets the job": (group(check=READY, cluster="w1"), on(Admitted="True"), "begin"),
    "the chosen worker gets the job once": (
        group(check=READY, cluster="w1"),
        on(Admitted="True", jobs=(there(),)),
        "",
    ),
    "the others lose the Workload": (group(check=READY, cluster="w2"), on(Admitted="True"), "withdraw"),
    "the chosen worker gets no job while it does not admit it": (
        group(check=READY, cluster="w1"),
        on(Admitted="False"),
        "",
    ),
    "a deleted Workload is withdrawn with its job": (GONE, on(jobs=(there(),)), "withdraw 1 job"),
    "a job whose Workload is gone is withdrawn": (GONE, Worker("w1", jobs=(there(),)), "withdraw 1 job"),
    "a finished Workload is withdrawn": (group(Finished="True"), on(Finished="True/Succeeded"), "withdraw"),
    "a Workload without quota is withdrawn": (group(held=False), on(), "withdraw"),
    "a copy whose job was deleted there stays until that is known here": (
        group(check=READY, cluster="w1"),
        on(Admitted="True", Finished="True/OwnerNotFound"),
        "",
    ),
    "a copy whose job was deleted there is withdrawn when the Workload waits again": (
        group(),
        on(Finished="True/OwnerNotFound"),
        "withdraw",
    ),
    "a job whose Workload has no check any more runs on": (
        group(check=None, cluster="w1"),
        on(Admitted="True", jobs=(there(),)),
        "",
    ),
    "without a check the other workers lose the Workload": (
        group(check=None, cluster="w2"),
        on(Admitted="True"),
        "withdraw",
    ),
    "without a check it is offered to no worker": (group(check=None), on(Admitted="True"), "withdraw"),
    "without a check and without quota it is withdrawn": (
        group(check=None, held=False),
        on(jobs=(there(),)),
        "withdraw 1 job",
    ),
    "a job without a check that was evicted here is deactivated in its worker": (
        group(check=None, Evicted="True", nominated=()),
        on(Admitted="True", jobs=(there(),)),
        "deactivate",
    ),
    "a rejected Workload is withdrawn": (group(check=CheckState.REJECTED), on(), "withdraw"),
    "a Workload that was evicted here is deactivated in its worker": (
        group(Evicted="True", nominated=()),
        on(Admitted="True", jobs=(there(),)),
        "deactivate",
    ),
    "it is deactivated once": (
        group(Evicted="True", nominated=()),
        on(Admitted="True", DeactivationTarget="True", jobs=(there(),)),
        "",
    ),
    "a Workload that was evicted here before its job ran is withdrawn": (
        group(Evicted="True", nominated=()),
        on(Admitted="True"),
        "withdraw",
    ),
    "the copy of an earlier Workload of that name is withdrawn with its job": (
        group(),
        on(origin="u-earlier", Finished="True/Succeeded", jobs=(there(),)),
        "withdraw 1 job",
    ),
    "the copy of an earlier Workload that the chosen worker has is withdrawn": (
        group(check=READY, cluster="w1"),
        on(origin="u-earlier", Admitted="True"),
        "withdraw",
    ),
    "a copy that names this Workload stays": (group(), on(origin="u-w"), ""),
    "a copy of another spec is withdrawn": (group(), on(spec={"queueName": "other"}), "withdraw"),
    "another priority is changed in place": (group(), on(spec={"priority": 7}), "follow"),
    "a copy that was deactivated for an earlier eviction is withdrawn": (
        group(),
        on(spec={"active": False}, Evicted="True"),
        "withdraw",
    ),
    "a running job whose Workload is deactivated here waits for the eviction": (
        group(check=READY, cluster="w1", spec={"active": False}),
        on(Admitted="True", jobs=(there(),)),
        "",
    ),
    "a running job whose copy is deactivated in its worker waits for the eviction there": (
        group(check=READY, cluster="w1"),
        on(spec={"active": False}, Admitted="True", jobs=(there(),)),
        "",
    ),
    "a copy that waits and is deactivated in its worker is withdrawn": (
        group(),
        on(spec={"active": False}),
        "withdraw",
    ),
    "a copy that its worker evicted stays until that is known here": (
        group(check=READY, cluster="w1"),
        on(spec={"active": False}, Evicted="True", jobs=(there(),)),
        "",
    ),
}


def summary(given: Group, worker: Worker) -> str:
    action = decide(given, worker)
    jobs = len(withdrawn(action)[0]) if word(action) == "withdraw" else 0
    return word(action) + (f" {jobs} job" if jobs else "")


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_there(case: str) -> None:
    given, worker, wanted = CASES[case]
    assert summary(given, worker) == wanted


def test_the_copy_has_the_spec_and_the_origin_and_no_owner() -> None:
    given = group()
    action = decide(given, NONE)
    assert isinstance(action, Create) and given.raw is not None
    metadata = action.manifest["metadata"]
    assert action.manifest["spec"] == given.raw["spec"]
    assert metadata["labels"] == {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    assert metadata["annotations"] == {"kueue.x-k8s.io/multikueue-origin-uid": "u-w"}
    assert sorted(metadata) == ["annotations", "labels", "name", "namespace"]


def test_the_job_there_names_its_workload_and_is_as_before_a_start_here() -> None:
    started = job(suspend=False)
    template = {
        "metadata": {"labels": {"controller-uid": "u-j"}},
        "spec": {**started["spec"]["template"]["spec"], "nodeSelector": {"pool": "here"}},
    }
    started = {**started, "spec": {**started["spec"], "template": template, "selector": {"matchLabels": {"a": "b"}}}}
    given = group(check=READY, cluster="w1", of_job=started)
    action = decide(given, on(Admitted="True"))
    assert isinstance(action, Writes) and action.why == "begin" and given.raw is not None
    (made,) = manifests(action)
    name = given.raw["metadata"]["name"]
    assert made["metadata"]["labels"] == {
        "team": "a",
        "kueue.x-k8s.io/prebuilt-workload-name": name,
        "kueue.x-k8s.io/multikueue-origin": "multikueue",
    }
    assert made["spec"]["suspend"] is True
    assert not {"managedBy", "selector"} & made["spec"].keys()
    assert "nodeSelector" not in made["spec"]["template"]["spec"]
    assert not made["spec"]["template"].get("metadata", {}).get("labels")


@pytest.mark.parametrize("owned", [False, True], ids=["no job has adopted it", "its job runs there"])
def test_the_finalizer_of_a_copy_is_left_to_a_worker_that_runs_its_job(owned: bool) -> None:
    action = decide(GONE, on(owned=owned))
    assert isinstance(action, Writes) and action.why == "withdraw"
    assert [type(each) for each in action.steps] == ([Delete] if owned else [Patch, Delete])
