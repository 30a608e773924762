"""The rules of topologies find what they must."""

from __future__ import annotations

import json
from fractions import Fraction

from observer.decode import Domain, Node, Pod, Workload, decoded
from observer.topology import Topology

HOSTNAME = ("kubernetes.io/hostname",)


def node(name: str, cpu: int) -> Node:
    return Node(name, {HOSTNAME[0]: name}, {"cpu": Fraction(cpu), "pods": Fraction(10)})


def on(name: str) -> Domain:
    return Domain(HOSTNAME, (name,))


def given(name: str, cpu: int, *, reserved: bool = True, **pods: int) -> Workload:
    """A Workload with so many pods on nodes, each of so many cpu."""
    return Workload(
        f"team/{name}",
        f"wl-{name}",
        "",
        "Job",
        "q",
        {},
        reserved,
        reserved,
        False,
        False,
        domains={on(host): count for host, count in pods.items()},
        on={on(host): {"cpu": Fraction(cpu * count), "pods": Fraction(count)} for host, count in pods.items()},
    )


def pod(name: str, workload: str, host: str) -> Pod:
    return Pod(f"team/{name}", f"pod-{name}", "", {}, runs=True, node=host, workload=f"team/{workload}")


def world(*nodes: Node) -> Topology:
    made = Topology()
    for each in nodes:
        made.see_node(None, each)
    return made


def test_a_node_is_not_given_more_than_it_has() -> None:
    rules = world(node("a", 4))
    assert not [*rules.see_workload(None, given("one", 1, a=3))]
    assert [*rules.see_workload(None, given("two", 1, a=2))] == ["domain a has 4 cpu, and 5 are given"]


def test_what_has_been_released_does_not_count() -> None:
    rules = world(node("a", 4))
    first = given("one", 1, a=3)
    assert not [*rules.see_workload(None, first)]
    assert not [*rules.see_workload(first, given("one", 1, reserved=False, a=3))]
    assert not [*rules.see_workload(None, given("two", 1, a=4))]


def test_the_number_of_pods_of_a_node_counts_too() -> None:
    rules = world(Node("a", {HOSTNAME[0]: "a"}, {"cpu": Fraction(100), "pods": Fraction(2)}))
    assert [*rules.see_workload(None, given("one", 1, a=3))] == ["domain a has 2 pods, and 3 are given"]


def test_a_pod_runs_where_it_was_given_and_not_elsewhere() -> None:
    rules = world(node("a", 4), node("b", 4))
    assert not [*rules.see_workload(None, given("one", 1, a=1))]
    assert not [*rules.see_pod(None, pod("x", "one", "a"))]
    assert [*rules.see_pod(None, pod("y", "one", "a"))] == [
        "2 pods run on domain a, and 1 were given to their Workload"
    ]
    assert [*rules.see_pod(None, pod("z", "one", "b"))] == ["pod team/z runs on b, which its Workload was not given"]


def test_as_many_pods_may_be_elsewhere_as_were_given_no_domain() -> None:
    """The submitter of a RayJob asks for no topology."""
    rules = world(node("a", 4), node("b", 4))
    assert not [*rules.see_workload(None, given("one", 1, a=1)._replace(anywhere=1))]
    assert not [*rules.see_pod(None, pod("submitter", "one", "b"))]
    assert [*rules.see_pod(None, pod("more", "one", "b"))] == [
        "pod team/more runs on b, which its Workload was not given"
    ]


def test_a_pod_may_still_be_where_an_earlier_assignment_had_it() -> None:
    rules = world(node("a", 4), node("b", 4))
    first, second = given("one", 1, a=1), given("one", 1, b=1)
    assert not [*rules.see_workload(None, first)]
    assert not [*rules.see_workload(first, second)]
    assert not [*rules.see_pod(None, pod("x", "one", "a"))]


def test_an_assignment_is_read_in_its_compressed_form() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
    slices = [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "node-", "roots": ["1", "2"]}}],
            "podCounts": {"individual": [3, 1]},
        }
    ]
    raw = {
        "metadata": {"namespace": "team", "name": "w", "uid": "u"},
        "spec": {"podSets": [{"name": "main", "template": {"spec": {"containers": [container]}}}]},
        "status": {
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [
                    {"name": "main", "count": 4, "topologyAssignment": {"levels": [*HOSTNAME], "slices": slices}}
                ],
            }
        },
    }
    found = decoded("Workload", json.dumps(raw).encode())
    assert isinstance(found, Workload) and found.anywhere == 0
    assert found.domains == {on("node-1"): 3, on("node-2"): 1}
    assert found.on[on("node-1")] == {"cpu": Fraction(3, 2), "pods": 3}
