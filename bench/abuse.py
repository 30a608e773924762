"""``make bench``: 100,000 invalid AdmissionReviews, and many slow clients, against ``serve``.

The program is a separate process, called over TLS. Reported are: wrong answers (none), the growth of its memory, when
slow clients were cut off, and the latency of other clients at the same time and alone.
"""

import argparse
import asyncio
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import ProcessUsage, bare_plane, exit_on_sigterm
from bench.openloop import Caller, Quantiles, Target
from bench.reviews import MUTATE, Ask, asks, good, wrong
from bench.served import hooks_at, served
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane

CLIENTS = 2
OTHERS_PER_SECOND = 50.0
FIFTHS = 5
"""After the first of them memory is expected to grow no more: by then there was one of each kind."""
DRIP_SECONDS = 0.25
LONGEST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Victim:
    """The program under test."""

    base: str
    bundle: Path
    pid: int

    def trust(self) -> ssl.SSLContext:
        """The CA that a client trusts."""
        return ssl.create_default_context(cafile=str(self.bundle))

    def others(self) -> Caller:
        """Clients with valid requests."""
        return Caller(Target(self.base, [(MUTATE, good(MUTATE))], b'"allowed":true', ca=self.bundle), connections=16)


@dataclass(slots=True)
class Report:
    """The results. ``mistakes`` has the wrong answers, ``sizes`` the program's memory in MiB after each fifth of the
    reviews.
    """

    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)

    def note(self, ask: Ask, status: int, body: bytes) -> None:
        """Count an answer and judge it."""
        self.answered[ask.kind, status] += 1
        if mistake := wrong(ask, status, body):
            self.mistakes.append(f"{ask.kind} to {ask.path}: {mistake}: {ask.body[:500]!r} -> {body[:300]!r}")


async def assault(victim: Victim, reviews: Iterable[Ask], count: int) -> Report:
    """Sends ``count`` reviews to the program, over connections that are kept as long as it keeps them."""
    report, left = Report(), iter(reviews)

    async def client() -> None:
        wire = Wire(victim)
        for ask in left:
            report.note(ask, *await wire.call(ask))
            if report.answered.total() >= count * (len(report.sizes) + 1) / FIFTHS:
                report.sizes.append(ProcessUsage.of(victim.pid).rss)
        wire.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return report


class Wire:
    """A connection that is made again when the other side has closed it."""

    def __init__(self, victim: Victim) -> None:
        self._at = urlsplit(victim.base)
        self._trust = victim.trust()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, ask: Ask) -> tuple[int, bytes]:
        """Status and body of the answer; status 0 where the connection ended without one."""
        head = f"POST {ask.path} HTTP/1.1\r\nHost: {self._at.netloc}\r\nContent-Type: application/json\r\n"
        reader, writer = self._streams or await opened(self._at.hostname or "", self._at.port or 0, self._trust)
        self._streams = (reader, writer)
        try:
            writer.write(f"{head}Content-Length: {len(ask.body)}\r\n\r\n".encode())
            sending = asyncio.create_task(_send(writer, ask.body))
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
            body = await reader.readexactly(int(answer.partition("content-length:")[2].partition("\r\n")[0]))
            await sending
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, b""
        if "connection: close" in answer:
            self.close()
        return int(answer[9:12]), body

    def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            _cut(self._streams[1])
        self._streams = None


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a body; one that is refused before its end is not sent to it."""
    try:
        writer.write(body)
        await writer.drain()
    except OSError:
        pass


def _cut(writer: asyncio.StreamWriter) -> None:
    if not writer.transport.is_closing():
        writer.transport.abort()


async def opened(host: str, port: int, trust: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A new connection."""
    return await asyncio.open_connection(host, port, ssl=trust, server_hostname=host)


