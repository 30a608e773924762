"""What the feature gates of Kueue's integrations change, on and off."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from api.configuration import load
from api.names import Annotation
from controller.settings import ControllerSettings, from_configuration
from core.actions import Wait
from core.jobs import leader_worker_sets, stateful_sets, workload
from core.jobs.actions import CreateWorkload, Problem, UpdateWorkload
from core.jobs.decide import decide
from core.jobs.kinds import BATCH_JOB, POD_GROUP
from core.jobs.kinds.rayservice import RAY_SERVICE
from core.jobs.leader_worker_sets import LeaderWorkerSetSituation
from core.jobs.situation import JobSituation
from core.jobs.workload import LONG_NAME, SHORT_NAME
from core.model import Raw
from core.variants import rules
from core.wire.merge import merged
from core.wire.pod_requests import RequestRules
from tests.core.jobs import test_leader_worker_sets as sets
from tests.core.jobs.samples import CLASSES, NOW, admitted, decoded, job, read
from tests.core.jobs.samples import situation as situation_of
from tests.core.jobs.samples import workload_of as of_job
from tests.core.jobs.test_pod_group import GROUP, decided, group, three, workload_of
from tests.core.jobs.test_ray import ray
from tests.core.jobs.test_stateful_sets import situation, stateful_set

LONG = "a" * 100
DELETED = "1970-01-01T00:16:50Z"


def configured(gate: str, *, on: bool) -> ControllerSettings:
    return from_configuration(load(f"featureGates: {{{gate}: {str(on).lower()}}}").configuration, elect=False)


@pytest.mark.parametrize(("on", "length"), [(True, 63), (False, 109)])
def test_short_workload_names(*, on: bool, length: int) -> None:
    found = job()
    found["metadata"]["name"] = "job-" * 5 + "b" * (99 - 20)
    copied = configured("ShortWorkloadNames", on=on).copied
    assert copied.longest_name == (SHORT_NAME if on else LONG_NAME)
    name = workload.manifest(BATCH_JOB, found, {"spec": {}}, copied)["metadata"]["name"]
    assert len(name) == length
    assert name[-5:] == workload.manifest(BATCH_JOB, found, {"spec": {}})["metadata"]["name"][-5:], "the same hash"


def test_short_names_stay_short_for_variants_and_sets_of_pods() -> None:
    raw: Raw = {"metadata": {"name": f"job-{LONG}-12345", "namespace": "ns", "uid": "u"}, "spec": {}}
    assert len(rules.manifest(raw, "spot", SHORT_NAME)["metadata"]["name"]) == 63
    assert len(rules.manifest(raw, "spot")["metadata"]["name"]) == len(f"job-{LONG}-variant-spot-12345")
    owner = stateful_set()
    owner["metadata"]["name"] = LONG
    (step,) = (each for each in stateful_sets.steps(replace(situation(owner), longest_name=SHORT_NAME)) if each)
    assert isinstance(step, CreateWorkload)
    name = step.manifest["metadata"]["name"]
    assert len(name) == 63
    assert name in stateful_sets.workload_names(owner), "it is found again when the gate is off"


@pytest.mark.parametrize("after", [SHORT_NAME, LONG_NAME])
@pytest.mark.parametrize("before", [SHORT_NAME, LONG_NAME])
def test_groups_keep_the_names_that_they_have_when_the_gate_is_switched(before: int, after: int) -> None:
    owner = sets.made()
    owner["metadata"]["name"] = LONG
    found: list[Raw] = []
    for step in leader_worker_sets.steps(LeaderWorkerSetSituation(owner, (), (), {}, CLASSES, longest_name=before)):
        if isinstance(step, CreateWorkload):
            found.append(copy.deepcopy(step.manifest))
            found[-1]["metadata"] |= {"uid": str(len(found)), "resourceVersion": "1"}
    assert [len(raw["metadata"]["name"]) for raw in found] == [min(before, len(f"leaderworkerset-{LONG}-0-12345"))] * 2
    again = LeaderWorkerSetSituation(owner, (), found, decoded(*found), CLASSES, longest_name=after)
    assert [step for step in leader_worker_sets.steps(again) if step is not None] == []


@pytest.mark.parametrize(("on", "active"), [(True, False), (False, True)])
def test_fast_quota_release_of_pods(*, on: bool, active: bool) -> None:
    """Pods that terminate use no quota, although their grace period has not ended."""
    settings = configured("FastQuotaReleaseInPodIntegration", on=on)
    longest = 0.0 if settings.fast_release_of_pods else settings.terminating_pods_timeout
    ending = {"metadata": {"deletionTimestamp": "1970-01-01T00:17:00Z", "deletionGracePeriodSeconds": 30}}
    pods = [merged(each, ending) for each in three(gated=False)]
    assert POD_GROUP.active(POD_GROUP.beside(group(*pods), None, None, RequestRules(), longest)) is active


@pytest.mark.parametrize(("on", "adopted"), [(True, False), (False, True)])
def test_validation_of_the_owner_of_a_group(*, on: bool, adopted: bool) -> None:
    other = workload_of(*three())
    other["metadata"] |= {"annotations": {}, "ownerReferences": []}
    settings = configured("PodIntegrationValidateGroupOwner", on=on)
    action = decided(three(), prebuilt=other, adopts_workloads=not settings.validates_group_owners)
    if not adopted:
        assert isinstance(action, Problem)
        return
    assert isinstance(action, UpdateWorkload)
    after = merged(other, action.body)
    assert after["metadata"]["annotations"] == {Annotation.IS_GROUP_WORKLOAD: "true"}
    assert isinstance(decided(three(), after), UpdateWorkload), "and then gets the pods as its owners"


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]},
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}]},
        {"deletionTimestamp": DELETED},
    ],
    ids=["of a Job", "of a StatefulSet", "that is being deleted"],
)
def test_a_workload_of_another_object_is_never_adopted(metadata: Raw) -> None:
    other = workload_of(*three())
    other["metadata"] |= {"annotations": {}, "ownerReferences": [], **metadata}
    assert isinstance(decided(three(), prebuilt=other, adopts_workloads=True), Problem)
    assert other["metadata"]["name"] == GROUP


def service(**metadata: str) -> Raw:
    found = ray(RAY_SERVICE, annotations={"ray.io/ft-enabled": "true"})
    found["metadata"] |= metadata
    return found


@pytest.mark.parametrize(("on", "waits"), [(True, True), (False, False)])
def test_a_ray_service_keeps_its_quota_until_redis_is_cleaned_up(*, on: bool, waits: bool) -> None:
    settings = configured("DeferRayServiceFinalizationForRedisCleanup", on=on)
    found = service(deletionTimestamp=DELETED)
    raw = workload.manifest(RAY_SERVICE, found, {"spec": {"priority": 0}})
    raw["metadata"] |= {"uid": "wl", "resourceVersion": "1"}
    deferred = settings.awaits_redis_cleanup and RAY_SERVICE.awaits_cleanup(found)
    s = JobSituation(RAY_SERVICE, found, NOW, (raw,), decoded(raw), awaits_cleanup=deferred)
    assert (decide(s) == Wait()) is waits


def test_only_a_deleted_service_with_fault_tolerance_awaits_its_cleanup() -> None:
    assert not RAY_SERVICE.awaits_cleanup(service())
    assert not RAY_SERVICE.awaits_cleanup(
        merged(service(deletionTimestamp=DELETED), {"metadata": {"annotations": None}})
    )
    options: Raw = {"spec": {"rayClusterConfig": {"gcsFaultToleranceOptions": {}}}}
    plain = merged(service(deletionTimestamp=DELETED), {"metadata": {"annotations": None}})
    assert RAY_SERVICE.awaits_cleanup(merged(plain, options))


@pytest.mark.parametrize(("on", "labels"), [(True, {"cq", "lq"}), (False, set())])
def test_pods_get_the_labels_of_their_queues(*, on: bool, labels: set[str]) -> None:
    found = job()
    raw = admitted(of_job(found))
    copied = configured("AssignQueueLabelsForPods", on=on).copied
    (injection,) = situation_of(found, raw, copied=copied).injections(read(raw))
    queues = {"kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name"}
    assert {value for key, value in injection.labels.items() if key in queues} == labels
    assert injection.labels["kueue.x-k8s.io/podset"] == "main"
