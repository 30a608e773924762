"""StatefulSets in other clusters: the object is created there, its pods here wait, and its status here is its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.names import CheckState, Condition
from api.objects import Key, Raw
from core.actions import Patch, Wait, Writes
from core.jobs.leader_worker_sets import name
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.jobs.pod_owners import LEADER_WORKER_SET, STATEFUL_SET
from core.model import Workload
from core.model.workload import replace as fields
from core.multikueue import here
from core.multikueue.group import Group, Worker
from core.multikueue.siblings import Siblings
from core.multikueue.there import decide
from tests.core.multikueue.groups import NOW, copy, group, manifests, uids, withdrawn, word

KIND, GROUPS = MIRRORED_OWNERS


def stateful_set(uid: str = "u-s", *, status: Raw | None = None, **labels: str) -> Raw:
    metadata = {"name": "s", "namespace": "ns", "uid": uid, "resourceVersion": "4", "labels": {"app": "s", **labels}}
    spec: Raw = {"replicas": 2, "serviceName": "s", "template": {"spec": {"containers": []}}}
    named = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}
    return {**named, "spec": spec, "status": status or {"replicas": 2}}


def of_set(cluster: str = "w1", **found: str) -> Group:
    given = group(check=CheckState.READY, cluster=cluster, **found)  # type: ignore[arg-type]
    return replace(given, kind=KIND, job=stateful_set())


def test_it_is_created_in_the_worker_and_names_its_workload_and_its_origin() -> None:
    found = decide(of_set(), Worker("w1", workload=copy(Admitted="True")))
    assert isinstance(found, Writes) and found.why == "begin"
    (made,) = manifests(found)
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", STATEFUL_SET.resource.kind)
    assert made["spec"] == stateful_set()["spec"]
    assert made["metadata"]["labels"]["app"] == "s"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/multikueue-origin-uid"] == "u-s"
    assert "status" not in made
    assert (*KIND.workloads_of(made),) == (Key("ns", copy()["metadata"]["name"]),)


def test_its_status_here_is_not_changed() -> None:
    remote = stateful_set("u-there", status={"replicas": 2, "readyReplicas": 2})
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(remote,))
    assert here.decide(replace(of_set(), workers=(worker,))) == Wait()
    assert decide(of_set(), worker) == Wait()


def test_it_is_deleted_in_the_worker_when_its_workload_has_no_quota_here() -> None:
    without = replace(of_set(held=False), job=stateful_set())  # type: ignore[arg-type]
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(stateful_set("u-there"),))
    found = decide(without, worker)
    assert withdrawn(found) == (uids(*worker.jobs), uids(copy())[0])


def test_when_it_is_evicted_its_worker_is_asked_to_end_its_pods_and_loses_it_when_they_have_ended() -> None:
    evicted = of_set("", Evicted="True", Admitted="True")
    runs = Worker("w1", workload=copy(QuotaReserved="True", Admitted="True"), jobs=(stateful_set("u-there"),))
    asked = decide(evicted, runs)
    assert isinstance(asked, Patch) and asked.target is None and asked.subresource == "status"
    ends = replace(runs, workload=copy(QuotaReserved="True", Evicted="True"))
    assert decide(evicted, ends) == Wait()
    ended = replace(runs, workload=copy(QuotaReserved="False", Evicted="True"))
    found = decide(evicted, ended)
    assert withdrawn(found) == (uids(*ended.jobs), uids(copy())[0])


@pytest.mark.parametrize("ran", ["w1", ""], ids=["the worker is known", "after a restart"])
def test_when_it_is_evicted_its_quota_is_released_when_no_worker_has_anything_of_it(ran: str) -> None:
    evicted = replace(of_set("", Evicted="True", Admitted="True"), ran=ran)
    left = (
        Worker("w1", workload=copy(Evicted="True"), jobs=(stateful_set("u-there"),)),
        Worker("w1", workload=copy(Evicted="True")),
    )
    assert [here.decide(replace(evicted, workers=(each,))) for each in left] == [Wait(), Wait()]
    lost = replace(evicted, workers=(Worker("w1", connected=False, lost_since=NOW),))
    assert here.decide(lost) == Wait(evicted.policy.worker_lost_timeout)
    bare = replace(evicted, workers=(Worker("w1"), Worker("w2")))
    for each in (bare, replace(bare, job=None), replace(bare, job=None, kind=None)):  # it is there, gone, of no kind
        found = here.decide(each)
        assert isinstance(found, Patch) and found.after is not None
        assert found.why == "release" and not found.after.holds(Condition.QUOTA_RESERVED)


def test_the_quota_of_one_that_never_ran_is_not_released_by_these_rules() -> None:
    evicted = replace(of_set("", Evicted="True"), workers=(Worker("w1"),))
    assert here.decide(evicted) == Wait()


def set_of_groups(replicas: int = 2, uid: str = "u-l", **annotations: str) -> Raw:
    """A LeaderWorkerSet."""
    metadata = {"name": "l", "namespace": "ns", "uid": uid, "resourceVersion": "4", "annotations": annotations}
    return {"metadata": metadata, "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": 2}}, "status": {}}


def set_there(replicas: int = 2) -> Raw:
    """That set in a worker."""
    found = set_of_groups(replicas, "u-there", **{"kueue.x-k8s.io/multikueue-origin-uid": "u-l"})
    found["metadata"]["labels"] = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    return {**found, "apiVersion": LEADER_WORKER_SET.resource.api_version, "kind": LEADER_WORKER_SET.resource.kind}


def other(cluster: str = "", *, nominated: tuple[str, ...] = (), created: float = 0.0, **found: str) -> Workload:
    """The Workload of another group; those that are younger than ``NOW`` come after the one that a test is about."""
    made = group(check=CheckState.PENDING, cluster=cluster, nominated=nominated, **found).local  # type: ignore[arg-type]
    assert made is not None
    return fields(made, key=Key("ns", f"other-{created}"), created=created)


def of_group(*others: Workload, replicas: int = 2, cluster: str = "w1", **given: Any) -> Group:
    """The Workload of a group that was created at ``NOW``."""
    found = group(check=given.pop("check", CheckState.READY), cluster=cluster, **given)
    assert found.local is not None
    local = fields(found.local, created=NOW)
    return replace(found, local=local, kind=GROUPS, job=set_of_groups(replicas), siblings=Siblings(others))


def waiting(*others: Workload, **given: Any) -> Group:
    return of_group(*others, cluster="", check=CheckState.PENDING, **given)


def test_the_first_group_is_offered_to_all_workers_and_the_others_go_where_it_is() -> None:
    first = here.decide(waiting(other(created=NOW + 1), nominated=()))
    assert isinstance(first, Patch) and first.body["status"]["nominatedClusterNames"] == ["w1", "w2"]
    assert here.decide(waiting(other(created=NOW - 1), nominated=())) == Wait(here.AWAITED_SECONDS)
    follows = here.decide(waiting(other("w2", created=NOW - 1), nominated=()))
    assert isinstance(follows, Patch) and follows.body["status"]["nominatedClusterNames"] == ["w2"]


def test_a_group_that_is_offered_already_stays_the_first() -> None:
    """Another one that is older has got quota meanwhile, and both are admitted by different workers."""
    older = other(created=NOW - 1)
    admitted = (Worker("w1"), Worker("w2", workload=copy(Admitted="True")))
    found = here.decide(replace(waiting(older), workers=admitted))
    assert (
        isinstance(found, Patch)
        and found.after is not None
        and (found.why, found.after.cluster_name) == ("admit", "w2")
    )
    both = other(created=NOW - 1, nominated=("w1", "w2"))
    assert here.decide(replace(waiting(both), workers=admitted)) == Wait(here.AWAITED_SECONDS)


def test_a_group_is_never_admitted_by_a_worker_in_which_the_others_do_not_run() -> None:
    admitted = Worker("w1", workload=copy(Admitted="True")), Worker("w2")
    found = here.decide(replace(waiting(other("w2")), workers=admitted))
    assert isinstance(found, Patch) and found.body["status"] == {"nominatedClusterNames": ["w2"]}
    then = waiting(other("w2"), nominated=("w2",))
    assert here.decide(replace(then, workers=admitted)) == Wait()
    assert word(decide(then, admitted[0])) == "withdraw"


@pytest.mark.parametrize("found", [{"Evicted": "True"}, {"Finished": "True"}, {"held": False}])
def test_a_group_that_does_not_run_keeps_no_other_from_another_worker(found: Any) -> None:
    action = here.decide(waiting(other("w2", created=NOW - 1, **found), nominated=()))
    assert isinstance(action, Patch) and action.body["status"]["nominatedClusterNames"] == ["w1", "w2"]


def test_the_set_is_created_once_and_gets_the_number_of_groups_that_it_has_here() -> None:
    worker = Worker("w1", workload=copy(Admitted="True"))
    found = decide(of_group(), worker)
    assert isinstance(found, Writes) and found.why == "begin"
    (made,) = manifests(found)
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    assert made["metadata"]["annotations"] == {"kueue.x-k8s.io/multikueue-origin-uid": "u-l"}
    assert (*GROUPS.workloads_of(made),) == (Key("ns", name(set_of_groups(), 0)),)
    runs = replace(worker, jobs=(set_there(),))
    assert decide(of_group(), runs) == Wait()
    more = decide(of_group(replicas=5), runs)
    assert isinstance(more, Patch) and more.why == "forward" and more.body["spec"] == {"replicas": 5}


def test_a_group_that_ends_leaves_the_set_to_the_others() -> None:
    ended = copy(QuotaReserved="False", Evicted="True")
    worker = Worker("w1", workload=ended, jobs=(set_there(),), shared=True)
    evicted = of_group(cluster="", Evicted="True", Admitted="True")
    found = decide(evicted, worker)
    assert withdrawn(found) == ([], uids(copy())[0])
    last = decide(evicted, replace(worker, shared=False))
    assert withdrawn(last)[0] == uids(*worker.jobs)
    gone = replace(worker, workload=None)
    released = here.decide(replace(evicted, workers=(gone,)))
    assert isinstance(released, Patch) and released.why == "release"
    assert here.decide(replace(evicted, workers=(replace(gone, shared=False),))) == Wait()
    assert decide(replace(evicted, local=None, raw=None), gone) == Wait()
