"""Jobs of every kind that is queued, as a test sees them: a ``Case`` for each kind, and the ``Life`` of one job of it.

Two families differ in how they wait and stop: jobs that are suspended, and pods behind a gate, which are deleted. The
manifests are those of the pages in docs/kinds. Flux has no operator here: ``OfMiniCluster`` stands in for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from api.objects import Raw
from core.jobs.fields import at, changed
from core.jobs.kind import JobKind
from core.jobs.kinds import BATCH_JOB, KINDS, POD
from core.jobs.template import merge_diff
from tests.cluster.operators import JOBSET, KUBEFLOW, LWS, RAY, SPARK, TRAINER, Operators, dashboard_stand_in, define
from tests.cluster.world import World, condition
from tests.core.jobs.test_kinds import pruned

PAGES = Path(__file__).parents[2] / "docs" / "kinds"
QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GROUP, RETRIABLE = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/retriable-in-group"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
POD_SET_GROUP = "kueue.x-k8s.io/podset-group-name"
RUN_FOR, EXIT_CODE = "seiretsu.dev/run-for", "seiretsu.dev/exit-code"
LONG = 600.0
"""Seconds that the pods of a job run which a test does not let end."""
MetadataPath = tuple[str | int, ...]
LABELLED: dict[str, MetadataPath] = {
    "cronjob": ("spec", "jobTemplate", "metadata", "labels"),
    "minicluster": ("spec", "jobLabels"),
    "replicaset": ("spec", "template", "metadata", "labels"),
}
"""Where kinds have the labels of what is queued, if not in their own metadata."""


@dataclass(frozen=True)
class Case:
    """A kind: how many pods the job of its page has, and where the metadata of their templates is.

    ``pods`` are those that run on, ``workloads`` how many Workloads it has; ``ends`` is False for a kind that never
    finishes; ``failure`` is the reason of the Workload of a job that failed.
    """

    framework: str
    pods: int
    templates: tuple[MetadataPath, ...] = ()
    ends: bool = True
    called: str = ""
    workloads: int = 1
    failure: str = "Failed"

    @property
    def kind(self) -> JobKind:
        """The kind of the job that is queued."""
        return KINDS.get(self.framework, POD)

    @property
    def name(self) -> str:
        """The kind of the objects in lower case, as names and pages have it."""
        return self.called or self.kind.singular

    def objects(self, name: str, queue: str, *, seconds: float = LONG, code: int = 0) -> list[Raw]:
        """The objects of its page with another name, in a queue, with pods that run for so many seconds."""
        page = "deployment" if self.name == "replicaset" else self.name
        (shown,) = re.findall(r"```yaml\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
        made = [self._running(each, name, seconds, code) for each in yaml.safe_load_all(shown)]
        for number, each in enumerate(made):
            each["metadata"]["name"] = name if len(made) == 1 else f"{name}-{number}"
            if "selector" in each["spec"]:
                each["spec"]["selector"]["matchLabels"] = {"app": name}
                each["spec"]["template"]["metadata"]["labels"] = {"app": name}
            if self.name == "replicaset":
                each["kind"] = "ReplicaSet"
                del each["metadata"]["labels"]
            at(each, LABELLED.get(self.name, ("metadata", "labels"))).update({QUEUE: queue, CLASS: "low"})
            if len(made) > 1:
                each["metadata"]["labels"][GROUP] = name.removesuffix("-again")
                each["metadata"]["annotations"][RETRIABLE] = str(code == 0).lower()
        return made

    def _running(self, made: Raw, name: str, seconds: float, code: int) -> Raw:
        """One of these objects, whose pods end after so many seconds with that exit code."""
        for path in self.templates:
            annotations = {**(at(made, (*path, "annotations")) or {}), RUN_FOR: f"{seconds}s", EXIT_CODE: str(code)}
            made = changed(made, (*path, "annotations"), annotations)
            if self.kind is BATCH_JOB:
                made = changed(made, (*path[:-2], "backoffLimit"), 0)
        if self.name == "appwrapper":
            made["spec"]["components"][0]["template"]["metadata"]["name"] = f"{name}-train"
        if self.framework == "trainer.kubeflow.org/trainjob":  # the annotations of its pods are those of a runtime
            made["spec"]["runtimeRef"]["name"] = "lasts" if seconds > 60 else "fails" if code else "works"
        return made


@dataclass(frozen=True)
class Asking(Case):
    """A kind whose pods ask for a topology: all templates of the job have this annotation with the label of a level,
    and with ``group`` the one that places them together.

    The pods of a TrainJob are those of a runtime (``asking_runtimes``).
    """

    annotation: str = REQUIRED_TOPOLOGY
    level: str = ""
    group: str = ""

    def objects(self, name: str, queue: str, *, seconds: float = LONG, code: int = 0) -> list[Raw]:
        made = super().objects(name, queue, seconds=seconds, code=code)
        asked = {self.annotation: self.level, **({POD_SET_GROUP: self.group} if self.group else {})}
        for path in self.templates:  # those of Spark are no pod templates
            made = [changed(each, (*path, "annotations"), at(each, (*path, "annotations")) | asked) for each in made]
        for each in made:
            _annotate(each, asked)
        if self.name == "minicluster":
            made[0]["spec"]["pod"] = {"annotations": asked}
        if self.name == "trainjob":
            made[0]["spec"]["runtimeRef"]["name"] += _suffix(self.annotation)
        return made


def asking(case: Case, annotation: str, level: str) -> Asking:
    """Returns the same kind, with pods that ask for a topology."""
    return Asking(**{each.name: getattr(case, each.name) for each in fields(case)}, annotation=annotation, level=level)


def _annotate(holder: Any, asked: Mapping[str, str]) -> None:
    """Annotates all pods and pod templates in an object."""
    if isinstance(holder, dict):
        spec = holder.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            holder.setdefault("metadata", {}).setdefault("annotations", {}).update(asked)
        for each in holder.values():
            _annotate(each, asked)
    elif isinstance(holder, list):
        for each in holder:
            _annotate(each, asked)


@dataclass
class Life:
    """One job of a kind that is suspended: what is done with it, and what is seen of it."""

    world: World
    case: Case
    name: str
    queue: str
    before: Raw = field(default_factory=dict)
    called: str = ""

    def create(self, **given: Any) -> None:
        """Create its objects."""
        self.world.create(*self.objects(**given))

    def objects(self, **given: Any) -> list[Raw]:
        """Its manifests."""
        return self.case.objects(self.called or self.name, self.queue, **given)

    def delete(self) -> None:
        """Delete its objects."""
        for each in self.objects():
            self.world.remove(each)

    def gone(self) -> bool:
        """Whether neither its objects nor the job are there."""
        return not any(map(self.world.read, self.objects())) and not self.job()

    def job(self) -> Raw:
        """The object that is suspended; {} as long as there is none."""
        return self.world.read({**self._named, "metadata": {"name": self.name}})

    @property
    def _named(self) -> Raw:
        return {"apiVersion": self.case.kind.api_version, "kind": self.case.kind.kind}

    def workloads(self) -> list[Raw]:
        """Its Workloads: those in its LocalQueue, which has no other job."""
        items = self.world.get("workloads").get("items", [])
        return [each for each in items if each["spec"].get("queueName") == self.queue]

    def all(self, kind: str, status: str, *reasons: str) -> bool:
        """Whether all its Workloads have a condition with this status, and with one of the reasons, if any is given."""
        found = [condition(each, kind)[:2] for each in self.workloads()]
        return len(found) == self.case.workloads and all(
            each[0] == status and (not reasons or each[1] in reasons) for each in found
        )

    def pods(self) -> list[Raw]:
        """Its started pods that are not being deleted, by the name of its Workload, which all of them have."""
        names = {each["metadata"]["name"] for each in self.workloads()}
        found = self.world.get("pods").get("items", [])
        mine = [each for each in found if _annotation(each, "kueue.x-k8s.io/workload") in names]
        return [each for each in mine if "deletionTimestamp" not in each["metadata"]]

    def running(self, node: str) -> bool:
        """Whether its pods run, all of them on this node."""
        found = [each["spec"].get("nodeName") for each in self.pods() if each["status"].get("phase") == "Running"]
        return found == [node] * self.case.pods

    def waits(self) -> bool:
        """Whether it is suspended, has its Workloads and no pod."""
        found = self.job()
        return (
            bool(found)
            and self.case.kind.held(found)
            and len(self.workloads()) == self.case.workloads
            and not self.pods()
        )

    def remember(self) -> None:
        """Keep what it asks for while it waits."""
        self.before = asked(self.job())

    def marked(self, pod: Raw) -> bool:
        """Whether a pod has the uid of its job."""
        return bool(pod["metadata"]["labels"][self.case.kind.uid_label] == self.job()["metadata"]["uid"])

    def preempted(self, since: str) -> None:
        """Wait until it has been preempted and stopped; ``since`` is a version of pods before that."""
        self.world.until("it is evicted", lambda: self.all("Evicted", "True", "Preempted"))
        self.world.until("it is stopped and its pods are gone", self.waits)

    def restored(self) -> bool:
        """Whether it asks for the same as before its first start."""
        return merge_diff(self.before, asked(self.job())) == {}


class OfCronJob(Life):
    """A Job that kubectl makes of a CronJob."""

    def create(self, **given: Any) -> None:
        super().create(**given)
        arguments = ("create", "job", "-n", self.world.namespace, f"--from=cronjob/{self.name}", self.name)
        self.world.plane.kubectl(*arguments, check=True)


class OfMiniCluster(Life):
    """The Indexed Job of a MiniCluster, made by a stand-in for the Flux operator, which deletes it, too."""

    def delete(self) -> None:
        super().delete()
        self.world.remove({**self._named, "metadata": {"name": self.name}})

    def create(self, **given: Any) -> None:
        super().create()
        (found,) = map(self.world.read, self.objects())
        self.world.create(job_of_mini_cluster(found, **given))


class Gated(Life):
    """Pods behind a gate, queued by themselves or as a group: of a controller, or created by the user."""

    def job(self) -> Raw:
        """There is none beside its objects."""
        return {}

    def queued(self) -> list[Raw]:
        """Its pods that are not being deleted, by the queue name, which all of them have or get."""
        items = self.world.get("pods").get("items", [])
        mine = [each for each in items if (each["metadata"].get("labels") or {}).get(QUEUE) == self.queue]
        return [each for each in mine if "deletionTimestamp" not in each["metadata"]]

    def pods(self) -> list[Raw]:
        return [each for each in self.queued() if not gated(each)]

    def waits(self) -> bool:
        found = self.queued()
        return bool(found) and all(map(gated, found)) and len(self.workloads()) == self.case.workloads

    def remember(self) -> None:
        self.before = asked(self.queued()[0])

    def marked(self, pod: Raw) -> bool:
        return bool(pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true")

    def preempted(self, since: str) -> None:
        def marked(state: Raw) -> bool:
            mine = (state["metadata"].get("labels") or {}).get(QUEUE) == self.queue
            return mine and condition(state, "TerminationTarget")[1] == "WorkloadEvictedDueToPreempted"

        self.world.seen("pods", since, marked)
        self.world.until("its pods are gone", lambda: not self.pods())
        if self.case.framework == "pod" and self.case.name != "replicaset":  # no controller creates them again
            old, self.called = self.objects(), f"{self.name}-again"
            self.create()
            self.world.until("the pods that were evicted are deleted", lambda: not any(map(self.world.read, old)))
        self.world.until("its new pods wait", self.waits)

    def restored(self) -> bool:
        return all(merge_diff(self.before, asked(each)) == {} for each in self.queued()[:1])


def life_of(case: Case) -> type[Life]:
    """Returns the class of the lives of a kind."""
    if case.kind is POD:
        return Gated
    return {"cronjob": OfCronJob, "minicluster": OfMiniCluster}.get(case.name, Life)


def replicas(specs: str, *types: str) -> tuple[MetadataPath, ...]:
    """Where the metadata of the templates of a Kubeflow job is."""
    return tuple(("spec", specs, each, "template", "metadata") for each in types)


POD_METADATA: MetadataPath = ("template", "spec", "template", "metadata")
CASES = (
    Case("batch/job", 4, (("spec", "template", "metadata"),)),
    Case("batch/job", 1, (("spec", "jobTemplate", "spec", "template", "metadata"),), called="cronjob"),
    Case("batch/job", 2, called="minicluster"),
    Case("kubeflow.org/mpijob", 3, replicas("mpiReplicaSpecs", "Launcher", "Worker")),
    Case("ray.io/rayjob", 3),
    Case("ray.io/raycluster", 3, ends=False),
    Case("ray.io/rayservice", 3, ends=False),
    Case("jobset.x-k8s.io/jobset", 5, tuple(("spec", "replicatedJobs", each, *POD_METADATA) for each in (0, 1))),
    Case("trainer.kubeflow.org/trainjob", 2),
    Case("kubeflow.org/pytorchjob", 3, replicas("pytorchReplicaSpecs", "Master", "Worker")),
    Case("kubeflow.org/tfjob", 4, replicas("tfReplicaSpecs", "Chief", "PS", "Worker")),
    Case("kubeflow.org/xgboostjob", 3, replicas("xgbReplicaSpecs", "Master", "Worker")),
    Case("kubeflow.org/paddlejob", 2, replicas("paddleReplicaSpecs", "Worker")),
    Case("kubeflow.org/jaxjob", 2, replicas("jaxReplicaSpecs", "Worker")),
    Case("workload.codeflare.dev/appwrapper", 2, (("spec", "components", 0, *POD_METADATA),)),
    Case("sparkoperator.k8s.io/sparkapplication", 3, (("spec", "driver"), ("spec", "executor"))),
    Case("pod", 1, (("metadata",),)),
    Case("pod", 2, (("metadata",),), called="pod-group", failure="Succeeded"),
    Case("pod", 2, ends=False, called="replicaset", workloads=2),
    Case("deployment", 2, ends=False, called="deployment", workloads=2),
    Case("statefulset", 2, ends=False, called="statefulset"),
    Case("leaderworkerset.x-k8s.io/leaderworkerset", 2, ends=False, called="leaderworkerset"),
)
"""Every kind that Kueue queues; a test compares the frameworks with those that are supported."""


MINI_CLUSTERS = "miniclusters.flux-framework.org"


def define_mini_clusters(world: World) -> None:
    """Install a definition of MiniClusters without a schema: Flux's own is not to be had as a Go module."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "miniclusters", "singular": "minicluster", "kind": "MiniCluster"}
    spec = {"group": "flux-framework.org", "scope": "Namespaced", "names": names, "versions": [version]}
    made = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    world.create({**made, "metadata": {"name": MINI_CLUSTERS}, "spec": spec})
    served = "/apis/flux-framework.org/v1alpha2/miniclusters"
    world.until("MiniClusters are served", lambda: world.plane.administrator.get(served))


