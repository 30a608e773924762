"""Measures placement in a topology against the number of nodes: `python -m bench.topology`.

Three levels: blocks of 10 racks of 64 nodes, each node with 8 gpu; a pod asks for one. Half of the gpu is used, by
workloads of 1 to 64 pods. One pod set of 512 pods is placed. `cold` counts the domains for a shape of pods for the
first time, `warm` places with these counts, `one change` after the usage of one node has changed, `again` asks for what
was placed before. Times are medians, in microseconds.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from core.model import (
    Admission,
    ClusterQueue,
    Condition,
    FlavorResource,
    Key,
    Node,
    PodSet,
    PodSetAssignment,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Topology,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    Workload,
)
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.topology import Asked, Domains, Misfit, Options, place
from core.topology.others import OtherPods

LEVELS = ("block", "rack", "kubernetes.io/hostname")
SIZES = (1_000, 10_000, 100_000)
POPULATIONS = (2_000, 20_000, 100_000)
"""Of reservations, and of pods of others."""
GPU, PER_NODE, PER_RACK, PER_BLOCK = "gpu", 8, 64, 640
PODS = 512
_TAINT = Taint("maintenance", "", "NoSchedule")
PER_POD = {GPU: 1, "cpu": 4000}
OF_OTHERS = {"cpu": 100}
REQUESTS = {
    "required block": TopologyRequest(required="block"),
    "preferred rack": TopologyRequest(preferred="rack"),
    "unconstrained": TopologyRequest(unconstrained=True),
    "slices of 64 by rack": TopologyRequest(required="block", slices=(("rack", 64),)),
    "does not fit": TopologyRequest(required="rack"),
}


def nodes(number: int) -> list[Node]:
    """Nodes in racks and blocks."""
    return [
        Node(
            f"node-{each}",
            {
                "block": f"block-{each // PER_BLOCK}",
                "rack": f"rack-{each // PER_RACK}",
                "kubernetes.io/hostname": f"node-{each}",
            },
            allocatable={GPU: PER_NODE, "cpu": 96_000, "memory": 2**40, "pods": 110},
        )
        for each in range(number)
    ]


def fill(domains: Domains, number: int, *, seed: int = 1) -> None:
    """Uses half of the gpu: of some nodes all, of some none."""
    chance = random.Random(seed)
    for each in range(number):
        domains.add((f"node-{each}",), PER_POD, chance.choice((0, 0, 0, 2, 4, 6, 8, 8, 8)))


def median(action: Callable[[], object], *, before: Callable[[], object] = lambda: None, times: int = 30) -> float:
    """The median of so many times, in microseconds; ``before`` is not measured."""
    found = []
    for _ in range(times):
        before()
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1e6


def measure(number: int) -> list[tuple[str, float]]:
    """What each operation takes with so many nodes."""
    given = nodes(number)
    flavor = ResourceFlavor("tas", topology_name="default")
    start = time.perf_counter()
    domains = Domains(LEVELS, flavor, given, {})
    found = [("build the tree", (time.perf_counter() - start) * 1e6)]
    fill(domains, number)
    for name, request in REQUESTS.items():
        asked = [Asked(PodSet("main", PODS, PER_POD, topology=request), PODS)]
        search = _search(domains, asked)
        if isinstance(search()["main"], Misfit) != (name == "does not fit"):
            raise RuntimeError(f"{name}: {search()}")
        found.append((f"{name}, cold", median(search, before=_forget(domains), times=3)))
        found.append((f"{name}, warm", median(search, before=domains.answers.clear)))
        found.append((f"{name}, one change", median(search, before=_change(domains, number))))
        search()
        found.append((f"{name}, again", median(search)))
    found.append(("add 64 pods and remove them", median(_add_and_remove(domains))))
    found.append(("copy", median(domains.copy)))
    found += changes(number)
    return found


def changes(number: int, *, reservations: int = 2_000, pods: int = 0) -> list[tuple[str, float]]:
    """What a State with so many nodes, reservations and pods of others takes to follow one node or pod, and to have its
    arena ready.
    """
    state = State(SchedulingPolicy(topology=TopologyPolicy()))
    state.set_topology("default", Topology("default", LEVELS))
    state.set_flavor("tas", ResourceFlavor("tas", topology_name="default"))
    quotas = {FlavorResource("tas", GPU): Quota(10**9)}
    state.set_cluster_queue("cq", ClusterQueue("cq", groups=(ResourceGroup((GPU,), ("tas",)),), quotas=quotas))
    given = nodes(number)
    for node in given:
        state.set_node(node.name, node)
    for each in range(reservations):
        found = running(each, number)
        state.set_workload(found.key, found)
    state.heads(0.0)
    versions: tuple[Node | None, ...] = (None, replace(given[5], usable=False), replace(given[5], taints=(_TAINT,)))
    steps = itertools.cycle(versions)

    def flap() -> None:
        for now in (next(steps), given[5]):
            state.set_node(given[5].name, now)
            state.heads(0.0)

    names = (f"new-{each}" for each in itertools.count())

    def appear() -> None:
        name = next(names)
        state.set_node(name, Node(name, {**given[5].labels, LEVELS[-1]: name}, allocatable=given[5].allocatable))
        state.heads(0.0)

    known = OtherPods()
    for each in range(pods):
        known.add(given[each % number].name, OF_OTHERS)
    follow(state, known)
    state.heads(0.0)

    def others() -> None:
        for change in (known.add, known.remove):
            change(given[5].name, OF_OTHERS)
            follow(state, known)
            state.heads(0.0)

    return [
        ("a node goes, is not ready or changes, and is as before", median(flap)),
        ("a pod of others comes and goes", median(others)),
        ("a node that was never there", median(appear, times=3)),
    ]


def follow(state: State, pods: OtherPods) -> None:
    """Enters what pods of others use, on the nodes where that has changed."""
    for node in pods.take_changed():
        state.set_other_pods(node, pods.used(node))


def running(number: int, size: int) -> Workload:
    """A workload with four pods on one node."""
    domains = TopologyAssignment(LEVELS[-1:], (TopologyDomain((f"node-{number % size}",), 4),))
    given = PodSetAssignment("main", {GPU: "tas"}, {GPU: 4}, 4, domains)
    key = Key("ns", f"run-{number}")
    return Workload(
        key,
        key.name,
        0.0,
        "lq",
        0,
        (PodSet("main", 4, PER_POD, topology=REQUESTS["unconstrained"]),),
        conditions=(Condition("QuotaReserved", True), Condition("Admitted", True)),
        admission=Admission("cq", (given,)),
    )


def _search(domains: Domains, asked: Sequence[Asked]) -> Callable[[], dict[str, object]]:
    options = Options()
    return lambda: dict(place(domains, asked, options))


def _forget(domains: Domains) -> Callable[[], None]:
    def both() -> None:
        domains.answers.clear()
        domains.counted.shapes.clear()
        domains.counted.asked.clear()

    return both


def _change(domains: Domains, number: int) -> Callable[[], None]:
    chance = random.Random(2)
    return lambda: domains.add((f"node-{chance.randrange(number)}",), PER_POD, chance.choice((-1, 1)))


def _add_and_remove(domains: Domains) -> Callable[[], None]:
    def both() -> None:
        for sign in (1, -1):
            for each in range(8):
                domains.add((f"node-{each}",), PER_POD, sign * 8)

    return both


def memory(number: int) -> tuple[float, float]:
    """MiB of the tree of so many nodes with usage, beside the nodes themselves; and of the counts of one shape."""
    given = nodes(number)
    tracemalloc.start()
    domains = Domains(LEVELS, ResourceFlavor("tas", topology_name="default"), given, {})
    fill(domains, number)
    tree, _ = tracemalloc.get_traced_memory()
    asked = Asked(PodSet("main", PODS, PER_POD, topology=REQUESTS["unconstrained"]), PODS)
    place(domains, [asked], Options())
    both, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return tree / 2**20, (both - tree) / 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES)
    sizes = parser.parse_args(arguments).nodes
    columns = [dict(measure(size)) for size in sizes]
    print("| µs | " + " | ".join(f"{size:,} nodes" for size in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(f"{column[name]:,.0f}" for column in columns) + " |")
    sums = [memory(size) for size in sizes]
    print("| MiB of the tree | " + " | ".join(f"{tree:,.1f}" for tree, _ in sums) + " |")
    print("| MiB of one shape | " + " | ".join(f"{shape:,.1f}" for _, shape in sums) + " |")
    print_populations(10_000)


def print_populations(number: int) -> None:
    """Prints a table of changes against the number of reservations, and of pods of others, with so many nodes."""
    reserved = [(f"{each:,} reservations", dict(changes(number, reservations=each))) for each in POPULATIONS]
    others = [(f"{each:,} other pods", dict(changes(number, pods=each))) for each in POPULATIONS]
    columns = (*reserved, *others)
    print(f"\n| µs, {number:,} nodes | " + " | ".join(name for name, _ in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name in columns[0][1]:
        print(f"| {name} | " + " | ".join(f"{column[name]:,.0f}" for _, column in columns) + " |")


if __name__ == "__main__":
    main()
