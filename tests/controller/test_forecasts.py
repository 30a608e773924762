"""Forecasts come from another process, are judged when workloads start, and what was learned survives a restart."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from api.objects import Key, Raw, Resource
from api.resources import CONFIG_MAPS
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.forecasts import forecasts as module
from controller.forecasts import remembered as remembered_run_times
from controller.forecasts.forecasts import Forecasts
from controller.forecasts.messages import AT_ONCE, ArenasGone, Arrived, Nodes, Question, RunTimesKnown
from controller.forecasts.process import WorkerProcess, worker_command
from controller.forecasts.remembered import RememberedRunTimes
from controller.forecasts.worker import NICENESS, ForecastProcess
from controller.kube.errors import Conflict, NotFound
from core.forecast.learned import FEWEST, LearnedRunTimes
from core.forecast.stored import FIELD, NAME, learned_of
from core.model import LocalQueue, Node, ResourceFlavor, Topology
from core.model.forecast import StartForecast
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.workload.actions import LifePolicy
from tests.builders import cluster_queue
from tests.builders import workload as waiting
from tests.controller.test_caches import filled, workload
from tests.eventually import eventually

START = 1_700_000_000.0
RUNS = [
    {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z"}
    for kind in ("QuotaReserved", "Admitted")
]
DONE = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}


def given(cpu: str) -> Raw:
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}}
    return {"clusterQueue": "cq", "podSetAssignments": [assigned]}


class SentAlone(WorkerProcess):
    """Keeps what is sent, and has no process."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    async def send(self, message: object) -> None:
        self.sent.append(message)


class Place:
    """A ClusterQueue that runs one workload, and another one that waits for it."""

    def __init__(self) -> None:
        self.now = START
        self.version = 1
        self.caches: Caches = filled()
        self.put("w", "4", {"admission": given("4"), "conditions": RUNS})
        self.put("next", "4")
        self.caches.start()
        self.registry = CollectorRegistry()
        self.forecasts = Forecasts(self.caches, LifePolicy(), self.registry, clock=lambda: self.now)

    def put(self, name: str, cpu: str, status: Raw | None = None, *, active: bool = True) -> None:
        self.version += 1
        raw = copy.deepcopy(workload(name, cpu))
        raw["metadata"] |= {"resourceVersion": str(self.version), "creationTimestamp": "2023-11-14T22:13:20Z"}
        raw["spec"] = {**raw["spec"], "active": active}
        self.caches.workloads.observe("MODIFIED", {**raw, "status": status or {}})

    def finish(self, name: str, at: str) -> None:
        done = {**DONE, "lastTransitionTime": at}
        self.put(name, "4", {"admission": given("4"), "conditions": [*RUNS, done]})

    def learn(self, seconds: float) -> None:
        known = self.caches.get(Key("ns", "w"))
        assert known is not None
        for _ in range(FEWEST):
            self.forecasts.run_times.add(known, seconds)

    def without_a_process(self) -> list[object]:
        """From now on what would be sent to the process is in this list, and each answer comes at once."""

        async def answers(name: str) -> float:
            return 0.0

        process = SentAlone()
        self.forecasts._process = process
        self.forecasts._answers = answers  # type: ignore[method-assign]
        return process.sent

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.forecasts.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "RESTART_SECONDS", 0.01)


async def test_a_waiting_workload_has_a_forecast_and_so_has_a_job_like_it() -> None:
    place = Place()
    place.learn(600.0)
    place.forecasts.connect()
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
        found = place.forecasts.of(Key("ns", "next"))
        assert found is not None and found.p50 == pytest.approx(600, rel=0.01)
        assert found.after == Key("ns", "w")
        process: Any = place.forecasts._process
        mine, its = (os.getpriority(os.PRIO_PROCESS, each) for each in (0, process.pid))
        assert its == min(mine + NICENESS, 19), "admission calls come first"
        waiting = place.caches.get(Key("ns", "next"))
        assert waiting is not None
        asked = (Key("ns", waiting.queue), waiting.priority, waiting.pod_sets)
        await eventually(lambda: place.forecasts.of_newcomer(*asked) is not None)
        new = place.forecasts.of_newcomer(*asked)
        assert new is not None and new.p50 == pytest.approx(1200, rel=0.01), "it comes after the one that waits"
        place.now += module.TOO_OLD_SECONDS + 1
        assert place.forecasts.of(Key("ns", "other")) is None


