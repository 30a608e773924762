"""Jobs created together: each gets the warnings that it would get after decisions about the earlier ones."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feedback import Submission, capacity
from core.feedback.accepted import LASTS, MOST, Accepted
from core.feedback.jobs import of_job
from core.model import FlavorResource, Key, Workload
from core.state.drain import drain
from core.state.lookup import Lookup
from tests.core.feedback.world import job, waiting, world

STRICT = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    queueingStrategy: StrictFIFO
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 8}]}]}]
"""


def told(asked: Submission, lookup: object) -> list[str]:
    assert isinstance(lookup, Lookup)
    return [each.message for each in of_job(asked, lookup)]


def workload(number: int, asked: Submission) -> Workload:
    key = Key(asked.namespace, f"job-{number}")
    return Workload(key, f"uid-{number}", float(number), asked.queue, 0, asked.pod_sets)


def test_the_third_of_six_jobs_created_together_gets_a_warning_that_it_waits() -> None:
    accepted, lookup, asked = Accepted(), world(), job(requests={"cpu": "6"})
    found = []
    for number in range(6):
        found.append(told(asked, accepted.beside(lookup, 0.0)))
        accepted.add(f"uid-{number}", asked, 0.0)
    assert found[:2] == [[], []], "12 cpu can be had"
    assert [each[0].split("; ")[1] for each in found[2:]] == [
        "queue position 1",
        "queue position 2",
        "queue position 3",
        "queue position 4",
    ]
    assert found[2][0].startswith("will wait: asks for 6 cpu, 0 free in")


ASKED = st.builds(
    lambda team, cpu: job(namespace=f"team-{team}", requests={"cpu": str(cpu)}),
    st.sampled_from("ab"),
    st.integers(1, 12),
)


@given(st.lists(ASKED, max_size=6), ASKED, st.data())
def test_a_job_is_told_what_it_is_told_once_those_before_it_are_judged(
    before: list[Submission], asked: Submission, data: st.DataObject
) -> None:
    made, judged, accepted = world(), world(), Accepted()
    seen = data.draw(st.integers(0, len(before)))
    known: dict[str, Workload] = {}
    lookup = replace(made, job_workload=known.get)
    for number, each in enumerate(before):
        accepted.add(f"uid-{number}", each, 0.0)
        found = workload(number, each)
        judged.state.set_workload(found.key, found)
        list(drain(judged.state, judged.state.policy, 10.0))
        if number < seen:  # its Workload is there and the scheduler comes to it in a moment
            known[found.uid] = found
            made.state.set_workload(found.key, found)
    assert told(asked, accepted.beside(lookup, 1.0)) == told(asked, judged)


def test_behind_one_that_does_not_fit_all_wait_in_strict_order() -> None:
    accepted, lookup = Accepted(), world(STRICT)
    accepted.add("first", job(requests={"cpu": "6"}), 0.0)
    accepted.add("second", job(requests={"cpu": "6"}), 0.0)
    (text,) = told(job(requests={"cpu": "1"}), accepted.beside(lookup, 0.0))
    assert text.startswith(
        'will wait: ClusterQueue "team-a" is StrictFIFO and its first workload does not fit; queue position 2'
    )


@pytest.mark.parametrize(
    ("now", "but", "state"),
    [
        pytest.param(LASTS, "", "", id="accepted long ago"),
        pytest.param(0.0, "uid", "", id="itself, when it is changed"),
        pytest.param(0.0, "", waiting("uid", "team-a", "1", told=True), id="judged"),
    ],
)
def test_what_no_longer_counts(now: float, but: str, state: str) -> None:
    accepted, lookup = Accepted(), world(state)
    known = lookup.state.workloads.get(Key("team-a", "uid")) if state else None
    lookup = replace(lookup, job_workload=lambda uid: known)
    accepted.add("uid", job(requests={"cpu": "12"}), 0.0)
    assert accepted.beside(lookup, now, but=but) is lookup


ALONE = """
- kind: ClusterQueue
  metadata: {name: alone}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 8}]}]}]
- kind: LocalQueue
  metadata: {name: alone, namespace: team-a}
  spec: {clusterQueue: alone}
"""


def test_accepted_jobs_are_judged_only_for_an_answer_about_their_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    monkeypatch.setattr("core.feedback.accepted._judge", lambda job, *_, **__: judged.append(job.queue))
    accepted = Accepted()
    accepted.add("one", job(), 0.0)
    accepted.add("two", replace(job(), queue="alone"), 0.0)
    found = accepted.beside(world(ALONE), 0.0)
    assert not judged
    for _ in range(2):
        found.pending("alone")
        assert judged == ["alone"]
    found.available("team-b", FlavorResource("standard", "cpu"))
    assert judged == ["alone", "main"]


def test_only_the_latest_are_kept() -> None:
    accepted = Accepted()
    for number in range(MOST + 5):
        accepted.add(str(number), job(), 0.0)
    assert len(accepted) == MOST


def test_the_state_is_left_as_it_is() -> None:
    accepted, lookup = Accepted(), world()
    accepted.add("uid", job(requests={"cpu": "12"}), 0.0)
    before = told(job(), lookup)
    assert told(job(), accepted.beside(lookup, 0.0)) != before
    lookup.state.check()
    assert told(job(), lookup) == before


def test_equal_jobs_without_room_are_compared_with_the_quota_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of them costs each new job little, and each is counted all the same."""
    looked = []

    def assigned(*arguments: Any) -> Any:
        looked.append(arguments)
        return before(*arguments)

    before = capacity.assigned
    monkeypatch.setattr(capacity, "assigned", assigned)
    accepted, lookup, asked = Accepted(), world(), job(requests={"cpu": "6"})
    for number in range(50):
        accepted.add(f"uid-{number}", replace(asked, pod_sets=deepcopy(asked.pod_sets)), 0.0)
    (warning,) = told(asked, accepted.beside(lookup, 0.0))
    assert "queue position 49" in warning
    assert len(looked) == 3, "two of them start, and the third waits"
