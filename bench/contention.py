"""More workloads than quota, for any controller that serves Kueue's API: ``python -m bench.contention``.

Without ``--kubeconfig`` it starts a control plane without nodes and ``seiretsu serve --install``, and measures that;
``--versions stored`` then serves only the stored version of Seiretsu's kinds, so that nothing is converted. With
``--kubeconfig`` it measures the controller that runs there, and removes what it created; ``--controller-pid`` and
``--plane-pids`` add its CPU and memory, and those of the API server and etcd. An observer reads every event of every
Workload: a broken rule ends the bench with exit 1.
"""

import argparse
import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvloop

from api.objects import Resource
from bench import observer, report
from bench.driver import Driver, Outcome
from bench.load import LOADS, Load
from bench.measure import Latency, exit_on_sigterm
from bench.measured import add_options, measured
from bench.scenario import GROUP
from controller.kube import config
from controller.kube.client import Client

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", namespaced=False)
SETTLE_SECONDS = 3.0


async def contend(
    kubeconfig: Path,
    load: Load,
    pids: Mapping[str, int],
    limit_seconds: float,
    *,
    statuses: bool = True,
    publish: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Runs the load on a cluster and returns the figures; ``broken`` has a sentence for each rule that did not hold.

    ``statuses``: whether the controller writes the statuses of queues. ``publish`` gets the figures before the objects
    are removed: a run that is ended during that has its figures.
    """
    connection = config.load(kubeconfig)
    async with Driver(connection, load) as driver:
        await driver.prepare()
        if statuses:
            await driver.statuses_exist()  # those of the new queues are not part of the account
        await asyncio.sleep(SETTLE_SECONDS)
        before = await report.moment(connection, pids)
        outcome = await driver.run(limit_seconds)
        right = await driver.statuses_right() if statuses else None
        await asyncio.sleep(SETTLE_SECONDS)  # coalesced statuses and late events are
        after = await report.moment(connection, pids)
        async with Client(connection) as client:
            versions = await served_versions(client)
        cost = report.Cost.between(before, after)
        more = {"served versions": versions, "queue statuses right after seconds": right}
        figures = summary(load, outcome) | more | cost.figures(load.workloads, outcome.requests)
        publish(figures)
        await driver.remove()
    return figures


async def serve_stored_versions(kubeconfig: Path) -> None:
    """Stops serving the older versions of Seiretsu's kinds, as the chart's ``crds.olderVersions: []`` does."""
    async with Client(config.load(kubeconfig)) as client:
        for raw in (await client.list(CRDS))["items"]:
            older = [one for one in raw["spec"]["versions"] if one["served"] and not one["storage"]]
            if raw["spec"]["group"] == GROUP and older:
                for one in older:
                    one["served"] = False
                await client.patch(CRDS, raw["metadata"]["name"], "", {"spec": {"versions": raw["spec"]["versions"]}})


async def served_versions(client: Client) -> list[str]:
    """Returns the versions of Workloads that the API server serves: each older one costs it conversions."""
    found = await client.get(CRDS, "workloads.kueue.x-k8s.io")
    return [one["name"] for one in found["spec"]["versions"] if one["served"]]


def summary(load: Load, outcome: Outcome) -> dict[str, Any]:
    """Returns the figures of a run that come from the events."""
    wall = outcome.ended - outcome.began
    admitted, ended = observer.admitted_at(outcome.events), observer.finished_at(outcome.events)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for name, seconds in observer.admission_seconds(outcome.events, outcome.created).items():
        times[outcome.class_of[name].name].append(seconds)
    finished = len(ended)
    broken = observer.judge(outcome.events, limits(load), outcome.created)
    requested = {name: float(one.cpu) for name, one in outcome.class_of.items()}
    idle = observer.idle_while_waiting(outcome.events, limits(load), requested, outcome.began, outcome.ended)
    return {
        "load": load.name,
        "workloads": load.workloads,
        "finished": finished,
        "wall seconds": wall,
        "workloads a second": finished / wall,
        "create ms": Latency.of(outcome.answered)._asdict(),
        "admission ms": {name: Latency.of(found)._asdict() for name, found in sorted(times.items())},
        "job ms": {
            "from admission to start": _latency(admitted, outcome.started),
            "from completion to the end of the reservation": _latency(outcome.completed, ended),
        }
        if load.jobs
        else {},
        "mean use of quota": observer.mean_use(outcome.events, outcome.began, outcome.ended) / load.quota,
        "free while a workload waits that fits": idle / load.quota,
        "use by runtimes alone": load.cpu_seconds / (load.quota * wall),
        "evictions": observer.evictions(outcome.events),
        "events": len(outcome.events),
        "broken": [outcome.why] * bool(outcome.why) + broken,
        "trace": observer.trace(outcome.events, limits(load)) if broken else [],
    }


def _latency(since: Mapping[str, float], until: Mapping[str, float]) -> dict[str, Any]:
    return Latency.of(max(0.0, until[name] - since[name]) for name in since.keys() & until.keys())._asdict()


def limits(load: Load) -> observer.CpuLimits:
    """Returns the quota that may be in use at the same time."""
    cohort_of = {queue.name: queue.cohort for queue in load.all_queues}
    return observer.CpuLimits(
        queues=dict.fromkeys(cohort_of, load.nominal + load.borrowing),
        cohort_of=cohort_of,
        cohorts=dict.fromkeys(cohort_of.values(), load.queues * load.nominal),
    )


def show(figures: Mapping[str, Any]) -> None:
    """Prints the figures."""
    print(
        f"{figures['finished']} of {figures['workloads']} workloads finished in {figures['wall seconds']:.1f} s, "
        f"{figures['workloads a second']:.1f} a second; served versions of Workloads: "
        f"{', '.join(figures['served versions'])}"
    )
    print(
        f"mean use of quota {figures['mean use of quota']:.1%} (by the runtimes alone "
        f"{figures['use by runtimes alone']:.1%}), free while a workload waits that fits "
        f"{figures['free while a workload waits that fits']:.1%}; {figures['evictions']} evictions"
    )
    create, right = figures["create ms"], figures["queue statuses right after seconds"]
    print(
        f"a create is answered after {create['p50']:.0f} ms, p99 {create['p99']:.0f}; statuses of queues "
        + ("not right" if right is None else f"right {right:.1f} s after the last workload has finished")
    )
    _show_times("seconds from creation to admission", figures["admission ms"])
    _show_times("seconds of a Job", figures["job ms"])
    report.show_cost(figures, figures["workloads"])


def _show_times(title: str, times: Mapping[str, Any]) -> None:
    keys = ("mean", "p50", "p99", "longest")
    rows = [(name, one["calls"], *(one[key] / 1e3 for key in keys)) for name, one in times.items()]
    report.table(title, ("", "count", *keys), rows)


def show_verdict(figures: Mapping[str, Any]) -> None:
    """Prints what the observer found."""
    for sentence in figures["broken"][:20]:
        print(f"BROKEN: {sentence}")
    for line in figures.get("trace", ()):
        print(f"    {line}")
    if not figures["broken"]:
        print(f"observer: {figures['events']} events, no rule broken")


def arguments(name: str, description: str | None, loads: list[str]) -> argparse.ArgumentParser:
    """Returns the options that all benches of this load have."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--load", choices=loads, default="baseline", help="which scenario (default baseline)")
    parser.add_argument(
        "--share", type=float, default=1.0, help="the share of its workloads, for a short run (default 1)"
    )
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which the run ends (default 1800)")
    parser.add_argument("--versions", choices=("stored", "all"), default="all", help="to serve (default all)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser


def publish(figures: Mapping[str, Any], chosen: argparse.Namespace) -> None:
    """Saves and prints the figures."""
    run = {"share": chosen.share, "processors": os.cpu_count(), "load average": os.getloadavg()[0]}
    report.save({**figures, **run}, chosen.json)
    show(figures)
    show_verdict(figures)


def main() -> int:
    """Parses the arguments, measures, prints; returns 1 if a rule was broken."""
    parser = arguments("bench.contention", __doc__, list(LOADS))
    add_options(parser)
    chosen = parser.parse_args()
    exit_on_sigterm()
    load = LOADS[chosen.load].share(chosen.share)
    print(f"{load.name}: {load.workloads} workloads over {len(load.all_queues)} ClusterQueues; share {chosen.share:g}")
    with measured(chosen) as (kubeconfig, pids):
        if not chosen.kubeconfig and chosen.versions == "stored":
            uvloop.run(serve_stored_versions(kubeconfig))
        run = contend(kubeconfig, load, pids, chosen.limit, publish=lambda figures: publish(figures, chosen))
        return 1 if uvloop.run(run)["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
