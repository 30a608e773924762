"""TrainJob (trainer.kubeflow.org/v1alpha1): a JobSet that the trainer derives from a runtime and the job.

The trainer creates the JobSet suspended, with complete templates: they are the pod sets of the Workload. A start adds
them to ``runtimePatches``, under a manager of Kueue's name. The trainer accepts a change of that entry only while no
Job of the JobSet is active, so a stop takes two rounds: it suspends the job, and clears the entry when its pods are
gone. The trainer does not take the values of a cleared entry out of the suspended JobSet (seen with v2.3.0), so that
JobSet is deleted, and the trainer makes a clean one.

Of a TrainJob that runs in another cluster the trainer makes a JobSet there only: here it is derived from the runtime
(``core.jobs.kinds.training_runtime``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from api.builtin import BOOLEAN, INTEGER, METADATA, TEXT, fields, list_of
from api.feature_gates import Enabled
from api.names import MULTIKUEUE_CONTROLLER, Annotation, Label
from api.objects import Resource, key_of
from api.structural import Form
from core.actions import Delete, Target, Write, insisted
from core.jobs import meta, template
from core.jobs.fields import Setting, at, changed
from core.jobs.job_reader import Outcome, Slot, outcome
from core.jobs.job_starter import Right
from core.jobs.kind import JobKind
from core.jobs.kinds.jobset import JOB_SET
from core.jobs.kinds.training_runtime import (
    CLUSTER_TRAINING_RUNTIMES,
    TRAINING_RUNTIMES,
    derived,
    is_runtime,
    reference,
)
from core.jobs.template import ConflictError, Injection
from core.model import Key, Raw

MANAGER: Final = "kueue.x-k8s.io/manager"


class TrainJob(JobKind):
    """The ``trainer.kubeflow.org/trainjob`` framework."""

    framework = "trainer.kubeflow.org/trainjob"
    counted = "those of the JobSet that the trainer makes of it"
    makes = ("JobSet",)
    resource = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
    pods_label = "jobset.sigs.k8s.io/jobset-name"
    pods_path = ("spec", "runtimePatches")
    pods_field = "spec.trainer.numNodes"
    topology_groups = False
    managed_by = ("spec", "managedBy")
    own_controller = "trainer.kubeflow.org/trainjob-controller"
    related = (JOB_SET.resource,)
    refers = (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)
    templates_elsewhere = True
    rights = (Right(JOB_SET.resource, "delete"),)
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                managedBy=TEXT,
                runtimeRef=fields(name=TEXT, kind=TEXT),
                trainer=fields(numNodes=INTEGER),
                runtimePatches=list_of(fields(manager=TEXT)),
            ),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns the pod sets of its JobSet, by their paths there; none while there is no JobSet."""
        found = _job_set(job, related)
        return JOB_SET.slots(found) if found is not None else []

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template in the JobSet."""
        found = _job_set(job, related)
        return JOB_SET.template_of(found, slot) if found is not None else None

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether any of its Jobs has pods."""
        return any(each.get("active") for each in _statuses(job))

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Complete or Failed, with the trainer's message."""
        return outcome(job, success="Complete", failure="Failed")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether all of its Jobs are ready or have succeeded; its status counts Jobs, not pods."""
        found = _job_set(job, related)
        return found is not None and JOB_SET.pods_ready(_with_status(job, found))

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """The pods of Jobs that have succeeded."""
        found = _job_set(job, related)
        return JOB_SET.reclaimable(_with_status(job, found)) if found is not None else {}

    def references(self, job: Raw) -> Iterable[tuple[Resource, Key]]:
        """The runtime of a job that runs in another cluster: that of any other is the trainer's business."""
        found = reference(job) if self.manager(job) == MULTIKUEUE_CONTROLLER else None
        return (found,) if found is not None else ()

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Without the entry of this queue: the worker adds its own."""
        patches = [each for each in _patches(job) if each.get("manager") != MANAGER]
        return super().for_worker(changed(job, self.pods_path, patches), pod_sets, related)

    def compared(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Raw]:
        """Of a job that runs here for another cluster only what decides: the other one has derived its JobSet."""
        there = Label.MULTIKUEUE_ORIGIN in meta.labels(job)
        return [_essential(each) for each in pod_sets] if there else [*pod_sets]

    def defaults(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """The entry into which a start writes, which every TrainJob has."""
        return [] if _place(job) is not None else [Setting(self.pods_path, [*_patches(job), _entry([])])]

    def injected(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Raw:
        """Returns the job with the injection of each pod set in its entry of the runtime patches."""
        slots = self.slots(job, related)
        if len(slots) != len(injections):
            raise ConflictError(f"the job has {len(slots)} pod sets, its workload {len(injections)}")
        job_set, found = _job_set(job, related), []
        assert job_set is not None, "without a JobSet there are no slots"
        for slot, injection, each in zip(slots, injections, _replicated(job_set), strict=True):
            template.inject(at(job_set, slot.path), injection)  # raises where the template has another value
            marked = replace(injection, labels={**injection.labels, self.uid_label: meta.uid(job)})
            found.append({"name": each["name"], "template": {"spec": {"template": _pod_patch(marked)}}})
        return _with_entry(job, found)

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Returns the write that suspends the job; when no Job is active, those that remove what a start wrote."""
        if not self.held(job):
            return [*map(insisted, self.difference(job, changed(job, *self.hold(job))))]
        made = [each for each in related if not is_runtime(each)]
        if self.active(job) or any(JOB_SET.active(each) for each in made):
            return []
        cleared = [*map(insisted, self.difference(job, _with_entry(job, [])))] if _given(job) else []
        return [*cleared, *(_deletion(each) for each in made if _marked(each))]


