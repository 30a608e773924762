"""Warnings about topologies: what no domain can hold ever, or now, and labels that no node has."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any

import msgspec
import pytest
import yaml

from api.names import MULTIKUEUE_CONTROLLER
from core.feedback import topology as topology_rules
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.jobs import of_job
from core.feedback.keys import Keys, of_keys
from core.feedback.queues import of_flavor, of_topology
from core.feedback.rules import LIMIT
from core.feedback.submission import OF_JOB, Submission
from core.model import AdmissionCheck, CheckRule, Node, TopologyRequest
from core.state.lookup import Lookup
from core.state.node_groups import NodeGroups
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
        "asks for 20 pods in one rack: the largest could ever hold 16 (4 nodes with 4 cpu each); ask for preferred, or"
        " a block",
        id="no rack is large enough",
    ),
    pytest.param(
        {"required": "rack"},
        30,
        "topology-too-small",
        "asks for 30 pods in one rack: the largest could ever hold 16 (4 nodes with 4 cpu each); ask for 16 pods or"
        " less",
        id="all racks together would not do either",
    ),
    pytest.param(
        {"required": HOST},
        5,
        "topology-too-small",
        "asks for 5 pods in one node: the largest could ever hold 4 (1 node with 4 cpu); ask for preferred, or a rack",
        id="no node is large enough",
    ),
    pytest.param({"preferred": "rack"}, 20, "", "", id="several racks would do"),
    pytest.param(
        {"preferred": "rack"},
        30,
        "topology-too-small",
        'asks for 30 pods by topology: flavor "tas" could ever hold 24 (6 nodes with 4 cpu each); ask for 24 pods'
        " or less",
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
FULL = "fits no rack now: rack a has room for 10 pods, 4 missing: will wait"
NO_RACK = 'no node of flavor "tas" has label rack now: the job waits; ask an administrator to label nodes'
NO_LABEL = "no node has label cloud.example.com/rack: no pod can be placed by this Topology; label nodes"
SHARED = 'shares 2 nodes with flavor "tas", and neither knows what the other uses there; change nodeLabels'
BOTH = 'flavors "new" and "tas" share 2 nodes, and neither knows what the other uses there; change nodeLabels'
BEYOND = (
    'flavor "tas" has 100 cpu of quota, and its 6 nodes have 24: workloads within the quota wait for room; lower it'
)
NO_TOPOLOGY = 'Topology "racks" does not exist yet: ClusterQueues with this flavor admit nothing until it is created'
NO_LEVEL = "of 2 nodes of this flavor none has label rack: no pod can be placed there; label nodes"
SAID = {
    *((case.values[-2], case.values[-1]) for case in CASES),
    ("topology-full", FULL),
    ("topology-labels-not-found", NO_LABEL),
    ("topology-labels-not-found", NO_RACK),
    ("topology-not-found", NO_TOPOLOGY),
    ("topology-flavors-overlap", SHARED),
    ("topology-flavors-overlap", BOTH),
    ("quota-beyond-nodes", BEYOND),
    ("topology-labels-not-found", NO_LEVEL),
}
"""Rules and messages of this module."""


@pytest.mark.parametrize(("request_", "count", "rule", "message"), CASES)
def test_a_topology_request(request_: dict[str, Any], count: int, rule: str, message: str) -> None:
    assert told(asks(count, **request_), racks(SHORT)) == ([(rule, message)] if rule else [])


def test_more_pods_than_there_is_room_for_are_not_placed_to_count_those_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []

    def counted(domains: Domains, requests: list[Asked], options: Options) -> Any:
        counts.append(requests[0].count)
        return place(domains, requests, options)

    monkeypatch.setattr(topology_rules, "place", counted)
    for request in ({"preferred": "rack"}, {"required": "rack"}, {"unconstrained": True}):
        [(rule, _)] = told(asks(30, **request), racks(SHORT))
        assert rule == "topology-too-small"
    assert counts == []
    [(rule, _)] = told(group(16), racks(SHORT))
    assert rule == "topology-too-small"
    assert set(counts) == {15}, "only whether the leader has room beside them is tried"


def test_what_other_workloads_use_is_about_now() -> None:
    lookup = racks(SHORT)
    use(lookup, "tas", {"a0": 4, "a1": 2})
    assert told(asks(14, required="rack"), lookup) == [("topology-full", FULL)]
    assert told(asks(10, required="rack"), lookup) == []
    use(lookup, "tas", dict.fromkeys(("a0", "a1", "a2", "a3", "b0", "b1"), 2))
    room = 'fits no node now: the best of flavor "tas" has room for 2 pods, 1 missing: will wait'
    assert told(asks(3, required=HOST), lookup) == [("topology-full", room)], "names of nodes are not for all"


def test_the_nodes_of_the_largest_domain_are_described_as_they_are() -> None:
    there = [node("a0", "a", "rack", cpu=8), node("a1", "a", "rack", cpu=6), node("b0", "b", "rack")]
    start = "asks for 20 pods in one rack: the largest could ever hold"
    lookup = world(manifests(*SHORT), nodes=there, topology=True)
    [(_, message)] = told(asks(20, required="rack"), lookup)
    assert message == f"{start} 14 (2 nodes, the largest with 8 cpu); ask for 14 pods or less"
    for name in ("a0", "a1", "b0"):
        lookup.state.set_other_pods(name, {"cpu": 2000, "pods": 1})
    [(_, message)] = told(asks(20, required="rack"), lookup)
    assert message == f"{start} 10 (2 nodes, the largest with 6 free cpu)"


def test_of_two_flavors_the_largest_is_named() -> None:
    other = manifests("rack", "big", "racks")
    both = [*yaml.safe_load(manifests(*SHORT)), *yaml.safe_load(other)]
    both = [each for each in both if each["kind"] != "ClusterQueue"] + [both[-1]]
    both[-1]["spec"]["resourceGroups"][0]["flavors"].insert(
        0, {**both[-1]["spec"]["resourceGroups"][0]["flavors"][0], "name": "tas"}
    )
    both[1]["spec"]["nodeLabels"] = {"pool": "few"}
    few = msgspec.structs.replace(node("c", "c", "rack"), labels={**node("c", "c", "rack").labels, "pool": "few"})
    there = [few, node("a0", "a", "rack", cpu=8)]
    found = told(asks(20, required="rack"), world(yaml.safe_dump(both), nodes=there, topology=True))
    fact = 'the largest of flavor "big" could ever hold 8 (1 node with 8 cpu)'
    assert found == [("topology-too-small", f"asks for 20 pods in one rack: {fact}; ask for 8 pods or less")]


def group(workers: int, **changes: Any) -> Submission:
    """A leader and so many workers of one cpu that must be in one rack."""
    request = TopologyRequest(required="rack", group="all")
    found = job()
    [pod_set] = found.pod_sets
    change = msgspec.structs.replace
    return replace(
        found,
        pod_sets=(
            change(pod_set, name="leader", count=1, topology=request, **changes),
            change(pod_set, name="workers", count=workers, topology=request),
        ),
    )


def test_a_leader_and_its_workers_are_judged_together() -> None:
    lookup = racks(SHORT)
    assert told(group(15), lookup) == []
    of = "asks for 17 pods with the leader in one rack: the largest could ever hold 16"
    [(rule, message)] = told(group(16), lookup)
    assert rule == "topology-too-small"
    assert message == f"{of} (4 nodes with 4 cpu each)"
    large = {"cpu": 3000, "memory": 1 << 30}
    [(_, message)] = told(group(16, requests=large), lookup)
    assert message == f"{of.replace('16', '14')}; ask for preferred, or a higher level"
    use(lookup, "tas", {"a0": 4, "a1": 2})
    assert told(group(9), lookup) == []
    room = "fits no rack now: rack a has room for 10 pods, 1 missing: will wait"
    assert told(group(10), lookup) == [("topology-full", room)]


def test_a_leader_without_room_for_any_worker() -> None:
    changes = {"requests": {"cpu": 4000, "memory": 1 << 30}}
    lookup = world(manifests(*SHORT), nodes=[node("a", "a", "rack")], topology=True)
    [(_, message)] = told(group(1, **changes), lookup)
    assert message.startswith("asks for 2 pods with the leader in one rack: the largest could ever hold 1;")


def test_each_of_several_groups_must_fit_a_rack() -> None:
    lookup = racks(SHORT)
    groups = replace(group(16), units=3, words=replace(OF_JOB, unit="group"))
    [(_, message)] = told(groups, lookup)
    of = "each group asks for 17 pods with the leader in one rack: the largest could ever hold 16"
    assert message == f"{of} (4 nodes with 4 cpu each)"
    assert told(replace(groups, pod_sets=group(7).pod_sets), lookup) == []


def test_a_job_whose_nodes_lack_the_label_of_a_level() -> None:
    unlabelled = [node("a", "a", "row"), node("b", "a", "row")]
    lookup = world(manifests(*SHORT), nodes=unlabelled, topology=True)
    missing = [("topology-labels-not-found", NO_RACK)]
    assert told(asks(1, required="rack"), lookup) == missing
    assert told(asks(1, preferred="block"), lookup) == missing
    assert told(job(), lookup) == missing, "all flavors of the queue have a topology"
    lookup.state.set_node("c", node("c", "a", "rack"))
    lookup.nodes().append(node("c", "a", "rack"))  # type: ignore[union-attr]
    assert told(asks(1, required="rack"), lookup) == []


def test_nodes_each_of_which_lacks_the_label_of_another_level() -> None:
    one, other = node("a", "a", "rack"), node("b", "a", "rack")
    there = [
        msgspec.structs.replace(each, labels={k: v for k, v in each.labels.items() if k != without})
        for each, without in ((one, "rack"), (other, "block"))
    ]
    found = told(asks(1, required="rack"), world(manifests(*SHORT), nodes=there, topology=True))
    fact = 'no node of flavor "tas" has a label for every level of its Topology now: the job waits'
    assert found == [("topology-labels-not-found", f"{fact}; have nodes labelled")]


def test_nodes_that_are_not_ready_are_no_nodes_without_labels() -> None:
    away = msgspec.structs.replace(node("a", "a", "rack"), usable=False)
    assert told(asks(1, required="rack"), world(manifests(*SHORT), nodes=[away], topology=True)) == []


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


@pytest.mark.parametrize(
    ("labels", "levels", "said"),
    [
        pytest.param({"pool": "tas"}, ["rack"], True, id="the same nodes"),
        pytest.param({"block": "b"}, ["rack"], True, id="labels that one node may have"),
        pytest.param({"pool": "other"}, ["rack"], False, id="other nodes"),
        pytest.param({"block": "c"}, ["rack"], False, id="no node has the labels of both"),
        pytest.param({"pool": "tas"}, ["rack", HOST], False, id="hostnames are counted together"),
    ],
)
def test_flavors_that_give_the_same_nodes_away(labels: dict[str, str], levels: list[str], said: bool) -> None:
    own = {"kind": "Topology", "metadata": {"name": "own"}, "spec": {"levels": [{"nodeLabel": x} for x in levels]}}
    both = yaml.safe_dump([*yaml.safe_load(manifests(*SHORT)), own])
    there = [node("a", "a", "rack"), node("b", "a", "rack")]
    lookup = world(both, nodes=there, topology=True)
    flavor = {"metadata": {"name": "new"}, "spec": {"nodeLabels": labels, "topologyName": "own"}}
    found = of_flavor(Change(None, decode.resource_flavor(flavor)), lookup)
    overlap = [each.message for each in found if each.rule == "topology-flavors-overlap"]
    assert overlap == ([SHARED] if said else [])


OWN = {"kind": "Topology", "metadata": {"name": "own"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
NEW = {
    "kind": "ResourceFlavor",
    "metadata": {"name": "new"},
    "spec": {"nodeLabels": {"pool": "tas"}, "topologyName": "own"},
}


def of_new(quota: int = 1) -> Any:
    """A ClusterQueue with quota of the flavor ``new``."""
    resources = [{"name": "cpu", "nominalQuota": quota}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "new", "resources": resources}]}]
    return decode.cluster_queue(
        {"metadata": {"name": "other"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
    )


def overlaps(found: Any) -> list[str]:
    return [each.message for each in found if each.rule == "topology-flavors-overlap"]


def test_flavors_begin_to_share_nodes_when_the_topology_of_one_is_created() -> None:
    there = [node("a", "a", "rack"), node("b", "a", "rack")]
    lookup = world(yaml.safe_dump([*yaml.safe_load(manifests(*SHORT)), NEW]), nodes=there, topology=True)
    own = decode.topology_object(OWN)
    assert overlaps(of_topology(Change(None, own), lookup)) == [BOTH]
    assert overlaps(of_topology(Change(None, msgspec.structs.replace(own, levels=("rack", HOST))), lookup)) == []
    assert overlaps(of_topology(Change(None, msgspec.structs.replace(own, name="unused")), lookup)) == []
    assert overlaps(of_topology(Change(own, None), lookup)) == []


def test_a_cluster_queue_gives_nodes_away_that_another_flavor_has_too() -> None:
    there = [node("a", "a", "rack"), node("b", "a", "rack")]
    both = [*yaml.safe_load(manifests(*SHORT)), OWN, NEW]
    lookup = world(yaml.safe_dump(both), nodes=there, topology=True)
    assert overlaps(of_cluster_queue(Change(None, of_new()), lookup)) == [BOTH]
    assert overlaps(of_cluster_queue(Change(of_new(), None), lookup)) == []
    both[-1] = {**NEW, "spec": {"nodeLabels": {"pool": "other"}, "topologyName": "own"}}
    assert (
        overlaps(of_cluster_queue(Change(None, of_new()), world(yaml.safe_dump(both), nodes=there, topology=True)))
        == []
    )


def beyond(queue: Any, lookup: Lookup) -> list[str]:
    found = of_cluster_queue(Change(None, queue), lookup)
    return [each.message for each in found if each.rule == "quota-beyond-nodes"]


def team(cpu: int) -> Any:
    """The ClusterQueue with so much quota."""
    raw = yaml.safe_load(manifests(*SHORT))[-1]
    raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
    return decode.cluster_queue(raw)


def test_more_quota_than_the_nodes_have() -> None:
    lookup = racks(SHORT)
    assert beyond(team(100), lookup) == [BEYOND]
    assert beyond(team(24), lookup) == []
    other = decode.cluster_queue({**yaml.safe_load(manifests(*SHORT))[-1], "metadata": {"name": "other"}})
    fact = 'flavor "tas" has 124 cpu of quota, and its 6 nodes have 24: workloads within the quota wait for room'
    assert beyond(msgspec.structs.replace(team(24), name="other"), lookup) == [f"{fact}; lower it"]
    assert beyond(other, racks(SHORT)) != []
    far = msgspec.structs.replace(team(1000), name="far", checks=(CheckRule("elsewhere"),))
    lookup.state.set_cluster_queue("far", far)
    lookup.state.set_admission_check("elsewhere", AdmissionCheck("elsewhere", MULTIKUEUE_CONTROLLER, active=True))
    assert beyond(team(24), lookup) == []
    spot = msgspec.structs.replace(far, checks=(CheckRule("elsewhere", frozenset({"spot"})),))
    lookup.state.set_cluster_queue("far", spot)
    assert beyond(team(24), lookup) != [], "workloads with another flavor run here"
    lookup.state.set_cluster_queue("far", None)
    lookup.state.set_cohort("all", decode.cohort({"metadata": {"name": "all"}, "spec": team_quota(10)}))
    assert beyond(team(20), lookup) == [f"{fact.replace('124', '30')}; lower it"]


def team_quota(cpu: int) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "tas", "resources": resources}]}]}


def test_quota_is_not_compared_with_nodes_that_come_later_lack_a_level_or_do_not_report() -> None:
    assert beyond(team(100), world(manifests(*SHORT), topology=True)) == []
    assert beyond(team(100), world(manifests(*SHORT), nodes=[node("a", "a", "row")], topology=True)) == []
    assert beyond(team(100), world(manifests(*SHORT), nodes=[node("a", "a", "rack")])) == []
    silent = msgspec.structs.replace(node("a", "a", "rack"), allocatable={})
    assert beyond(team(100), world(manifests(*SHORT), nodes=[silent], topology=True)) == []


USED = count(1000)
"""Of a node, by others: no two tests use the same."""


@cache
def many(racks_: int) -> Lookup:
    """So many racks of 64 nodes, in blocks of 10, each node with memory of its own size; answers as in `serve`.

    It takes a second to make.
    """
    there = [
        Node(
            f"n{number:05}",
            {"pool": "tas", "block": f"b{number // 640}", "rack": f"r{number // 64:04}", HOST: f"n{number:05}"},
            allocatable={"cpu": 4000, "memory": (64 << 30) + number, "pods": 110},
        )
        for number in range(64 * racks_)
    ]
    found = yaml.safe_load(manifests(*SHORT))
    for quota in found[-1]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
        quota["nominalQuota"] = "100Ti"
    lookup = world(yaml.safe_dump(found), nodes=there, topology=True)
    known = {each.name: each for each in there}
    groups = NodeGroups(known.values)
    return replace(lookup, nodes=known.values, labelled=groups.having)


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, those of C and of iterators too: what a loop over nodes in Python cannot hide."""
    found = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


LARGE = {
    "fits": lambda: asks(64, required="rack"),
    "too large for a rack": lambda: asks(300, required="rack"),
    "too large for a node": lambda: asks(5, required=HOST),
    "too many for all": lambda: asks(60_000, unconstrained=True),
    "too many for all, in one rack if possible": lambda: asks(60_000, preferred="rack"),
    "a group too large for a rack": lambda: group(300),
    "a pod too large for a node": lambda: job(requests={"cpu": "1000"}),
}


def judged(submitted: Callable[[], Submission], lookup: Lookup) -> None:
    of_job(submitted(), lookup)


@pytest.mark.parametrize("submitted", LARGE.values(), ids=LARGE)
def test_a_warning_does_not_cost_more_with_more_nodes(submitted: Callable[[], Submission]) -> None:
    """Also after a node has changed: only that is counted again."""
    costs = []
    for racks_ in (10, 100):
        lookup = many(racks_)
        of_job(submitted(), lookup)  # the first of its shape counts all nodes
        lookup.state.set_other_pods("n00005", {"cpu": next(USED), "pods": 1})
        costs.append(calls(partial(judged, submitted, lookup)))
    assert costs[1] < costs[0] + 1000, costs  # 5,760 nodes more; an order of racks is followed, not made


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
