"""RayJob (ray.io/v1): a cluster that runs one job, and the pod that submits it.

A RayJob that uses an existing cluster (``clusterSelector``) is never queued. When KubeRay stops a job it deletes its
cluster, and the next start makes a new one. It does not look at ``suspend`` while an interactive job waits for the id
of its Ray job, so a stop sets the status that follows (seen with v1.6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.builtin import BOOLEAN, METADATA, POD_TEMPLATE, TEXT, fields, map_of
from api.errors import FieldError, invalid, required
from api.feature_gates import Enabled
from api.objects import Resource
from api.structural import Form
from core.actions import Patch, Write, insisted
from core.jobs import meta, template
from core.jobs.fields import at, changed, dotted
from core.jobs.job_reader import Outcome, Slot
from core.jobs.job_starter import Right
from core.jobs.kinds.raycluster import CLUSTER, RunsCluster
from core.jobs.template import Injection
from core.model import Raw
from core.wire.guard import guarded

MADE: Final = "seiretsu.dev/submitter-template"
"""On a submitter template that a start added to a job without one: a stop removes it."""
_SUBMITTER: Final = ("spec", "submitterPodTemplate")
_SELECTOR: Final = ("spec", "clusterSelector")
_INVALID: Final = "ValidationFailed"
_CONTAINER: Final = "ray-job-submitter"
_RESOURCES: Final = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
"""Those with which KubeRay runs a submitter of its own."""


class RayJob(RunsCluster):
    """The ``ray.io/rayjob`` framework."""

    framework = "ray.io/rayjob"
    counted = "`head`; each worker group: its replicas times hosts; `submitter` in K8sJobMode"
    makes = ("Job", "RayCluster")
    resource = Resource("ray.io", "v1", "rayjobs", "RayJob")
    pods_path = ("spec", "rayClusterSpec")
    cluster_path = ("status", "rayClusterName")
    runs_children = False
    rights = (*RunsCluster.rights, Right(resource, "patch", "status"))
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                managedBy=TEXT,
                submissionMode=TEXT,
                clusterSelector=map_of(TEXT),
                shutdownAfterJobFinishes=BOOLEAN,
                rayClusterSpec=fields(**CLUSTER),
                submitterPodTemplate=POD_TEMPLATE,
            ),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns the pod sets of the cluster, and ``submitter`` if a Job submits the job."""
        found = super().slots(job, related)
        return (
            [*found, Slot("submitter", 1, _SUBMITTER, called="the submitter")]
            if found and _mode(job) == "K8sJobMode"
            else found
        )

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template of a pod set; KubeRay's own for a submitter without one."""
        found = super().template_of(job, slot, related)
        return found or _submitter(job) if slot.path == _SUBMITTER else found

    def head(self, job: Raw, template: Raw) -> Raw:
        """The head's template, with a submitter in it if that is the mode."""
        found = super().head(job, template)
        if _mode(job) != "SidecarMode":
            return found
        containers = [*found["spec"]["containers"], {"name": _CONTAINER, "resources": _RESOURCES}]
        return {**found, "spec": {**found["spec"], "containers": containers}}

    def with_injection(self, job: Raw, slot: Slot, injection: Injection, related: Sequence[Raw] = ()) -> Raw:
        """Returns the job with the injection of a pod set; KubeRay's own submitter template is written for that."""
        if slot.path != _SUBMITTER or at(job, _SUBMITTER):
            return super().with_injection(job, slot, injection, related)
        found = template.inject(_submitter(job) or {}, injection)
        annotations = {**found["metadata"].get("annotations", {}), MADE: "true"}
        return changed(job, _SUBMITTER, {**found, "metadata": {**found["metadata"], "annotations": annotations}})

    def without_injection(self, job: Raw, slot: Slot, original: Raw) -> Raw:
        """Returns the job with a template as it was; a submitter template that a start added is removed."""
        if slot.path == _SUBMITTER and MADE in meta.annotations(at(job, _SUBMITTER) or {}):
            return changed(job, _SUBMITTER, None)
        return super().without_injection(job, slot, original) if at(job, slot.path) else job

    def skip(self, job: Raw) -> bool:
        """Whether it uses an existing cluster; KubeRay then ignores the one that it describes."""
        return bool(at(job, _SELECTOR))

    def skip_errors(self, job: Raw) -> list[FieldError]:
        """Returns the error of a job that describes a cluster and uses another one."""
        if at(job, self.pods_path) is None:
            return []
        detail = "a kueue managed job should not use an existing cluster"
        return [invalid(dotted(_SELECTOR), at(job, _SELECTOR), detail)]

    def on_hold(self, job: Raw) -> str:
        """Whether KubeRay found it invalid: it does nothing until the job is changed."""
        return "Job is on hold" if self.invalid(job) else ""

    def invalid(self, job: Raw) -> bool:
        """Whether KubeRay has found it invalid."""
        return _deployment(job) == _INVALID

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Suspends it; an interactive job that waits for its user is also given the status of one that is stopped."""
        writes = super().stop(job, pod_sets, related)
        if writes or _deployment(job) != "Waiting":
            return writes
        suspending = guarded({"status": {"jobDeploymentStatus": "Suspending"}}, job)
        return [insisted(Patch(suspending, subresource="status"))]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether KubeRay has begun to start it and does not report it as suspended; one that is invalid as long as it
        has a cluster.
        """
        return bool(related) if self.invalid(job) else _deployment(job) not in ("", "Suspended")

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Complete or Failed; Ray's own status of the job is its success."""
        if _deployment(job) not in ("Complete", "Failed"):
            return None
        status = job["status"]
        return Outcome(status.get("jobStatus") == "SUCCEEDED", status.get("message", ""))

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether KubeRay reports its cluster as ready."""
        return bool(at(job, ("status", "rayClusterStatus", "state")) == "ready")

    def cluster_errors(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of the job's cluster, which is its own and is deleted with it."""
        spec = job.get("spec") or {}
        if spec.get("rayClusterSpec") is None:
            detail = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            return [required("spec.rayClusterSpec", detail)]
        errors = []
        if not spec.get("shutdownAfterJobFinishes"):
            detail = "a kueue managed job should delete the cluster after finishing"
            errors.append(invalid("spec.shutdownAfterJobFinishes", False, detail))
        return errors + super().cluster_errors(job, enabled)


RAY_JOB: Final = RayJob()


def _mode(job: Raw) -> str:
    return str((job.get("spec") or {}).get("submissionMode") or "K8sJobMode")


def _deployment(job: Raw) -> str:
    return str(at(job, ("status", "jobDeploymentStatus")) or "")


def _submitter(job: Raw) -> Raw | None:
    """The template that KubeRay uses for a job that has none, with the image of the head, if that has one; None without
    a head.
    """
    head = at(job, ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers", 0))
    if head is None:
        return None
    image = {"image": head["image"]} if head.get("image") else {}
    return {
        "spec": {
            "containers": [{"name": _CONTAINER, **image, "resources": _RESOURCES}],
            "restartPolicy": "Never",
        }
    }
