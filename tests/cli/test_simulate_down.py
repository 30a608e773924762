"""What ``simulate --down`` does with the jobs that run on the nodes that are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from api.objects import Raw
from core.model import TopologyAssignment, TopologyDomain
from core.topology.encoding import encode
from tests.cli.test_simulate import EXAMPLES, simulate

RACKS = EXAMPLES / "topology"
HOSTNAME, RACK = "kubernetes.io/hostname", "topology.example.com/rack"

TWO_FLAVORS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: fa}
spec: {topologyName: racks, nodeLabels: {pool: a}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: fb}
spec: {topologyName: racks, nodeLabels: {pool: b}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: fa, resources: [{name: cpu, nominalQuota: 16}]}
    - {name: fb, resources: [{name: cpu, nominalQuota: 16}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: team}
spec: {clusterQueue: team}
"""
A_JOB = """
---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: team, labels: {kueue.x-k8s.io/queue-name: main}}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: i, resources: {requests: {cpu: "8"}}}]
"""


def running(name: str, nodes: dict[str, int]) -> Raw:
    """A Workload with pods of 4 cpu that runs on some nodes, and that asks for one rack."""
    domains = tuple(TopologyDomain((node,), count) for node, count in nodes.items())
    count, since = sum(nodes.values()), "2026-01-01T00:00:00Z"
    amounts = {"requests": {"cpu": "4"}}
    template = {"spec": {"containers": [{"name": "main", "image": "i", "resources": amounts}]}}
    given = {
        "name": "main",
        "count": count,
        "flavors": {"cpu": "racks"},
        "resourceUsage": {"cpu": str(4 * count)},
        "topologyAssignment": encode(TopologyAssignment((HOSTNAME,), domains)),
    }
    conditions = [
        {"type": each, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": since}
        for each in ("QuotaReserved", "Admitted")
    ]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}",
            "namespace": "team-racks",
            "uid": f"uid-of-{name}",
            "creationTimestamp": since,
            "ownerReferences": [owner],
        },
        "spec": {
            "active": True,
            "queueName": "main",
            "podSets": [{"name": "main", "count": count, "template": template, "topologyRequest": {"required": RACK}}],
        },
        "status": {"admission": {"clusterQueue": "racks", "podSetAssignments": [given]}, "conditions": conditions},
    }


def outcomes(folder: Path, down: str, *workloads: Raw) -> tuple[Raw, Raw, str]:
    """Each job as it is and with the nodes down, by name, each running for half an hour; and the printed table."""
    (folder / "workloads.yaml").write_text(yaml.safe_dump_all(workloads))
    words = (RACKS / "queues.yaml", RACKS / "nodes.yaml", folder, "--run-for", "30m", "--down", down)
    code, out, err = simulate(*words, "-o", "json")
    assert (code, err) == (0, "")
    found = [{each["job"]: each for each in outcome["workloads"]} for outcome in json.loads(out)["outcomes"]]
    return found[0], found[1], simulate(*words)[1]


def attempts(job: Raw) -> Iterator[tuple[float, float, dict[str, int]]]:
    return ((each["started"], each["ended"], each["domains"]) for each in job["attempts"])


def test_a_job_on_several_nodes_of_a_rack_that_is_down_runs_again_in_another_one(tmp_path: Path) -> None:
    hit, other = running("hit", {"rack-a-1": 2, "rack-a-2": 2}), running("other", {"rack-b-1": 2})
    before, after, printed = outcomes(tmp_path, f"{RACK}=rack-a", hit, other)
    assert list(attempts(before["hit"])) == [(0, 1800, {"block-1/rack-a": 4})]
    first, second = after["hit"]["attempts"]
    assert (first["ended"], first["reason"]) == (0, "NodeFailures")
    assert (second["started"], second["ended"], second["domains"]) == (0, 1800, {"block-1/rack-b": 4})
    assert list(attempts(after["other"])) == list(attempts(before["other"])) == [(0, 1800, {"block-1/rack-b": 2})]
    told = "team-racks/hit evicted at 0s (NodeFailures): Workload eviction triggered due to multiple TAS assigned node"
    assert told in " ".join(printed.split())


def test_a_job_that_was_evicted_waits_for_the_rack_that_is_left(tmp_path: Path) -> None:
    jobs = running("hit", {"rack-a-1": 2, "rack-a-2": 2}), running("other", {"rack-b-1": 2, "rack-b-2": 2})
    _, after, printed = outcomes(tmp_path, f"{RACK}=rack-a", *jobs)
    assert [(each["started"], each["ended"]) for each in after["hit"]["attempts"]] == [(0, 0), (1800, 3600)]
    assert "team-racks/hit: waits 0s -> 30m, stopped 0 -> 1 times, ends 30m -> 1h00m" in printed


def test_the_pods_of_one_node_that_is_down_run_on_another_node_of_the_rack(tmp_path: Path) -> None:
    _, after, printed = outcomes(tmp_path, f"{HOSTNAME}=rack-a-1", running("hit", {"rack-a-1": 1, "rack-a-2": 2}))
    (attempt,) = after["hit"]["attempts"]
    assert (attempt["started"], attempt["ended"], attempt["domains"]) == (0, 1800, {"block-1/rack-a": 3})
    assert attempt["replacedNodes"] == [{"at": 0, "nodes": ["rack-a-1"]}]
    assert "team-racks/hit moved at 0s: its pods on rack-a-1 run on other nodes" in printed


def test_a_job_is_evicted_for_whose_node_the_rack_has_no_other(tmp_path: Path) -> None:
    jobs = running("hit", {"rack-a-1": 2, "rack-a-2": 2}), running("other", {"rack-a-3": 2})
    _, after, _ = outcomes(tmp_path, f"{HOSTNAME}=rack-a-1", *jobs)
    first, second = after["hit"]["attempts"]
    assert (first["ended"], first["reason"]) == (0, "NodeFailures")
    assert "no replacement for unhealthy node(s): rack-a-1" in first["evicted"]
    assert second["domains"] == {"block-1/rack-b": 4}


def test_nodes_that_what_if_deletes_are_lost_too(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(running("hit", {"rack-a-1": 1})))
    change = tmp_path / "change"
    change.write_text("$patch: delete\napiVersion: v1\nkind: Node\nmetadata: {name: rack-a-1}\n")
    words = (RACKS / "queues.yaml", RACKS / "nodes.yaml", tmp_path / "jobs.yaml", "--what-if", change, "-o", "json")
    code, out, _ = simulate(*words)
    assert code == 0
    (told,) = json.loads(out)["outcomes"][1]["workloads"]
    assert told["attempts"][0]["replacedNodes"] == [{"at": 0, "nodes": ["rack-a-1"]}]


def test_nodes_of_two_flavors_are_played_together(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(TWO_FLAVORS + A_JOB % "first" + A_JOB % "second")
    words = ("--nodes", "fa=1x2,cpu=8", "--nodes", "fb=1x2,cpu=8", "--down", "rack=rack-fb-1", "-o", "json")
    code, out, err = simulate(tmp_path / "queues.yaml", *words)
    assert (code, err) == (0, "")
    ran_on = [[each["attempts"][0]["domains"] for each in found["workloads"]] for found in json.loads(out)["outcomes"]]
    assert ran_on == [[{"rack-fa-1": 2}, {"rack-fb-1": 2}], [{"rack-fa-1": 2}, {"rack-fa-1": 2}]]
