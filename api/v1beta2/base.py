"""The building blocks of Seiretsu's kinds: the model base, names, quantities, conditions, selectors, taints,
tolerations.
"""

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from api import quantity

SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY_PATTERN = quantity.PATTERN

Extra = dict[str, Any]
"""Schema keywords that pydantic does not know, merged into the field's schema."""


class Model(BaseModel):
    """A part of the API: camelCase outside, unknown fields are errors, attribute docstrings are the descriptions."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the schema with descriptions. They are read only here: pydantic's own option for that would read the
        source of every class at every start, a third of the time of all imports.
        """
        found = handler(core)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in described(cls).items():
            properties[cls.model_fields[name].alias or name].setdefault("description", text)
        return found


def described(model: type[Model]) -> dict[str, str]:
    """Returns the docstrings of the attributes of a model and of those that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, Model):
            found |= _docstrings(each.__module__).get(each.__qualname__, {})
    return found


@functools.cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of the attributes of all classes of a module, by the name of the class."""
    classes = ast.parse(inspect.getsource(sys.modules[module])).body
    return {each.name: dict(_documented(each)) for each in classes if isinstance(each, ast.ClassDef)}


def _documented(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for attribute, text in itertools.pairwise(definition.body):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, inspect.cleandoc(words)


def list_map(*keys: str) -> Extra:
    """A list whose elements are identified by `keys`: merged by them, without duplicates."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def rules(*pairs: tuple[str, str]) -> Extra:
    """CEL rules, each as message and expression."""
    return {"x-kubernetes-validations": [{"message": message, "rule": rule} for message, rule in pairs]}


def ruled(*pairs: tuple[str, str]) -> ConfigDict:
    """The model configuration that puts CEL rules on a whole object."""
    return ConfigDict(json_schema_extra=rules(*pairs))


ATOMIC: Extra = {"x-kubernetes-list-type": "atomic"}
SET: Extra = {"x-kubernetes-list-type": "set"}
ATOMIC_MAP: Extra = {"x-kubernetes-map-type": "atomic"}
"""An object that is written as a whole: ``managedFields`` has one entry for it instead of one for each of its fields.
They are half of a small object, and the API server reads and writes them several times in each write.
"""
EMPTY_DEFAULT: Extra = {"default": {}}
"""The object is created, with the defaults of its own fields."""
KEEP_UNKNOWN: Extra = {"x-kubernetes-preserve-unknown-fields": True}
IMMUTABLE = ("field is immutable: delete the object and create it again", "self == oldSelf")


def _checked_quantity(value: int | str) -> int | str:
    quantity.exact(value)
    return value


Quantity = Annotated[
    int | str,
    AfterValidator(_checked_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
Positive = Annotated[int, Field(ge=1, json_schema_extra={"format": "int32"})]
Reference = Annotated[str, Field(max_length=253, pattern=SUBDOMAIN_PATTERN)]
"""The name of a cluster-wide object: flavor, ClusterQueue, cohort, class."""
PodSetName = Annotated[str, Field(max_length=63, pattern=LABEL_PATTERN)]
AdmissionCheckName = Annotated[str, Field(min_length=1, max_length=316)]
Time = datetime
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class FairSharing(Model):
    """How a queue or cohort competes for unused resources."""

    weight: Quantity | None = Field(default=1)
    """Comparative advantage: the share of borrowed resources is divided by it. Zero yields to everybody."""


class FairSharingStatus(Model):
    """Fair sharing as observed."""

    weighted_share: Int64
    """The largest ratio of borrowed to lendable resources, in thousandths, divided by the weight."""


class Condition(Model):
    """One aspect of the state of an object (metav1.Condition)."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    last_transition_time: Time
    """When the status last changed."""
    message: Annotated[str, Field(max_length=32768)]
    """For people."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = None
    """The metadata.generation this was set from."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """For programs, in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    type: Annotated[str, Field(max_length=316, pattern=LABEL_KEY_PATTERN)]
    """Which aspect, in CamelCase."""


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: str
    """The label key."""
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: Annotated[list[str], Field(json_schema_extra=ATOMIC)] | None = None
    """The values for In and NotIn."""


class LabelSelector(Model):
    """Selects objects by their labels; an empty one selects all."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    match_expressions: Annotated[list[LabelSelectorRequirement], Field(json_schema_extra=ATOMIC)] | None = None
    """Expressions, all of which must be true."""
    match_labels: dict[str, str] | None = None
    """Labels that must be there with these values."""


class Taint(Model):
    """A taint that nodes of a flavor carry."""

    effect: str
    """NoSchedule, PreferNoSchedule or NoExecute."""
    key: str
    """The taint key."""
    time_added: Time | None = None
    """When the taint was added; not used here."""
    value: str | None = None
    """The taint value."""


class Toleration(Model):
    """A toleration of a taint."""

    effect: str | None = None
    """The effect to tolerate; empty tolerates all."""
    key: str | None = None
    """The taint key; empty with operator Exists tolerates everything."""
    operator: str | None = None
    """Equal (default) or Exists."""
    toleration_seconds: Int64 | None = None
    """How long a NoExecute taint is tolerated."""
    value: str | None = None
    """The taint value for Equal."""


_EFFECT_RULE = (
    "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    "self.all(x, !has(x.effect) || x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
)
TAINT_RULES = rules(
    (_EFFECT_RULE[0], "self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])"),
)
TOLERATION_RULES = rules(
    (
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        "self.all(x, !has(x.key) ? x.operator == 'Exists' : true)",
    ),
    (
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        "self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)",
    ),
    (
        "supported toleration values: 'Equal'(default), 'Exists'",
        "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
    ),
    (
        "a value must be empty when 'operator' is 'Exists'",
        "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)",
    ),
    _EFFECT_RULE,
)
