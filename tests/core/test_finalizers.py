"""Only Seiretsu's finalizer is removed, and only from the version that was decided on."""

from typing import Any

import pytest

from core.wire.finalizers import released

OURS = "kueue.x-k8s.io/resource-in-use"


@pytest.mark.parametrize(
    ("finalizers", "left"),
    [([OURS], None), ([OURS, "example.com/x"], ["example.com/x"]), (["a", OURS, "b"], ["a", "b"])],
)
def test_only_the_finalizer_of_seiretsu_is_removed_and_only_from_the_decided_version(
    finalizers: list[str], left: list[str] | None
) -> None:
    raw: dict[str, Any] = {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}}
    assert released(raw) == {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": left}}


@pytest.mark.parametrize("metadata", [{}, {"finalizers": None}, {"finalizers": ["example.com/x"]}])
def test_an_object_without_the_finalizer_of_seiretsu_is_not_written(metadata: dict[str, Any]) -> None:
    assert released({"metadata": {"uid": "u", "resourceVersion": "7", **metadata}}) is None
