"""Jobs of all kinds at once with their operators: ``python -m bench.kinds [--jobs 500] [--cpu 56]``, or for some time
and with kills: ``python -m bench.kinds --minutes 15 --kill-every 20``.

A control plane with nodes, the operators of all kinds (``tests.cluster.operators`` names the stand-ins) and
``seiretsu serve``. So many jobs of all kinds in turn are created in one ClusterQueue; those of kinds that never finish
are deleted when they are ready. The observer reads every change in etcd; at the end no rule may have been broken:
the quota is never exceeded, no pod runs without quota for longer than ``--without-quota``, no job is admitted twice,
and every job that can finish has finished. The API server's audit log has the writes of ``serve`` by kind.

With ``--record DIRECTORY`` every cycle is recorded, and decided again at the end: no decision may differ.

With ``--racks N`` half of the jobs ask for a topology, of N racks of four nodes, and half of the quota is there. Then
no domain may be given more than its nodes have, and no pod may run outside of the domains of its Workload.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from itertools import cycle, islice
from pathlib import Path

from api.objects import Raw
from bench.kills import Kills
from bench.measure import ProcessUsage, exit_on_sigterm
from bench.measured import with_token
from bench.recorder import replayed, section
from bench.report import save, table
from bench.served import served
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from devcluster.nodes import NodeGroup
from tests.cluster.kinds import (
    CASES,
    REQUIRED_TOPOLOGY,
    Life,
    asking,
    asking_runtimes,
    every_operator,
    life_of,
)
from tests.cluster.operators import alone, free_port
from tests.cluster.world import World, condition, local_queue, ours
from tests.observing import Observer

NAMESPACE, QUEUE = "kinds", "all"
RUN_SECONDS = 3.0
PATIENCE_SECONDS = 1800.0
ATTEMPTS = 300
CREATORS = 4
NOT_KILLED = ("mpijob", "sparkapplication")
"""Kinds that are left out where the API server is killed: their operators end with it, and nothing here, as a kubelet,
starts them again. MPI's cannot do without leader election, Spark's does not repeat a submission.
"""
MOST_OPEN = 60
"""While so many jobs have not ended, none are created, where their number is not given."""
NODES = 4
POOL, RACK = "example.com/pool", "example.com/rack"
ASKS = (REQUIRED_TOPOLOGY, "kueue.x-k8s.io/podset-preferred-topology")
ACCOUNT = "system:serviceaccount:default:default"
"""The account of ``serve``, which only it uses."""
WRITES, READS = ("create", "update", "patch", "delete"), ("get", "list", "watch")
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT], "verbs": [*WRITES, *READS]}],
}
JOB = re.compile(
    r"^(?:[a-z-]+?-)??(" + "|".join(sorted((case.name for case in CASES), key=len, reverse=True)) + r")-(\d+)\b"
)
"""The name of a job of this bench, in its own name and in those of its pods and its Workloads."""


def job_of(name: str) -> str:
    """Returns the name of the job that an object belongs to by its name, '' for none."""
    found = JOB.match(name)
    return f"{found[1]}-{found[2]}" if found else ""


def in_racks(count: int) -> tuple[NodeGroup, ...]:
    """Nodes of so many racks."""
    names = (f"rack-{number}" for number in range(1, count + 1))
    return tuple(NodeGroup(NODES, cpu="4", prefix=name, labels={POOL: "racks", RACK: name}) for name in names)


def topology() -> list[Raw]:
    """The topology of the racks, its flavor, and the runtimes of TrainJobs that ask for it."""
    levels = [{"nodeLabel": label} for label in (RACK, "kubernetes.io/hostname")]
    return [
        ours("Topology", "racks", {"levels": levels}),
        ours("ResourceFlavor", "racks", {"nodeLabels": {POOL: "racks"}, "topologyName": "racks"}),
        *(each for annotation in ASKS for each in asking_runtimes(annotation, RACK)),
    ]


def local_queues() -> list[Raw]:
    """A LocalQueue of the ClusterQueue for each kind."""
    return [local_queue(f"{QUEUE}-{case.name}", QUEUE) for case in CASES]


def configuration(scratch: Path, *, guard: bool, record: Path | None) -> Path:
    """Writes a Configuration with all frameworks, with or without the guard and a recorder."""
    frameworks = list(dict.fromkeys(case.framework for case in CASES))
    content = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "featureGates": {"SparkApplicationIntegration": True},
        "integrations": {"frameworks": frameworks},
        "waitForPodsReady": {"timeout": "30m"},
        "seiretsu": {
            "guard": {"action": "Evict" if guard else "Ignore"},
            **(section(record) if record is not None else {}),
        },
    }
    path = scratch / "config.json"
    path.write_text(json.dumps(content))
    return path


@contextlib.contextmanager
def setting(
    scratch: Path, quota: int, kill_every: float, *, guard: bool, racks: int = 0, record: Path | None = None
) -> Iterator[tuple[World, Kills, Path]]:
    """Context with the operators, ``serve`` and a ClusterQueue: the namespace, what kills, and the audit log."""
    log = scratch / "audit.log"
    (scratch / "policy.json").write_text(json.dumps(POLICY))
    options = (f"--audit-policy-file={scratch / 'policy.json'}", f"--audit-log-path={log}")
    nodes = (NodeGroup(count=NODES, labels={POOL: "plain"}), *in_racks(racks))
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone())
        plane = stack.enter_context(ControlPlane.start(spec=Spec(nodes=nodes, apiserver=options)))
        plane.kubectl("create", "namespace", NAMESPACE, check=True)
        plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, check=True)
        world = World(plane, NAMESPACE)
        (scratch / "operators").mkdir()
        stack.enter_context(every_operator(world, scratch / "operators"))
        address = f"127.0.0.1:{free_port()}"  # that of a Service does not change either
        config = (
            "--config",
            str(configuration(scratch, guard=guard, record=record)),
            "--log-level",
            "info",
            "--bind",
            address,
        )
        kills = Kills(plane, partial(served, with_token(plane, scratch), scratch, *config), kill_every)
        stack.enter_context(kills.running())
        covered = ("cpu", "memory")
        flavors = ["default", *(["racks"] if racks else [])]
        cpu = {"name": "cpu", "nominalQuota": f"{1000 * quota // len(flavors)}m"}
        amounts = [cpu, {"name": "memory", "nominalQuota": "1000Gi"}]
        group = {"coveredResources": covered, "flavors": [{"name": each, "resources": amounts} for each in flavors]}
        priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        world.create(
            {**priority, "metadata": {"name": "low"}, "value": 1},  # the examples of all kinds name it
            *(topology() if racks else ()),
            ours("ResourceFlavor", "default", {"nodeLabels": {POOL: "plain"}} if racks else {}),
            ours("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": [group]}),
            *local_queues(),
        )
        yield world, kills, log


def played(
    world: World, jobs: int, *, until: float = 0.0, without: Collection[str] = (), level: str = ""
) -> Counter[str]:
    """Creates so many jobs of all kinds in turn, or as many as it can before a monotonic time; waits until each has
    ended or was deleted. Returns how many there were of each kind. With ``level`` every other one asks for a topology.
    """
    every = (life for life in _lives(world, level) if life.case.name not in without)
    lives = every if until else islice(every, jobs)
    most, ends = (MOST_OPEN, until + PATIENCE_SECONDS) if until else (jobs, time.monotonic() + PATIENCE_SECONDS)
    counts = Counter[str]()
    with ThreadPoolExecutor(CREATORS) as clients:
        creating: list[Future[None]] = []
        open_ones, started = dict[str, Life](), set[str]()
        while True:
            if not until or time.monotonic() < until:
                for life in islice(lives, max(0, most - len(open_ones))):
                    open_ones[life.name] = life
                    counts[life.case.name] += 1
                    creating.append(clients.submit(_created, life))
            if not open_ones and all(each.done() for each in creating):
                return counts
            if time.monotonic() > ends:
                raise TimeoutError(f"{len(open_ones)} jobs have not ended: {', '.join(sorted(open_ones)[:9])}")
            time.sleep(1.0)
            for each in creating:
                if each.done():
                    each.result()  # raises what went wrong
            creating = [each for each in creating if not each.done()]
            state = world.get("workloads")
            if not state:
                continue  # the API server does not answer
            found = _by_job(state["items"])
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
                    _deleted(life)
                elif name in started and not mine:
                    del open_ones[name]


def _created(life: Life) -> None:
    """Creates a job; what was created of it before something was killed is deleted first."""
    create = partial(life.create, seconds=RUN_SECONDS)
    for _ in range(ATTEMPTS):
        if _succeeds(create):
            return
        _deleted(life)
        while not _succeeds(partial(_gone, life)):
            time.sleep(1.0)
    create()  # raises what is wrong


def _deleted(life: Life) -> None:
    """Deletes a job, even if something is killed meanwhile."""
    while not _succeeds(life.delete):
        time.sleep(1.0)


def _gone(life: Life) -> None:
    if not life.gone():
        raise ClusterError(f"{life.name} is still there")


def _succeeds(step: Callable[[], None]) -> bool:
    """Whether a step could be done; it fails while what it needs is down."""
    try:
        step()
    except (OSError, HTTPException, ClusterError, subprocess.TimeoutExpired):
        return False
    return True


def _lives(world: World, level: str) -> Iterator[Life]:
    for number, plain in enumerate(cycle(CASES)):
        turn = number // len(CASES) + number  # each kind with a topology and without
        case = asking(plain, ASKS[turn // 2 % len(ASKS)], level) if level and turn % 2 else plain
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


def requested(log: Path) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """The successful writes of ``serve`` in the audit log: by kind, and '' for what belongs to no job, by resource; and
    its reads, by verb and resource.
    """
    found, reads = dict[str, Counter[str]](), Counter[str]()
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["responseStatus"]["code"] < 300 and "objectRef" in entry:
            about = entry["objectRef"]
            resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
            kind = job_of(about.get("name", "")).rpartition("-")[0]
            if entry["verb"] in WRITES:
                found.setdefault(kind, Counter())[resource] += 1
            else:
                reads[f"{entry['verb']} {resource}"] += 1
    return found, reads


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
    parser.add_argument("--minutes", type=float, default=0, help="create jobs for this time instead of --jobs")
    parser.add_argument(
        "--kill-every", type=float, default=0, help="kill serve and the API server in turn, after seconds"
    )
    parser.add_argument(
        "--without-quota", type=float, default=60, help="seconds that a pod may run without (default: 60)"
    )
    parser.add_argument("--without-guard", action="store_true", help="with seiretsu.guard.action: Ignore")
    parser.add_argument("--racks", type=int, default=0, help="racks of four nodes with 4 cpu (default: no topology)")
    parser.add_argument("--record", type=Path, help="record all cycles into this directory, and play them at the end")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        setting(
            Path(directory),
            chosen.cpu,
            chosen.kill_every,
            guard=not chosen.without_guard,
            racks=chosen.racks,
            record=chosen.record,
        ) as (world, kills, log),
    ):
        with contextlib.closing(Observer(world.plane, NAMESPACE, without_quota=chosen.without_quota)) as observer:
            began = time.monotonic()
            if chosen.minutes:
                threading.Timer(60 * chosen.minutes, kills.stop).start()
            until = chosen.minutes and began + 60 * chosen.minutes
            without = NOT_KILLED if chosen.kill_every else ()
            level = RACK if chosen.racks else ""
            counts = played(world, chosen.jobs, until=until, without=without, level=level)
            seconds = time.monotonic() - began
            kills.stop()
            observed = observer.end()
        usage, (made, reads) = ProcessUsage.of(kills.process.pid), requested(log)
    # a job whose Workload was being written at a kill may have another one
    several = [] if kills.count else twice(observed.workloads)
    broken = [*observed.broken, *(f"{name} got several Workloads" for name in several)]
    if chosen.record is not None:
        again = replayed(chosen.record)
        print(again)
        broken += [f"{name}, cycle {each.cycle} is decided differently in a replay" for name, each in again.different]
    print(f"{counts.total()} jobs of {len(counts)} kinds in {seconds:.0f} s; {observed.evictions} evictions", end="; ")
    print(f"{kills.count} kills; {observed.changes} changes observed, {observed.admissions} admissions", end="; ")
    print(f"a pod ran without quota for {observed.without_quota:.1f} s at most")
    spent = f"CPU {usage.cpu_seconds:.1f} s, {usage.user_seconds:.1f} of them outside of the kernel"
    print(f"serve: {spent}; largest memory {usage.peak:.0f} MiB; {reads.total()} reads, {reads['list pods']} of pods")
    table("writes of serve, a job", ("kind", "jobs", "Workloads", "others", "together", "events"), rows(made, counts))
    table("writes of serve that belong to no job", ("resource", "writes"), sorted(made.get("", Counter()).items()))
    for each in broken:
        print(f"BROKEN: {each}")
    save({"seconds": seconds, "usage": usage._asdict(), "reads": reads, "writes": made, "broken": broken}, chosen.json)
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
