"""RayClusters, RayJobs and RayServices in the eyes of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from core.actions import Delete, Patch, Target, Wait
from core.jobs import workload
from core.jobs.actions import CreateWorkload, Start, Stop, Ungate, UpdateWorkloadStatus
from core.jobs.decide import decide
from core.jobs.fields import changed
from core.jobs.job_reader import Outcome
from core.jobs.kinds.raycluster import RAY_CLUSTER, RayKind
from core.jobs.kinds.rayjob import MADE, RAY_JOB
from core.jobs.kinds.rayservice import RAY_SERVICE
from core.jobs.situation import JobSituation
from core.jobs.template import Injection
from core.model import Admission, Key, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import decoded, patches, read, with_status

RAY = (RAY_CLUSTER, RAY_JOB, RAY_SERVICE)
EACH = pytest.mark.parametrize("kind", RAY, ids=lambda kind: kind.kind)
AUTOSCALER = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def group(name: str, replicas: int | None = 1, **spec: Any) -> Raw:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "ray-worker", "image": "w"}]}}
    return {"groupName": name, **({} if replicas is None else {"replicas": replicas}), "template": pod, **spec}


def cluster(*groups: Raw, head: Raw | None = None, **spec: Any) -> Raw:
    """A cluster of a head and a group of two workers, if no other groups are given."""
    container = {"name": "ray-head", "image": "ray:1", **({"resources": {"requests": head}} if head else {})}
    head_group = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    return {"headGroupSpec": head_group, "workerGroupSpecs": [*(groups or [group("Small", 2)])], **spec}


def ray(kind: RayKind, *groups: Raw, status: Raw | None = None, annotations: Raw | None = None, **spec: Any) -> Raw:
    """A suspended object of a kind of Ray's, with these groups and fields of its cluster."""
    found = cluster(*groups, **spec)
    metadata: Raw = {"name": "r", "namespace": "ns", "uid": "r-uid", "resourceVersion": "5"}
    if annotations:
        metadata["annotations"] = annotations
    own = {
        RAY_CLUSTER: {**found, "suspend": True},
        RAY_JOB: {"suspend": True, "shutdownAfterJobFinishes": True, "entrypoint": "e", "rayClusterSpec": found},
        RAY_SERVICE: {"serveConfigV2": "x", "rayClusterConfig": {**found, "suspend": True}},
    }
    base = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": own[kind]}
    return base if status is None else {**base, "status": status}


def pod_sets(kind: RayKind, found: Raw) -> dict[str, int]:
    return {each["name"]: each["count"] for each in kind.pod_sets(found)}


def resources(kind: RayKind, found: Raw) -> dict[str, Raw]:
    """The resources of the containers of the head's pod set."""
    head = kind.pod_sets(found)[0]
    return {each["name"]: each.get("resources", {}) for each in head["template"]["spec"]["containers"]}


@EACH
@pytest.mark.parametrize(
    ("one", "count"),
    [
        (group("G", 3), 3),
        (group("g", None), 1),
        (group("g", 3, numOfHosts=4), 12),
        (group("g", 2, numOfHosts=0), 2),
        (group("g", 1, minReplicas=20), 20),
        (group("g", 0, minReplicas=5, numOfHosts=2), 10),
        (group("g", 3, minReplicas=1, maxReplicas=2), 3),
    ],
    ids=[
        "replicas",
        "one by default",
        "each of several hosts",
        "no number of hosts",
        "never fewer than minReplicas",
        "minReplicas of several hosts",
        "maxReplicas can be raised",
    ],
)
def test_a_head_and_each_group_of_workers_is_a_pod_set(kind: RayKind, one: Raw, count: int) -> None:
    submitter = {"submitter": 1} if kind is RAY_JOB else {}
    assert pod_sets(kind, ray(kind, one, group("other", 5))) == {"head": 1, "g": count, "other": 5, **submitter}


