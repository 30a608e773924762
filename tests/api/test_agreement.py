"""Generated objects, good and bad, to the API server and to our own validation: they say the same.

The API server has our CRDs, not our webhooks: what it refuses it refuses by schema or CEL. Our rules go further (they
are the webhooks' too); a rule that both have must find the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from api import structural, validate
from api.errors import FieldError
from api.objects import Raw
from tests.api.objects import VALID
from tests.api.random_objects import Maker, out_of_bounds
from tests.api.server import BY_KIND, Server, reasons
from tests.effort import cases

pytestmark = pytest.mark.cluster


CREATED, STORED, CHANGES = cases(80, 800), cases(8, 60), 10
"""Of each kind: objects created (dry runs), objects stored, and changes of each stored one (dry runs)."""


def test_of_generated_new_objects_both_refuse_the_same(server: Server) -> None:
    verdicts: Counter[tuple[str, bool]] = Counter()
    for kind in VALID:
        maker = Maker(BY_KIND[kind], 1)
        for index in range(CREATED):
            obj = without_status(maker.object())
            for _ in range(index % 3):
                obj = maker.spoilt(obj)
            obj["metadata"] = {"name": "x"}
            status, answer = server.ask("POST", f"{server.path(obj)}?dryRun=All", obj)
            compare(kind, status, answer, validate.create(obj), form(kind, obj))
            verdicts[kind, status < 400] += 1
    assert verdicts.total() == len(VALID) * CREATED
    assert min(verdicts[kind, accepted] for kind in VALID for accepted in (True, False)) > CREATED // 20, verdicts


def test_of_generated_changes_of_spec_or_status_both_refuse_the_same(server: Server) -> None:
    verdicts: Counter[tuple[str, bool]] = Counter()
    for kind in VALID:
        maker = Maker(BY_KIND[kind], 2)
        for _ in range(STORED):
            stored = stored_object(server, maker)
            for index in range(CHANGES):
                change, subresource = changed(maker, stored, index)
                status, answer = server.put(stored, change, subresource, "dryRun=All")
                compare(kind, status, answer, validate.update(stored, change), form(kind, change))
                verdicts[kind, status < 400] += 1
            server.ask("DELETE", server.path(stored, named=True))
    assert verdicts.total() == len(VALID) * STORED * CHANGES
    assert min(verdicts[kind, accepted] for kind in VALID for accepted in (True, False)) > STORED // 5, verdicts


@pytest.mark.parametrize("kind", VALID)
def test_every_bound_of_every_field_is_kept_by_both_in_the_same_words(server: Server, kind: str) -> None:
    maker = Maker(BY_KIND[kind], 3, full=True)
    whole = maker.object()
    stored = server.create(VALID[kind]())[1]
    seen = 0
    for bound, obj in out_of_bounds(maker.schema, whole):
        if bound == "status: type":
            continue  # written by itself, it has no path to be wrong at
        wrong = form(kind, obj)
        assert wrong, bound
        if bound.startswith("status"):
            status, answer = server.put(stored, {**stored, "status": obj["status"]}, "/status", "dryRun=All")
        else:
            new = {**without_status(obj), "metadata": {"name": "x"}}
            status, answer = server.ask("POST", f"{server.path(new)}?dryRun=All", new)
        assert status == 422, (bound, answer)
        compare(kind, status, answer, wrong, wrong)
        seen += 1
    assert seen >= 2


def compare(kind: str, status: int, answer: Raw, ours: list[FieldError], wrong_form: list[FieldError]) -> None:
    """Both refuse, in the same words where the form is wrong; or neither does, but for rules that are ours alone."""
    told = [str(error) for error in ours]
    wrong_form = [error for error in wrong_form if not said_otherwise(error)]
    if status == 422:
        assert told, answer["message"]
        assert {_from_part(str(error)) for error in wrong_form} <= {_from_part(text) for text in reasons(answer)}, told
    else:
        assert status in (200, 201), answer
        assert not wrong_form, told
        twins = [error for error in ours if error.detail in rules_of(kind)]
        assert not twins, told


def _from_part(text: str) -> str:
    """Where a status is written by itself, the server's sentence, unlike its path, begins below it."""
    return text.replace(": status.", ": ")


def said_otherwise(error: FieldError) -> bool:
    """Of integers and times the server says something else for each of its ways to decode them."""
    return any(word in error.detail for word in ("integer", "int32", "int64")) or error.field.endswith(
        ("Time", "timeAdded")
    )


def form(kind: str, obj: Raw) -> list[FieldError]:
    """What the schema has against the object."""
    schema = validate.schema_of(kind)
    assert schema is not None
    return structural.violations(schema, structural.defaulted(schema, obj))


@cache
def rules_of(kind: str) -> frozenset[str]:
    """The messages of all CEL rules of a kind."""
    schema = validate.schema_of(kind)
    assert schema is not None
    return frozenset(_messages(schema))


def _messages(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for child in below:
        if isinstance(child, dict):
            yield from _messages(child)


def stored_object(server: Server, maker: Maker) -> Raw:
    """A random object that the server took, where there is one with a random status that it took too."""
    for _ in range(200):
        status, stored = server.create(maker.object())
        if status == 201:
            break
    else:
        raise AssertionError(f"no random {maker.kind.kind} is good enough to be stored")
    if maker.kind.has_status:
        for _ in range(50):
            status, answer = server.put(stored, {**stored, "status": maker.part("status")}, "/status")
            if status == 200:
                return answer
    return stored


def changed(maker: Maker, stored: Raw, index: int) -> tuple[Raw, str]:
    """The stored object with another spec or another status, and the subresource it is written to."""
    obj = maker.changed(stored)
    for _ in range(index % 2):
        obj = maker.spoilt(obj)
    obj = {**obj, "metadata": stored["metadata"]}
    if not maker.kind.has_status:
        return obj, ""
    if index % 4 < 2:
        return {**without_status(stored), **_only(obj, "status")}, "/status"
    return {**without_status(obj), **_only(stored, "status")}, ""


def without_status(obj: Raw) -> Raw:
    """What is left of an object that is created or replaced: a status is written by itself."""
    return {key: value for key, value in obj.items() if key != "status"}


def _only(obj: Raw, field: str) -> Raw:
    return {field: obj[field]} if field in obj else {}
