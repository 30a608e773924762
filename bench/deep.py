"""A deep queue, for any controller that serves Kueue's API: ``python -m bench.deep``.

One ClusterQueue with quota for 500 of 10,000 equal Workloads. None ends before all are created and the controller has
nothing left to write; then the admitted ones end at random (the same in every run), and others take their places.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvloop

from bench import contention, observer, report
from bench.contention import SETTLE_SECONDS
from bench.driver import Driver, Outcome
from bench.load import Class, Load
from bench.measure import Latency, exit_on_sigterm
from bench.measured import add_options, measured
from controller.kube import config

CREATORS = 8
LOAD = Load(
    "deep",
    cohorts=1,
    queues=1,
    classes=tuple(Class(f"stream-{number}", 10_000 // CREATORS, 1, 50, 2.0, 0.0) for number in range(CREATORS)),
    nominal=500,
    borrowing=0,
    random_runtimes=True,
)


async def drain(
    kubeconfig: Path,
    load: Load,
    pids: Mapping[str, int],
    limit_seconds: float,
    publish: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Fills the queue, lets it drain, and returns the figures of the latter, which ``publish`` gets before the objects
    are removed.
    """
    connection = config.load(kubeconfig)
    began: list[tuple[float, report.Moment]] = []

    async def ready() -> None:
        moment = await report.moment(connection, pids)
        began.append((time.perf_counter(), moment))

    async with Driver(connection, load) as driver:
        await driver.prepare()
        outcome = await driver.run(limit_seconds, ready)
        await asyncio.sleep(SETTLE_SECONDS)  # coalesced statuses and late events are part of the account
        if not began:
            raise RuntimeError(outcome.why)
        ((since, before),) = began
        after = await report.moment(connection, pids)
        found = summary(load, outcome, since)
        figures = found | report.Cost.between(before, after).figures(found["admitted"], outcome.requests)
        publish(figures)
        await driver.remove()
    return figures


def summary(load: Load, outcome: Outcome, since: float) -> dict[str, Any]:
    """Returns the figures that come from the events after ``since``, and the broken rules of the whole run; raises
    ``RuntimeError`` if nothing was admitted after that.
    """
    times = observer.admission_seconds(outcome.events, dict.fromkeys(outcome.created, since)).values()
    admitted = [seconds for seconds in times if seconds > 0]
    if not admitted:
        raise RuntimeError(outcome.why or "no Workload was admitted after the first ones could end")
    broken = observer.judge(outcome.events, contention.limits(load), outcome.created)
    return {
        "load": load.name,
        "workloads": load.workloads,
        "admitted": len(admitted),
        "admissions a second": len(admitted) / max(admitted),
        "from quota freed to admission ms": Latency.of(observer.refill_seconds(outcome.events, since))._asdict(),
        "mean use of quota": observer.mean_use(outcome.events, since, since + max(admitted)) / load.quota,
        "events": len(outcome.events),
        "broken": [outcome.why] * bool(outcome.why) + broken,
    }


def show(figures: Mapping[str, Any]) -> None:
    """Prints the figures."""
    wait = figures["from quota freed to admission ms"]
    print(
        f"{figures['admitted']} admissions, {figures['admissions a second']:.1f} a second; "
        f"mean use of quota {figures['mean use of quota']:.1%}"
    )
    print(
        "from quota freed to the next admission (both as seen by the watch): "
        f"p50 {wait['p50']:.0f} ms, p99 {wait['p99']:.0f} ms, longest {wait['longest']:.0f} ms"
    )
    report.show_cost(figures, figures["admitted"])


def main(arguments: list[str] | None = None) -> int:
    """Parses the arguments, measures, prints; returns 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="bench.deep", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="the share of the Workloads (default 1)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which the run ends (default 1800)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    add_options(parser)
    chosen = parser.parse_args(arguments)
    exit_on_sigterm()
    load = LOAD.share(chosen.share)
    if load.workloads <= load.quota:
        parser.error(
            f"--share {chosen.share:g}: all {load.workloads} Workloads fit into the quota for {load.quota}, none "
            f"waits; use more than {load.quota / LOAD.workloads:g}"
        )
    print(f"deep: {load.workloads} Workloads in one ClusterQueue with quota for {load.quota}; share {chosen.share:g}")

    def publish(figures: Mapping[str, Any]) -> None:
        report.save(figures, chosen.json)
        show(figures)
        contention.show_verdict(figures)

    with measured(chosen) as (kubeconfig, pids):
        return 1 if uvloop.run(drain(kubeconfig, load, pids, chosen.limit, publish))["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
