"""What the page costs with many queues, workloads and viewers, and what a viewer sees: ``python -m bench.page``.

One process has 1,000 ClusterQueues in 20 cohorts and 50,000 workloads in its caches, a listener for admission calls and
one for the page, in one event loop; workloads come, start and go all the time. No API server runs: reviews of rights
are answered at once. Another process calls admission at a steady rate, in turns: without viewers; with viewers of a
second process like the first, which cost the machine as much and the first process nothing; and with its own viewers,
who read their streams and the line of a queue. A headless Chromium is one more viewer: its first paint, its memory, how
long a change takes from the cache to the screen, and its pictures while it scrolls through a line of 10,000 workloads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

from api import resources
from app.application import Application
from app.collector import reading, settle
from app.metrics import ProcessMetrics
from app.server import Address, Farewell, Listener, Server
from bench.viewers import PathCaller, Viewer
from bench.webhook import review
from tests.paging import EVERYTHING, PagedCluster
from webhook.routes import routes
from webhook.settings import Context, WebhookSettings

COHORTS: Final = 20
DEEP: Final = 10_000
"""So many workloads wait in the first queue; the others are spread."""
PATH: Final = "/mutate-batch-v1-job"
CALLS_PER_SECOND: Final = 50.0
SETTLED_SECONDS: Final = 5.0
"""After which viewers have been started and have read all rows."""
SWITCH_SECONDS: Final = 0.0005
"""As ``serve``: a thread holds the interpreter for so long."""
ADMITTED: Final = 5
"""Workloads of each queue that run."""


def cluster(queues: int, workloads: int) -> PagedCluster:
    """The caches of the process that is measured."""
    made = PagedCluster(users={"admin": EVERYTHING}, now=time.time())
    made.namespace("bench")
    made.flavor("default")
    for number in range(queues):
        made.queue(f"cq-{number:04}", {"default": {"cpu": "20", "memory": "80Gi"}}, f"cohort-{number % COHORTS}")
        made.local_queue("bench", f"lq-{number}", f"cq-{number:04}")
    asked = {"cpu": "4", "memory": "16Gi"}
    number = 0
    for queue in range(queues):
        for _ in range(ADMITTED):
            status = made.admitted(f"cq-{queue:04}", "default", asked)
            made.workload("bench", f"runs-{number}", f"lq-{queue}", asked, status=status, age=float(number % 9999))
            number += 1
    for each in range(workloads - number):
        queue = 0 if each < min(DEEP, workloads // 5) else each % queues
        made.workload("bench", f"waits-{each}", f"lq-{queue}", asked, age=float(each % 9999), priority=each % 3)
    made.start()
    made.decide(2)
    return made


async def serve(queues: int, workloads: int) -> None:
    """Serves until its input ends; prints its two ports, and then what it is asked for, a word for a line."""
    settle()
    with reading():
        made = cluster(queues, workloads)
    async with made.served() as page:
        hooks = routes(Context(WebhookSettings(), made.lookup()))
        admission = Server([Listener(Application(hooks, [], ProcessMetrics()), Address("127.0.0.1", 0))])
        await admission.start()
        assert page.listener.bound is not None
        assert admission.listeners[0].bound is not None
        print(page.listener.bound.port, admission.listeners[0].bound.port, flush=True)
        churning = asyncio.create_task(churn(made, queues))
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        number = 0
        while line := await reader.readline():
            if line == b"change\n":
                number += 1
                made.workload("bench", f"probe-{number}", "lq-3", {"cpu": "1", "memory": "1Gi"}, age=0)
                print(time.time(), flush=True)
            else:
                times = os.times()
                print(times.user + times.system, _rss(), flush=True)
        churning.cancel()
        await admission.stop(Farewell(0.0, 0.5))


async def churn(made: PagedCluster, queues: int) -> None:
    """Twenty workloads come in a second, of which every fourth starts, and as many go."""
    number, asked = 0, {"cpu": "1", "memory": "1Gi"}
    while True:
        await asyncio.sleep(0.05)
        number += 1
        queue = 10 + number % (queues - 10)
        made.workload("bench", f"new-{number}", f"lq-{queue}", asked, age=0)
        if number % 4 == 0:
            status = made.admitted(f"cq-{queue:04}", "default", asked, age=0)
            made.workload("bench", f"new-{number}", f"lq-{queue}", asked, age=0, status=status)
        gone = made.caches.workloads.get(("bench", f"new-{number - 40}"))
        if gone is not None:
            made.delete(resources.WORKLOADS, gone)


def _rss() -> int:
    """The memory of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


