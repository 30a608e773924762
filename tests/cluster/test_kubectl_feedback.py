"""Every rule of docs/feedback.md, as real kubectl prints it: to those who submit jobs, and to administrators. What goes
wrong on a first day is in `test_first_day`.

One cluster in which all of it can be asked with `--dry-run=server`: two teams that share, queues that are stopped,
broken, full, strict or drained, and workloads that run and wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.objects import Raw
from core.feedback.catalog import TABLES
from core.feedback.rules import LIMIT
from devcluster.controlplane import ControlPlane, Spec
from tests.core.feedback.world import TEAMS
from tests.eventually import WAIT, eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

KUEUE = "kueue.x-k8s.io/"
MORE = """
- {kind: WorkloadPriorityClass, metadata: {name: urgent}, value: 1000}
- {kind: ResourceFlavor, metadata: {name: fast}, spec: {nodeLabels: {pool: fast}}}
- {kind: Cohort, metadata: {name: knot}, spec: {parentName: knot}}
- {kind: Cohort, metadata: {name: ring}, spec: {parentName: loop}}
- {kind: LocalQueue, metadata: {name: stopped, namespace: team-a}, spec: {clusterQueue: team-a, stopPolicy: Hold}}
- {kind: LocalQueue, metadata: {name: lost, namespace: team-a}, spec: {clusterQueue: taem-a}}
- {kind: LocalQueue, metadata: {name: main, namespace: team-c}, spec: {clusterQueue: team-a}}
- {kind: AdmissionCheck, metadata: {name: idle}, spec: {controllerName: example.com/idle}}
- {kind: AdmissionCheck, metadata: {name: budget}, spec: {controllerName: example.com/budget}}
- {kind: AdmissionCheck, metadata: {name: far}, spec: {controllerName: kueue.x-k8s.io/multikueue}}
"""


def checked(name: str) -> Raw:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}


QUEUES: dict[str, Raw] = {
    "drained": {"stopPolicy": "HoldAndDrain"},
    "broken": {"flavor": "gone"},
    "busy": {"cohortName": "pair"},
    "empty": {"resourceGroups": []},
    "lends": {"cohortName": "pair"},
    "pooled": {"cohortName": "pool", "cpu": 0},
    "strict": {"queueingStrategy": "StrictFIFO"},
    "preempts": {"preemption": {"withinClusterQueue": "LowerPriority"}},
    "unchecked": checked("idle"),
    "checked": checked("budget"),
}
"""ClusterQueues of 8 cpu in the flavor `standard` with a LocalQueue of their name in team-a, and what differs."""


def ours(kind: str, name: str, namespace: str = "", **spec: Any) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def groups(cpu: int, *flavors: str, **limits: int) -> list[Raw]:
    quota = [{"name": "cpu", "nominalQuota": cpu, **limits}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": each, "resources": quota} for each in flavors]}]


def cluster_queue(name: str = "new", *, flavor: str = "standard", cpu: int = 8, **spec: Any) -> Raw:
    return ours("ClusterQueue", name, **{"namespaceSelector": {}, "resourceGroups": groups(cpu, flavor), **spec})


def pool(cpu: int, flavor: str = "standard") -> Raw:
    return ours("Cohort", "pool", resourceGroups=groups(cpu, flavor))


def job(
    queue: str = "main",
    *,
    name: str = "train",
    namespace: str = "team-a",
    pods: int = 1,
    least: int = 0,
    asks: Raw | None = None,
    limits: Raw | None = None,
    urgent: str = "",
    labels: Raw | None = None,
    annotations: Raw | None = None,
    **spec: Any,
) -> Raw:
    resources = {"requests": {"cpu": "1"} if asks is None else asks, "limits": limits or {}}
    named = {f"{KUEUE}queue-name": queue, **({f"{KUEUE}priority-class": urgent} if urgent else {})}
    metadata: Raw = {"name": name, "namespace": namespace, "labels": named if labels is None else labels}
    if annotations or least:
        metadata["annotations"] = annotations or {f"{KUEUE}job-min-parallelism": str(least)}
    containers = [{"name": "main", "image": "none", "resources": resources}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}
    made = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": made}


def workload(
    name: str = "by-hand", queue: str = "main", *, cpu: str = "1", namespace: str = "team-a", **metadata: Any
) -> Raw:
    """A Workload that a user creates without a job."""
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]
    pod_sets = [
        {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    ]
    made = ours("Workload", name, namespace, podSets=pod_sets, **({"queueName": queue} if queue else {}))
    return {**made, "metadata": {**made["metadata"], **metadata}}


def v01_queue(name: str, cluster_queue: str) -> Raw:
    return {**ours("Queue", name, "team-a", clusterQueue=cluster_queue), "apiVersion": f"{KUEUE}v1alpha1"}


def patch(kind: str, name: str, **spec: Any) -> tuple[str, ...]:
    at = ("-n", "team-a") if kind == "localqueue" else ()
    return ("patch", kind, name, *at, "--type=merge", "-p", json.dumps({"spec": spec}))


def delete(kind: str, name: str) -> tuple[str, ...]:
    return ("delete", kind, name, *(("-n", "team-a") if kind == "localqueue" else ()))


@dataclass(frozen=True)
class Told:
    """What kubectl says of an object that is created, or of a command: a line a warning, none where all is well."""

    subject: str
    rule: str
    asked: Raw | tuple[str, ...]
    text: str


CASES = [
    *(
        Told("jobs", *case)
        for case in (
            (
                "cluster-queue-not-found",
                job("lost"),
                'LocalQueue "lost" points to ClusterQueue "taem-a", which does not exist: did you mean "team-a"?',
            ),
            (
                "namespace-not-selected",
                job(namespace="team-c"),
                'ClusterQueue "team-a" does not admit namespace "team-c": its label team is c, must be a',
            ),
            (
                "invalid-pods",
                job(asks={"cpu": "3"}, namespace="team-b"),
                'never admitted: container main asks for 3 cpu, LimitRange "small" allows 2 at most',
            ),
            (
                "invalid-pods",
                job(asks={"cpu": "3"}, limits={"cpu": "3"}, namespace="team-b"),
                'never admitted: container main asks for 3 cpu, LimitRange "small" allows 2 at most; ask for 2 or less',
            ),
            (
                "resource-not-covered",
                job(asks={"example.com/gpu": "4"}, limits={"example.com/gpu": "4"}),
                'ClusterQueue "team-a" has no quota for example.com/gpu (asked: 4), only for cpu, memory; remove the'
                " request",
            ),
            (
                "no-matching-flavor",
                job(nodeSelector={"pool": "fast"}),
                'no flavor of ClusterQueue "team-a" matches pod set main: standard has pool=standard, not fast;'
                " select pool=standard",
            ),
            (
                "no-matching-flavor",
                job(namespace="team-b", nodeSelector={"pool": "spot"}),
                "no flavor matches pod set main: standard has pool=standard, not spot;"
                " spot needs a toleration of spot=true:NoSchedule",
            ),
            (
                "nobody-lends",
                job(asks={"memory": "40Gi"}),
                'never starts: asks for 40Gi memory, ClusterQueue "team-a" has 32Gi,'
                ' cohort "research" lends none; ask for 32Gi or less',
            ),
            (
                "request-too-large",
                job(asks={"cpu": "20"}),
                'never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard'
                " (8 own, 4 borrowed); ask for 12 or less",
            ),
            (
                "min-parallelism-too-large",
                job(asks={"cpu": "2"}, pods=10, least=7),
                'never starts: even 7 pods ask for 14 cpu, ClusterQueue "team-a" allows 12;'
                " set job-min-parallelism to 6 or less",
            ),
            (
                "local-queue-stopped",
                job("stopped"),
                'LocalQueue "stopped" is stopped (stopPolicy Hold): the job waits until resumed; LocalQueue "busy" is'
                " active",
            ),
            (
                "cluster-queue-stopped",
                job("drained"),
                'ClusterQueue "drained" is stopped (stopPolicy HoldAndDrain): the job waits'
                ' until resumed; LocalQueue "busy" is active',
            ),
            (
                "cluster-queue-inactive",
                job("broken"),
                'ClusterQueue "broken" is inactive until an administrator fixes it:'
                " references missing ResourceFlavor(s): gone",
            ),
            (
                "only-by-borrowing",
                job("busy", asks={"cpu": "9"}),
                "asks for 9 cpu, own quota in standard is 8: starts only when 1 can be borrowed"
                ' in cohort "pair"; ask for 8 or less\n'
                'will wait: asks for 9 cpu, 6 free in ClusterQueue "busy", 3 missing; queue position 2;'
                ' LocalQueue "main" has free quota',
            ),
            ("only-by-borrowing", job(asks={"cpu": "10"}), ""),
            (
                "system-priority-class",
                job(priorityClassName="system-node-critical"),
                "PriorityClass system-node-critical does not order the queue in this namespace: the job waits with the"
                " default priority",
            ),
            (
                "long-grace-period",
                job(terminationGracePeriodSeconds=86400),
                "terminationGracePeriodSeconds 86400: when the job is stopped its pods may hold its quota for minutes;"
                " set 300 or less",
            ),
            (
                "resource-not-covered",
                job("empty"),
                'ClusterQueue "empty" has no quota for cpu (asked: 1): it has no resourceGroups;'
                ' LocalQueue "busy" could run it',
            ),
            (
                "only-partly",
                job(asks={"cpu": "2"}, pods=10, least=3),
                "starts with at most 6 of 10 pods: all ask for 20 cpu, ClusterQueue"
                ' "team-a" allows 12; set parallelism to 6',
            ),
            (
                "will-wait",
                job("busy", asks={"cpu": "7"}),
                'will wait: asks for 7 cpu, 6 free in ClusterQueue "busy", 1 missing; queue position 2;'
                ' LocalQueue "main" has free quota',
            ),
            (
                "will-wait",
                job("busy", asks={"cpu": "7"}, urgent="urgent"),
                'will wait: asks for 7 cpu, 6 free in ClusterQueue "busy", 1 missing;'
                ' queue position 1; LocalQueue "main" has free quota',
            ),
            (
                "will-wait",
                job("strict"),
                'will wait: ClusterQueue "strict" is StrictFIFO and its first workload does not fit; queue position 2',
            ),
            (
                "will-wait",
                job("preempts", asks={"cpu": "4"}),
                'will wait: asks for 4 cpu, 2 free in "preempts", 2 missing; queue position 1;'
                ' LocalQueue "checked" has free quota',
            ),
            ("will-wait", job("preempts", asks={"cpu": "4"}, urgent="urgent"), ""),
        )
    ),
    *(
        Told("jobs", *case)
        for case in (
            (
                "admission-check-inactive",
                job("unchecked"),
                'AdmissionCheck "idle" is inactive: ClusterQueue "unchecked" admits nothing until controller'
                " example.com/idle runs",
            ),
            (
                "admission-check-pending",
                job("checked"),
                'will wait for AdmissionCheck "budget", as 1 workload with quota does; controller example.com/budget'
                " decides it",
            ),
            (
                "request-too-large",
                job("pooled", asks={"cpu": "10"}),
                'never starts: asks for 10 cpu, ClusterQueue "pooled" allows 4 in'
                ' standard; LocalQueue "busy" could run it',
            ),
            (
                "request-too-large",
                job(asks={"cpu": "16"}),
                'never starts: asks for 16 cpu, ClusterQueue "team-a" allows 12 in'
                ' standard; LocalQueue "busy" could run it',
            ),
            (
                "request-too-large",
                job(asks={"cpu": "4"}, pods=5),
                'never starts: 5 pods ask for 20 cpu, ClusterQueue "team-a" allows 12 in'
                " standard; set parallelism to 3 or less",
            ),
            (
                "running-job-resized",
                ("patch", "job", "holds-too", "-n", "team-a", "--type=merge", "-p", '{"spec":{"parallelism":1}}'),
                "changing from 2 to 1 pods suspends this running job and requeues it; with 2 it continues to run",
            ),
            (
                "no-queue",
                workload(queue=""),
                "has no queue name and waits: set spec.queueName to busy or checked or lends",
            ),
            (
                "local-queue-not-found",
                workload(queue="mian"),
                'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?',
            ),
            (
                "request-too-large",
                workload(cpu="20"),
                'never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard'
                " (8 own, 4 borrowed); ask for 12 or less",
            ),
            (
                "will-wait",
                workload(queue="busy", cpu="7"),
                'will wait: asks for 7 cpu, 6 free in ClusterQueue "busy", 1 missing; queue position 2;'
                ' LocalQueue "main" has free quota',
            ),
        )
    ),
    *(
        Told("labels and annotations", *case)
        for case in (
            (
                "unknown-key",
                job(annotations={f"{KUEUE}job-min-paralelism": "1"}),
                "annotation kueue.x-k8s.io/job-min-paralelism is unknown and ignored: did you mean"
                " kueue.x-k8s.io/job-min-parallelism?",
            ),
            (
                "key-without-effect",
                job(annotations={f"{KUEUE}podset-preferred-topology": "rack"}),
                "kueue.x-k8s.io/podset-preferred-topology has no effect here: kube-scheduler places the pods; use pod"
                " affinity",
            ),
            (
                "queue-named-twice",
                job(annotations={f"{KUEUE}queue-name": "other"}),
                'label and annotation name different queues: label "main" is used; remove annotation'
                " kueue.x-k8s.io/queue-name",
            ),
            (
                "queue-withdrawn",
                ("label", "job", "waits", "-n", "team-a", f"{KUEUE}queue-name-"),
                'removes the job from LocalQueue "busy": its queue position is lost; it stays suspended until'
                " resumed or queued again",
            ),
        )
    ),
    *(
        Told("ClusterQueues", *case)
        for case in (
            (
                "no-quota",
                cluster_queue(resourceGroups=[]),
                "no resourceGroups: a job that requests anything never starts; add resources, flavors and their quota",
            ),
            (
                "no-quota",
                cluster_queue(cpu=0),
                "nominalQuota is 0 and no cohort is set: a job that requests anything never"
                " starts; set nominalQuota or cohortName",
            ),
            (
                "flavor-without-nodes",
                cluster_queue(flavor="fast"),
                'none of 2 nodes has the labels pool=fast of flavor "fast": its pods stay pending; label nodes',
            ),
            (
                "admission-check-not-found",
                cluster_queue(**checked("budgte")),
                'AdmissionCheck "budgte" does not exist, the ClusterQueue is inactive: did you mean "budget"?',
            ),
            (
                "admission-check-inactive",
                cluster_queue(**checked("idle")),
                'AdmissionCheck "idle" is inactive: the ClusterQueue admits nothing; start its controller'
                " example.com/idle",
            ),
            (
                "admission-checks-conflict",
                cluster_queue(
                    resourceGroups=groups(8, "standard", "spot"),
                    admissionChecksStrategy={"admissionChecks": [{"name": "far", "onFlavors": ["spot"]}]},
                ),
                "the ClusterQueue is inactive: Cannot specify MultiKueue AdmissionCheck per flavor, found: far\n"
                'AdmissionCheck "far" is inactive: Cannot load the AdmissionChecks parameters: missing parameters'
                " reference",
            ),
            (
                "cohort-cycle",
                cluster_queue(cohortName="knot"),
                "the parents of cohort knot form a cycle: knot -> knot; nothing is admitted there; change a parentName",
            ),
            (
                "borrowing-limit-idle",
                cluster_queue(cohortName="pair", resourceGroups=groups(1, "standard", borrowingLimit=20)),
                'borrowingLimit 20 of cpu in standard has no effect: cohort "pair" lends at most 16; lower or remove'
                " it",
            ),
            (
                "fungibility-idle",
                cluster_queue(flavorFungibility={"whenCanPreempt": "MayStopSearch"}),
                "whenCanPreempt: MayStopSearch has no effect: withinClusterQueue, reclaimWithinCohort are Never;"
                " change one",
            ),
            (
                "fungibility-contradiction",
                cluster_queue(
                    cohortName="pair",
                    resourceGroups=groups(1, "standard", "spot"),
                    flavorFungibility={"whenCanPreempt": "MayStopSearch", "whenCanBorrow": "TryNextFlavor"},
                    preemption={"withinClusterQueue": "LowerPriority"},
                ),
                "whenCanPreempt: MayStopSearch preempts even if a later flavor has free quota; TryNextFlavor would"
                " use that flavor",
            ),
            (
                "preemption-idle",
                cluster_queue(preemption={"reclaimWithinCohort": "Any"}),
                "reclaimWithinCohort: Any has no effect: the ClusterQueue is in no cohort; set cohortName or remove it",
            ),
            (
                "quota-below-usage",
                patch("clusterqueue", "busy", resourceGroups=groups(4, "standard")),
                "cpu in standard goes from 8 to 4, but 10 is in use: 6 is then borrowed; keep 10 to avoid this",
            ),
            (
                "quota-below-usage",
                patch("clusterqueue", "busy", resourceGroups=groups(8, "standard", borrowingLimit=1)),
                "borrowingLimit of cpu in standard is then 1, but 2 is borrowed: 1 must be"
                " released before anything starts; keep 2",
            ),
            (
                "quota-below-usage",
                patch("clusterqueue", "preempts", resourceGroups=groups(5, "standard")),
                "cpu in standard goes from 8 to 5, but 6 is in use: 1 must be released"
                " before anything starts; keep 6 to avoid this",
            ),
            (
                "cohort-left-in-debt",
                patch("clusterqueue", "busy", cohortName="other"),
                'leaving cohort "pair" with 2 cpu borrowed: nothing starts until 1 workload'
                " releases it; drain the queue first",
            ),
            (
                "cohort-left-short",
                patch("clusterqueue", "lends", cohortName="other"),
                'cohort "pair" then lacks 2 cpu in standard: no borrowing there until it is released; add 2 first',
            ),
            (
                "drain-stops-workloads",
                patch("clusterqueue", "busy", stopPolicy="HoldAndDrain"),
                "HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish",
            ),
            (
                "cluster-queue-in-use",
                delete("clusterqueue", "busy"),
                "1 workload holds quota here and 1 waits: deleted when the last one finishes; HoldAndDrain evicts"
                " them now",
            ),
        )
    ),
    *(
        Told("LocalQueues", *case)
        for case in (
            (
                "cluster-queue-not-found",
                ours("LocalQueue", "new", "team-a", clusterQueue="taem-b"),
                'ClusterQueue "taem-b" does not exist: jobs of this LocalQueue wait until it is created;'
                ' did you mean "team-b"?',
            ),
            (
                "namespace-not-selected",
                ours("LocalQueue", "new", "team-b", clusterQueue="team-a"),
                'ClusterQueue "team-a" does not admit namespace "team-b": its label team is b, must be a',
            ),
            (
                "negative-weight",
                ours("LocalQueue", "new", "team-a", clusterQueue="team-a", fairSharing={"weight": -1}),
                "fairSharing.weight -1 counts as 0: jobs of this queue are admitted after those of all other"
                " LocalQueues; set 1",
            ),
            (
                "drain-stops-workloads",
                patch("localqueue", "busy", stopPolicy="HoldAndDrain"),
                "HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish",
            ),
            (
                "local-queue-in-use",
                delete("localqueue", "busy"),
                "1 workload waits here and stays pending until this LocalQueue is created again; move it first; 1"
                " running continues",
            ),
        )
    ),
    *(
        Told("Queues of v0.1", *case)
        for case in (
            (
                "queue-name-taken",
                v01_queue("main", "team-b"),
                'LocalQueue "main" exists and points to ClusterQueue "team-a": this Queue has no effect; choose'
                " another name",
            ),
            (
                "cluster-queue-not-found",
                v01_queue("new", "taem-a"),
                'ClusterQueue "taem-a" does not exist: jobs of this LocalQueue wait until it is created;'
                ' did you mean "team-a"?',
            ),
        )
    ),
    *(
        Told("Cohorts", *case)
        for case in (
            (
                "cohort-cycle",
                ours("Cohort", "loop", parentName="ring"),
                "the parents of cohort loop form a cycle: loop -> ring -> loop; nothing"
                " is admitted there; change a parentName",
            ),
            (
                "flavor-not-found",
                ours("Cohort", "new", resourceGroups=groups(1, "standrad")),
                'ResourceFlavor "standrad" does not exist, its quota in the cohort cannot be used:'
                ' did you mean "standard"?',
            ),
            (
                "quota-below-usage",
                patch("cohort", "pool", resourceGroups=groups(2, "standard")),
                "the cohort then lacks 2 cpu in standard: no borrowing in it until it is released; keep 2 more",
            ),
            (
                "cohort-in-use",
                delete("cohort", "pool"),
                "1 ClusterQueue is a member: it stays in the cohort but loses its quota; move it first",
            ),
        )
    ),
    *(
        Told("ResourceFlavors", *case)
        for case in (
            (
                "flavor-without-nodes",
                ours("ResourceFlavor", "new", nodeLabels={"pool": "faster"}),
                "none of 2 nodes has the labels pool=faster: its pods stay pending; label nodes or change nodeLabels",
            ),
            (
                "flavor-in-use",
                delete("resourceflavor", "spot"),
                "ClusterQueue team-b uses this flavor: it is deleted only after it removes it from resourceGroups",
            ),
        )
    ),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with all that the cases ask about. Jobs have no pods there: they hold their quota for ever."""
    directory: Path = tmp_path_factory.mktemp("serve")
    with ControlPlane.start(spec=Spec(nodes=())) as started, serving(started.kubeconfig, directory) as process:
        process.ready()
        create(started, *surroundings())
        status = {"conditions": [{**ACTIVE, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        run = ("patch", "admissioncheck", "budget", "--subresource=status", "--type=merge", "-p")
        started.kubectl(*run, json.dumps({"status": status}), check=True)
        create(started, job("busy", name="runs", asks={"cpu": "10"}), job("pooled", name="pools", asks={"cpu": "4"}))
        create(started, job("strict", name="holds", asks={"cpu": "7"}))
        create(started, job("preempts", name="holds-too", asks={"cpu": "3"}, pods=2))
        create(started, job("checked", name="unsure", asks={"cpu": "4"}))
        for name in ("runs", "pools", "holds", "holds-too"):
            started.kubectl(*(*WAIT, f"job/{name}", "-n", "team-a", "--for=jsonpath={.spec.suspend}=false"), check=True)
        create(started, job("busy", name="waits", asks={"cpu": "7"}), job("strict", name="blocks", asks={"cpu": "2"}))
        asyncio.run(eventually(lambda: waiting(started) == 2 and unsure(started)))
        yield started


ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "the test runs it"}


def surroundings() -> list[Raw]:
    labels = {"team-a": {"team": "a"}, "team-b": {"team": "b"}, "team-c": {"team": "c"}}
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": found}}
        for name, found in labels.items()
    ]
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": name}}}
        for name in ("standard", "spot")
    ]
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "team-b"}}
    kinds = [{"apiVersion": "kueue.x-k8s.io/v1beta2", **raw} for raw in yaml.safe_load(TEAMS + MORE)]
    queues = [cluster_queue(name, **differs) for name, differs in QUEUES.items()]
    local = [ours("LocalQueue", name, "team-a", clusterQueue=name) for name in QUEUES]
    return [*namespaces, *nodes, {**ranges, "spec": limits}, *kinds, pool(4), *queues, *local]