def job_of_mini_cluster(found: Raw, *, seconds: float = LONG, code: int = 0) -> Raw:
    """Returns the Job that the Flux operator makes of a MiniCluster: Indexed, with its labels and owned by it."""
    metadata, spec = found["metadata"], found["spec"]
    owner = {key: metadata[key] for key in ("name", "uid")} | {"controller": True, "blockOwnerDeletion": True}
    containers = [
        {"name": f"flux-{number}", **{key: each[key] for key in ("image", "resources")}}
        for number, each in enumerate(spec["containers"])
    ]
    annotations = {**spec.get("pod", {}).get("annotations", {}), RUN_FOR: f"{seconds}s", EXIT_CODE: str(code)}
    pod = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": containers}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": metadata["name"],
            "labels": spec["jobLabels"],
            "ownerReferences": [{"apiVersion": found["apiVersion"], "kind": found["kind"], **owner}],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": spec["size"],
            "parallelism": spec["size"],
            "backoffLimit": 0,
            "template": pod,
        },
    }


def gated(pod: Raw) -> bool:
    """Whether a pod has the gate of its admission."""
    return any(each["name"] == "kueue.x-k8s.io/admission" for each in pod["spec"].get("schedulingGates") or ())


def asked(found: Raw) -> Raw:
    """The spec of a job without what its operator writes there: when the runtime patches of a TrainJob changed; of a
    pod what its nodes are chosen by.
    """
    if "containers" in found["spec"]:
        return {key: found["spec"].get(key) for key in ("nodeSelector", "tolerations", "schedulingGates")}
    patches = [{**each, "time": None} for each in found["spec"].get("runtimePatches", [])]
    spec: Raw = pruned({**found["spec"], "runtimePatches": patches})
    return spec