async def test_a_workload_that_is_deactivated_has_no_forecast() -> None:
    place = Place()
    place.learn(600.0)
    place.forecasts.connect()
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
        place.put("next", "4", active=False)
        assert place.forecasts.of(Key("ns", "next")) is None


async def test_nothing_is_known_before_anything_is_learned() -> None:
    place = Place()
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
        found = place.forecasts.of(Key("ns", "next"))
        assert found is not None and not found.known
        assert found.unknown == "it depends on how long up to 2 workloads will run, of which nothing is known"


async def test_a_process_that_ends_is_started_again() -> None:
    place = Place()
    place.learn(600.0)
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
        process: Any = place.forecasts._process
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: place.forecasts._process not in (None, process))
        place.now += 300
        await eventually(lambda: _at(place, Key("ns", "next")) == place.now)


def test_the_process_is_found_from_any_folder_and_imports_nothing_from_there(tmp_path: Path) -> None:
    (tmp_path / "controller.py").write_text("raise SystemExit(7)")
    done = subprocess.run(worker_command(), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


GARBAGE = (4).to_bytes(4, "little") + b"junk"


@pytest.mark.parametrize("written", [GARBAGE, b"\xff" * 2**20], ids=["no message", "more than is read"])
async def test_a_process_that_writes_something_else_is_started_again(written: bytes, tmp_path: Path) -> None:
    place, file = Place(), tmp_path / "started"
    code = "import sys; open(sys.argv[1], 'a').write('x'); sys.stdout.buffer.write(eval(sys.argv[2])); sys.stdin.read()"
    place.forecasts.command = (
        sys.executable,
        "-c",
        code,
        str(file),
        f"{written[:8]!r} + {written[8:9]!r} * {len(written)}",
    )
    async with place.running():
        await eventually(lambda: file.exists() and len(file.read_text()) > 2)


async def test_an_error_while_a_forecast_is_entered_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    place, failed = Place(), asyncio.Event()
    enter = place.forecasts._enter

    def fail(start: StartForecast) -> None:
        if failed.is_set():
            enter(start)
            return
        failed.set()
        raise KeyError("a mistake")

    monkeypatch.setattr(place.forecasts, "_enter", fail)
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
    assert failed.is_set()


async def test_who_sends_all_the_time_can_be_cancelled_at_any_moment() -> None:
    async def sends(process: WorkerProcess) -> None:
        for _ in range(100):
            await process.send("a message")

    process = await WorkerProcess.start((sys.executable, "-c", "import sys; sys.stdin.buffer.read()"))
    for moment in range(5):
        task = asyncio.create_task(sends(process))
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await process.end()


async def test_an_arena_that_is_new_gets_a_first_answer_before_any_gets_a_better_one() -> None:
    place = Place()
    sent = place.without_a_process()
    await place.forecasts.look()
    assert [each.quick for each in sent if isinstance(each, Question)] == [True, False]


async def test_what_the_process_knows_of_an_arena_that_is_gone_is_forgotten() -> None:
    place = Place()
    sent = place.without_a_process()
    await place.forecasts.look()
    (arena,) = place.forecasts._seen
    place.forecasts._seen["gone"] = place.forecasts._seen[arena]
    sent.clear()
    await place.forecasts.look()
    assert sent[0] == ArenasGone(["gone"])
    process = ForecastProcess(io.BytesIO())
    process._workloads = {"gone": {}, arena: {}}
    process.take(sent[0])
    assert [*process._workloads] == [arena]


async def test_nodes_are_sent_in_parts_and_again_only_where_they_change() -> None:
    place = Place()
    sent = place.without_a_process()
    state = place.caches.state = State(SchedulingPolicy(topology=TopologyPolicy()))
    state.set_namespace("ns", {})
    state.set_cluster_queue("cq", cluster_queue("cq", 4))
    state.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "cq"))
    state.set_workload(Key("ns", "next"), waiting("next", 4, created=START))
    state.set_topology("hosts", Topology("hosts", ("kubernetes.io/hostname",)))
    state.set_flavor("default", ResourceFlavor("default", topology_name="hosts"))
    for number in range(AT_ONCE + 20):
        state.set_node(
            f"n{number}", Node(f"n{number}", {"kubernetes.io/hostname": f"n{number}"}, allocatable={"cpu": 4})
        )
    await place.forecasts.look()
    assert [len(found.nodes) for found in sent if isinstance(found, Nodes)] == [AT_ONCE, 20]
    assert all(found.placed and not found.about.nodes for found in sent if isinstance(found, Question))
    process = ForecastProcess(io.BytesIO())
    for message in sent:
        process.take(message)
    assert process._nodes == state.placement.nodes  # type: ignore[union-attr]
    sent.clear()
    state.set_node("n1", None)
    state.set_other_pods("n2", {"cpu": 1})
    await place.forecasts.look()
    (changed,) = (found.nodes for found in sent if isinstance(found, Nodes))
    assert [(name, node is None, others) for name, node, others in changed] == [
        ("n1", True, None),
        ("n2", False, {"cpu": 1}),
    ]
    process.take(sent[0])
    assert "n1" not in process._nodes and process._others == {"n2": {"cpu": 1}}


