"""What a dry run says of a job: exactly what a cycle then does."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from core.feedback.jobs import of_job
from core.feedback.rules import LIMIT
from core.feedback.submission import OF_JOB, Submission
from core.model import Key, Reserve, StayPending, Workload
from core.model.forecast import StartForecast
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Head
from core.state import what_if
from tests.builders import NOW
from tests.core.feedback.world import job, running, waiting, world
from tests.core.worlds import RESOURCES, worlds
from tests.effort import cases


def queue(name: str, **spec: Any) -> str:
    """A ClusterQueue of the cohort with 8 cpu, and its LocalQueue `main`."""
    flavor = {"name": "standard", "resources": [{"name": "cpu", "nominalQuota": 8}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    fields = {"cohortName": "research", "namespaceSelector": {}, "resourceGroups": groups, **spec}
    local = {"kind": "LocalQueue", "metadata": {"name": "main", "namespace": name}, "spec": {"clusterQueue": name}}
    listed: list[Any] = [{"kind": "ClusterQueue", "metadata": {"name": name}, "spec": fields}, local]
    return "".join(f"- {json.dumps(each)}\n" for each in listed)


RECLAIMS = queue("team-a", preemption={"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"})
BORROWED = RECLAIMS + queue("team-b") + running("x", "team-b", "team-b", "8") + running("y", "team-b", "team-b", "8")
LENT = RECLAIMS + queue("team-b") + "".join(running(f"j{n}", "team-b", "team-b", "4") for n in range(4))
CHECKED = queue("team-a", admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}) + "".join(
    f"- {json.dumps(each)}\n"
    for each in (
        {
            "kind": "AdmissionCheck",
            "metadata": {"name": "budget"},
            "spec": {"controllerName": "example.com/budget"},
            "status": {"conditions": [{"type": "Active", "status": "True"}]},
        },
    )
)


def dry(submitted: Submission) -> Submission:
    return replace(submitted, dry_run=True)


CASES = [
    pytest.param(
        dry(job(requests={"cpu": "4"})),
        "",
        "dry-run",
        'would start now, in flavor "standard"',
        id="it fits",
    ),
    pytest.param(
        dry(job(requests={"cpu": "8"})),
        LENT,
        "dry-run",
        'would start now by preempting 2 workloads of other ClusterQueues, in flavor "standard"',
        id="it takes back what others borrow",
    ),
    pytest.param(
        dry(job(requests={"cpu": "8"})),
        BORROWED,
        "dry-run",
        'would start now by preempting 1 workload of another ClusterQueue, in flavor "standard"',
        id="one victim is enough",
    ),
    pytest.param(
        dry(job(requests={"cpu": "4"})),
        CHECKED,
        "dry-run",
        'would get quota now, in flavor "standard"; AdmissionCheck "budget" decides then',
        id="a check decides after quota",
    ),
    pytest.param(
        dry(job(requests={"cpu": "2"})),
        waiting("big", "team-a", "40"),
        "dry-run",
        'would start now, in flavor "standard", if the workload before it does not',
        id="another one waits before it",
    ),
    pytest.param(
        dry(replace(job(requests={"cpu": "2"}), units=4, words=replace(OF_JOB, pods="replicas"))),
        "",
        "dry-run",
        'one of the 4 pods would start now, in flavor "standard"',
        id="pods that are queued one by one",
    ),
    pytest.param(dry(job(requests={"cpu": "40"})), "", "dry-run", "", id="it never starts, which another rule says"),
    pytest.param(
        dry(job(requests={"cpu": "4"})),
        running("one", "team-a", "team-a", "12"),
        "dry-run",
        "",
        id="it waits, which another rule says",
    ),
    pytest.param(job(requests={"cpu": "4"}), "", "dry-run", "", id="it is created"),
    pytest.param(
        dry(job(requests={"cpu": "4"})),
        queue("team-a", stopPolicy="Hold"),
        "dry-run",
        "",
        id="the queue is stopped",
    ),
]


@pytest.mark.parametrize(("submitted", "more", "rule", "message"), CASES)
def test_a_dry_run_says_what_would_happen(submitted: Submission, more: str, rule: str, message: str) -> None:
    found = [each.message for each in of_job(submitted, world(more)) if each.rule == rule]
    assert found == ([message] if message else [])


@pytest.mark.parametrize("submitted", [job(requests={"cpu": str(n)}) for n in (1, 6, 9, 12, 40)])
@pytest.mark.parametrize("more", ["", BORROWED, LENT, running("one", "team-a", "team-a", "8")])
def test_all_else_that_is_said_is_the_same_without_a_dry_run(submitted: Submission, more: str) -> None:
    lookup = world(more)
    said = [each for each in of_job(dry(submitted), lookup) if each.rule != "dry-run"]
    assert said == list(of_job(submitted, lookup))


@pytest.mark.parametrize("length", [20, 63, 253])
def test_names_of_any_length_leave_the_answer_readable(length: int) -> None:
    name = "team-" + "b" * (length - 5)
    flavor = f"- {json.dumps({'kind': 'ResourceFlavor', 'metadata': {'name': name}})}\n"
    lent = (flavor + RECLAIMS + queue(name) + running("x", name, name, "8") + running("y", name, name, "8")).replace(
        '"name": "standard"', f'"name": "{name}"'
    )
    for submitted, more in ((job(requests={"cpu": "8"}), lent), (job(requests={"cpu": "2"}), lent[:0])):
        found = [each.message for each in of_job(dry(submitted), world(more)) if each.rule == "dry-run"]
        assert len(found) <= 1
        assert all("would start now" in each and len(each) <= LIMIT for each in found)


def test_what_takes_too_long_to_compute_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "HOLDERS", 1)
    found = of_job(dry(job(requests={"cpu": "1"})), world(LENT))
    assert [each.message for each in found if each.rule == "dry-run"] == [
        "the number of workloads with quota is too large to say in time whether it would start now"
    ]


@settings(max_examples=cases(100, 2000))
@given(worlds(), st.integers(0, 9), st.integers(0, 4))
def test_the_outcome_is_what_the_cycle_decides_and_what_it_admits_when_the_victims_are_gone(
    found: Any, amount: int, priority: int
) -> None:
    for name in found.reservations.cluster_queues:
        if not found.reservations.active_condition(name).active:
            continue
        pod_sets = found.workloads[min(found.workloads)].pod_sets[:1]
        pod_sets = (structs.replace(pod_sets[0], count=1, min_count=None, requests=dict.fromkeys(RESOURCES, amount)),)
        newcomer = Workload(Key("ns", ""), "", math.inf, name, priority, pod_sets)
        outcome = what_if.outcome(found, name, newcomer)
        assert outcome is not None
        head = Head(newcomer, name, found.pending.demands.of(newcomer), math.inf)
        snapshot = found.snapshot()
        (decision,) = schedule(snapshot, [head], found.policy, NOW).decisions
        found.release(snapshot)
        if isinstance(decision, Reserve):
            assert (outcome.admission, outcome.victims) == (decision.admission, ())
        else:
            assert isinstance(decision, StayPending)
            assert outcome.victims == decision.victims
            assert outcome.admission is None or decision.victims
        found.check()


def test_a_job_that_asks_for_too_much_is_told_so_once() -> None:
    never = StartForecast(Key("team-a", "0?"), "team-a", 0.0, unknown="never: insufficient quota", never=True)
    found = of_job(dry(job(requests={"cpu": "40"})), replace(world(""), newcomer_forecast=lambda *_: never))
    assert [each.rule for each in found] == ["request-too-large"]