TRAIN_JOB: Final = TrainJob()


def _job_set(job: Raw, related: Sequence[Raw]) -> Raw | None:
    """The JobSet of a job, derived for one that runs in another cluster; None while there is none."""
    elsewhere = TRAIN_JOB.manager(job) == MULTIKUEUE_CONTROLLER
    found = next((each for each in related if is_runtime(each) == elsewhere), None)
    return derived(job, found) if found is not None and elsewhere else found


def _essential(pod_set: Raw) -> Raw:
    """A pod set with the fields of its containers that decide about quota."""
    spec = dict(pod_set["template"].get("spec") or {})
    for part in ("containers", "initContainers"):
        kept = ("name", "resources", "restartPolicy")
        spec[part] = [{key: each[key] for key in kept if key in each} for each in spec.get(part) or ()]
    return {**pod_set, "template": {**pod_set["template"], "spec": spec}}


def _statuses(job: Raw) -> list[Raw]:
    return list(at(job, ("status", "jobsStatus")) or ())


def _with_status(job: Raw, job_set: Raw) -> Raw:
    """The JobSet with what the TrainJob's status says about its Jobs."""
    return changed(job_set, ("status", "replicatedJobsStatus"), _statuses(job))


def _replicated(job_set: Raw) -> list[Raw]:
    return list(at(job_set, JOB_SET.pods_path) or ())


def _patches(job: Raw) -> list[Raw]:
    return list(at(job, TrainJob.pods_path) or ())


def _place(job: Raw) -> int | None:
    """Where the entry of this manager is."""
    return next((place for place, each in enumerate(_patches(job)) if each.get("manager") == MANAGER), None)


def _given(job: Raw) -> bool:
    """Whether that entry has values of a start."""
    place = _place(job)
    path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
    return place is not None and bool(at(_patches(job)[place], path))


def _entry(replicated: list[Raw]) -> Raw:
    spec: Raw = {"replicatedJobs": replicated} if replicated else {}
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": spec}}}


def _with_entry(job: Raw, replicated: list[Raw]) -> Raw:
    """The job with these values in the entry of its queue; other fields of the entry, as its time, are kept."""
    place = _place(job)
    if place is None:
        return changed(job, TrainJob.pods_path, [*_patches(job), _entry(replicated)])
    path = (*TrainJob.pods_path, place, "trainingRuntimeSpec", "template", "spec")
    kept = {name: value for name, value in (at(job, path) or {}).items() if name != "replicatedJobs"}
    return changed(job, path, {**kept, "replicatedJobs": replicated} if replicated else kept)


def _pod_patch(injection: Injection) -> Raw:
    metadata: Raw = {"labels": dict(injection.labels), "annotations": dict(injection.annotations)}
    spec: Raw = {
        "nodeSelector": dict(injection.node_selector),
        "tolerations": list(injection.tolerations),
        "schedulingGates": template.with_gates((), injection.gates),
    }
    parts = {"metadata": metadata, "spec": spec}
    return {part: {name: each for name, each in value.items() if each} for part, value in parts.items()}


def _marked(job_set: Raw) -> bool:
    """Whether a start has left its mark on the JobSet's templates."""
    return any(
        Annotation.WORKLOAD in meta.annotations(JOB_SET.template_of(job_set, slot) or {})
        for slot in JOB_SET.slots(job_set)
    )


def _deletion(job_set: Raw) -> Delete:
    return Delete(meta.uid(job_set), Target(JOB_SET.resource, key_of(job_set)))
