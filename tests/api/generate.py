"""Random objects from a structural schema: every field may be there or not, lists are short, names come from few."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from api.kinds import KindSpec, Version
from api.objects import Raw
from api.schema import structural
from api.v1beta2.base import LABEL_KEY_PATTERN, LABEL_PATTERN, QUANTITY_PATTERN, SUBDOMAIN_PATTERN

NAMES = st.sampled_from(["a", "b", "c-1"])
QUANTITIES = st.one_of(st.sampled_from(["1", "500m", "2Gi", "1500", "3k", "0"]), st.integers(0, 9))
_BY_PATTERN = {
    SUBDOMAIN_PATTERN: st.sampled_from(["a", "b", "c.example"]),
    LABEL_PATTERN: NAMES,
    LABEL_KEY_PATTERN: st.sampled_from(["rack", "example.com/block", "kubernetes.io/hostname"]),
    QUANTITY_PATTERN: QUANTITIES,
    "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": st.sampled_from(["Ready", "Stopped"]),
    "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$": st.sampled_from(["Kind"]),
}


def objects(kind: KindSpec, version: Version) -> st.SearchStrategy[Raw]:
    """Objects of a kind as its version's schema has them, with defaults not yet filled in."""
    schema = structural(version.model)
    rest = {key: child for key, child in schema["properties"].items() if key not in ("apiVersion", "kind", "metadata")}
    head: Raw = {"apiVersion": f"kueue.x-k8s.io/{version.name}", "kind": kind.kind, "metadata": {"name": "x"}}
    return _fields(rest, schema.get("required", ())).map(lambda fields: {**head, **fields})


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema accepts."""
    if "pattern" in schema:
        return _BY_PATTERN[schema["pattern"]]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", 0), 4)
        case "string":
            dates = st.just("2026-01-01T00:00:00Z")
            return dates if schema.get("format") == "date-time" else st.sampled_from(["x", "y", "In", "Exists"])
        case "array":
            return _lists(schema)
    if "additionalProperties" in schema:
        return st.dictionaries(NAMES, values(schema["additionalProperties"]), max_size=2)
    if "containers" in schema.get("required", ()):
        return st.just({"containers": [{"name": "c", "image": "i"}]})
    return _fields(schema.get("properties", {}), schema.get("required", ()))


def _fields(properties: Mapping[str, Any], required: Any) -> st.SearchStrategy[Raw]:
    return st.fixed_dictionaries(
        {name: values(properties[name]) for name in required},
        optional={name: values(child) for name, child in properties.items() if name not in required},
    )


def _lists(schema: Mapping[str, Any]) -> st.SearchStrategy[list[Any]]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    unique: Any = None
    if keys:
        unique = lambda element: tuple(element.get(key) for key in keys)  # noqa: E731 - a key, not a function of ours
    elif schema.get("x-kubernetes-list-type") == "set":
        unique = lambda element: element  # noqa: E731
    items = values(schema["items"])
    return st.lists(
        items, min_size=schema.get("minItems", 0), max_size=max(2, schema.get("minItems", 0)), unique_by=unique
    )
