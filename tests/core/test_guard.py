"""Patches that are refused where the object is not the one that was judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.model import Raw
from core.wire import decode
from core.wire.guard import guarded
from core.wire.pod_requests import RequestRules

ROOT = Path(__file__).parents[2]
WORKLOAD: Raw = {"metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"}, "spec": {}}
VALUE = decode.workload(WORKLOAD, decode.WorkloadContext(RequestRules()))


@pytest.mark.parametrize("judged", [WORKLOAD, VALUE], ids=["an object", "the value that was decoded from it"])
def test_a_patch_lands_on_the_version_that_was_judged_and_keeps_what_it_changes(judged: Raw) -> None:
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"active": False}}
    identity = {"uid": "u", "resourceVersion": "7"}
    assert guarded(patch, judged) == {"metadata": {"labels": {"a": "b"}, **identity}, "spec": {"active": False}}
    assert guarded({"status": {}}, judged, version=False) == {"metadata": {"uid": "u"}, "status": {}}
    assert patch == {"metadata": {"labels": {"a": "b"}}, "spec": {"active": False}}, "the patch itself is not changed"


def test_no_other_module_of_core_spells_the_guard() -> None:
    """Three more read a version: what is kept of a worker's object, of a pod that runs, and of one that waits for its
    domain.
    """
    core = ROOT / "core"
    named = {str(path.relative_to(core)) for path in core.rglob("*.py") if '"resourceVersion"' in path.read_text()}
    assert named == {"wire/decode.py", "wire/guard.py", "multikueue/shape.py", "guard/pods.py", "workload/ungating.py"}
