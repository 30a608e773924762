"""What goes wrong on a first day: what a person writes, and all that kubectl prints.

One namespace `team` with one queue `main` of 8 cpu and 16Gi, and what surrounds it. Everything is asked with
`--dry-run=server`, so the cases do not meet; what is said is checked where it can be: after the fix nothing is said.
Creates are the requests of kubectl, and what it prints is composed; one case of each form is compared with the real
kubectl, and all other commands run it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.objects import Raw
from core.feedback.rules import LIMIT
from devcluster.controlplane import ControlPlane, Spec
from tests.cluster.printed import refusal, warnings
from tests.cluster.world import World
from tests.eventually import PATIENCE, WAIT, eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

CREATES = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu: {feedback: {rules: [{name: dry-run, action: Ignore}]}}
"""
"""A dry run stands for a create here, so that the cases do not meet."""

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
Asked = Raw | tuple[str, ...]


def ours(kind: str, name: str, namespace: str = "", **spec: Any) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def groups(flavor: str, **quota: int | str) -> list[Raw]:
    resources = [{"name": name.replace("gpu", "nvidia.com/gpu"), "nominalQuota": each} for name, each in quota.items()]
    covered = [each["name"] for each in resources]
    return [{"coveredResources": covered, "flavors": [{"name": flavor, "resources": resources}]}]


def queue(name: str, **spec: Any) -> list[Raw]:
    """A ClusterQueue and a LocalQueue of its name in `team`."""
    fields = {"namespaceSelector": {}, "resourceGroups": groups("standard", cpu=8, memory="16Gi"), **spec}
    return [ours("ClusterQueue", name, **fields), ours("LocalQueue", name, "team", clusterQueue=name)]


def pod_spec(requests: Raw | None = None, limits: Raw | None = None, **spec: Any) -> Raw:
    resources = {"requests": {"cpu": "1"} if requests is None else requests, "limits": limits or {}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {"restartPolicy": "Never", "containers": [container], **spec}


def job(name: str = "train", namespace: str = "team", pods: int = 1, **metadata: Any) -> Raw:
    """A Job as a person writes it; what the pods ask for is in ``asks``."""
    asks, labels = metadata.pop("asks", None), metadata.pop("labels", {QUEUE: "main"})
    spec = {"template": {"spec": asks or pod_spec()}, "parallelism": pods, "completions": pods}
    made = {"name": name, "namespace": namespace, "labels": labels, **metadata}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": spec}


def named(name: str, **more: str) -> Raw:
    return job(labels={QUEUE: name, **more})


def asking(pods: int = 1, **spec: Any) -> Raw:
    return job(asks=pod_spec(**spec), pods=pods)


def least(text: str) -> Raw:
    return job(pods=10, annotations={"kueue.x-k8s.io/job-min-parallelism": text})


def other(kind: str, api: str, labels: Raw, **spec: Any) -> Raw:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "web", "namespace": "team", "labels": labels}, **spec}


def deployment(labels: Raw) -> Raw:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    return other("Deployment", "apps/v1", labels, spec=spec)


def cron_job(labels: Raw, of_jobs: Raw) -> Raw:
    template = {"metadata": {"labels": of_jobs}, "spec": job()["spec"]}
    return other("CronJob", "batch/v1", labels, spec={"schedule": "0 3 * * *", "jobTemplate": template})


def patch(kind: str, name: str, spec: Raw) -> tuple[str, ...]:
    return ("patch", kind, name, "-n", "team", "--type=merge", "-p", json.dumps({"spec": spec}))


@dataclass(frozen=True)
class Day:
    """An action, and each line that kubectl prints on stderr. ``fixed`` is the action corrected as the text says."""

    title: str
    asked: Asked
    told: tuple[str, ...]
    fixed: Asked | None = None
    refused: bool = False


DENIED = (
    'Error from server (Forbidden): error when creating "STDIN": admission webhook "vjob.kb.io" denied the request: '
)
IMMUTABLE = (
    'error: failed to patch image update to pod template: admission webhook "mjob.kb.io" denied the request:'
    " spec.template: field is immutable: delete the Job and create it again (kubectl replace --force -f FILE)"
)
LEAST = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"
ARCH = "kubernetes.io/arch"
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def with_spec(**fields: Any) -> Raw:
    made = job()
    return {**made, "spec": {**made["spec"], **fields}}


def labelled_pods(labels: Raw) -> Raw:
    made = job(labels={})
    made["spec"]["template"]["metadata"] = {"labels": labels}
    return made


def check(name: str) -> Raw:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}


