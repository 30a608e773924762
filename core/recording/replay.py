"""Plays a recording through the core, and says where it decides differently.

The State of the replay gets what the recorded one got, in the same order, and the recorded decisions are applied to it;
so that one difference does not cause all that follow. Each cycle is decided again from the recorded heads. In a
recording that begins with the process the heads are compared too; one that begins later does not have the order in
which parked workloads are woken.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple, assert_never

from core.model import Decision, Key, Plan, Workload
from core.model.workload import replace
from core.quota.usage import Reservation
from core.recording import entries as form
from core.recording.entries import Decided, DecisionRecord, HeadRecord, Opening, RecordingEntry, Taken
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Head, Snapshot
from core.state.state import State


class NoRecordingError(ValueError):
    """These entries are no recording; the message says why."""


class ReplayedCycle(NamedTuple):
    """One cycle of a replay: what was recorded, and what is decided now. ``heads_differ`` has the recorded heads and
    those that State takes now, if they are not the same.
    """

    at: float
    cycle: int
    recorded: tuple[DecisionRecord, ...]
    now: tuple[DecisionRecord, ...]
    heads_differ: tuple[tuple[HeadRecord, ...], tuple[HeadRecord, ...]] | None = None

    @property
    def differs(self) -> bool:
        """Whether anything is decided differently."""
        return self.recorded != self.now or self.heads_differ is not None


class Replay:
    """``state`` is the State so far. ``play`` yields every cycle."""

    def __init__(self) -> None:
        self.state = State()
        self.at = 0.0
        self._complete = False
        self._shapes: dict[int, Workload] = {}
        self._taken: Taken | None = None
        self._snapshot: Snapshot | None = None
        self._heads: tuple[Head, ...] = ()
        self._chosen: tuple[Head, ...] = ()
        self._victims: Mapping[Key, Workload] = {}
        self._applying: Iterator[None] = iter(())
        self._applied = 0

    def play(self, recording: Iterable[RecordingEntry]) -> Iterator[ReplayedCycle]:
        """Plays all entries; raises ``NoRecordingError`` if they do not begin with an Opening."""
        opened = False
        for entry in recording:
            if isinstance(entry, Opening):
                if not opened:
                    self._open(entry)
                    opened = True
                continue  # of a later file: this State goes on
            if not opened:
                raise NoRecordingError("the recording does not begin with an opening")
            yield from self._step(entry)

    def _open(self, found: Opening) -> None:
        self._complete, self.at = found.complete, found.at
        self.state = state = State(found.policy)
        for name, labels in found.namespaces.items():
            state.set_namespace(name, labels)
        for name, topology in found.topologies.items():
            state.set_topology(name, topology)
        for name, flavor in found.flavors.items():
            state.set_flavor(name, flavor)
        for name, check in found.checks.items():
            state.set_admission_check(name, check)
        for name, cohort in found.cohorts.items():
            state.set_cohort(name, cohort)
        for name, queue in found.cluster_queues.items():
            state.set_cluster_queue(name, queue)
        for local in found.local_queues:
            state.set_local_queue(local.key, local)
        for key, consumed in found.consumed:
            state.local_queue_usage.set_consumed(key, consumed)
        for node in found.nodes:
            state.set_node(node.name, node)
        for name, requests in found.others.items():
            state.set_other_pods(name, requests)
        for workload in found.workloads:
            state.set_workload(workload.key, workload)
        state.restore(found.cycle, found.holding, found.evicting)
        for key, local_queue, penalty in found.penalties:
            state.local_queue_usage.ledger.charge(key, local_queue, penalty)
            state.local_queue_usage.update(local_queue)

    def _step(self, entry: RecordingEntry) -> Generator[ReplayedCycle, None, None]:
        state = self.state
        match entry:
            case form.PodSetsShared(number, pod_sets):
                self._shapes[number] = Workload(Key("", ""), "", 0.0, "", 0, pod_sets)
            case form.WorkloadSet(workload, shape):
                if shape >= 0:
                    workload = replace(workload, pod_sets=self._shapes[shape].pod_sets)
                state.set_workload(workload.key, workload)
            case form.WorkloadGone(key):
                state.set_workload(key, None)
            case form.FlavorSet(name, flavor):
                state.set_flavor(name, flavor)
            case form.TopologySet(name, topology):
                state.set_topology(name, topology)
            case form.NodeSet(name, node):
                state.set_node(name, node)
            case form.OthersSet(name, requests):
                state.set_other_pods(name, requests)
            case form.CheckSet(name, check):
                state.set_admission_check(name, check)
            case form.CohortSet(name, cohort):
                state.set_cohort(name, cohort)
            case form.ClusterQueueSet(name, queue):
                state.set_cluster_queue(name, queue)
            case form.LocalQueueSet(key, local):
                state.set_local_queue(key, local)
            case form.NamespaceSet(name, labels):
                state.set_namespace(name, labels)
            case form.ConsumedSet(key, consumed):
                state.local_queue_usage.set_consumed(key, consumed)
            case form.UsageSampled(at):
                state.local_queue_usage.sample(at)
            case form.DecisionWithdrawn(key, not_before):
                state.unassume(key, not_before)
            case form.Stopped():
                state.stop_until_changed()
            case Taken():
                self._take(entry)
            case Decided():
                yield self._decide(entry)
            case form.Applied(number):
                self._apply(number)
            case Opening():
                pass
            case _:
                assert_never(entry)

    def _take(self, taken: Taken) -> None:
        """Takes the recorded heads, and a snapshot."""
        state, self._taken, self.at = self.state, taken, taken.at
        state.restore(taken.cycle, (), ())
        self._chosen = state.heads(taken.at)
        for name, generation in taken.generations.items():
            if name in state.reservations.arenas:
                state.reservations.arenas[name].generation = generation
        self._heads = tuple(head for each in taken.heads if (head := self._head(each)) is not None)
        self._snapshot = state.snapshot() if taken.heads else None
        self._victims = {}

    def _head(self, record: HeadRecord) -> Head | None:
        pending, entry = self.state.pending, self.state.pending.entry(record.key)
        held = self.state.reservations.get(record.key) if record.second_pass else None
        found = held or entry
        if found is None:
            return None
        workload = found.workload
        flags = (record.preemptor, record.blocked, record.second_pass)
        return Head(workload, record.cluster_queue, pending.demands.of(workload), record.time, record.tried, *flags)

    def _decide(self, found: Decided) -> ReplayedCycle:
        """Decides the cycle again, and begins to apply the recorded decisions."""
        taken, snapshot = self._taken, self._snapshot
        if taken is None or snapshot is None:
            raise NoRecordingError("the recording has decisions about heads that it does not have")
        plan = schedule(snapshot, self._heads, self.state.policy, taken.at)
        held = {each.workload.key: each for arena in snapshot.arenas.values() for each in _reservations(arena.queues)}
        self.state.release(snapshot)
        self._snapshot = None
        workloads = {head.workload.key: head.workload for head in self._heads}
        victims = {key: each.workload for key, each in held.items()}
        decisions: list[Decision] = [
            form.decided(each, workloads[each.key], victims) for each in found.decisions if each.key in workloads
        ]
        self._applying, self._applied = self.state.applying(Plan(tuple(decisions))), 0
        chosen = tuple(map(form.head_record, self._chosen))
        differ = (taken.heads, chosen) if self._complete and chosen != taken.heads else None
        return ReplayedCycle(taken.at, taken.cycle, found.decisions, form.planned(plan).decisions, differ)

    def _apply(self, number: int) -> None:
        if number < 0:
            for _ in self._applying:
                pass
            return
        while self._applied < number:
            next(self._applying, None)
            self._applied += 1


def _reservations(queues: Mapping[str, object]) -> Iterator[Reservation]:
    for node in queues.values():
        yield from getattr(node, "reserved", {}).values()
