"""Warnings come true and their advice helps: feedback compared with the cycle on random worlds."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from api import quantity
from core.feedback.jobs import of_job
from core.feedback.submission import Submission
from core.model import Key, PodSet, Reserve, Workload
from core.state import what_if
from core.state.drain import drain
from core.state.lookup import Lookup
from core.state.state import State
from tests.core.feedback.world import job, running, world
from tests.core.worlds import copy, workloads, worlds

NEVER = {"request-too-large", "nobody-lends", "min-parallelism-too-large", "no-matching-flavor", "resource-not-covered"}
NOT_NOW = {*NEVER, "will-wait", "only-by-borrowing"}


def outcome(state: State, key: Key) -> str:
    """What comes of a workload when the queues are drained."""
    found = "waits"
    for plan in drain(state, state.policy, 10.0):
        for decision in plan.decisions:
            if decision.workload.key == key:
                found = "starts" if isinstance(decision, Reserve) else "preempts" if decision.victims else found
    return found


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(worlds(), st.data())
def test_nobody_is_told_to_wait_who_starts_at_once_nor_that_never_starts_what_can(
    state: State, data: st.DataObject
) -> None:
    outcome(state, Key("", ""))
    queue = data.draw(st.sampled_from(sorted(state.reservations.cluster_queues)))
    made: Workload = replace(data.draw(workloads(99, queue)), created=100.0)
    asked = Submission("ns", queue, pod_sets=made.pod_sets, priority=made.priority)
    told = {finding.rule: finding.message for finding in of_job(asked, Lookup(state))}
    alone = not len(state.pending.queues[queue])
    if NEVER & told.keys():
        empty = copy(state)
        for key in list(empty.workloads):
            empty.set_workload(key, None)
        empty.set_workload(made.key, made)
        assert outcome(empty, made.key) == "waits", told
    state.set_workload(made.key, made)
    came = outcome(state, made.key)
    state.check()
    if came == "starts":
        assert not NOT_NOW & told.keys()
    elif came == "preempts":
        assert not told.get("will-wait", "").startswith("will wait:")
        assert not alone or not NOT_NOW & told.keys()
    elif alone:
        assert NOT_NOW & told.keys(), "who is alone and waits was told why"


FEWER = re.compile(r"set (parallelism|job-min-parallelism) to (\d+)")
LESS = re.compile(r"asks? for \S+ (\w+).*; ask for (.+?)(?: or less)?( a pod)?(?: to start now)?$")


def mended(pod_set: PodSet, told: str) -> PodSet | None:
    """The pods as a warning says they should be; None where it says nothing of that."""
    if found := FEWER.search(told):
        pods = int(found[2])
        partial = found[1] == "job-min-parallelism"
        return replace(pod_set, min_count=pods) if partial else replace(pod_set, count=pods, min_count=None)
    if found := LESS.search(told):
        pods = 1 if found[3] else pod_set.min_count or pod_set.count
        requests = dict(pod_set.requests)
        for each in found[2].split(" and "):
            amount, _, name = each.partition(" ")
            name = name or found[1]
            requests[name] = quantity.amount(name, amount) // pods
        return replace(pod_set, requests=requests)
    return None


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(worlds(), st.data())
def test_who_does_what_a_warning_says_starts(state: State, data: st.DataObject) -> None:
    outcome(state, Key("", ""))
    queue = data.draw(st.sampled_from(sorted(state.reservations.cluster_queues)))
    made: Workload = replace(data.draw(workloads(99, queue)), created=100.0)
    (pod_set,) = made.pod_sets
    pod_set = replace(pod_set, requests={name: max(1, amount) for name, amount in pod_set.requests.items()})
    asked = Submission("ns", queue, pod_sets=(pod_set,), priority=made.priority)
    for finding in of_job(asked, Lookup(state)):
        pods = mended(pod_set, finding.message)
        if pods is None:
            continue
        there = copy(state)
        if "now" not in finding.message:
            for key in list(there.workloads):
                there.set_workload(key, None)
        outcome(there, Key("", ""))
        there.set_workload(made.key, replace(made, pod_sets=(pods,)))
        assert outcome(there, made.key) != "waits", finding


PREEMPTS = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    preemption: {withinClusterQueue: LowerPriority}
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 8}]}]}]
"""
BIG = running("big", "team-a", "team-a", "6")


def waiting_text(priority_class: str, more: str = "") -> str:
    found = of_job(job(requests={"cpu": "4"}, priority_class=priority_class), world(PREEMPTS + BIG + more))
    return "; ".join(each.message for each in found)


def test_a_job_that_starts_by_preemption_gets_no_warning_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = 'asks for 4 cpu, 2 free in "team-a", 2 missing; queue position 1; ask for 2 to start now'
    assert waiting_text(
        ""
    ) == 'will wait: asks for 4 cpu, 2 free in ClusterQueue "team-a", 2 missing; queue position 1;' + (
        " ask for 2 to start now"
    )
    assert waiting_text("urgent") == ""
    monkeypatch.setattr(what_if, "HOLDERS", 0)
    assert waiting_text("urgent") == f"will wait unless it preempts: {rest}", "too many to look at"
    assert waiting_text("").startswith("will wait:"), "that is seen at a glance"


def test_feedback_does_not_change_the_state() -> None:
    lookup = world(PREEMPTS + BIG)
    tree = lookup.state.reservations.arenas[lookup.state.reservations.arena_of["team-a"]]
    before = dict(tree.queues["team-a"].usage)
    for _ in range(3):
        of_job(job(requests={"cpu": "4"}, priority_class="urgent"), lookup)
    lookup.state.check()
    assert (dict(tree.queues["team-a"].usage), tree.readers) == (before, 0)


PREFERS_PREEMPTION = """
- kind: ResourceFlavor
  metadata: {name: spot}
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    cohortName: all
    preemption: {reclaimWithinCohort: LowerPriority}
    flavorFungibility: {whenCanBorrow: TryNextFlavor, preference: PreemptionOverBorrowing}
    resourceGroups:
      - coveredResources: [cpu]
        flavors:
          - {name: standard, resources: [{name: cpu, nominalQuota: 0}]}
          - {name: spot, resources: [{name: cpu, nominalQuota: 4}]}
- kind: ClusterQueue
  metadata: {name: lender}
  spec:
    namespaceSelector: {}
    cohortName: all
    resourceGroups:
      - coveredResources: [cpu]
        flavors:
          - {name: standard, resources: [{name: cpu, nominalQuota: 8}]}
          - {name: spot, resources: [{name: cpu, nominalQuota: 0}]}
"""
BORROWER = running("theirs", "team-b", "lender", "4", flavor="spot")


@pytest.mark.parametrize(
    ("preference", "admits", "texts"),
    [
        ("PreemptionOverBorrowing", True, []),
        (
            "PreemptionOverBorrowing",
            False,
            ['will wait: ClusterQueue "team-a" cannot admit it now, by borrowing or preemption; starts automatically'],
        ),
        ("BorrowingOverPreemption", False, []),
    ],
)
def test_where_preemption_is_preferred_to_borrowing_the_cycle_itself_is_asked(
    preference: str, admits: bool, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "starts", lambda *_: admits)
    queues = PREFERS_PREEMPTION.replace("PreemptionOverBorrowing", preference)
    found = of_job(job(requests={"cpu": "4"}), world(queues + BORROWER))
    assert [each.message for each in found] == texts
