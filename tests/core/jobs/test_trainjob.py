"""A TrainJob, and the JobSet that the trainer makes of it, in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.actions import Delete, Patch, Target, Wait
from core.jobs import workload
from core.jobs.actions import Start
from core.jobs.decide import decide
from core.jobs.job_reader import Outcome
from core.jobs.kinds.jobset import JOB_SET
from core.jobs.kinds.trainjob import MANAGER, TRAIN_JOB
from core.jobs.situation import JobSituation
from core.jobs.template import Injection
from core.model import Admission, Key, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import decoded, read, with_status
from tests.core.jobs.test_jobset import job_set, replicated

MARKED = {"kueue.x-k8s.io/workload": "trainjob-t-1"}
OWNER = {
    "apiVersion": TRAIN_JOB.api_version,
    "kind": "TrainJob",
    "name": "t",
    "uid": "t-uid",
    "controller": True,
}


def made(annotations: Raw | None = None, *, active: int = 0) -> Raw:
    """The JobSet of the TrainJob: four nodes, after a start if its templates are annotated."""
    node = replicated("node", 1, annotations, parallelism=4, completions=4)
    status = {"replicatedJobsStatus": [{"name": "node", "active": active}]}
    return job_set(node, name="t", uid="set-uid", status=status, ownerReferences=[OWNER])


def train_job(status: Raw | None = None, **spec: Any) -> Raw:
    metadata = {"name": "t", "namespace": "ns", "uid": "t-uid", "resourceVersion": "5"}
    patches = [{"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}]
    base = {"suspend": True, "runtimeRef": {"name": "torch"}, "runtimePatches": patches}
    return {
        "apiVersion": TRAIN_JOB.api_version,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {**base, **spec},
        "status": status or {},
    }


NODES = Injection("node", 4, node_selector={"pool": "a"}, annotations=MARKED)


def running() -> Raw:
    (start,) = TRAIN_JOB.start(train_job(), [NODES], [made()])
    assert isinstance(start, Patch)
    return merged(train_job(), start.body)


def test_its_pod_sets_are_those_of_the_jobset_that_the_trainer_makes() -> None:
    assert TRAIN_JOB.pod_sets(train_job()) == []
    (found,) = TRAIN_JOB.pod_sets(train_job(), [made()])
    assert (found["name"], found["count"]) == ("node", 4)
    assert found["template"]["spec"]["containers"] == [{"name": "c", "image": "node"}]


def test_one_write_starts_it_with_a_patch_of_its_runtime() -> None:
    other = {"manager": "team.example.com/x", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    job = train_job()
    job["spec"]["runtimePatches"].insert(0, other)
    (start,) = TRAIN_JOB.start(job, [NODES], [made()])
    assert isinstance(start, Patch)
    pod = {
        "metadata": {"labels": {"kueue.x-k8s.io/job-uid": "t-uid"}, "annotations": MARKED},
        "spec": {"nodeSelector": {"pool": "a"}},
    }
    replicated = [{"name": "node", "template": {"spec": {"template": pod}}}]
    entry = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated}}}}
    assert start.body["spec"] == {"suspend": False, "runtimePatches": [other, entry]}


def test_a_stop_suspends_it_and_clears_its_entry_when_its_pods_are_gone() -> None:
    (suspend,) = TRAIN_JOB.stop(running(), [], [made(MARKED, active=1)])
    assert isinstance(suspend, Patch)
    assert suspend.body["spec"] == {"suspend": True}
    suspended = merged(running(), suspend.body)
    assert TRAIN_JOB.stop(suspended, [], [made(MARKED, active=1)]) == []
    cleared, deletion = TRAIN_JOB.stop(suspended, [], [made(MARKED)])
    assert isinstance(cleared, Patch)
    assert merged(suspended, cleared.body)["spec"] == train_job()["spec"]
    assert deletion == Delete("set-uid", Target(JOB_SET.resource, Key("ns", "t")))
    assert TRAIN_JOB.stop(train_job(), [], [made()]) == []
    assert TRAIN_JOB.stop(train_job(), [], []) == []


def test_it_has_the_entry_of_its_queue_from_the_beginning_beside_those_of_others() -> None:
    other = {"manager": "x"}
    (setting,) = TRAIN_JOB.defaults(train_job(runtimePatches=[other]), DEFAULTS.__getitem__)
    assert [each["manager"] for each in setting.value] == ["x", MANAGER]
    assert TRAIN_JOB.defaults(train_job(), DEFAULTS.__getitem__) == []


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([{"type": "Suspended", "status": "True"}], None),
        ([{"type": "Complete", "status": "True", "message": "done"}], Outcome(True, "done")),
        ([{"type": "Failed", "status": "True", "message": "too often"}], Outcome(False, "too often")),
    ],
    ids=["suspended", "complete", "failed"],
)
def test_how_it_ended(conditions: list[Raw], outcome: Outcome | None) -> None:
    assert TRAIN_JOB.finished(train_job({"conditions": conditions})) == outcome


def test_its_status_counts_jobs() -> None:
    def status(**counts: int) -> Raw:
        return train_job({"jobsStatus": [{"name": "node", **counts}]})

    assert TRAIN_JOB.active(status(active=1))
    assert not TRAIN_JOB.active(status(active=0))
    assert TRAIN_JOB.pods_ready(status(ready=1), [made()])
    assert not TRAIN_JOB.pods_ready(status(ready=0), [made()])
    assert not TRAIN_JOB.pods_ready(status(ready=1))
    assert TRAIN_JOB.reclaimable(status(succeeded=1), [made()]) == {"node": 4}
    assert TRAIN_JOB.reclaimable(status(succeeded=1)) == {}


@pytest.mark.parametrize("related", [(), (made(),)], ids=["its JobSet is made anew", "its JobSet is there"])
def test_an_admitted_job_waits_for_its_jobset_and_keeps_its_workload(related: tuple[Raw, ...]) -> None:
    job = train_job()
    raw = workload.manifest(TRAIN_JOB, job, {"spec": {"priority": 0}}, related=[made()])
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    admission = Admission("cq", (PodSetAssignment("node", {}, {}, 4),))
    raw = with_status(raw, read(raw), transitions.reserved(read(raw), admission, 1.0))
    found = decide(
        JobSituation(kind=TRAIN_JOB, job=job, now=9.0, workloads=(raw,), decoded=decoded(raw), related=related)
    )
    assert isinstance(found, Start if related else Wait)
