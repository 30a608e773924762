"""Which kinds of jobs run in another cluster, and what they look like there."""

from __future__ import annotations

import pytest

from api.names import MULTIKUEUE_CONTROLLER
from api.objects import Key, Raw
from core.jobs.fields import at, changed
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, POD
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB

ELSEWHERE = [kind for kind in ALL if kind.managed_by is not None]
WITHOUT_FIELD = [kind for kind in ALL if kind.may_run_in_worker and kind.managed_by is None]


def test_the_kinds_that_run_elsewhere() -> None:
    assert sorted(kind.kind for kind in ELSEWHERE) == [
        *("AppWrapper", "JAXJob", "Job", "JobSet", "MPIJob", "PaddleJob", "PyTorchJob"),
        *("RayCluster", "RayJob", "RayService", "TFJob", "TrainJob", "XGBoostJob"),
    ]
    assert WITHOUT_FIELD == [POD]


@pytest.mark.parametrize("kind", [each for each in ELSEWHERE if each is not BATCH_JOB], ids=lambda kind: kind.kind)
def test_a_worker_runs_the_job_with_its_own_controller_when_it_is_admitted(kind: JobKind) -> None:
    assert kind.managed_by is not None
    given: Raw = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "j"}, "spec": {}}
    here = changed(changed(given, kind.managed_by, MULTIKUEUE_CONTROLLER), *kind.release(given))
    there = kind.for_worker(here, [])
    assert (kind.manager(here), kind.manager(there)) == (MULTIKUEUE_CONTROLLER, "")
    assert kind.managed_by[-1] not in at(there, kind.managed_by[:-1])
    assert kind.held(there) and not kind.held(here)


@pytest.mark.parametrize("kind", ELSEWHERE, ids=lambda kind: kind.kind)
def test_a_job_gets_the_status_of_the_one_that_runs(kind: JobKind) -> None:
    given: Raw = {"metadata": {"name": "j"}, "spec": {}}
    here = changed(given, *kind.release(given))
    there = {**changed(given, *kind.release(given)), "status": {"state": "Running"}}
    assert kind.status_from_worker(here, there) == {"state": "Running"}


def test_the_cluster_that_a_ray_job_creates_in_a_worker_was_made_for_no_workload() -> None:
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue", "kueue.x-k8s.io/prebuilt-workload-name": "w"}
    ray_job: Raw = {"metadata": {"name": "j", "namespace": "ns", "uid": "u-j", "labels": labels}}
    owner = {"apiVersion": RAY_JOB.api_version, "kind": RAY_JOB.kind, "name": "j", "uid": "u-j", "controller": True}
    cluster: Raw = {"metadata": {"name": "j-x", "namespace": "ns", "labels": labels, "ownerReferences": [owner]}}
    assert (*RAY_JOB.workloads_of(ray_job),) == (Key("ns", "w"),)
    assert not RAY_CLUSTER.workloads_of(cluster)
