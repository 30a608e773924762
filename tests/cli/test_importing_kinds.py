"""``seiretsu import`` takes in jobs of each kind with all their pods: what the controller sees then is a queued job."""

from __future__ import annotations

import copy

import pytest

from api.objects import Raw
from core.actions import Patch, Wait
from core.importing.running import imported_kinds
from core.jobs.actions import Stop, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.decide import decide
from core.jobs.fields import at, changed
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, JOB_SET, KINDS, POD
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.situation import JobSituation
from core.wire import decode
from core.wire.merge import merged
from core.workload import transitions
from tests.cli import test_importing as single
from tests.cli.test_importing import Importer, Stored, importer, job, ours, stored
from tests.core.jobs.test_kinds import EXAMPLES, RELATED

__all__ = ["importer"]

QUEUE = "kueue.x-k8s.io/queue-name"
TAKEN_IN = [kind for kind in ALL if kind not in (POD, APP_WRAPPER)]
SUSPENDED = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.fixture(autouse=True)
def every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server serves each kind."""
    monkeypatch.setattr(single, "PLURALS", single.PLURALS | {kind.plural: kind.kind for kind in ALL})


def everything(*flavors: str) -> Raw:
    """A ClusterQueue that has each resource of the examples."""
    named = ["cpu", "memory", "nvidia.com/gpu"]
    quotas = [
        {"name": flavor, "resources": [{"name": each, "nominalQuota": 9000} for each in named]} for flavor in flavors
    ]
    return ours(
        "ClusterQueue",
        "shared",
        {"resourceGroups": [{"coveredResources": named, "flavors": quotas}], "namespaceSelector": {}},
    )


def named(kind: JobKind, raw: Raw, owner: Raw | None = None) -> Raw:
    """An object of a namespace, controlled by another one."""
    found = {**copy.deepcopy(raw), "apiVersion": kind.api_version, "kind": kind.kind}
    found["metadata"] |= {"namespace": "team-a", "uid": f"uid-{kind.kind}", "ownerReferences": [owner] if owner else []}
    found["metadata"].setdefault("name", kind.singular)
    return found


def reference(raw: Raw) -> Raw:
    metadata = raw["metadata"]
    of = {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**of, "controller": True}


def running(kind: JobKind) -> tuple[Raw, list[Raw], list[Raw]]:
    """A job that runs without a queue, the objects that belong to it, and a pod of each pod set."""
    raw = named(kind, EXAMPLES[kind])
    raw["metadata"].get("labels", {}).pop(QUEUE, None)
    raw = changed(raw, *kind.release(raw))
    for place, slot in enumerate(kind.slots(raw), start=1):
        for container in at(raw, (*slot.path, "spec", "containers")) or ():
            container["resources"] = {"requests": {"cpu": str(place)}}
    related = [
        named(JOB_SET, each, reference(raw)) for each in RELATED.get(kind, []) if each.get("kind") in (None, "JobSet")
    ]
    pods = []
    for place, each in enumerate(kind.pod_sets(raw, related)):
        metadata = {"name": f"pod-{place}", "namespace": "team-a", "uid": f"uid-pod-{place}"}
        owner = reference(related[0] if related else raw)
        spec = {**copy.deepcopy(each["template"]["spec"]), "nodeName": f"n{place % 2 + 1}"}
        pods.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec}
        )
    return raw, related, pods


def imported(importer: Importer, there: Stored, *kinds: JobKind) -> str:
    config = importer.directory / "config.yaml"
    frameworks = ", ".join(kind.framework for kind in kinds)
    gates = ", ".join(f"{kind.gate}: true" for kind in kinds if kind.gate)
    config.write_text(f"integrations: {{frameworks: [{frameworks}]}}\nfeatureGates: {{{gates}}}")
    return importer(there, "--apply", "--config", str(config))


@pytest.mark.parametrize("kind", TAKEN_IN, ids=lambda kind: kind.kind)
def test_a_job_of_each_kind_is_taken_in_and_runs_on_until_it_is_evicted(importer: Importer, kind: JobKind) -> None:
    raw, related, pods = running(kind)
    there = stored(everything("spot", "default"), raw, *related, *pods)
    imported(importer, there, kind)
    workload = there.workloads()[raw["metadata"]["name"]]
    name = workload["metadata"]["name"]
    writes = [f"POST Workload {name}", f"PATCH Workload {name}/status", f"PATCH {kind.kind} {raw['metadata']['name']}"]
    assert there.writes == writes
    found = there.get(kind.kind, raw["metadata"]["name"])
    assert found["spec"] == raw["spec"]

    def steps() -> list[str]:
        nonlocal workload, found
        made: list[str] = []
        while True:
            value = decode.workload(workload, decode.WorkloadContext())
            situation = JobSituation(
                kind,
                found,
                1e10,
                (workload,),
                {value.key: value},
                related=tuple(related),
                stopped_pods_gone={raw["metadata"]["uid"]},
            )
            action = decide(situation)
            match action:
                case Wait():
                    return made
                case UpdateWorkload() | UpdateWorkloadStatus():
                    workload = merged(workload, action.body)
                case Stop():
                    for each in action.steps:
                        assert isinstance(each, Patch)
                        if not each.subresource:
                            found = merged(found, each.body)
                    found["status"] = {"conditions": [SUSPENDED]}
            made.append(type(action).__name__)
            assert len(made) < 9, made

    assert steps() == ["UpdateWorkload"], "the gate is removed"
    value = decode.workload(workload, decode.WorkloadContext())
    gone = transitions.evicted(value, "Preempted", "another job", 9e9)
    action = UpdateWorkloadStatus.between(value, gone, "evict")
    assert action is not None
    workload = merged(workload, action.body)
    assert "Stop" in steps()
    assert kind.held(found)


def test_each_pod_set_has_the_flavor_of_the_nodes_of_its_own_pods(importer: Importer) -> None:
    raw, _, pods = running(RAY_CLUSTER)
    there = stored(everything("default", "spot"), raw, *pods)
    imported(importer, there, RAY_CLUSTER)
    given = there.workloads()[raw["metadata"]["name"]]["status"]["admission"]["podSetAssignments"]
    flavors = {each["name"]: {*each["flavors"].values()} for each in given}
    assert [*flavors.values()][:2] == [{"spot"}, {"default"}], flavors


def job_set_of_jobs() -> tuple[Raw, Stored]:
    """A JobSet that runs, whose pods belong to a Job of it, and the cluster that has them."""
    raw, _, pods = running(JOB_SET)
    part = job("part", ownerReferences=[reference(raw)])
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [reference(part)]
    return raw, stored(everything("spot", "default"), raw, part, *pods)


def test_the_jobs_and_pods_of_a_job_set_are_taken_in_with_it(importer: Importer) -> None:
    raw, there = job_set_of_jobs()
    out = imported(importer, there, JOB_SET, BATCH_JOB)
    assert there.workloads().keys() == {raw["metadata"]["name"]}
    assert "Left alone: it is a part of a JobSet (Job team-a/part)" in out
    (assigned, *_) = there.workloads()[raw["metadata"]["name"]]["status"]["admission"]["podSetAssignments"]
    assert {*assigned["flavors"].values()} == {"spot"}


def test_without_its_integration_a_job_set_is_left_alone_with_all_that_is_below_it(importer: Importer) -> None:
    _, there = job_set_of_jobs()
    for out in (importer(there, "--apply"), imported(importer, there, BATCH_JOB)):
        why = "a kind that is not imported without jobset.x-k8s.io/jobset in the integrations of --config"
        assert f"Left alone: it belongs to a JobSet, {why} (Job team-a/part)" in out
    assert there.writes == []


def test_a_cluster_that_could_not_be_queued_is_not_taken_in(importer: Importer) -> None:
    raw, _, pods = running(RAY_CLUSTER)
    raw["spec"]["enableInTreeAutoscaling"] = True
    there = stored(everything("default", "spot"), raw, *pods)
    config = importer.directory / "config.yaml"
    config.write_text("integrations: {frameworks: [ray.io/raycluster]}")
    code, _, errors = importer.run(there, "--apply", "--config", str(config))
    assert (code, there.writes) == (1, [])
    assert errors.startswith("seiretsu import: a queued RayCluster may not be so: spec.enableInTreeAutoscaling: "), (
        errors
    )


def test_every_kind_but_app_wrappers_can_be_taken_in() -> None:
    assert {*imported_kinds(KINDS)} == {*TAKEN_IN, POD}
    assert imported_kinds(None) == (BATCH_JOB, POD)
