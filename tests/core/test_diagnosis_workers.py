"""What `seiretsu doctor` finds about worker clusters: each rule on a worker in which nothing else is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from api.objects import Raw
from core.diagnosis.facts import Facts, WorkerFacts
from core.diagnosis.workers import worker_clusters


def named(name: str, namespace: str = "", *, active: str = "", **spec: object) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    status = {"conditions": [{"type": "Active", "status": active, "message": "because"}]} if active else {}
    return {"metadata": metadata, "spec": spec, "status": status}


OF_PROFILE: Raw = {"clusterProfileRef": {"name": "spoke"}}
OF_FILE: Raw = {"kubeConfig": {"locationType": "Path", "location": "/etc/east"}}


def cluster(name: str, active: str = "True") -> Raw:
    return named(
        name, active=active, clusterSource={"kubeConfig": {"locationType": "Secret", "location": f"of-{name}"}}
    )


LOCAL_QUEUE = named("main", "team", clusterQueue="all")
THERE: dict[str, list[Raw]] = {
    "namespaces": [named("team")],
    "localqueues": [LOCAL_QUEUE],
    "clusterqueues": [named("all", active="True")],
}
PARAMETERS = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
HERE: dict[str, list[Raw]] = {
    "multikueueclusters": [cluster("east")],
    "multikueueconfigs": [named("workers", clusters=["east"])],
    "admissionchecks": [named("mk", controllerName="kueue.x-k8s.io/multikueue", parameters=PARAMETERS)],
    "clusterqueues": [
        named("all", admissionChecksStrategy={"admissionChecks": [{"name": "mk"}]}),
        named("local"),
    ],
    "localqueues": [LOCAL_QUEUE, named("here", "team", clusterQueue="local")],
}
EAST = WorkerFacts(name="east", objects=THERE)
SECRET = "write a kubeconfig that works into key kubeconfig of Secret of-east, in Seiretsu's namespace"
ROLE = "grant it with the ClusterRole in docs/multikueue.md"
CANNOT = "jobs of LocalQueue team/main cannot run there"


def without(plural: str, *instead: Raw) -> WorkerFacts:
    return replace(EAST, objects={**THERE, plural: list(instead)})


def quota(active: str = "", *, cohort: str = "", **nominal: str) -> Raw:
    """ClusterQueue "all" with this nominal quota; here it has the check, too."""
    flavor = {"name": "f", "resources": [{"name": name, "nominalQuota": text} for name, text in nominal.items()]}
    groups = [{"coveredResources": list(nominal), "flavors": [flavor]}]
    checks = {"admissionChecks": [{"name": "mk"}]}
    return named("all", active=active, resourceGroups=groups, cohortName=cohort, admissionChecksStrategy=checks)


COVERS: dict[str, list[Raw]] = {"clusterqueues": [quota(cpu="8", gpu="2"), named("local")]}
NO_GPU = (
    "warning",
    "ClusterQueue all has no quota for gpu: jobs of LocalQueue team/main that ask for it cannot run there",
    "add it to spec.resourceGroups there, unless no such job is to run there",
)
CASES: dict[str, tuple[WorkerFacts | None, dict[str, list[Raw]], list[tuple[str, str, str]]]] = {
    "nothing is wrong": (EAST, {}, []),
    "no MultiKueue": (None, {key: [] for key in HERE}, []),
    "the worker cannot be reached": (
        WorkerFacts(name="east", trouble="https://east cannot be reached: refused"),
        {"multikueueclusters": [cluster("east", "False")]},
        [("error", "https://east cannot be reached: refused", SECRET)],
    ),
    "the Secret may not be read": (None, {}, [("warning", "it could not be checked", SECRET)]),
    "a cluster of a ClusterProfile": (
        None,
        {"multikueueclusters": [named("east", active="True", clusterSource=OF_PROFILE)]},
        [],
    ),
    "a cluster of a ClusterProfile is not active": (
        None,
        {"multikueueclusters": [named("east", active="False", clusterSource=OF_PROFILE)]},
        [
            (
                "error",
                "is not active: because",
                "see the status of ClusterProfile spoke, and its access provider in the Configuration",
            )
        ],
    ),
    "a kubeconfig in a file": (
        None,
        {"multikueueclusters": [named("east", active="True", clusterSource=OF_FILE)]},
        [],
    ),
    "it is not active": (
        EAST,
        {"multikueueclusters": [cluster("east", "False")]},
        [("error", "is not active: because", SECRET)],
    ),
    "the cluster does not exist": (
        None,
        {"multikueueclusters": []},
        [
            (
                "error",
                "does not exist, and a MultiKueueConfig names it",
                "create the MultiKueueCluster, or remove it from spec.clusters",
            )
        ],
    ),
    "Workloads are not served": (
        replace(EAST, not_served=["workloads.v1beta2.kueue.x-k8s.io"]),
        {},
        [
            (
                "error",
                "does not serve workloads.v1beta2.kueue.x-k8s.io",
                "install Seiretsu there, or Kueue v0.14 or newer",
            )
        ],
    ),
    "a kind is not served": (
        replace(EAST, not_served=["jobsets.v1alpha2.jobset.x-k8s.io"]),
        {},
        [
            (
                "warning",
                "does not serve jobsets.v1alpha2.jobset.x-k8s.io",
                "install the operator of this kind there, if its jobs are to run there",
            )
        ],
    ),
    "a right is missing": (
        replace(EAST, denied=["create jobs.batch"]),
        {},
        [("error", "its kubeconfig may not create jobs.batch", ROLE)],
    ),
    "its queues may not be read": (
        replace(EAST, unseen=["localqueues"]),
        {},
        [
            (
                "warning",
                "its kubeconfig may not list localqueues: its queues are not checked, and no warning says"
                " that it could never take a job",
                ROLE,
            )
        ],
    ),
    "the namespace is missing": (
        without("namespaces"),
        {},
        [("error", f"has no namespace team: {CANNOT}", "kubectl create namespace team")],
    ),
    "the LocalQueue is missing": (
        without("localqueues", named("main", "other", clusterQueue="all")),
        {},
        [("error", f"has no LocalQueue team/main: {CANNOT}", "create it there with the same name")],
    ),
    "the ClusterQueue is missing": (
        without("clusterqueues"),
        {},
        [("error", f"has no ClusterQueue all: {CANNOT}", "create it there, or change the LocalQueue there")],
    ),
    "the ClusterQueue is inactive": (
        without("clusterqueues", named("all", active="False")),
        {},
        [
            (
                "error",
                f"has an inactive ClusterQueue all (because): {CANNOT}",
                "kubectl describe clusterqueue all, there",
            )
        ],
    ),
    "all covered resources have quota": (without("clusterqueues", quota("True", cpu="1", gpu="1")), COVERS, []),
    "a covered resource has no quota": (without("clusterqueues", quota("True", cpu="8")), COVERS, [NO_GPU]),
    "a covered resource has a quota of zero": (
        without("clusterqueues", quota("True", cpu="8", gpu="0")),
        COVERS,
        [NO_GPU],
    ),
    "a quota of zero in a cohort may be borrowed": (
        without("clusterqueues", quota("True", cohort="c", cpu="8", gpu="0")),
        COVERS,
        [],
    ),
    "no controller runs there": (
        without("clusterqueues", named("all")),
        {},
        [
            (
                "error",
                "has an inactive ClusterQueue all (no controller has looked at it: does Seiretsu run there?):"
                f" {CANNOT}",
                "kubectl describe clusterqueue all, there",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_worker_lacks_is_found_with_its_fix(case: str) -> None:
    worker, here, wanted = CASES[case]
    workers = (worker,) if worker is not None else ()
    facts = Facts(now=datetime(2026, 1, 1, tzinfo=UTC), objects={**HERE, **here}, workers=workers)
    found = list(worker_clusters(facts))
    assert [(each.severity, each.message, each.fix) for each in found] == wanted
    assert {each.subject for each in found} <= {"worker cluster east"}
