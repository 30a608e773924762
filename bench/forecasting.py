"""``python -m bench.forecasting``: what forecasts cost ``seiretsu serve`` while they are made all the time.

Jobs that must wait are created at a fixed rate, open loop (``bench.openloop``), on a control plane of its own; each
changes the forecast of all that wait. The process that makes forecasts is stopped and continued in turn (SIGSTOP), in
the order on, off, off, on, so that both have the same load and the same number of Jobs. It makes forecasts without the
rests that it has otherwise (``SHARE``): the harder case. Then ``serve`` is started again, with and without forecasts
(``seiretsu.forecast.enable``), for the memory of each.

The pauses are the CPU time of each step that the task of the forecasts takes on the event loop, whatever else the
machine does, but for the start of its process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any, Final

import orjson

from bench import report
from bench.lag import Steps
from bench.measure import Latency, ProcessUsage, bare_plane, exit_on_sigterm
from bench.measured import with_token
from bench.openloop import Caller, Target
from bench.scenario import JOBS, NAMESPACE, WORKLOADS, Size, job, setting
from bench.served import served
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle

SIZE: Final = Size(jobs=0, queues=30, cohorts=5)
CPUS: Final = 20
"""Of each ClusterQueue: all other Jobs wait."""
SECONDS: Final = 600
"""Each Job may run for so long, so that run times spread and a forecast takes many runs."""
SETTLED_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 240.0
PROGRAM: Final = """
import sys
from bench.forecasting import continuous
continuous(sys.argv.pop(1))
from cli.main import main
main()
"""


def continuous(file: str) -> None:
    """In ``serve``: forecasts are made without rests, and the lengths of their steps are written to a file."""
    from controller.forecasts import forecasts

    look, run, seconds = forecasts.Forecasts.look, forecasts.Forecasts.run, list[float]()

    def write() -> None:
        Path(file).write_text(json.dumps(seconds))

    async def measured(self: forecasts.Forecasts) -> float:
        steps = Steps(look(self))
        try:
            return float(await steps)
        finally:
            seconds.extend(steps.seconds)

    async def to_its_end(self: forecasts.Forecasts) -> None:
        try:
            await run(self)
        finally:
            write()

    forecasts.SHARE = 1.0  # type: ignore[misc]
    forecasts.PAUSE_SECONDS = 0.1  # type: ignore[misc]
    forecasts.Forecasts.look = measured  # type: ignore[method-assign]
    forecasts.Forecasts.run = to_its_end  # type: ignore[method-assign]


def waiting(number: int) -> dict[str, Any]:
    """A Job with a name of its own that waits for quota."""
    made = job("", f"lq-{number % SIZE.queues}", str(1 + number % 4))
    made["metadata"] |= {"generateName": f"j{number % 120}-"}
    del made["metadata"]["name"]
    made["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = str(SECONDS)
    return made


def process_of_forecasts(serve: int) -> int:
    """Returns the process that makes forecasts for a ``serve``; 0 if there is none."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == serve and b"controller.forecasts" in (path / "cmdline").read_bytes():
                return int(path.name)
        except OSError:
            continue
    return 0


async def prepare(kubeconfig: Path, jobs: int) -> None:
    """Creates the queues and Jobs that wait; returns when each has a Workload."""
    async with Client(config.load(kubeconfig), throttle=Throttle(0)) as client:
        for resource, namespace, raw in setting(SIZE):
            if resource.kind == "ClusterQueue":
                raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = CPUS
            await client.create(resource, raw, namespace)
        for number in range(jobs):
            await client.create(JOBS, waiting(number), NAMESPACE)
        end = time.monotonic() + PATIENCE_SECONDS
        while len((await client.list(WORKLOADS, NAMESPACE))["items"]) < jobs:
            if time.monotonic() > end:
                raise TimeoutError(f"not all of {jobs} Jobs have a Workload")
            await asyncio.sleep(1)


