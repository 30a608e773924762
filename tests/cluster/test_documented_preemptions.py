"""The figures of seed 1 (001_b88501315101a50e.txt, lines 196-314): which Job is preempted for which, row by row.

The article gives its figures as formulas; the rows below are the quotas and requests that follow from them. All rows
run together, each in two separate ClusterQueues and a separate cohort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from api.objects import Raw
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, local_queue, ours
from tests.serving import Served

pytestmark = pytest.mark.cluster

NAMESPACE = "seed-figures"
FLAVOR = "seed-figures"
WITHIN = {"withinClusterQueue": "LowerPriority"}
RECLAIM = {"reclaimWithinCohort": "LowerPriority"}
BORROW = {**RECLAIM, "borrowWithinCohort": {"policy": "LowerPriority"}}
THRESHOLD = {**RECLAIM, "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 0}}
PRIORITIES = {"low": 1, "high": 100}


@dataclass(frozen=True)
class Row:
    """Quota of `cluster-queue` (a) and `cohort-queue` (b), where job-0 and job-1 are and what all ask for, in
    thousandths of a cpu; ``preempted`` is the reason of job-1's preemption, '' if it is not preempted; ``lacking`` is
    the missing quota in job-2's message then.
    """

    id: str
    quotas: tuple[int, int]
    job_0: tuple[str, int]
    job_1: tuple[str, int]
    job_2: int
    policy: Raw = field(default_factory=dict)
    preempted: str = ""
    lacking: str = ""


ROWS = [
    Row("W1", (500, 200), ("a", 200), ("a", 300), 500, WITHIN, preempted="InClusterQueue"),
    Row("W2", (500, 200), ("b", 200), ("a", 500), 500, WITHIN, preempted="InClusterQueue"),
    Row("W3", (500, 200), ("a", 200), ("b", 500), 500, WITHIN, lacking="500m more needed"),
    Row("W4", (400, 200), ("b", 200), ("a", 400), 500, WITHIN, lacking="500m more needed"),
    Row("W5", (200, 500), ("b", 200), ("a", 500), 500, WITHIN, lacking="500m more needed"),
    Row("R1", (500, 200), ("a", 200), ("b", 500), 200, RECLAIM, preempted="InCohortReclamation"),
    Row("R2", (500, 200), ("b", 200), ("a", 500), 200, RECLAIM, lacking="200m more needed"),
    Row("R3", (500, 200), ("a", 200), ("b", 500), 500, RECLAIM, lacking="500m more needed"),
    Row("B1", (500, 200), ("a", 200), ("b", 500), 500, BORROW, preempted="InCohortReclaimWhileBorrowing"),
    Row("B2", (400, 300), ("a", 200), ("b", 500), 500, BORROW, preempted="InCohortReclaimWhileBorrowing"),
    Row("B2-by-reclaim-alone", (400, 300), ("a", 200), ("b", 500), 500, RECLAIM, lacking="500m more needed"),
    Row("B3", (500, 500), ("a", 200), ("b", 500), 500, BORROW, lacking="200m more needed"),
    Row("B-thr", (500, 200), ("a", 200), ("b", 500), 500, THRESHOLD, lacking="500m more needed"),
]


def queues(row: Row) -> Iterator[Raw]:
    for which, quota in zip("ab", row.quotas, strict=True):
        covered = {"name": FLAVOR, "resources": [{"name": "cpu", "nominalQuota": f"{quota}m"}]}
        spec = {
            "namespaceSelector": {},
            "cohortName": named(row, "cohort"),
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [covered]}],
            "preemption": row.policy if which == "a" else {},
        }
        yield ours("ClusterQueue", named(row, which), spec)
        yield local_queue(named(row, which), named(row, which))


def named(row: Row, part: str) -> str:
    return f"seed-{row.id.lower()}-{part}"


def job(row: Row, number: int) -> Raw:
    which, cpu = {0: row.job_0, 1: row.job_1, 2: ("a", row.job_2)}[number]
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    labels = {
        "kueue.x-k8s.io/queue-name": named(row, which),
        "kueue.x-k8s.io/priority-class": "seed-low" if number == 1 else "seed-high",
    }
    template = {
        "metadata": {"annotations": {"seiretsu.dev/run-for": "3600s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": named(row, f"job-{number}"), "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


@pytest.fixture(scope="module")
def played(cluster: ControlPlane, served: Served) -> Iterator[World]:
    """All rows after job-0, job-1 and job-2 were made, in that order, and job-2's fate is known."""
    world = World(cluster, NAMESPACE)
    cluster.kubectl("create", "namespace", NAMESPACE, check=True)
    classes = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    create(
        world,
        ours("ResourceFlavor", FLAVOR, {}),
        *({**classes, "metadata": {"name": f"seed-{name}"}, "value": value} for name, value in PRIORITIES.items()),
        *(made for row in ROWS for made in queues(row)),
    )
    for number in (0, 1):
        create(world, *(job(row, number) for row in ROWS))
        made = {named(row, f"job-{number}") for row in ROWS}
        world.until(f"every job-{number} runs", lambda made=made: made <= world.running())  # type: ignore[misc]
    create(world, *(job(row, 2) for row in ROWS))
    winners = {named(row, "job-2") for row in ROWS if row.preempted}
    world.until("every job-2 that may preempt runs", lambda: winners <= world.running())
    world.until(
        "every other Workload has its reason", lambda: all(told(world, row) for row in ROWS if not row.preempted)
    )
    yield world
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false", check=True)