def create(plane: ControlPlane, *objects: Raw) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(listed), check=True)


def unsure(plane: ControlPlane) -> bool:
    """Whether a Workload has its quota and waits for its check."""
    path = "jsonpath={.items[*].status.admissionChecks[?(@.name=='budget')].state}"
    return plane.kubectl("get", "workloads.kueue.x-k8s.io", "-n", "team-a", "-o", path).stdout == "Pending"


def waiting(plane: ControlPlane) -> int:
    """The number of Workloads whose status says that they wait for quota."""
    path = "jsonpath={.items[*].status.conditions[?(@.reason=='WaitingForQuota')].reason}"
    return len(plane.kubectl("get", "workloads.kueue.x-k8s.io", "-n", "team-a", "-o", path).stdout.split())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.subject}: {case.rule}")
def test_what_kubectl_prints(plane: ControlPlane, case: Told) -> None:
    if isinstance(case.asked, tuple):
        done = plane.kubectl(*case.asked, "--dry-run=server")
    else:
        done = plane.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(case.asked))
    told = [line for line in done.stderr.splitlines() if "version is deprecated" not in line]
    texts = case.text.splitlines()
    assert told == [f"Warning: {text}" for text in texts]
    assert done.returncode == 0, "a warning lets it pass"
    assert all(len(text) <= LIMIT for text in texts)


