"""The use of domains in a simulation, and how scattered the free rest is."""

from __future__ import annotations

import pytest

from cli.domains import bands, fragmentation
from core.model import (
    Admission,
    Key,
    Node,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    TopologyAssignment,
    TopologyDomain,
    Workload,
)
from core.simulation.simulation import Arrival, Course, PlayedAttempt, Timeline
from core.topology.nodes import Domains

RACK, HOSTNAME = "rack", "kubernetes.io/hostname"


def domains(racks: int, nodes: int, cpu: int) -> Domains:
    found = [
        Node(f"n-{rack}-{number}", {RACK: f"r{rack}", HOSTNAME: f"n-{rack}-{number}"}, (), {"cpu": cpu, "pods": 10})
        for rack in range(1, racks + 1)
        for number in range(nodes)
    ]
    return Domains((RACK, HOSTNAME), ResourceFlavor("f", topology_name="t"), found, {})


def course(name: str, started: float, ended: float | None, **pods: int) -> tuple[Key, Course]:
    workload = Workload(Key("ns", name), name, 0.0, "q", 0, (PodSet("main", sum(pods.values()), {"cpu": 2}),))
    placed = tuple(TopologyDomain((host.replace("_", "-"),), count) for host, count in pods.items())
    assigned = PodSetAssignment("main", {"cpu": "f"}, {}, 1, TopologyAssignment((HOSTNAME,), placed))
    attempt = PlayedAttempt("cq", Admission("cq", (assigned,)), started, ended)
    return workload.key, Course(Arrival(0.0, workload, 10.0), attempts=[attempt])


def test_each_rack_has_the_use_of_its_nodes_over_time() -> None:
    timeline = Timeline(dict([course("a", 0, 10, n_1_0=2, n_1_1=1), course("b", 5, None, n_1_0=1)]), end=20)
    first, second = bands(timeline, {"f": domains(2, 2, 8)})
    assert (first.domain, first.level, first.capacity) == ("r1", RACK, 16)
    assert first.steps == ((0, 6), (5, 8), (10, 2))
    assert (second.domain, second.most) == ("r2", 0)


def test_pods_on_nodes_that_are_gone_are_left_out() -> None:
    timeline = Timeline(dict([course("a", 0, None, n_9_9=2, n_1_0=1)]), end=20)
    assert [band.most for band in bands(timeline, {"f": domains(1, 1, 8)})] == [2]


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        ({}, {}),
        ({"n_1_0": 4}, {("f", "cpu"): 0.0}),  # all that is free is on one rack
        ({"n_1_0": 2, "n_2_0": 2}, {("f", "cpu"): 0.5}),  # half of it is elsewhere
    ],
)
def test_fragmentation_is_what_is_free_outside_of_the_domain_with_most(
    placed: dict[str, int], expected: dict[tuple[str, str], float]
) -> None:
    timeline = Timeline(dict([course("a", 0, None, **placed)]), end=10)
    assert fragmentation(bands(timeline, {"f": domains(2, 1, 8)}) if placed else [], 10) == expected


def test_fragmentation_is_a_mean_over_the_time() -> None:
    timeline = Timeline(dict([course("a", 5, None, n_1_0=4)]), end=10)
    assert fragmentation(bands(timeline, {"f": domains(2, 1, 8)}), 10) == {("f", "cpu"): 0.25}