@EACH
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, AUTOSCALER), ({"autoscalerOptions": {"resources": {"requests": {"cpu": "2"}}}}, {"requests": {"cpu": "2"}})],
    ids=["KubeRay's own", "of its options"],
)
def test_the_autoscaler_that_kuberay_adds_to_the_head_is_counted_and_never_written(
    kind: RayKind, options: Raw, expected: Raw
) -> None:
    found = ray(kind, enableInTreeAutoscaling=True, **options)
    assert resources(kind, found) == {"ray-head": {}, "autoscaler": expected}
    (patch,) = patches(kind.start(found, [Injection("any", 1)] * len(kind.slots(found))))
    assert "autoscaler" not in str(patch.body)


@EACH
@pytest.mark.parametrize(
    ("asks", "counted"),
    [
        ({"cpu": "100m", "memory": "1Gi"}, {"cpu": "200m", "memory": "1Gi"}),
        ({"cpu": "1"}, {"cpu": "1", "memory": "256Mi"}),
        (None, {"cpu": "200m", "memory": "256Mi"}),
    ],
    ids=["too little cpu", "no memory", "nothing"],
)
def test_the_head_of_a_fault_tolerant_cluster_has_room_for_the_clean_up(
    kind: RayKind, asks: Raw | None, counted: Raw
) -> None:
    for found in (
        ray(kind, head=asks, gcsFaultToleranceOptions={}),
        ray(kind, head=asks, annotations={"ray.io/ft-enabled": "true"}),
    ):
        assert resources(kind, found) == {"ray-head": {"requests": counted}}


@pytest.mark.parametrize(
    ("mode", "names", "head"),
    [
        ("K8sJobMode", ["head", "small", "submitter"], {"ray-head": {}}),
        (None, ["head", "small", "submitter"], {"ray-head": {}}),
        ("HTTPMode", ["head", "small"], {"ray-head": {}}),
        ("SidecarMode", ["head", "small"], {"ray-head": {}, "ray-job-submitter": SUBMITTER}),
        ("InteractiveMode", ["head", "small"], {"ray-head": {}}),
    ],
)
def test_the_submitter_of_a_ray_job_is_counted_where_it_runs(mode: str | None, names: list[str], head: Raw) -> None:
    found = changed(ray(RAY_JOB), ("spec", "submissionMode"), mode)
    assert [*pod_sets(RAY_JOB, found)] == names
    assert resources(RAY_JOB, found) == head