DAYS = [
    Day("memory in bytes of a thousand", asking(requests={"cpu": "1", "memory": "8GB"}), (), refused=True),
    Day(
        "the nodes of a new flavor have no GPU",
        job(labels={QUEUE: "newgpu"}, asks=pod_spec({"cpu": "1"}, {"nvidia.com/gpu": "1"})),
        ('no node of flavor "plain" has nvidia.com/gpu now: the pods stay pending until such a node is added',),
    ),
    Day(
        "the administrator gives quota for a GPU that no node has",
        ours("ClusterQueue", "new", resourceGroups=groups("plain", gpu=4), namespaceSelector={}),
        ('the only node of flavor "plain" has no nvidia.com/gpu now: its pods stay pending; check the device plugin',),
    ),
    Day(
        "one pod is larger than each node",
        job(labels={QUEUE: "wide"}, asks=pod_spec({"cpu": "20"})),
        (
            'each pod asks for 20 cpu, the largest node of flavor "plain" has 16 now: the pods stay pending; ask for 16'
            " or less",
        ),
        job(labels={QUEUE: "wide"}, asks=pod_spec({"cpu": "16"})),
    ),
    Day(
        "an architecture that no node has",
        asking(nodeSelector={ARCH: "s390x"}),
        (
            'no node of flavor "standard" has kubernetes.io/arch=s390x now: the pods stay pending until one does; nodes'
            " have amd64",
        ),
        asking(nodeSelector={ARCH: "amd64"}),
    ),
    Day(
        "no toleration",
        job(labels={QUEUE: "spot"}),
        (
            "no flavor matches pod set main: tainted needs a toleration of spot=true:NoSchedule; LocalQueue"
            ' "main" could run it',
        ),
        job(
            labels={QUEUE: "spot"},
            asks=pod_spec(tolerations=[{"key": "spot", "operator": "Equal", "value": "true"}]),
        ),
    ),
    Day(
        "another controller is named",
        with_spec(managedBy="example.com/runner"),
        (
            "spec.managedBy is example.com/runner: only that controller creates the pods; unset managedBy if it does"
            " not run here",
        ),
        named("main"),
    ),
    Day(
        "MultiKueue is named, and the queue has no workers",
        with_spec(managedBy="kueue.x-k8s.io/multikueue"),
        (
            'spec.managedBy is MultiKueue, but ClusterQueue "main" has no such check: nothing creates the pods; unset'
            " it",
        ),
        named("main"),
    ),
    Day(
        "devices by ResourceClaim",
        asking(resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "one-gpu"}]),
        ('ResourceClaimTemplate "one-gpu" does not exist: nothing starts; create it in this namespace',),
        asking(),
    ),
    Day(
        "a Topology",
        ours("Topology", "racks", levels=[{"nodeLabel": "rack"}]),
        ("no node has label rack: no pod can be placed by this Topology; label nodes",),
    ),
    Day(
        "a flavor with a topology",
        ours("ResourceFlavor", "racks", nodeLabels={"pool": "plain"}, topologyName="racks"),
        ('Topology "racks" does not exist yet: ClusterQueues with this flavor admit nothing until it is created',),
    ),
    Day(
        "the check comes later in the same file",
        ours("ClusterQueue", "new", resourceGroups=groups("plain", cpu=4), namespaceSelector={}, **check("later")),
        (
            'AdmissionCheck "later" does not exist yet: the ClusterQueue is inactive until it is created; available:'
            " far",
        ),
    ),
    Day(
        "the flavor comes later in the same file",
        ours("ClusterQueue", "new", resourceGroups=groups("reserved-capacity", cpu=4), namespaceSelector={}),
        ('ResourceFlavor "reserved-capacity" does not exist yet: the ClusterQueue is inactive until it is created',),
    ),
    Day(
        "the worker cluster of the check has no Secret",
        ours("ClusterQueue", "new", resourceGroups=groups("plain", cpu=4), namespaceSelector={}, **check("far")),
        (
            'AdmissionCheck "far" is inactive: MultiKueueCluster "west": load client config failed: Secret'
            ' "west-secret" not found',
        ),
    ),
    Day(
        "the queue is empty",
        named(""),
        (f'{DENIED}metadata.labels[{QUEUE}]: Invalid value: "": name a queue or remove the label',),
        named("main"),
        refused=True,
    ),
    Day(
        "the label is called queue",
        job(labels={"queue": "main"}),
        ("label queue is ignored and the job has no queue: did you mean kueue.x-k8s.io/queue-name?",),
        named("main"),
    ),
    Day("a label called queue that names no queue", job(labels={"queue": "emails"}), ()),
    Day(
        "the pod template has the label",
        {**labelled_pods({QUEUE: "main"}), "metadata": {**job()["metadata"], "labels": {"app": "train"}}},
        ("kueue.x-k8s.io/queue-name has no effect as a label of spec.template: make it a label of the job",),
        named("main"),
    ),
    Day("the pod template alone has labels, which Kubernetes copies to the Job", labelled_pods({QUEUE: "main"}), ()),
    Day(
        "kustomize puts the label on the Job and its pods",
        {**labelled_pods({QUEUE: "main"}), "metadata": job()["metadata"]},
        (),
    ),
    Day(
        "the API server makes the name",
        {**job(), "metadata": {"generateName": "train-", "namespace": "team", "labels": {QUEUE: "main"}}},
        (),
    ),
    Day(
        "five mistakes in one file",
        {
            **job(labels={QUEUE: "mian", CLASS: "urgnet", "kueue.x-k8s.io/queue-nmae": "main"}),
            "spec": {
                "template": {
                    "spec": pod_spec({"cpu": "1", "memory": "8"}, priorityClassName="system-node-critcal"),
                }
            },
        },
        (
            "label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",
            'LocalQueue "mian" does not exist in namespace "team": did you mean "main"?',
            'WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',
            'PriorityClass "system-node-critcal" does not exist, so no pod can be created: remove priorityClassName',
            "container main: memory 8 means 8 bytes; write 8Gi for gibibytes, 8Mi for mebibytes",
        ),
        named("main"),
    ),
    Day(
        "the prefix of another project",
        job(labels={"kueue.sigs.k8s.io/queue-name": "main"}),
        ("label kueue.sigs.k8s.io/queue-name is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",),
        named("main"),
    ),
    Day(
        "label and annotation differ",
        job(annotations={QUEUE: "gpu"}),
        (
            'label and annotation name different queues: label "main" is used; remove annotation'
            " kueue.x-k8s.io/queue-name",
        ),
        named("main"),
    ),
    Day(
        "a LimitRange sets a lower limit",
        job(namespace="defaulted", asks=pod_spec({"cpu": "4"})),
        (
            'never admitted: container main asks for 4 cpu, LimitRange "l" limits it to 1 by default; set a limit of 4'
            " or more",
        ),
        job(namespace="defaulted", asks=pod_spec({"cpu": "4"}, {"cpu": "4"})),
    ),
    Day(
        "the quota was lowered",
        job(labels={QUEUE: "shrunk"}),
        (
            'will wait: asks for 1 cpu, 0 free in "shrunk", 3 must be released; queue position 1; LocalQueue "main" has'
            " free quota",
        ),
    ),
    Day(
        "the name is taken",
        job("holds", labels={QUEUE: "shrunk"}),
        ('Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "holds" already exists',),
        refused=True,
    ),
    Day(
        "a Job that waits is started by hand",
        patch("job", "pending", {"suspend": False}),
        ('spec.suspend stays true: the job waits in LocalQueue "paused" and starts when it is admitted',),
    ),
    Day(
        "another queue for a Job that waits",
        ("label", "job", "pending", "-n", "team", "--overwrite", f"{QUEUE}=main"),
        (),
    ),
    Day(
        "a Job that waits loses its queue",
        ("label", "job", "pending", "-n", "team", f"{QUEUE}-"),
        (
            'removes the job from LocalQueue "paused": its queue position is lost; it stays suspended until resumed or'
            " queued again",
        ),
    ),
    Day(
        "a Job that runs is suspended by hand",
        patch("job", "holds", {"suspend": True}),
        (
            "spec.suspend: true stops the pods of this job and requeues it: it may start again immediately",
            "to hold the job, set spec.active: false on Workload WORKLOAD-OF-holds",
        ),
    ),
    Day(
        "no LocalQueue any more",
        ("delete", "localqueue", "shrunk", "-n", "team"),
        ("1 running workload continues and holds quota until it finishes; HoldAndDrain evicts it",),
    ),
    Day(
        "no ClusterQueue any more",
        ("delete", "clusterqueue", "shrunk"),
        ("1 workload holds quota here and 0 wait: deleted when the last one finishes; HoldAndDrain evicts them now",),
    ),
    Day(
        "another image for a Job that waits",
        ("set", "image", "job/pending", "main=other", "-n", "team"),
        (IMMUTABLE,),
        refused=True,
    ),
    Day("a time to live", with_spec(ttlSecondsAfterFinished=60), ()),
    Day("retries", with_spec(backoffLimit=3), ()),
    Day("a deadline", with_spec(activeDeadlineSeconds=600), ()),
    Day("indexes", with_spec(completionMode="Indexed"), ()),
    Day("a policy for failed pods", with_spec(podFailurePolicy={"rules": [DISRUPTED]}), ()),
    Day("a name of 63 letters", job("n" * 63), ()),
    Day("no queue", job(labels={}), ()),
    Day(
        "fewer pods would do",
        least("3"),
        ('starts with at most 8 of 10 pods: all ask for 10 cpu, ClusterQueue "main" allows 8; set parallelism to 8',),
    ),
    Day(
        "the queue is misspelt",
        named("mian"),
        ('LocalQueue "mian" does not exist in namespace "team": did you mean "main"?',),
        named("main"),
    ),
    Day(
        "the queue is written in capitals",
        named("Main"),
        (
            f'{DENIED}metadata.labels[{QUEUE}]: Invalid value: "Main": did you mean "main"? A queue name has only'
            " lowercase letters, digits, '-' and '.'",
        ),
        named("main"),
        refused=True,
    ),
    Day(
        "the queue is of another namespace",
        job(namespace="default", labels={QUEUE: "main"}),
        ('LocalQueue "main" does not exist in namespace "default": there are no LocalQueues yet',),
    ),
    Day(
        "the queue is like no other",
        named("experiments"),
        ('LocalQueue "experiments" does not exist in namespace "team"; available: empty, gone, gpu and 9 more',),
        named("main"),
    ),
    Day(
        "the key of the label is misspelt",
        job(labels={"kueue.x-k8s.io/queue-nmae": "main"}),
        ("label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",),
        named("main"),
    ),
    Day(
        "the label has no prefix",
        job(labels={"queue-name": "main"}),
        ("label queue-name is ignored and the job has no queue: did you mean kueue.x-k8s.io/queue-name?",),
        named("main"),
    ),
    Day(
        "the queue is named in an annotation",
        job(labels={}, annotations={QUEUE: "main"}),
        ("annotation kueue.x-k8s.io/queue-name is from v0.1: this job is queued, but use a label instead",),
        named("main"),
    ),
    Day(
        "the priority class is misspelt",
        named("main", **{CLASS: "urgnet"}),
        ('WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',),
        named("main", **{CLASS: "urgent"}),
    ),
    Day(
        "the priority class is an annotation",
        job(annotations={CLASS: "urgent"}),
        ("kueue.x-k8s.io/priority-class has no effect as an annotation of the job: make it a label of the job",),
        named("main", **{CLASS: "urgent"}),
    ),
    Day(
        "the PriorityClass of the pods is one of the system's, misspelt",
        asking(priorityClassName="system-node-critcal"),
        ('PriorityClass "system-node-critcal" does not exist, so no pod can be created: remove priorityClassName',),
        asking(),
    ),
    Day(
        "more cpu than there is",
        asking(requests={"cpu": "20"}),
        ('never starts: asks for 20 cpu, ClusterQueue "main" allows 8 in standard; ask for 8 or less',),
        asking(requests={"cpu": "8"}),
    ),
    Day(
        "more pods than fit",
        asking(requests={"cpu": "2"}, pods=10),
        (
            'never starts: 10 pods ask for 20 cpu, ClusterQueue "main" allows 8 in standard;'
            " set parallelism to 4 or less",
        ),
        asking(requests={"cpu": "2"}, pods=4),
    ),
    Day(
        "an init container makes the request",
        asking(initContainers=[{"name": "setup", "image": "busybox", "resources": {"requests": {"cpu": "20"}}}]),
        (
            'never starts: asks for 20 cpu (init container setup), ClusterQueue "main" allows 8 in standard;'
            " ask for 8 or less",
        ),
        asking(initContainers=[{"name": "setup", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}]),
    ),
    Day(
        "a LimitRange makes the request",
        job(namespace="limited", asks=pod_spec(requests={})),
        (
            'never starts: asks for 20 cpu (default of a LimitRange), ClusterQueue "main" allows 8 in standard;'
            " ask for 8 or less",
        ),
        job(namespace="limited", asks=pod_spec()),
    ),
    Day(
        "a ResourceQuota does not let its pods be created",
        job(namespace="counted", asks=pod_spec(requests={"cpu": "6"})),
        ('no pod can be created: each asks for 6 cpu, ResourceQuota "compute" allows 4; ask for 4 or less',),
        job(namespace="counted", asks=pod_spec(requests={"cpu": "4"})),
    ),
    Day(
        "a resource that the queue does not have",
        asking(requests={"cpu": "1", "example.com/tpu": "1"}, limits={"example.com/tpu": "1"}),
        ('ClusterQueue "main" has no quota for example.com/tpu (asked: 1), only for cpu, memory; remove the request',),
        asking(),
    ),
    Day(
        "a resource that is misspelt",
        job(labels={QUEUE: "gpu"}, asks=pod_spec(requests={}, limits={"nvidia.com/gpus": "1"})),
        ('ClusterQueue "gpu" has no quota for nvidia.com/gpus (asked: 1): did you mean nvidia.com/gpu?',),
        job(labels={QUEUE: "gpu"}, asks=pod_spec(requests={}, limits={"nvidia.com/gpu": "1"})),
    ),
    Day(
        "memory without a unit",
        asking(requests={"cpu": "1", "memory": "8"}),
        ("container main: memory 8 means 8 bytes; write 8Gi for gibibytes, 8Mi for mebibytes",),
        asking(requests={"cpu": "1", "memory": "8Gi"}),
    ),
    Day(
        "memory in thousandths of bytes",
        asking(requests={"cpu": "1", "memory": "512m"}),
        (
            'spec.template.spec.containers[0].resources.requests[memory]: fractional byte value "512m" is invalid,'
            " must be an integer",
            "container main: memory 512m means thousandths of a byte; write 512Mi for mebibytes",
        ),
        asking(requests={"cpu": "1", "memory": "512Mi"}),
    ),
    Day(
        "no requests at all",
        asking(requests={}),
        ("no container requests anything (main): the job uses no quota; add resources.requests",),
        asking(),
    ),
    Day(
        "limits without requests",
        asking(requests={}, limits={"cpu": "4"}),
        ("container main: limits without requests (4 cpu) count as requests; set lower requests if it needs less",),
        asking(requests={"cpu": "1"}, limits={"cpu": "4"}),
    ),
    Day(
        "nodes that the queue does not have",
        asking(nodeSelector={"pool": "fast"}),
        (
            'no flavor of ClusterQueue "main" matches pod set main: standard has pool=standard, not fast; select'
            " pool=standard",
        ),
        asking(nodeSelector={"pool": "standard"}),
    ),
    Day(
        "a flavor without nodes",
        named("gone"),
        ('no node has the labels of flavor "gone" (pool=gone): its pods stay pending until such a node is added',),
    ),
    Day(
        "the queue is on hold, and others cannot run the job",
        job(labels={QUEUE: "held"}, asks=pod_spec(requests={"cpu": "8", "memory": "17Gi"})),
        (
            'never starts: asks for 17Gi memory, ClusterQueue "main" allows 16Gi in standard; ask for 16Gi or less',
            'LocalQueue "held" is stopped (stopPolicy Hold): the job waits until an administrator resumes it',
        ),
    ),
    Day(
        "the queue is on hold, and another can run the job",
        job(labels={QUEUE: "held"}),
        ('LocalQueue "held" is stopped (stopPolicy Hold): the job waits until resumed; LocalQueue "main" is active',),
        named("main"),
    ),
    Day(
        "the least number of pods is a word",
        least("two"),
        (f'{DENIED}{LEAST}: Invalid value: "two": must be a whole number in digits, such as "3"',),
        None,
        refused=True,
    ),
    Day(
        "the execution time is a word",
        named("main", **{"kueue.x-k8s.io/max-exec-time-seconds": "1h"}),
        (
            f"{DENIED}metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "
            '"1h": must be a whole number in digits, such as "3"',
        ),
        named("main", **{"kueue.x-k8s.io/max-exec-time-seconds": "3600"}),
        refused=True,
    ),
    Day(
        "another image for a Job that runs",
        ("set", "image", "job/runs", "main=other", "-n", "team"),
        (IMMUTABLE,),
        refused=True,
    ),
    Day(
        "another queue for a Job that runs",
        ("label", "job", "runs", "-n", "team", "--overwrite", f"{QUEUE}=gpu"),
        (
            'Error from server (Forbidden): admission webhook "vjob.kb.io" denied the request:'
            f' metadata.labels[{QUEUE}]: Invalid value: "gpu": field is immutable while the job runs: delete the job'
            " and create it again",
        ),
        refused=True,
    ),
    Day(
        "fewer pods for a Job that runs",
        patch("job", "runs", {"parallelism": 1}),
        ("changing from 2 to 1 pods suspends this running job and requeues it; with 2 it continues to run",),
    ),
    Day(
        "the Workload of a Job that runs is deleted",
        ("delete", "workload", "WORKLOAD-OF-runs", "-n", "team"),
        (
            'Job "runs" is suspended and requeued; to end it delete the Job; to hold it set spec.active: false in'
            " the Workload",
        ),
    ),
    Day(
        "the label is on a Pod",
        other("Pod", "v1", {QUEUE: "main"}, spec=pod_spec()),
        ('label kueue.x-k8s.io/queue-name queues no Pod: it starts now; enable "pod" in integrations.frameworks',),
        named("main"),
    ),
    Day(
        "the label is on a Deployment",
        deployment({QUEUE: "main"}),
        (
            'label kueue.x-k8s.io/queue-name queues no Deployment: its pods start now; enable "deployment" in'
            " integrations.frameworks",
        ),
        deployment({}),
    ),
    Day(
        "the label is on the CronJob itself",
        cron_job({QUEUE: "main"}, {}),
        (
            "label kueue.x-k8s.io/queue-name has no effect on the CronJob itself: set it in"
            " spec.jobTemplate.metadata.labels",
        ),
        cron_job({}, {QUEUE: "main"}),
    ),
    Day(
        "a typo in the CronJob's jobTemplate",
        cron_job({}, {"kueue.x-k8s.io/queue-nmae": "main"}),
        ("label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",),
        cron_job({}, {QUEUE: "main"}),
    ),
    Day(
        "the CronJob's Jobs name a queue that does not exist",
        cron_job({}, {QUEUE: "mian"}),
        ('LocalQueue "mian" does not exist in namespace "team": did you mean "main"?',),
        cron_job({}, {QUEUE: "main"}),
    ),
    Day(
        "a Job in kube-system",
        job(namespace="kube-system"),
        (
            'namespace "kube-system" is never managed: this Job is not queued and starts immediately; use another'
            " namespace",
        ),
        named("main"),
    ),
    Day(
        "the LocalQueue comes before its ClusterQueue",
        ours("LocalQueue", "new", "team", clusterQueue="maim"),
        ('ClusterQueue "maim" does not exist: jobs of this LocalQueue wait until it is created; did you mean "main"?',),
        ours("LocalQueue", "new", "team", clusterQueue="main"),
    ),
    Day(
        "the LocalQueue is to lead elsewhere",
        patch("localqueue", "main", {"clusterQueue": "gpu"}),
        (
            'The LocalQueue "main" is invalid: spec.clusterQueue: Invalid value: "gpu": field is immutable: delete the'
            " object and create it again",
        ),
        refused=True,
    ),
    Day(
        "the ClusterQueue admits no namespace",
        ours("ClusterQueue", "new", resourceGroups=groups("standard", cpu=1)),
        ("namespaceSelector is not set, so no namespace is admitted; {} admits all namespaces",),
        ours("ClusterQueue", "new", resourceGroups=groups("standard", cpu=1), namespaceSelector={}),
    ),
    Day(
        "the flavor of the ClusterQueue is misspelt",
        ours("ClusterQueue", "new", resourceGroups=groups("standrad", cpu=1), namespaceSelector={}),
        ('ResourceFlavor "standrad" does not exist, the ClusterQueue is inactive: did you mean "standard"?',),
        ours("ClusterQueue", "new", resourceGroups=groups("standard", cpu=1), namespaceSelector={}),
    ),
    Day(
        "another field of a ClusterQueue that was warned of",
        ("patch", "clusterqueue", "empty", "--type=merge", "-p", '{"spec":{"queueingStrategy":"BestEffortFIFO"}}'),
        (),
    ),
]


