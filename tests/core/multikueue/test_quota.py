"""The quota of a ClusterQueue of the manager that is the sum of the quotas in the workers."""

from __future__ import annotations

import pytest

from api.objects import Raw
from core.model import Key
from core.multikueue.quota import AUTOMATED, NOT_REQUESTED, Queues, automated


def cluster_queue(name: str, *flavors: dict[str, str], covered: tuple[str, ...] = ("cpu",)) -> Raw:
    made = [
        {"name": f"f{place}", "resources": [{"name": key, "nominalQuota": value} for key, value in each.items()]}
        for place, each in enumerate(flavors)
    ]
    groups = [{"coveredResources": list(covered), "flavors": made}]
    return {"metadata": {"name": name, "uid": "u", "resourceVersion": "5"}, "spec": {"resourceGroups": groups}}


def local_queue(name: str, queue: str) -> Raw:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": queue}}


def worker(cpu: str, *, name: str = "main", **more: str) -> Queues:
    return Queues([local_queue(name, "there")], [cluster_queue("there", {"cpu": cpu} | more)])


CONFIG: Raw = {"spec": {"clusters": ["w1"], "quotaManagement": "Automated"}}
MINE = {Key("ns", "main")}
HERE = cluster_queue("here", {"cpu": "1"})


def quota(found: Raw | None) -> dict[str, str]:
    assert found is not None
    assert found["metadata"] == {"uid": "u", "resourceVersion": "5"}
    ((group,), (flavor,)) = found["spec"]["resourceGroups"], found["spec"]["resourceGroups"][0]["flavors"]
    assert group["coveredResources"] == [each["name"] for each in flavor["resources"]]
    return {each["name"]: each["nominalQuota"] for each in flavor["resources"]}


def test_the_quota_is_the_sum_over_the_workers_and_is_written_once() -> None:
    found = automated(HERE, CONFIG, MINE, [worker("10"), worker("500m")])
    assert (found.condition, quota(found.patch)) == (AUTOMATED, {"cpu": "10500m"})
    same = cluster_queue("here", {"cpu": "10.5"})
    assert automated(same, CONFIG, MINE, [worker("10"), worker("500m")]).patch is None


def test_queues_that_the_manager_has_not_do_not_count() -> None:
    assert quota(automated(HERE, CONFIG, MINE, [worker("10", name="other"), worker("3")]).patch) == {"cpu": "3"}


def test_all_flavors_of_a_worker_count_and_a_resource_that_none_has_is_zero() -> None:
    here = cluster_queue("here", {"cpu": "1", "memory": "1Gi"}, covered=("cpu", "memory"))
    both = Queues([local_queue("main", "there")], [cluster_queue("there", {"cpu": "2"}, {"cpu": "3"})])
    assert quota(automated(here, CONFIG, MINE, [both]).patch) == {"cpu": "5", "memory": "0"}


def test_no_quota_is_lowered_while_a_worker_is_awaited() -> None:
    here = cluster_queue("here", {"cpu": "10", "memory": "1Gi"}, covered=("cpu", "memory"))
    assert automated(here, CONFIG, MINE, [], awaited=True).patch is None
    some = worker("4", memory="2Gi")
    assert quota(automated(here, CONFIG, MINE, [some], awaited=True).patch) == {"cpu": "10", "memory": "2Gi"}
    assert quota(automated(here, CONFIG, MINE, [some]).patch) == {"cpu": "4", "memory": "2Gi"}


def test_a_lending_limit_never_exceeds_the_quota() -> None:
    here = cluster_queue("here", {"cpu": "10"})
    here["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "5"
    for cpu, limit in (("2", "2"), ("7", "5")):
        found = automated(here, CONFIG, MINE, [worker(cpu)]).patch
        assert found is not None
        ((made,),) = (each["resources"] for each in found["spec"]["resourceGroups"][0]["flavors"])
        assert made == {"name": "cpu", "nominalQuota": cpu, "lendingLimit": limit}


def test_a_local_queue_of_a_worker_without_a_cluster_queue_does_not_count() -> None:
    bare: Raw = {"metadata": {"name": "main", "namespace": "ns"}, "spec": {}}
    assert quota(automated(HERE, CONFIG, MINE, [Queues([bare], []), worker("3")]).patch) == {"cpu": "3"}


def test_other_fields_of_the_quota_stay() -> None:
    here = cluster_queue("here", {"cpu": "1"})
    here["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = "4"
    found = automated(here, CONFIG, MINE, [worker("2")]).patch
    assert found is not None
    ((made,),) = (each["resources"] for each in found["spec"]["resourceGroups"][0]["flavors"])
    assert made == {"name": "cpu", "nominalQuota": "2", "borrowingLimit": "4"}


@pytest.mark.parametrize(
    ("queue", "config", "reason", "text"),
    [
        (HERE, None, "UnsupportedConfiguration", "The referenced MultiKueueConfig was not found."),
        (HERE, {"spec": {"clusters": ["w1"]}}, "NotRequested", NOT_REQUESTED.message),
        (cluster_queue("here", {"cpu": "1"}, {"cpu": "1"}), CONFIG, "UnsupportedConfiguration", "exactly one Resource"),
        (HERE, CONFIG, "UnsupportedConfiguration", "is missing resources configured on workers: [gpu memory]"),
    ],
)
def test_what_cannot_be_automated_is_reported(queue: Raw, config: Raw | None, reason: str, text: str) -> None:
    found = automated(queue, config, MINE, [worker("1", memory="1Gi", gpu="1")])
    assert (found.condition.status, found.condition.reason, found.patch) == (False, reason, None)
    assert text in found.condition.message
