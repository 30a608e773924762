"""Elastic jobs in other clusters: fewer pods are forwarded, a larger slice takes over the job in the same worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.names import CheckState
from api.objects import Key, Raw
from core.actions import Create, Patch, Wait
from core.model import Workload
from core.model.workload import replace as other
from core.multikueue import here
from core.multikueue.group import Group, Worker
from core.multikueue.there import decide
from core.wire import decode
from core.wire.decode import WorkloadContext
from tests.core.multikueue.groups import POD_SETS, copy, group, job, there, word, workload

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
OLD = "job-j-old"


def sized(pods: int) -> Raw:
    """The spec of a Workload of so many pods."""
    return {"podSets": [{**POD_SETS[0], "count": pods}]}


def elastic(found: Raw, pods: int) -> Raw:
    """An elastic Job, here or in a worker, of so many pods."""
    metadata = {**found["metadata"], "annotations": {**found["metadata"].get("annotations", {}), **ELASTIC}}
    return {**found, "metadata": metadata, "spec": {**found["spec"], "parallelism": pods}}


def named(found: Raw, name: str, **more: str) -> Raw:
    """The Job in a worker, which names this Workload."""
    labels = {**found["metadata"]["labels"], "kueue.x-k8s.io/prebuilt-workload-name": name, **more}
    annotations = {**found["metadata"].get("annotations", {}), "kueue.x-k8s.io/prebuilt-workload-name": name}
    return {**found, "metadata": {**found["metadata"], "labels": labels, "annotations": annotations}}


def slice_of(pods: int, *, jobs: int, replaces: str = "", **given: Any) -> Group:
    """A slice of so many pods of a Job that has ``jobs`` pods; ``given`` as for ``group``."""
    made = group(of_job=elastic(job(suspend=False), jobs), **given)
    assert made.raw is not None and made.local is not None
    notes = ELASTIC | ({"kueue.x-k8s.io/workload-slice-replacement-for": f"ns/{replaces}"} if replaces else {})
    raw = {
        **made.raw,
        "metadata": {**made.raw["metadata"], "annotations": notes},
        "spec": {**made.raw["spec"], **sized(pods)},
    }
    local = decode.workload(raw, WorkloadContext())
    return replace(made, raw=raw, local=local)


def slice_there(pods: int, **found: Any) -> Raw:
    """The copy of a slice of so many pods."""
    raw = copy(spec=sized(pods), **found)
    return {**raw, "metadata": {**raw["metadata"], "annotations": ELASTIC}}


def old_slice(cluster: str = "w1", *, finished: str = "", held: bool = True) -> Workload:
    """The slice that is replaced."""
    conditions: dict[str, Any] = {"Finished": f"True/{finished}"} if finished else {}
    found = group(check=CheckState.READY, cluster=cluster, held=held, **conditions).local
    assert found is not None
    return other(found, key=Key("ns", OLD))


LARGER = slice_of(3, jobs=3, replaces=OLD, cluster="w1")


def test_fewer_pods_reach_the_copy_and_then_the_job_in_its_worker() -> None:
    given = slice_of(2, jobs=2, check=CheckState.READY, cluster="w1")
    remote = elastic(there(suspend=False), 3)
    first = decide(given, Worker("w1", workload=slice_there(3, Admitted="True"), jobs=(remote,)))
    assert isinstance(first, Patch) and first.target is None and first.body["spec"] == sized(2)
    then = decide(given, Worker("w1", workload=slice_there(2, Admitted="True"), jobs=(remote,)))
    assert isinstance(then, Patch) and then.why == "forward" and then.body["spec"] == {"parallelism": 2}
    smaller = elastic(there(suspend=False), 2)
    assert decide(given, Worker("w1", workload=slice_there(2, Admitted="True"), jobs=(smaller,))) == Wait()


def test_more_pods_than_the_slice_is_for_do_not_reach_the_worker() -> None:
    given = slice_of(2, jobs=5, check=CheckState.READY, cluster="w1")
    remote = elastic(there(suspend=False), 2)
    assert decide(given, Worker("w1", workload=slice_there(2, Admitted="True"), jobs=(remote,))) == Wait()


@pytest.mark.parametrize("pod_sets", [sized(1), {"podSets": [{**POD_SETS[0], "count": 3, "name": "other"}]}])
def test_a_copy_that_differs_otherwise_is_withdrawn(pod_sets: Raw) -> None:
    given = slice_of(2, jobs=2, check=CheckState.READY, cluster="w1")
    found = {**slice_there(3, Admitted="True"), "spec": {**workload()["spec"], **pod_sets}}
    assert word(decide(given, Worker("w1", workload=found))) == "withdraw"


def test_a_job_that_is_not_elastic_is_withdrawn_when_it_has_fewer_pods() -> None:
    given = group(check=CheckState.READY, cluster="w1")
    assert word(decide(given, Worker("w1", workload=copy(spec=sized(3), Admitted="True")))) == "withdraw"


def test_a_larger_slice_goes_to_the_worker_that_has_the_job() -> None:
    waits = replace(slice_of(3, jobs=3, replaces=OLD), replaced=old_slice("w2"))
    found = here.decide(waits)
    assert isinstance(found, Patch) and found.body["status"]["clusterName"] == "w2"
    assert found.body["status"]["nominatedClusterNames"] is None


def test_it_waits_while_no_worker_has_the_job() -> None:
    waits = replace(slice_of(3, jobs=3, replaces=OLD, nominated=()), replaced=old_slice(""))
    assert here.decide(waits) == Wait()


@pytest.mark.parametrize("old", [None, old_slice("", held=False), old_slice("w1", finished="Succeeded")])
def test_it_is_offered_like_any_other_if_no_worker_can_have_the_job(old: Workload | None) -> None:
    found = here.decide(replace(slice_of(3, jobs=3, replaces=OLD, nominated=()), replaced=old))
    assert isinstance(found, Patch) and found.body["status"]["nominatedClusterNames"] == ["w1", "w2"]


def test_only_that_worker_gets_its_copy() -> None:
    found = decide(LARGER, Worker("w1"))
    assert isinstance(found, Create)
    assert found.manifest["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"] == f"ns/{OLD}"
    assert decide(LARGER, Worker("w2")) == Wait()
    assert here.decide(replace(LARGER, workers=(Worker("w1", workload=slice_there(3)), Worker("w2")))) == Wait()


def test_when_the_worker_admits_it_the_job_there_gets_its_name_and_its_pods() -> None:
    former = named(elastic(there(suspend=False), 1), OLD, own="label")
    admitted = Worker("w1", workload=slice_there(3, Admitted="True"), former=former)
    found = decide(LARGER, admitted)
    assert isinstance(found, Patch) and found.why == "forward" and LARGER.raw is not None
    name = LARGER.raw["metadata"]["name"]
    assert found.body["spec"] == {"parallelism": 3}
    assert found.body["metadata"]["labels"] == {"kueue.x-k8s.io/prebuilt-workload-name": name}
    assert found.body["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] == name
    ready = here.decide(replace(LARGER, workers=(admitted,)))
    assert isinstance(ready, Patch) and ready.after is not None
    assert (ready.why, ready.after.cluster_name) == ("admit", "w1")


def test_the_job_there_gets_the_size_of_the_slice_while_the_job_here_has_another_one_again() -> None:
    """Grown from 1 to 3 and then to 5: the quota for 3 is used although there may never be any for 5."""
    former = named(elastic(there(suspend=False), 1), OLD)
    grows = slice_of(3, jobs=5, replaces=OLD, cluster="w1")
    found = decide(grows, Worker("w1", workload=slice_there(3, Admitted="True"), former=former))
    assert isinstance(found, Patch) and found.why == "forward" and grows.raw is not None
    assert found.body["spec"] == {"parallelism": 3}
    assert found.body["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] == grows.raw["metadata"]["name"]
    taken = named(elastic(there(suspend=False), 3), grows.raw["metadata"]["name"])
    assert decide(grows, Worker("w1", workload=slice_there(3, Admitted="True"), jobs=(taken,))) == Wait()


def test_a_slice_that_was_replaced_leaves_the_worker_as_it_is() -> None:
    done = slice_of(1, jobs=3, check=CheckState.READY, cluster="w1", Finished="True/WorkloadSliceReplaced")
    remote = elastic(there(suspend=False), 1)
    assert decide(done, Worker("w1", workload=slice_there(1, Admitted="True"), jobs=(remote,))) == Wait()
    ended = slice_of(1, jobs=3, check=CheckState.READY, cluster="w1", Finished="True/Succeeded")
    assert word(decide(ended, Worker("w1", workload=slice_there(1, Admitted="True"), jobs=(remote,)))) == "withdraw"


def test_a_slice_that_the_worker_has_replaced_waits_for_the_one_that_replaces_it() -> None:
    old = slice_of(1, jobs=3, check=CheckState.READY, cluster="w1")
    gone = Worker("w1", workload=slice_there(1, Admitted="True", Finished="True/WorkloadSliceReplaced"))
    waits = replace(old, workers=(gone,), successor=LARGER.local)
    assert here.decide(waits) == Wait()
    again = here.decide(replace(waits, successor=None))
    assert isinstance(again, Patch) and again.why == "retry"