def test_a_submitter_without_a_template_gets_one_at_the_start_that_the_stop_removes() -> None:
    found = ray(RAY_JOB)
    *_, submitter = RAY_JOB.pod_sets(found)
    assert submitter["template"]["spec"] == {
        "containers": [{"name": "ray-job-submitter", "image": "ray:1", "resources": SUBMITTER}],
        "restartPolicy": "Never",
    }
    (start,) = patches(RAY_JOB.start(found, [Injection("any", 1, node_selector={"pool": "a"})] * 3))
    running = merged(found, start.body)
    assert running["spec"]["submitterPodTemplate"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert MADE in running["spec"]["submitterPodTemplate"]["metadata"]["annotations"]
    (stop,) = patches(RAY_JOB.stop(running, RAY_JOB.pod_sets(found)))
    assert "submitterPodTemplate" not in merged(running, stop.body)["spec"]


def test_a_submitter_is_counted_although_the_head_names_no_image() -> None:
    found = changed(ray(RAY_JOB), ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers"), [{}])
    *_, submitter = RAY_JOB.pod_sets(found)
    assert submitter["template"]["spec"]["containers"] == [{"name": "ray-job-submitter", "resources": SUBMITTER}]


def test_a_submitter_template_of_the_user_is_kept() -> None:
    own = {"spec": {"containers": [{"name": "mine", "image": "i"}], "nodeSelector": {"disk": "ssd"}}}
    found = changed(ray(RAY_JOB), ("spec", "submitterPodTemplate"), own)
    (start,) = patches(RAY_JOB.start(found, [Injection("any", 1, node_selector={"pool": "a"})] * 3))
    running = merged(found, start.body)
    assert running["spec"]["submitterPodTemplate"]["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "a"}
    (stop,) = patches(RAY_JOB.stop(running, RAY_JOB.pod_sets(found)))
    assert merged(running, stop.body)["spec"]["submitterPodTemplate"]["spec"] == own["spec"]


@pytest.mark.parametrize(
    ("status", "active"),
    [
        ({}, False),
        ({"state": "suspended"}, False),
        ({"state": "ready"}, True),
        ({"state": "suspended", "conditions": [{"type": "RayClusterSuspended", "status": "False"}]}, True),
        ({"state": "ready", "conditions": [{"type": "RayClusterSuspended", "status": "True"}]}, False),
        ({"state": "ready", "conditions": [{"type": "HeadPodReady", "status": "True"}]}, True),
    ],
    ids=["unseen", "suspended", "ready", "resumed, its state is stale", "suspended, its state is stale", "ready again"],
)
def test_a_cluster_is_active_until_kuberay_reports_it_as_suspended(status: Raw, active: bool) -> None:
    found = ray(RAY_CLUSTER, status=status)
    assert RAY_CLUSTER.active(found) is active
    assert RAY_CLUSTER.finished(found) is None
    assert RAY_SERVICE.active(ray(RAY_SERVICE), [found]) is active


def test_a_service_is_ready_and_active_as_its_clusters_are_not_as_it_says() -> None:
    ready = ray(RAY_SERVICE, status={"conditions": [{"type": "Ready", "status": "True"}]})
    suspended, running = (ray(RAY_CLUSTER, status={"state": state}) for state in ("suspended", "ready"))
    assert not RAY_SERVICE.active(ready, [suspended])
    assert not RAY_SERVICE.pods_ready(ready, [suspended])
    assert RAY_SERVICE.active(ready, [suspended, running])
    assert RAY_SERVICE.pods_ready(ready, [running])
    assert not RAY_SERVICE.pods_ready(ray(RAY_SERVICE), [running])
    assert RAY_SERVICE.finished(ready) is None


@pytest.mark.parametrize(
    ("status", "active", "ended"),
    [
        ({}, False, None),
        ({"jobDeploymentStatus": "Initializing"}, True, None),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, True, None),
        ({"jobDeploymentStatus": "Suspended"}, False, None),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, True, None),
        (
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "done"},
            True,
            Outcome(True, "done"),
        ),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "bad"}, True, Outcome(False, "bad")),
        ({"jobDeploymentStatus": "Failed"}, True, Outcome(False, "")),
    ],
)
def test_the_life_of_a_ray_job(status: Raw, active: bool, ended: Outcome | None) -> None:
    found = ray(RAY_JOB, status=status)
    assert (RAY_JOB.active(found), RAY_JOB.finished(found)) == (active, ended)


def test_a_cluster_or_job_is_ready_when_its_cluster_is() -> None:
    assert RAY_CLUSTER.pods_ready(ray(RAY_CLUSTER, status={"state": "ready"}))
    assert not RAY_CLUSTER.pods_ready(ray(RAY_CLUSTER, status={}))
    assert RAY_JOB.pods_ready(ray(RAY_JOB, status={"rayClusterStatus": {"state": "ready"}}))
    assert not RAY_JOB.pods_ready(ray(RAY_JOB))


@EACH
@pytest.mark.parametrize(
    ("groups", "spec", "errors"),
    [
        ([group("a")], {}, []),
        (
            [group("a"), group("head")],
            {},
            ['{path}.workerGroupSpecs[1].groupName: Forbidden: "head" is reserved for the head group'],
        ),
        (
            [group(f"g{number}") for number in range(18)],
            {},
            ["{path}.workerGroupSpecs: Too many: 19: must have at most 18 items"],
        ),
        ([group(f"g{number}") for number in range(17)], {}, []),
        (
            [group("a")],
            {"enableInTreeAutoscaling": True},
            ["{path}.enableInTreeAutoscaling: Invalid value: true: {auto}"],
        ),
    ],
    ids=["good", "a group named head", "too many groups", "as many groups as there may be", "autoscaling"],
)
def test_the_rules_for_a_cluster_in_a_queue(kind: RayKind, groups: list[Raw], spec: Raw, errors: list[str]) -> None:
    found = kind.validate_create(ray(kind, *groups, **spec), DEFAULTS.__getitem__)
    path, auto = ".".join(map(str, kind.pods_path)), kind.autoscaling_error
    assert [str(each) for each in found] == [each.format(path=path, auto=auto) for each in errors]


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        (
            {"rayClusterSpec": None},
            [
                "spec.rayClusterSpec: Required value: rayClusterSpec is required for Kueue-managed jobs that don't use"
                " clusterSelector"
            ],
        ),
        (
            {"shutdownAfterJobFinishes": False},
            [
                "spec.shutdownAfterJobFinishes: Invalid value: false: a kueue managed job should delete the cluster"
                " after finishing"
            ],
        ),
    ],
    ids=["no cluster", "its cluster is not deleted"],
)
def test_the_rules_for_the_cluster_of_a_ray_job(change: Raw, errors: list[str]) -> None:
    found = RAY_JOB.validate_create(merged(ray(RAY_JOB), {"spec": change}), DEFAULTS.__getitem__)
    assert [str(each) for each in found] == errors


