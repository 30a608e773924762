"""WorkloadPriorityClass: the priority of workloads in queues, apart from that of their pods."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import Int32, Model


class WorkloadPriorityClass(Model):
    """A priority that jobs choose with the label kueue.x-k8s.io/priority-class."""

    api_version: str | None = None
    description: Annotated[str, Field(max_length=2048)] | None = None
    """When to use the class."""
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    value: Int32
    """The priority: a higher value is first."""
