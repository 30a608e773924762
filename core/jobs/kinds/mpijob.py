"""MPIJob (kubeflow.org/v2beta1) of the MPI operator: a launcher and its workers.

The operator creates the launcher's Job suspended while the MPIJob is, and replaces its node selector and tolerations
when it resumes it (seen with v0.8.2).
"""

from __future__ import annotations

from typing import Final

from api.builtin import BOOLEAN
from api.feature_gates import Enabled
from api.names import Annotation
from api.objects import Resource
from core.jobs import meta
from core.jobs.fields import Setting, at
from core.jobs.kinds.kubeflow import KubeflowJob, form_of
from core.model import Raw


class MPIJob(KubeflowJob):
    """The ``kubeflow.org/mpijob`` framework."""

    framework = "kubeflow.org/mpijob"
    counted = "`launcher` and `worker`: replicas"
    makes = ("Job",)
    resource = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
    own_controller = "kubeflow.org/mpi-operator"
    pods_path = ("spec", "mpiReplicaSpecs")
    types = ("Launcher", "Worker")
    topology_groups = True
    form = form_of("mpiReplicaSpecs", types, runLauncherAsWorker=BOOLEAN)

    def defaults(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """The index of the first worker, if the launcher is a worker too: topologies are assigned by index.

        A launcher in a group of pod sets gets its place with that group.
        """
        launcher, worker = (at(job, (*self.pods_path, each)) for each in self.types)
        both = launcher is not None and worker is not None and at(job, ("spec", "runLauncherAsWorker"))
        if not enabled("TopologyAwareScheduling") or not both:
            return []
        if Annotation.POD_SET_GROUP_NAME in meta.annotations(launcher.get("template") or {}):
            return []
        path = (*self.pods_path, "Worker", "template", "metadata", "annotations", Annotation.POD_INDEX_OFFSET)
        return [Setting(path, "1")]


MPI_JOB: Final = MPIJob()
