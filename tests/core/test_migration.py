"""What prevents a migration from Kueue, and what is stored and restored: decided on objects as they are read."""

from dataclasses import replace

import pytest

from api import crds
from api.objects import Raw
from core.diagnosis.migration import (
    Found,
    Installation,
    Lease,
    adopted,
    changes,
    gates_of,
    is_seiretsus,
    problems,
    record,
    restored,
    with_policy,
)

SERVICE = {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}}


def webhooks(kind: str, name: str, **metadata: object) -> Raw:
    webhook = {"name": "mjob.kb.io", "failurePolicy": "Fail", "clientConfig": SERVICE}
    metadata = {"name": name, "uid": "1", "resourceVersion": "7", **metadata}
    return {"kind": kind, "metadata": metadata, "webhooks": [webhook]}


def deployment(name: str, *args: str, **metadata: object) -> Raw:
    pod = {"containers": [{"name": "manager", "args": list(args)}]}
    spec = {"replicas": 2, "template": {"metadata": {}, "spec": pod}}
    return {"kind": "Deployment", "metadata": {"name": name, **metadata}, "spec": spec}


KUEUE = Installation(
    namespace="kueue-system",
    service="kueue-webhook-service",
    configurations=(
        webhooks("MutatingWebhookConfiguration", "kueue-mutating-webhook-configuration"),
        webhooks("ValidatingWebhookConfiguration", "kueue-validating-webhook-configuration"),
    ),
    deployment=deployment("kueue-controller-manager"),
)
SEIRETSU = Installation(
    namespace="kueue-system",
    service="seiretsu-webhook-service",
    deployment=deployment("seiretsu-controller-manager"),
)


def rules(found: Found) -> set[tuple[str, str]]:
    return {(rule, finding.severity) for rule, finding in problems(found)}


def test_nothing_prevents_the_migration_of_a_plain_kueue() -> None:
    found = Found(kueue=KUEUE, seiretsu=SEIRETSU, definitions=crds.definitions(SERVICE))
    assert problems(found) == []
    assert "Deployment kueue-system/kueue-controller-manager is scaled from 2 to 0" in changes(found)[1]
    assert rules(Found()) == {("kueue", "error")}
    (told,) = problems(Found(seiretsu=SEIRETSU))
    assert (told[1].severity, told[1].subject) == ("warning", "Kueue"), (
        "nothing is wrong: it was migrated, or never there"
    )
    assert told[1].message == "is not installed, so nothing is to be migrated: Seiretsu is installed already"


@pytest.mark.parametrize(
    ("rule", "severity", "kueue"),
    [
        ("configuration", "error", replace(KUEUE, text="managJobs: true")),
        ("configuration", "error", replace(KUEUE, deployment=deployment("k", "--feature-gates=NoSuchGate=true"))),
        ("lease", "error", replace(KUEUE, text="leaderElection: {leaderElect: false}")),
        ("lease", "error", replace(KUEUE, text="leaderElection: {resourceNamespace: elsewhere}")),
        ("kueue", "error", replace(KUEUE, deployment=None)),
        (
            "deployer",
            "error",
            replace(KUEUE, deployment=deployment("k", labels={"argocd.argoproj.io/instance": "kueue"})),
        ),
    ],
    ids=["unknown field", "feature gate", "no leader election", "another Lease", "no Deployment", "Argo CD"],
)
def test_what_prevents_it(rule: str, severity: str, kueue: Installation) -> None:
    assert (rule, severity) in rules(Found(kueue=kueue, seiretsu=SEIRETSU))


@pytest.mark.parametrize(
    ("rule", "plural", "spec"),
    [
        ("objects", "clusterqueues", {"namespaceSelector": {}, "fromTheFuture": {"a": 1}}),
    ],
)
def test_objects_that_would_not_work(rule: str, plural: str, spec: Raw) -> None:
    found = Found(kueue=KUEUE, objects={plural: [{"metadata": {"name": "x"}, "spec": spec}]})
    assert rules(found) == {(rule, "error")}


