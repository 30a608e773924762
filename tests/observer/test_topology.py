"""The rules of topologies find what they must."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from observer.decode import Domain, Node, Pod, Workload, decoded
from observer.rules import Change, Judge
from observer.topology import OTHERS_SECONDS, Topology

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
    """A pod of a Workload, which runs if it is on a node."""
    placed = f"team/{workload}" if workload else ""
    return Pod(f"team/{name}", f"pod-{name}", "", {}, runs=bool(host), node=host, workload=placed)


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
    waits = pod("x", "one", "")
    assert not [*rules.see_workload(None, first)]
    assert not [*rules.see_pod(None, waits)]
    assert not [*rules.see_workload(first, second)]
    assert not [*rules.see_pod(waits, pod("x", "one", "a"))]


def test_a_pod_that_is_made_after_a_new_assignment_runs_only_where_that_has_it() -> None:
    rules = world(node("a", 4), node("b", 4))
    first, second = given("one", 1, a=2), given("one", 1, a=1, b=1)
    assert not [*rules.see_workload(None, first)]
    for name in ("x", "y"):
        assert not [*rules.see_pod(None, pod(name, "one", "a"))]
    assert not [*rules.see_workload(first, second)]
    assert not [*rules.see_pod(pod("y", "one", "a"), None)]
    assert [*rules.see_pod(None, pod("z", "one", "a"))] == [
        "2 pods run on domain a, and 1 were given to their Workload"
    ]
    third = given("one", 1, b=2)
    assert not [*rules.see_workload(second, third)]
    assert not [*rules.see_pod(None, pod("v", "one", "b"))]
    assert [*rules.see_pod(None, pod("w", "one", "a"))] == ["pod team/w runs on a, which its Workload was not given"]


def test_a_job_that_was_evicted_and_placed_anew_has_left_its_earlier_domains() -> None:
    rules = world(node("a", 4), node("b", 4))
    first, waits, second = given("one", 1, a=1), given("one", 1, reserved=False), given("one", 1, b=1)
    for before, now in ((None, first), (first, waits), (waits, second)):
        assert not [*rules.see_workload(before, now)]
    assert not [*rules.see_pod(None, pod("x", "one", "b"))]
    assert [*rules.see_pod(None, pod("y", "one", "a"))] == ["pod team/y runs on a, which its Workload was not given"]


def other(name: str, host: str, cpu: int) -> Pod:
    """A pod that names no Workload, as those of a DaemonSet."""
    return Pod(f"system/{name}", f"other-{name}", "", {"cpu": Fraction(cpu)}, runs=True, node=host)


def test_pods_of_others_take_room_from_a_workload_that_is_made_after_them() -> None:
    rules = world(node("a", 4))
    assert not [*rules.see_pod(None, other("agent", "a", 2))]
    assert not [*rules.see_workload(None, given("fits", 1, a=2))]
    assert [*rules.see_workload(None, given("one", 1, a=1))] == [
        "domain a has 4 cpu, of which pods of others use 2, and 3 are given"
    ]


def test_pods_of_others_count_as_pods_too() -> None:
    rules = world(Node("a", {HOSTNAME[0]: "a"}, {"cpu": Fraction(100), "pods": Fraction(2)}))
    assert not [*rules.see_pod(None, other("agent", "a", 0))]
    assert [*rules.see_workload(None, given("one", 1, a=2))] == [
        "domain a has 2 pods, of which pods of others use 1, and 2 are given"
    ]


def test_a_workload_that_waits_must_know_a_pod_of_others_after_a_minute() -> None:
    """They are stored and seen by different programs: what is decided in the same moment is no fault."""
    for after, broken in ((1.0, 0), (OTHERS_SECONDS + 1, 1)):
        rules = world(node("a", 4))
        waits = given("one", 1, reserved=False)
        assert not [*rules.see_workload(None, waits, 100.0)]
        assert not [*rules.see_pod(None, other("agent", "a", 2), at=100.0)]
        assert len([*rules.see_workload(waits, given("one", 1, a=3), 100.0 + after)]) == broken


def test_a_pod_of_others_that_has_ended_takes_no_room() -> None:
    rules = world(node("a", 4))
    agent = other("agent", "a", 2)
    assert not [*rules.see_pod(None, agent)]
    assert not [*rules.see_pod(agent, agent._replace(runs=False, requests={}))]
    assert not [*rules.see_workload(None, given("one", 1, a=4))]


def test_pods_of_a_workload_with_domains_count_once_and_those_of_one_without_as_others() -> None:
    rules = world(node("a", 4))
    assert not [*rules.see_workload(None, given("one", 1, a=2))]
    for name in ("x", "y"):
        assert not [*rules.see_pod(None, pod(name, "one", "a")._replace(requests={"cpu": Fraction(1)}))]
    assert not [*rules.see_workload(None, given("fits", 1, a=2))]
    rules = world(node("a", 4))
    assert not [*rules.see_workload(None, given("plain", 1))]
    assert not [*rules.see_pod(None, pod("z", "plain", "a")._replace(requests={"cpu": Fraction(1)}))]
    assert len([*rules.see_workload(None, given("one", 1, a=4))]) == 1


def test_pods_that_terminate_after_an_eviction_are_no_pods_of_others() -> None:
    rules = world(node("a", 4))
    first = given("one", 1, a=2)
    assert not [*rules.see_workload(None, first)]
    assert not [*rules.see_pod(None, pod("x", "one", "a")._replace(requests={"cpu": Fraction(2)}))]
    assert not [*rules.see_workload(first, given("one", 1, reserved=False))]
    assert not [*rules.see_workload(None, given("two", 1, a=4))]


def test_a_pod_is_judged_by_its_owner_whatever_its_annotations_are() -> None:
    """A pod that asks for no topology (one implied, or unconstrained), or names another Workload, is one of its job."""
    rules = world(node("a", 4), node("b", 4))
    assert not [*rules.see_workload(None, given("one", 1, a=1)._replace(job="job"))]
    assert not [*rules.see_workload(None, given("two", 1, b=1))]
    for number, names in enumerate(("", "two")):
        stray = pod(f"x-{number}", names, "b")
        assert [*rules.see_pod(None, stray, [stray.uid, "job"])] == [
            f"pod {stray.name} runs on b, which its Workload was not given"
        ]


def test_the_newest_slice_of_an_elastic_job_decides_and_older_pods_stay() -> None:
    rules = world(node("a", 4), node("b", 4))
    old = given("s", 1, a=2)
    new = given("s-2", 1, a=1, b=2)._replace(slices="team/s")
    for name in ("x", "y"):
        assert not [*rules.see_workload(None, old)]
        assert not [*rules.see_pod(None, pod(name, "s", "a"))]
    waits = new._replace(reserved=False, admitted=False, domains={}, on={})
    assert not [*rules.see_workload(None, waits)]
    assert not [*rules.see_workload(waits, new)]
    assert not [*rules.see_workload(old, old._replace(finished=True))]
    assert not [*rules.see_pod(None, pod("z", "s", "b"))]
    assert [*rules.see_pod(None, pod("w", "s", "a"))] == ["3 pods run on domain a, and 1 were given to their Workload"]
    assert not [*rules.see_workload(None, given("beside", 1, a=3, b=2))], "the old slice takes no room any more"
    assert len([*rules.see_workload(None, given("too-many", 1, b=1))]) == 1


def test_a_variant_and_its_parent_take_room_once() -> None:
    rules = world(node("a", 4))
    assert not [*rules.see_workload(None, given("parent", 1, a=3))]
    assert not [*rules.see_workload(None, given("variant", 1, a=3)._replace(owner="Workload"))]


def test_what_is_known_of_a_job_ends_with_its_last_workload() -> None:
    rules = world(node("a", 4), node("b", 4))
    first, second = given("one", 1, a=1), given("one", 1, b=1)
    assert not [*rules.see_workload(None, first)]
    assert not [*rules.see_pod(None, pod("x", "one", ""))]
    assert not [*rules.see_workload(first, None)]
    assert not [*rules.see_workload(None, second._replace(uid="wl-again"))]
    assert len([*rules.see_pod(pod("x", "one", ""), pod("x", "one", "a"))]) == 1


def test_an_assignment_without_hostnames_has_the_nodes_of_its_racks() -> None:
    rack = Domain(("rack",), ("r",))
    nodes = [each._replace(labels={**each.labels, "rack": "r"}) for each in (node("a", 4), node("b", 4))]
    rules = world(*nodes)
    assert not [*rules.see_pod(None, other("agent", "a", 3))]
    whole = given("one", 1)._replace(domains={rack: 5}, on={rack: {"cpu": Fraction(5), "pods": Fraction(5)}})
    assert not [*rules.see_workload(None, whole)]
    assert not [*rules.see_pod(None, pod("x", "one", "b"))]
    more = whole._replace(name="team/two", uid="wl-two", domains={rack: 1}, on={rack: {"cpu": Fraction(1)}})
    assert [*rules.see_workload(None, more)] == ["domain r has 8 cpu, of which pods of others use 3, and 6 are given"]


def test_pods_and_workloads_of_other_namespaces_share_the_nodes_and_are_not_reported() -> None:
    stray = pod("stray", "one", "b")._replace(name="ignored/stray", workload="ignored/one", owner="job")
    states: tuple[tuple[str, str, Node | Pod | Workload], ...] = (
        ("Node", "minions/a", node("a", 4)),
        ("Node", "minions/b", node("b", 4)),
        ("Pod", "pods/system/agent", other("agent", "a", 2)),
        ("Workload", "kueue.x-k8s.io/workloads/ignored/one", given("one", 1, a=1)._replace(name="ignored/one")),
        ("Pod", "pods/ignored/stray", stray),
        ("Workload", "kueue.x-k8s.io/workloads/team/two", given("two", 1, a=2)),
    )
    judge = Judge({"team"})
    for revision, (kind, key, value) in enumerate(states):
        judge.see(Change(revision, kind, f"/registry/{key}", value))
    assert [each.partition(": ")[2] for each in judge.broken] == [
        "domain a has 4 cpu, of which pods of others use 2, and 3 are given"
    ]


def test_an_assignment_is_read_in_its_compressed_form() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
    slices = [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "node-", "roots": ["1", "2"]}}],
            "podCounts": {"individual": [3, 1]},
        }
    ]
    raw: dict[str, Any] = {
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
    assert found.slices == ""
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-name": "first"}
    found = decoded("Workload", json.dumps(raw).encode())
    assert isinstance(found, Workload) and found.slices == "team/first"
