"""What the scheduler does with faults that a real API server cannot be made to show on demand.

Hence an in-memory stand-in for it here.
"""

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from controller.kube.flow.limits import DECIDED_WRITES, MOST, UNWRITTEN
from controller.kube.flow.precedence import Precedence
from controller.metrics.counters import QueueingMetrics
from controller.scheduling.scheduler import ATTEMPTS, LONGEST_CALL_SECONDS, Scheduler
from core.model import Key, Plan, Requeue, StayPending, Victim
from core.model.events import Event
from core.model.policy import SchedulingPolicy
from core.state.drain import drain
from core.state.state import State
from core.wire.merge import merged
from tests.controller.test_caches import filled, made, workload
from tests.eventually import PATIENCE, eventually

COVERED = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
SPEC: Raw = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [COVERED]}]}


class Server:
    """Holds Workloads and writes their statuses; ``faults`` are raised before the write, functions of one after it."""

    def __init__(self, caches: Caches) -> None:
        self.objects = {raw["metadata"]["name"]: copy.deepcopy(raw) for raw in caches.workloads}
        self.faults: list[ApiError | Callable[[], ApiError]] = []
        self.denied: dict[str, ApiError] = {}
        self.silent: set[str] = set()
        self.late: dict[str, list[Raw]] = {}
        """Writes of these names are not answered, and made only by ``arrive``."""
        self.precedence = Precedence(lambda: 0.0)
        self.written: list[str] = []
        self.asked: Counter[str] = Counter()
        self.patches = self.refused = 0

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Raw:
        if name in self.silent:
            raise Unreachable(0, "Timeout", name)
        if name not in self.objects:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(self.objects[name])

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **_: Any) -> Raw:
        return self._written(name, body, lambda status: merged(status, body["status"]))

    async def update(self, resource: Resource, body: Raw, **_: Any) -> Raw:
        return self._written(body["metadata"]["name"], body, lambda status: body["status"])

    def _written(self, name: str, body: Raw, after: Callable[[Raw], Raw]) -> Raw:
        self.patches += 1
        self.asked[name] += 1
        if name in self.silent:
            raise Unreachable(0, "Timeout", name)
        if name in self.late:
            self.late[name].append(copy.deepcopy(body))
            raise Unreachable(0, "Timeout", name)
        if name in self.denied:
            self.refused += 1
            raise self.denied[name]
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, ApiError):
            raise fault
        found = self.objects[name]
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)
        found["status"] = copy.deepcopy(after(found.get("status") or {}))
        self.written.append(name)
        if fault is not None:
            raise fault()
        return copy.deepcopy(found)

    def arrive(self, name: str) -> None:
        """The API server comes to the writes that it did not answer; the version guards all but the first."""
        for body in self.late.pop(name):
            with suppress(Conflict):
                self._written(name, body, partial(_merged_status, body))

    def touch(self, name: str) -> None:
        """Another client makes a write that affects no decision and has not arrived by the watch."""
        found = self.objects[name]
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)

    def holds(self, name: str) -> bool:
        return (self.objects[name].get("status") or {}).get("admission") is not None


def _merged_status(body: Raw, status: Raw) -> Raw:
    return merged(status, body["status"])


