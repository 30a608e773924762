"""RayService (ray.io/v1): a cluster that serves requests, and never finishes.

KubeRay goes on reporting a service as Ready when its cluster is suspended and has no pods left. So whether it has pods
is asked of its RayClusters, which are watched (seen with v1.6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.builtin import BOOLEAN, METADATA, TEXT, fields
from api.objects import Resource
from api.structural import Form
from core.jobs import meta
from core.jobs.fields import at
from core.jobs.job_reader import Outcome, holds
from core.jobs.kinds.raycluster import CLUSTER, RunsCluster, active, fault_tolerant, state
from core.model import Raw


class RayService(RunsCluster):
    """The ``ray.io/rayservice`` framework."""

    framework = "ray.io/rayservice"
    counted = "`head`; each worker group: its replicas times hosts"
    makes = ("RayCluster",)
    resource = Resource("ray.io", "v1", "rayservices", "RayService")
    pods_path = ("spec", "rayClusterConfig")
    cluster_path = ("status", "activeServiceStatus", "rayClusterName")
    suspend_path = ("spec", "rayClusterConfig", "suspend")
    forwarded = (("spec", "serveConfigV2"),)
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(managedBy=TEXT, rayClusterConfig=fields(suspend=BOOLEAN, **CLUSTER)),
        )
    )

    def invalid(self, job: Raw) -> bool:
        """Whether KubeRay has found it invalid."""
        return any(
            each["type"] == "Ready" and each.get("reason") == "ValidationFailed"
            for each in at(job, ("status", "conditions")) or ()
        )

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether one of its clusters may have pods."""
        return any(active(each) for each in related)

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """A service runs until it is deleted."""
        return None

    def awaits_cleanup(self, job: Raw) -> bool:
        """Whether KubeRay runs a Job that cleans up Redis before the deleted service is gone: below a service without
        quota that Job would never start.
        """
        return meta.deleting(job) and fault_tolerant(job, at(job, self.pods_path) or {})

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether KubeRay reports it as ready, and all of its clusters."""
        return holds(job, "Ready") and all(state(each) == "ready" for each in related)


RAY_SERVICE: Final = RayService()
