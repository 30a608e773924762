"""Our own kinds at admission: kept while in use, and validated in the words that kubectl prints."""

from __future__ import annotations

import base64
import copy
import random
from typing import Any

import orjson
import pytest

from api.names import Plural
from bench.reviews import spoil
from core.model import Raw
from tests.effort import cases
from tests.webhook.cluster import ask, cluster, review_of
from webhook.hooks import HOOKS
from webhook.routes import answer
from webhook.settings import Context, WebhookSettings

PREFIX = "kueue-x-k8s-io-v1beta2"
FINALIZER = "kueue.x-k8s.io/resource-in-use"


def ours(kind: str, spec: Raw, *, namespace: str = "", status: Raw | None = None, **metadata: Any) -> Raw:
    meta = {"name": "x", **({"namespace": namespace} if namespace else {}), **metadata}
    found: Raw = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}
    return {**found, "status": status} if status is not None else found


def cluster_queue(*flavors: Raw, covered: tuple[str, ...] = ("cpu",), **spec: Any) -> Raw:
    groups = [{"coveredResources": list(covered), "flavors": list(flavors)}]
    return ours("ClusterQueue", {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def flavor(name: str = "default", **quota: str) -> Raw:
    return {"name": name, "resources": [{"name": "cpu", "nominalQuota": "4", **quota}]}


def workload(**status: Any) -> Raw:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    pod_sets = [{"name": "main", "count": 3, "template": template}]
    return ours("Workload", {"queueName": "main", "podSets": pod_sets}, namespace="team-a", status=status)


@pytest.mark.parametrize(
    ("path", "new", "resource"),
    [
        pytest.param("clusterqueue", cluster_queue(flavor()), Plural.CLUSTER_QUEUES, id="a ClusterQueue"),
        pytest.param("resourceflavor", ours("ResourceFlavor", {}), Plural.RESOURCE_FLAVORS, id="a ResourceFlavor"),
    ],
)
def test_what_is_in_use_is_kept_by_a_finalizer(path: str, new: Raw, resource: str) -> None:
    response = ask(f"/mutate-{PREFIX}-{path}", review_of(new, resource=resource))
    assert orjson.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}
    ]
    kept = copy.deepcopy(new)
    kept["metadata"]["finalizers"] = ["another", FINALIZER]
    assert "patch" not in ask(f"/mutate-{PREFIX}-{path}", review_of(kept, resource=resource))


def test_workloads_lose_their_min_counts_where_partial_admission_is_off() -> None:
    new = workload()
    new["spec"]["podSets"][0]["minCount"] = 1
    body = review_of(new, resource=Plural.WORKLOADS)
    assert orjson.loads(base64.b64decode(ask(f"/mutate-{PREFIX}-workload", body)["patch"])) == [
        {"op": "remove", "path": "/spec/podSets/0/minCount"}
    ]


@pytest.mark.parametrize(
    ("path", "new", "resource", "message"),
    [
        pytest.param("clusterqueue", cluster_queue(flavor()), "clusterqueues", "", id="a good ClusterQueue"),
        pytest.param(
            "clusterqueue",
            cluster_queue(flavor(borrowingLimit="1"), flavor("other", nominalQuota="-1")),
            "clusterqueues",
            "[spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "
            '"1": must be nil when cohort is empty, '
            "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota: Invalid value: "
            '"-1": must be greater than or equal to 0]',
            id="two errors of a ClusterQueue at once",
        ),
        pytest.param(
            "cohort",
            ours("Cohort", {"fairSharing": {"weight": "-1"}}),
            "cohorts",
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
            id="a Cohort of negative weight",
        ),
        pytest.param(
            "resourceflavor",
            ours("ResourceFlavor", {"nodeLabels": {"no spaces": "x"}}),
            "resourceflavors",
            None,
            id="a ResourceFlavor with a label that is none",
        ),
        pytest.param("workload", workload(), "workloads", "", id="a good Workload"),
        pytest.param(
            "workload",
            workload(conditions=[{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}]),
            "workloads/status",
            None,
            id="quota reserved, but no admission",
        ),
    ],
)
def test_validation(path: str, new: Raw, resource: str, message: str | None) -> None:
    response = ask(f"/validate-{PREFIX}-{path}", review_of(new, resource=resource))
    if message is None:
        assert (response["allowed"], response["status"]["code"]) == (False, 403)
    else:
        assert response.get("status", {}).get("message", "") == message


def test_an_immutable_field_is_refused_on_update() -> None:
    old = cluster_queue(flavor())
    new = cluster_queue(flavor(), concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}})
    response = ask(f"/validate-{PREFIX}-clusterqueue", review_of(new, old=old, resource="clusterqueues"))
    assert "spec.concurrentAdmissionPolicy" in response["status"]["message"]
    assert "field is immutable" in response["status"]["message"]


def test_another_version_than_the_stored_one_is_a_bad_request() -> None:
    new = {**cluster_queue(flavor()), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    response = ask(f"/validate-{PREFIX}-clusterqueue", review_of(new, resource="clusterqueues"))
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


WHOLE = {
    "ClusterQueue": cluster_queue(
        flavor(borrowingLimit="1", lendingLimit="1"),
        cohortName="all",
        preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"}},
        flavorFungibility={"whenCanBorrow": "MayStopSearch"},
        admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["default"]}]},
        fairSharing={"weight": "1"},
    ),
    "ResourceFlavor": ours(
        "ResourceFlavor",
        {
            "nodeLabels": {"a": "b"},
            "nodeTaints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "topologyName": "t",
        },
    ),
    "Topology": ours("Topology", {"levels": [{"nodeLabel": "rack"}]}),
    "WorkloadPriorityClass": {**ours("WorkloadPriorityClass", {}), "value": 1},
    "Cohort": ours("Cohort", {"parentName": "root", "fairSharing": {"weight": "1"}}),
    "LocalQueue": ours("LocalQueue", {"clusterQueue": "q", "fairSharing": {"weight": "-1"}}, namespace="team-a"),
    "Queue": {
        **ours("Queue", {"clusterQueue": "q"}, namespace="team-a"),
        "apiVersion": "kueue.x-k8s.io/v1alpha1",
    },
    "Workload": workload(
        conditions=[{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "m"}],
        admission={
            "clusterQueue": "q",
            "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "3"}, "count": 3}
            ],
        },
        reclaimablePods=[{"name": "main", "count": 1}],
        admissionChecks=[{"name": "c", "state": "Ready", "message": ""}],
    ),
}


def test_spoiled_objects_of_kueues_kinds_are_answered_without_a_failure() -> None:
    chance = random.Random(7)
    context = Context(WebhookSettings(), cluster())
    hooks = [hook for hook in HOOKS if hook.group == "kueue.x-k8s.io"]
    for _ in range(cases(300, 20_000)):
        hook = chance.choice(hooks)
        (kind,) = (kind for kind in WHOLE if kind == hook.kind)
        old = WHOLE[kind] if chance.random() < 0.5 else None
        spoiled = {
            **WHOLE[kind],
            **spoil(chance, copy.deepcopy({key: WHOLE[kind][key] for key in ("metadata", "spec")})),
        }
        if "status" in spoiled:
            spoiled["status"] = spoil(chance, copy.deepcopy(spoiled["status"]))
        body = review_of(WHOLE[kind], old=old, resource=hook.resources[-1])
        body["request"]["object"] = spoiled
        status, text = answer(hook, orjson.dumps(body), context)
        assert status == 200
        response = orjson.loads(text)["response"]
        assert response.get("status", {}).get("code") != 500, spoiled
