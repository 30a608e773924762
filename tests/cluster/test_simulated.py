"""The same manifests in `seiretsu simulate` and on the real control plane: the same Jobs run, in the same flavors, and
the same were preempted; and `seiretsu explain` says of one that waits what its Workload's status says.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from api.objects import Raw
from cli.main import application
from tests.cluster.accounts import may, tenant
from tests.cluster.world import World, job, local_queue, ours

pytestmark = pytest.mark.cluster

AT = "seiretsu.dev/arrive-at"
HOUR = 3600.0


def queues(world: World) -> list[Raw]:
    """Two ClusterQueues of one cohort with two flavors, that reclaim and preempt, and a priority class."""
    first, second = world.namespace, f"{world.namespace}-second"
    found = [
        ours("ResourceFlavor", second, {}),
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": f"{world.namespace}-urgent"},
            "value": 100,
        },
    ]
    for name, quotas in (("a", (4, 2)), ("b", (4, 0))):
        flavors = [
            {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": quota}]}
            for flavor, quota in zip((first, second), quotas, strict=True)
        ]
        spec = {
            "cohortName": world.namespace,
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }
        queue = local_queue(name, world.full(name))
        queue["metadata"]["namespace"] = world.namespace
        found += [ours("ClusterQueue", world.full(name), spec), queue]
    return found


def jobs(world: World) -> list[Raw]:
    """Some borrow, some reclaim, one is urgent and one too many; none ends while we look."""
    urgent = {"kueue.x-k8s.io/priority-class": f"{world.namespace}-urgent"}
    asked: list[tuple[str, str, Raw]] = [(name, name[0], {}) for name in ("a1", "a2", "a3", "b1", "b2", "b3")]
    asked += [("a-urgent", "a", urgent), ("a4", "a", {})]
    found = []
    for number, (name, queue, labels) in enumerate(asked):
        made = job(name, queue, cpu=1, pods=2, seconds=HOUR, labels=labels)
        made["metadata"] |= {"namespace": world.namespace, "annotations": {AT: f"{10 * number}s"}}
        found.append(made)
    return found


def simulated(folder: Path, objects: list[Raw]) -> Raw:
    """What `seiretsu simulate -o json` says of them."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    words = ["simulate", str(folder / "all.yaml"), "-o", "json", "--until", "10m"]
    done = CliRunner().invoke(application(["simulate"]), words)
    assert done.exit_code == 0, done.stderr
    found: Raw = json.loads(done.stdout)
    return found


def told_to_run(told: Raw, at: float) -> dict[str, list[str]]:
    """The flavors by Job, at a moment of the simulation."""
    return {
        each["job"]: attempt["flavors"]
        for each in told["workloads"]
        for attempt in each["attempts"]
        if attempt["started"] <= at and (attempt["ended"] is None or at < attempt["ended"])
    }


def runs(world: World) -> dict[str, list[str]]:
    """The flavors by Job, of the Jobs that run on the control plane."""
    running = world.running()
    workloads = world.workloads()  # read later, so that it tells of all that run
    found: dict[str, list[str]] = {}
    for name in running:
        sets = workloads[name].get("status", {}).get("admission", {}).get("podSetAssignments", [])
        found[name] = sorted({flavor for pod_set in sets for flavor in pod_set["flavors"].values()})
    return found


def _runs(world: World, expected: dict[str, list[str]]) -> bool:
    return runs(world) == expected


def _is_over(second: int) -> bool:
    return time.time() >= second + 1


def preempted(world: World) -> dict[str, int]:
    """How often each Job was preempted."""
    found: dict[str, int] = {}
    for name, workload in world.workloads().items():
        evictions = workload.get("status", {}).get("schedulingStats", {}).get("evictions", [])
        count = sum(each["count"] for each in evictions if each["reason"] == "Preempted")
        found |= {name: count} if count else {}
    return found


def test_the_simulation_and_the_controller_end_in_the_same_admissions(world: World, tmp_path: Path) -> None:
    around, submitted = queues(world), jobs(world)
    told = simulated(tmp_path, [ours("ResourceFlavor", world.namespace, {}), *around, *submitted])
    world.create(*around)
    for each in submitted:
        expected = told_to_run(told, float(each["metadata"]["annotations"][AT].removesuffix("s")))
        world.create(each)
        world.until(f"{each['metadata']['name']}: {expected}", partial(_runs, world, expected))
        settled = int(time.time())  # who got quota in the same second is told apart by uids, that is by chance
        world.until("that second is over", partial(_is_over, settled))
    wanted = {each["job"]: sum("preempted" in a for a in each["attempts"]) for each in told["workloads"]}
    assert preempted(world) == {name: count for name, count in wanted.items() if count}
    assert len(preempted(world)) >= 2, "nobody was preempted: the case shows too little"

    waits = {each["job"]: each["waits"][-1] for each in told["workloads"] if each["job"] not in runs(world)}
    assert set(waits) == {"a2", "a4", "b2"}
    said = (waits["a2"]["reason"], waits["a2"]["message"])
    world.until(f"a2 is told {said}", lambda: _reason(world, "a2") == said)
    print(world.explain("a2"))
    explained = explain(world, "a2")
    assert (explained["reason"], explained["message"]) == said
    assert (explained["queuePosition"], explained["queueLength"]) == (1, 2)
    assert explained["wouldHelp"]
    assert (explained["apiVersion"], explained["kind"]) == ("cli.seiretsu.dev/v1", "Explanation")

    lost = job("lost", "nowhere", cpu=1, pods=1, seconds=1.0)
    world.create(lost)
    world.until("lost has a reason", lambda: "lost" in world.workloads() and _reason(world, "lost"))
    told_of_lost = explain(world, "lost")
    assert (told_of_lost["reason"], told_of_lost["message"]) == _reason(world, "lost")