STRICT: dict[str, Any] = {
    "queueingStrategy": "StrictFIFO",
    "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
}
BOOSTED = {"kueue.x-k8s.io/priority-boost": "high"}


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(cluster_queue(**STRICT), id="concurrent admission in strict order, without ConcurrentAdmission"),
        pytest.param(workload(annotations=BOOSTED), id="a boost that is no number, without PriorityBoost"),
    ],
)
def test_objects_that_kueue_allows_by_default_are_allowed(plane: ControlPlane, made: Raw) -> None:
    done = plane.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(made))
    assert done.returncode == 0, done.stderr


ROOT = Path(__file__).parents[2]


def shown() -> dict[str, str]:
    """What the README shows of kubectl: the file of each command, and all that it prints."""
    blocks = (ROOT / "README.md").read_text().split("```")[1::2]
    commands = (each.partition("\n") for block in blocks for each in block.split("$ kubectl create -f ")[1:])
    return {name: printed.strip() for name, _, printed in commands if name.startswith("examples/refused/")}


def test_the_readme_shows_six_refusals() -> None:
    assert len(shown()) == len(list((ROOT / "examples" / "refused").glob("*.yaml"))) == 6


@pytest.mark.parametrize("name", sorted(shown()))
def test_the_readme_shows_what_kubectl_prints(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(ROOT)
    done = plane.kubectl("create", "-f", name)
    assert done.stderr.strip() == shown()[name]
    assert done.returncode == 1


def test_every_rule_is_shown_in_kubectl() -> None:
    rules = {(subject, rule.name) for subject, table in TABLES.items() for rule in table}
    elsewhere = {
        ("jobs", "pods-not-ready"),  # test_pods_ready: it takes a Configuration with blockAdmission
        ("jobs", "only-some-replicas"),  # test_pods: it takes a Deployment
        ("jobs", "no-worker-cluster"),  # test_multikueue: it takes worker clusters
    }
    on_a_first_day = {  # test_first_day
        *(
            ("jobs", rule)
            for rule in (
                *("local-queue-not-found", "priority-class-not-found", "no-requests", "limits-as-requests"),
                *("tiny-memory", "flavor-without-nodes", "resource-quota-too-small", "devices-not-counted"),
                *("other-controller", "node-labels-not-found", "resource-without-nodes", "pod-larger-than-nodes"),
            )
        ),
        *(("labels and annotations", rule) for rule in ("misplaced-key", "queue-by-annotation")),
        *(("ClusterQueues", rule) for rule in ("flavor-not-found", "no-namespace-admitted", "resource-without-nodes")),
        *((subject, "topology-without-effect") for subject in ("ResourceFlavors", "Topologies")),
        ("pod templates of Jobs", "pods-immutable"),
        *(("what is not queued", rule.name) for rule in TABLES["what is not queued"]),
        ("Workloads of Jobs", "workload-of-job-deleted"),
    }
    assert rules <= {(case.subject, case.rule) for case in CASES} | elsewhere | on_a_first_day