def create(world: World, *objects: Raw) -> None:
    world.create({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def conditions(world: World, row: Row, number: int) -> dict[str, Raw]:
    workload = world.workloads().get(named(row, f"job-{number}"), {})
    return {found["type"]: found for found in workload.get("status", {}).get("conditions", [])}


def told(world: World, row: Row) -> str:
    """The reason why job-2 waits; '' while its status has none."""
    found = conditions(world, row, 2).get("QuotaReserved", {})
    return str(found.get("message", "")) if found.get("status") == "False" else ""


@pytest.mark.parametrize("row", [row for row in ROWS if row.id != "R3"], ids=lambda row: row.id)
def test_seed_1_figures_who_is_preempted(played: World, row: Row) -> None:
    running = played.running()
    job_1 = conditions(played, row, 1)
    if row.preempted:
        assert named(row, "job-1") not in running
        assert (job_1["Preempted"]["status"], job_1["Preempted"]["reason"]) == ("True", row.preempted)
        assert job_1["Evicted"]["reason"] == "Preempted"
        assert named(row, "job-2") in running
    else:
        assert "Preempted" not in job_1
        assert {named(row, "job-0"), named(row, "job-1")} <= running
        assert row.lacking in told(played, row)
        assert conditions(played, row, 2)["QuotaReserved"]["reason"] == "WaitingForQuota"


def test_seed_1_figure_r3_who_is_preempted_late_has_lost_its_progress(played: World) -> None:
    """Not when job-2 comes, for 0 + 300m < 500m, but when job-0 ends: 200m + 300m is enough."""
    (row,) = (row for row in ROWS if row.id == "R3")
    assert "Preempted" not in conditions(played, row, 1)
    assert row.lacking in told(played, row)
    pods = [found["metadata"]["name"] for found in played.get("pods")["items"]]
    (name,) = (name for name in pods if name.startswith(named(row, "job-0")))
    ended = ("patch", "pod", name, "-n", NAMESPACE, "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
    played.plane.kubectl(*ended, check=True)
    played.until("job-2 runs", lambda: named(row, "job-2") in played.running())
    assert conditions(played, row, 1)["Preempted"]["reason"] == "InCohortReclamation"
    assert named(row, "job-1") not in played.running()
