"""Warnings about topologies: what no domain can hold ever, or now, and labels that no node has."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from core.feedback import topology as topology_rules
from core.feedback.change import Change
from core.feedback.jobs import of_job
from core.feedback.keys import Keys, of_keys
from core.feedback.queues import of_flavor, of_topology
from core.feedback.rules import LIMIT
from core.feedback.submission import Submission
from core.model import Node, TopologyRequest
from core.state.lookup import Lookup
from core.topology import Asked, Domains, Options, place
from core.wire import decode
from tests.core.feedback.world import enter, job, world

HOST = "kubernetes.io/hostname"
SHORT = ("rack", "tas", "racks")
LONG = (
    "cloud.provider.example.com/topology-rack-of-the-hall",
    "gpu-a2-ultragpu-8g-europe-west4-reserved-capacity-0",
    "racks-of-the-data-centre-europe-west4-and-its-halls",
)


def manifests(rack: str, flavor: str, topology: str) -> str:
    levels = [{"nodeLabel": each} for each in ("block", rack, HOST)]
    quota = [{"name": "cpu", "nominalQuota": 100}, {"name": "memory", "nominalQuota": "100Gi"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": flavor, "resources": quota}]}]
    return yaml.safe_dump(
        [
            {"kind": "Topology", "metadata": {"name": topology}, "spec": {"levels": levels}},
            {
                "kind": "ResourceFlavor",
                "metadata": {"name": flavor},
                "spec": {"nodeLabels": {"pool": "tas"}, "topologyName": topology},
            },
            {
                "kind": "ClusterQueue",
                "metadata": {"name": "team-a"},
                "spec": {"namespaceSelector": {}, "resourceGroups": groups},
            },
        ]
    )


def node(name: str, rack: str, label: str, cpu: int = 4) -> Node:
    labels = {"pool": "tas", "block": "b", label: rack, HOST: name}
    return Node(name, labels, allocatable={"cpu": cpu * 1000, "memory": 64 << 30, "pods": 110})


def racks(names: tuple[str, str, str], **options: Any) -> Lookup:
    """Two racks of 16 and 8 cpu, in nodes of 4."""
    there = [node(f"a{n}", "a", names[0]) for n in range(4)] + [node(f"b{n}", "b", names[0]) for n in range(2)]
    return world(manifests(*names), nodes=there, topology=True, **options)


def asks(count: int, **request: Any) -> Submission:
    """So many pods of one cpu with a topology request."""
    found = job(count=count)
    topology = TopologyRequest(**request)
    return replace(found, pod_sets=tuple(msgspec.structs.replace(each, topology=topology) for each in found.pod_sets))


def use(lookup: Lookup, flavor: str, hosts: dict[str, int]) -> None:
    """An admitted workload has so many pods of one cpu on these nodes."""
    domains = [
        {"valuesPerLevel": [{"universal": host}], "domainCount": 1, "podCounts": {"universal": count}}
        for host, count in hosts.items()
    ]
    total = sum(hosts.values())
    assigned = {
        "name": "main",
        "count": total,
        "flavors": {"cpu": flavor},
        "resourceUsage": {"cpu": str(total)},
        "topologyAssignment": {"levels": [HOST], "slices": domains},
    }
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]
    enter(
        lookup.state,
        {
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "team-a", "uid": "w", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"queueName": "main", "podSets": [{"name": "main", "count": total, "template": template}]},
            "status": {
                "admission": {"clusterQueue": "team-a", "podSetAssignments": [assigned]},
                "conditions": conditions,
            },
        },
    )


def told(found: Submission, lookup: Lookup) -> list[tuple[str, str]]:
    return [(each.rule, each.message) for each in of_job(found, lookup) if each.rule.startswith("topology")]


CASES = [
    pytest.param({"required": "rack"}, 16, "", "", id="it fits one rack"),
    pytest.param(
        {"required": "rack"},
        20,
        "topology-too-small",
        'asks for 20 pods in one rack: the largest of flavor "tas" could ever hold 16; ask for preferred, or a'
        " higher level",
        id="no rack is large enough",
    ),
    pytest.param({"preferred": "rack"}, 20, "", "", id="several racks would do"),
    pytest.param(
        {"preferred": "rack"},
        30,
        "topology-too-small",
        'asks for 30 pods by topology: flavor "tas" could ever hold 24; ask for 24 pods or less',
        id="all racks together are too small",
    ),
    pytest.param({"unconstrained": True}, 24, "", "", id="anywhere"),
    pytest.param(
        {"slices": (("rack", 2),)},
        5,
        "topology-slices-uneven",
        "1 pod of 5 never runs: slices have 2 pods, and only whole ones are placed; ask for 4 or 6 pods",
        id="a pod is left over",
    ),
    pytest.param(
        {"required": "block", "slices": (("rack", 8), ("kubernetes.io/hostname", 2))},
        6,
        "topology-slices-uneven",
        "6 pods of 6 never run: slices have 8 pods, and only whole ones are placed; ask for 8 pods",
        id="no slice is whole",
    ),
    pytest.param({"required": "block", "slices": (("rack", 2),)}, 6, "", "", id="whole slices"),
    pytest.param(
        {"required": "row"},
        1,
        "topology-level-not-found",
        'never starts: no topology of ClusterQueue "team-a" has level row; ask for block, rack, kubernetes.io/hostname',
        id="no such level",
    ),
]
FULL = 'fits no rack now: the best of flavor "tas" has room for 10 pods, 4 missing: will wait'
NO_LABEL = "no node has label cloud.example.com/rack: no pod can be placed by this Topology; label nodes"
NO_TOPOLOGY = 'Topology "racks" does not exist yet: ClusterQueues with this flavor admit nothing until it is created'
NO_LEVEL = "of 2 nodes of this flavor none has label rack: no pod can be placed there; label nodes"
SAID = {
    *((case.values[-2], case.values[-1]) for case in CASES),
    ("topology-full", FULL),
    ("topology-labels-not-found", NO_LABEL),
    ("topology-not-found", NO_TOPOLOGY),
    ("topology-labels-not-found", NO_LEVEL),
}
"""Rules and messages of this module."""


@pytest.mark.parametrize(("request_", "count", "rule", "message"), CASES)
def test_a_topology_request(request_: dict[str, Any], count: int, rule: str, message: str) -> None:
    assert told(asks(count, **request_), racks(SHORT)) == ([(rule, message)] if rule else [])


def test_more_pods_than_there_is_room_for_are_not_placed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(domains: Domains, requests: list[Asked], options: Options) -> Any:
        counts.append(requests[0].count)
        return place(domains, requests, options)

    monkeypatch.setattr(topology_rules, "place", counted)
    [(rule, _)] = told(asks(30, preferred="rack"), racks(SHORT))
    assert rule == "topology-too-small"
    assert set(counts) == {24}


def test_what_other_workloads_use_is_about_now() -> None:
    lookup = racks(SHORT)
    use(lookup, "tas", {"a0": 4, "a1": 2})
    assert told(asks(14, required="rack"), lookup) == [("topology-full", FULL)]
    assert told(asks(10, required="rack"), lookup) == []


def test_a_queue_without_topologies_never_admits_a_request_for_one() -> None:
    message = 'never starts: no flavor of ClusterQueue "team-a" has a topology; remove the topology annotations'
    assert told(asks(1, required="rack"), world(topology=True)) == [("topology-level-not-found", message)]


def test_nothing_is_reported_without_nodes_or_without_the_feature_gate() -> None:
    assert told(asks(20, required="rack"), world(manifests(*SHORT), topology=True)) == []
    assert told(asks(20, required="rack"), world(manifests(*SHORT), nodes=[node("a", "a", "rack")])) == []


@pytest.mark.parametrize("count", [14, 20, 30])
@pytest.mark.parametrize("level", ["required", "preferred"])
def test_with_names_of_clouds_the_fact_fits_one_line(count: int, level: str) -> None:
    lookup = racks(LONG)
    use(lookup, LONG[1], {"a0": 4, "a1": 2})
    for rack in (LONG[0], "cloud.provider.example.com/topology-row-of-the-hall"):
        found = told(asks(count, **{level: rack}), lookup)
        assert all(len(message) <= LIMIT for _, message in found)
        short = racks(SHORT)
        use(short, SHORT[1], {"a0": 4, "a1": 2})
        other = told(asks(count, **{level: "rack" if rack == LONG[0] else "row"}), short)
        assert [rule for rule, _ in found] == [rule for rule, _ in other]
        assert [numbers(message) for _, message in found] == [numbers(message) for _, message in other]


def numbers(message: str) -> set[str]:
    """The figures of a message, without those in names."""
    return set(re.findall(r"\b\d+\b", re.sub(r'"[^"]*"', "", message)))


def topology(*levels: str) -> Any:
    return decode.topology_object(
        {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": each} for each in levels]}}
    )


def test_levels_of_which_no_node_has_the_label() -> None:
    lookup = world(nodes=[node("a", "a", "rack")], topology=True)
    found = of_topology(Change(None, topology("block", "cloud.example.com/rack")), lookup)
    assert [(each.rule, each.message) for each in found] == [("topology-labels-not-found", NO_LABEL)]
    assert of_topology(Change(None, topology("block", "rack")), lookup) == ()
    assert of_topology(Change(None, topology("row")), world(topology=True)) == (), "a cluster that is being made"


def test_a_flavor_whose_topology_is_missing_or_has_labels_that_its_nodes_lack() -> None:
    flavor = decode.resource_flavor(
        {"metadata": {"name": "new"}, "spec": {"nodeLabels": {"pool": "tas"}, "topologyName": "racks"}}
    )
    found = of_flavor(Change(None, flavor), world(nodes=[node("a", "a", "rack")], topology=True))
    assert [(each.rule, each.message) for each in found] == [("topology-not-found", NO_TOPOLOGY)]
    lookup = world(manifests(*SHORT), nodes=[node("a", "a", "row"), node("b", "a", "row")], topology=True)
    found = of_flavor(Change(None, flavor), lookup)
    assert [(each.rule, each.message) for each in found] == [("topology-labels-not-found", NO_LEVEL)]


def test_topology_annotations_have_an_effect_with_the_feature_gate() -> None:
    keys = Keys(pod_annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})
    assert [each.rule for each in of_keys(Change(None, keys), world())] == ["key-without-effect"]
    assert of_keys(Change(None, keys), world(topology=True)) == ()


def test_pods_with_too_much_to_compare_are_not_compared_with_every_node_for_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookup = racks(SHORT)
    assert told(asks(30, required="rack"), lookup) != []
    monkeypatch.setattr(importlib.import_module("core.topology.place"), "MOST_COMPARED", 5)
    assert told(asks(40, required="rack"), lookup) == []