class Told:
    """Records events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.reasons.append(event.reason)


def scheduler(
    clock: Callable[[], float] = lambda: 1_000.0,
    policy: SchedulingPolicy | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[Scheduler, Server, Told]:
    caches, told = filled(policy), Told()
    caches.start()
    server = Server(caches)
    writer = Writer(server, caches.stores)  # type: ignore[arg-type]
    metrics = QueueingMetrics(CollectorRegistry())
    return Scheduler(caches, writer, told, metrics, clock=clock, monotonic=monotonic), server, told


def add(found: Scheduler, server: Server, raw: Raw) -> None:
    """Creates a Workload, of which the watch tells at once."""
    server.objects[raw["metadata"]["name"]] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    found.wake()


def preempt(found: Scheduler) -> None:
    """Workloads of lower priority in the ClusterQueue may be preempted from now on."""
    spec = {**next(iter(found.caches.cluster_queues))["spec"], "preemption": {"withinClusterQueue": "LowerPriority"}}
    queue = made("ClusterQueue", "cq", spec)
    queue["metadata"]["resourceVersion"] = "2"
    found.caches.cluster_queues.observe("MODIFIED", queue)


def finish(server: Server) -> None:
    """The job controller writes that ``w`` has finished."""
    server.touch("w")
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}
    server.objects["w"]["status"]["conditions"].append(finished | {"lastTransitionTime": "2026-01-01T00:00:00Z"})


async def until_rest(found: Scheduler, condition: Callable[[], bool]) -> None:
    task = asyncio.create_task(found.run())
    found.wake()
    try:
        await eventually(condition)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found.state.check()


async def test_a_reservation_and_its_admission_are_one_write() -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, told.reasons) == (1, ["QuotaReserved", "Admitted"])


async def test_what_decisions_must_know_is_entered_before_each_of_them() -> None:
    found, server, told = scheduler()
    queue = found.state.reservations.cluster_queues["cq"]
    found.state.set_cluster_queue("cq", None)

    def entered() -> Iterator[None]:
        found.state.set_cluster_queue("cq", queue)
        yield

    found.entering = entered
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (found.cycles, server.patches) == (1, 1)


async def test_a_workload_that_another_client_wrote_is_read_again_and_keeps_its_reservation() -> None:
    found, server, told = scheduler()
    server.touch("w")
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, server.holds("w")) == (2, True)


async def test_a_write_that_happened_though_its_answer_was_lost_is_not_made_twice() -> None:
    found, server, _ = scheduler()
    server.faults.append(lambda: Unreachable(0, "Reset", "cut"))
    await until_rest(found, lambda: found.state.reservations.get(Key("ns", "w")) is not None and not _assumed(found))
    assert (server.patches, server.holds("w")) == (1, True)


async def test_a_reservation_that_the_server_refuses_is_withdrawn_and_decided_again() -> None:
    found, server, told = scheduler()
    server.faults.append(Invalid(422, "Invalid", "refused"))
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, server.holds("w")) == (2, True)


async def test_a_workload_that_is_gone_by_the_time_of_the_write_gives_its_quota_back() -> None:
    found, server, _ = scheduler()
    del server.objects["w"]
    server.faults.append(NotFound(404, "NotFound", "w"))
    await until_rest(found, lambda: server.patches == 1 and Key("ns", "w") not in found.state.workloads)
    assert found.state.reservations.get(Key("ns", "w")) is None


async def test_the_reason_of_a_waiting_workload_is_written_once() -> None:
    found, server, told = scheduler()
    raw = workload("big", cpu="9")
    server.objects["big"] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    await until_rest(found, lambda: "ExceedsMaxQuota" in told.reasons)
    status = server.objects["big"]["status"]
    assert status["resourceRequests"] == [{"name": "main", "resources": {"cpu": "9"}}]
    assert [c["reason"] for c in status["conditions"] if c["type"] == "QuotaReserved"] == ["ExceedsMaxQuota"]
    assert told.reasons.count("ExceedsMaxQuota") == 1


@pytest.mark.parametrize("change", ["its queue is stopped", "it moves to another queue", "it comes anew"])
async def test_the_reason_is_not_written_when_the_workload_no_longer_waits_there(change: str) -> None:
    found, server, told = scheduler()
    raw = workload("big", cpu="9")
    server.objects["big"] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    for plan in drain(found.state, found.state.policy, 1_000.0):
        found._dispatch(plan)
    raw = copy.deepcopy(raw)
    raw["metadata"]["resourceVersion"] = "2"
    match change:
        case "its queue is stopped":
            stopped = made("LocalQueue", "lq", {"clusterQueue": "cq", "stopPolicy": "Hold"}, namespace="ns")
            stopped["metadata"]["resourceVersion"] = "2"
            found.caches.local_queues.observe("MODIFIED", stopped)
        case "it moves to another queue":
            raw["spec"]["queueName"] = "other"
            found.caches.workloads.observe("MODIFIED", raw)
        case "it comes anew":
            raw["metadata"]["uid"] = "another"
            found.caches.workloads.observe("MODIFIED", raw)
    server.objects["big"] = copy.deepcopy(raw)
    assert await found.reasons.write(Key("ns", "big")) is None
    assert (server.patches, told.reasons, found.reasons._decisions) == (0, [], {})


async def test_a_decision_that_is_refused_for_good_is_tried_less_and_less_and_leaves_its_quota_to_others() -> None:
    found, server, _ = scheduler(time.time)
    denied = Forbidden(403, "Forbidden", "not in this namespace")
    server.denied["w"] = denied
    await until_rest(found, lambda: server.refused >= 5)
    assert found.state.next_wake(time.time()) is not None, "time will bring it back"
    before = server.refused
    raw = workload("other", cpu="4")
    server.objects["other"] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    await until_rest(found, lambda: server.holds("other"))
    assert not server.holds("w")
    assert server.refused <= before + 2, "it is not tried each time somebody else is"
    found.forget(Key("ns", "w"))
    assert not found._refusals


async def test_a_decision_about_a_workload_that_changes_all_the_time_is_tried_less_and_less() -> None:
    """Or one whose newest version cannot be read."""
    found, server, _ = scheduler()
    server.denied["w"] = Conflict(409, "Conflict", "the object has been modified")
    await until_rest(found, lambda: found._refusals.get(Key("ns", "w")) == 2)
    for name in ("a", "b", "c"):
        add(found, server, workload(name))
        await until_rest(found, lambda name=name: server.holds(name))  # type: ignore[misc]
    assert server.refused == 2 * ATTEMPTS, "immediately once more, and then after a time that has not passed"


async def test_a_victim_that_may_not_be_evicted_is_tried_less_and_less_and_its_preemptor_waits() -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    preempt(found)
    server.denied["w"] = Forbidden(403, "Forbidden", "not in this namespace")
    urgent = workload("urgent", cpu="4")
    urgent["spec"]["priority"] = 100
    server.objects["urgent"] = copy.deepcopy(urgent)
    found.caches.workloads.observe("ADDED", urgent)
    await until_rest(found, lambda: server.refused >= 4)
    assert found.cycles < 10, "a cycle for each refusal would leave no time for others"
    del server.denied["w"]
    await until_rest(found, lambda: "Preempted" in told.reasons)
    assert not server.holds("urgent"), "its victim has yet to stop"
    about = [reason for reason in told.reasons if reason in ("EvictedDueToPreempted", "Preempted", "PreemptedWorkload")]
    assert about == ["EvictedDueToPreempted", "Preempted", "PreemptedWorkload"], "each once, for one preemption"


async def test_a_victim_that_has_finished_meanwhile_is_not_evicted() -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    preempt(found)
    urgent = workload("urgent", cpu="4")
    urgent["spec"]["priority"] = 100
    server.objects["urgent"] = copy.deepcopy(urgent)
    found.caches.workloads.observe("ADDED", urgent)
    for plan in drain(found.state, found.state.policy, 1_000.0):
        found._dispatch(plan)
    assert Key("ns", "w") in found._evicting
    finish(server)
    await until_rest(found, lambda: server.holds("urgent"))
    assert "Evicted" not in {each["type"] for each in server.objects["w"]["status"]["conditions"]}
    assert "Preempted" not in told.reasons


async def test_a_migration_is_one_line_of_the_log() -> None:
    found, _, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    running = found.caches.get(Key("ns", "w"))
    assert running is not None
    victim = Victim(running, "cq", "FlavorMigration", "a preferred flavor is free")
    preferred = StayPending(msgspec.structs.replace(running, key=Key("ns", "preferred")), "cq", "", "", Requeue.HEAP)
    change = found._preempted(running, victim, preferred)
    assert change is not None
    with capture_logs() as logged:
        change[1]()
    line = {"event": "migrated", "log_level": "info", "workload": "ns/w", "to": "ns/preferred"}
    assert logged == [line | {"reason": "FlavorMigration"}]
    assert told.reasons[-1] == "EvictedDueToFlavorMigration"


async def busy(server: Server, answered: asyncio.Event) -> list[asyncio.Task[None]]:
    """Admission calls arrive and other writes are in flight until ``answered`` is set."""

    async def write() -> None:
        async with server.precedence.turn():
            await answered.wait()

    server.precedence.called()
    tasks = [asyncio.create_task(write()) for _ in range(MOST)]
    await asyncio.sleep(0)
    return tasks


async def test_a_victim_that_finishes_while_its_eviction_waits_for_admission_calls_causes_no_write() -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    preempt(found)
    urgent, answered = workload("urgent", cpu="4"), asyncio.Event()
    urgent["spec"]["priority"] = 100
    tasks = [*await busy(server, answered), asyncio.create_task(found.run())]
    add(found, server, urgent)
    await eventually(lambda: found._decided.in_hand > 0)
    before = server.asked["w"]
    finish(server)
    found.caches.workloads.observe("MODIFIED", copy.deepcopy(server.objects["w"]))
    found.wake()
    answered.set()
    await eventually(lambda: server.holds("urgent"))
    assert (server.asked["w"], "Preempted" in told.reasons) == (before, False)
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_reservation_that_was_withdrawn_while_it_waited_is_not_written() -> None:
    found, server, _ = scheduler()
    answered = asyncio.Event()
    tasks = [*await busy(server, answered), asyncio.create_task(found.run())]
    found.wake()
    await eventually(lambda: found._decided.in_hand > 0)
    for version, active in (("2", False), ("3", True)):
        changed = copy.deepcopy(server.objects["w"])
        changed["spec"]["active"] = active
        changed["metadata"]["resourceVersion"] = version
        server.objects["w"] = changed
        found.caches.workloads.observe("MODIFIED", copy.deepcopy(changed))
        if not active:
            add(found, server, workload("other", cpu="4"))
            await eventually(lambda: found.state.assumed(Key("ns", "other")))
    answered.set()
    await eventually(lambda: server.holds("other"))
    await eventually(lambda: not found._decided.in_hand)
    assert not server.holds("w"), "its quota was given to the other"
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_reservation_that_is_not_written_yet_gives_way_to_a_higher_priority_without_a_write() -> None:
    found, server, told = scheduler()
    preempt(found)
    urgent, answered = workload("urgent", cpu="4"), asyncio.Event()
    urgent["spec"]["priority"] = 100
    tasks = [*await busy(server, answered), asyncio.create_task(found.run())]
    found.wake()
    await eventually(lambda: found._decided.in_hand > 0)
    assert found.state.assumed(Key("ns", "w"))
    add(found, server, urgent)
    await eventually(lambda: found.state.assumed(Key("ns", "urgent")))
    answered.set()
    await eventually(lambda: server.holds("urgent"))
    assert (told.reasons.count("QuotaReserved"), "Preempted" in told.reasons) == (1, False)
    assert "Evicted" not in {each["type"] for each in (server.objects["w"].get("status") or {}).get("conditions", [])}
    assert found.state.pending.where(Key("ns", "w")) == "cq"
    found.state.check()
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_reservation_that_may_have_been_written_is_evicted_and_not_withdrawn() -> None:
    found, server, told = scheduler()
    preempt(found)
    server.silent.add("w")
    urgent = workload("urgent", cpu="4")
    urgent["spec"]["priority"] = 100
    task = asyncio.create_task(found.run())
    found.wake()
    await eventually(lambda: Key("ns", "w") in found._outcome_unknown and Key("ns", "w") in found._reserving)
    add(found, server, urgent)
    await eventually(lambda: found.state.is_evicting(Key("ns", "w")))
    assert found.state.assumed(Key("ns", "w"))
    assert not found.state.assumed(Key("ns", "urgent"))
    server.silent.clear()
    await eventually(lambda: "Preempted" in told.reasons)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_reservation_is_counted_while_the_api_server_may_still_be_at_its_write() -> None:
    """The read after a write that was not answered shows no change, and the write is made after it."""
    found, server, _ = scheduler()
    server.late["w"] = []
    task = asyncio.create_task(found.run())
    found.wake()
    await eventually(lambda: len(server.late["w"]) >= ATTEMPTS)
    add(found, server, workload("other", cpu="4"))
    await eventually(lambda: found.state.pending.where(Key("ns", "other")) == "cq")
    await eventually(lambda: not found._woken.is_set())
    assert (found.state.assumed(Key("ns", "w")), found.state.assumed(Key("ns", "other"))) == (True, False)
    server.arrive("w")
    await eventually(lambda: not found._outcome_unknown)
    assert (server.holds("w"), server.holds("other")) == (True, False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_reservation_whose_write_may_still_be_made_is_evicted_and_not_withdrawn() -> None:
    found, server, told = scheduler()
    preempt(found)
    server.late["w"] = []
    urgent = workload("urgent", cpu="4")
    urgent["spec"]["priority"] = 100
    task = asyncio.create_task(found.run())
    found.wake()
    await eventually(lambda: len(server.late["w"]) >= ATTEMPTS and Key("ns", "w") in found._reserving)
    add(found, server, urgent)
    await eventually(lambda: found.state.is_evicting(Key("ns", "w")))
    assert not found.state.assumed(Key("ns", "urgent"))
    server.arrive("w")
    await eventually(lambda: "Preempted" in told.reasons)
    assert not server.holds("urgent"), "it waits until the quota of the other is released"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("preempted", [False, True], ids=["waiting", "preempted"])
async def test_a_reservation_that_is_never_answered_is_withdrawn_when_no_write_can_be_made_any_more(
    preempted: bool,
) -> None:
    ticks = [0.0]
    found, server, told = scheduler(monotonic=lambda: ticks[0])
    preempt(found)
    server.late["w"] = []
    task = asyncio.create_task(found.run())
    found.wake()
    await eventually(lambda: len(server.late["w"]) >= ATTEMPTS)
    other = workload("other", cpu="4")
    other["spec"]["priority"] = 100 if preempted else 0
    add(found, server, other)
    if preempted:
        await eventually(lambda: found.state.is_evicting(Key("ns", "w")))
    ticks[0] = LONGEST_CALL_SECONDS - 1
    sent = len(server.late["w"])
    await eventually(lambda: len(server.late["w"]) > sent)
    assert not found.state.assumed(Key("ns", "other"))
    ticks[0] += LONGEST_CALL_SECONDS
    del server.late["w"]
    server.denied["w"] = Forbidden(403, "Forbidden", "w")
    await eventually(lambda: server.holds("other"))
    assert (server.holds("w"), found._outcome_unknown, "Preempted" in told.reasons) == (False, {}, False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("preempted", [False, True], ids=["waiting", "preempted"])
async def test_a_reservation_that_an_error_of_the_server_ends_for_good_gives_its_quota_to_others(
    preempted: bool,
) -> None:
    found, server, told = scheduler()
    preempt(found)
    server.denied["w"] = ApiError(500, "InternalError", "etcdserver: request is too large")
    task = asyncio.create_task(found.run())
    other = workload("other", cpu="4")
    other["spec"]["priority"] = 100 if preempted else 0
    found.wake()
    await eventually(lambda: server.refused >= 2)
    add(found, server, other)
    await eventually(lambda: server.holds("other"))
    assert (server.holds("w"), "Preempted" in told.reasons) == (False, False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_reservation_of_a_workload_that_is_deleted_before_its_turn_is_forgotten() -> None:
    found, server, _ = scheduler()
    answered = asyncio.Event()
    tasks = [*await busy(server, answered), asyncio.create_task(found.run())]
    found.wake()
    await eventually(lambda: found._decided.in_hand > 0)
    found.caches.workloads.observe("DELETED", server.objects["w"])
    answered.set()
    await eventually(lambda: not found._decided.in_hand)
    assert (server.patches, found._reserving) == (0, {})
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_writers_go_on_while_the_outcome_of_others_writes_cannot_be_learned() -> None:
    found, server, told = scheduler()
    lost = [f"lost-{number}" for number in range(DECIDED_WRITES + 5)]
    for name in (*lost, "well"):
        raw = workload(name, cpu="10m")
        server.objects[name] = copy.deepcopy(raw)
        found.caches.workloads.observe("ADDED", raw)
    server.silent = set(lost)
    await until_rest(found, lambda: server.holds("well"))
    assert all(found.state.assumed(Key("ns", name)) for name in lost), "what may have been written still counts"
    assert not any(server.holds(name) for name in lost)
    server.silent.clear()
    await until_rest(found, lambda: all(server.holds(name) for name in lost))
    assert told.reasons.count("Admitted") == len(lost) + 2, "each of them once"


async def test_a_workload_that_got_a_gate_meanwhile_is_not_admitted() -> None:
    found, server, told = scheduler()
    gated = server.objects["w"]
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    gated["metadata"]["resourceVersion"] = "2"
    await until_rest(found, lambda: server.patches == 1 and not _assumed(found))
    assert (server.holds("w"), told.reasons) == (False, [])


@pytest.mark.parametrize(("cpu", "then"), [("1", ["QuotaReserved", "Admitted"]), ("9", ["ExceedsMaxQuota"])])
async def test_the_end_of_a_gate_is_told_although_it_is_decided_before_the_status_has_it(
    cpu: str, then: list[str]
) -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    told.reasons.clear()
    raw = workload("open", cpu=cpu)
    gate = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "AdmissionGated",
        "message": "Admission is gated by: a",
    }
    raw["status"] = {"conditions": [gate | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    add(found, server, raw)
    await until_rest(found, lambda: len(told.reasons) > len(then))
    assert told.reasons == ["AdmissionGateCleared", *then]


async def test_an_admission_left_without_reservation_keeps_no_workload_from_being_admitted_again() -> None:
    """A client that releases a Workload by server-side apply cannot remove a field that another client wrote."""
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    released = copy.deepcopy(server.objects["w"])
    for condition in released["status"]["conditions"]:
        if condition["type"] in ("QuotaReserved", "Admitted"):
            condition["status"] = "False"
    released["metadata"]["resourceVersion"] = "9"
    server.objects["w"] = copy.deepcopy(released)
    found.caches.workloads.observe("MODIFIED", released)
    await until_rest(found, lambda: told.reasons.count("Admitted") == 2)
    assert server.holds("w")


async def test_nothing_is_kept_of_a_workload_that_is_gone() -> None:
    found, server, told = scheduler()
    raw = workload("big", cpu="9")
    server.objects["big"] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    await until_rest(found, lambda: "ExceedsMaxQuota" in told.reasons)
    assert found.reasons._written_at
    found.forget(Key("ns", "big"))
    assert not found.reasons._written_at


async def test_a_drain_that_takes_long_is_ended_and_goes_on_at_the_time_it_is_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even one that never ends: others get their turns, and what was decided is written."""
    found, server, told = scheduler()
    times = iter(range(1_000, 100_000))
    found.clock = lambda: float(next(times))
    began: list[float] = []
    others = 0

    def endless(state: State, policy: SchedulingPolicy, now: float) -> Iterator[Plan]:
        began.append(now)
        yield from drain(state, policy, now)
        while True:
            yield Plan()

    async def beside() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    monkeypatch.setattr("controller.scheduling.scheduler.drain_in_steps", endless)
    monkeypatch.setattr("controller.scheduling.scheduler.DRAIN_SECONDS", 0.01)
    neighbour = asyncio.create_task(beside())
    try:
        await until_rest(found, lambda: len(began) > 3)
    finally:
        neighbour.cancel()
    assert began == sorted(set(began))
    assert (server.holds("w"), told.reasons) == (True, ["QuotaReserved", "Admitted"])
    assert others >= found.cycles - len(began)


