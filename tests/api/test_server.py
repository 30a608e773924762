"""The real API server accepts our CRDs, and it, our schema checks and our rules say the same of the same objects."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from api import crds, structural, validate
from api.errors import FieldError
from api.kinds import KINDS
from devcluster.controlplane import ControlPlane, Spec
from tests.api import generate
from tests.api.objects import VALID
from tests.api.validate import test_create, test_update

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

BY_KIND = {kind.kind: kind for kind in KINDS}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CUT_SHORT = "some validation rules were not checked because the object was invalid"


class Server:
    """The API server with our CRDs and without our webhooks."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def ask(self, method: str, path: str, body: Raw | None = None) -> tuple[int, Raw]:
        status, content = self.plane.administrator.request(method, path, body)
        return status, json.loads(content)

    def path(self, obj: Raw, *, named: bool = False) -> str:
        kind = BY_KIND[obj["kind"]]
        scope = "/namespaces/default" if kind.namespaced else ""
        name = f"/{obj['metadata']['name']}" if named else ""
        return f"/apis/{obj['apiVersion']}{scope}/{kind.plural}{name}"

    def create(self, obj: Raw) -> tuple[int, Raw]:
        asked = deepcopy(obj)
        asked["metadata"].pop("name")
        asked["metadata"]["generateName"] = "x-"
        return self.ask("POST", self.path(obj), asked)

    def put(self, current: Raw, obj: Raw, subresource: str = "", query: str = "") -> tuple[int, Raw]:
        metadata = {**obj["metadata"], **{key: current["metadata"][key] for key in ("name", "resourceVersion")}}
        asked = {**obj, "metadata": metadata}
        return self.ask("PUT", f"{self.path(asked, named=True)}{subresource}?{query}", asked)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ControlPlane.start(spec=Spec(name="api", nodes=())) as plane:
        server = Server(plane)
        for definition in crds.definitions():
            status, answer = server.ask("POST", _DEFINITIONS, definition)
            assert status == 201, answer
        established(server)
        yield server


def established(server: Server) -> None:
    for definition in crds.definitions():
        name = definition["metadata"]["name"]
        done = server.plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
        assert done.returncode == 0, done.stderr


def reasons(answer: Raw) -> list[str]:
    causes = [cause for cause in answer["details"].get("causes", ()) if _CUT_SHORT not in cause["message"]]
    return [f"{cause['field']}: {cause['message']}".removeprefix("<nil>: ") for cause in causes]


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_definition_is_structural_and_gets_all_its_names(server: Server, kind: str) -> None:
    _, definition = server.ask("GET", f"{_DEFINITIONS}/{BY_KIND[kind].crd_name}")
    conditions = {found["type"]: found["status"] for found in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_object_is_accepted_with_the_defaults_we_fill_in_ourselves(server: Server, kind: str) -> None:
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
def test_what_the_server_refuses_as_a_change_we_refuse_too(server: Server, old: Raw, new: Raw) -> None:
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


AGREE = settings(max_examples=100, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


@pytest.mark.parametrize("kind", VALID)
@AGREE
@given(data=st.data())
def test_of_random_objects_we_refuse_all_that_the_server_refuses_and_say_why(
    server: Server, kind: str, data: st.DataObject
) -> None:
    given_object = data.draw(generate.objects(BY_KIND[kind], BY_KIND[kind].stored))
    if data.draw(st.booleans()):
        given_object = spoilt(given_object, data)
    given_object["metadata"]["name"] = "x"
    status, answer = server.ask("POST", f"{server.path(given_object)}?dryRun=All", given_object)
    found = [str(error) for error in validate.create(given_object)]
    if status == 422:
        assert found, answer
        form = structural.violations(schema_of(kind), filled(kind, given_object))
        assert {str(error) for error in form if not _said_otherwise(error)} <= set(reasons(answer))
    else:
        assert status == 201, answer
        assert not structural.violations(schema_of(kind), filled(kind, given_object))


def _said_otherwise(error: FieldError) -> bool:
    """Of integers and times the server says something else for each of its ways to decode them."""
    return any(word in error.detail for word in ("integer", "int32", "int64")) or error.field.endswith(
        ("Time", "timeAdded")
    )


def schema_of(kind: str) -> Raw:
    return dict(validate.schema_of(kind) or {})


def filled(kind: str, obj: Raw) -> Raw:
    result: Raw = structural.defaulted(schema_of(kind), obj)
    return result


WRONG = st.sampled_from(["", "A b", "x" * 400, -1, 1 << 40, True, [], {}, ["a", "a"], "-1", "many", "2026-13-01"])


def spoilt(obj: Raw, data: st.DataObject) -> Raw:
    """The object with one value, anywhere in its spec, replaced by a wrong one."""
    result = deepcopy(obj)
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(child, dict | list):
                visit(child)

    for part in ("spec", "value", "description"):
        if isinstance(result.get(part), dict):
            visit(result[part])
        elif part in result:
            places.append((result, part))
    if places:
        node, key = data.draw(st.sampled_from(places))
        node[key] = data.draw(WRONG)
    return result


def test_kubectl_says_what_is_wrong_and_names_columns_and_short_names(server: Server) -> None:
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
