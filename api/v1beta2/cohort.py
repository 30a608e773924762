"""Cohort: a node of the tree in which ClusterQueues lend each other quota."""

from typing import Any

from api.v1beta2.base import FairSharing, FairSharingStatus, Model, Reference
from api.v1beta2.quotas import ResourceGroups


class CohortSpec(Model):
    """The desired state of a Cohort."""

    fair_sharing: FairSharing | None = None
    """How this cohort competes under its parent."""
    parent_name: Reference | None = None
    """The parent cohort; absent is a root. A cycle stops all its members."""
    resource_groups: ResourceGroups | None = None
    """Quota that the members share, in addition to their own; limits need a parent."""


class CohortStatus(Model):
    """The observed state of a Cohort."""

    fair_sharing: FairSharingStatus | None = None
    """Fair sharing as observed."""


class Cohort(Model):
    """A group of ClusterQueues and cohorts that lend each other quota. A group without own quota needs no object."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: CohortSpec | None = None
    """The desired state."""
    status: CohortStatus | None = None
    """The observed state."""
