"""The cluster that the tests of the page in a browser look at: three cohorts, teams that borrow and lend, queues that
are wrong, jobs in every state, a topology with racks. ``python -m tests.paged_example`` serves it, to be looked at.
"""

from __future__ import annotations

import asyncio
import sys
import time

from api import resources
from core.forecast.run_times import RunTime
from core.model import Key
from core.model.forecast import StartForecast
from core.model.topology import TopologyAssignment, TopologyDomain
from core.topology.encoding import encode
from core.wire.timestamps import stamp
from tests.paging import EVERYTHING, NOW, PagedCluster, condition, reader

TENANT = reader("vision", "localqueues", "workloads", "events", "jobs")
VIEWER = reader("speech", "localqueues")
USERS = {"admin": EVERYTHING, "tenant": TENANT, "viewer": VIEWER, "nobody": ()}
GPU = "nvidia.com/gpu"
TEAMS = ("vision", "speech", "genomics", "weather")


def example(now: float = NOW) -> PagedCluster:
    """The cluster, as it is at a moment."""
    made = PagedCluster(users=dict(USERS), now=now)
    for name in (*TEAMS, "ops"):
        made.namespace(name)
    _places(made)
    _queues(made)
    _workloads(made)
    made.start()
    made.decide(3)
    made.run_times = lambda workload, ran: RunTime(tuple(600.0 * (each + 1) for each in range(10)), "similar jobs")
    made.forecast = lambda key: _start(made, key)
    return made


def _start(made: PagedCluster, key: Key) -> StartForecast | None:
    """A forecast of most jobs: those that were created first start first."""
    number = key.name.rpartition("-")[2]
    if key.namespace not in TEAMS or not number.isdecimal() or int(number) % 11 == 10:
        return None
    middle = 240.0 * (1 + int(number) // 4 + (0 if int(number) % 3 == 2 else 16))  # those with a priority first
    between = (middle / 2, middle, middle * 2)
    return StartForecast(key, key.namespace, made.now, *between, flavors=("h100",), rests_on="24 similar jobs")


def _places(made: PagedCluster) -> None:
    made.flavor("on-demand", pool="standard")
    made.flavor("spot", pool="spot")
    made.flavor("h100", topology="racks", pool="gpu")
    levels = [
        {"nodeLabel": "example.com/block"},
        {"nodeLabel": "example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    made.put(resources.TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": levels}})
    for number in range(4):
        made.node(f"standard-{number}", {"example.com/pool": "standard"}, cpu="64", memory="256Gi")
    for block in range(2):
        for rack in range(3):
            for host in range(4):
                labels = {
                    "example.com/pool": "gpu",
                    "example.com/block": f"block-{block}",
                    "example.com/rack": f"rack-{block}{rack}",
                }
                made.node(f"gpu-{block}{rack}{host}", labels, cpu="32", memory="128Gi", **{GPU: "4"})


def _queues(made: PagedCluster) -> None:
    made.cohort("organisation")
    made.cohort("research", "organisation")
    made.cohort("production", "organisation")

    def quotas(cpu: str, memory: str, gpus: str = "") -> dict[str, dict[str, str]]:
        if gpus:
            return {"h100": {"cpu": cpu, "memory": memory, GPU: gpus}}
        return {"on-demand": {"cpu": cpu, "memory": memory}, "spot": {"cpu": cpu, "memory": memory}}

    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    made.queue("vision", quotas("64", "256Gi", "32"), "research", preemption=preemption)
    made.queue("speech", quotas("64", "256Gi", "24"), "research", preemption=preemption)
    made.queue("genomics", {"on-demand": {"cpu": "96", "memory": "384Gi"}}, "research", preemption=preemption)
    made.queue("weather", {"on-demand": {"cpu": "64", "memory": "256Gi"}}, "production", preemption=preemption)
    made.queue("nightly", quotas("32", "128Gi"), "production", stopPolicy="Hold")
    made.queue("sandbox", {"arm": {"cpu": "16", "memory": "64Gi"}})
    for team in TEAMS:
        made.local_queue(team, "main", team)
    made.local_queue("ops", "nightly", "nightly")
    made.local_queue("ops", "sandbox", "sandbox")


