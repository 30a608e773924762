"""Kubeflow's training jobs (kubeflow.org): one pod set for each type of replica, started and stopped as a whole.

Five kinds of the training operator v1 are here; MPIJob, which has an operator of its own and the same form, extends
``KubeflowJob`` in its file. A failed job goes on counting active pods in its status, so it is asked whether it has
finished first. The operator accepts changes of templates while a job runs and leaves its pods as they are: one write
stops a job and restores its templates (seen with v1.9.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, TEXT, fields
from api.errors import FieldError, not_supported
from api.feature_gates import Enabled
from api.names import TrainingOperatorLabel
from api.objects import Resource
from api.structural import Form
from core.jobs.fields import at, dotted
from core.jobs.job_reader import Outcome, Slot, count, holds, outcome
from core.jobs.kind import JobKind
from core.jobs.topology_request import PodIndex
from core.model import Raw


def form_of(replica_specs: str, types: Sequence[str], **more: Raw) -> Form:
    """Returns the types of the fields that are read of a job with these types of replicas."""
    policy = fields(suspend=BOOLEAN, managedBy=TEXT, schedulingPolicy=fields(priorityClass=TEXT))
    replicas = fields(**dict.fromkeys(types, fields(replicas=INTEGER, template=POD_TEMPLATE)))
    return Form(fields(metadata=METADATA, spec=fields(runPolicy=policy, **{replica_specs: replicas}, **more)))


class KubeflowJob(JobKind):
    """A job with types of replicas; ``pods_path`` is the field that holds them."""

    pods_label = "training.kubeflow.org/job-name"
    suspend_path = ("spec", "runPolicy", "suspend")
    pods_field = "replicas"
    topology_groups = False
    managed_by = ("spec", "runPolicy", "managedBy")
    own_controller = "kubeflow.org/training-operator"
    types: ClassVar[tuple[str, ...]]
    """The types of replicas, in the order of their pod sets."""

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set for each type of replica that the job has."""
        given = at(job, self.pods_path) or {}
        return [
            Slot(
                each.lower(),
                count(given[each]),
                (*self.pods_path, each, "template"),
                called=f"replica type {each}",
                field=f"replicas of {each}",
                index=PodIndex(TrainingOperatorLabel.REPLICA_INDEX),
            )
            for each in self.types
            if given.get(each) is not None
        ]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether replicas of any type run."""
        return any(each.get("active") for each in (at(job, ("status", "replicaStatuses")) or {}).values())

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Succeeded or Failed, with the operator's message."""
        return outcome(job, success="Succeeded", failure="Failed")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether the operator reports the job as running."""
        return holds(job, "Running")

    def priority_class(self, job: Raw) -> str:
        """The PriorityClass of the job's scheduling policy."""
        return str(at(job, ("spec", "runPolicy", "schedulingPolicy", "priorityClass")) or "")

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Refuses types of replicas that are not counted: the training operator runs pods of any type, and takes names
        in other letters for its own (seen with v1.9.4).
        """
        return self._uncounted(job) + super().validate_create(job, enabled)

    def validate_update(self, old: Raw, new: Raw, enabled: Enabled) -> list[FieldError]:
        """As for a new one; types that it had before are not judged again."""
        before = self._uncounted(old)
        return [each for each in self._uncounted(new) if each not in before] + super().validate_create(new, enabled)

    def _uncounted(self, job: Raw) -> list[FieldError]:
        given = at(job, self.pods_path) or {}
        return [not_supported(dotted(self.pods_path), each, self.types) for each in given if each not in self.types]

    def metadata_of(self, slot: Slot) -> str:
        """Types of replicas are keys of a map, which messages have in brackets."""
        *_, kind, last = slot.path
        return f"{dotted(self.pods_path)}[{kind}].{last}.metadata"


_MASTER_AND_WORKERS: Final = ("Master", "Worker")


class PyTorchJob(KubeflowJob):
    """The ``kubeflow.org/pytorchjob`` framework."""

    framework = "kubeflow.org/pytorchjob"
    counted = "`master` and `worker`: replicas"
    resource = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
    pods_path = ("spec", "pytorchReplicaSpecs")
    types = _MASTER_AND_WORKERS
    form = form_of("pytorchReplicaSpecs", types)


class TFJob(KubeflowJob):
    """The ``kubeflow.org/tfjob`` framework."""

    framework = "kubeflow.org/tfjob"
    counted = "`chief`, `master`, `ps`, `worker`, `evaluator`: replicas"
    resource = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
    pods_path = ("spec", "tfReplicaSpecs")
    types = ("Chief", "Master", "PS", "Worker", "Evaluator")
    form = form_of("tfReplicaSpecs", types)


class XGBoostJob(KubeflowJob):
    """The ``kubeflow.org/xgboostjob`` framework."""

    framework = "kubeflow.org/xgboostjob"
    counted = "`master` and `worker`: replicas"
    resource = Resource("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob")
    pods_path = ("spec", "xgbReplicaSpecs")
    types = _MASTER_AND_WORKERS
    form = form_of("xgbReplicaSpecs", types)


class PaddleJob(KubeflowJob):
    """The ``kubeflow.org/paddlejob`` framework."""

    framework = "kubeflow.org/paddlejob"
    counted = "`master` and `worker`: replicas"
    resource = Resource("kubeflow.org", "v1", "paddlejobs", "PaddleJob")
    pods_path = ("spec", "paddleReplicaSpecs")
    types = _MASTER_AND_WORKERS
    form = form_of("paddleReplicaSpecs", types)


class JAXJob(KubeflowJob):
    """The ``kubeflow.org/jaxjob`` framework."""

    framework = "kubeflow.org/jaxjob"
    counted = "`worker`: replicas"
    resource = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob")
    pods_path = ("spec", "jaxReplicaSpecs")
    types = ("Worker",)
    prebuilt = False
    form = form_of("jaxReplicaSpecs", types)


PY_TORCH_JOB: Final = PyTorchJob()
TF_JOB: Final = TFJob()
XG_BOOST_JOB: Final = XGBoostJob()
PADDLE_JOB: Final = PaddleJob()
JAX_JOB: Final = JAXJob()
