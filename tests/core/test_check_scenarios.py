"""What becomes of a Workload over several verdicts of its admission checks, by Kueue's documentation
(concepts/admission_check, KEP-993) and its workload controller.

Each row of a scenario is one event and what the Workload is when nothing is left to do. Kueue's recorded scenarios
have no admission checks.
"""

from __future__ import annotations

import pytest

from core.actions import Patch, Wait
from core.model import (
    Admission,
    CheckRule,
    ClusterQueue,
    Key,
    LocalQueue,
    PodSetAssignment,
    ResourceGroup,
    Selector,
    StopPolicy,
    Workload,
)
from core.model.owner import Owner
from core.model.workload import replace
from core.quota.checks import required_checks
from core.workload import transitions
from core.workload.actions import Surroundings
from core.workload.lifecycle import next_step

BEGIN = 10_000.0
OWNER = Owner("batch", "Job", "ns", "j")
LOCAL = LocalQueue(Key("ns", "lq"), "cq")
QUEUE = ClusterQueue(
    "cq", groups=(ResourceGroup(("cpu",), ("spot", "reserved")),), namespace_selector=Selector(), checks=()
)


class Life:
    """A Workload, its queue and a clock; ``event`` is one of those below."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.queue = QUEUE
        self.workload = Workload(Key("ns", "w"), "u", 0.0, "lq", 0, (), owner=OWNER, job_uid="j", resource_version="1")

    def happens(self, event: str) -> str:
        """Returns what the Workload is after an event."""
        match event.split():
            case ["queue", "asks", *checks]:
                rules = (each.partition("@") for each in checks)
                made = tuple(CheckRule(name, frozenset({flavor} if flavor else ())) for name, _, flavor in rules)
                self.queue = replace(self.queue, checks=made)
            case ["queue", "holds"]:
                self.queue = replace(self.queue, stop_policy=StopPolicy.HOLD)
            case ["queue", "runs"]:
                self.queue = replace(self.queue, stop_policy=StopPolicy.NONE)
            case ["reserve", *flavors]:
                flavor = flavors[0] if flavors else "spot"
                admission = Admission("cq", (PodSetAssignment("main", {"cpu": flavor}, {}, 1),))
                asked = required_checks(self.queue, admission)
                self.workload = transitions.reserved(self.workload, admission, self.now, required_checks=asked)
            case ["preempt"]:
                self.workload = transitions.preempted(self.workload, "InClusterQueue", "for another", self.now)
            case ["pods", "end"]:
                self.workload = transitions.released(self.workload, self.now)
            case ["activate"]:
                self.workload = replace(self.workload, active=True)
            case [seconds, "s"]:
                self.now += float(seconds)
            case _:
                self._verdicts(event)
        self._settle()
        return self._picture()

    def _verdicts(self, event: str) -> None:
        for verdict in event.split(", "):
            name, state, *after = verdict.split()
            delay = float(after[0]) if after else None
            self.workload = transitions.with_check_state(self.workload, name, state, "", self.now, requeue_after=delay)

    def _settle(self) -> None:
        for _ in range(10):
            around = Surroundings(
                self.now,
                local_queue=LOCAL,
                cluster_queue=self.queue,
                namespace={},
                active=self.queue.stop_policy == StopPolicy.NONE,
            )
            match next_step(self.workload, around):
                case Patch(after=Workload() as after):
                    self.workload = after
                case Patch(why="deactivate"):
                    self.workload = replace(self.workload, active=False)
                case Wait():
                    return
                case step:
                    raise AssertionError(step)
        raise AssertionError(f"never comes to rest: {self.workload}")

    def _picture(self) -> str:
        found = self.workload
        checks = (f"{each.name} {each.state}{each.retry_count or ''}" for each in found.checks)
        return "; ".join(filter(None, (self._phase(), *checks, self._backoff())))

    def _phase(self) -> str:
        found, inactive = self.workload, "" if self.workload.active else "inactive, "
        eviction = found.condition("Evicted")
        if eviction is not None and eviction.status and found.holds("QuotaReserved"):
            return f"{inactive}stops: {eviction.reason}"
        if found.holds("QuotaReserved"):
            return f"{inactive}{'admitted' if found.holds('Admitted') else 'reserved'}"
        requeued = found.condition("Requeued")
        why = f": {'' if requeued.status else 'not '}{requeued.reason}" if requeued is not None else ""
        return f"{inactive}waits{why}"

    def _backoff(self) -> str:
        at = self.workload.requeue_at
        return f"until {at - BEGIN:g}" if at is not None else ""


SCENARIOS: dict[str, list[tuple[str, str]]] = {
    "all checks are ready": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("b Ready", "reserved; a Pending; b Ready"),
        ("a Ready", "admitted; a Ready; b Ready"),
    ],
    "no check is asked for": [("reserve", "admitted")],
    "a retry without a delay: queued again as soon as its quota is released": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Retry", "stops: AdmissionCheck; a Pending1"),
        ("pods end", "waits: BackoffFinished; a Pending1"),
        ("reserve", "reserved; a Pending1"),
        ("a Retry", "stops: AdmissionCheck; a Pending2"),
        ("pods end", "waits: BackoffFinished; a Pending2"),
        ("reserve", "reserved; a Pending2"),
        ("a Ready", "admitted; a Ready2"),
    ],
    "a retry with a delay: requeueAt counts from the verdict": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Retry 60", "stops: AdmissionCheck; a Pending1; until 60"),
        ("20 s", "stops: AdmissionCheck; a Pending1; until 60"),
        ("pods end", "waits: not AdmissionCheck; a Pending1; until 60"),
        ("39 s", "waits: not AdmissionCheck; a Pending1; until 60"),
        ("1 s", "waits: BackoffFinished; a Pending1"),
    ],
    "of two delays the longer one counts": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Retry 300, b Retry 60", "stops: AdmissionCheck; a Pending1; b Pending1; until 300"),
        ("pods end", "waits: not AdmissionCheck; a Pending1; b Pending1; until 300"),
        ("60 s", "waits: not AdmissionCheck; a Pending1; b Pending1; until 300"),
        ("240 s", "waits: BackoffFinished; a Pending1; b Pending1"),
    ],
    "one retries, the other was ready: both are asked again, one retry is counted": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Ready, b Retry", "stops: AdmissionCheck; a Pending; b Pending1"),
        ("pods end", "waits: BackoffFinished; a Pending; b Pending1"),
        ("reserve", "reserved; a Pending; b Pending1"),
        ("b Ready", "reserved; a Pending; b Ready1"),
        ("a Ready", "admitted; a Ready; b Ready1"),
    ],
    "a check changes its mind about an admitted workload": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Ready", "admitted; a Ready"),
        ("a Retry 30", "stops: AdmissionCheck; a Pending1; until 30"),
        ("30 s", "stops: AdmissionCheck; a Pending1; until 30"),
        ("pods end", "waits: BackoffFinished; a Pending1"),
        ("reserve", "reserved; a Pending1"),
    ],
    "a rejection: deactivated, and asked again when it is activated": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("b Rejected", "inactive, stops: DeactivatedDueToAdmissionCheck; a Pending; b Pending"),
        ("pods end", "inactive, waits: not DeactivatedDueToAdmissionCheck; a Pending; b Pending"),
        ("activate", "waits: Reactivated; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Ready, b Ready", "admitted; a Ready; b Ready"),
    ],
    "an admitted workload is rejected": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Ready", "admitted; a Ready"),
        ("a Rejected", "inactive, stops: DeactivatedDueToAdmissionCheck; a Pending"),
    ],
    "one rejects, the other has a delay: no delay is left when it is activated": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Rejected, b Retry 300", "inactive, stops: DeactivatedDueToAdmissionCheck; a Pending; b Pending1"),
        ("pods end", "inactive, waits: not DeactivatedDueToAdmissionCheck; a Pending; b Pending1"),
        ("activate", "waits: Reactivated; a Pending; b Pending1"),
    ],
    "a rejection after retries keeps their count": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Retry", "stops: AdmissionCheck; a Pending1"),
        ("pods end", "waits: BackoffFinished; a Pending1"),
        ("reserve", "reserved; a Pending1"),
        ("a Rejected", "inactive, stops: DeactivatedDueToAdmissionCheck; a Pending1"),
    ],
    "a check is removed while quota is held: the others decide": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Ready", "reserved; a Ready; b Pending"),
        ("queue asks a", "admitted; a Ready"),
    ],
    "the only check is removed while quota is held": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("queue asks", "admitted"),
    ],
    "a check is removed in the same moment in which it asks for a retry: nothing is left of it": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("queue asks", "admitted"),
        ("a Retry", "admitted"),
    ],
    "a check is removed while its delay lasts: the delay stays, no check is left": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("a Retry 60", "stops: AdmissionCheck; a Pending1; until 60"),
        ("pods end", "waits: not AdmissionCheck; a Pending1; until 60"),
        ("queue asks", "waits: not AdmissionCheck; a Pending1; until 60"),
        ("60 s", "waits: BackoffFinished"),
        ("reserve", "admitted"),
    ],
    "a check is added while quota is held: it decides, too": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("queue asks a b", "reserved; a Pending; b Pending"),
        ("a Ready", "reserved; a Ready; b Pending"),
        ("b Ready", "admitted; a Ready; b Ready"),
    ],
    "a check is added to an admitted workload: it runs on until that fails": [
        ("reserve", "admitted"),
        ("queue asks a", "admitted; a Pending"),
        ("a Ready", "admitted; a Ready"),
        ("a Retry 60", "stops: AdmissionCheck; a Pending1; until 60"),
    ],
    "a check on one flavor is asked for that flavor only": [
        ("queue asks a b@reserved", "waits; a Pending"),
        ("reserve spot", "reserved; a Pending"),
        ("a Retry", "stops: AdmissionCheck; a Pending1"),
        ("pods end", "waits: BackoffFinished; a Pending1"),
        ("reserve reserved", "reserved; a Pending1; b Pending"),
        ("a Ready", "reserved; a Ready1; b Pending"),
        ("b Retry", "stops: AdmissionCheck; a Pending; b Pending1"),
        ("pods end", "waits: BackoffFinished; a Pending; b Pending1"),
        ("reserve reserved", "reserved; a Pending; b Pending1"),
        ("b Retry", "stops: AdmissionCheck; a Pending; b Pending2"),
        ("pods end", "waits: BackoffFinished; a Pending; b Pending2"),
        ("reserve spot", "reserved; a Pending"),
    ],
    "a workload that waits for its checks is preempted: all begin again, no retry is counted": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Ready", "reserved; a Ready; b Pending"),
        ("preempt", "stops: Preempted; a Pending; b Pending"),
        ("pods end", "waits: Preempted; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
    ],
    "a verdict after the preemption evicts no second time": [
        ("queue asks a", "waits; a Pending"),
        ("reserve", "reserved; a Pending"),
        ("preempt", "stops: Preempted; a Pending"),
        ("a Retry 60", "stops: Preempted; a Retry; until 60"),
        ("pods end", "waits: Preempted; a Retry; until 60"),
    ],
    "a stopped queue takes quota back, no verdict": [
        ("queue asks a b", "waits; a Pending; b Pending"),
        ("reserve", "reserved; a Pending; b Pending"),
        ("a Ready", "reserved; a Ready; b Pending"),
        ("queue holds", "waits; a Ready; b Pending"),
        ("queue runs", "waits; a Ready; b Pending"),
        ("reserve", "reserved; a Ready; b Pending"),
        ("b Ready", "admitted; a Ready; b Ready"),
    ],
}


@pytest.mark.parametrize("case", SCENARIOS)
def test_what_a_workload_is_after_each_event(case: str) -> None:
    life = Life()
    events = [event for event, _ in SCENARIOS[case]]
    assert [(event, life.happens(event)) for event in events] == SCENARIOS[case]