async def slow_senders(victim: Victim, count: int, connected: asyncio.Barrier) -> list[float]:
    """That many clients send a byte now and then, half of them of the head, the others of the body. They begin
    together, when all are ``connected``. Returns after how many seconds each was cut off; ``LONGEST_SECONDS`` means not
    at all.
    """
    at, trust = urlsplit(victim.base), victim.trust()
    head = f"POST {MUTATE} HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"

    async def one(number: int) -> float:
        reader, writer = await opened(at.hostname or "", at.port or 0, trust)
        await connected.wait()
        ended = asyncio.create_task(reader.read())
        began = time.monotonic()
        writer.write(head.encode() + (b"\r\n" if number % 2 else b"X-Slow: "))
        while not ended.done() and time.monotonic() < began + LONGEST_SECONDS:
            writer.write(b"x")
            await asyncio.wait([ended], timeout=DRIP_SECONDS)
        took = time.monotonic() - began
        ended.cancel()
        await asyncio.wait([ended])
        _cut(writer)
        return took

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def measure(plane: ControlPlane, scratch: Path, seed: int, count: int, senders: int) -> int:
    """Do all that and print it; how many mistakes there were."""
    with served(plane.kubeconfig, scratch) as process:
        async with Client(config.load(plane.kubeconfig)) as client:
            base = await hooks_at(client)
        victim = Victim(base, scratch / "certificates" / "ca.crt", process.pid)
        with victim.others() as others:

            def meet(seconds: float) -> Quantiles:
                return others.run(OTHERS_PER_SECOND, seconds)

            await asyncio.to_thread(meet, 2)
            print(f"{'other callers, alone':36} {await asyncio.to_thread(meet, 20)}", flush=True)
            connected = asyncio.Barrier(senders + 1)
            slow = asyncio.create_task(slow_senders(victim, senders, connected))
            print(f"{f'while {senders} connect at once':36} {await asyncio.to_thread(meet, 2)}", flush=True)
            await connected.wait()
            print(f"{f'beside {senders} slow senders':36} {await asyncio.to_thread(meet, 4)}", flush=True)
            cut = sorted(await slow)
            print(f"slow senders were cut off after {cut[0]:.1f} to {cut[-1]:.1f} s", flush=True)
            hurling = asyncio.create_task(assault(victim, asks(seed, count), count))
            print(f"{'beside bad reviews, without a pause':36} {await asyncio.to_thread(meet, 30)}", flush=True)
            report = await hurling
    print_report(report)
    log = (scratch / "serve.log").read_text(errors="replace")
    mistakes = len(report.mistakes) + log.count("Traceback") + sum(took >= LONGEST_SECONDS for took in cut)
    print(f"tracebacks in the program's log: {log.count('Traceback')}")
    return mistakes


def print_report(report: Report) -> None:
    """Print a report."""
    statuses: Counter[int] = Counter()
    for (_, status), many in report.answered.items():
        statuses[status] += many
    counts = ", ".join(f"{many} x {status}" for status, many in sorted(statuses.items()))
    print(f"{report.answered.total()} reviews: {counts}; {len(report.mistakes)} not answered as they should be")
    for mistake in report.mistakes[:5]:
        print(f"    {mistake}")
    print(f"memory after each fifth of them: {', '.join(f'{size:.0f}' for size in report.sizes)} MiB")


def main() -> int:
    """Parse the arguments, run, print; 1 where there was a mistake."""
    parser = argparse.ArgumentParser(prog="bench.abuse", description=__doc__)
    parser.add_argument("--reviews", type=int, default=100_000, help="how many (default 100000)")
    parser.add_argument("--senders", type=int, default=200, help="how many send slowly (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    chosen = parser.parse_args()
    exit_on_sigterm()
    with bare_plane() as (plane, scratch, note):
        print(f"{chosen.reviews} bad reviews, seed {chosen.seed}; {os.cpu_count()} processors, {note}", flush=True)
        run = measure(plane, scratch, chosen.seed, chosen.reviews, chosen.senders)
        return 1 if asyncio.run(run) else 0


if __name__ == "__main__":
    sys.exit(main())