@pytest.mark.parametrize(
    ("managed_by", "errors"),
    [
        ("ray.io/kuberay-operator", []),
        (
            "kueue.x-k8s.io/multikueue",
            [
                "spec.enableInTreeAutoscaling: Forbidden: in-tree autoscaling is not supported for a MultiKueue-managed"
                " elastic RayCluster"
            ],
        ),
    ],
)
def test_an_elastic_cluster_of_another_cluster_has_no_autoscaler(managed_by: str, errors: list[str]) -> None:
    spec: Raw = {"enableInTreeAutoscaling": True, "managedBy": managed_by}
    found = ray(RAY_CLUSTER, annotations={"kueue.x-k8s.io/elastic-job": "true"}, **spec)
    assert [str(each) for each in RAY_CLUSTER.validate_create(found, DEFAULTS.__getitem__)] == errors


@pytest.mark.parametrize("change", [{"rayClusterSpec": None}, {}], ids=["another cluster", "another and its own"])
def test_a_ray_job_that_uses_an_existing_cluster_is_not_managed(change: Raw) -> None:
    assert RAY_JOB.skip(merged(ray(RAY_JOB), {"spec": {"clusterSelector": {"a": "b"}, **change}}))
    assert not RAY_JOB.skip(ray(RAY_JOB))


def test_a_ray_job_that_describes_a_cluster_and_uses_another_one_is_refused() -> None:
    both = merged(ray(RAY_JOB), {"spec": {"clusterSelector": {"a": "b"}}})
    text = 'spec.clusterSelector: Invalid value: {"a":"b"}: a kueue managed job should not use an existing cluster'
    assert [str(each) for each in RAY_JOB.skip_errors(both)] == [text]
    assert RAY_JOB.skip_errors(changed(both, ("spec", "rayClusterSpec"), None)) == []


def held(found: Raw, raw: Raw, *clusters: Raw, kind: RayKind = RAY_JOB) -> Any:
    return decide(JobSituation(kind=kind, job=found, now=9.0, workloads=(raw,), decoded=decoded(raw), related=clusters))


def with_quota(kind: RayKind, waiting: Raw) -> Raw:
    """The Workload of an object that has quota."""
    raw = workload.manifest(kind, waiting, {"spec": {"priority": 0}})
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    names = [each["name"] for each in kind.pod_sets(waiting)]
    admission = Admission("cq", tuple(PodSetAssignment(name, {}, {}, 1) for name in names))
    return with_status(raw, read(raw), transitions.reserved(read(raw), admission, 1.0))


def test_an_invalid_ray_job_releases_its_quota_until_it_is_changed() -> None:
    waiting = ray(RAY_JOB)
    admitted = with_quota(RAY_JOB, waiting)
    running = merged(waiting, {"spec": {"suspend": False}})
    invalid = {**running, "status": {"jobDeploymentStatus": "ValidationFailed"}}
    action = held(invalid, admitted)
    assert isinstance(action, UpdateWorkloadStatus)
    after = read(with_status(admitted, read(admitted), action.after))
    reserved = after.condition("QuotaReserved")
    assert reserved is not None
    assert (reserved.status, reserved.reason, reserved.message) == (False, "OnHold", "Job is on hold")
    released = with_status(admitted, read(admitted), action.after)
    assert held(invalid, released) == Wait()
    again = held({**waiting, "status": {"jobDeploymentStatus": "Suspended"}}, released)
    assert isinstance(again, UpdateWorkloadStatus)
    pending = again.after.condition("QuotaReserved")
    assert pending is not None
    assert (pending.status, pending.reason) == (False, "PendingEvaluation")