class ProcessUnderTest:
    """The process that is measured."""

    def __init__(self, process: asyncio.subprocess.Process, page: int, admission: int) -> None:
        self.process = process
        self.page_port = page
        self.page = f"http://127.0.0.1:{page}"
        self.admission_port = admission

    @classmethod
    async def start(cls, queues: int, workloads: int) -> ProcessUnderTest:
        """Starts it; returns when it serves."""
        command = [
            sys.executable,
            "-m",
            "bench.page",
            "--serve",
            "--queues",
            str(queues),
            "--workloads",
            str(workloads),
        ]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdout is not None
        page, admission = (await process.stdout.readline()).split()
        return cls(process, int(page), int(admission))

    async def ask(self, word: str) -> list[float]:
        """Returns what it answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n".encode())
        return [float(each) for each in (await self.process.stdout.readline()).split()]


async def viewing(port: int, viewers: int) -> asyncio.subprocess.Process:
    """Starts viewers in a process of their own: what they cost there must not delay the caller."""
    command = [sys.executable, "-m", "bench.page", "--view", str(port), "--viewers", str(viewers)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)


async def views(port: int, viewers: int) -> None:
    """Reads as so many viewers until the input ends; prints how many bytes they have read, and the CPU time of that."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    looking = [Viewer(port, each) for each in range(viewers)]
    tasks = [asyncio.create_task(each.run()) for each in looking]
    await reader.read()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    wrong = [each for each in ended if not isinstance(each, asyncio.CancelledError)]
    if wrong:
        raise RuntimeError(f"{len(wrong)} viewers have ended: {wrong[0]!r}")
    print(sum(each.read for each in looking), time.process_time(), flush=True)


class Arm(StrEnum):
    """Whose viewers there are while admission is called."""

    NONE = "without viewers"
    ELSEWHERE = "viewers of the twin"
    HERE = "with viewers"


@dataclass
class Measured:
    """What was measured in one arm, by turn; CPU seconds of the process, and of the viewers."""

    calls: list[list[float]] = field(default_factory=list)
    cpu: float = 0.0
    viewers_cpu: float = 0.0
    read: int = 0

    def at(self, part: float) -> float:
        """Returns a quantile of all calls, in milliseconds."""
        return quantile([each for turn in self.calls for each in turn], part) * 1e3

    def middle(self, part: float) -> float:
        """Returns the median of the quantiles of the turns, in milliseconds."""
        return statistics.median(quantile(turn, part) for turn in self.calls) * 1e3


async def admission(served: ProcessUnderTest, twin: ProcessUnderTest, viewers: int, turns: int, seconds: float) -> None:
    """Prints the latency of admission calls without viewers, with viewers of another process, and with viewers of this
    one, in turns.
    """
    found = {arm: Measured() for arm in Arm}
    caller = PathCaller(served.admission_port, PATH, orjson.dumps(review(PATH, 1)))
    await caller.run(CALLS_PER_SECOND, 2.0)
    memory = 0.0
    for turn in range(turns * len(Arm)):
        arm = list(Arm)[turn % len(Arm)]
        seen = {Arm.NONE: None, Arm.ELSEWHERE: twin, Arm.HERE: served}[arm]
        looking = await viewing(seen.page_port, viewers) if seen is not None else None
        await asyncio.sleep(SETTLED_SECONDS)
        before, _ = await served.ask("usage")
        found[arm].calls.append(await caller.run(CALLS_PER_SECOND, seconds))
        after, memory = await served.ask("usage")
        found[arm].cpu += after - before
        if looking is not None:
            output, _ = await looking.communicate(b"")  # ends its input
            read, cpu = output.split()
            found[arm].read += int(read)
            found[arm].viewers_cpu += float(cpu)
    for arm, each in found.items():
        print(
            f"admission {arm:20} p50 {each.at(0.5):.1f}, p95 {each.at(0.95):.1f}, p99 {each.at(0.99):.1f} ms"
            f" (turns: {each.middle(0.99):.1f}), CPU {each.cpu / turns / seconds:.0%} of a core"
        )
    none, elsewhere, here = (found[arm] for arm in Arm)
    print(f"p99, with viewers to without            {here.at(0.99) / none.at(0.99):.2f}")
    print(f"the machine's part: the twin's viewers  {elsewhere.at(0.99) / none.at(0.99):.2f}")
    print(f"the process's part: with to twin's      {here.at(0.99) / elsewhere.at(0.99):.2f}")
    whole = turns * (seconds + SETTLED_SECONDS)
    print(f"CPU of the viewers         {here.viewers_cpu / whole:.0%} of a core")
    print(f"serve RSS                  {memory:.0f} MB")
    print(f"sent to a viewer           {here.read / viewers / whole / 1024:.1f} KiB a second, compressed")


