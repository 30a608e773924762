"""A recording replays without a difference, whatever changes between the steps of its cycles, and from wherever it
begins; and a difference is found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.model import Key, LocalQueue, ResourceFlavor
from core.model.policy import SchedulingPolicy
from core.recording.encoding import RecordingEncoder, decoded
from core.recording.entries import MAGIC, Decided, Opening, RecordingEntry
from core.recording.recorded import RecordedState, RecordedUsage
from core.recording.replay import NoRecordingError, Replay
from core.state.drain import drain_in_steps
from core.state.local_queue_usage import LocalQueueUsage
from core.state.state import State
from core.wire.timestamps import stamp
from core.workload import transitions
from tests.builders import cluster_queue, workload
from tests.core.worlds import crowded, worlds
from tests.effort import cases


def recorded(state: State, play: Callable[[RecordedState], None]) -> list[RecordingEntry]:
    """The entries of a State with the objects of another one, to which something happens."""
    found: list[Callable[[], RecordingEntry]] = []
    made = RecordedState(state.policy, found.append)
    for name, labels in state.namespaces.items():
        made.set_namespace(name, labels)
    for name, flavor in state.reservations.flavors.items():
        made.set_flavor(name, flavor)
    for name, cohort in state.reservations.cohorts.items():
        made.set_cohort(name, cohort)
    for name, queue in state.reservations.cluster_queues.items():
        made.set_cluster_queue(name, queue)
    for key, local in state.pending.local_queues.items():
        made.set_local_queue(key, local)
    for key, each in state.workloads.items():
        made.set_workload(key, each)
    play(made)
    return through_bytes(entry() for entry in found)


def through_bytes(entries: Iterator[RecordingEntry]) -> list[RecordingEntry]:
    encoder, data = RecordingEncoder(), MAGIC
    batch: list[RecordingEntry] = []
    for entry in entries:
        if isinstance(entry, Opening) and batch:
            data += encoder.chunk(batch)
            batch = []
        batch.append(entry)
    return list(decoded(data + encoder.chunk(batch)))


def busy(chance: random.Random, rounds: int) -> Callable[[RecordedState], None]:
    """Cycles, between whose steps objects change as an API server and a clock would have them do."""

    def play(state: RecordedState) -> None:
        now, number = 10.0, 100
        for _ in range(rounds):
            now += chance.choice([0.0, 0.5, 1.0, 30.0])
            for _plan in drain_in_steps(state, state.policy, now):
                while chance.random() < 0.3:
                    number += 1
                    change(state, chance, now, number)
            state.open_again = chance.random() < 0.3
            state.check()

    return play


def change(state: RecordedState, chance: random.Random, now: float, number: int) -> None:
    keys = sorted(state.workloads)
    key = chance.choice(keys) if keys else Key("ns", "none")
    known, held = state.workloads.get(key), state.reservations.get(key)
    match chance.randrange(7):
        case 0:
            state.set_workload(key, None)
        case 1 if known is not None and held is not None and state.assumed(key) and held.workload.admission:
            state.set_workload(key, transitions.reserved(known, held.workload.admission, now))
        case 2 if state.assumed(key) or state.is_evicting(key):
            state.unassume(key, chance.choice([0.0, now + 1.0]))
        case 3 if known is not None and state.is_evicting(key) and known.admission is not None:
            gone = transitions.preempted(known, "InClusterQueue", "", now)
            state.set_workload(key, chance.choice([gone, transitions.released(gone, now)]))
        case 4:
            queue = chance.choice(sorted(state.pending.local_queues))
            added = workload(f"new-{number}", chance.randrange(1, 9), queue=queue.name, created=now)
            state.set_workload(added.key, added)
        case 5:
            name = chance.choice(sorted(state.reservations.cluster_queues))
            found = state.reservations.cluster_queues[name]
            quotas = {fr: replace(quota, nominal=chance.randrange(9)) for fr, quota in found.quotas.items()}
            state.set_cluster_queue(name, replace(found, quotas=quotas))
        case _ if known is not None:
            state.set_workload(key, transitions.waiting(known, "WaitingForQuota", f"at {stamp(now)}", now))


@settings(max_examples=cases(60, 1_000), deadline=None)
@given(worlds() | crowded(), st.integers(0, 2**32))
def test_every_cycle_is_decided_again_as_it_was_whatever_changed_meanwhile(state: State, seed: int) -> None:
    entries = recorded(state, busy(random.Random(seed), 6))
    for cycle in Replay().play(entries):
        assert cycle.now == cycle.recorded
        assert cycle.heads_differ is None, "the order of the queues is played as well"


@settings(max_examples=cases(60, 1_000), deadline=None)
@given(worlds() | crowded(), st.integers(0, 2**32))
def test_a_recording_may_begin_between_any_two_cycles(state: State, seed: int) -> None:
    entries = recorded(state, busy(random.Random(seed), 6))
    openings = [place for place, entry in enumerate(entries) if isinstance(entry, Opening)]
    shapes = [entry for entry in entries if type(entry).__name__ == "PodSetsShared"]
    for place in openings[1:]:
        for cycle in Replay().play([entries[place], *shapes, *entries[place + 1 :]]):
            assert cycle.now == cycle.recorded


def test_where_today_decides_differently_is_told() -> None:
    def play(state: RecordedState) -> None:
        for _ in drain_in_steps(state, state.policy, 1.0):
            pass

    state = State()
    state.set_namespace("ns", {})
    state.set_flavor("default", ResourceFlavor("default"))
    state.set_cluster_queue("cq", cluster_queue("cq", 4000))
    state.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "cq"))
    for name, cpu in (("fits", 3000), ("waits", 3000)):
        state.set_workload(Key("ns", name), workload(name, cpu))
    entries = recorded(state, play)
    kinds = [type(each) for cycle in Replay().play(entries) for each in cycle.recorded]
    assert kinds
    assert not any(cycle.differs for cycle in Replay().play(entries))
    place = next(number for number, entry in enumerate(entries) if isinstance(entry, Decided))
    first = entries[place]
    assert isinstance(first, Decided)
    other = replace(first.decisions[0], admission=None, cluster_queue="cq", reason="Pending", message="not today")
    entries[place] = Decided((other, *first.decisions[1:]))
    (found, *_) = [cycle for cycle in Replay().play(entries) if cycle.differs]
    assert found.recorded[0].reason == "Pending"
    assert found.now[0].admission is not None


def test_what_a_killed_process_wrote_last_is_left_out() -> None:
    encoder = RecordingEncoder()
    whole = MAGIC + encoder.chunk([Opening(1.0, SchedulingPolicy())])
    last = encoder.chunk([Opening(2.0, SchedulingPolicy())])
    for end in range(len(last)):
        assert [type(each) for each in decoded(whole + last[:end])] == [Opening]
    assert len(list(decoded(whole + last))) == 2


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="no recording"):
        list(decoded(b"PK\x03\x04"))
    with pytest.raises(NoRecordingError):
        list(Replay().play([Decided(())]))


def test_every_way_into_state_is_recorded() -> None:
    """Also those of tomorrow: a setter that is not recorded would make replays differ."""
    ways = {name for name in vars(State) if name.startswith("set_")} | {"unassume", "stop_until_changed", "heads"}
    assert {*ways, "applying"} <= vars(RecordedState).keys()
    usage = {name for name in vars(LocalQueueUsage) if not name.startswith("_")}
    by_state = {"charge", "refund", "confirm", "update"}
    assert usage - by_state <= vars(RecordedUsage).keys(), "what others call"
