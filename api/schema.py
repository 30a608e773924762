"""A pydantic model as a structural schema: the form of OpenAPI that CustomResourceDefinitions accept.

pydantic speaks JSON Schema with references and null branches; a structural schema has neither. Everything else
(bounds, patterns, enums, defaults, list types, CEL rules) is declared on the models and passes through.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "$defs"})


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of a whole object."""
    generated = model.model_json_schema(by_alias=True)
    schema = _inlined(generated, generated.get("$defs", {}))
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    return schema


def _inlined(node: Schema, definitions: Schema) -> Schema:
    node = _without_null(node)
    if reference := node.get("$ref"):
        referred = definitions[reference.removeprefix("#/$defs/")]
        node = referred | {key: value for key, value in node.items() if key != "$ref"}
    result = {key: value for key, value in node.items() if key not in _DROPPED}
    if "properties" in result:
        result["properties"] = {name: _inlined(child, definitions) for name, child in result["properties"].items()}
    if "items" in result:
        result["items"] = _inlined(result["items"], definitions)
    match result.get("additionalProperties"):
        case False | True:
            del result["additionalProperties"]
        case dict() as values:
            result["additionalProperties"] = _inlined(values, definitions)
    return _spelled(result)


def _without_null(node: Schema) -> Schema:
    """`X | None = None` becomes X: in Kubernetes null means absent."""
    if "default" in node and node["default"] is None:
        node = {key: value for key, value in node.items() if key != "default"}
    branches = node.get("anyOf", [])
    present = [branch for branch in branches if branch != {"type": "null"}]
    if len(present) == len(branches):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**present[0], **rest} if len(present) == 1 else {**rest, "anyOf": present}


def _spelled(node: Schema) -> Schema:
    """The same in the words of a structural schema."""
    if "const" in node:
        node = {"enum": [node["const"]], **{key: value for key, value in node.items() if key != "const"}}
    return node
