"""Schemas of the fields of built-in kinds that Seiretsu reads. A field that they do not name may be anything."""

from typing import Any, Final

Schema = dict[str, Any]


def fields(**properties: Schema) -> Schema:
    """Returns the schema of an object with these fields, each of which may be absent or null."""
    return {"type": "object", "properties": properties}


def map_of(values: Schema) -> Schema:
    """Returns the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": values}


def list_of(items: Schema) -> Schema:
    """Returns the schema of a list."""
    return {"type": "array", "items": items}


TEXT: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
QUANTITY: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "number"}]}
"""A quantity as users write it in a Job; the API server converts it into a string."""

METADATA: Final = fields(
    name=TEXT,
    namespace=TEXT,
    uid=TEXT,
    generateName=TEXT,
    creationTimestamp=TEXT,
    deletionTimestamp=TEXT,
    labels=map_of(TEXT),
    annotations=map_of(TEXT),
    finalizers=list_of(TEXT),
    ownerReferences=list_of(fields(apiVersion=TEXT, kind=TEXT, name=TEXT, uid=TEXT, controller=BOOLEAN)),
)


def pod_spec(quantity: Schema = QUANTITY) -> Schema:
    """Returns the schema of those fields of a pod's spec that decide about quota and flavors."""
    resources = fields(requests=map_of(quantity), limits=map_of(quantity))
    containers = list_of(fields(name=TEXT, restartPolicy=TEXT, resources=resources))
    requirements = list_of(fields(key=TEXT, operator=TEXT, values=list_of(TEXT)))
    terms = list_of(fields(matchExpressions=requirements, matchFields=requirements))
    seconds = {"type": "integer", "format": "int64"}
    return fields(
        initContainers=containers,
        containers=containers,
        resources=resources,
        overhead=map_of(quantity),
        nodeSelector=map_of(TEXT),
        priorityClassName=TEXT,
        runtimeClassName=TEXT,
        resourceClaims=list_of(fields(name=TEXT)),
        tolerations=list_of(fields(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT, tolerationSeconds=seconds)),
        affinity=fields(
            nodeAffinity=fields(requiredDuringSchedulingIgnoredDuringExecution=fields(nodeSelectorTerms=terms)),
        ),
    )


POD_TEMPLATE: Final = fields(metadata=fields(labels=map_of(TEXT), annotations=map_of(TEXT)), spec=pod_spec())