def _annotation(found: Raw, name: str) -> str:
    return str((found["metadata"].get("annotations") or {}).get(name, ""))


@contextmanager
def every_operator(world: World, directory: Path) -> Iterator[None]:
    """The operators of all kinds, and runtimes for TrainJobs whose names say how their pods end."""
    operators = Operators(world, directory)
    every = (JOBSET, *KUBEFLOW, "mpijobs", *RAY, "appwrappers", *TRAINER, *SPARK, *LWS)
    define(world, *every)  # one process of kubectl for all of them
    with dashboard_stand_in() as proxy:
        operators.jobset()
        operators.training()
        operators.mpi()
        operators.kuberay(proxy)
        operators.appwrapper()
        operators.trainer()
        operators.spark(world.namespace)
        operators.lws()
        define_mini_clusters(world)
        world.create(*(runtime(name, code) for name, code in RUNTIMES.items()))
        yield


RUNTIMES = {"lasts": "0", "works": "0", "fails": "1"}
"""The runtimes of TrainJobs, with the exit codes of their pods."""


def asking_runtimes(annotation: str, level: str) -> list[Raw]:
    """Returns the runtimes of TrainJobs that ask for a topology, whose pods may be lost."""
    asked = {annotation: level}
    return [runtime(name, code, _suffix(annotation), backoff_limit=6, **asked) for name, code in RUNTIMES.items()]


def _suffix(annotation: str) -> str:
    """The end of the name of a runtime with an annotation."""
    return f"-{annotation.partition('/')[2]}"


def runtime(name: str, code: str, suffix: str = "", *, backoff_limit: int = 0, **more: str) -> Raw:
    """A runtime whose Jobs fail at once unless it has a ``backoff_limit``, with pods that end as its name says and have
    ``more`` annotations.
    """
    annotations = {RUN_FOR: "600s" if name == "lasts" else "1s", EXIT_CODE: code, **more}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "node", "image": "none"}]}}
    one = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": backoff_limit, "template": pod},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": f"{name}{suffix}", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [one]}}},
    }
