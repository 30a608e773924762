"""What files change, whom that hits, and the exit code that a pipeline reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from api.objects import Raw
from cli import scenario
from cli.main import application
from cli.plan import Planned, plain, plan, text
from cli.world import rules, without_variants
from core.forecast.run_times import constant

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: standard}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: a}
spec:
  cohortName: all
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: standard, resources: [{name: cpu, nominalQuota: OWN}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: b}
spec:
  cohortName: all
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 2}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: gold}
value: 5
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: team}
spec: {clusterQueue: a}
"""


def workload(name: str, cpu: str, *, runs: bool = False, **spec: object) -> Raw:
    pods = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    raw: Raw = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
            **spec,
        },
    }
    if runs:
        since = {
            "lastTransitionTime": f"2026-01-01T00:00:{'07' if name == 'young' else '00'}Z",
            "reason": "x",
            "message": "",
            "status": "True",
        }
        assigned = {"name": "main", "flavors": {"cpu": "standard"}, "resourceUsage": {"cpu": cpu}, "count": 1}
        raw["status"] = {
            "admission": {"clusterQueue": "a", "podSetAssignments": [assigned]},
            "conditions": [{"type": kind, **since} for kind in ("QuotaReserved", "Admitted")],
        }
    return raw


NOW = 1_767_225_660.0
"""A minute after all of them were created."""
BUSY = [workload("old", "2", runs=True), workload("young", "2", runs=True), workload("waits", "6")]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{QUEUES.replace('OWN', '4')}---\n{yaml.safe_dump_all(BUSY)}")
    return path


def edit(tmp_path: Path, old: str, new: str) -> Path:
    assert old in QUEUES
    path = tmp_path / "edit.yaml"
    path.write_text(QUEUES.replace(old, new).replace("nominalQuota: OWN", "nominalQuota: 4"))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(application(["plan"]), ["plan", *map(str, words)])


def planned(cluster: Path, files: Path) -> Planned:
    return plan(scenario.read([cluster]), scenario.read([files]), without_variants(rules()), NOW, constant(600.0))


def test_a_lower_quota_shows_the_field_and_whom_it_hits(cluster: Path, tmp_path: Path) -> None:
    told = text(planned(cluster, edit(tmp_path, "nominalQuota: OWN", "nominalQuota: 2"))).splitlines()
    assert told[0].startswith("~ ClusterQueue a  (")
    assert told[1] == "    spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: 4 -> 2"
    assert told[3:] == [
        "Whom it hits, of 2 running and 1 waiting workloads:",
        "  1 running loses its guarantee",
        "    team/young",
        "  1 waiting never starts",
        "    team/waits",
    ]


def test_a_higher_quota_starts_what_waits(cluster: Path, tmp_path: Path) -> None:
    found = planned(cluster, edit(tmp_path, "nominalQuota: OWN", "nominalQuota: 10"))
    assert not found.effects.harmful
    assert "  1 waiting starts\n    team/waits" in text(found)


def test_the_same_files_change_nothing_and_hit_nobody(cluster: Path, tmp_path: Path) -> None:
    same = edit(tmp_path, "value: 5", "value: 5")
    assert text(planned(cluster, same)) == (
        "Nothing changes: the objects are there already.\n\n"
        "It hits nobody: 2 running and 1 waiting workloads go on as before."
    )


def test_a_new_value_of_a_class_is_followed(cluster: Path, tmp_path: Path) -> None:
    gold = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "gold"}
    ranked = [
        workload("runs", "4", runs=True, priority=7),
        workload("golden", "4", priority=5, priorityClassRef=gold),
    ]
    cluster.write_text(f"{QUEUES.replace('OWN', '4')}---\n{yaml.safe_dump_all(ranked)}")
    found = planned(cluster, edit(tmp_path, "value: 5", "value: 9"))
    assert plain(found)["changes"][0]["fields"] == [{"path": "value", "old": 5, "new": 9}]
    assert "  1 workload stops\n    team/runs: InClusterQueue for team/golden\n  1 waiting starts" in text(found)


def test_the_exit_code_is_that_of_a_pipeline(cluster: Path, tmp_path: Path) -> None:
    worse = edit(tmp_path, "nominalQuota: OWN", "nominalQuota: 1")
    hit = run("-f", worse, "--base", cluster, "-o", "json")
    assert hit.exit_code == 2, hit.output
    told = json.loads(hit.stdout)
    assert (told["kind"], told["worseForAnybody"], told["neverStart"]) == ("Plan", True, ["team/waits"])
    better = edit(tmp_path, "nominalQuota: OWN", "nominalQuota: 10")
    assert run("-f", better, "--base", cluster).exit_code == 0
    broken = edit(tmp_path, "cohortName: all", "cohortNome: all")
    failed = run("-f", broken, "--base", cluster)
    assert failed.exit_code == 1
    assert "cohortNome" in failed.output
    assert run("-f", better, "--base", cluster, "--from-cluster").exit_code == 2


def test_starts_that_move_are_told_with_both_times(cluster: Path, tmp_path: Path) -> None:
    line = [workload("runs", "4", runs=True), workload("x", "6", priority=1), workload("y", "6")]
    cluster.write_text(f"{QUEUES.replace('OWN', '4')}---\n{yaml.safe_dump_all(line)}")
    told = text(planned(cluster, edit(tmp_path, "nominalQuota: 2", "nominalQuota: 8")))
    assert told.endswith(
        "  1 waiting starts\n    team/x\n  1 waiting starts sooner\n    team/y: about 20 min -> about 10 min"
    )
