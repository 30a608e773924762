"""The CRDs are structural, complete, and the committed ones are those of the models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api import crds
from api.kinds import KINDS, KindSpec
from api.names import STORAGE_VERSION, V1ALPHA1

ROOT = Path(__file__).parents[2]
CONVERSION = {"url": "https://example.com/convert"}
PER_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def schemas(kind: KindSpec) -> Iterator[dict[str, Any]]:
    for version in crds.definition(kind, CONVERSION)["spec"]["versions"]:
        yield version["schema"]["openAPIV3Schema"]


def test_the_committed_templates_are_those_of_the_models() -> None:
    directory = ROOT / crds.CHART_TEMPLATES
    committed = {path.name: path.read_text() for path in directory.glob("*.yaml")}
    assert committed == crds.templates(), f"run: python -m api.crds {crds.CHART_TEMPLATES}"


@PER_KIND
def test_every_node_has_a_type_or_is_an_int_or_string(kind: KindSpec) -> None:
    for schema in schemas(kind):
        for path, node in nodes(schema):
            assert node.get("type") or node.get("x-kubernetes-int-or-string"), path
            assert not {"$ref", "$defs", "title", "const"} & node.keys(), path
            assert node.get("additionalProperties") is not False, path


@PER_KIND
def test_every_list_map_key_is_required_or_has_a_default(kind: KindSpec) -> None:
    for schema in schemas(kind):
        for path, node in nodes(schema):
            for key in node.get("x-kubernetes-list-map-keys", ()):
                item = node["items"]
                assert key in item.get("required", ()) or "default" in item["properties"][key], path


@PER_KIND
def test_every_field_of_ours_is_described_in_a_sentence(kind: KindSpec) -> None:
    for schema in schemas(kind):
        for path, node in nodes(schema):
            name = path.rsplit(".", 1)[-1]
            if name in ("apiVersion", "kind", "metadata") or "template" in path or path.endswith(("]", "}")):
                continue
            assert node.get("description", "").endswith("."), path


@PER_KIND
def test_exactly_one_version_is_stored(kind: KindSpec) -> None:
    versions = crds.definition(kind, CONVERSION)["spec"]["versions"]
    expected = V1ALPHA1 if kind.kind == "Queue" else STORAGE_VERSION
    assert [version["name"] for version in versions if version["storage"]] == [expected]


def test_no_two_kinds_claim_the_same_name() -> None:
    claimed = [name for kind in KINDS for name in {kind.plural, kind.singular, *kind.short_names}]
    assert len(claimed) == len(set(claimed))


def test_older_versions_are_served_only_where_something_converts_them() -> None:
    for kind in KINDS:
        alone, all_of_them = crds.definition(kind)["spec"], crds.definition(kind, CONVERSION)["spec"]
        assert [version["name"] for version in alone["versions"]] == [kind.stored.name]
        assert "conversion" not in alone
        assert [version["name"] for version in all_of_them["versions"]] == [version.name for version in kind.versions]
        assert ("conversion" in all_of_them) == (len(kind.versions) > 1)


def test_writing_them_needs_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert crds.main([str(tmp_path / "crds")]) == 0
    assert len(list((tmp_path / "crds").glob("*.yaml"))) == len(KINDS)
