"""JobSet (jobset.x-k8s.io/v1alpha2): several groups of Jobs, one pod set for each, started and stopped together.

The JobSet controller creates the Jobs suspended while the JobSet is. When it resumes them it merges the JobSet's
templates into theirs, so that node selectors of an earlier start would stay: those Jobs are deleted before the next
start, and created again from the templates (seen with v0.12.0; ``restarts`` does not count it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, TEXT, fields, list_of
from api.names import Annotation
from api.objects import Resource
from api.structural import Form
from core.actions import Delete, Target, Write
from core.jobs import meta
from core.jobs.job_reader import Outcome, Slot, outcome
from core.jobs.job_starter import Right
from core.jobs.kind import JobKind
from core.jobs.kinds.job import BATCH_JOB, INDEX
from core.jobs.template import Injection
from core.jobs.topology_request import PodIndex
from core.model import Key, Raw

_RESTARTS_WITHOUT_LIMIT: Final = "RestartJobSetAndIgnoreMaxRestarts"


class JobSet(JobKind):
    """The ``jobset.x-k8s.io/jobset`` framework."""

    framework = "jobset.x-k8s.io/jobset"
    counted = "one for each replicated Job: its replicas times the pods of one"
    makes = ("Job",)
    resource = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
    pods_label = "jobset.sigs.k8s.io/jobset-name"
    pods_path = ("spec", "replicatedJobs")
    related = (BATCH_JOB.resource,)
    rights = (Right(BATCH_JOB.resource, "delete"),)
    fixed_templates = True
    managed_by = ("spec", "managedBy")
    own_controller = "jobset.sigs.k8s.io/jobset-controller"
    pods_field = "replicas times parallelism"
    uid_label = "jobset.sigs.k8s.io/jobset-uid"
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                managedBy=TEXT,
                replicatedJobs=list_of(
                    fields(
                        name=TEXT,
                        replicas=INTEGER,
                        template=fields(
                            spec=fields(parallelism=INTEGER, completions=INTEGER, template=POD_TEMPLATE),
                        ),
                    )
                ),
            ),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set for each replicated Job: the pods of all its replicas that run at the same time."""
        return [
            Slot(
                str(each.get("name") or "").lower(),
                _replicas(each) * _pods_of_one(each),
                (*self.pods_path, index, "template", "spec", "template"),
                called="replicated Job {}",
                index=PodIndex(INDEX, "jobset.sigs.k8s.io/job-index", _replicas(each)),
            )
            for index, each in enumerate(_replicated_jobs(job))
        ]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether any of its Jobs has pods."""
        return any(each.get("active") for each in _statuses(job))

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Completed or Failed, with the JobSet controller's message."""
        return outcome(job, success="Completed", failure="Failed")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether all its Jobs are ready or have succeeded; its status counts Jobs, not pods."""
        ready = sum(each.get("ready", 0) + each.get("succeeded", 0) for each in _statuses(job))
        return bool(ready == sum(map(_replicas, _replicated_jobs(job))))

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """The pods of Jobs that have succeeded; none while a failure may start all Jobs again: a place that was given
        up is not taken back.
        """
        if _may_restart(job):
            return {}
        succeeded = {each["name"]: each.get("succeeded", 0) for each in _statuses(job)}
        return {
            slot.name: succeeded[each["name"]] * _pods_of_one(each)
            for slot, each in zip(self.slots(job), _replicated_jobs(job), strict=True)
            if 0 < succeeded.get(each["name"], 0) <= _replicas(each)
        }

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Unsuspend it with the injections; Jobs that an earlier start has left its mark on are deleted first."""
        left = (each for each in related if Annotation.WORKLOAD in meta.annotations(each["spec"]["template"]))
        deletions = [
            Delete(
                each["metadata"]["uid"],
                Target(BATCH_JOB.resource, Key(each["metadata"]["namespace"], each["metadata"]["name"])),
            )
            for each in left
        ]
        return [*deletions, *super().start(job, injections)]


JOB_SET: Final = JobSet()


def _replicated_jobs(job: Raw) -> list[Raw]:
    return list((job.get("spec") or {}).get("replicatedJobs") or ())


def _statuses(job: Raw) -> list[Raw]:
    return list((job.get("status") or {}).get("replicatedJobsStatus") or ())


def _replicas(replicated_job: Raw) -> int:
    found = replicated_job.get("replicas")
    return 1 if found is None else int(found)


def _may_restart(job: Raw) -> bool:
    """Whether its failure policy may create all Jobs again, also those that have succeeded."""
    policy = (job.get("spec") or {}).get("failurePolicy") or {}
    if any(each.get("action") == _RESTARTS_WITHOUT_LIMIT for each in policy.get("rules") or ()):
        return True
    counted = (job.get("status") or {}).get("restartsCountTowardsMax") or 0
    return bool(counted < (policy.get("maxRestarts") or 0))


def _pods_of_one(replicated_job: Raw) -> int:
    """Returns how many pods of one replica run at the same time."""
    spec = (replicated_job.get("template") or {}).get("spec") or {}
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    pods: int = 1 if parallelism is None else parallelism
    return pods if completions is None else min(pods, completions)
