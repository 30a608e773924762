"""The rights that the chart grants: those of the table of watched resources, and no others."""

from __future__ import annotations

from pathlib import Path

from api import crds
from api.objects import Resource
from controller.rights import DEFINITIONS, rules, template
from controller.watched import Watched, rows
from core.jobs.kinds import KINDS

CHART = Path(__file__).parents[2] / "charts" / "seiretsu"
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")


def granted(table: tuple[Watched, ...], group: str, name: str) -> set[str]:
    """What the rules of a table allow of a resource, or of a subresource."""
    return {
        verb
        for rule in rules(table)
        if rule["apiGroups"] == [group] and name in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_template_in_the_chart_is_the_one_that_the_table_gives() -> None:
    assert (CHART / "templates" / "_rules.tpl").read_text() == template(), "run `make generate`"


def test_the_definitions_that_convert_between_versions_may_be_patched_and_no_others() -> None:
    converted = {each["metadata"]["name"] for each in crds.definitions({"url": "x"}) if "conversion" in each["spec"]}
    assert set(DEFINITIONS["resourceNames"]) == converted
    assert DEFINITIONS["verbs"] == ["get", "patch"]


def test_a_row_brings_its_rights_along() -> None:
    table = (*rows(KINDS.values()), Watched(resource=GADGETS, writes={"": ("create",), "status": ("patch",)}))
    assert granted(table, "example.com", "gadgets") == {"get", "list", "watch", "create"}
    assert granted(table, "example.com", "gadgets/status") == {"patch"}


def test_each_row_may_be_followed_and_written_as_it_says_and_not_otherwise() -> None:
    table = rows(KINDS.values())
    for row in table:
        name = row.resource.plural
        written = {subresource: set(verbs) for subresource, verbs in row.writes.items()}
        assert granted(table, row.resource.group, name) == {"get", "list", "watch"} | written.pop("", set())
        for subresource in ("status", "finalizers"):
            assert granted(table, row.resource.group, f"{name}/{subresource}") == written.pop(subresource, set())
        assert written == {}


def test_a_status_that_the_controller_keeps_may_be_patched_and_so_may_what_bears_its_finalizer() -> None:
    for row in rows(KINDS.values()):
        if row.status is not None:
            assert "patch" in row.writes["status"], row.resource.plural
        if row.in_use is not None or row.gets_finalizer:
            assert "patch" in row.writes[""], row.resource.plural
