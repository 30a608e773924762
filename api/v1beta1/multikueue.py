"""MultiKueueCluster as v1beta1 spells it: the kubeconfig directly in the spec. MultiKueueConfig without quotas."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2 import multikueue
from api.v1beta2.base import SET, Model


class KubeConfig(Model):
    """Where the kubeconfig of a worker cluster is; an empty location is none."""

    location: str
    """The Secret in Seiretsu's namespace (its key is kubeconfig), or the path."""
    location_type: Literal["Secret", "Path"] = "Secret"
    """Whether the location is a Secret or a path."""


class MultiKueueClusterSpec(Model):
    """The desired state of a MultiKueueCluster."""

    cluster_profile_ref: multikueue.ClusterProfileReference | None = None
    """The cluster, by the cluster inventory."""
    kube_config: KubeConfig
    """The cluster, by a kubeconfig."""


class MultiKueueCluster(Model):
    """A worker cluster that workloads may be sent to."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: MultiKueueClusterSpec | None = None
    """The desired state."""
    status: multikueue.MultiKueueClusterStatus | None = None
    """The observed state."""


class MultiKueueConfigSpec(Model):
    """The desired state of a MultiKueueConfig."""

    clusters: Annotated[
        list[Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=20, json_schema_extra=SET)
    ]
    """MultiKueueClusters, in order of preference."""


class MultiKueueConfig(Model):
    """Which worker clusters an admission check sends workloads to."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: MultiKueueConfigSpec | None = None
    """The desired state."""
