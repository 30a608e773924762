"""The load of ``bench.contention`` with a controller that takes no time: ``python -m bench.ideal``.

The same rules of admission and preemption on a virtual clock (``core.simulation``): a workload runs in the moment in
which it is admitted, its quota is free in the moment in which it ends, and every decision is made with all that has
happened. So the figures follow from the load and the rules alone: no controller with these rules evicts fewer workloads
because it is faster, and none keeps more quota in use because its writes are cheaper.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import report
from bench.load import LOADS, NODES, TOPOLOGIES, Load, created, setting
from bench.scenario import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, NAMESPACES
from core.model import Key
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.simulation.simulation import Arrival, Course, PlayedAttempt, simulate
from core.state.state import State
from core.wire import decode
from core.wire.decode import WorkloadContext


def queues(load: Load) -> State:
    """Returns a State with the queues of a load, and the nodes of its topology."""
    state = State(SchedulingPolicy(topology=TopologyPolicy()))
    for resource, namespace, raw in setting(load):
        name = raw["metadata"]["name"]
        if resource == FLAVORS:
            state.set_flavor(name, decode.resource_flavor(raw))
        elif resource == TOPOLOGIES:
            state.set_topology(name, decode.topology_object(raw))
        elif resource == NODES:
            state.set_node(name, decode.node(raw))
        elif resource == CLUSTER_QUEUES:
            state.set_cluster_queue(name, decode.cluster_queue(raw))
        elif resource == NAMESPACES:
            state.set_namespace(name, {})
        elif resource == LOCAL_QUEUES:
            raw["metadata"]["namespace"] = namespace
            state.set_local_queue(Key(namespace, name), decode.local_queue(raw))
    return state


def arrivals(load: Load, seed: int) -> Iterator[Arrival]:
    """Yields the workloads of all streams, each of which begins at a random moment of its first interval."""
    chance, context = random.Random(seed), WorkloadContext()
    for queue in load.all_queues:
        for one in load.classes:
            begins = chance.random() * one.every_seconds
            for number in range(one.workloads):
                _, raw = created(load, queue, one, number)
                raw["metadata"] |= {"namespace": queue.name, "uid": f"{queue.name}-{raw['metadata']['name']}"}
                yield Arrival(begins + number * one.every_seconds, decode.workload(raw, context), one.run_seconds)


def summary(load: Load, courses: dict[Key, Course]) -> dict[str, Any]:
    """Returns the figures, with the names that they have in ``bench.contention``."""
    ended = [course.finished for course in courses.values() if course.finished is not None]
    wall = max(ended) - min(course.arrival.at for course in courses.values())
    attempts = [attempt for course in courses.values() for attempt in course.attempts]
    evicted = [attempt for attempt in attempts if attempt.preemptor is not None]
    waited: defaultdict[str, list[float]] = defaultdict(list)
    for key, course in courses.items():
        waited[key.name.partition("-")[0]].append(course.attempts[-1].started - course.arrival.at)
    return {
        "load": load.name,
        "workloads": load.workloads,
        "finished": len(ended),
        "wall seconds": wall,
        "mean use of quota": sum(map(_cpu_seconds, attempts)) / (load.quota * wall),
        "lost by evictions": sum(map(_cpu_seconds, evicted)) / (load.quota * wall),
        "use by runtimes alone": load.cpu_seconds / (load.quota * wall),
        "evictions": len(evicted),
        "mean seconds to admission": {name: sum(each) / len(each) for name, each in sorted(waited.items())},
    }


def _cpu_seconds(attempt: PlayedAttempt) -> float:
    """The quota that an attempt held, in cpu, times the seconds that it did."""
    assert attempt.ended is not None
    cpu = sum(each.usage["cpu"] for each in attempt.admission.pod_sets) / 1000
    return cpu * (attempt.ended - attempt.started)


def main() -> None:
    """Parses the arguments, simulates, prints."""
    parser = argparse.ArgumentParser(prog="bench.ideal", description=__doc__)
    loads = [name for name, one in LOADS.items() if not one.jobs]
    parser.add_argument("--load", choices=loads, default="baseline", help="which scenario (default baseline)")
    parser.add_argument("--share", type=float, default=1.0, help="the share of its workloads (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which streams begin (default 1)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    load = LOADS[chosen.load].share(chosen.share)
    figures = summary(load, simulate(queues(load), arrivals(load, chosen.seed)).courses)
    report.save(figures, chosen.json)
    print(
        f"{load.name}: {figures['finished']} of {load.workloads} workloads finished in {figures['wall seconds']:.1f} s;"
        f" {figures['evictions']} evictions"
    )
    print(
        f"mean use of quota {figures['mean use of quota']:.1%} (by the runtimes alone "
        f"{figures['use by runtimes alone']:.1%}, by what was evicted {figures['lost by evictions']:.1%})"
    )
    rows = figures["mean seconds to admission"].items()
    report.table("mean seconds from creation to admission", ("", "seconds"), list(rows))


if __name__ == "__main__":
    main()
