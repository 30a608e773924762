"""What two versions of a Workload show to have happened between them."""

import pytest

from core.model import Admission, Key, PodSetAssignment, Workload
from core.model.workload import replace
from core.workload import transitions
from core.workload.milestones import (
    Admitted,
    BecameReady,
    Evicted,
    Finished,
    Milestone,
    QuotaReserved,
    Released,
    milestones,
)
from core.workload.transitions import condition

NEW = Workload(Key("ns", "w"), "uid", 1_000.0, "lq", 0, ())
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "default"}, {"cpu": 1000}, 1),))
HELD = transitions.reserved(NEW, ADMISSION, 1_010.0)
CHECKED = transitions.reserved(NEW, ADMISSION, 1_010.0, required_checks=["check"])


def with_condition(workload: Workload, kind: str, reason: str, now: float) -> Workload:
    return condition(workload, kind, status=True, reason=reason, message="", now=now)


def ready(workload: Workload, reason: str = "Started", now: float = 1_030.0) -> Workload:
    return with_condition(workload, "PodsReady", reason, now)


def passed(workload: Workload, now: float) -> Workload:
    """With all its checks ready."""
    checks = tuple(replace(check, state="Ready") for check in workload.checks)
    return transitions.admitted_in_step(replace(workload, checks=checks), now)


GONE = transitions.preempted(ready(HELD), "InClusterQueue", "", 1_050.0)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param(
            NEW,
            HELD,
            [QuotaReserved("cq", 110.0), Admitted("cq", 110.0, None)],
            id="quota and admission in one step have no time of checks",
        ),
        pytest.param(NEW, CHECKED, [QuotaReserved("cq", 110.0)], id="with a check quota comes first"),
        pytest.param(
            CHECKED,
            passed(CHECKED, 1_040.0),
            [Admitted("cq", 110.0, 100.0)],
            id="checks took the time since the reservation",
        ),
        pytest.param(
            transitions.requeued(NEW, "Preempted", "", 1_060.0),
            transitions.reserved(transitions.requeued(NEW, "Preempted", "", 1_060.0), ADMISSION, 1_070.0),
            [QuotaReserved("cq", 50.0), Admitted("cq", 50.0, None)],
            id="a requeued workload has waited since then",
        ),
        pytest.param(HELD, ready(HELD), [BecameReady("cq", 110.0, 20.0)], id="its pods became ready"),
        pytest.param(ready(HELD), ready(HELD, "Recovered", 1_040.0), [], id="ready again is not ready first"),
        pytest.param(
            ready(HELD),
            GONE,
            [Evicted("cq", "Preempted", "", first=True, ready=20.0)],
            id="evicted while its pods were ready",
        ),
        pytest.param(
            HELD,
            transitions.evicted(
                replace(HELD, evictions=(("PodsReadyTimeout", "WaitForStart", 2),)),
                "PodsReadyTimeout",
                "",
                1_050.0,
                cause="WaitForStart",
            ),
            [Evicted("cq", "PodsReadyTimeout", "WaitForStart", first=False, ready=None)],
            id="the third eviction for a cause is not the first",
        ),
        pytest.param(
            HELD,
            with_condition(HELD, "Evicted", "DeactivatedDueToAdmissionCheck", 1_050.0),
            [Evicted("cq", "Deactivated", "AdmissionCheck", first=True, ready=None)],
            id="evicted by somebody who keeps no count",
        ),
        pytest.param(
            GONE,
            transitions.evicted(GONE, "Deactivated", "", 1_060.0),
            [Evicted("cq", "Deactivated", "", first=True, ready=30.0 - 10.0)],
            id="evicted for another reason before it has stopped",
        ),
        pytest.param(
            GONE, transitions.released(GONE, 1_090.0), [Released("cq", "Preempted", 60.0)], id="it gave its quota back"
        ),
        pytest.param(
            NEW, transitions.waiting(NEW, "WaitingForQuota", "", 1_010.0), [], id="waiting is counted nowhere"
        ),
        pytest.param(
            replace(HELD, past_execution=7),
            transitions.finished(replace(HELD, past_execution=7), "Succeeded", "", 1_050.0),
            [Finished("cq", 47.0)],
            id="finished: earlier admissions count as time of execution",
        ),
        pytest.param(
            NEW,
            transitions.finished(NEW, "OwnerNotFound", "", 1_050.0),
            [Finished("", None)],
            id="finished without ever having been admitted",
        ),
        pytest.param(NEW, replace(HELD, uid="other"), [], id="another object of the same name"),
    ],
)
def test_what_happened_between_two_versions(old: Workload, new: Workload, found: list[Milestone]) -> None:
    assert milestones(old, new, 1_110.0) == found


@pytest.mark.parametrize("workload", [NEW, HELD, CHECKED, GONE, transitions.finished(HELD, "Succeeded", "", 1_050.0)])
def test_the_same_version_again_and_a_change_of_anything_else_are_no_news(workload: Workload) -> None:
    assert milestones(workload, workload, 2_000.0) == []
    assert milestones(workload, replace(workload, resource_version="8", priority=5), 2_000.0) == []
