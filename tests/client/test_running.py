"""Why an admitted job does not run, from its pods and events."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Annotation
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL
from core.jobs.stuck_pods import GRACE_SECONDS
from seiretsu.running import FORCED_AFTER, LONGEST, MAY_BE_FORCED, Running, Trouble, admitted, pods_of, running

Raw = dict[str, Any]
NOW = 1_000.0
ADMITTED_AT = "1970-01-01T00:10:00Z"  # 400 s before NOW
REFUSED = (
    'Error creating: pods "fill-x7k2p" is forbidden: '
    "exceeded quota: small, requested: cpu=2, used: cpu=4, limited: cpu=5"
)


def workload(pods: int = 2, kind: str = "Job", **metadata: Any) -> Raw:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "fill", "uid": "job-uid", "controller": True}
    return {
        "metadata": {"name": "job-fill", "namespace": "a", "ownerReferences": [owner], **metadata},
        "spec": {"podSets": [{"name": "main", "count": pods}]},
        "status": {
            "admission": {"podSetAssignments": [{"name": "main", "count": pods}]},
            "conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": ADMITTED_AT}],
        },
    }


def job(kind: str = "Job", **spec: Any) -> Raw:
    return {"kind": kind, "metadata": {"name": "fill", "uid": "job-uid"}, "spec": spec}


def pod(name: str, phase: str = "Running", *, age: float = 100.0, waiting: Raw | None = None, **more: Any) -> Raw:
    created = f"1970-01-01T00:{int((NOW - age) // 60):02d}:{int((NOW - age) % 60):02d}Z"
    containers = [{"name": "main", "state": {"waiting": waiting} if waiting else {"running": {}}}]
    placed = {"type": "PodScheduled", "status": "True"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"nodeName": "node-1", **more.pop("spec", {})},
        "status": {"phase": phase, "conditions": [placed], "containerStatuses": containers, **more},
    }


def unscheduled(name: str, message: str, reason: str = "Unschedulable", *gates: str, age: float = 100.0) -> Raw:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    found = pod(name, "Pending", age=age, conditions=[condition], containerStatuses=[])
    return {**found, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


def failed(message: str, uid: str = "job-uid", at: str = "1970-01-01T00:10:05Z", reason: str = "FailedCreate") -> Raw:
    return {
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"uid": uid},
        "type": "Warning",
    }


def told(*pods: Raw, events: tuple[Raw, ...] = (), of: Raw | None = None, wanted: int = 2, now: float = NOW) -> Running:
    return running(workload(wanted), of or job(), pods, events, now)


NODES = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption"
CASES: dict[str, tuple[Running, str]] = {
    "a ResourceQuota refuses a pod": (
        told(pod("a"), events=(failed(REFUSED),)),
        "FailedCreate: 1 of 2 pods exist, and the next is refused: a pod is forbidden: exceeded quota: small,"
        " requested:"
        " cpu=2, used: cpu=4, limited: cpu=5. A ResourceQuota of the namespace is in the way: it needs room"
        " for all pods"
        " of the job",
    ),
    "a LimitRange refuses all": (
        told(
            events=(
                failed('Error creating: pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2'),
            )
        ),
        "FailedCreate: none of its 2 pods exists, and the next is refused: a pod is forbidden: maximum cpu usage per"
        " Container is 1, but limit is 2. A LimitRange of the namespace is in the way: change requests or limits of the"
        " pod",
    ),
    "Pod Security refuses all": (
        told(events=(failed('Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": host'),)),
        "FailedCreate: none of its 2 pods exists, and the next is refused: a pod is forbidden: violates PodSecurity"
        ' "restricted:latest": host. Change the pod template, or the Pod Security level of the namespace',
    ),
    "a webhook refuses all": (
        told(events=(failed('Error creating: admission webhook "v.example.com" denied the request: no'),)),
        'FailedCreate: none of its 2 pods exists, and the next is refused: admission webhook "v.example.com" denied the'
        " request: no. That webhook or policy must allow the pod",
    ),
    "a ServiceAccount does not exist": (
        told(
            events=(
                failed('Error creating: pods "x" is forbidden: error looking up: serviceaccount "robot" not found'),
            )
        ),
        "FailedCreate: none of its 2 pods exists, and the next is refused: a pod is forbidden: error looking up:"
        ' serviceaccount "robot" not found. Create the ServiceAccount, or name another one in the pod template',
    ),
    "no node has the resource": (
        told(unscheduled("a", NODES), pod("b")),
        f"Unschedulable: 1 of 2 pods is Pending: {NODES}",
    ),
    "several pods with the same cause": (
        told(unscheduled("a", NODES), unscheduled("b", NODES)),
        f"Unschedulable: 2 of 2 pods are Pending: {NODES}",
    ),
    "the only pod": (told(unscheduled("a", NODES), wanted=1), f"Unschedulable: 1 pod is Pending: {NODES}"),
    "a gate of another program": (
        told(unscheduled("a", "", "SchedulingGated", "example.com/wait"), pod("b")),
        "SchedulingGated: 1 of 2 pods is Pending: whoever set the scheduling gate example.com/wait must remove it",
    ),
    "a gate of the queue": (
        told(unscheduled("a", "", "SchedulingGated", "kueue.x-k8s.io/elastic-job"), pod("b")),
        "SchedulingGated: 1 of 2 pods is Pending: quota for it is not admitted yet",
    ),
    "a domain of a topology is missing": (
        told(unscheduled("a", "", "SchedulingGated", "kueue.x-k8s.io/topology"), pod("b")),
        "SchedulingGated: 1 of 2 pods is Pending: it has no domain of the topology yet; it gets one when a pod that has"
        " its place has ended, unless its node selector contradicts the domains in the status of the Workload, or it is"
        " beyond the last whole slice",
    ),
    "no scheduler": (
        told(
            {**pod("a", "Pending", conditions=[], containerStatuses=[]), "spec": {"schedulerName": "mine"}},
            pod("b"),
        ),
        "NotScheduled: 1 of 2 pods is Pending: scheduler mine has not looked at it",
    ),
    "an image that does not exist": (
        told(
            pod("a", "Pending", waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}),
            pod("b"),
        ),
        'ImagePullBackOff: 1 of 2 pods is not ready: container main waits: Back-off pulling image "x"',
    ),
    "a container that ends again and again": (
        told(
            pod(
                "a",
                containerStatuses=[
                    {
                        "name": "main",
                        "state": {
                            "waiting": {
                                "reason": "CrashLoopBackOff",
                                "message": "back-off 5m0s restarting failed container=main pod=a_team(uid)",
                            }
                        },
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ],
            ),
            pod("b"),
        ),
        "CrashLoopBackOff: 1 of 2 pods is not ready: container main waits: back-off 5m0s restarting failed; it ended"
        " before with exit code 137 (OOMKilled)",
    ),
    "a volume that cannot be mounted": (
        told(
            pod("a", "Pending", waiting={"reason": "ContainerCreating"}),
            pod("b"),
            events=(failed('MountVolume.SetUp failed for volume "v"', "uid-a", reason="FailedMount"),),
        ),
        'FailedMount: 1 of 2 pods is not ready: MountVolume.SetUp failed for volume "v"',
    ),
    "another controller must make the pods": (
        told(of=job(managedBy="example.com/x")),
        "NoController: none of its 2 pods exists: spec.managedBy is example.com/x, so only that controller"
        " makes them; it"
        " must run in this cluster",
    ),
    "the job is still suspended": (
        told(of=job(suspend=True)),
        "NotStarted: none of its 2 pods exists: it is admitted, but still suspended; see the events of the Job",
    ),
    "an operator that does not run": (
        told(of=job("RayJob")),
        "NoPods: none of its 2 pods exists 7 min after admission: the operator of RayJob objects makes them; check that"
        " it runs, and its log",
    ),
}
FINE: dict[str, Running] = {
    "all run": told(pod("a"), pod("b")),
    "one has succeeded": told(pod("a", "Succeeded"), pod("b")),
    "they were admitted just now": told(now=605.0),
    "they are being created": told(pod("a", "Pending", age=20, waiting={"reason": "ContainerCreating"}), pod("b")),
    "a domain of a topology is on its way": told(
        unscheduled("a", "", "SchedulingGated", "kueue.x-k8s.io/topology", age=5.0), pod("b")
    ),
    "a retry waits for its backoff": told(pod("a"), pod("b", "Failed")),
    "the event is of an earlier run": told(pod("a"), events=(failed(REFUSED, at="1970-01-01T00:09:00Z"),)),
    "the event is about another job": told(pod("a"), events=(failed(REFUSED, "another"),)),
    "the refused pod exists by now": told(pod("a"), pod("b"), events=(failed(REFUSED),)),
    "there are more pods than are shown": running(
        workload(), job(), [pod("a")], [failed(REFUSED)], NOW, all_pods=False
    ),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_why_pods_do_not_run(case: str) -> None:
    found, sentence = CASES[case]
    assert [str(each) for each in found.troubles] == [sentence]
    assert found.why == sentence


@pytest.mark.parametrize("case", FINE, ids=str)
def test_nothing_is_reported(case: str) -> None:
    assert FINE[case].troubles == ()


def test_a_job_whose_pods_are_ready_misses_none() -> None:
    raw = workload(kind="RayJob")
    raw["status"]["conditions"].append({"type": "PodsReady", "status": "True"})
    assert running(raw, job("RayJob"), [], [], NOW).troubles == ()


def test_pods_that_run_or_have_succeeded_are_counted() -> None:
    found = told(pod("a"), pod("b", "Succeeded"), unscheduled("c", NODES), wanted=3)
    assert (found.wanted, found.running) == (3, 2)


def test_pods_that_are_not_needed_any_more_are_not_missed() -> None:
    raw = workload(3)
    raw["status"]["reclaimablePods"] = [{"name": "main", "count": 2}]
    assert running(raw, job("RayJob"), [pod("a")], [], NOW) == Running(1, 1)


def test_a_long_text_of_others_is_cut() -> None:
    (found,) = told(unscheduled("a", "x" * 5_000), pod("b")).troubles
    assert len(found.message) < LONGEST + 100
    assert isinstance(found, Trouble)


@pytest.mark.parametrize(
    "broken", [{}, {"status": None}, {"status": {"conditions": None}}, {"spec": {}, "metadata": {}}]
)
def test_objects_with_missing_fields_are_read(broken: Raw) -> None:
    assert running(broken, broken, [broken], [broken], NOW).wanted == 0
    assert pods_of(broken) is None
    assert not admitted(broken)


def test_how_the_pods_of_a_workload_are_listed() -> None:
    group = workload(annotations={"kueue.x-k8s.io/is-group-workload": "true"})
    assert pods_of(workload()) == ("batch.kubernetes.io/controller-uid=job-uid", "")
    assert pods_of(workload(kind="RayJob")) == ("kueue.x-k8s.io/job-uid=job-uid", "")
    assert pods_of(workload(kind="Pod")) == ("", "metadata.name=fill")
    assert pods_of(group) == ("kueue.x-k8s.io/pod-group-name=job-fill", "")
    elsewhere = workload()
    elsewhere["status"]["clusterName"] = "worker1"
    assert pods_of(elsewhere) is None


def test_an_evicted_or_finished_workload_has_no_pods_that_should_run() -> None:
    assert admitted(workload())
    for kind in ("Evicted", "Finished"):
        raw = workload()
        raw["status"]["conditions"].append({"type": kind, "status": "True"})
        assert not admitted(raw)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_the_pods_of_every_kind_are_listed_by_the_label_that_they_bear(kind: JobKind) -> None:
    found = pods_of(workload(kind=kind.kind))
    assert found is not None
    assert found.labels == (f"{kind.uid_label}=job-uid" if kind.uid_label else "")


def terminating(name: str, late: float, *, marked: bool = True) -> Raw:
    """A pod that should have ended so many seconds ago."""
    found = pod(name)
    at = NOW - late
    found["metadata"]["deletionTimestamp"] = f"1970-01-01T00:{int(at // 60):02d}:{int(at % 60):02d}Z"
    if marked:
        found["metadata"]["annotations"] = {MAY_BE_FORCED: "true"}
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            told(pod("a"), terminating("b", 40)),
            "Terminating: 1 pod is still on node node-1 40 s after the grace period; where FailureRecoveryPolicy is on,"
            " it is ended by force in 20 s if the node is unreachable",
            id="it will be ended by force",
        ),
        pytest.param(
            told(terminating("a", 70), terminating("b", 65)),
            "Terminating: 2 pods are still on node node-1 70 s after the grace period; where FailureRecoveryPolicy is"
            " on, they are ended by force now if the node is unreachable",
            id="they are due",
        ),
        pytest.param(
            told(pod("a"), terminating("b", 40, marked=False)),
            "Terminating: 1 pod is still on node node-1 40 s after the grace period; if the node is lost and two copies"
            " do no harm, annotate with kueue.x-k8s.io/safe-to-forcefully-delete=true (feature gate"
            " FailureRecoveryPolicy), or delete with --force",
            id="nobody may end it by force",
        ),
        pytest.param(told(pod("a"), terminating("b", 5)), "", id="it may still be on its way"),
        pytest.param(told(pod("a"), pod("c"), terminating("b", 40)), "", id="it was replaced"),
    ],
)
def test_a_pod_that_does_not_terminate_is_named_with_what_happens(found: Running, expected: str) -> None:
    assert found.why == expected


def test_pods_are_ended_by_force_when_explain_says_so() -> None:
    assert (MAY_BE_FORCED, FORCED_AFTER) == (Annotation.SAFE_TO_FORCEFULLY_DELETE, GRACE_SECONDS)
