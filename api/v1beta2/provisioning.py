"""ProvisioningRequestConfig: how admission checks ask the cluster autoscaler for nodes."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import LABEL_KEY_PATTERN, SET, SUBDOMAIN_PATTERN, Int32, Model, list_map


class RetryStrategy(Model):
    """How a failed request is tried again."""

    backoff_base_seconds: Int32 | None = 60
    """The wait before the first new try; doubles each time."""
    backoff_limit_count: Int32 | None = 3
    """How often to try again."""
    backoff_max_seconds: Int32 | None = 1800
    """The longest wait."""


class NodeSelectorUpdate(Model):
    """A node selector taken from the answer to the request."""

    key: Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY_PATTERN)]
    """The node label."""
    value_from_provisioning_class_detail: Annotated[str, Field(min_length=1, max_length=32768)]
    """The detail of the answer that holds its value."""


class PodSetUpdates(Model):
    """The additions of the request's answer to the pods."""

    node_selector: (
        Annotated[list[NodeSelectorUpdate], Field(max_length=8, json_schema_extra=list_map("key"))] | None
    ) = None
    """Node selectors to add."""


class ProvisioningRequestConfigSpec(Model):
    """The desired state of a ProvisioningRequestConfig."""

    managed_resources: Annotated[list[str], Field(max_length=100, json_schema_extra=SET)] | None = None
    """Only pod sets that ask for one of these need a request; empty is all."""
    parameters: dict[str, Annotated[str, Field(max_length=255)]] | None = Field(default=None, max_length=100)
    """Parameters of the provisioning class."""
    pod_set_merge_policy: Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None = None
    """Which pod sets share one request."""
    pod_set_updates: PodSetUpdates | None = None
    """The additions to the pods."""
    provisioning_class_name: Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)]
    """The provisioning class."""
    retry_strategy: RetryStrategy | None = Field(
        default_factory=RetryStrategy,
        json_schema_extra={"default": {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}},
    )
    """How a failed request is tried again."""


class ProvisioningRequestConfig(Model):
    """How an admission check asks the cluster autoscaler for nodes."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: ProvisioningRequestConfigSpec | None = None
    """The desired state."""