def in_turn(kubeconfig: Path, pid: int, rate: float, seconds: float, rounds: int) -> dict[str, Any]:
    """Creates Jobs with forecasts on and off in turn; returns the latencies of both."""
    found: dict[str, list[list[float]]] = {"on": [], "off": []}
    path = f"{JOBS.path(NAMESPACE)}?fieldManager=bench"
    requests = [(path, orjson.dumps(waiting(number))) for number in range(120)]
    server = config.load(kubeconfig).server
    cpu, failed = 0.0, 0
    with Caller(Target(server, requests, b'"uid"', kubeconfig=kubeconfig)) as caller:
        caller.run(rate, SETTLED_SECONDS)
        for number in range(2 * rounds):
            mode = ("on", "off", "off", "on")[number % 4]
            os.kill(pid, signal.SIGCONT if mode == "on" else signal.SIGSTOP)
            time.sleep(SETTLED_SECONDS)
            caller.took.clear()
            began = ProcessUsage.of(pid).cpu_seconds
            failed += caller.run(rate, seconds).failed
            found[mode].append(list(caller.took))
            cpu += ProcessUsage.of(pid).cpu_seconds - began
    os.kill(pid, signal.SIGCONT)
    both = {mode: Latency.of(each for took in found[mode] for each in took) for mode in ("on", "off")}
    pairs = [Latency.of(on).p99 / Latency.of(off).p99 for on, off in zip(found["on"], found["off"], strict=True)]
    return {
        **{mode: latency._asdict() for mode, latency in both.items()},
        "failed": failed,
        "p99 ratio": both["on"].p99 / both["off"].p99,
        "p99 ratio of rounds, median": statistics.median(pairs),
        "cores of the forecasts while on": cpu / (rounds * seconds),
    }


def memory(kubeconfig: Path, scratch: Path, seconds: float, *, enable: bool) -> dict[str, float]:
    """Returns the resident memory of a new ``serve``, and of its process for forecasts, after so many seconds."""
    scratch.mkdir(exist_ok=True)
    (scratch / "config.yaml").write_text(f"seiretsu: {{forecast: {{enable: {str(enable).lower()}}}}}\n")
    with served(kubeconfig, scratch, "--config", str(scratch / "config.yaml")) as process:
        time.sleep(seconds)
        other = process_of_forecasts(process.pid)
        return {"serve": ProcessUsage.of(process.pid).rss, "forecasts": ProcessUsage.of(other).rss if other else 0.0}


def main() -> None:
    """Parses the arguments, measures, prints, ends with 0."""
    parser = argparse.ArgumentParser(prog="bench.forecasting", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="how many wait from the start (default 2000)")
    parser.add_argument("--rate", type=float, default=40.0, help="creates a second (default 40)")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a round takes (default 6)")
    parser.add_argument("--rounds", type=int, default=8, help="rounds with and rounds without (default 8)")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds until memory is read (default 60)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    exit_on_sigterm()
    figures: dict[str, Any] = {}
    with bare_plane() as (plane, scratch, note):
        token = with_token(plane, scratch)
        steps = scratch / "steps.json"
        with served(token, scratch, program=PROGRAM, first=(str(steps),)) as process:
            print(f"seiretsu serve --install on {os.cpu_count()} processors; {note}", flush=True)
            asyncio.run(prepare(token, chosen.jobs))
            other = process_of_forecasts(process.pid)
            figures["calls"] = in_turn(token, other, chosen.rate, chosen.seconds, chosen.rounds)
        figures["steps"] = Latency.of(json.loads(steps.read_text()))._asdict()
        for name, enable in (("with", True), ("without", False)):
            figures[name] = memory(token, scratch / name, chosen.settle, enable=enable)
    show(figures)
    report.save(figures, chosen.json)


def show(figures: dict[str, Any]) -> None:
    """Prints the figures."""
    calls, steps = figures["calls"], figures["steps"]
    rows = [(mode, *(calls[mode][each] for each in ("calls", "p50", "p99", "longest"))) for mode in ("on", "off")]
    report.table("milliseconds of a create, forecasts on and off in turn", ("", "calls", "p50", "p99", "longest"), rows)
    print(
        f"p99 on / off {calls['p99 ratio']:.2f}, median of the rounds {calls['p99 ratio of rounds, median']:.2f};"
        f" forecasts used {calls['cores of the forecasts while on']:.2f} cores while on; {calls['failed']} calls failed"
    )
    print(
        f"steps of the forecasts on the event loop, CPU: p50 {steps['p50']:.2f}, p99 {steps['p99']:.2f}, longest"
        f" {steps['longest']:.2f} ms ({steps['calls']} steps)"
    )
    on, off = figures["with"], figures["without"]
    both = on["serve"] + on["forecasts"]
    print(
        f"MiB resident: serve {on['serve']:.0f} and its process for forecasts {on['forecasts']:.0f}, serve without"
        f" forecasts {off['serve']:.0f}: {on['serve'] / off['serve']:.2f} and together {both / off['serve']:.2f} times"
    )


if __name__ == "__main__":
    main()