def quantile(values: list[float], part: float) -> float:
    """Returns a value that occurred."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


CHANGES: Final = 20
_WATCH: Final = """() => {
  window.shownAt = [];
  const list = document.querySelector('virtual-list');
  const rows = () => [...list.querySelectorAll('.queue')];
  const text = () => rows().find((each) => each.textContent.includes('cq-0003'))?.textContent;
  let last = text();
  new MutationObserver(() => {
    const now = text();
    if (now !== last) { last = now; requestAnimationFrame(() => window.shownAt.push(Date.now() / 1000)); }
  }).observe(list, { childList: true, subtree: true, characterData: true });
}"""
_SCROLL: Final = """async () => {
  const times = [];
  let before = performance.now();
  for (let step = 0; step < 240; step += 1) {
    scrollBy(0, 400);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - before);
    before = now;
  }
  return times;
}"""


async def browse(served: ProcessUnderTest) -> None:
    """Prints what a browser shows."""
    from playwright.async_api import async_playwright

    from tests.browser import ARGUMENTS, chromium

    found = chromium()
    async with async_playwright() as started:
        launched = await started.chromium.launch(
            executable_path=str(found.program), args=list(ARGUMENTS), env={**found.environment} or None
        )
        page = await launched.new_page()
        paints, rows = [], []
        for _ in range(5):
            await page.goto("about:blank")
            await page.goto(f"{served.page}/#token=admin")
            await page.wait_for_selector("virtual-list .queue")
            rows.append(await page.evaluate("performance.now()"))
            paints.append(await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        first = f"{statistics.median(paints):.0f} ms; first queues {statistics.median(rows):.0f} ms"
        print(f"first contentful paint     {first}")
        await page.fill("#filter", "cq-0003")
        await page.evaluate(_WATCH)
        latencies = await _latencies(served, page.evaluate)
        print(
            f"from the cache to screen   median {statistics.median(latencies):.0f} ms, longest {max(latencies):.0f} ms"
            f" of {len(latencies)}"
        )
        await page.fill("#filter", "")
        await page.evaluate("location.hash = '#/queues/cq-0000'")
        await page.wait_for_selector("virtual-list .job .name")
        times = await page.evaluate(_SCROLL)
        slow = sum(each > 1000 / 60 * 1.5 for each in times)
        print(
            f"scrolling 10,000 rows      median {statistics.median(times):.1f} ms a picture,"
            f" {slow} of {len(times)} pictures late"
        )
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")
        await session.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in (await session.send("Performance.getMetrics"))["metrics"]}
        used = f"{metrics['JSHeapUsedSize'] / 2**20:.0f} MB of JavaScript, {metrics['Nodes']:.0f} nodes"
        print(f"memory of the page         {used}")
        await launched.close()


async def _latencies(served: ProcessUnderTest, evaluate: Callable[[str], Awaitable[Any]]) -> list[float]:
    """Makes changes one after the other; returns the milliseconds from each to the next picture that shows it."""
    found = []
    for number in range(1, CHANGES + 1):
        (at,) = await served.ask("change")
        shown: list[float] = []
        for _ in range(500):
            shown = await evaluate("window.shownAt")
            if len(shown) >= number:
                break
            await asyncio.sleep(0.02)
        if len(shown) >= number:
            found.append((shown[number - 1] - at) * 1000)
        await asyncio.sleep(0.3)
    return found


async def main(given: argparse.Namespace) -> None:
    """Measures."""
    print(f"{given.queues} ClusterQueues, {given.workloads} workloads, {CALLS_PER_SECOND:g} admission calls a second")
    started = []
    try:
        served = await ProcessUnderTest.start(given.queues, given.workloads)
        started.append(served)
        if not given.without_browser:
            await browse(served)
        if given.turns:
            twin = await ProcessUnderTest.start(given.queues, given.workloads)
            started.append(twin)
            await admission(served, twin, given.viewers, given.turns, given.seconds)
    finally:
        for each in started:
            each.process.terminate()
            await each.process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=50_000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--turns", type=int, default=8, help="of each: no viewers, those of the twin, those here")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--without-browser", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--view", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.view:
        uvloop.run(views(chosen.view, chosen.viewers))
    elif chosen.serve:
        sys.setswitchinterval(SWITCH_SECONDS)
        uvloop.run(serve(chosen.queues, chosen.workloads))
    else:
        uvloop.run(main(chosen))
