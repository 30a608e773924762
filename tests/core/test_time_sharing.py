"""When a workload that has run for long gives way."""

from __future__ import annotations

from typing import Any

import pytest

from core.model import Raw, Selector, Workload
from core.model.kubernetes import Requirement
from core.workload import transitions
from core.workload.time_sharing import TimeSharingPolicy, decide
from tests.core.test_milestones import ADMISSION, NEW

POLICY = TimeSharingPolicy(100.0, 7)
RUNS = transitions.reserved(NEW, ADMISSION, 1_010.0)
DONE = transitions.condition(RUNS, "Finished", status=True, reason="Succeeded", message="", now=1_050.0)
KEY = "kueue.x-k8s.io/priority-boost"


def raw(value: str | None = None, priority: int = 0, **labels: str) -> Raw:
    annotations = {KEY: value} if value is not None else {}
    metadata = {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    return {"metadata": {**metadata, "annotations": annotations, "labels": labels}, "spec": {"priority": priority}}


@pytest.mark.parametrize(
    ("given", "workload", "now", "expected", "again"),
    [
        pytest.param(raw(), RUNS, 1_050.0, "nothing", 60.0, id="its time is not over"),
        pytest.param(raw(), RUNS, 1_110.0, "-7", None, id="its time is over"),
        pytest.param(raw("-7"), RUNS, 1_110.0, "nothing", None, id="it is written already"),
        pytest.param(raw("5"), RUNS, 1_110.0, "-7", None, id="the value of another one is replaced then"),
        pytest.param(raw("-7"), RUNS, 1_050.0, None, 60.0, id="it was admitted again"),
        pytest.param(raw("-7"), NEW, 1_110.0, None, None, id="it runs no more"),
        pytest.param(raw("5"), NEW, 1_110.0, "nothing", None, id="the value of another one stays"),
        pytest.param(raw("-x"), NEW, 1_110.0, "nothing", None, id="so does what is no number"),
        pytest.param(raw("-7"), DONE, 1_210.0, "nothing", None, id="a finished one is left alone"),
    ],
)
def test_the_boost(given: Raw, workload: Workload, now: float, expected: str | None, again: float | None) -> None:
    patch, seconds = decide(given, workload, POLICY, now)
    assert seconds == again
    assert ("nothing" if patch is None else patch["metadata"]["annotations"][KEY]) == expected


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({"max_priority": 10}, raw("-7", priority=11)),
        ({"selector": Selector((Requirement("share", "In", ("yes",)),))}, raw("-7", share="no")),
    ],
)
def test_one_that_is_not_selected_keeps_its_priority(more: dict[str, Any], given: Raw) -> None:
    patch, again = decide(given, RUNS, TimeSharingPolicy(100.0, 7, **more), 1_200.0)
    assert patch is not None
    assert (patch["metadata"]["annotations"][KEY], again) == (None, None)
