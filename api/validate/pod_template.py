"""The form of those parts of a pod template that decide about quota and flavors.

The CRD leaves the template open (`api.v1beta2.workload`), as the API server has checked it where a job was made. A
Workload that somebody makes without a job comes unchecked: what Kueue's CRD would refuse of these parts is refused
here, in the API server's words. What nobody here reads is not looked at.
"""

from typing import Any, Final

from api.errors import FieldError
from api.structural import violations
from api.v1beta2.base import QUANTITY_PATTERN

Schema = dict[str, Any]


def _fields(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT: Final[Schema] = {"type": "string"}
_QUANTITIES: Final = _map({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN})
_RESOURCES: Final = _fields(requests=_QUANTITIES, limits=_QUANTITIES)
_CONTAINERS: Final = _list(_fields(name=_TEXT, restartPolicy=_TEXT, resources=_RESOURCES))
_REQUIREMENTS: Final = _list(_fields(key=_TEXT, operator=_TEXT, values=_list(_TEXT)))
_TERMS: Final = _list(_fields(matchExpressions=_REQUIREMENTS, matchFields=_REQUIREMENTS))
_TOLERATION: Final = _fields(
    key=_TEXT,
    operator=_TEXT,
    value=_TEXT,
    effect=_TEXT,
    tolerationSeconds={"type": "integer", "format": "int64"},
)
_TEMPLATE: Final = _fields(
    spec=_fields(
        initContainers=_CONTAINERS,
        containers=_CONTAINERS,
        resources=_RESOURCES,
        overhead=_QUANTITIES,
        nodeSelector=_map(_TEXT),
        priorityClassName=_TEXT,
        runtimeClassName=_TEXT,
        tolerations=_list(_TOLERATION),
        affinity=_fields(
            nodeAffinity=_fields(
                requiredDuringSchedulingIgnoredDuringExecution=_fields(nodeSelectorTerms=_TERMS),
            ),
        ),
    ),
)


def form(path: str, template: object) -> list[FieldError]:
    """What of a template has not the form it should have."""
    return violations(_TEMPLATE, template, path)