def test_objects_stored_in_an_unknown_version_prevent_it() -> None:
    definition = next(each for each in crds.definitions(SERVICE) if each["metadata"]["name"].startswith("workloads"))
    stored = {**definition, "status": {"storedVersions": ["v1alpha2", "v1beta2"]}}
    assert rules(Found(kueue=KUEUE, definitions=[stored])) == {("versions", "error")}
    other: Raw = {"metadata": {"name": "newkinds.kueue.x-k8s.io"}, "spec": {}}
    assert rules(Found(kueue=KUEUE, definitions=[other])) == {("kinds", "warning")}


def test_both_elect_by_the_same_lease() -> None:
    assert KUEUE.lease() == SEIRETSU.lease() == Lease("kueue-system", "c1f6bfd2.kueue.x-k8s.io")
    elsewhere = replace(SEIRETSU, namespace="seiretsu-system")
    assert ("lease", "error") in rules(Found(kueue=KUEUE, seiretsu=elsewhere))
    shared = replace(elsewhere, text="leaderElection: {resourceNamespace: kueue-system}")
    assert problems(Found(kueue=KUEUE, seiretsu=shared)) == []


def test_what_is_stored_is_not_replaced_by_what_a_migration_has_left() -> None:
    definitions = crds.definitions(SERVICE)
    first = record(Found(kueue=KUEUE, seiretsu=SEIRETSU, definitions=definitions))
    assert first is not None
    assert (first["deployment"], first["replicas"]) == ("kueue-controller-manager", 2)
    assert first["configurations"][0]["metadata"] == {"name": "kueue-mutating-webhook-configuration"}
    half = replace(KUEUE, configurations=KUEUE.configurations[:1])
    assert record(Found(kueue=half, seiretsu=SEIRETSU, record=first, definitions=definitions)) is None
    ours = {"service": {"name": SEIRETSU.service, "namespace": SEIRETSU.namespace, "path": "/convert"}}
    taken = Found(kueue=KUEUE, seiretsu=SEIRETSU, record=first, definitions=crds.definitions(ours))
    assert record(taken) is None


def test_a_definition_is_restored_with_its_marks() -> None:
    before = crds.definitions(SERVICE)[0]
    before["metadata"] |= {"labels": {"app.kubernetes.io/name": "kueue"}}
    owner = {"meta.helm.sh/release-name": "seiretsu", "meta.helm.sh/release-namespace": "kueue-system"}
    installed = deployment("seiretsu-controller-manager", labels={"helm.sh/chart": "seiretsu-0.1.0"}, annotations=owner)
    marks = adopted(before, installed)
    assert marks["labels"] == {"helm.sh/chart": "seiretsu-0.1.0", "app.kubernetes.io/managed-by": "Helm"}
    assert marks["annotations"] == {**owner, "helm.sh/resource-policy": "keep"}
    live = {**before, "metadata": {**marks, "resourceVersion": "9"}, "spec": {"conversion": "of Seiretsu"}}
    wanted = restored(live, before)
    assert wanted is not None
    assert wanted["metadata"] == {**before["metadata"], "resourceVersion": "9"}
    assert wanted["spec"] == before["spec"]
    assert restored(wanted, before) is None


def test_failure_policies_change_by_name() -> None:
    raw = {"webhooks": [{"name": "a", "failurePolicy": "Ignore"}, {"name": "b", "failurePolicy": "Ignore"}]}
    changed = with_policy(raw, {"a": "Fail"})
    assert changed == [{"name": "a", "failurePolicy": "Fail"}, {"name": "b", "failurePolicy": "Ignore"}]
    assert with_policy({"webhooks": changed}, {"a": "Fail"}) is None


def test_seiretsus_configurations_are_recognized_whatever_their_release_is_called() -> None:
    assert is_seiretsus(webhooks("M", "queues-mutating", labels={"helm.sh/chart": "seiretsu-0.1.0"}))
    assert is_seiretsus(webhooks("M", "seiretsu-mutating-webhook-configuration"))
    assert not is_seiretsus(webhooks("M", "kueue-mutating-webhook-configuration", labels={"helm.sh/chart": "kueue-1"}))


def test_gates_of_the_command_line() -> None:
    found = gates_of(deployment("k", "--config=x", "--feature-gates=A=true,B=false"))
    assert found == {"A": True, "B": False}
    assert gates_of({}) == {}
