"""The recorder beside the scheduler: what it writes replays without a difference, and queueing never waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from cli.scenario import Scenario
from controller.history import recorder as recording
from controller.history.recorder import CycleRecorder, last, recordings
from controller.settings import RecorderSettings
from core.model import Key, LocalQueue, ResourceFlavor
from core.model.policy import SchedulingPolicy, Strategy
from core.recording.encoding import RecordingEncoder, decoded
from core.recording.entries import MAGIC, RecordingEntry
from core.recording.recorded import RecordedState
from core.recording.replay import Replay
from core.state.drain import drain
from tests.builders import cluster_queue, workload
from tests.controller.test_simulated import Controlled, scenarios
from tests.effort import cases
from tests.eventually import eventually
from tests.killed import Tell, in_small_process, kill_many


@settings(max_examples=cases(10, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios(), st.sampled_from([None, tuple(Strategy)]))
def test_what_the_controller_decides_replays_without_a_difference(scenario: Scenario, fair: tuple[()] | None) -> None:
    """The real caches, reconcilers and scheduler, whose writes and watches come between the steps of cycles."""
    made: list[Callable[[], RecordingEntry]] = []
    policy = SchedulingPolicy(fair_sharing=fair)
    state = RecordedState(policy, made.append)
    asyncio.run(Controlled(scenario, policy, state=state).play())
    entries = list(decoded(MAGIC + RecordingEncoder().chunk(make() for make in made)))
    cycles = list(Replay().play(entries))
    assert cycles
    assert not [cycle for cycle in cycles if cycle.differs]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WRITE_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(recording, name, 0.01)


class Scheduled:
    """A State with one queue, and cycles on demand."""

    def __init__(self, recorder: CycleRecorder) -> None:
        self.state = recorder.state(SchedulingPolicy())
        self.state.set_namespace("ns", {})
        self.state.set_flavor("default", ResourceFlavor("default"))
        self.state.set_cluster_queue("cq", cluster_queue("cq", 4000))
        self.state.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "cq"))
        self.number = 0

    def cycle(self) -> None:
        self.state.set_workload(Key("ns", f"w{self.number}"), None)
        self.number += 1
        self.state.set_workload(Key("ns", f"w{self.number}"), workload(f"w{self.number}", 1000))
        for _ in drain(self.state, self.state.policy, float(self.number)):
            pass


@contextlib.asynccontextmanager
async def running(directory: Path, most: int = 2**24) -> AsyncIterator[tuple[Scheduled, CollectorRegistry]]:
    registry = CollectorRegistry()
    recorder = CycleRecorder(RecorderSettings(str(directory), most), registry)
    scheduled = Scheduled(recorder)
    scheduled.cycle()  # of a replica that does not lead: not recorded
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    try:
        yield scheduled, registry
    finally:
        task.cancel()
        await asyncio.wait({task})


def cycles_in(data: bytes) -> int:
    found = list(Replay().play(decoded(data)))
    assert not [cycle for cycle in found if cycle.differs]
    return len(found)


def differs(directory: Path, size: int) -> bool:
    return written(directory) != size


def written(directory: Path) -> int:
    """The bytes of all files; the oldest of them may be deleted meanwhile."""
    total = 0
    for each in recordings(directory):
        with contextlib.suppress(FileNotFoundError):
            total += each.stat().st_size
    return total


async def test_a_leader_records_from_its_first_cycle_and_writes_what_is_left_at_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as (scheduled, _):
        scheduled.cycle()
        await eventually(lambda: bool(recordings(tmp_path)))
        scheduled.cycle()
    assert len(recordings(tmp_path)) == 1
    assert cycles_in(last(tmp_path, 2**20)) == 2


async def test_files_are_bounded_and_each_can_be_played_alone(tmp_path: Path) -> None:
    most = 4 * 4096
    async with running(tmp_path, most) as (scheduled, _):
        for _ in range(60):
            scheduled.cycle()
            await eventually(partial(differs, tmp_path, written(tmp_path)))
    files = recordings(tmp_path)
    assert 1 < len(files) <= recording.FILES + 1
    assert written(tmp_path) < 2 * most
    cycles = [cycles_in(each.read_bytes()) for each in files]
    assert all(cycles[:-1])
    assert cycles_in(last(tmp_path, 2**20)) == sum(cycles[-2:]), "the last two are one recording"


@contextlib.contextmanager
def read_only() -> Iterator[None]:
    """For root no folder is read-only."""

    def refused(self: Path, mode: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "open", refused)
        yield


@contextlib.contextmanager
def full() -> Iterator[None]:
    """The limit of file sizes fails in the same call as a full disk does: write(2), in the middle of a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("broken", [read_only, full])
async def test_what_cannot_be_written_is_one_line_and_one_metric_and_another_file_begins_later(
    tmp_path: Path, broken: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with running(tmp_path) as (scheduled, registry):

            def failing(value: float) -> bool:
                return registry.get_sample_value("seiretsu_recorder_failing") == value

            def cycled(value: float) -> bool:
                scheduled.cycle()
                return failing(value)

            with broken():
                await eventually(lambda: cycled(1.0))
                scheduled.cycle()
            await eventually(lambda: cycled(0.0))
    assert [each["event"] for each in lines] == [
        "the recording cannot be written; queueing goes on",
        "the recording is written again",
    ]
    for each in recordings(tmp_path):
        assert cycles_in(each.read_bytes()) or each.stat().st_size <= 600, "what was written replays"
    assert cycles_in(recordings(tmp_path)[-1].read_bytes())


async def test_entries_that_come_faster_than_they_are_written_are_dropped_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_WAITING", 5)
    async with running(tmp_path) as (scheduled, registry):
        for _ in range(5):
            scheduled.cycle()
        assert registry.get_sample_value("seiretsu_recorder_dropped_entries_total")
        await eventually(lambda: bool(recordings(tmp_path)))
    assert cycles_in(last(tmp_path, 2**20)) >= 0


def test_a_recorder_that_is_killed_at_any_moment_loses_nothing_that_it_had_written(tmp_path: Path) -> None:
    """A recorder is killed again and again in the middle of its writes, and begins another file each time."""
    in_small_process(_kill_many, tmp_path)


def _kill_many(directory: Path) -> None:
    begins = 0  # the number before the first cycle of the file

    def write(number: int, tell: Tell) -> None:
        recorder = CycleRecorder(RecorderSettings(str(directory)), CollectorRegistry())
        scheduled = Scheduled(recorder)
        recorder._begin_anew()
        while True:
            number += 1
            scheduled.cycle()
            recorder._write([recorder._waiting.popleft() for _ in range(len(recorder._waiting))])
            tell(number)

    def check(kill: int, written: int) -> None:
        nonlocal begins
        *_, newest = recordings(directory)
        found = cycles_in(newest.read_bytes())
        assert found - (written - begins) in (0, 1), "what was told is there, and at most what was written after it"
        begins = written

    kill_many(write, check)
