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
def test_every_field_of_the_crds_is_described_in_a_sentence(kind: KindSpec) -> None:
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


def when(kind: str) -> str:
    return f".status.conditions[?(@.type=='{kind}')].status"


AGE = ("Age", ".metadata.creationTimestamp", "date", 0)
KUEUE: dict[str, tuple[set[str], bool, bool, list[tuple[str, str, str, int]]]] = {
    "AdmissionCheck": ({"ac"}, False, True, []),
    "ClusterQueue": (
        {"cq"},
        False,
        True,
        [
            ("Cohort", ".spec.cohortName", "string", 0),
            ("Strategy", ".spec.queueingStrategy", "string", 1),
            ("Pending Workloads", ".status.pendingWorkloads", "integer", 0),
            ("Admitted Workloads", ".status.admittedWorkloads", "integer", 1),
        ],
    ),
    "Cohort": ({"co"}, False, True, []),
    "LocalQueue": (
        {"lq", "queue", "queues"},
        True,
        True,
        [
            ("ClusterQueue", ".spec.clusterQueue", "string", 0),
            ("Pending Workloads", ".status.pendingWorkloads", "integer", 0),
            ("Admitted Workloads", ".status.admittedWorkloads", "integer", 0),
        ],
    ),
    "MultiKueueCluster": ({"mkc"}, False, True, [("Connected", when("Active"), "string", 0), AGE]),
    "MultiKueueConfig": ({"mkconf"}, False, False, []),
    "ProvisioningRequestConfig": ({"prc"}, False, False, []),
    "ResourceFlavor": ({"flavor", "flavors", "rf"}, False, False, []),
    "Topology": ({"topo"}, False, False, []),
    "Workload": (
        {"kwl", "kueueworkload", "kueueworkloads"},
        True,
        True,
        [
            ("Queue", ".spec.queueName", "string", 0),
            ("Reserved in", ".status.admission.clusterQueue", "string", 0),
            ("Admitted", when("Admitted"), "string", 0),
            ("Finished", when("Finished"), "string", 0),
            AGE,
        ],
    ),
    "WorkloadPriorityClass": ({"wpc"}, False, False, [("Value", ".value", "integer", 0)]),
}
"""What Kueue 0.19.2's CRDs say of each kind: short names, namespaced, status, and the columns of `kubectl get`."""


@pytest.mark.parametrize("kind", KUEUE)
def test_kubectl_knows_a_kind_by_kueues_names_and_shows_kueues_columns(kind: str) -> None:
    short, namespaced, status, columns = KUEUE[kind]
    (definition,) = [each for each in crds.definitions({"url": "https://x"}) if each["spec"]["names"]["kind"] == kind]
    names, stored = definition["spec"]["names"], definition["spec"]["versions"][0]
    # `queue` and `queues` are the names of v0.1's kind Queue, so LocalQueue has them as categories
    assert {*names["shortNames"], *names.get("categories", ())} == short
    assert definition["spec"]["scope"] == ("Namespaced" if namespaced else "Cluster")
    assert ("status" in stored.get("subresources", {})) == status
    shown = stored.get("additionalPrinterColumns", ())
    assert [(each["name"], each["jsonPath"], each["type"], each.get("priority", 0)) for each in shown] == columns
    selectable = [{"jsonPath": ".status.admission.clusterQueue"}] if kind == "Workload" else []
    assert stored.get("selectableFields", []) == selectable


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
