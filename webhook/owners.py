"""Which owners take care of their jobs' queueing themselves: the kinds of the enabled integrations.

A Job made by a queued JobSet must not be queued a second time. Source: Kueue's job framework (a job with a managed
ancestor is neither suspended nor given a default queue).
"""

from __future__ import annotations

from typing import Final

from core.jobs import meta
from core.model import Key, Raw
from webhook.settings import Context

KINDS: Final = {
    "batch/job": ("batch", "Job"),
    "kubeflow.org/mpijob": ("kubeflow.org", "MPIJob"),
    "kubeflow.org/pytorchjob": ("kubeflow.org", "PyTorchJob"),
    "kubeflow.org/tfjob": ("kubeflow.org", "TFJob"),
    "kubeflow.org/xgboostjob": ("kubeflow.org", "XGBoostJob"),
    "kubeflow.org/paddlejob": ("kubeflow.org", "PaddleJob"),
    "kubeflow.org/jaxjob": ("kubeflow.org", "JAXJob"),
    "ray.io/rayjob": ("ray.io", "RayJob"),
    "ray.io/raycluster": ("ray.io", "RayCluster"),
    "ray.io/rayservice": ("ray.io", "RayService"),
    "jobset.x-k8s.io/jobset": ("jobset.x-k8s.io", "JobSet"),
    "trainer.kubeflow.org/trainjob": ("trainer.kubeflow.org", "TrainJob"),
    "workload.codeflare.dev/appwrapper": ("workload.codeflare.dev", "AppWrapper"),
    "sparkoperator.k8s.io/sparkapplication": ("sparkoperator.k8s.io", "SparkApplication"),
    "deployment": ("apps", "Deployment"),
    "statefulset": ("apps", "StatefulSet"),
    "leaderworkerset": ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
}
"""Group and kind of all that may be queued, by the framework that the operator enables."""


def owned_by_managed_kind(job: Raw, context: Context) -> bool:
    """Whether a kind that we manage controls the job."""
    return _owner(job, context) is not None


def queued_by_owner(job: Raw, namespace: str, context: Context) -> bool:
    """Whether the job's owner is queued in its place.

    An owner of a managed kind that no cache knows (yet) counts as queued: to suspend the child of a running JobSet
    would stop it for good, to let it pass costs nothing where the owner is suspended itself.
    """
    owner = _owner(job, context)
    if owner is None:
        return False
    if context.settings.manage_jobs_without_queue_name:
        return True
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    named = context.lookup.queue_of(group, str(owner.get("kind")), Key(namespace, str(owner.get("name"))))
    if named is None:
        # The Jobs there are we know: one that is not there queues nothing for anybody.
        return not (context.lookup.synced and KINDS["batch/job"] == (group, owner.get("kind")))
    return named != ""


def _owner(job: Raw, context: Context) -> Raw | None:
    owner = meta.controller(job)
    if owner is None:
        return None
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    of_kind = (group, str(owner.get("kind") or ""))
    managed = any(KINDS.get(framework) == of_kind for framework in context.settings.frameworks)
    return owner if managed else None
