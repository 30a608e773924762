"""Measurements: latencies of calls, and the API server's own counters."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from controller.kube.config import Connection
from devcluster import processes
from devcluster.controlplane import ControlPlane, Spec

_HOOK = "apiserver_admission_webhook_admission_duration_seconds"
_NAMES = f"apiserver_request_total|{_HOOK}_(?:count|sum)|apiserver_crd_conversion_webhook_duration_seconds_count"
_SAMPLE = re.compile(rf"^({_NAMES})\{{(.*)\}} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
AHEAD, BEHIND = -20, 19
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


class Latency(NamedTuple):
    """Milliseconds that calls took."""

    calls: int
    mean: float
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Latency":
        """The summary of single measurements; zeros if there are none."""
        ordered = sorted(each * 1e3 for each in seconds)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        last = len(ordered) - 1
        p50, p99 = ordered[len(ordered) // 2], ordered[min(last, len(ordered) * 99 // 100)]
        return cls(len(ordered), sum(ordered) / len(ordered), p50, p99, ordered[last])

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:6.1f} ms   p99 {self.p99:6.1f} ms   longest {self.longest:6.1f} ms   ({self.calls} calls)"
        )


async def timed(call: Callable[[int], Awaitable[object]], count: int, *, clients: int) -> Latency:
    """Make ``count`` calls from so many clients, each waiting for its answer before its next call."""
    took: list[float] = []
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    return Latency.of(took)


def exit_on_sigterm() -> None:
    """Makes SIGTERM an exit, so that every block is left properly: what a bench started ends with it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


class Counts(NamedTuple):
    """The counters of an API server since it started.

    ``requests``: by verb, resource (``jobs``, ``workloads/status``) and HTTP status. ``hooks``: calls of admission
    webhooks and the seconds they took, by name. ``conversions``: objects converted from version to version.
    """

    requests: Counter[tuple[str, str, int]]
    hooks: dict[str, tuple[int, float]]
    conversions: int

    @property
    def writes(self) -> Counter[tuple[str, str]]:
        """Returns the writes that were answered with success, by verb and resource."""
        return succeeded(self.requests)

    def since(self, before: "Counts") -> "Counts":
        """Returns the increase."""
        none = (0, 0.0)
        hooks = {
            name: (calls - before.hooks.get(name, none)[0], seconds - before.hooks.get(name, none)[1])
            for name, (calls, seconds) in self.hooks.items()
        }
        return Counts(self.requests - before.requests, hooks, self.conversions - before.conversions)


def succeeded(requests: Counter[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    """Returns the writes among requests that were answered with success, by verb and resource."""
    found: Counter[tuple[str, str]] = Counter()
    for (verb, resource, status), count in requests.items():
        if verb in WRITES and 200 <= status < 300:
            found[verb, resource] += count
    return found


async def counts(connection: Connection) -> Counts:
    """Reads the API server's own metrics."""
    text = await _metrics(connection)
    requests: Counter[tuple[str, str, int]] = Counter()
    calls: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    conversions = 0
    for metric, labels, value in _SAMPLE.findall(text):
        label = dict(_LABEL.findall(labels))
        if metric == "apiserver_request_total" and label["resource"]:
            name = f"{label['resource']}/{label['subresource']}" if label["subresource"] else label["resource"]
            requests[label["verb"], name, int(label["code"])] += int(float(value))
        elif metric == f"{_HOOK}_count":
            calls[label["name"]] += int(float(value))
        elif metric == f"{_HOOK}_sum":
            seconds[label["name"]] = seconds.get(label["name"], 0.0) + float(value)
        elif metric == "apiserver_crd_conversion_webhook_duration_seconds_count":
            conversions += int(float(value))
    return Counts(requests, {name: (calls[name], seconds[name]) for name in sorted(seconds)}, conversions)


async def _metrics(connection: Connection) -> str:
    authorization = await connection.credentials.authorization()
    headers = {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(f"{connection.server}/metrics", headers=headers)

    def read() -> str:
        with urllib.request.urlopen(request, context=connection.tls, timeout=60) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(read)


class ProcessUsage(NamedTuple):
    """Returns the usage of a process: CPU seconds, and resident memory now and at its peak in MiB. ``user_seconds`` are
    those without the kernel's, which depend less on what else the machine does.
    """

    cpu_seconds: float
    rss: float
    peak: float
    user_seconds: float = 0.0

    @classmethod
    def of(cls, pid: int) -> "ProcessUsage":
        """Read it from the kernel."""
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        ticks = int(stat[11]) + int(stat[12])
        return cls(
            ticks / 100,
            int(status["VmRSS"].split()[0]) / 1024,
            int(status["VmHWM"].split()[0]) / 1024,
            int(stat[11]) / 100,
        )


def weigh(pid: int, nice: int) -> bool:
    """Let the session of a process have more of the processors than other sessions (``nice`` from -20) or less (to 19);
    whether that was done. Linux shares processors between sessions first, so ``nice`` of a process alone does little.
    """
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def bare_plane() -> Iterator[tuple[ControlPlane, Path, str]]:
    """A control plane without nodes and a scratch directory, both ``ahead`` of other work; and a few words on that."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane,
        ahead(plane) as note,
    ):
        yield plane, Path(scratch), note


@contextlib.contextmanager
def ahead(plane: ControlPlane) -> Iterator[str]:
    """For a while this session and a control plane have precedence over other work of the machine, if allowed; returns
    a note about that.
    """
    weighed = weigh(os.getpid(), AHEAD) and weigh_all(plane, AHEAD)
    try:
        yield "other work stands back" if weighed else f"load {os.getloadavg()[0]:.1f}"
    finally:
        weigh(os.getpid(), 0)


def weigh_all(plane: ControlPlane, nice: int) -> bool:
    """Applies ``weigh`` to the control plane's programs, each of which is a session."""
    weighed = [weigh(record.pid, nice) for record in processes.recorded(plane.layout.records)]
    return all(weighed)


def waited_seconds(pid: int) -> float:
    """For how long the process's first thread was ready to run and had no processor; 0 where the kernel keeps no
    account.
    """
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