def of_owner(kind: RayKind, name: str) -> Raw:
    """A RayCluster that runs, of an object of this kind."""
    above = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "r", "uid": "r-uid", "controller": True}
    found = ray(RAY_CLUSTER, status={"state": "ready"})
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": [above]}
    return merged(found, {"metadata": metadata, "spec": {"suspend": False}})


INVALID: dict[RayKind, Raw] = {
    RAY_JOB: {"jobDeploymentStatus": "ValidationFailed"},
    RAY_SERVICE: {"conditions": [{"type": "Ready", "status": "False", "reason": "ValidationFailed"}]},
}


@EACH
def test_no_cluster_is_resized_by_an_autoscaler_where_there_are_no_elastic_jobs(kind: RayKind) -> None:
    found = ray(kind, annotations=ELASTIC, enableInTreeAutoscaling=True)
    gates = {**DEFAULTS, "ElasticJobsViaWorkloadSlices": False}
    assert kind.validate_create(found, {**DEFAULTS, "ElasticJobsViaWorkloadSlices": True}.__getitem__) == []
    (error,) = kind.validate_create(found, gates.__getitem__)
    assert ".enableInTreeAutoscaling: Invalid value: true" in str(error)


@pytest.mark.parametrize("kind", INVALID, ids=lambda kind: kind.kind)
def test_what_becomes_invalid_while_it_runs_is_stopped_with_its_clusters_before_its_quota_is_free(
    kind: RayKind,
) -> None:
    """KubeRay does nothing with it any more: its clusters run on."""
    waiting, clusters = ray(kind), (of_owner(kind, "one"), of_owner(kind, "two"))
    raw = with_quota(kind, waiting)
    raw = with_status(raw, read(raw), transitions.evicted(read(raw), "Preempted", "", 2.0))
    running = changed({**waiting, "status": INVALID[kind]}, kind.suspend_path, False)
    stop = held(running, raw, *clusters, kind=kind)
    assert isinstance(stop, Stop) and not any(isinstance(each, Delete) for each in stop.steps)
    stopped = changed(running, kind.suspend_path, True)
    action = held(stopped, raw, *clusters, kind=kind)
    assert isinstance(action, Stop)
    assert [(each.uid, each.target) for each in action.steps if isinstance(each, Delete)] == [
        (f"uid-{name}", Target(RAY_CLUSTER.resource, Key("ns", name))) for name in ("one", "two")
    ]
    leaving = [merged(each, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}) for each in clusters]
    assert held(stopped, raw, *leaving, kind=kind) == Wait()
    assert isinstance(held(stopped, raw, kind=kind), UpdateWorkloadStatus)


def test_an_interactive_job_that_waits_for_its_user_is_stopped() -> None:
    """KubeRay does not look at ``suspend`` in that state."""
    found = ray(RAY_JOB, status={"jobDeploymentStatus": "Waiting"})
    (patch,) = RAY_JOB.stop(found, [], [of_owner(RAY_JOB, "one")])
    assert isinstance(patch, Patch) and patch.subresource == "status"
    assert patch.body["status"] == {"jobDeploymentStatus": "Suspending"}
    assert not RAY_JOB.stop(merged(found, patch.body), [], [])


def elastic(workers: int, *, generation: int, **status: Any) -> Raw:
    """A running elastic RayCluster with gated pods."""
    found = ray(RAY_CLUSTER, group("small", workers), annotations=ELASTIC, status={"state": "ready", **status})
    for template in (found["spec"]["headGroupSpec"]["template"], found["spec"]["workerGroupSpecs"][0]["template"]):
        template["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/elastic-job"}]
    found["spec"]["suspend"] = False
    found["metadata"]["generation"] = generation
    return found


