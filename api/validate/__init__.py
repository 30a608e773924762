"""Whether an object of Seiretsu's kinds may be created or updated: everything that Kueue's webhooks and CEL rules
refuse, reported together.

Pure functions on raw objects. `create` and `update` check the form first (`api.structural`) and the rules of the kind
only if the form is right, so they answer for any input. Behind the API server, `create_rules` and `update_rules` skip
the form, which it has checked. Some rules apply only if a feature gate is on, as in Kueue: with default gates Seiretsu
accepts what Kueue accepts.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from api import structural
from api.errors import FieldError, not_supported
from api.feature_gates import Gates
from api.names import Kind
from api.objects import Raw
from api.validate import (
    admission_check,
    cluster_queue,
    cohort,
    local_queue,
    multikueue,
    resource_flavor,
    topology,
    workload,
)

if TYPE_CHECKING:
    from api.kinds import KindSpec
    from api.schema import Schema


class Rules(Protocol):
    """The module of a kind."""

    def validate_create(self, obj: Raw) -> list[FieldError]:
        """Errors of a new object."""

    def validate_update(self, old: Raw, new: Raw) -> list[FieldError]:
        """Errors of a changed one."""


class GatedRules(Protocol):
    """The module of a kind with rules that depend on feature gates."""

    def validate_create(self, obj: Raw, gates: Gates) -> list[FieldError]:
        """Errors of a new object."""

    def validate_update(self, old: Raw, new: Raw, gates: Gates) -> list[FieldError]:
        """Errors of a changed one."""


_RULES: Final[dict[str, Rules]] = {
    Kind.ADMISSION_CHECK: admission_check,
    Kind.COHORT: cohort,
    Kind.LOCAL_QUEUE: local_queue,
    Kind.MULTIKUEUE_CLUSTER: multikueue.CLUSTER,
    Kind.MULTIKUEUE_CONFIG: multikueue.CONFIG,
    Kind.RESOURCE_FLAVOR: resource_flavor,
    Kind.TOPOLOGY: topology,
}
_GATED_RULES: Final[dict[str, GatedRules]] = {Kind.CLUSTER_QUEUE: cluster_queue, Kind.WORKLOAD: workload}
_AS_SHIPPED: Final[Gates] = {}


def create(obj: Raw, gates: Gates = _AS_SHIPPED) -> list[FieldError]:
    """Returns the errors of a new object of any of Seiretsu's kinds, in the stored version."""
    schema, errors = _form(obj)
    return errors or create_rules(structural.defaulted(schema, obj), gates)


def update(old: Raw, new: Raw, gates: Gates = _AS_SHIPPED) -> list[FieldError]:
    """Errors of a change from `old`, which the API server holds, to `new`."""
    schema, errors = _form(new)
    return errors or update_rules(structural.defaulted(schema, old), structural.defaulted(schema, new), gates)


def create_rules(obj: Raw, gates: Gates = _AS_SHIPPED) -> list[FieldError]:
    """Returns the errors of the rules beyond the schema for a new object whose form is right."""
    if gated := _GATED_RULES.get(obj["kind"]):
        return gated.validate_create(obj, gates)
    rules = _RULES.get(obj["kind"])
    return rules.validate_create(obj) if rules else []


def update_rules(old: Raw, new: Raw, gates: Gates = _AS_SHIPPED) -> list[FieldError]:
    """Returns the errors of the rules beyond the schema for a change between objects whose form is right."""
    if gated := _GATED_RULES.get(new["kind"]):
        return gated.validate_update(old, new, gates)
    rules = _RULES.get(new["kind"])
    return rules.validate_update(old, new) if rules else []


def form(obj: Raw) -> list[FieldError]:
    """Returns the errors of the schema alone for an object in the stored version."""
    return _form(obj)[1]


def schema_of(kind: str) -> "Schema | None":
    """The schema of a kind's stored version."""
    return _schemas().get(kind)


def prepare() -> None:
    """Creates all schemas now, because the first client that needs one would wait for it (80 ms)."""
    _schemas()


def _form(obj: Raw) -> "tuple[Schema, list[FieldError]]":
    kind = obj.get("kind")
    schema = _schemas().get(kind) if isinstance(kind, str) else None
    if schema is None:
        return {}, [not_supported("kind", kind, sorted(_schemas()))]
    return schema, structural.violations(schema, structural.defaulted(schema, obj))


@lru_cache(maxsize=1)
def _schemas() -> "dict[str, Schema]":
    # Imported here: who needs the rules alone (core does, for some texts) imports no pydantic.
    from api.kinds import KINDS
    from api.schema import structural as structural_schema

    def stored(kind: "KindSpec") -> "Schema":
        return structural_schema(kind.stored.model)

    return {kind.kind: stored(kind) for kind in KINDS}