async def test_with_arrivals_the_process_learns_what_was_created() -> None:
    place = Place()
    place.forecasts.arrivals = True
    place.forecasts.connect()
    sent = place.without_a_process()
    place.put("third", "1")
    await place.forecasts.look()
    assert [[each.key.name for each in found.workloads] for found in sent if isinstance(found, Arrived)] == [["third"]]
    assert all(found.arrivals for found in sent if isinstance(found, Question))
    process = ForecastProcess(io.BytesIO())
    process.take(RunTimesKnown(LearnedRunTimes().encode(), START - 1))
    for message in sent:
        if isinstance(message, Arrived):
            process.take(message)
    assert [each.key.name for each in process._arrived] == ["third"]


def _at(place: Place, key: Key) -> float | None:
    found = place.forecasts.of(key)
    return found.at if found is not None else None


async def test_an_arena_in_which_nothing_that_matters_changed_is_not_asked_about_again() -> None:
    place = Place()
    place.learn(600.0)
    place.now += 1
    async with place.running():
        await eventually(lambda: "queue/cq" in place.forecasts._seen and place.forecasts._seen["queue/cq"].answered)
    asked = place.without_a_process()
    waits = {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": "4 more needed"}
    place.put("next", "4", {"conditions": [waits]})
    place.now += 10
    assert await place.forecasts.look() == 0.0
    assert asked == []


async def test_the_forecasts_of_a_workload_are_judged_when_it_starts() -> None:
    place = Place()
    place.learn(600.0)
    place.forecasts.connect()
    async with place.running():
        await eventually(lambda: place.forecasts.of(Key("ns", "next")) is not None)
    reserved = [{**each, "lastTransitionTime": "2023-11-14T22:23:20Z"} for each in RUNS]
    place.put("next", "4", {"admission": given("4"), "conditions": reserved})
    for moment in ("create", "half", "last"):
        assert place.value("seiretsu_forecast_error_ratio_count", moment=moment) == 1
        assert place.value("seiretsu_forecast_error_ratio_bucket", moment=moment, le="0.05") == 1
        assert place.value("seiretsu_forecast_starts_total", moment=moment, inside="true") == 1
    assert place.forecasts.of(Key("ns", "next")) is None, "it has started"


async def test_a_finished_workload_teaches_how_long_it_ran() -> None:
    place = Place()
    place.forecasts.connect()
    assert len(place.forecasts.run_times) == 0
    place.finish("w", "2023-11-14T22:23:20Z")
    assert len(place.forecasts.run_times) == 6


class ConfigMaps:
    """A client and a writer that have ConfigMaps."""

    def __init__(self, stored: Raw | None = None) -> None:
        self.stored = stored
        self.writes: list[str] = []
        self.fails = False

    async def get(self, resource: Resource, name: str, namespace: str) -> Raw:
        assert (resource, name, namespace) == (CONFIG_MAPS, NAME, "seiretsu")
        if self.stored is None:
            raise NotFound(404, "NotFound", "gone")
        return self.stored

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        yield

    async def patch(self, resource: Resource, key: Key, body: Raw) -> Raw:
        if self.fails:
            raise Conflict(409, "Conflict", "changed")
        if self.stored is None:
            raise NotFound(404, "NotFound", "gone")
        self.writes.append("patch")
        self.stored |= body
        return self.stored

    async def create(self, resource: Resource, body: Raw) -> Raw:
        self.writes.append("create")
        self.stored = body
        return body


def remembered(place: Place, maps: ConfigMaps) -> RememberedRunTimes:
    client: Any = maps
    writer: Writer = client
    return RememberedRunTimes(client, writer, place.forecasts, place.caches, "seiretsu")


async def test_what_was_learned_survives_a_restart_with_one_write_for_many_workloads() -> None:
    place, maps = Place(), ConfigMaps()
    place.learn(600.0)
    kept = remembered(place, maps)
    await kept.write()
    await kept.write()
    assert maps.writes == ["create"]
    place.learn(600.0)
    await kept.write()
    assert maps.writes == ["create", "patch"]
    again = Place()
    await remembered(again, maps).read()
    known = again.caches.get(Key("ns", "next"))
    assert known is not None
    assert again.forecasts.run_times.run_time(known, 0.0).at(0.5) == pytest.approx(600, rel=0.01)


async def test_what_was_learned_is_compressed_and_read_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, threads = threading.get_ident(), list[int]()

    def noted(does: Callable[[Any], Any], given: Any) -> Any:
        threads.append(threading.get_ident())
        return does(given)

    for name in ("data_of", "learned_of"):
        monkeypatch.setattr(remembered_run_times, name, partial(noted, getattr(remembered_run_times, name)))
    place, maps = Place(), ConfigMaps()
    place.learn(600.0)
    await remembered(place, maps).write()
    await remembered(Place(), maps).read()
    assert len(threads) == 2
    assert here not in threads


async def test_a_write_that_fails_is_made_later() -> None:
    place, maps = Place(), ConfigMaps({"binaryData": {}})
    place.learn(600.0)
    kept = remembered(place, maps)
    maps.fails = True
    await kept.write()
    maps.fails = False
    await kept.write()
    assert maps.writes == ["patch"]


@pytest.mark.parametrize("data", [None, {}, {FIELD: 3}, {FIELD: "#"}, {FIELD: base64.b64encode(b"else").decode()}])
async def test_a_config_map_with_something_else_is_ignored(data: Raw | None) -> None:
    place = Place()
    await remembered(place, ConfigMaps({"binaryData": data})).read()
    assert len(place.forecasts.run_times) == 0


async def test_without_a_config_map_the_finished_workloads_that_are_left_are_learned_from() -> None:
    place = Place()
    place.finish("w", "2023-11-14T22:23:20Z")
    await remembered(place, ConfigMaps()).read()
    assert len(place.forecasts.run_times) == 6


def test_what_is_read_is_what_was_written() -> None:
    known = LearnedRunTimes()
    raw = {"binaryData": {FIELD: base64.b64encode(known.encode()).decode()}}
    assert len(learned_of(raw)) == 0
