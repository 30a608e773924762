"""No view of an object loses anything: every version to every other and back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api import structural
from api.convert import convert
from api.kinds import KINDS, KindSpec, Version
from api.names import STORAGE_VERSION
from api.objects import Raw
from api.schema import structural as structural_schema
from tests.api import generate
from tests.effort import cases

OLDER = [(kind, version) for kind in KINDS for version in kind.versions if version is not kind.stored]
PER_OLDER = pytest.mark.parametrize(
    ("kind", "version"), OLDER, ids=[f"{kind.kind} {version.name}" for kind, version in OLDER]
)
SEARCH = settings(
    max_examples=cases(20, 1_000),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def drawn(data: st.DataObject, kind: KindSpec, version: Version) -> Raw:
    """A random object as the API server would hand it to us: with the defaults of its version."""
    found = data.draw(generate.objects(kind, version))
    filled: Raw = structural.defaulted(structural_schema(version.model), found)
    return filled


@PER_OLDER
@SEARCH
@given(st.data())
def test_an_object_written_in_an_older_version_reads_back_as_written_whoever_else_wrote_it(
    kind: KindSpec, version: Version, data: st.DataObject
) -> None:
    written = drawn(data, kind, version)
    before = repr(written)
    stored = convert(written, STORAGE_VERSION)
    assert repr(written) == before
    assert stored["apiVersion"] == f"kueue.x-k8s.io/{STORAGE_VERSION}"
    assert convert(stored, version.name) == written
    for other in kind.versions:
        assert convert(convert(stored, other.name), STORAGE_VERSION) == stored, "another older client wrote it"


@PER_OLDER
@SEARCH
@given(st.data())
def test_an_object_that_an_older_client_puts_back_unchanged_is_unchanged(
    kind: KindSpec, version: Version, data: st.DataObject
) -> None:
    stored = drawn(data, kind, kind.stored)
    seen = convert(stored, version.name)
    assert convert(seen, STORAGE_VERSION) == stored
