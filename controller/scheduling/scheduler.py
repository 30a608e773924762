"""Steps 6 and 7 of docs/architecture.md: runs a cycle when a change could admit a workload, and writes its decisions.

``core.scheduling.cycle`` makes the decision. This module does the rest: it wakes the cycle (without polling), writes
reservations and evictions in parallel, each guarded by the version of the object that was decided, and withdraws a
decision when its write failed. State counts a reservation immediately, so the next cycle never gives the same quota
twice while a write is in progress. Why the others wait is written by ``controller.scheduling.reasons``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import structlog

from api import names, resources
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.errors import ApiError, Conflict, Fenced, NotFound, Unreachable, may_have_happened
from controller.kube.flow import limits
from controller.kube.flow.budget import Budget
from controller.kube.flow.decisions import Decisions
from controller.kube.flow.pressure import Pressure
from controller.metrics.counters import QueueingMetrics
from controller.scheduling.reasons import WaitReasons
from core.model import Key, Plan, Reserve, StayPending, Victim, Workload, events
from core.queue.order import queue_time
from core.queue.routing import queueable, still_judged
from core.quota.placement import needs_second_pass
from core.state.drain import drain_in_steps
from core.wire.conditions import status_patch
from core.workload import transitions
from core.workload.lifecycle import shows_gate

log = structlog.get_logger(__name__)

SLICE_SECONDS = 0.002
"""The time after which a cycle yields to other tasks."""
DRAIN_SECONDS = 1.0
"""The time after which a drain is ended and started again, so that backoffs end in time even with long queues."""
ATTEMPTS = 5
"""How often a decision is written again at a new version of its workload before it is taken back."""
REFUSED_SECONDS, LONGEST_REFUSED_SECONDS = 0.05, 30.0
"""How long a workload is not decided after its second consecutive refusal; doubles with each further one."""
LONGEST_CALL_SECONDS = 60.0
"""An API server ends a call after this time (its ``--request-timeout``): a write that was not answered may happen until
then, also after a read that does not show it, as long as its object has the version that it was sent for. It is sent
again for as long, then only read, and withdrawn this time after it was sent last. A new leader does not know of writes
that the one before had under way: such a write would have to be made more than 15 s after it was sent.
"""
EDITS_SECONDS = 1.0
"""Edits of quota in quick succession are handled together, once in this time; the first one immediately."""


Settlement = Callable[[Workload | None], tuple[Workload, Callable[[], None]] | None]
"""Applies a decision to the present workload (None: it is gone): returns the workload after it and the events; None if
the decision is void.
"""


class RefusedError(Exception):
    """The API server refuses a decision; the message has the reason."""


class _Unanswered(NamedTuple):
    """Writes without a definite answer: one of them may be stored until ``until``, as long as the object has this
    version. The first was sent at ``since``, both by a monotonic clock.
    """

    uid: str
    version: str
    since: float
    until: float


class Scheduler:
    """Owns the cycle. ``run`` while this process leads; ``wake`` whenever a cache changed. ``clock`` is wall time."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        metrics: QueueingMetrics,
        *,
        follow_pods: bool = False,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caches = caches
        self.follow_pods = follow_pods
        self.state = caches.state
        self.writer = writer
        self.recorder = recorder
        self.metrics = metrics
        self.clock = clock
        self._monotonic = monotonic
        self.cycles = 0
        self.taken_back: Callable[[Key], None] = lambda key: None
        self.entering: Callable[[], Iterator[None]] = lambda: iter(())
        """Enters, in steps, what State gets together and a decision must know."""
        self._woken = asyncio.Event()
        self._edits_due = 0.0
        self._edits_wait = False
        """Quota was edited since the last cycle began, and no cycle has started for it yet."""
        self._reserving: dict[Key, Reserve] = {}
        self._evicting: dict[Key, tuple[Victim, StayPending]] = {}
        self._outcome_unknown: dict[Key, _Unanswered] = {}
        self._refusals: dict[Key, int] = {}
        self._decided = Decisions()
        self.budget = budget or Budget(Pressure())
        self.reasons = WaitReasons(caches, writer, recorder, self.budget, clock=clock)

    @property
    def _by_prefix(self) -> bool:
        topology = self.state.policy.topology
        return topology is None or topology.encoded_by_prefix

    @property
    def urgent(self) -> bool:
        """Whether more reservations or evictions wait to be written than the next cycle waits for."""
        return self._decided.urgent

    def wake(self) -> None:
        """Something changed that a cycle may depend on."""
        self._woken.set()

    def edited(self) -> None:
        """Quota was edited. A manifest or a script changes many objects, or one object many times: a cycle after each
        change would decide all waiting workloads again and again.
        """
        now = self.clock()
        self._edits_wait = True
        if not 0 < self._edits_due - now <= EDITS_SECONDS:
            self._edits_due = now + EDITS_SECONDS
            self.wake()

    def forget(self, key: Key) -> None:
        """The workload is gone: nothing about it is kept."""
        self.reasons.drop(key)
        self._refusals.pop(key, None)
        self._outcome_unknown.pop(key, None)

    async def run(self) -> None:
        """Decide and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cycles(), name="scheduler-cycles")
            group.create_task(self._decided.run(limits.DECIDED_WRITES, self._write_decided), name="scheduler-decided")
            group.create_task(self.reasons.run(), name="scheduler-reasons")

    async def _cycles(self) -> None:
        while True:
            await self._until_woken()
            for _ in self.entering():
                await asyncio.sleep(0)
            started = began = resumed = time.monotonic()
            for plan in drain_in_steps(self.state, self.state.policy, self.clock()):
                if time.monotonic() - resumed >= SLICE_SECONDS:  # webhooks and watches come before the next head
                    await asyncio.sleep(0)
                    resumed = time.monotonic()
                if plan is None:
                    continue
                self.cycles += 1
                contended = self._dispatch(plan)
                self.metrics.cycle(plan, time.monotonic() - began)
                await asyncio.sleep(0)  # and before the next plan
                await self._decided.written(contended=contended)
                began = resumed = time.monotonic()
                if began - started >= DRAIN_SECONDS:  # go on with the time as it is now
                    self.wake()
                    break

    async def _until_woken(self) -> None:
        """Waits for a change, for the end of the earliest backoff, or for the time at which edits are handled
        together.
        """
        now = self.clock()
        due = [self._edits_due] if self._edits_wait or self._edits_due > now else []
        wake_at = min(
            [*due, *([earliest] if (earliest := self.state.next_wake(now)) is not None else [])], default=None
        )
        try:
            async with asyncio.timeout(None if wake_at is None else max(0.0, wake_at - now)):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._edits_wait = False
        self._woken.clear()

    def _dispatch(self, plan: Plan) -> bool:
        """Queues each decision of a plan for its write; returns whether workloads wait for quota that others use."""
        contended = withdrawn = False
        for decision in plan.decisions:
            key = decision.workload.key
            if isinstance(decision, Reserve):
                if not self.state.assumed(key):
                    continue  # it changed during the cycle: another cycle will decide it
                self.reasons.drop(key)
                self._reserving[key] = decision
                self._decided.add(key)
                continue
            contended = True
            if not decision.second_pass:
                self.reasons.add(decision)
            elif not decision.postponed and not decision.victims:
                self._event(decision.workload, events.second_pass_failed(decision.message))
            for victim in filter(lambda victim: self.state.is_evicting(victim.workload.key), decision.victims):
                withdrawn |= self._preempt(victim, decision)
        return contended and not withdrawn

    def _preempt(self, victim: Victim, preemptor: StayPending) -> bool:
        """Queues the eviction of a victim; if its reservation has certainly not been written yet, withdraws that
        instead: nobody has seen it, and the preemptor need not wait. Returns whether it was withdrawn. The domains of
        a second pass are not written any more, but the quota was held before.
        """
        key = victim.workload.key
        reserve = self._reserving.get(key)
        if reserve is not None and (reserve.second_pass or key not in self._outcome_unknown):
            del self._reserving[key]
            if not reserve.second_pass:
                self._take_back(key)
                return True
        self._evicting[key] = (victim, preemptor)
        self._decided.add(key)
        return False

    async def _write_decided(self, key: Key) -> None:
        sent = self._outcome_unknown.get(key)
        if sent is not None:
            never_made = await self._read_back(key, sent)
            if never_made and key in self._reserving:
                error = RefusedError(f"it was not answered for {LONGEST_CALL_SECONDS:g} s")
                del self._reserving[key]
                self._evicting.pop(key, None)
                self._take_back(key, not_before=self._refused(key, error))
                return
            if key in self._outcome_unknown and self._monotonic() >= sent.since + LONGEST_CALL_SECONDS:
                raise Unreachable(0, "Unanswered", f"the status of {key} is not written again before its end is known")
        if key in self._reserving:
            await self._reserve(key)
        eviction = self._evicting.pop(key, None)
        if eviction is not None:
            try:
                await self._settle(
                    key, lambda workload: self._preempted(workload, *eviction) if workload is not None else None
                )
            except Exception:  # the preemptor waits for this victim, however long: taken back it would be chosen again
                self._evicting.setdefault(key, eviction)
                raise

    async def _reserve(self, key: Key) -> None:
        """Writes a reservation, unless it is withdrawn before its turn."""
        reserve: Reserve | None = None

        def change(workload: Workload | None) -> tuple[Workload, Callable[[], None]] | None:
            nonlocal reserve
            reserve = self._reserving.pop(key, reserve)
            if workload is None or reserve is None or not self.state.assumed(key):  # withdrawn: others may have it now
                return None
            return self._reserved(workload, reserve)

        try:
            await self._settle(key, change)
        except ApiError:  # the read failed too: the decision is kept and read again with backoff
            if reserve is not None:
                self._reserving.setdefault(key, reserve)
            raise
        except Exception as error:
            self._take_back(key, not_before=self._refused(key, error))

    async def _settle(self, key: Key, change: Settlement) -> None:
        """Writes one decision about a workload; if that fails, withdraws it, so that the next cycle decides again.

        If the workload changed meanwhile, but nothing that the decision depends on, it is written again with the new
        version. Raises ``RefusedError`` if the API server refuses it again and again, or for good, ``ApiError`` if the
        outcome is unknown: it may still be at an attempt that was not answered, although a read shows no change.
        """
        last: ApiError | None = None
        for _ in range(ATTEMPTS):
            before: Workload | None = None
            try:
                async with self.writer.turn(key.namespace, first=True):  # what is decided while it waits counts
                    before = self.caches.get(key)
                    changed = change(before)
                    if before is None or changed is None:
                        sent = self._outcome_unknown.get(key)
                        if sent is not None and (before is None or before.resource_version != sent.version):
                            del self._outcome_unknown[key]
                        break
                    after, report = changed
                    patch = status_patch(before, after, by_prefix=self._by_prefix)
                    if patch is None:
                        break
                    raw = self.caches.workloads.get(key) or {}
                    if after.admission is not None and (raw.get("status") or {}).get("resourceRequests"):
                        patch["status"]["resourceRequests"] = None  # they report the requests while it waits
                    await self.writer.patch(resources.WORKLOADS, key, patch, subresource="status")
            except ApiError as error:
                if before is not None and not isinstance(error, Fenced):  # nothing was sent then: nothing to be learned
                    await self._read_back(key, self._failed(key, before, error))
                if not isinstance(error, Conflict | Unreachable | NotFound):
                    if key in self._outcome_unknown:
                        raise
                    raise RefusedError(str(error)) from error
                log.info("decision not written", workload=str(key), error=str(error))
                last = error
            else:
                self._outcome_unknown.pop(key, None)  # an earlier attempt was for an older version
                self._refusals.pop(key, None)
                report()
                return
        else:
            if last is not None and key in self._outcome_unknown:
                raise last
            raise RefusedError(f"it was not the newest version in {ATTEMPTS} attempts")
        self._take_back(key)

    def _failed(self, key: Key, before: Workload, error: ApiError) -> _Unanswered:
        """What is known of a write that failed."""
        since = self._monotonic()
        until = since + LONGEST_CALL_SECONDS if may_have_happened(error) else since
        earlier = self._outcome_unknown.get(key)
        if earlier is not None and (earlier.uid, earlier.version) == (before.uid, before.resource_version):
            since, until = earlier.since, max(until, earlier.until)
        return _Unanswered(before.uid, before.resource_version, since, until)

    async def _read_back(self, key: Key, sent: _Unanswered) -> bool:
        """A write failed, or its outcome is unknown: reads the object again before anything else is decided about it.
        Returns whether the object is as it was, and no write can change it any more.

        If the read raises, the key is queued again: no writer waits here for an API server that does not answer.
        """
        self._outcome_unknown[key] = sent
        found = await self.writer.refreshed(resources.WORKLOADS, key, sent.uid)
        unchanged = found is not None and found["metadata"]["resourceVersion"] == sent.version
        over = self._monotonic() >= sent.until
        if over or not unchanged:
            self._outcome_unknown.pop(key, None)
        return over and unchanged

    def _refused(self, key: Key, error: Exception) -> float:
        """A decision cannot be written: until when it is not taken again. Its quota is others' till then."""
        count = self._refusals[key] = self._refusals.get(key, 0) + 1
        wait = min(REFUSED_SECONDS * 2.0 ** min(count - 2, 40), LONGEST_REFUSED_SECONDS) if count > 1 else 0.0
        log.warning("decision refused", workload=str(key), error=repr(error), again_seconds=wait)
        return self.clock() + wait

    def _take_back(self, key: Key, not_before: float = 0.0) -> None:
        if (
            key not in self._reserving and key not in self._evicting
        ):  # it was decided again meanwhile: that decision is kept
            self.state.unassume(key, not_before)
        self.taken_back(key)
        self.wake()

    def _reserved(self, workload: Workload, decision: Reserve) -> tuple[Workload, Callable[[], None]] | None:
        """The workload with the reservation, unless it is no longer the one that was judged."""
        judged = decision.workload
        if decision.second_pass:
            return self._placed(workload, decision)
        held = workload.holds(names.Condition.QUOTA_RESERVED)  # an admission alone may be left from an earlier one
        if not still_judged(judged, workload) or not queueable(workload) or held:
            return None
        now = self.clock()
        checks = self.state.required_checks(decision.admission)
        after = transitions.reserved(workload, decision.admission, now, required_checks=checks)
        if self.follow_pods:
            after = transitions.pods_awaited(after, now)
        queued = queue_time(workload, self.state.policy)
        cluster_queue = decision.admission.cluster_queue

        def report() -> None:
            waited = now - queued
            log.info("quota reserved", workload=str(workload.key), cluster_queue=cluster_queue)
            if shows_gate(workload):  # decided before its end was in the status
                self._event(workload, events.gate_cleared())
            self._event(workload, events.quota_reserved(cluster_queue, waited, decision.considered))
            if after.holds(names.Condition.ADMITTED):
                self._event(workload, events.admitted(cluster_queue, 0.0))

        return after, report

    def _placed(self, workload: Workload, decision: Reserve) -> tuple[Workload, Callable[[], None]] | None:
        """The workload with the domains of its second pass, unless it is no longer as it was judged."""
        judged = decision.workload
        same = (workload.uid, workload.admission) == (judged.uid, judged.admission)
        if not same or not needs_second_pass(workload):
            return None
        now = self.clock()
        after = transitions.placed(workload, decision.admission, now)
        admitted = after.holds(names.Condition.ADMITTED) and not workload.holds(names.Condition.ADMITTED)
        if admitted and self.follow_pods:
            after = transitions.pods_awaited(after, now)

        def report() -> None:
            log.info("placed in topology", workload=str(workload.key), failed_nodes=list(judged.unhealthy_nodes))
            if admitted:
                self._event(workload, events.admitted_by_checks(after, now))

        return after, report

    def _preempted(
        self, workload: Workload, victim: Victim, preemptor: StayPending
    ) -> tuple[Workload, Callable[[], None]] | None:
        """The workload evicted for another, unless it is on its way, has finished or is gone already."""
        ended = workload.holds(names.Condition.EVICTED) or workload.holds(names.Condition.FINISHED)
        if workload.uid != victim.workload.uid or workload.admission is None or ended:
            return None
        migrates = victim.reason == names.EvictedReason.FLAVOR_MIGRATION
        failed = victim.reason == names.EvictedReason.NODE_FAILURES
        change = transitions.evicted if migrates or failed else transitions.preempted
        after = change(workload, victim.reason, victim.message, self.clock())

        def report() -> None:
            if failed:
                log.info("evicted", workload=str(workload.key), reason=victim.reason)
                self._event(workload, events.evicted(victim.reason, victim.message))
                return
            if migrates:
                log.info("migrated", workload=str(workload.key), to=str(preemptor.workload.key), reason=victim.reason)
                self._event(workload, events.evicted(victim.reason, victim.message))
                return
            log.info("preempted", workload=str(workload.key), by=str(preemptor.workload.key), reason=victim.reason)
            self._event(workload, events.evicted_by_preemption(victim))
            self._event(workload, events.preempted(victim, preemptor.workload))
            self._event(preemptor.workload, events.preempted_other(victim, preemptor.workload))
            self.metrics.preempted(preemptor.cluster_queue, victim.reason)

        return after, report

    def _event(self, workload: Workload, event: events.Event) -> None:
        self.recorder.record(resources.WORKLOADS, workload.key, workload.uid, event)
