"""Which admission checks a workload must pass, whose they are, and what becomes of it with each verdict."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from api import names
from core.actions import Patch, Wait
from core.jobs.template import ConflictError, inject, injections
from core.model import (
    Admission,
    AdmissionCheck,
    CheckRule,
    CheckState,
    ClusterQueue,
    Key,
    LocalQueue,
    Migration,
    PodSetAssignment,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Topology,
    Workload,
)
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.model.workload import replace
from core.quota.active import cluster_queue_active
from core.quota.checks import awaited, checks_of, required_checks
from core.state.state import State
from core.workload import transitions
from core.workload.actions import Evict, Surroundings
from core.workload.lifecycle import next_step

NOW = 1_000.0
SPOT, ALL = frozenset({"spot"}), frozenset({"spot", "reserved", "h100"})
RULES = (CheckRule("every"), CheckRule("gpu", frozenset({"h100"})), CheckRule("named", ALL), CheckRule("spot", SPOT))
QUEUE = ClusterQueue(
    "cq",
    groups=(ResourceGroup(("cpu",), ("spot", "reserved")), ResourceGroup(("gpu",), ("h100",))),
    namespace_selector=Selector(),
    checks=RULES,
)
LOCAL = LocalQueue(Key("ns", "lq"), "cq")


def admission(**flavors: str) -> Admission:
    return Admission("cq", (PodSetAssignment("main", flavors, {}, 1),))


@pytest.mark.parametrize(
    ("given", "required"),
    [
        pytest.param(None, ["every", "named"], id="before the reservation only those on every flavor"),
        pytest.param(admission(cpu="spot"), ["every", "named", "spot"], id="on the flavor it was assigned"),
        pytest.param(admission(cpu="reserved"), ["every", "named"], id="not on a flavor it was not assigned"),
        pytest.param(admission(cpu="spot", gpu="h100"), ["every", "gpu", "named", "spot"], id="on any of its flavors"),
        pytest.param(admission(), [], id="none without any flavor"),
    ],
)
def test_a_workload_must_pass_the_checks_on_its_flavors(given: Admission | None, required: list[str]) -> None:
    assert required_checks(QUEUE, given) == required


def test_a_controller_finds_the_checks_that_it_decides() -> None:
    known = {name: AdmissionCheck(name, f"example.com/{name[0]}", active=True) for name in ("ab", "ac", "b")}
    states = [CheckState(name, "Pending") for name in ("ab", "ac", "b", "gone")]
    found = checks_of(workload(*states), known, "example.com/a")
    assert [state.name for state in found] == ["ab", "ac"]


def workload(*states: CheckState) -> Workload:
    owner = Owner("batch", "Job", "ns", "j")
    made = Workload(Key("ns", "w"), "u", 0.0, "lq", 0, (), owner=owner, job_uid="j", resource_version="1")
    return replace(made, checks=states)


class Verdict(NamedTuple):
    """What a controller writes about its check."""

    state: str
    fields: dict[str, Any]
    expected: CheckState


UPDATE = {"name": "main", "labels": {"a": "b"}}
OLD = CheckState("c", "Pending", "wait", since=10.0, retry_count=2, requeue_after=60.0)
VERDICTS = {
    "the same state keeps its time": Verdict("Pending", {}, CheckState("c", "Pending", "new", 10.0, 2)),
    "another state has a new time": Verdict("Retry", {}, CheckState("c", "Retry", "new", NOW, 2)),
    "a retry has its delay": Verdict("Retry", {"requeue_after": 5.0}, CheckState("c", "Retry", "new", NOW, 2, 5.0)),
    "pods get additions": Verdict(
        "Ready", {"pod_set_updates": (UPDATE,)}, CheckState("c", "Ready", "new", NOW, 2, None, (UPDATE,))
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_verdict_changes_one_check(case: str) -> None:
    verdict = VERDICTS[case]
    other = CheckState("d", "Ready")
    after = transitions.with_check_state(workload(OLD, other), "c", verdict.state, "new", NOW, **verdict.fields)
    assert after.checks == (verdict.expected, other)
    assert transitions.with_check_state(workload(other), "c", "Ready", "", NOW).checks == (other,)


class Course(NamedTuple):
    """A workload that holds quota with these checks: the steps until nothing is left to do, and what it is then."""

    asked: tuple[str, ...]
    states: tuple[CheckState, ...]
    steps: list[str]
    facts: dict[str, str]
    left: tuple[CheckState, ...]


def state(name: str, verdict: str, message: str = "", *, since: float = 0.0, **more: Any) -> CheckState:
    return CheckState(name, verdict, message, since, **more)


def pending(name: str) -> CheckState:
    return CheckState(name, "Pending", since=NOW)


def back(name: str, was: str, retries: int = 0) -> CheckState:
    return CheckState(name, "Pending", f"Reset to Pending after eviction. Previously: {was}", NOW, retries)


HELD, WAITS, RUNS = "True/QuotaReserved", "False/UnsatisfiedAdmissionChecks", "True/Admitted"
COURSES = {
    "waits for a check": Course(
        ("a",), (state("a", "Pending"),), [], {"QuotaReserved": HELD, "Admitted": WAITS}, (state("a", "Pending"),)
    ),
    "is admitted when the last check is ready": Course(
        ("a", "b"),
        (state("a", "Ready"), state("b", "Ready")),
        ["admit"],
        {"QuotaReserved": HELD, "Admitted": RUNS},
        (state("a", "Ready"), state("b", "Ready")),
    ),
    "one of two checks is not enough": Course(
        ("a", "b"),
        (state("a", "Ready"), state("b", "Pending")),
        [],
        {"QuotaReserved": HELD, "Admitted": WAITS},
        (state("a", "Ready"), state("b", "Pending")),
    ),
    "a new check is pending": Course(
        ("a", "b"),
        (state("a", "Ready"),),
        ["checks"],
        {"QuotaReserved": HELD, "Admitted": WAITS},
        (state("a", "Ready"), pending("b")),
    ),
    "without the check that was not ready it is admitted": Course(
        ("a",),
        (state("a", "Ready"), state("b", "Pending")),
        ["admit"],
        {"QuotaReserved": HELD, "Admitted": RUNS},
        (state("a", "Ready"),),
    ),
    "a retry evicts, and is counted": Course(
        ("a", "b"),
        (state("a", "Retry", "busy", retry_count=1), state("b", "Ready")),
        ["evict AdmissionCheck"],
        {"QuotaReserved": HELD, "Admitted": WAITS, "Evicted": "True/AdmissionCheck"},
        (back("a", "Retry", 2), back("b", "Ready")),
    ),
    "a rejection deactivates": Course(
        ("a",),
        (state("a", "Rejected", "never"),),
        ["reject", "deactivate", "evict Deactivated"],
        {"QuotaReserved": HELD, "Admitted": WAITS, "Evicted": "True/DeactivatedDueToAdmissionCheck"},
        (back("a", "Rejected"),),
    ),
    "a rejection after retries keeps their count": Course(
        ("a",),
        (state("a", "Rejected", "never", retry_count=2),),
        ["reject", "deactivate", "evict Deactivated"],
        {"QuotaReserved": HELD, "Admitted": WAITS, "Evicted": "True/DeactivatedDueToAdmissionCheck"},
        (back("a", "Rejected", 2),),
    ),
    "a rejection counts more than a retry": Course(
        ("a", "b"),
        (state("a", "Retry"), state("b", "Rejected")),
        ["reject", "deactivate", "evict Deactivated"],
        {"QuotaReserved": HELD, "Admitted": WAITS, "Evicted": "True/DeactivatedDueToAdmissionCheck"},
        (back("a", "Retry", 1), back("b", "Rejected")),
    ),
}


def course(workload: Workload, asked: tuple[str, ...]) -> tuple[list[str], Workload]:
    """The steps until nothing is left to do, and the workload then."""
    queue = replace(QUEUE, checks=tuple(map(CheckRule, asked)))
    around = Surroundings(NOW, local_queue=LOCAL, cluster_queue=queue, namespace={})
    steps: list[str] = []
    while True:
        match next_step(workload, around):
            case Evict(after=after, reason=reason):
                steps.append(f"evict {reason}")
                workload = after
            case Patch(after=Workload() as after, why=why):
                steps.append(why)
                workload = after
            case Patch(why="deactivate"):
                steps.append("deactivate")
                workload = replace(workload, active=False)
            case Wait():
                return steps, workload
            case step:
                raise AssertionError(step)


def holding(admitted: bool, *states: CheckState) -> Workload:
    held = transitions.reserved(
        workload(), admission(cpu="spot"), 0.0, required_checks=[] if admitted else [state.name for state in states]
    )
    return replace(held, checks=states)


@pytest.mark.parametrize("case", COURSES)
def test_the_course_of_a_workload_with_quota(case: str) -> None:
    given = COURSES[case]
    steps, after = course(holding(False, *given.states), given.asked)
    assert steps == given.steps
    assert {each.type: f"{each.status}/{each.reason}" for each in after.conditions} == given.facts
    assert after.checks == given.left


@pytest.mark.parametrize("case", [name for name, given in COURSES.items() if "admit" not in given.steps])
def test_an_admitted_workload_stays_admitted_until_a_check_evicts_it(case: str) -> None:
    """A check that was added later is pending, and changes nothing; if it fails, the workload is evicted."""
    given = COURSES[case]
    steps, after = course(holding(True, *given.states), given.asked)
    assert (steps, after.checks) == (given.steps, given.left)
    assert after.holds("Admitted")
    assert after.holds("Evicted") == ("Evicted" in given.facts)


FLAVORS = {"spot": {"spec": {"nodeLabels": {"pool": "spot"}}}}
MERGED: dict[str, tuple[dict[str, Any], str, Any]] = {
    "labels": ({"labels": {"team": "a"}}, "labels", {"team": "a"}),
    "annotations": ({"annotations": {"slot": "7"}}, "annotations", {"slot": "7"}),
    "a node selector": ({"nodeSelector": {"zone": "a"}}, "node_selector", {"pool": "spot", "zone": "a"}),
    "the node selector of its flavor": ({"nodeSelector": {"pool": "spot"}}, "node_selector", {"pool": "spot"}),
    "tolerations": ({"tolerations": [{"key": "k"}]}, "tolerations", [{"key": "k"}]),
}


@pytest.mark.parametrize("case", MERGED)
def test_what_checks_add_to_the_pods(case: str) -> None:
    update, part, expected = MERGED[case]
    ready = state("a", "Ready", pod_set_updates=({"name": "main", **update}, {"name": "other", "labels": {"x": "y"}}))
    (found,) = injections(holding(False, ready), FLAVORS)
    added = getattr(found, part)
    if part in ("labels", "annotations"):
        added = {key: value for key, value in added.items() if "kueue" not in key}
    assert added == expected


CONFLICTS: dict[str, tuple[list[dict[str, Any]], str, str, str, str]] = {
    "with the flavor": ([{"nodeSelector": {"pool": "other"}}], "nodeSelector", "pool", "spot", "other"),
    "of two checks": ([{"labels": {"a": "1"}}, {"labels": {"a": "2"}}], "labels", "a", "1", "2"),
    "of annotations": ([{"annotations": {"a": "1"}}, {"annotations": {"a": "2"}}], "annotations", "a", "1", "2"),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_additions_that_contradict_are_an_error_that_names_the_check_and_both_values(case: str) -> None:
    updates, part, key, one, two = CONFLICTS[case]
    states = [
        state(f"c{place}", "Ready", pod_set_updates=({"name": "main", **update},))
        for place, update in enumerate(updates)
    ]
    with pytest.raises(ConflictError) as conflict:
        injections(holding(False, *states), FLAVORS)
    assert str(conflict.value) == (
        f'in admission check "{states[-1].name}": invalid admission check PodSetUpdate: conflict for {part}:'
        f" conflict for key={key}, value1={one}, value2={two}"
    )


@pytest.mark.parametrize(("part", "key"), [("labels", names.Label.POD_SET), ("annotations", names.Annotation.WORKLOAD)])
def test_a_check_may_not_replace_what_marks_the_pods(part: str, key: str) -> None:
    taken = state("a", "Ready", pod_set_updates=({"name": "main", part: {key: "mine"}},))
    with pytest.raises(ConflictError, match=f'in admission check "a": .* conflict for key={key}'):
        injections(holding(False, taken), FLAVORS)


def test_an_addition_that_contradicts_the_job_names_the_check() -> None:
    ready = state("a", "Ready", pod_set_updates=({"name": "main", "nodeSelector": {"zone": "b"}},))
    (found,) = injections(holding(False, ready), FLAVORS)
    with pytest.raises(ConflictError) as conflict:
        inject({"spec": {"nodeSelector": {"zone": "a"}}}, found)
    assert str(conflict.value) == (
        'in admission check "a": invalid admission check PodSetUpdate: conflict for nodeSelector:'
        " conflict for key=zone, value1=a, value2=b"
    )


def test_what_the_checks_say_for_which_a_workload_waits() -> None:
    states = state("a", "Pending", message="no budget"), state("b", "Ready", message="go"), state("c", "Pending")
    assert awaited(holding(False, *states)) == "a: no budget"
    assert awaited(holding(True, *states)) == "", "it runs already"
    assert awaited(holding(False, *states, state("d", "Pending", message="soon"))) == "a: no budget; d: soon"


MULTI, PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"
CHECKS = {
    "budget": AdmissionCheck("budget", "example.com/budget", active=True),
    "idle": AdmissionCheck("idle", "example.com/idle", active=False),
    "idle-too": AdmissionCheck("idle-too", "example.com/idle", active=False),
    "far": AdmissionCheck("far", MULTI, active=True),
    "farther": AdmissionCheck("farther", MULTI, active=True),
    "nodes": AdmissionCheck("nodes", PROVISIONING, active=True),
}
UNUSABLE = {
    "an active check": ((CheckRule("budget"),), "Ready", ""),
    "missing checks": (
        (CheckRule("b"), CheckRule("a")),
        "AdmissionCheckNotFound",
        "references missing AdmissionCheck(s): a,b",
    ),
    "inactive checks": (
        (CheckRule("idle-too"), CheckRule("budget"), CheckRule("idle")),
        "AdmissionCheckInactive",
        "references inactive AdmissionCheck(s): idle,idle-too",
    ),
    "a missing and an inactive check": (
        (CheckRule("idle"), CheckRule("a")),
        "AdmissionCheckNotFound",
        "references missing AdmissionCheck(s): a, references inactive AdmissionCheck(s): idle",
    ),
    "two MultiKueue checks": (
        (CheckRule("farther"), CheckRule("far")),
        "MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: far,farther",
    ),
    "a MultiKueue check on one flavor": (
        (CheckRule("far", SPOT),),
        "MultiKueueAdmissionCheckAppliedPerFlavor",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: far",
    ),
    "a MultiKueue check on all flavors by name": ((CheckRule("far", ALL),), "Ready", ""),
    "MultiKueue and ProvisioningRequest": (
        (CheckRule("nodes"), CheckRule("far")),
        "MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: far, nodes",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_cluster_queue_is_active_if_its_checks_can_be_used(case: str) -> None:
    rules, reason, message = UNUSABLE[case]
    flavors = {name: ResourceFlavor(name) for name in ALL}
    found = cluster_queue_active(replace(QUEUE, checks=rules), flavors, CHECKS, {})
    text = f"Can't admit new workloads: {message}." if message else "Can admit new workloads"
    assert found == (reason == "Ready", reason, text)


@pytest.mark.parametrize(
    ("policy", "there", "rules", "message"),
    [
        pytest.param(TopologyPolicy(), False, (), 'there is no Topology "racks" for TAS flavor "h100"', id="missing"),
        pytest.param(TopologyPolicy(), True, (), "", id="it is there"),
        pytest.param(None, False, (), "", id="without the feature gate"),
        pytest.param(TopologyPolicy(), False, (CheckRule("far"),), "", id="the pods run in other clusters"),
    ],
)
def test_a_cluster_queue_is_inactive_without_the_topology_of_a_flavor(
    policy: TopologyPolicy | None, there: bool, rules: tuple[CheckRule, ...], message: str
) -> None:
    state = State(SchedulingPolicy(topology=policy))
    for name in ALL:
        state.set_flavor(name, ResourceFlavor(name, topology_name="racks" if name == "h100" else None))
    for name, check in CHECKS.items():
        state.set_admission_check(name, check)
    state.set_cluster_queue(QUEUE.name, replace(QUEUE, checks=rules))
    state.set_topology("racks", Topology("racks", ("rack",)))
    if not there:
        state.set_topology("racks", None)
    found = state.reservations.active_condition(QUEUE.name)
    text = f"Can't admit new workloads: {message}." if message else "Can admit new workloads"
    assert found == (not message, "TopologyNotFound" if message else "Ready", text)


@pytest.mark.parametrize(
    ("check", "gate", "reason"),
    [("far", True, "MultiKueueWithConcurrentAdmission"), ("far", False, "Ready"), ("budget", True, "Ready")],
)
def test_a_multikueue_check_excludes_concurrent_admission(check: str, gate: bool, reason: str) -> None:
    state = State(SchedulingPolicy(concurrent_admission=gate))
    for name in ALL:
        state.set_flavor(name, ResourceFlavor(name))
    state.set_admission_check(check, CHECKS[check])
    state.set_cluster_queue("cq", replace(QUEUE, checks=(CheckRule(check),), migration=Migration()))
    text = (
        "Can't admit new workloads: Cannot use MultiKueue AdmissionChecks with concurrentAdmissionPolicy, found: far."
    )
    found = state.reservations.active_condition("cq")
    assert found == (reason == "Ready", reason, text if reason != "Ready" else "Can admit new workloads")
