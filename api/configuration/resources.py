"""How requests are counted: the section `resources`."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from api import quantity
from api.configuration.base import Section


def _quantity(value: Any) -> str:
    try:
        return quantity.canonical(value)
    except ValueError:
        raise ValueError('must be a quantity such as "500m" or "1Gi"') from None


Quantity = Annotated[str, BeforeValidator(_quantity)]
"""A quantity in its canonical form."""


class Transformation(Section):
    """Counts one resource as others."""

    input: str
    """The resource that is asked for."""
    strategy: Literal["Retain", "Replace"] = "Retain"
    """Whether it is still counted itself."""
    multiply_by: str = ""
    """Another resource of the same request whose amount multiplies the outputs."""
    outputs: dict[str, Quantity] = Field(default_factory=dict)
    """What one unit counts as."""


class CelSelector(Section):
    """An expression that chooses devices."""

    expression: str = ""


class DeviceSelector(Section):
    """Which devices of a driver are counted."""

    cel: CelSelector | None = None


class DeviceAmount(Section):
    """A counter that devices consume, or a capacity that they have."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = Field(default_factory=DeviceSelector)


class DeviceSource(Section):
    """Where the amount of a device class comes from."""

    counter: DeviceAmount | None = None
    capacity: DeviceAmount | None = None


class DeviceClassMapping(Section):
    """Counts devices of some classes as a resource."""

    name: str
    device_class_names: Annotated[list[str], Field(min_length=1, max_length=8)]
    sources: list[DeviceSource] = Field(default_factory=list)


class Resources(Section):
    """How requests are counted."""

    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """Whether a resource that a ClusterQueue does not cover keeps a workload out or does not count."""
    exclude_resource_prefixes: list[str] = Field(default_factory=list)
    transformations: list[Transformation] = Field(default_factory=list)
    device_class_mappings: Annotated[list[DeviceClassMapping], Field(max_length=16)] = Field(default_factory=list)
