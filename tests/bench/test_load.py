"""The scenario for topologies asks for what the baseline asks for, with the same quota."""

from api import quantity
from bench.load import LOADS, created, setting


def test_the_topology_scenario_has_the_numbers_of_the_baseline_and_640_nodes() -> None:
    baseline, placed = LOADS["baseline"], LOADS["topology"]
    assert (placed.workloads, placed.quota, placed.cpu_seconds) == (
        baseline.workloads,
        baseline.quota,
        baseline.cpu_seconds,
    )
    assert sum(resource.plural == "nodes" for resource, _, _ in setting(placed)) == 640


def test_the_pods_of_a_workload_share_its_cpu() -> None:
    load = LOADS["topology"]
    for one in load.classes:
        _, raw = created(load, load.all_queues[0], one, 0)
        (pod_set,) = raw["spec"]["podSets"]
        (container,) = pod_set["template"]["spec"]["containers"]
        cpu = quantity.amount("cpu", container["resources"]["requests"]["cpu"])
        assert (cpu * pod_set["count"], pod_set["topologyRequest"]) == (one.cpu * 1000, one.topology)
