"""Forty things that go wrong on a first day: what a person writes, and all that real kubectl prints.

One namespace `team` with one queue `main` of 8 cpu and 16Gi, and what surrounds it. Everything is asked with
`--dry-run=server`, so the cases do not meet; what is said is checked where it can be: after the fix nothing is said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.objects import Raw
from core.feedback.rules import LIMIT
from devcluster.controlplane import ControlPlane, Spec
from tests.eventually import WAIT, eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

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
LEAST = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DAYS = [
    Day(
        "the queue is misspelt",
        named("mian"),
        ('LocalQueue "mian" does not exist in namespace "team": did you mean "main"?',),
        named("main"),
    ),
    Day(
        "the queue is written in capitals",
        named("Main"),
        (f'{DENIED}metadata.labels[{QUEUE}]: Invalid value: "Main": {SUBDOMAIN}; did you mean "main"?',),
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
        ('LocalQueue "experiments" does not exist in namespace "team"; available: empty, gone, gpu and 4 more',),
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
        (
            "container main limits cpu to 4 but requests none: the limit counts as request; request less if it needs"
            " less",
        ),
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
        (
            "this Job's pod template cannot change: delete the Job and create it again (kubectl replace --force -f"
            " FILE)",
        ),
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
        ("delete", "workload", "WORKLOAD", "-n", "team"),
        (
            'Job "runs" is suspended and requeued; to end it delete the Job; to hold it set spec.active: false in'
            " the Workload",
        ),
    ),
    Day(
        "the label is on a Pod",
        other("Pod", "v1", {QUEUE: "main"}, spec=pod_spec()),
        ("label kueue.x-k8s.io/queue-name has no effect on a Pod: only Jobs are queued, this pod starts immediately",),
        named("main"),
    ),
    Day(
        "the label is on a Deployment",
        deployment({QUEUE: "main"}),
        (
            "label kueue.x-k8s.io/queue-name has no effect on a Deployment: only Jobs are queued, its pods start"
            " immediately",
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
    names = ("team", "limited", "counted")
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "labels": {"pool": "standard"}}}
    limits = [{"type": "Container", "defaultRequest": {"cpu": "20"}}]
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "limited"}}
    compute = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute", "namespace": "counted"}}
    flavors = [ours("ResourceFlavor", name, nodeLabels={"pool": name}) for name in ("standard", "gone")]
    urgent = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 1000}
    held = ours("LocalQueue", "held", "team", clusterQueue="main", stopPolicy="Hold")
    return [
        *namespaces,
        node,
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
        held,
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
    with ControlPlane.start(spec=Spec(nodes=())) as started, serving(started.kubeconfig, directory) as process:
        process.ready()
        created(started, *surroundings())
        created(started, job("runs", pods=2, labels={QUEUE: "small"}))
        started.kubectl(*WAIT, "job/runs", "-n", "team", "--for=jsonpath={.spec.suspend}=false", check=True)
        # The caches follow what was just written: from the answers that know what nobody else waits for, they know all.
        asyncio.run(eventually(lambda: "no node has" in asked(started, named("gone"))[1]))
        large = job(namespace="counted", asks=pod_spec(requests={"cpu": "6"}))
        asyncio.run(eventually(lambda: "ResourceQuota" in asked(started, large)[1]))
        yield started


def asked(plane: ControlPlane, what: Asked) -> tuple[int, str]:
    """The exit code of kubectl, and what it printed on stderr."""
    if isinstance(what, tuple):
        name = "jsonpath={.items[0].metadata.name}"
        found = plane.kubectl("get", "workloads.kueue.x-k8s.io", "-n", "team", "-o", name).stdout
        done = plane.kubectl(*(each.replace("WORKLOAD", found) for each in what), "--dry-run=server")
    else:
        done = plane.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(what))
    return done.returncode, done.stderr


def test_there_are_forty_of_them() -> None:
    assert len(DAYS) >= 40
    assert len({day.title for day in DAYS}) == len(DAYS)


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.title)
def test_what_kubectl_prints(plane: ControlPlane, day: Day) -> None:
    code, printed = asked(plane, day.asked)
    lines = [line.removeprefix("Warning: ") for line in printed.splitlines()]
    assert tuple(lines[: len(day.told)]) == day.told
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
