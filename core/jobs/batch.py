"""batch/v1 Job: how many pods it wants, how it starts and stops, when it is done.

Suspending and resuming is the Job controller's own mechanism (``spec.suspend``); the API lets templates change only
while a Job is suspended and has no start time, hence the order of the patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from api import names
from core.jobs import template
from core.jobs.kind import Outcome, Patch, guard
from core.jobs.template import Injection, merge_diff
from core.jobs.workload import pod_set
from core.model import Raw

_JOB_NAME = "batch.kubernetes.io/job-name"
_PER_RUN = frozenset({"job-name", "controller-uid", names.JobControllerLabel.CONTROLLER_UID})
"""Labels that the Job controller sets for itself: no part of what the Workload is."""


class BatchJob:
    """The ``batch/job`` framework."""

    framework = "batch/job"
    api_version = "batch/v1"
    kind = "Job"
    plural = "jobs"

    def pod_sets(self, job: Raw) -> list[Raw]:
        """One pod set ``main`` of as many pods as run at once."""
        return [
            pod_set(
                job["spec"]["template"],
                name=names.DEFAULT_POD_SET,
                count=_count(job),
                drop_labels=_PER_RUN,
                min_count=min_parallelism(job),
            )
        ]

    def suspended(self, job: Raw) -> bool:
        """A Job that is still being stopped (by Kueue, whose mark this is) is not yet suspended."""
        stopping = (job["metadata"].get("annotations") or {}).get(names.Annotation.STOPPING) == "true"
        return bool(job["spec"].get("suspend")) and not stopping

    def active(self, job: Raw) -> bool:
        """Whether it has pods that run or are about to."""
        return bool((job.get("status") or {}).get("active"))

    def finished(self, job: Raw) -> Outcome | None:
        """Complete or Failed, with the Job controller's message."""
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                return Outcome(condition["type"] == "Complete", condition.get("message", ""))
        return None

    def pods_ready(self, job: Raw) -> bool:
        """Whether as many pods are ready or have succeeded as run at once."""
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or []
        ready: int = status.get("succeeded", 0) + status.get("ready", 0) + len(uncounted)
        return ready >= _count(job)

    def reclaimable(self, job: Raw) -> Mapping[str, int]:
        """Parallel slots for which no work is left."""
        spec = job["spec"]
        parallelism = spec.get("parallelism", 1)
        completions = spec["completions"] if spec.get("completions") is not None else parallelism
        done = _done(job, completions)
        free = parallelism - max(completions - done, 0)
        return {names.DEFAULT_POD_SET: free} if parallelism > 1 and done > 0 and free > 0 else {}

    def start(self, job: Raw, injections: Sequence[Injection]) -> list[Patch]:
        """Unsuspend with the injection; a start time left from an earlier run is taken back first.

        Its pods have the Job's uid as a label, by which they are found when the Job is deleted: the API server sees to
        that, but for a Job with a selector of its own.
        """
        (injection,) = injections
        if job["spec"].get("manualSelector"):
            injection = replace(
                injection, labels={**injection.labels, names.JobControllerLabel.CONTROLLER_UID: _uid(job)}
            )
        spec = {**job["spec"], "suspend": False, "template": template.inject(job["spec"]["template"], injection)}
        if min_parallelism(job) is not None:
            spec |= _parallelism(job, injection.count)
        patches = _start_time_reset(job)
        metadata = guard(job, version=not patches)
        return [*patches, Patch({"metadata": metadata, "spec": merge_diff(job["spec"], spec)})]

    def stop(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Patch]:
        """Suspend, forget the start time, restore template and parallelism: each only where it is needed.

        The API server lets nobody change the template as long as the Job's status counts pods.
        """
        patches = []
        if not job["spec"].get("suspend"):
            patches.append(Patch({"metadata": guard(job, version=True), "spec": {"suspend": True}}))
        patches += _start_time_reset(job)
        spec, metadata = dict(job["spec"]), guard(job, version=False)
        if pod_sets and not self.active(job):
            (original,) = pod_sets
            spec["template"] = template.restore(
                spec["template"], original["template"], keep_labels=_PER_RUN | {_JOB_NAME}
            )
            if min_parallelism(job) is not None:
                spec |= _parallelism(job, original["count"])
        restored = merge_diff(job["spec"], spec)
        if names.Annotation.STOPPING in (job["metadata"].get("annotations") or {}):
            metadata["annotations"] = {names.Annotation.STOPPING: None}
        if restored or "annotations" in metadata:
            patches.append(Patch({"metadata": metadata, **({"spec": restored} if restored else {})}))
        return patches


def min_parallelism(job: Raw) -> int | None:
    """With how many pods the Job would start if need be; None where the annotation is absent or no number."""
    text = (job["metadata"].get("annotations") or {}).get(names.Annotation.MIN_PARALLELISM)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _count(job: Raw) -> int:
    spec = job["spec"]
    found, completions = spec.get("parallelism"), spec.get("completions")
    parallelism: int = 1 if found is None else found
    return parallelism if completions is None else min(parallelism, completions)


def _uid(job: Raw) -> str:
    return str(job["metadata"]["uid"])


def _parallelism(job: Raw, count: int) -> Raw:
    annotations = job["metadata"].get("annotations") or {}
    if annotations.get(names.Annotation.COMPLETIONS_EQUAL_PARALLELISM, "").lower() in ("true", "t", "1"):
        return {"parallelism": count, "completions": count}
    return {"parallelism": count}


def _start_time_reset(job: Raw) -> list[Patch]:
    if (job.get("status") or {}).get("startTime") is None:
        return []
    return [Patch({"metadata": guard(job, version=False), "status": {"startTime": None}}, subresource="status")]


def _done(job: Raw, completions: int) -> int:
    """Pods that will never run again: succeeded ones, or for an Indexed Job completed and finally failed indexes."""
    status = job.get("status") or {}
    if job["spec"].get("completionMode") != "Indexed":
        done: int = status.get("succeeded", 0)
        return done
    indexes: set[int] = set()
    for text in (status.get("completedIndexes"), status.get("failedIndexes")):
        for interval in (text or "").split(","):
            first, _, last = interval.partition("-")
            if first.isdigit() and (not last or last.isdigit()):
                indexes |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return len(indexes)