def _workloads(made: PagedCluster) -> None:
    number = 0

    def gpus(team: str, name: str, count: int, rack: str = "", **fields: object) -> None:
        nonlocal number
        number += 1
        requests = {"cpu": "8", "memory": "32Gi", GPU: "4"}
        usage = {"cpu": str(8 * count), "memory": f"{32 * count}Gi", GPU: str(4 * count)}
        placed = None
        if rack:
            hosts = tuple(TopologyDomain((f"gpu-{rack}{host}",), 1) for host in range(count))
            placed = encode(TopologyAssignment(("kubernetes.io/hostname",), hosts))
        age, ready = float(fields.pop("age", 3600)), fields.pop("ready", True)  # type: ignore[arg-type]
        status = made.admitted(team, "h100", usage, count=count, age=age, ready=ready, placed=placed)  # type: ignore[arg-type]
        made.workload(
            team, f"job-{name}-{number:05x}", "main", requests, count=count, age=age + 900, status=status, job=name
        )

    gpus("vision", "train-detector", 4, "00", age=7200)
    gpus("vision", "train-segmenter", 4, "01", age=5400)
    gpus("vision", "sweep-a", 2, "02", age=600, ready=False)
    gpus("speech", "train-large", 4, "10", age=9000)
    for index in range(3):
        usage = {"cpu": "40", "memory": "160Gi"}
        status = made.admitted("genomics", "on-demand", usage, count=10, age=1800.0 + index)
        made.workload(
            "genomics", f"job-align-{index}", "main", {"cpu": "4", "memory": "16Gi"}, count=10, status=status, age=2400
        )
    status = made.admitted("weather", "on-demand", {"cpu": "24", "memory": "96Gi"}, count=6, age=4000)
    made.workload("weather", "job-ensemble", "main", {"cpu": "4", "memory": "16Gi"}, count=6, status=status, age=5000)
    preempted = (
        "Preempted to accommodate a workload (UID: uid-genomics-job-align-0, JobUID: uid-of-job-align-0) due to"
        " reclamation within the cohort; preemptor path: /organisation/research/genomics; preemptee path:"
        " /organisation/production/weather"
    )
    at = stamp(made.now - 1800)
    status = {
        "conditions": [
            condition("QuotaReserved", at, status="False", reason="Pending", message=preempted),
            condition("Evicted", at, reason="Preempted", message=preempted),
            condition("Preempted", at, reason="InCohortReclamation", message=preempted),
            condition("Requeued", at, reason="Preempted", message=preempted),
        ]
    }
    made.workload("weather", "job-forecast", "main", {"cpu": "4", "memory": "16Gi"}, count=12, status=status, age=9000)
    for index in range(60):
        team = ("vision", "speech", "genomics", "weather")[index % 4]
        on_gpus = team in ("vision", "speech")
        requests = {"cpu": "8", "memory": "32Gi", **({GPU: "4"} if on_gpus else {})}
        count = (4, 8, 2, 16)[index // 4 % 4]
        name = f"{('train', 'eval', 'sweep', 'tune')[index // 4 % 4]}-{index}"
        made.workload(
            team,
            f"job-{name}",
            "main",
            requests,
            count=count,
            priority=(0, 0, 100)[index % 3],
            age=3000 - 40 * index,
            job=name,
        )
    for index in range(3):
        made.workload("ops", f"job-nightly-{index}", "nightly", {"cpu": "2"}, age=40_000 + index)
    made.workload("ops", "job-try", "sandbox", {"cpu": "2"}, age=400)


async def main() -> None:
    """Serves the example, with the token `admin`, and lets workloads come and go."""
    made = example(time.time())
    async with made.served(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as page:
        print(f"{page.url}#token=admin", flush=True)
        number = 0
        while True:
            await asyncio.sleep(2)
            number += 1
            made.now = time.time()
            team = TEAMS[number % 2]
            made.workload(team, f"job-live-{number}", "main", {"cpu": "1", "memory": "1Gi", GPU: "1"}, age=0)


if __name__ == "__main__":
    asyncio.run(main())
