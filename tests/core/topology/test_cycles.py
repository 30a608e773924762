"""Every recorded cycle of Kueue with topologies comes out the same, but for what is different on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from api import quantity
from bench.oracle import differences, scenarios
from bench.topology_cycles import OVERBOOKED, apart_cycle_of, cycle_of
from bench.topology_oracle import APART, is_apart, judged
from core.model import Raw

CYCLES: Final = Path(__file__).parents[2] / "recordings" / "topology" / "cycle.jsonl.xz"


def test_a_cycle_with_topologies_decides_as_recorded() -> None:
    """Those that do not come out as recorded do so with Kueue's rule for flavors with the same nodes."""
    lines = list(judged(CYCLES))
    assert len(lines) > 400
    found = [each for each in lines if each.kind == "cycle"]
    assert {each.line["name"]: each.compared.difference for each in found if each.compared.difference} == {}
    messages = [message for each in found for message in each.compared.messages]
    assert len(messages) > 700
    assert [message for message in messages if message] == []
    assert sum(each.kind == APART for each in lines) <= len(lines) // 100


def test_kueues_rule_for_flavors_with_the_same_nodes_overbooks_a_recorded_cycle() -> None:
    """So the rule is not followed, also where it gives no domain more than it has."""
    lines = [line for line in scenarios(CYCLES) if OVERBOOKED in line.get("tags", ())]
    explained = [line for line in lines if list(differences(line["expected"], cycle_of(line))) and is_apart(line)]
    assert explained
    for line in explained:
        assert any(_over(used) for _, _, used in _used(line["expected"]))
        assert not any(_over(used) for _, _, used in _used(cycle_of(line)))


def test_two_heads_in_flavors_with_the_same_node_get_it_once_and_by_kueues_rule_twice() -> None:
    given = two_flavors_of_one_node()
    assert sorted(each["outcome"] for each in cycle_of(given)["workloads"].values()) == ["Admitted", "Pending"]
    kueue = apart_cycle_of(given)
    assert [each["outcome"] for each in kueue["workloads"].values()] == ["Admitted", "Admitted"]
    assert all(_over(used) for _, _, used in _used(kueue))


def two_flavors_of_one_node() -> Raw:
    """A node with room for one of two workloads, which two ClusterQueues use as two flavors."""
    labels = {"kubernetes.io/hostname": "n1"}
    allocatable = {"cpu": "2", "pods": "10"}
    ready = [{"type": "Ready", "status": "True"}]
    levels = [{"nodeLabel": "kubernetes.io/hostname"}]
    found: Raw = {name: [] for name in ("resourceFlavors", "clusterQueues", "localQueues", "workloads")}
    for name in ("a", "b"):
        quotas = {"name": name, "resources": [{"name": "cpu", "nominalQuota": "8"}]}
        group = {"coveredResources": ["cpu"], "flavors": [quotas]}
        template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        pod_set = {"name": "main", "count": 1, "template": template, "topologyRequest": {"unconstrained": True}}
        found["resourceFlavors"].append({"metadata": {"name": name}, "spec": {"topologyName": "hosts"}})
        found["clusterQueues"].append(
            {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}
        )
        metadata = {"name": name, "namespace": "ns"}
        found["localQueues"].append({"metadata": metadata, "spec": {"clusterQueue": name}})
        found["workloads"].append(
            {
                "metadata": {**metadata, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"queueName": name, "podSets": [pod_set]},
            }
        )
    return {
        "input": {
            **found,
            "now": "2026-01-01T00:00:01Z",
            "namespaces": [{"metadata": {"name": "ns"}}],
            "topologies": [{"metadata": {"name": "hosts"}, "spec": {"levels": levels}}],
            "nodes": [
                {
                    "metadata": {"name": "n1", "labels": labels},
                    "status": {"allocatable": allocatable, "conditions": ready},
                }
            ],
        }
    }


def test_no_domain_gets_more_than_it_has_where_kueue_overbooks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.oracle._hold_still", lambda *_: None)  # a slice that is replaced uses nothing more
    lines = [line for line in scenarios(CYCLES) if OVERBOOKED in line.get("tags", ())]
    assert lines
    for line in lines:
        got = cycle_of(line)
        taken = {domain for each in got["workloads"].values() for domain in _domains(each)}
        beyond = [(flavor, name) for flavor, name, used in _used(got) if _over(used) and name in taken]
        assert not beyond, f"{line['name']}: {beyond}"


def _used(described: Raw) -> list[tuple[str, str, Raw]]:
    usage = described.get("tasUsage", {})
    return [(flavor, name, used) for flavor, domains in usage.items() for name, used in domains.items()]


def _over(used: Raw) -> bool:
    free = {resource: quantity.exact(amount) for resource, amount in used["freeCapacity"].items()}
    return any(quantity.exact(amount) > free.get(resource, 0) for resource, amount in used.get("tasUsage", {}).items())


def _domains(decision: Raw) -> set[str]:
    """The domains that an admission of this cycle uses, as usage names them."""
    if decision["outcome"] != "Admitted" or decision.get("secondPass"):
        return set()
    return {",".join(domain["values"]) for pod_set in decision["podSets"] for domain in pod_set.get("domains", ())}