def surroundings() -> list[Raw]:
    names = ("team", "limited", "counted", "defaulted")
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": name, ARCH: "amd64"}}}
        for name in ("standard", "plain", "tainted")
    ]
    nodes[1]["status"] = {"allocatable": {"cpu": "16", "memory": "64Gi"}}
    lowering = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "defaulted"}}
    kubeconfig = {"kubeConfig": {"location": "west-secret", "locationType": "Secret"}}
    far = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "far"}
    limits = [{"type": "Container", "defaultRequest": {"cpu": "20"}}]
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "limited"}}
    compute = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute", "namespace": "counted"}}
    flavors = [ours("ResourceFlavor", name, nodeLabels={"pool": name}) for name in ("standard", "gone", "plain")]
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    flavors.append(ours("ResourceFlavor", "tainted", nodeLabels={"pool": "tainted"}, nodeTaints=[taint]))
    urgent = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 1000}
    held = ours("LocalQueue", "held", "team", clusterQueue="main", stopPolicy="Hold")
    return [
        *namespaces,
        *nodes,
        {**lowering, "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        ours("MultiKueueCluster", "west", clusterSource=kubeconfig),
        ours("MultiKueueConfig", "far", clusters=["west"]),
        ours("AdmissionCheck", "far", controllerName="kueue.x-k8s.io/multikueue", parameters=far),
        {**ranges, "spec": {"limits": limits}},
        {**compute, "spec": {"hard": {"requests.cpu": "4"}}},
        *flavors,
        {**urgent, "metadata": {"name": "urgent"}},
        *queue("main"),
        *queue("gpu", resourceGroups=groups("standard", gpu=4)),
        *queue("gone", resourceGroups=groups("gone", cpu=1)),
        *queue("empty", resourceGroups=[]),
        *queue("small", resourceGroups=groups("standard", cpu=2)),
        *queue("together"),
        *queue("newgpu", resourceGroups=groups("plain", cpu=64, gpu=4)),
        *queue("wide", resourceGroups=groups("plain", cpu=64)),
        *queue("spot", resourceGroups=groups("tainted", cpu=8)),
        *queue("shrunk", resourceGroups=groups("standard", cpu=8)),
        ours("LocalQueue", "main", "defaulted", clusterQueue="main"),
        held,
        ours("LocalQueue", "paused", "team", clusterQueue="main", stopPolicy="Hold"),
        ours("LocalQueue", "main", "limited", clusterQueue="main"),
        ours("LocalQueue", "main", "counted", clusterQueue="main"),
    ]


def created(plane: ControlPlane, *objects: Raw) -> None:
    plane.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), check=True
    )


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the queues of the cases, and a Job that runs in its own queue. Jobs have no pods there."""
    directory: Path = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(CREATES)
    options = ("--config", str(directory / "config.yaml"))
    with (
        ControlPlane.start(spec=Spec(nodes=())) as started,
        serving(started.kubeconfig, directory, *options) as process,
    ):
        process.ready()
        created(started, *surroundings())
        created(started, job("runs", pods=2, labels={QUEUE: "small"}), job("pending", labels={QUEUE: "paused"}))
        created(started, job("holds", labels={QUEUE: "shrunk"}, asks=pod_spec({"cpu": "6"})))
        started.kubectl(*WAIT, "job/holds", "-n", "team", "--for=jsonpath={.spec.suspend}=false", check=True)
        lowered = json.dumps({"spec": {"resourceGroups": groups("standard", cpu=4)}})
        started.kubectl("patch", "clusterqueue", "shrunk", "--type=merge", "-p", lowered, check=True)
        started.kubectl(*WAIT, "job/runs", "-n", "team", "--for=jsonpath={.spec.suspend}=false", check=True)
        # The caches follow what was just written: from the answers that know what nobody else waits for, they know all.
        asyncio.run(eventually(lambda: "no node has" in asked(started, named("gone"))[1]))
        large = job(namespace="counted", asks=pod_spec(requests={"cpu": "6"}))
        asyncio.run(eventually(lambda: "ResourceQuota" in asked(started, large)[1]))
        yield started


def named_workloads(plane: ControlPlane, text: str) -> str:
    """The text with the name of the Workload of each job for ``WORKLOAD-OF-job``."""
    before, mark, job_name = text.partition("WORKLOAD-OF-")
    if not mark:
        return text
    name = "jsonpath={.items[*].metadata.name}"
    found = plane.kubectl("get", "workloads.kueue.x-k8s.io", "-n", "team", "-o", name).stdout.split()
    return before + next(each for each in found if each.startswith(f"job-{job_name}-"))


def asked(plane: ControlPlane, what: Asked) -> tuple[int, str]:
    """The exit code of kubectl, and what it prints on stderr."""
    if not isinstance(what, tuple):
        return creates(plane, what)
    done = plane.kubectl(*(named_workloads(plane, each) for each in what), "--dry-run=server")
    return done.returncode, done.stderr


def creates(plane: ControlPlane, what: Raw) -> tuple[int, str]:
    """The same of `kubectl create --dry-run=server`, from the answers to its requests."""
    world, told, errors = World(plane, "default"), list[str](), list[str]()
    with contextlib.closing(plane.administrator.connection(timeout=PATIENCE)) as connection:
        for item in what["items"] if what["kind"] == "List" else [what]:
            path = f"{world._path_of(item)}?dryRun=All&fieldManager=kubectl-create&fieldValidation=Strict"
            connection.request("POST", path, json.dumps(item), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            told += answer.headers.get_all("Warning", [])
            found = json.loads(answer.read())
            errors += [refusal(found, "creating")] if answer.status >= 400 else []
    return int(bool(errors)), "".join(f"{line}\n" for line in (*warnings(told), *errors))


def forms() -> list[Day]:
    """One create of each form: how many warnings, and who refuses it."""
    found: dict[tuple[bool, int, str], Day] = {}
    for day in DAYS:
        if not isinstance(day.asked, tuple):
            refuses = (*day.told, "")[0].partition(":")[0] if day.refused else ""
            found.setdefault((day.refused, min(len(day.told), 2), refuses), day)
    return list(found.values())


GOOD, HALF, OURS_NOT = "told, true, with the fix", "half", "nothing to tell"
CASES: dict[str, tuple[str, str]] = {
    "1 a misspelt queue": (GOOD, "the queue is misspelt"),
    "1b a queue like no other": (GOOD, "the queue is like no other"),
    "2a the label on the pod template alone": (
        OURS_NOT,
        "the pod template alone has labels, which Kubernetes copies to the Job",
    ),
    "2b the label on the pod template": (GOOD, "the pod template has the label"),
    "3 the queue of another namespace": (GOOD, "the queue is of another namespace"),
    "4a too big": (GOOD, "more cpu than there is"),
    "4b the sum too big": (GOOD, "more pods than fit"),
    "5a 8GB": (HALF, "memory in bytes of a thousand"),
    "5b 512m of memory": (GOOD, "memory in thousandths of bytes"),
    "5c 8 bytes": (GOOD, "memory without a unit"),
    "6a nvidia.com/gpus": (GOOD, "a resource that is misspelt"),
    "6c a device in a queue without": (GOOD, "a resource that the queue does not have"),
    "6d a flavor without nodes": (GOOD, "a flavor without nodes"),
    "6e nodes without the device": (GOOD, "the nodes of a new flavor have no GPU"),
    "6f the same, to the administrator": (GOOD, "the administrator gives quota for a GPU that no node has"),
    "6g a pod larger than each node": (GOOD, "one pod is larger than each node"),
    "7a limits only": (GOOD, "limits without requests"),
    "7b no requests": (GOOD, "no requests at all"),
    "8a a missing WorkloadPriorityClass": (GOOD, "the priority class is misspelt"),
    "8b a missing PriorityClass": (GOOD, "the PriorityClass of the pods is one of the system's, misspelt"),
    "9a nodes that the flavor excludes": (GOOD, "nodes that the queue does not have"),
    "9b an architecture that no node has": (GOOD, "an architecture that no node has"),
    "10 a missing toleration": (GOOD, "no toleration"),
    "11 parallelism while it runs": (GOOD, "fewer pods for a Job that runs"),
    "12a started by hand": (GOOD, "a Job that waits is started by hand"),
    "12b suspended by hand": (GOOD, "a Job that runs is suspended by hand"),
    "14 generateName": (OURS_NOT, "the API server makes the name"),
    "15 applied again with suspend: false": (GOOD, "a Job that waits is started by hand"),
    "17 another template for a Job that runs": (GOOD, "another image for a Job that runs"),
    "19 no queue": (OURS_NOT, "no queue"),
    "21a a CronJob with the label": (GOOD, "the label is on the CronJob itself"),
    "21b a typo in its jobTemplate": (GOOD, "a typo in the CronJob's jobTemplate"),
    "21c a queue that does not exist in it": (GOOD, "the CronJob's Jobs name a queue that does not exist"),
    "22 kustomize's labels": (OURS_NOT, "kustomize puts the label on the Job and its pods"),
    "23a managedBy": (GOOD, "another controller is named"),
    "23b managedBy MultiKueue": (GOOD, "MultiKueue is named, and the queue has no workers"),
    "24 TTL": (OURS_NOT, "a time to live"),
    "25 backoffLimit": (OURS_NOT, "retries"),
    "26 podFailurePolicy": (OURS_NOT, "a policy for failed pods"),
    "27 Indexed": (OURS_NOT, "indexes"),
    "28a the least number of pods is a word": (GOOD, "the least number of pods is a word"),
    "28b with fewer pods": (GOOD, "fewer pods would do"),
    "29, 53 label and annotation": (GOOD, "label and annotation differ"),
    "29b annotation alone": (GOOD, "the queue is named in an annotation"),
    "30a another queue, pending": (OURS_NOT, "another queue for a Job that waits"),
    "30b no queue, pending": (GOOD, "a Job that waits loses its queue"),
    "31 another queue, running": (GOOD, "another queue for a Job that runs"),
    "33 quota lowered": (GOOD, "the quota was lowered"),
    "34 on hold": (GOOD, "the queue is on hold, and another can run the job"),
    "35a Main": (GOOD, "the queue is written in capitals"),
    "35b an empty queue": (GOOD, "the queue is empty"),
    "36a a misspelt key": (GOOD, "the key of the label is misspelt"),
    "36b no prefix": (GOOD, "the label has no prefix"),
    "36c another prefix": (GOOD, "the prefix of another project"),
    "36d queue: main": (GOOD, "the label is called queue"),
    "37a a Pod": (GOOD, "the label is on a Pod"),
    "37b a Deployment": (GOOD, "the label is on a Deployment"),
    "40a a LocalQueue deleted": (GOOD, "no LocalQueue any more"),
    "40b a ClusterQueue deleted": (GOOD, "no ClusterQueue any more"),
    "41 a ResourceQuota": (GOOD, "a ResourceQuota does not let its pods be created"),
    "42a a LimitRange makes the request": (GOOD, "a LimitRange makes the request"),
    "42b a LimitRange sets the limit": (GOOD, "a LimitRange sets a lower limit"),
    "43 a Workload deleted": (GOOD, "the Workload of a Job that runs is deleted"),
    "45 kube-system": (GOOD, "a Job in kube-system"),
    "46 another image, pending": (GOOD, "another image for a Job that waits"),
    "47 a deadline": (OURS_NOT, "a deadline"),
    "48 63 letters": (OURS_NOT, "a name of 63 letters"),
    "49 an init container": (GOOD, "an init container makes the request"),
    "56 several mistakes at once": (GOOD, "five mistakes in one file"),
    "AlreadyExists": (OURS_NOT, "the name is taken"),
    "a set-up file: the check comes later": (GOOD, "the check comes later in the same file"),
    "a set-up file: the flavor comes later": (GOOD, "the flavor comes later in the same file"),
    "a LocalQueue to another ClusterQueue": (GOOD, "the LocalQueue is to lead elsewhere"),
    "a ClusterQueue edited": (OURS_NOT, "another field of a ClusterQueue that was warned of"),
    "D1 devices": (GOOD, "devices by ResourceClaim"),
    "D3 a worker cluster without its Secret": (GOOD, "the worker cluster of the check has no Secret"),
    "D5 a Topology": (GOOD, "a Topology"),
    "D5b a flavor with one": (GOOD, "a flavor with a topology"),
}
"""The cases by the number that they have in the list of things that go wrong on first days: the state of each, and the
title of the action that shows it. Half is what the API server says before it asks admission (5a), or because it cannot
(60).
"""
ELSEWHERE: dict[str, tuple[str, str, str]] = {
    "13 deleted while it waits": (OURS_NOT, "test_admission", "test_a_job_that_is_deleted_gives_its_quota_to_the_next"),
    "20 a dry run": (OURS_NOT, "test_kubectl_messages", "test_a_dry_run_leaves_nothing_behind"),
    "34b HoldAndDrain": (
        GOOD,
        "test_life_of_queues",
        "test_a_drained_queue_stops_its_jobs_and_restarts_them_before_later_jobs",
    ),
    "39 a namespace that is not selected": (
        GOOD,
        "test_life_of_queues",
        "test_a_relabelled_namespace_is_selected_or_no_longer_selected",
    ),
    "44 another priority": (
        GOOD,
        "test_life",
        "test_a_changed_class_reorders_the_queue_and_a_priority_set_by_hand_is_kept",
    ),
    "51 the queue comes later": (
        GOOD,
        "test_life_of_queues",
        "test_queues_may_come_after_their_jobs_and_go_before_them",
    ),
    "58 a user with edit looks": (GOOD, "test_tenant_view", "test_the_limits_of_the_queue_are_read_with_kubectl"),
    "60 Seiretsu is down": (HALF, "test_kubectl_messages", "test_while_serve_is_down_only_queued_jobs_are_blocked"),
    "bulk": (GOOD, "test_first_day", "test_four_of_six_jobs_created_together_get_a_warning_that_they_wait"),
}
"""The same for what takes more than one action: the module and the test."""


def test_of_the_cases_none_is_silent_and_two_are_half() -> None:
    days = {day.title: day for day in DAYS}
    assert len(days) == len(DAYS)
    assert len(CASES) >= 63
    assert {title for _, title in CASES.values()} <= days.keys()
    assert sum(state == HALF for state, *_ in (*CASES.values(), *ELSEWHERE.values())) == 2
    for _, module, name in ELSEWHERE.values():
        assert f"def {name}(" in (Path(__file__).parent / f"{module}.py").read_text()
    silent = [case for case, (state, title) in CASES.items() if state == GOOD and not days[title].told]
    assert not silent


@pytest.mark.parametrize("day", forms(), ids=lambda day: day.title)
def test_kubectl_prints_an_answer_as_it_is_composed_here(plane: ControlPlane, day: Day) -> None:
    done = plane.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(day.asked))
    assert (done.returncode, done.stderr) == asked(plane, day.asked)


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.title)
def test_what_kubectl_prints(plane: ControlPlane, day: Day) -> None:
    code, printed = asked(plane, day.asked)
    lines = [line.removeprefix("Warning: ") for line in printed.splitlines()]
    assert tuple(lines[: len(day.told)]) == tuple(named_workloads(plane, each) for each in day.told)
    assert day.refused or len(lines) == len(day.told), "a refusal by Kubernetes goes on with its own text"
    assert bool(code) is day.refused
    warned = [line for line in printed.splitlines() if line.startswith("Warning: ")]
    assert all(len(line.removeprefix("Warning: ")) <= LIMIT or "fractional byte" in line for line in warned)
    if day.fixed is not None:
        assert asked(plane, day.fixed) == (0, ""), "who does what it says is told nothing more"


def test_four_of_six_jobs_created_together_get_a_warning_that_they_wait(plane: ControlPlane) -> None:
    jobs = [job(f"six-{number}", labels={QUEUE: "together"}, asks=pod_spec({"cpu": "4"})) for number in range(6)]
    listed = {"apiVersion": "v1", "kind": "List", "items": jobs}
    done = plane.kubectl("create", "-f", "-", stdin=json.dumps(listed), check=True)
    told = done.stderr.splitlines()
    assert [line.split("; ")[1] for line in told] == [
        "queue position 1",
        "queue position 2",
        "queue position 3",
        "queue position 4",
    ]
    assert all(line.startswith("Warning: will wait: asks for 4 cpu, 0 free in") for line in told)
