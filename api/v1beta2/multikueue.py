"""MultiKueueConfig and MultiKueueCluster: the worker clusters workloads may be sent to."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import ATOMIC, Conditions, Model, ruled, rules

_UNIQUE = rules(("must be unique", "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0"))


class MultiKueueConfigSpec(Model):
    """The desired state of a MultiKueueConfig."""

    clusters: Annotated[
        list[Annotated[str, Field(max_length=256)]],
        Field(min_length=1, max_length=20, json_schema_extra=ATOMIC | _UNIQUE),
    ]
    """MultiKueueClusters, in order of preference."""
    quota_management: Literal["Manual", "Automated"] | None = None
    """Whether the quota here follows that of the worker clusters."""


class MultiKueueConfig(Model):
    """Which worker clusters an admission check sends workloads to."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: MultiKueueConfigSpec | None = None
    """The desired state."""


class KubeConfig(Model):
    """Where the kubeconfig of a worker cluster is."""

    location: Annotated[str, Field(min_length=1, max_length=256)]
    """The Secret in Seiretsu's namespace (its key is kubeconfig), or the path."""
    location_type: Literal["Secret", "Path"] = "Secret"
    """Whether the location is a Secret or a path."""


class ClusterProfileReference(Model):
    """A ClusterProfile of the cluster inventory."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Its name."""


class ClusterSource(Model):
    """How to reach a worker cluster."""

    model_config = ruled(
        (
            "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
            "[has(self.kubeConfig),has(self.clusterProfileRef)].filter(x,x==true).size() == 1",
        )
    )
    cluster_profile_ref: ClusterProfileReference | None = None
    """By the cluster inventory."""
    kube_config: KubeConfig | None = None
    """By a kubeconfig."""


class MultiKueueClusterSpec(Model):
    """The desired state of a MultiKueueCluster."""

    cluster_source: ClusterSource
    """How to reach the cluster."""


class MultiKueueClusterStatus(Model):
    """The observed state of a MultiKueueCluster."""

    conditions: Conditions | None = None
    """Active reports whether the cluster is connected."""


class MultiKueueCluster(Model):
    """A worker cluster that workloads may be sent to."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: MultiKueueClusterSpec | None = None
    """The desired state."""
    status: MultiKueueClusterStatus | None = None
    """The observed state."""
