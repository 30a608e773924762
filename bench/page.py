"""What the page costs with many queues, workloads and viewers, and what a viewer sees: ``python -m bench.page``.

One process has 1,000 ClusterQueues in 20 cohorts and 50,000 workloads in its caches, a listener for admission calls and
one for the page, in one event loop; workloads come and go all the time. No API server runs: reviews of rights are
answered at once. Another process calls admission at a steady rate, in turns with viewers and without; the viewers read
their streams and the line of a queue. A headless Chromium is one more viewer: its first paint, its memory, how long a
change takes from the cache to the screen, and its pictures while it scrolls through a line of 10,000 workloads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from api import resources
from app.application import Application
from app.collector import reading, settle
from app.metrics import ProcessMetrics
from app.server import Address, Farewell, Listener, Server
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
        churning = asyncio.create_task(_churn(made, queues))
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


async def _churn(made: PagedCluster, queues: int) -> None:
    """Twenty workloads come in a second, and as many go."""
    number = 0
    while True:
        await asyncio.sleep(0.05)
        number += 1
        made.workload(
            "bench", f"new-{number}", f"lq-{10 + number % (queues - 10)}", {"cpu": "1", "memory": "1Gi"}, age=0
        )
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
        self.page = f"http://127.0.0.1:{page}"
        self.admission = f"http://127.0.0.1:{admission}{PATH}"

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


async def calls(served: ProcessUnderTest, session: aiohttp.ClientSession, seconds: float) -> list[float]:
    """Calls admission at a steady rate; returns how long each call took, waiting for its turn included."""
    body, took, loop = orjson.dumps(review(PATH, 1)), list[float](), asyncio.get_running_loop()

    async def call(due: float) -> None:
        async with session.post(served.admission, data=body, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        took.append(loop.time() - due)

    started, running = loop.time(), []
    for number in range(int(seconds * CALLS_PER_SECOND)):
        due = started + number / CALLS_PER_SECOND
        await asyncio.sleep(max(0.0, due - loop.time()))
        running.append(asyncio.create_task(call(due)))
    await asyncio.gather(*running)
    return took


async def view(page: str, session: aiohttp.ClientSession, number: int, read: list[int]) -> None:
    """One viewer: reads its stream, and now and then a page of a line."""
    headers = {"Authorization": "Bearer admin", "Accept-Encoding": "gzip"}

    async def lines() -> None:
        while True:
            queue = f"cq-{number * 7 % 50:04}"
            async with session.get(f"{page}/api/queues/{queue}/line?limit=100", headers=headers) as answer:
                await answer.read()
            await asyncio.sleep(2.0)

    reading = asyncio.create_task(lines())
    try:
        async with session.get(f"{page}/api/stream?topic=queues&topic=cohorts", headers=headers) as answer:
            async for chunk in answer.content.iter_any():
                read[0] += len(chunk)
    finally:
        reading.cancel()


async def viewing(served: ProcessUnderTest, viewers: int) -> asyncio.subprocess.Process:
    """Starts viewers in a process of their own: what they cost there must not delay the caller."""
    command = [sys.executable, "-m", "bench.page", "--view", served.page, "--viewers", str(viewers)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)


async def views(page: str, viewers: int) -> None:
    """Reads as so many viewers until the input ends; prints how many bytes they have read."""
    read = [0]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as session:
        looking = [asyncio.create_task(view(page, session, each, read)) for each in range(viewers)]
        await reader.read()
        for each in looking:
            each.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
    print(read[0], flush=True)


async def admission(served: ProcessUnderTest, viewers: int, turns: int, seconds: float) -> None:
    """Prints the latency of admission calls without viewers and with them, in turns."""
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    used: dict[bool, float] = {False: 0.0, True: 0.0}
    read = [0]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as session:
        await calls(served, session, 2.0)
        for turn in range(2 * turns):
            watched = turn % 2 == 1
            looking = await viewing(served, viewers) if watched else None
            await asyncio.sleep(SETTLED_SECONDS)
            before, _ = await served.ask("usage")
            found[watched].append(await calls(served, session, seconds))
            after, memory = await served.ask("usage")
            used[watched] += after - before
            if looking is not None:
                told, _ = await looking.communicate(b"")  # ends its input
                read[0] += int(told)
    p99 = {each: statistics.median(quantile(turn, 0.99) for turn in found[each]) for each in found}
    p50 = {each: statistics.median(quantile(turn, 0.5) for turn in found[each]) for each in found}
    print(f"admission without viewers  p50 {p50[False] * 1e3:.1f} ms, p99 {p99[False] * 1e3:.1f} ms")
    print(f"with {viewers} viewers            p50 {p50[True] * 1e3:.1f} ms, p99 {p99[True] * 1e3:.1f} ms")
    print(f"ratio of p99               {p99[True] / p99[False]:.2f} (median of {turns} turns each)")
    share = {each: used[each] / (turns * seconds) for each in used}
    print(f"CPU of the process         {share[False]:.0%} of a core without viewers, {share[True]:.0%} with them")
    print(f"serve RSS                  {memory:.0f} MB")
    sent = read[0] / viewers / turns / (seconds + SETTLED_SECONDS) / 1024
    print(f"sent to a viewer           {sent:.1f} KiB a second, compressed")


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


async def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=50_000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--view", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.view:
        await views(given.view, given.viewers)
        return
    if given.serve:
        await serve(given.queues, given.workloads)
        return
    served = await ProcessUnderTest.start(given.queues, given.workloads)
    print(f"{given.queues} ClusterQueues, {given.workloads} workloads, {CALLS_PER_SECOND:g} admission calls a second")
    try:
        await browse(served)
        await admission(served, given.viewers, given.turns, given.seconds)
    finally:
        served.process.terminate()
        await served.process.wait()


if __name__ == "__main__":
    asyncio.run(main())
