"""A worker cluster that lies costs the manager little memory. The liar is a stand-in: no real API server serves this.

`make test-long` reads thirty times as much. A worker is asked again half a minute after what is too large, so that is
as much as it serves in an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest

from api import resources
from api.objects import Key, Raw
from controller.kube import reflector
from controller.kube.config import Connection
from controller.kube.errors import from_status
from controller.kube.size_limit import MEBIBYTE, Pool, SizeLimit, cost, weight
from controller.multikueue import memory
from controller.multikueue.remote import Remote
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.multikueue import shape
from tests.core.multikueue.groups import copy, there, workload
from tests.effort import cases
from tests.eventually import PATIENCE

SENT = cases(8, 240) * MEBIBYTE
"""240 MiB of JSON once took 5.1 GB, 8 MiB in one field of it 200 MB."""
MOST = cases(8, 32) * MEBIBYTE
"""What may be kept of one worker."""
MOST_MIB = cases(64, 120)
"""What one worker may take, in MiB: so much is kept, as much received, and an answer of at most 32 is decoded."""
EMPTY: list[Raw] = [{}] * 30_000


def event(raw: Raw) -> bytes:
    return orjson.dumps({"type": "ADDED", "object": raw}) + b"\n"


def named(number: int, **parts: object) -> Raw:
    metadata = {"name": f"w{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(number + 1)}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, **parts}


LIES: dict[str, Callable[[int], bytes]] = {
    "empty objects where nothing is read": lambda number: event(named(number, wrong=EMPTY)),
    "empty objects where conditions are": lambda number: event(named(number, spec={}, status={"conditions": EMPTY})),
    "empty objects in the spec": lambda number: event(named(number, spec={"podSets": EMPTY})),
    "empty objects in labels": lambda number: event(
        {**named(number), "metadata": {**named(number)["metadata"], "labels": {"a": EMPTY}}}
    ),
    "many keys": lambda number: event(named(number, spec={f"k{each}": each for each in range(20_000)})),
    "wide characters": lambda number: event(named(number, spec={"queueName": "x" * 300_000 + "\U0001f600"})),
    "one huge object": lambda number: event(named(number, spec=[EMPTY] * 60)),
    "small objects without end": lambda number: b"".join(
        event(named(1000 * number + each, spec={}, status={})) for each in range(1000)
    ),
    "the same object again and again": lambda number: event(named(1, status={"conditions": EMPTY[:5000]})),
    "long lines that are no events": lambda number: b"[" + b"{}," * 1_000_000 + b"\n",
    "a line without end": lambda number: b"{" * 1_000_000,
    "half a page": lambda number: orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": EMPTY * 40}),
}


class Liar:
    """An API server that answers every request with the same lie, without end."""

    def __init__(self, lie: Callable[[int], bytes]) -> None:
        self.sent = 0
        self._lie = lie
        self._parts = [lie(number) for number in range(-(-SENT // len(lie(0))))][:40]

    def _part(self, number: int) -> bytes:
        return self._parts[number] if number < len(self._parts) else self._lie(number)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What waits in buffers has not reached the manager: they are small."""
        writer.transport.set_write_buffer_limits(high=0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
            for number in itertools.count():
                part = self._part(number)
                self.sent += len(part)
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Connection]:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        try:
            yield Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        finally:
            server.close()


def remote_of(connection: Connection, *, local: Callable[[Key], Raw | None] = lambda key: None) -> Remote:
    return Remote(
        "liar",
        connection,
        [BATCH_JOB],
        "multikueue",
        rows=rows([BATCH_JOB]),
        may_write=lambda: True,
        changed=Mock(),
        turned=Mock(),
        local=local,
        clock=time.time,
        most=MOST,
    )


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MEBIBYTE


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_a_worker_that_lies_takes_a_bounded_part_of_the_memory(
    lie: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "LONGEST_BACKOFF_SECONDS", 0.01)  # it is asked again at once
    monkeypatch.setattr("controller.multikueue.remote.CHANGES_A_SECOND", 10**6)
    liar = Liar(lie)
    async with liar.serving() as connection:
        remote = remote_of(connection)
        before, peak = resident_mib(), 0.0
        running = asyncio.create_task(remote.run(Mock()))
        async with asyncio.timeout(PATIENCE):
            while liar.sent < SENT:
                await asyncio.sleep(0.05)
                peak = max(peak, resident_mib() - before)
        assert not running.done(), "the manager goes on"
        assert not remote.connected
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert peak < MOST_MIB
    assert remote._size_limit.held == 0


