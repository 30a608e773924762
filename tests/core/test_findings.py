"""What `seiretsu doctor` finds: each rule on a cluster in which nothing else is wrong."""

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from api import crds
from api.objects import Raw
from core.diagnosis.facts import Facts
from core.diagnosis.findings import RULES, called_at, findings, unchecked

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = "c1f6bfd2.kueue.x-k8s.io"
SERVICE = {"name": "seiretsu-webhook-service", "namespace": "seiretsu-system"}


def client_config(**changes: object) -> Raw:
    return {"service": SERVICE, "caBundle": "good", **changes}


def configuration(name: str = "seiretsu", **changes: object) -> Raw:
    rules = [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"]}]
    webhook = {"name": "a.kb.io", "rules": rules, "clientConfig": client_config(**changes), "failurePolicy": "Fail"}
    return {"metadata": {"name": name}, "webhooks": [webhook]}


@functools.cache
def definitions() -> tuple[Raw, ...]:
    found = crds.definitions(client_config())
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return tuple(each | {"status": established} for each in found)


def endpoints(*ready: bool) -> Raw:
    metadata = {"name": "a", "namespace": "seiretsu-system", "labels": {"kubernetes.io/service-name": SERVICE["name"]}}
    return {"metadata": metadata, "endpoints": [{"conditions": {"ready": each}} for each in ready]}


def lease(**spec: object) -> Raw:
    renewed = {"holderIdentity": "a-1", "renewTime": "2026-01-01T11:59:55.000000Z", "leaseDurationSeconds": 15}
    return {"metadata": {"name": LEASE, "namespace": "seiretsu-system"}, "spec": renewed | spec}


def job(queue: str = "main", *, suspend: bool = True, name: str = "train") -> Raw:
    metadata = {"name": name, "namespace": "a", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": suspend}}


def local_queue(name: str = "main", cluster_queue: str = "all", *conditions: Raw) -> Raw:
    metadata = {"name": name, "namespace": "a"}
    return {"metadata": metadata, "spec": {"clusterQueue": cluster_queue}, "status": {"conditions": [*conditions]}}


def workload(*, admitted: bool = True, **metadata: object) -> Raw:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    found = {"name": "job-train", "namespace": "a", "ownerReferences": [reference], **metadata}
    conditions = [{"type": "Admitted", "status": str(admitted)}]
    return {"metadata": found, "spec": {}, "status": {"conditions": conditions}}


def variant(name: str = "v", *, reserved: bool = False, finished: bool = False) -> Raw:
    reference = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "job-train", "uid": "p"}
    flavor = {"kueue.x-k8s.io/workload-allowed-resource-flavors": name}
    found = workload(name=name, uid=name, annotations=flavor, ownerReferences=[reference | {"controller": True}])
    found["status"] = status(QuotaReserved=reserved, Finished=finished)
    return found


def status(**conditions: bool) -> Raw:
    return {"conditions": [{"type": kind, "status": str(holds)} for kind, holds in conditions.items()]}


def parent(**conditions: bool) -> Raw:
    return workload(uid="p") | {"status": status(Admitted=True, **conditions)}


def waits(reason: str) -> Raw:
    """A parent without quota, for this reason."""
    return workload(uid="p") | {
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": reason}]}
    }


def healthy() -> Facts:
    objects = {
        "customresourcedefinitions": [*definitions()],
        "mutatingwebhookconfigurations": [configuration(), {"metadata": {"name": "other"}, "webhooks": []}],
        "validatingwebhookconfigurations": [configuration()],
        "services": [{"metadata": dict(SERVICE)}],
        "endpointslices": [endpoints(True, False)],
        "leases": [lease()],
        "clusterqueues": [{"metadata": {"name": "all"}, "spec": {}}],
        "localqueues": [local_queue()],
        "jobs": [job(suspend=False)],
        "workloads": [workload()],
    }
    return Facts(now=NOW, objects=objects, expiry={"good": NOW + timedelta(days=300)})


def having(plural: str, *objects: Raw) -> Callable[[Facts], Facts]:
    return lambda facts: replace(facts, objects={**facts.objects, plural: [*objects]})


def expiring(when: datetime | None) -> Callable[[Facts], Facts]:
    return lambda facts: replace(facts, expiry={"good": when})


NO_URL: Raw = {"service": None, "url": "https://127.0.0.1:9443/a"}
INACTIVE: Raw = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no flavor gpu"}
DELETED: Raw = {"deletionTimestamp": "2026-01-01T11:00:00Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}

CASES: list[tuple[str, str, str, str, list[Callable[[Facts], Facts]]]] = [
    (
        "a flavor whose Topology is not there",
        "topologies",
        "warning",
        "its Topology 'racks' does not exist",
        [having("resourceflavors", {"metadata": {"name": "gpu"}, "spec": {"topologyName": "racks"}})],
    ),
    ("no CRDs", "definitions", "error", "does not exist", [having("customresourcedefinitions")]),
    (
        "a CRD that is not established",
        "definitions",
        "error",
        "is not served",
        [having("customresourcedefinitions", *definitions()[1:], definitions()[0] | {"status": {}})],
    ),
    (
        "a conversion webhook without a caBundle",
        "conversions",
        "error",
        "has no caBundle: clients of older versions fail",
        [
            having(
                "customresourcedefinitions",
                *(each | {"status": definitions()[0]["status"]} for each in crds.definitions({"service": SERVICE})),
            )
        ],
    ),
    (
        "no mutating webhooks",
        "webhooks",
        "error",
        "does not exist: new jobs start without quota",
        [having("mutatingwebhookconfigurations")],
    ),
    (
        "an empty caBundle",
        "webhooks",
        "error",
        "webhook a.kb.io has no caBundle: creating or changing workloads fails",
        [having("validatingwebhookconfigurations", configuration(caBundle=""))],
    ),
    ("no Service", "webhooks", "error", "seiretsu-webhook-service, which does not exist", [having("services")]),
    ("no ready pod", "webhooks", "error", "which has no ready pod", [having("endpointslices", endpoints(False))]),
    (
        "a server that has ended",
        "webhooks",
        "error",
        "calls https://127.0.0.1:9443/a, where nothing answers",
        [
            having("mutatingwebhookconfigurations", configuration(**NO_URL)),
            lambda facts: replace(facts, answers={"https://127.0.0.1:9443/a": False}),
        ],
    ),
    (
        "another program at the address of the webhooks",
        "webhooks",
        "error",
        "calls https://127.0.0.1:9443/a, where a program answers that its caBundle does not verify (self-signed)",
        [
            having("mutatingwebhookconfigurations", configuration(**NO_URL)),
            lambda facts: replace(facts, untrusted={("https://127.0.0.1:9443/a", "good"): "self-signed"}),
        ],
    ),
    (
        "pods behind the Service with another certificate",
        "webhooks",
        "error",
        "seiretsu-webhook-service, and its caBundle does not verify what answers there (unable to get local issuer)",
        [
            lambda facts: replace(
                facts, untrusted={(called_at({"service": SERVICE}), "good"): "unable to get local issuer"}
            )
        ],
    ),
    (
        "a webhook that the API server cannot call",
        "calls",
        "error",
        "the API server cannot call it: failed calling webhook: x509: certificate signed by unknown authority",
        [
            lambda facts: replace(
                facts, failed_call="failed calling webhook: x509: certificate signed by unknown authority"
            )
        ],
    ),
    (
        "an APIService that does not answer",
        "api-services",
        "error",
        "does not answer (FailedDiscoveryCheck): x509",
        [
            having(
                "apiservices",
                {
                    "metadata": {"name": "v1beta2.visibility.kueue.x-k8s.io"},
                    "spec": {"service": SERVICE},
                    "status": {
                        "conditions": [
                            {
                                "type": "Available",
                                "status": "False",
                                "reason": "FailedDiscoveryCheck",
                                "message": "x509",
                            }
                        ]
                    },
                },
            )
        ],
    ),
    ("an expired CA", "certificates", "error", "expired on 2025-12-31", [expiring(NOW - timedelta(days=1))]),
    ("a CA that soon expires", "certificates", "warning", "expires on 2026-01-07", [expiring(NOW + timedelta(days=6))]),
    ("a CA that is no certificate", "certificates", "error", "has no certificate that can be read", [expiring(None)]),
    (
        "Kueue beside Seiretsu",
        "two-installations",
        "error",
        "two controllers decide about one job",
        [having("mutatingwebhookconfigurations", configuration(), configuration("kueue-mutating"))],
    ),
    (
        "a leader that has gone",
        "leader",
        "error",
        "was last renewed by a-1 at 2026-01-01 11:59:40 UTC",
        [having("leases", lease(renewTime="2026-01-01T11:59:40.000000Z"))],
    ),
    ("no leader", "leader", "error", "has no holder: no job is admitted", [having("leases", lease(holderIdentity=""))]),
    (
        "a ClusterQueue that is not active",
        "cluster-queues",
        "warning",
        "admits nothing (FlavorNotFound): no flavor gpu",
        [having("clusterqueues", {"metadata": {"name": "all"}, "spec": {}, "status": {"conditions": [INACTIVE]}})],
    ),
    (
        "a LocalQueue of no ClusterQueue",
        "local-queues",
        "warning",
        "names ClusterQueue 'all'",
        [having("clusterqueues")],
    ),
    (
        "a LocalQueue that is not active",
        "local-queues",
        "warning",
        "is not active (FlavorNotFound)",
        [having("localqueues", local_queue("main", "all", INACTIVE))],
    ),
    (
        "a job of no LocalQueue",
        "jobs-without-queue",
        "warning",
        "names LocalQueue 'mian', which does not exist",
        [having("jobs", job("mian"))],
    ),
    (
        "a job that runs before it is admitted",
        "jobs-without-quota",
        "error",
        "runs without admission",
        [having("workloads", workload(admitted=False))],
    ),
    (
        "a deletion that nobody finishes",
        "stuck-deletions",
        "error",
        "no controller runs that removes its finalizer",
        [having("leases", lease(holderIdentity="")), having("workloads", workload(**DELETED))],
    ),
    (
        "variants of a Workload that runs without them",
        "leftover-variants",
        "warning",
        "does not use its 2 variants: is the feature gate ConcurrentAdmission off?",
        [having("workloads", parent(QuotaReserved=True), variant("v"), variant("w"), variant("x", finished=True))],
    ),
    (
        "a worker cluster that a MultiKueueConfig names and that does not exist",
        "worker-clusters",
        "error",
        "does not exist",
        [having("multikueueconfigs", {"metadata": {"name": "a"}, "spec": {"clusters": ["east"]}})],
    ),
    (
        "a right that is missing",
        "rights",
        "warning",
        "could not be read (Forbidden); not checked: cluster-queues",
        [lambda facts: replace(facts, unseen={"clusterqueues": "Forbidden"})],
    ),
]


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    assert findings(healthy()) == []


@pytest.mark.parametrize(("rule", "severity", "message", "changes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_found(rule: str, severity: str, message: str, changes: list[Callable[[Facts], Facts]]) -> None:
    facts = healthy()
    for change in changes:
        facts = change(facts)
    mine = [finding for name, finding in findings(facts) if name == rule]
    assert [finding.severity for finding in mine[:1]] == [severity], findings(facts)
    assert message in mine[0].message
    assert mine[0].fix


def test_every_rule_has_a_case() -> None:
    assert {rule.name for rule in RULES} == {case[1] for case in CASES}


@pytest.mark.parametrize(
    ("found", "left"),
    [
        pytest.param([parent(QuotaReserved=True), variant("v"), variant("w", reserved=True)], "", id="one runs"),
        pytest.param([parent(QuotaReserved=False), variant("v")], "", id="they wait"),
        pytest.param([parent(QuotaReserved=True, Evicted=True), variant("v")], "", id="the parent is evicted"),
        pytest.param([parent(Finished=True), variant("v", finished=True)], "", id="all have ended"),
        pytest.param([parent(Finished=True), variant("v")], "v", id="the parent has ended"),
        pytest.param([parent(QuotaReserved=True), variant("w"), variant("v")], "v w", id="the parent runs"),
        pytest.param([waits("WaitingForQuota"), variant("v")], "v", id="the parent waits itself"),
        pytest.param([waits("PendingEvaluation"), variant("v")], "", id="it waits for its variants"),
    ],
)
def test_variants_are_left_over_when_their_parent_waits_runs_or_ends_without_them(found: list[Raw], left: str) -> None:
    fixes = [each.fix for name, each in findings(having("workloads", *found)(healthy())) if name == "leftover-variants"]
    command = f"kubectl delete workloads.kueue.x-k8s.io -n a {left}; Kubernetes deletes them with the Workload, too"
    assert fixes == ([command] if left else [])


def test_a_deletion_is_left_to_a_controller_that_runs() -> None:
    assert findings(having("workloads", workload(**DELETED))(healthy())) == []


def test_jobs_that_have_ended_or_belong_to_another_job_run_without_admission() -> None:
    done = job(suspend=False) | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    child = job(suspend=False)
    child["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "a", "controller": True}]
    assert findings(having("workloads")(having("jobs", done, child)(healthy()))) == []


def test_many_findings_of_a_rule_are_summed_up_and_errors_come_first() -> None:
    facts = having("jobs", *(job("mian", name=f"job-{number}") for number in range(8)))(healthy())
    found = findings(having("leases", lease(holderIdentity=""))(facts))
    assert [name for name, _ in found] == ["leader", *["jobs-without-queue"] * 6]
    assert (found[-1][1].subject, found[-1][1].message) == (
        "3 more like Job a/job-0",
        "Job a/job-5, Job a/job-6, Job a/job-7",
    )


def test_a_resource_that_no_rule_needs_is_reported_without_an_empty_list() -> None:
    facts = replace(healthy(), unseen={"services": "Forbidden", "leases": "Forbidden"})
    found = {finding.subject: finding.message for _, finding in findings(facts)}
    assert found == {
        "leases": "could not be read (Forbidden); not checked: leader",
        "services": "could not be read (Forbidden)",
    }
    assert unchecked(facts) == ["leader"]
    assert unchecked(healthy()) == []
