"""When a controller of admission checks is asked, and what its verdicts write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from seiretsu.client import Verdict
from seiretsu.client.verdict import activated, amount, answered, mine, newer, questions

LONG_AGO, NOW = "2026-01-01T00:00:00Z", 1_800_000_000.0
STAMP = "2027-01-15T08:00:00Z"
CHECKS = {"budget": {"metadata": {"name": "budget"}, "spec": {"controllerName": "c", "parameters": {"name": "p"}}}}


def check(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": LONG_AGO, **more}


def workload(*checks: dict[str, Any], true: tuple[str, ...] = ("QuotaReserved",), admission: bool = True) -> Any:
    usage = [{"name": "a", "resourceUsage": {"cpu": "1500m"}}, {"name": "b", "resourceUsage": {"cpu": "2"}}]
    return {
        "metadata": {"namespace": "ns", "name": "w", "uid": "u", "resourceVersion": "7"},
        "spec": {"queueName": "lq", "podSets": [{"name": "a"}, {"name": "b"}]},
        "status": {
            "conditions": [{"type": kind, "status": "True"} for kind in true],
            "admissionChecks": list(checks),
            **({"admission": {"clusterQueue": "cq", "podSetAssignments": usage}} if admission else {}),
        },
    }


WAITS = check("budget", "Pending", retryCount=2)
NOT_ASKED = {
    "it has no quota yet": workload(WAITS, true=(), admission=False),
    "its quota was taken back": workload(WAITS, true=()),
    "it is being evicted": workload(WAITS, true=("QuotaReserved", "Evicted")),
    "it is to be deactivated": workload(WAITS, true=("QuotaReserved", "DeactivationTarget")),
    "it has finished": workload(WAITS, true=("QuotaReserved", "Finished")),
    "the check is decided": workload(check("budget", "Ready")),
    "the check is that of another controller": workload(check("other", "Pending")),
    "it has no status": {**workload(), "status": {}},
}


@pytest.mark.parametrize("case", NOT_ASKED)
def test_no_question_if(case: str) -> None:
    assert questions(NOT_ASKED[case], CHECKS) == []


def test_a_question_has_what_is_needed_to_decide() -> None:
    raw = workload(check("other", "Pending"), WAITS)
    (asked,) = questions(raw, CHECKS)
    assert (asked.check, asked.namespace, asked.name, asked.queue, asked.cluster_queue) == (
        *("budget", "ns", "w", "lq", "cq"),
    )
    assert (asked.usage, asked.retries, asked.parameters) == ({"cpu": Decimal("3.5")}, 2, {"name": "p"})
    assert asked.workload is raw


WRITTEN = {
    "ready, with additions to each pod set": (
        Verdict.ready("ok", annotations={"a": "1"}, node_selector={"z": "1"}),
        {
            **check("budget", "Ready", retryCount=2, message="ok", lastTransitionTime=STAMP),
            "podSetUpdates": [
                {"name": name, "annotations": {"a": "1"}, "nodeSelector": {"z": "1"}} for name in ("a", "b")
            ],
        },
    ),
    "pending keeps the time": (Verdict.pending("soon"), {**WAITS, "message": "soon"}),
    "retry with a delay": (
        Verdict.retry("busy", after=30),
        {**WAITS, "state": "Retry", "message": "busy", "requeueAfterSeconds": 30, "lastTransitionTime": STAMP},
    ),
    "rejected": (
        Verdict.rejected("never"),
        {**WAITS, "state": "Rejected", "message": "never", "lastTransitionTime": STAMP},
    ),
    "a message that is too long is cut": (Verdict.pending("x" * 40_000), {**WAITS, "message": "x" * 32_768}),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_a_verdict_is_written_for_its_check_alone_and_for_the_version_that_was_read(case: str) -> None:
    verdict, expected = WRITTEN[case]
    other = check("other", "Ready")
    assert answered(workload(other, WAITS), "budget", verdict, NOW) == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {"admissionChecks": [other, expected]},
    }


def test_a_verdict_that_changes_nothing_is_not_written() -> None:
    assert answered(workload(WAITS), "budget", Verdict.pending(), NOW) is None


def admission_check(*conditions: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "budget", "uid": "u", "resourceVersion": "7", "generation": 3}
    return {"metadata": metadata, "spec": {"controllerName": "c"}, "status": {"conditions": list(conditions)}}


def test_a_check_is_active_unless_there_is_a_problem() -> None:
    first = activated(admission_check(), "", NOW)
    assert first is not None
    (active,) = first["status"]["conditions"]
    assert (active["status"], active["reason"], active["lastTransitionTime"]) == ("True", "Active", STAMP)
    assert activated(admission_check(active), "", NOW + 9) is None, "it is so already"
    foreign = {"type": "Other", "status": "True"}
    broken = activated(admission_check(foreign, {**active, "lastTransitionTime": LONG_AGO}), "no parameters", NOW)
    assert broken is not None
    assert broken["status"]["conditions"][0] == foreign
    assert broken["status"]["conditions"][1] == {
        **active,
        **{"status": "False", "reason": "Inactive", "message": "no parameters", "lastTransitionTime": STAMP},
    }


def test_a_controller_has_the_checks_that_name_it_and_are_not_being_deleted() -> None:
    gone = {"metadata": {"name": "gone", "deletionTimestamp": STAMP}, "spec": {"controllerName": "c"}}
    other = {"metadata": {"name": "other"}, "spec": {"controllerName": "d"}}
    assert mine([CHECKS["budget"], gone, other], "c") == CHECKS


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    def version(number: str, uid: str = "u") -> dict[str, Any]:
        return {"metadata": {"uid": uid, "resourceVersion": number}}

    assert newer(None, version("1"))
    assert newer(version("9"), version("10"))
    assert not newer(version("10"), version("9"))
    assert newer(version("10"), version("9", "another")), "it was deleted and created again"


@pytest.mark.parametrize(
    ("text", "number"),
    [("2", 2), ("500m", 0.5), ("1Gi", 2**30), ("1.5k", 1500), ("2E", 2 * 10**18), ("1e3", 1000), ("3n", 3e-9), (4, 4)],
)
def test_quantities_are_numbers(text: str | int, number: float) -> None:
    assert float(amount(text)) == number
