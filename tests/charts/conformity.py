"""Compares objects with the schemas of their kinds by kubeconform, without unknown fields: the schemas of Kubernetes'
own OpenAPI document, and of CRDs.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from api.objects import Raw
from devcluster import build
from tests.eventually import PATIENCE

DEFINITIONS = ("certificates", "issuers", "servicemonitors", "prometheusrules")
"""The CRDs of the kinds of others that the chart makes, each in the file of that name."""
SCHEMA = "{{.ResourceKind}}{{.KindSuffix}}.json"
KINDS = "x-kubernetes-group-version-kind"
ANY_NUMBER = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
}
"""Types that the OpenAPI document calls strings."""


def conforms(objects: Sequence[str], directory: Path) -> list[str]:
    """Returns what is wrong with any of these texts of objects; a kind without a schema is wrong, too."""
    for name, schema in _schemas().items():
        (directory / name).write_text(schema)
    program = build.ensure("kubeconform")["kubeconform"]
    done = subprocess.run(
        [program, "-strict", "-output", "json", "-schema-location", f"{directory}/{SCHEMA}", "-"],
        input="\n---\n".join(objects), capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["resources"]
    assert done.returncode == (1 if found else 0), done.stderr
    return [f"{each['kind']} {each['name']}: {each['msg']}" for each in found]


@functools.cache
def _schemas() -> dict[str, str]:
    """By file name, as `SCHEMA` forms it."""
    return {name: json.dumps(schema) for name, schema in (*_of_kubernetes(), *_of_definitions())}


def _of_kubernetes() -> Iterator[tuple[str, Raw]]:
    types = json.loads(build.manifest("swagger.json").read_text())["definitions"] | ANY_NUMBER
    for name, type in types.items():
        for kind in type.get(KINDS, ()):
            if "metadata" in type.get("properties", {}):
                closure = {each: _strict(types[each]) for each in _named(types, name)}
                yield _file(kind["group"], kind["version"], kind["kind"]), {**closure[name], "definitions": closure}


def _named(types: Raw, name: str) -> set[str]:
    """The types that a type consists of, and itself."""
    found, left = set[str](), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += [part.partition('"')[0] for part in json.dumps(types[each]).split('"#/definitions/')[1:]]
    return found


def _strict(schema: Raw) -> Raw:
    """The schema without room for unknown fields."""
    found: Raw = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _strict(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            found[key] = _strict(value)
        elif key != KINDS:
            found[key] = value
    if "properties" in found and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["string", "integer"]
    return found


def _of_definitions() -> Iterator[tuple[str, Raw]]:
    for plural in DEFINITIONS:
        spec = yaml.load(build.manifest(f"{plural}.yaml").read_text(), Loader=yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            yield _file(spec["group"], version["name"], spec["names"]["kind"]), schema


def _file(group: str, version: str, kind: str) -> str:
    return "-".join([kind, *([group.partition(".")[0]] if group else ()), version]).lower() + ".json"
