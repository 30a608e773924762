"""The messages for an administrator who changes an object: each rule with its text, as the table `queues.yaml`."""

from __future__ import annotations

from typing import Any

import pytest

from core.feedback.catalog import TABLES
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.queues import of_cohort, of_flavor, of_local_queue, of_queue, of_topology
from core.feedback.rules import LIMIT
from core.model import Raw
from core.wire import decode
from tests.core.feedback import test_strangers
from tests.core.feedback.table import changes, known
from tests.core.feedback.world import world

KINDS: dict[str, Any] = {
    "ClusterQueue": (decode.cluster_queue, of_cluster_queue),
    "LocalQueue": (decode.local_queue, of_local_queue),
    "Queue": (decode.local_queue, of_queue),
    "Cohort": (decode.cohort, of_cohort),
    "ResourceFlavor": (decode.resource_flavor, of_flavor),
    "Topology": (decode.topology_object, of_topology),
}


def team_a(**spec: Any) -> Raw:
    raw = known("ClusterQueue", "team-a")
    raw["spec"] |= spec
    return raw


def with_cpu(**quota: Any) -> Raw:
    raw = team_a()
    raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= quota
    return raw


def ours(kind: str, name: str, namespace: str = "", **spec: Any) -> Raw:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


CASES = changes()


@pytest.mark.parametrize(("new", "old", "more", "rule", "message"), CASES)
def test_the_messages_of_each_case(
    new: Raw | None, old: Raw | None, more: str, rule: str, message: str | list[str]
) -> None:
    read, find = KINDS[(new or old or {})["kind"]]
    lookup = world(more, nodes=[{"pool": "standard", "zone": "a"}, {"pool": "spot"}], concurrent=True)
    found = find(Change(old and read(old), new and read(new)), lookup)
    messages = message if isinstance(message, list) else [message]
    assert [(finding.rule, finding.message) for finding in found] == ([(rule, m) for m in messages] if rule else [])
    assert all(len(finding.message) <= LIMIT for finding in found)


ELSEWHERE = {
    "resource-without-nodes",
    "topology-not-found",
    "topology-labels-not-found",
    "topology-flavors-overlap",
    "quota-beyond-nodes",
    "workloads-affected",
}
"""Rules with a test of their own: test_nodes.py and test_topology.py."""


def test_every_rule_for_administrators_has_its_case() -> None:
    tables = [rules for subject, rules in TABLES.items() if subject not in ("jobs", "labels and annotations")]
    seen = {case.values[-2] for case in (*CASES, *test_strangers.CASES)} - {""}
    assert {rule.name for rules in tables for rule in rules} == seen | ELSEWHERE


def test_the_first_member_of_a_cohort_gets_no_warning_that_the_cohort_lends_none() -> None:
    first = with_cpu(borrowingLimit=20)
    first["metadata"]["name"], first["spec"]["cohortName"] = "first", "new"
    assert of_cluster_queue(Change(None, decode.cluster_queue(first)), world()) == ()


def test_nothing_is_reported_before_the_caches_have_been_read() -> None:
    change = Change(None, decode.cluster_queue(ours("ClusterQueue", "new")))
    assert of_cluster_queue(change, world(synced=False)) == ()


def test_a_cluster_without_nodes_gets_no_warning_about_nodes() -> None:
    flavor = decode.resource_flavor(ours("ResourceFlavor", "fast", nodeLabels={"pool": "fast"}))
    assert of_flavor(Change(None, flavor), world(nodes=[])) == ()
    assert of_flavor(Change(None, flavor), world(nodes=None)) == ()