async def test_workloads_that_arrive_while_writes_wait_are_decided_before_those_of_lower_priority() -> None:
    found, server, _ = scheduler()
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100"}]}
    queue = made("ClusterQueue", "cq", SPEC | {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]})
    queue["metadata"]["resourceVersion"] = "2"
    found.caches.cluster_queues.observe("MODIFIED", queue)
    answered = asyncio.Event()

    async def write() -> None:
        async with server.precedence.turn():
            await answered.wait()

    def create(name: str, priority: int) -> None:
        raw = workload(name)
        raw["spec"]["priority"] = priority
        add(found, server, raw)

    server.precedence.called()  # admission calls have precedence, and no write begins
    others = [asyncio.create_task(write()) for _ in range(MOST)]
    await asyncio.sleep(0)
    for number in range(40):
        create(f"low-{number}", 0)
    task = asyncio.create_task(found.run())
    await eventually(lambda: found._decided.in_hand > UNWRITTEN)
    create("high", 100)
    answered.set()
    await eventually(lambda: len(server.written) == 42)
    assert server.written.index("high") < 2 * UNWRITTEN
    task.cancel()
    await asyncio.gather(task, *others, return_exceptions=True)


@pytest.mark.parametrize("answers", [True, False])
async def test_while_workloads_wait_for_quota_the_next_cycle_waits_for_all_writes_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    found, server, _ = scheduler()
    answered, update = asyncio.Event(), server.update

    async def slow(resource: Resource, body: Raw, **more: Any) -> Raw:
        await answered.wait()
        return await update(resource, body, **more)

    monkeypatch.setattr(server, "update", slow)
    monkeypatch.setattr(server, "patch", slow)
    monkeypatch.setattr("controller.kube.flow.limits.CONTENDED_SECONDS", 60.0 if answers else 0.01)
    add(found, server, workload("xl", "4"))  # behind `w`, which uses 2 of 4
    task = asyncio.create_task(found.run())
    try:
        await eventually(lambda: found.cycles == 2)
        add(found, server, workload("later", "1"))
        if answers:
            for _ in range(20):
                await asyncio.sleep(0)
            assert not found.state.assumed(Key("ns", "later"))
            answered.set()
        await eventually(lambda: found.state.assumed(Key("ns", "later")) or server.holds("later"))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_write_that_is_not_answered_delays_one_cycle_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found, server, _ = scheduler()
    update = server.update

    async def first_hangs(resource: Resource, body: Raw, **more: Any) -> Raw:
        if body["metadata"]["name"] == "w":
            await asyncio.Event().wait()
        return await update(resource, body, **more)

    monkeypatch.setattr(server, "update", first_hangs)
    monkeypatch.setattr("controller.kube.flow.limits.CONTENDED_SECONDS", 0.01)
    add(found, server, workload("xl", "4"))  # behind `w`, which uses 2 of 4
    task = asyncio.create_task(found.run())
    try:
        await eventually(lambda: found.cycles == 2)
        add(found, server, workload("one", "1"))
        await eventually(lambda: server.holds("one"))
        monkeypatch.setattr("controller.kube.flow.limits.CONTENDED_SECONDS", 600.0)
        add(found, server, workload("xxl", "5"))
        add(found, server, workload("two", "1"))
        await eventually(lambda: server.holds("two"))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_other_tasks_run_during_a_cycle_over_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.scheduling.scheduler.SLICE_SECONDS", 0.0)  # each look at a head is longer than that
    found, server, _ = scheduler()
    caches, queues = found.caches, 40
    for number in range(queues):
        raw = workload(f"w{number}") | {"spec": {**workload("w")["spec"], "queueName": f"lq{number}"}}
        server.objects[f"w{number}"] = copy.deepcopy(raw)
        caches.cluster_queues.observe("ADDED", made("ClusterQueue", f"cq{number}", SPEC))
        caches.local_queues.observe(
            "ADDED", made("LocalQueue", f"lq{number}", {"clusterQueue": f"cq{number}"}, namespace="ns")
        )
        caches.workloads.observe("ADDED", raw)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not found.cycles:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await until_rest(found, other.done)
    assert turns > 2 * queues, "one for each look at a head, and one for each decision"


def _assumed(found: Scheduler) -> bool:
    return found.state.assumed(Key("ns", "w"))


async def test_an_edit_is_handled_although_it_becomes_due_during_a_cycle() -> None:
    now = 1_000.0
    found, *_ = scheduler(clock=lambda: now)
    found.edited()
    await found._until_woken()
    found.edited()
    now += 10
    async with asyncio.timeout(PATIENCE):
        await found._until_woken()


async def test_quota_edits_in_quick_succession_are_handled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is handled immediately; those of the next second at its end, without another event."""
    monkeypatch.setattr("controller.scheduling.scheduler.EDITS_SECONDS", 0.01)
    now = 1_000.0
    found, _, told = scheduler(clock=lambda: now)
    found.edited()
    assert found._woken.is_set()
    found._woken.clear()
    for _ in range(9):
        found.edited()
    assert not found._woken.is_set()
    task = asyncio.create_task(found.run())
    try:
        await eventually(lambda: "Admitted" in told.reasons)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    now += 0.02
    found.edited()
    assert found._woken.is_set()
