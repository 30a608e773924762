"""What `seiretsu doctor` finds in flavors with a topology."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import BUILT_IN_CONTROLLERS
from api.objects import Raw
from core.diagnosis.facts import Facts
from core.diagnosis.topologies import topologies
from tests.core.test_findings import NOW

RACK, HOSTNAME = "cloud/rack", "kubernetes.io/hostname"


def node(name: str, **labels: str) -> Raw:
    found = {"pool": "gpu", RACK: "a", HOSTNAME: name, **labels}
    metadata = {"name": name, "labels": {key: value for key, value in found.items() if value}}
    return {"metadata": metadata, "status": {"allocatable": {"cpu": "8"}}}


def flavor(name: str = "gpu", topology: str = "t") -> Raw:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"pool": "gpu"}, "topologyName": topology}}


def topology(name: str, *levels: str) -> Raw:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def queue(cpu: str, name: str = "gpu") -> Raw:
    quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [{"flavors": [quota]}]}}


HEALTHY = Facts(
    now=NOW,
    objects={
        "resourceflavors": [flavor()],
        "topologies": [topology("t", RACK, HOSTNAME), topology("racks", RACK)],
        "nodes": [node("n1"), node("n2")],
        "clusterqueues": [queue("16")],
    },
)


def found(**objects: list[Raw]) -> list[str]:
    facts = replace(HEALTHY, objects={**HEALTHY.objects, **objects})
    return [f"{each.subject}: {each.message}" for each in topologies(facts)]


def test_nothing_is_wrong_with_labelled_nodes_and_quota_for_them() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        ({"topologies": []}, "its Topology 't' does not exist"),
        ({"nodes": []}, "no node has its nodeLabels: no pod can be placed"),
        (
            {"nodes": [node("n1"), node("n2", **{RACK: ""}), node("n3", **{RACK: ""})], "clusterqueues": []},
            "2 of its 3 nodes have no label cloud/rack (n2 and 1 more): no pod is placed there",
        ),
        (
            {"clusterqueues": [queue("16500m")]},
            "16500m cpu of quota, and its 2 nodes have 16: workloads within the quota wait for room",
        ),
        (
            {"resourceflavors": [flavor(), flavor("other", "racks")]},
            "shares 2 nodes with flavor other, and neither knows what the other uses there",
        ),
    ],
)
def test_each_mistake_has_its_sentence(objects: dict[str, list[Raw]], sentence: str) -> None:
    assert found(**objects) == [f"ResourceFlavor gpu: {sentence}"]


def test_flavors_that_share_nodes_by_hostname_know_of_each_other() -> None:
    assert found(resourceflavors=[flavor(), flavor("other")]) == []


@pytest.mark.parametrize("controller", BUILT_IN_CONTROLLERS)
def test_quota_of_what_runs_elsewhere_is_not_compared_with_nodes(controller: str) -> None:
    far = queue("16500m") | {"metadata": {"name": "far"}}
    far["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "elsewhere"}]}
    check = {"metadata": {"name": "elsewhere"}, "spec": {"controllerName": controller}}
    assert found(clusterqueues=[far], admissionchecks=[check]) == []
    assert found(clusterqueues=[far], admissionchecks=[]) != []
    (rule,) = far["spec"]["admissionChecksStrategy"]["admissionChecks"]
    rule["onFlavors"] = ["spot"]
    assert found(clusterqueues=[far], admissionchecks=[check]) != [], "workloads with another flavor run here"
    rule["onFlavors"] = ["gpu"]
    assert found(clusterqueues=[far], admissionchecks=[check]) == []


def test_nodes_without_a_level_do_not_count_for_quota() -> None:
    (labels, quota) = found(nodes=[node("n1"), node("n2", **{RACK: ""})])
    assert "have no label" in labels
    assert "its 1 node have 8" in quota
