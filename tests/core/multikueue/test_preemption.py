"""Orchestrated preemption: of the workers that must preempt others for a Workload, one after the other may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import CheckState
from api.objects import Raw
from core.actions import Patch, Wait
from core.multikueue.group import Group, Policy, Worker
from core.multikueue.mirror import workload
from core.multikueue.there import PREEMPTION_SECONDS, decide
from tests.core.multikueue.groups import AT, EARLIER, copy, group, word

ORCHESTRATED = Policy(orchestrated=True)
GATE = "kueue.x-k8s.io/multikueue"


def blocked(name: str, *, since: str = AT, opened: str = "") -> Worker:
    """A worker whose copy could be admitted by preemption; its gate is open since ``opened``."""
    found = copy(QuotaReserved="False", BlockedOnPreemptionGates=f"True/PreemptionGated@{since}")
    state = {"name": GATE, "position": "Open" if opened else "Closed", "lastTransitionTime": opened or since}
    other = {"name": "other", "position": "Closed", "lastTransitionTime": since}
    return Worker(name, workload=found | {"status": {**found["status"], "preemptionGates": [other, state]}})


def of(*workers: Worker, **more: object) -> Group:
    return group(*workers, policy=ORCHESTRATED, **more)  # type: ignore[arg-type]


def test_a_copy_has_the_gate_and_none_of_the_gates_here() -> None:
    raw = group().raw
    assert raw is not None
    given: Raw = {**raw, "spec": {**raw["spec"], "preemptionGates": [{"name": "mine"}]}}
    assert workload(given, ORCHESTRATED)["spec"]["preemptionGates"] == [{"name": GATE}]
    assert "preemptionGates" not in workload(given, Policy())["spec"]


def test_the_worker_that_reported_first_may_preempt_and_the_others_wait() -> None:
    late, early = blocked("w1"), blocked("w2", since=EARLIER)
    given = of(late, early)
    found = decide(given, early)
    assert isinstance(found, Patch) and found.target is None and found.subresource == "status"
    other, gate = found.body["status"]["preemptionGates"]
    assert gate == {"name": GATE, "position": "Open", "lastTransitionTime": AT}
    assert (other["name"], other["position"]) == ("other", "Closed")
    assert decide(given, late) == Wait(PREEMPTION_SECONDS)


def test_the_gate_opens_in_a_worker_that_could_never_admit_by_what_is_known_of_its_queues() -> None:
    alone = blocked("w1")
    assert word(decide(of(replace(alone, never="has no such flavor")), alone)) == "open gate"


@pytest.mark.parametrize(("opened", "wanted"), [(AT, Wait(300.0)), ("2027-01-15T07:58:00Z", Wait(180.0))])
def test_the_next_worker_may_preempt_five_minutes_later(opened: str, wanted: Wait) -> None:
    assert decide(of(blocked("w1", opened=opened), blocked("w2")), blocked("w2")) == wanted


def test_after_that_it_may() -> None:
    assert word(decide(of(blocked("w1", opened=EARLIER), blocked("w2")), blocked("w2"))) == "open gate"


def test_a_gate_is_opened_once_and_only_while_a_worker_is_looked_for() -> None:
    opened = blocked("w1", opened=EARLIER)
    assert decide(of(opened), opened) == Wait()
    assert decide(of(blocked("w1"), other=CheckState.PENDING), blocked("w1")) == Wait()
    assert decide(replace(of(blocked("w1")), policy=Policy()), blocked("w1")) == Wait()
