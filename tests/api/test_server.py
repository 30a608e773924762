"""The real API server accepts our CRDs, and it, our schema checks and our rules say the same of the same objects."""

import json

import pytest

from api import structural, validate
from api.objects import Raw
from tests.api.objects import VALID
from tests.api.server import BY_KIND, DEFINITIONS, Server, reasons
from tests.api.validate import test_create, test_update

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_definition_is_structural_and_gets_all_its_names(server: Server, kind: str) -> None:
    _, definition = server.ask("GET", f"{DEFINITIONS}/{BY_KIND[kind].crd_name}")
    conditions = {found["type"]: found["status"] for found in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_object_is_accepted_with_the_defaults_of_the_models(server: Server, kind: str) -> None:
    given = VALID[kind]()
    status, stored = server.create(given)
    assert status == 201, stored
    schema = validate.schema_of(kind)
    assert schema is not None
    filled = structural.defaulted(schema, given)
    assert stored.get("spec") == filled.get("spec")
    assert structural.violations(schema, stored) == []


CREATES = {name: case for name, case in test_create.CASES.items() if case[0].get("kind") in BY_KIND}


@pytest.mark.parametrize(("given", "expected"), CREATES.values(), ids=CREATES.keys())
def test_what_the_server_refuses_at_creation_we_refuse_too(server: Server, given: Raw, expected: list[str]) -> None:
    status, answer = server.create(given)
    assert status in (201, 422), answer
    assert status == 201 or expected


SCHEMA_CASES = {
    name: given
    for name, (given, _) in CREATES.items()
    if structural.violations(validate.schema_of(given["kind"]) or {}, given) and "int32" not in name
}


@pytest.mark.parametrize("given", SCHEMA_CASES.values(), ids=SCHEMA_CASES.keys())
def test_where_the_form_is_wrong_our_texts_are_the_servers(server: Server, given: Raw) -> None:
    status, answer = server.create(given)
    assert status == 422
    assert sorted(reasons(answer)) == sorted(str(error) for error in validate.create(given))


WRONG_FORMS: dict[str, Raw] = {
    "text for a number": {"spec": {"podSets": [{"count": "two", "template": {"spec": {"containers": []}}}]}},
    "a number for a text": {"spec": {"queueName": 5}},
    "a negative count": {"spec": {"podSets": [{"count": -1, "template": {"spec": {"containers": []}}}]}},
    "no pod sets": {"spec": {"podSets": []}},
    "nineteen pod sets": {
        "spec": {"podSets": [{"name": f"p{index}", "template": {"spec": {"containers": []}}} for index in range(19)]}
    },
    "the same pod set twice": {"spec": {"podSets": [{"template": {"spec": {"containers": []}}}] * 2}},
    "no template": {"spec": {"podSets": [{"name": "main"}]}},
    "no containers": {"spec": {"podSets": [{"template": {"spec": {}}}]}},
    "a container without name": {"spec": {"podSets": [{"template": {"spec": {"containers": [{}]}}}]}},
    "a name too long": {"spec": {"queueName": "q" * 254}},
    "an empty class": {
        "spec": {
            "priority": 1,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": ""},
        }
    },
    "labels that are numbers": {
        "spec": {"podSets": [{"template": {"metadata": {"labels": {"a": 1}}, "spec": {"containers": []}}}]}
    },
    "a boolean as text": {"spec": {"active": "true"}},
}


@pytest.mark.parametrize("given", WRONG_FORMS.values(), ids=WRONG_FORMS.keys())
def test_every_way_to_get_a_form_wrong_reads_the_same(server: Server, given: Raw) -> None:
    workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "x"}, **given}
    status, answer = server.create(workload)
    assert status == 422
    assert sorted(reasons(answer)) == sorted(str(error) for error in validate.create(workload))


CHANGES = {name: case[:2] for name, case in test_update.CASES.items()}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES.keys())
def test_validation_refuses_every_change_that_the_server_refuses(server: Server, old: Raw, new: Raw) -> None:
    created, stored = server.create(old)
    assert created == 201, stored
    if "status" in old:
        status, stored = server.put(stored, {**stored, "status": old["status"]}, "/status")
        assert status == 200, stored
    changes = [({**new, "status": stored.get("status", {})}, "")]
    if "status" in old or "status" in new:
        changes.append(({**stored, "status": new.get("status", {})}, "/status"))
    for change, subresource in changes:
        status, answer = server.put(stored, change, subresource, "dryRun=All")
        assert status in (200, 422), answer
        assert status == 200 or validate.update(stored, change), answer


def test_kubectl_shows_errors_columns_and_short_names(server: Server) -> None:
    bad = {**VALID["LocalQueue"](), "spec": {"clusterQueue": "Team A", "stopPolicy": "Later"}}
    done = server.plane.kubectl("create", "-f", "-", stdin=json.dumps(bad))
    assert 'The LocalQueue "x" is invalid:' in done.stderr
    assert '* spec.clusterQueue: Invalid value: "Team A": spec.clusterQueue in body should match \'' in done.stderr
    assert (
        '* spec.stopPolicy: Unsupported value: "Later": supported values: "None", "Hold", "HoldAndDrain"' in done.stderr
    )
    made = {**VALID["LocalQueue"](), "metadata": {"name": "main"}}
    server.plane.kubectl("create", "-f", "-", stdin=json.dumps(made), check=True)
    shown = server.plane.kubectl("get", "lq", "main", check=True).stdout.splitlines()[0].split("  ")
    assert [column.strip() for column in shown if column.strip()] == [
        "NAME",
        "CLUSTERQUEUE",
        "PENDING WORKLOADS",
        "ADMITTED WORKLOADS",
    ]


def test_workloads_can_be_selected_by_the_queue_that_admitted_them(server: Server) -> None:
    made = test_update.RESERVED
    _, stored = server.create(made)
    status, stored = server.put(stored, {**stored, "status": made["status"]}, "/status")
    assert status == 200, stored
    found = server.plane.kubectl(
        "get", "workloads", "--field-selector", "status.admission.clusterQueue=cq", "-o", "name", check=True
    ).stdout
    assert f"workload.kueue.x-k8s.io/{stored['metadata']['name']}\n" in found
