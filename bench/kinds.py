"""Jobs of all kinds at once with their operators: ``python -m bench.kinds [--jobs 500] [--cpu 56]``.

A control plane with nodes, the operators of all kinds (``tests.cluster.operators`` names the stand-ins) and
``seiretsu serve``. So many jobs of all kinds in turn are created in one ClusterQueue; those of kinds that never finish
are deleted when they are ready. The observer reads every change in etcd; at the end no rule may have been broken:
the quota is never exceeded, no job is admitted twice, and every job that can finish has finished. The API server's
audit log has the writes of ``serve`` by kind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from api.objects import Raw
from bench.measure import Usage, exit_on_sigterm
from bench.measured import with_token
from bench.report import save, table
from bench.served import served
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.kinds import CASES, Life, every_operator, life_of
from tests.cluster.operators import alone
from tests.cluster.world import World, condition, local_queue, ours
from tests.observing import Observer

NAMESPACE, QUEUE = "kinds", "all"
RUN_SECONDS = 3.0
PATIENCE_SECONDS = 1800.0
CREATORS = 4
NODES = 4
ACCOUNT = "system:serviceaccount:default:default"
"""The account of ``serve``, which only it uses."""
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT], "verbs": ["create", "update", "patch", "delete"]}],
}
JOB = re.compile(
    r"^(?:[a-z-]+?-)??(" + "|".join(sorted((case.name for case in CASES), key=len, reverse=True)) + r")-(\d+)\b"
)
"""The name of a job of this bench, in its own name and in those of its pods and its Workloads."""


def job_of(name: str) -> str:
    """Returns the name of the job that an object belongs to by its name, '' for none."""
    found = JOB.match(name)
    return f"{found[1]}-{found[2]}" if found else ""


def local_queues() -> list[Raw]:
    """A LocalQueue of the ClusterQueue for each kind."""
    return [local_queue(f"{QUEUE}-{case.name}", QUEUE) for case in CASES]


def configuration(scratch: Path) -> Path:
    """Writes a Configuration with all frameworks."""
    frameworks = list(dict.fromkeys(case.framework for case in CASES))
    content = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "featureGates": {"SparkApplicationIntegration": True},
        "integrations": {"frameworks": frameworks},
        "waitForPodsReady": {"timeout": "30m"},
    }
    path = scratch / "config.json"
    path.write_text(json.dumps(content))
    return path


@contextlib.contextmanager
def setting(scratch: Path, quota: int) -> Iterator[tuple[World, int, Path]]:
    """Context with the operators, ``serve`` and a ClusterQueue: the namespace, the process and the audit log."""
    log = scratch / "audit.log"
    (scratch / "policy.json").write_text(json.dumps(POLICY))
    options = (f"--audit-policy-file={scratch / 'policy.json'}", f"--audit-log-path={log}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone())
        plane = stack.enter_context(ControlPlane.start(spec=Spec(nodes=(NodeGroup(count=NODES),), apiserver=options)))
        plane.kubectl("create", "namespace", NAMESPACE, check=True)
        plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, check=True)
        world = World(plane, NAMESPACE)
        (scratch / "operators").mkdir()
        stack.enter_context(every_operator(world, scratch / "operators"))
        config = ("--config", str(configuration(scratch)), "--log-level", "info")
        process = stack.enter_context(served(with_token(plane, scratch), scratch, *config))
        covered = ("cpu", "memory")
        amounts = [{"name": "cpu", "nominalQuota": quota}, {"name": "memory", "nominalQuota": "1000Gi"}]
        group = {"coveredResources": covered, "flavors": [{"name": "default", "resources": amounts}]}
        priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        world.create(
            {**priority, "metadata": {"name": "low"}, "value": 1},  # the examples of all kinds name it
            ours("ResourceFlavor", "default", {}),
            ours("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": [group]}),
            *local_queues(),
        )
        yield world, process.pid, log


def played(world: World, jobs: int) -> float:
    """Creates so many jobs of all kinds in turn and waits until each has ended or was deleted; returns the seconds."""
    lives = {life.name: life for life in islice(_lives(world), jobs)}
    began = time.monotonic()
    with ThreadPoolExecutor(CREATORS) as clients:
        creating = [clients.submit(life.create, seconds=RUN_SECONDS) for life in lives.values()]
        open_ones, started = dict(lives), set[str]()
        while open_ones or not all(each.done() for each in creating):
            if time.monotonic() > began + PATIENCE_SECONDS:
                raise TimeoutError(
                    f"{len(open_ones)} of {jobs} jobs have not ended: {', '.join(sorted(open_ones)[:9])}"
                )
            time.sleep(1.0)
            for each in creating:
                if each.done():
                    each.result()  # raises what went wrong
            found = _by_job(world.get("workloads").get("items", []))
            for name, life in list(open_ones.items()):
                mine = found.get(name, [])
                if life.case.ends and mine and all(condition(each, "Finished")[0] == "True" for each in mine):
                    del open_ones[name]
                elif (
                    name not in started
                    and not life.case.ends
                    and any(condition(each, "PodsReady")[0] == "True" for each in mine)
                ):
                    started.add(name)
                    life.delete()
                elif name in started and not mine:
                    del open_ones[name]
    return time.monotonic() - began


def _lives(world: World) -> Iterator[Life]:
    for number, case in enumerate(cycle(CASES)):
        yield life_of(case)(world, case, f"{case.name}-{number:03}", f"{QUEUE}-{case.name}")


def _by_job(workloads: Iterable[Raw]) -> dict[str, list[Raw]]:
    found: dict[str, list[Raw]] = {}
    for each in workloads:
        found.setdefault(job_of(each["metadata"]["name"]), []).append(each)
    return found


def twice(workloads: Iterable[str]) -> list[str]:
    """Returns the jobs that got more than one Workload, by the names of all Workloads that were made.

    What a job's operator makes, with copies of its labels, gets none. The Workload of one pod of a Deployment is a job
    of its own.
    """
    several = {case.name for case in CASES if case.workloads > 1}
    made = Counter(job_of(each.partition("/")[2]) for each in workloads)
    return sorted(name for name, count in made.items() if name and count > 1 and name.rpartition("-")[0] not in several)


def written(log: Path) -> dict[str, Counter[str]]:
    """The successful writes of ``serve`` in the audit log: by kind, and '' for what belongs to no job, by resource."""
    found: dict[str, Counter[str]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["responseStatus"]["code"] < 300 and "objectRef" in entry:
            about = entry["objectRef"]
            resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
            kind = job_of(about.get("name", "")).rpartition("-")[0]
            found.setdefault(kind, Counter())[resource] += 1
    return found


def rows(made: dict[str, Counter[str]], jobs: Counter[str]) -> list[tuple[object, ...]]:
    """The writes a job of each kind: of its Workloads, of itself and what it owns, and events."""
    found: list[tuple[object, ...]] = []
    for case in CASES:
        if count := jobs[case.name]:
            total = made.get(case.name, Counter())
            events = total["events"]
            workloads = sum(number for name, number in total.items() if name.startswith("workloads"))
            others = total.total() - events - workloads
            found.append(
                (case.name, count, *(each / count for each in (workloads, others, workloads + others, events)))
            )
    return found


def main() -> None:
    """Plays the jobs, prints the figures; the exit code is 1 if a rule was broken."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description="Jobs of all kinds at once, with their operators.")
    parser.add_argument("--jobs", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--cpu", type=int, default=56, help="quota of the ClusterQueue (default: 56)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, setting(Path(directory), chosen.cpu) as (world, pid, log):
        with contextlib.closing(Observer(world.plane, NAMESPACE)) as observer:
            seconds = played(world, chosen.jobs)
            observed = observer.end()
        usage, made = Usage.of(pid), written(log)
    broken = [*observed.broken, *(f"{name} got several Workloads" for name in twice(observed.workloads))]
    counts = Counter(case.name for case in islice(cycle(CASES), chosen.jobs))
    print(f"{chosen.jobs} jobs of {len(counts)} kinds in {seconds:.0f} s; {observed.evictions} evictions")
    print(f"serve: CPU {usage.cpu_seconds:.1f} s, largest memory {usage.peak:.0f} MiB")
    table("writes of serve, a job", ("kind", "jobs", "Workloads", "others", "together", "events"), rows(made, counts))
    table("writes of serve that belong to no job", ("resource", "writes"), sorted(made.get("", Counter()).items()))
    for each in broken:
        print(f"BROKEN: {each}")
    save({"seconds": seconds, "writes": made, "broken": broken}, chosen.json)
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