def test_json_is_never_lighter_than_what_is_decoded() -> None:
    lies = [line for lie in LIES.values() for line in lie(1).splitlines()]
    for data in (*lies, b'{"a":"b"}', b"[[],[],1.5,2.5]", b'{"a":{"b":{"c":{}}}}'):
        with contextlib.suppress(orjson.JSONDecodeError):
            assert cost(orjson.loads(data)) <= weight(data) + 300, data[:50]


def test_what_a_copy_has_in_common_with_the_workload_here_takes_no_memory() -> None:
    local = workload()
    local["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 10_000}]
    remote = remote_of(Connection("http://127.0.0.1:1"), local=lambda key: local)
    copied = orjson.loads(orjson.dumps({**copy(Admitted="True"), "spec": local["spec"]}))
    found = remote._copy(copied)
    assert found["spec"] == local["spec"] and found["spec"]["podSets"] is local["spec"]["podSets"]
    assert remote._cost_of_copy(copied) < 5000
    other = {**copied, "spec": {**copied["spec"], "podSets": [{"name": "other", "count": 3}]}}
    assert remote._copy(other)["spec"]["podSets"] == other["spec"]["podSets"]
    local["spec"]["podSets"] = None
    assert remote._cost_of_copy(copied) > 10_000


def test_of_a_job_in_a_worker_its_pod_template_is_not_kept() -> None:
    remote = remote_of(Connection("http://127.0.0.1:1"))
    raw = {**there(suspend=False, status={"active": 1}), "wrong": EMPTY}
    raw["metadata"]["managedFields"] = EMPTY
    found = remote._reader(BATCH_JOB)(raw)
    assert "template" in raw["spec"] and "template" not in found["spec"] and shape.MALFORMED not in found
    assert {"wrong", "managedFields"}.isdisjoint({*found, *found["metadata"]})
    assert found["spec"]["suspend"] is False and found["status"] == raw["status"]


def test_the_answer_to_a_write_counts_too() -> None:
    remote = remote_of(Connection("http://127.0.0.1:1"))
    remote._count(resources.WORKLOADS, named(1, status={"conditions": EMPTY}))
    assert remote._size_limit.held > 64 * len(EMPTY)


def test_a_refusal_of_megabytes_is_cut() -> None:
    error = from_status({"code": 403, "reason": "x" * 10**6, "message": "y" * 10**6})
    assert len(str(error)) < 10_000


def test_workers_share_a_part_of_the_memory() -> None:
    pool = Pool(100)
    first, second = SizeLimit(80, pool=pool), SizeLimit(80, pool=pool)
    first.observe("jobs", "ADDED", named(1), 70)
    with pytest.raises(Exception, match="memory for objects of all worker clusters"):
        second.observe("jobs", "ADDED", named(1), 40)
    first.observe("jobs", "DELETED", named(1), 0)
    second.observe("jobs", "ADDED", named(1), 40)
    second.release()
    assert pool.held == second.held == 0


@pytest.mark.parametrize(
    ("limit", "each", "together"),
    [(None, 32, 256), (512, 32, 128), (1024, 32, 256), (4096, 128, 1024)],
)
def test_the_part_of_the_memory_follows_the_limit_of_the_process(limit: int | None, each: int, together: int) -> None:
    found = memory.shares(limit * MEBIBYTE if limit is not None else None)
    assert found == (each * MEBIBYTE, together * MEBIBYTE)


@pytest.mark.parametrize(
    ("member", "files", "wanted"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "4096"}, 4096),
        ("0::/\n", {"memory.max": "8192"}, 8192),
        ("0::/\n", {}, None),
        ("5:memory:/x\n4:cpu:/\n", {"memory/x/memory.limit_in_bytes": "2048"}, 2048),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
    ids=["above", "of a container", "none", "version 1", "version 1 without limit"],
)
def test_the_memory_limit_of_the_process_is_found(
    tmp_path: Path, member: str, files: dict[str, str], wanted: int | None
) -> None:
    (tmp_path / "member").write_text(member)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.limit(tmp_path, tmp_path / "member") == wanted
