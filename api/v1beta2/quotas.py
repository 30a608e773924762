"""Resource groups, their quotas and the usage of them: shared by ClusterQueue, Cohort and LocalQueue."""

from typing import Annotated

from pydantic import Field

from api.v1beta2.base import ATOMIC, Model, Quantity, Reference, list_map, ruled


class ResourceQuota(Model):
    """The quota of one resource in one flavor."""

    borrowing_limit: Quantity | None = None
    """The most that may be borrowed from the cohort beyond the nominal quota; absent is no limit."""
    lending_limit: Quantity | None = None
    """The most of unused nominal quota that others in the cohort may borrow; absent is no limit."""
    name: str
    """The resource, such as cpu, memory or example.com/gpu; `pods` counts pods."""
    nominal_quota: Quantity
    """How much is there for this queue at any time."""


class FlavorQuotas(Model):
    """The quotas of all covered resources in one flavor."""

    name: Reference
    """The ResourceFlavor."""
    resources: Annotated[list[ResourceQuota], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))]
    """A quota for each covered resource, in the order of coveredResources."""


class ResourceGroup(Model):
    """Resources that are assigned the same flavor, and the flavors to try in order."""

    model_config = ruled(
        (
            "flavors must have the same number of resources as the coveredResources",
            "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
        )
    )
    covered_resources: Annotated[list[str], Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)]
    """The resources of the group; a resource belongs to one group only."""
    flavors: Annotated[list[FlavorQuotas], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))]
    """The flavors, in the order in which they are tried."""


ResourceGroups = Annotated[list[ResourceGroup], Field(max_length=16, json_schema_extra=ATOMIC)]


class ResourceUsage(Model):
    """Usage of one resource in one flavor by a ClusterQueue."""

    borrowed: Quantity | None = None
    """How much of the total is above nominal quota."""
    name: str
    """The resource."""
    total: Quantity | None = None
    """How much is used, borrowed included."""


class FlavorUsage(Model):
    """Usage in one flavor by a ClusterQueue."""

    name: Reference
    """The ResourceFlavor."""
    resources: Annotated[list[ResourceUsage], Field(max_length=64, json_schema_extra=list_map("name"))]
    """Usage by resource."""


FlavorsUsage = Annotated[list[FlavorUsage], Field(max_length=64, json_schema_extra=ATOMIC)]
"""Written as a whole, by Seiretsu alone: without an entry in ``managedFields`` for each flavor and resource."""


class LocalQueueResourceUsage(Model):
    """Usage of one resource in one flavor by a LocalQueue."""

    name: str
    """The resource."""
    total: Quantity | None = None
    """How much is used."""


class LocalQueueFlavorUsage(Model):
    """Usage in one flavor by a LocalQueue."""

    name: Reference
    """The ResourceFlavor."""
    resources: Annotated[list[LocalQueueResourceUsage], Field(max_length=64, json_schema_extra=list_map("name"))]
    """Usage by resource."""


LocalQueueFlavorsUsage = Annotated[list[LocalQueueFlavorUsage], Field(max_length=64, json_schema_extra=ATOMIC)]