def admitted_slice(found: Raw) -> Raw:
    """The admitted Workload of an elastic RayCluster."""
    raw = workload.manifest(RAY_CLUSTER, found, {"spec": {"priority": 0}}, elastic=True)
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9", "creationTimestamp": "2026-01-01T00:00:00Z"}
    counts = ((each["name"], each["count"]) for each in raw["spec"]["podSets"])
    given = Admission("cq", tuple(PodSetAssignment(name, {}, {}, count) for name, count in counts))
    value = read(raw)
    return with_status(raw, value, transitions.reserved(value, given, 1.0))


def test_an_elastic_cluster_that_gets_more_workers_goes_on_with_a_second_slice() -> None:
    raw = admitted_slice(elastic(2, generation=1))
    action = decide(
        JobSituation(RAY_CLUSTER, elastic(4, generation=2), 1.0, workloads=(raw,), decoded=decoded(raw), managed=True)
    )
    assert isinstance(action, CreateWorkload)
    assert [each["count"] for each in action.manifest["spec"]["podSets"]] == [1, 4]
    key = "kueue.x-k8s.io/workload-slice-replacement-for"
    assert action.manifest["metadata"]["annotations"][key] == str(workload.key(raw))


@pytest.mark.parametrize(("ready", "asked"), [(2, False), (1, True), (0, True)])
def test_the_pods_of_an_elastic_cluster_are_asked_for_while_workers_are_missing(ready: int, asked: bool) -> None:
    """KubeRay reports a cluster that gets more workers as ready all the time."""
    found = elastic(2, generation=1, desiredWorkerReplicas=2, readyWorkerReplicas=ready)
    raw = admitted_slice(found)
    action = decide(JobSituation(RAY_CLUSTER, found, 1.0, workloads=(raw,), decoded=decoded(raw)))
    assert action == (Ungate("r-uid", RAY_CLUSTER.uid_label, {"head": 1, "small": 2}) if asked else Wait())


@pytest.mark.parametrize("kind", [RAY_JOB, RAY_SERVICE], ids=lambda kind: kind.kind)
@pytest.mark.parametrize(
    ("annotations", "autoscaling", "of", "count"),
    [
        pytest.param(ELASTIC, True, "r-1", 5, id="its cluster was resized by the autoscaler"),
        pytest.param(ELASTIC, True, "another", 2, id="another cluster"),
        pytest.param(ELASTIC, False, "r-1", 2, id="without autoscaler"),
        pytest.param({}, True, "r-1", 2, id="not elastic"),
    ],
)
def test_the_workers_of_an_elastic_job_are_those_of_its_cluster(
    kind: RayKind, annotations: Raw, autoscaling: bool, of: str, count: int
) -> None:
    status = {"rayClusterName": "r-1", "activeServiceStatus": {"rayClusterName": "r-1"}}
    found = ray(kind, group("small", 2), annotations=annotations, status=status, enableInTreeAutoscaling=autoscaling)
    resized = ray(RAY_CLUSTER, group("small", 5))
    resized["metadata"] |= {"name": of, "generation": 7}
    counts = {each["name"]: each["count"] for each in kind.pod_sets(found, (resized,))}
    assert counts["small"] == count
    assert kind.slice_of(found, (resized,)) == ("1_7" if of == "r-1" else "1_")


@pytest.mark.parametrize(
    ("admitted_above", "outcome"), [(True, Start), (False, Wait)], ids=["admitted", "not admitted"]
)
def test_the_suspended_cluster_of_a_rayjob_is_started_when_the_rayjob_is_admitted(
    admitted_above: bool, outcome: type
) -> None:
    """KubeRay does not resume it. A replica that had not seen the admission may have suspended it."""
    found = ray(RAY_CLUSTER)
    above = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": "j-uid", "controller": True}
    found["metadata"]["ownerReferences"] = [above]
    situation = JobSituation(
        RAY_CLUSTER, found, 0.0, managed=False, ancestor_admitted=admitted_above, ancestor_uid="j-uid"
    )
    action = decide(situation)
    assert isinstance(action, outcome)
    if isinstance(action, Start):
        (write,) = action.steps
        assert isinstance(write, Patch)
        head = write.body["spec"]["headGroupSpec"]["template"]
        assert head["metadata"]["labels"] == {RAY_CLUSTER.uid_label: "j-uid"}, "the quota is that of the RayJob"