def _reason(world: World, name: str) -> tuple[str, str] | None:
    """Reason and message of QuotaReserved, once there are any."""
    conditions = world.workloads()[name].get("status", {}).get("conditions", [])
    return next(((c["reason"], c["message"]) for c in conditions if c["type"] == "QuotaReserved"), None)


def explain(world: World, name: str) -> Raw:
    """What `seiretsu explain -o json` says of a Job on the control plane."""
    found: Raw = json.loads(world.explain(name, "-o", "json"))
    return found


def test_explain_says_that_a_job_is_not_managed_or_does_not_exist(world: World) -> None:
    plain = job("plain", "", cpu=1, pods=1, seconds=1.0)
    del plain["metadata"]["labels"]
    world.create(plain)
    for name, said in (
        ("plain", "Job plain does not wait: it names no queue (label kueue.x-k8s.io/queue-name)"),
        ("plian", f"there is no Job plian in namespace {world.namespace}: did you mean plain?"),
    ):
        words = ["explain", name, "-n", world.namespace, "--kubeconfig", str(world.plane.kubeconfig)]
        done = CliRunner().invoke(application(["explain"]), words)
        assert done.exit_code == 1
        assert said in done.stderr


def test_with_the_rights_of_one_namespace_explain_shows_what_they_allow(world: World, tmp_path: Path) -> None:
    world.queue("q", 2)
    world.job("runs", "q", cpu=2, seconds=HOUR)
    world.until("runs", lambda: world.running() == {"runs"})
    world.job("waits", "q", cpu=2, seconds=HOUR)
    world.until("an event on waits has the reason", lambda: "WaitingForQuota" in world.events("Job", "waits"))
    mine = ("-n", world.namespace)
    as_member = ("--kubeconfig", str(tenant(world.plane, world.namespace, tmp_path)), *mine)

    def explained(name: str) -> list[str]:
        words = ["explain", name, *as_member]
        done = CliRunner().invoke(application(["explain"]), words)
        assert done.exit_code == 0, done.stderr
        return done.stdout.splitlines()

    why = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        f"{world.namespace}, 2 more needed"
    )
    world.until("the role is in force", lambda: may(world.plane, "list", "jobs", *as_member))
    first, said, _, unseen, what_for = explained("waits")
    assert first == f"{world.namespace}/waits: waiting"
    assert said == f"  WaitingForQuota: Waits in ClusterQueue {world.full('q')}: {why}"
    hidden = "Your rights do not show clusterqueues, cohorts, resourceflavors and "
    assert unseen.startswith(hidden)
    assert unseen.endswith(" other kinds of objects. The role view in the whole cluster shows all of them.")
    assert (
        what_for
        == "With that right the answer has the queue position, who holds the quota, and what would let it start."
    )
    assert explained("runs")[:2] == [f"{world.namespace}/runs: admitted", "  it is not suspended"]

    kinds = "--resource=workloads,localqueues"
    world.plane.kubectl("create", "role", "sees", "--verb=get,list", kinds, *mine, check=True)
    account = f"--serviceaccount={world.namespace}:tenant"
    world.plane.kubectl("create", "rolebinding", "sees", "--role=sees", account, *mine, check=True)
    world.until("that role too", lambda: may(world.plane, "list", "workloads.kueue.x-k8s.io", *as_member))
    lines = explained("waits")
    name = world.workload("waits")["metadata"]["name"]
    assert lines[0] == f"{world.namespace}/waits (Workload {name}): waiting, priority 0"
    assert lines[1] == f"  WaitingForQuota: {why}"
    assert lines[3].startswith(hidden)


def test_a_simulation_continues_from_the_state_of_a_live_cluster(world: World, tmp_path: Path) -> None:
    world.queue("q", 2)
    world.job("runs", "q", cpu=2, seconds=HOUR)
    world.until("runs", lambda: world.running() == {"runs"})
    world.job("waits", "q", cpu=2, seconds=HOUR)
    world.until("waits has a Workload", lambda: "waits" in world.workloads())
    later = job("later", "q", cpu=2, pods=1, seconds=HOUR)
    later["metadata"] |= {"namespace": world.namespace, "annotations": {AT: "10s", "seiretsu.dev/run-for": "30s"}}
    (tmp_path / "later.yaml").write_text(yaml.safe_dump(later))
    words = ["simulate", str(tmp_path / "later.yaml"), "--from-cluster", "--run-for", "100s", "-o", "json"]
    done = CliRunner().invoke(application(["simulate"]), [*words, "--kubeconfig", str(world.plane.kubeconfig)])
    assert done.exit_code == 0, done.stderr
    mine = [each for each in json.loads(done.stdout)["workloads"] if each["namespace"] == world.namespace]
    assert {each["job"]: each["waited"] for each in mine} == {"runs": 0, "waits": 100, "later": 190}
