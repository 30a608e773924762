"""Converts a manifest of any version into the object that the API server would store, for programs that only read
files.
"""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from api import structural, validate
from api.convert import ConversionError, convert
from api.convert.queue import local_queue
from api.errors import FieldError, broken_rule, invalid, not_supported
from api.kinds import KINDS, KindSpec, Version
from api.names import GROUP, STORAGE_VERSION, V1ALPHA1, Kind
from api.objects import Raw
from api.schema import structural as structural_schema
from api.v1alpha1.queues import QUOTA_RULE


def stored(manifest: Raw) -> tuple[Raw, list[FieldError]]:
    """Returns the object in the stored version with its defaults, and all errors, including unknown fields.

    A Queue of v0.1 becomes its LocalQueue. With errors the object is incomplete.
    """
    found = _version(manifest)
    if isinstance(found, FieldError):
        return manifest, [found]
    kind, version = found
    schema = _schema(version.model)
    obj = structural.defaulted(schema, manifest)
    unknown = structural.unknown_fields(schema, manifest)
    errors = [invalid(path, _at(manifest, path), "unknown field, it would be dropped") for path in unknown]
    errors += structural.violations(schema, obj) or _shorthands(kind, version, obj)
    if errors:
        return obj, errors
    try:
        obj = local_queue(obj) if kind.kind == Kind.QUEUE else convert(obj, STORAGE_VERSION)
    except ConversionError as error:
        return obj, [invalid("apiVersion", manifest.get("apiVersion"), str(error))]
    obj = structural.defaulted(validate.schema_of(obj["kind"]) or {}, obj)
    return obj, validate.create(obj)


@lru_cache
def _schema(model: type[BaseModel]) -> structural.AnySchema:
    """Created once for each kind: creating it costs as much as checking a hundred manifests."""
    return structural_schema(model)


def _version(manifest: Raw) -> tuple[KindSpec, Version] | FieldError:
    group, _, name = str(manifest.get("apiVersion")).partition("/")
    kinds = {kind.kind: kind for kind in KINDS}
    kind = kinds.get(str(manifest.get("kind"))) if group == GROUP else None
    if kind is None:
        return not_supported("kind", manifest.get("kind"), sorted(kinds))
    for version in kind.versions:
        if version.name == name:
            return kind, version
    return not_supported("apiVersion", manifest.get("apiVersion"), [f"{GROUP}/{one.name}" for one in kind.versions])


def _shorthands(kind: KindSpec, version: Version, obj: Raw) -> list[FieldError]:
    """The rule of v0.1's quotas, which only its CRD has otherwise."""
    if (kind.kind, version.name) != (Kind.CLUSTER_QUEUE, V1ALPHA1):
        return []
    message, _ = QUOTA_RULE
    return [
        broken_rule(f"spec.resources[{index}].flavors[{place}]", message)
        for index, resource in enumerate((obj.get("spec") or {}).get("resources") or ())
        for place, flavor in enumerate(resource["flavors"])
        if "quota" not in flavor or "min" in flavor or "max" in flavor
    ]


def _at(obj: Any, path: str) -> Any:
    for step in path.replace("[", ".").replace("]", "").split("."):
        obj = obj[int(step)] if isinstance(obj, list) else obj.get(step)
        if obj is None:
            return None
    return obj
