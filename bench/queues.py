"""The cost of creating many queues: `python -m bench.queues [--queues 5000] [--cohorts 50]`.

ClusterQueues with a LocalQueue each are created one by one; after each the heads and both statuses are computed, as in
the controller; garbage is collected as in `serve`. No API server, and no stored objects: this is `core` alone.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time

from app import collector
from core.model import (
    ClusterQueue,
    FlavorResource,
    Key,
    LocalQueue,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
)
from core.state.queue_status import cluster_queue_status, local_queue_status
from core.state.state import State

NOW = 1_000_000.0
FLAVORS = ("on-demand", "spot")
RESOURCES = ("cpu", "memory")


def create(state: State, number: int, cohorts: int, nominal: int = 10_000) -> None:
    """Creates or changes a ClusterQueue and its LocalQueue, and computes what depends on them."""
    name = f"cq-{number:05}"
    queue = ClusterQueue(
        name=name,
        cohort=f"cohort-{number % cohorts}",
        groups=(ResourceGroup(RESOURCES, FLAVORS),),
        quotas={FlavorResource(f, r): Quota(nominal) for f in FLAVORS for r in RESOURCES},
        namespace_selector=Selector(),
        preemption=Preemption("LowerPriority", "Any"),
    )
    state.set_cluster_queue(name, queue)
    state.heads(NOW)
    cluster_queue_status(state, name, {}, NOW)
    key = Key("ns", name)
    state.set_local_queue(key, LocalQueue(key, name))
    state.heads(NOW)
    local_queue_status(state, key, {}, NOW)


def resident() -> float:
    """MiB of this process at its largest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Creates the queues, changes some, collects garbage; prints the cost of each."""
    parser = argparse.ArgumentParser(description="What it costs to create many queues.")
    parser.add_argument("--queues", type=int, default=5_000)
    parser.add_argument("--cohorts", type=int, default=50)
    chosen = parser.parse_args()
    collector.settle()
    state = State()
    state.set_namespace("ns", {})
    for flavor in FLAVORS:
        state.set_flavor(flavor, ResourceFlavor(flavor))
    before, start = resident(), time.process_time()
    for number in range(chosen.queues):
        create(state, number, chosen.cohorts)
    took, after = time.process_time() - start, resident()
    print(f"{chosen.queues} ClusterQueues and LocalQueues in {chosen.cohorts} cohorts, created one by one")
    print(f"  CPU {took:.1f} s, {took / chosen.queues * 1000:.2f} ms each")
    print(f"  RSS {before:.0f} -> {after:.0f} MiB, {(after - before) / chosen.queues * 1024:.1f} KiB each")
    start = time.process_time()
    for number in range(250):
        create(state, number, chosen.cohorts, nominal=20_000)
    took, last = time.process_time() - start, resident()
    print(f"250 of them changed: {took / 250 * 1000:.2f} ms each, {(last - after) / 250 * 1024:.1f} KiB each")
    start = time.process_time()
    found = gc.collect()
    print(f"a full garbage collection: {(time.process_time() - start) * 1000:.0f} ms, {found} objects found")


if __name__ == "__main__":
    main()
