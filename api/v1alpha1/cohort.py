"""Cohort as 0.9 served it: `parent`."""

from typing import Any

from api.v1beta2.base import Model, Reference
from api.v1beta2.quotas import ResourceGroups


class CohortSpec(Model):
    """The desired state of a Cohort."""

    parent: Reference | None = None
    """The parent cohort; absent is a root."""
    resource_groups: ResourceGroups | None = None
    """Quota that the members share, in addition to their own."""


class Cohort(Model):
    """A group of ClusterQueues and cohorts that lend each other quota."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: CohortSpec | None = None
    """The desired state."""
