"""The list of writes is complete: a new one in the code must say whether the leader is killed there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from core.multikueue import here
from core.multikueue.hopeless import NO_WORKER
from tests.faults import Request
from tests.write_points import DECIDED, HERE, MANAGER_POINTS, POINTS, SITES, THERE, TOPOLOGY_POINTS, WORKER_POINTS

ROOT = Path(__file__).parents[1]
VERBS = ("create", "patch", "update", "delete")


def sites(path: Path) -> Iterator[str]:
    """The functions of a module that await a call of a writer or a client."""

    def visit(node: ast.AST, within: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = (*within, node.name)
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and called.attr in VERBS:
                yield f"{path.relative_to(ROOT)}:{'.'.join(within)}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, within)

    return visit(ast.parse(path.read_text()), ())


def test_every_write_of_the_controller_is_listed() -> None:
    found = {site for path in sorted((ROOT / "controller").rglob("*.py")) for site in sites(path)}
    assert found == set(SITES)


def deciders() -> Iterator[str]:
    """The modules that make actions which write; others only look at them."""
    for path in [*sorted((ROOT / "core").rglob("*.py")), ROOT / "controller/cache/checks.py"]:
        imports = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        taken = {each.name for node in imports if node.module == "core.actions" for each in node.names}
        if taken & {"Patch", "Create", "Delete", "Writes", "status"} and "simulation" not in path.parts:
            yield str(path.relative_to(ROOT))


def test_every_module_that_decides_writes_is_listed() -> None:
    assert set(deciders()) == set(DECIDED)


def test_every_point_is_written_somewhere_and_every_site_names_points() -> None:
    named = {point for points in SITES.values() if not isinstance(points, str) for point in points}
    assert named == {*POINTS, *TOPOLOGY_POINTS, *MANAGER_POINTS, *WORKER_POINTS}


def test_every_decision_of_multikueue_has_its_write_points() -> None:
    assert set(HERE) == set(get_args(here.Why))
    tree = ast.parse((ROOT / "core/multikueue/there.py").read_text())
    words = (node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "why")
    assert set(THERE) == {node.value.value for node in words if isinstance(node.value, ast.Constant)}


def conditions(**given: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": kind, "status": value} for kind, value in given.items()]}}


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
JOB = "/apis/batch/v1/namespaces/team/jobs/a"
CASES = {
    "create the Workload": ("POST", WORKLOADS, {}),
    "reserve": ("PUT", f"{WORKLOADS}/a/status", conditions(QuotaReserved="True")),
    "admit": ("PUT", f"{WORKLOADS}/a/status", conditions(QuotaReserved="True", Admitted="True", Evicted="False")),
    "say why it waits": ("PATCH", f"{WORKLOADS}/a/status", conditions(QuotaReserved="False")),
    "evict": ("PATCH", f"{WORKLOADS}/a/status", conditions(QuotaReserved="True", Admitted="True", Evicted="True")),
    "release": ("PATCH", f"{WORKLOADS}/a/status", conditions(QuotaReserved="False", Evicted="True")),
    "finish": ("PATCH", f"{WORKLOADS}/a/status", conditions(QuotaReserved="True", Finished="True")),
    "remove the finalizer": ("PATCH", f"{WORKLOADS}/a", {"metadata": {"finalizers": None}}),
    "delete the Workload": ("DELETE", f"{WORKLOADS}/a", {}),
    "unsuspend": ("PATCH", JOB, {"spec": {"suspend": False}}),
    "suspend": ("PATCH", JOB, {"spec": {"suspend": True}}),
    "reset the status of the Job": ("PATCH", f"{JOB}/status", {"status": {"startTime": None}}),
    "lease": ("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/rollout", {}),
}


@pytest.mark.parametrize("point", CASES)
def test_a_request_is_recognized_as_its_point_and_no_other(point: str) -> None:
    method, path, body = CASES[point]
    request = Request(method, path, {}, {}, orjson.dumps(body), path)
    assert [name for name, matches in POINTS.items() if matches(request, body)] == [point]


ADMITTED = conditions(QuotaReserved="True", Admitted="True")["status"]
POD = "/api/v1/namespaces/team/pods/a"
EVICTED = {
    "conditions": [
        {"type": "QuotaReserved", "status": "True"},
        {"type": "Evicted", "status": "True", "reason": "NodeFailures"},
    ]
}
UNHEALTHY = {"status": {**ADMITTED, "unhealthyNodes": [{"name": "n"}]}}  # type: ignore[dict-item]
OF_TOPOLOGY: Mapping[str, tuple[str, str, Any]] = {
    "fence a pod": ("PATCH", POD, {"metadata": {"annotations": {"seiretsu.dev/placement-fence": "7"}}}),
    "give a pod its domain": ("PATCH", POD, {"spec": {"schedulingGates": None, "nodeSelector": {"rack": "a"}}}),
    "report a failed node": ("PUT", f"{WORKLOADS}/a/status", UNHEALTHY),
    "end a pod that waits for its node": ("PATCH", f"{POD}/status", {"status": {"phase": "Failed"}}),
    "place in a second pass": ("PUT", f"{WORKLOADS}/a/status", {"status": ADMITTED}),
    "evict because of failed nodes": (
        "PATCH",
        f"{WORKLOADS}/a/status",
        {"status": {**EVICTED, "unhealthyNodes": [{"name": "n"}]}},
    ),
}


@pytest.mark.parametrize("point", TOPOLOGY_POINTS)
def test_a_request_of_topologies_is_recognized_as_its_point_and_no_other(point: str) -> None:
    method, path, body = OF_TOPOLOGY[point]
    request = Request(method, path, {}, {}, orjson.dumps(body), path)
    assert [name for name, matches in TOPOLOGY_POINTS.items() if matches(request, body)] == [point]


def checked(state: str, message: str = "", **more: object) -> dict[str, Any]:
    found = conditions(QuotaReserved="True", Admitted=str(state == "Ready"))
    found["status"] = {**found["status"], "admissionChecks": [{"state": state, "message": message}], **more}  # type: ignore[dict-item]
    return found


STATUS = f"{WORKLOADS}/a/status"
OF_MANAGER = {
    "nominate": ("PUT", STATUS, checked("Pending", nominatedClusterNames=["w"])),
    "choose the worker": ("PUT", STATUS, checked("Ready", clusterName="w")),
    "report that no worker can take it": ("PUT", STATUS, checked("Pending", f"{NO_WORKER}: x")),
    "reject": ("PUT", STATUS, checked("Rejected")),
    "queue it again": ("PUT", STATUS, checked("Retry", clusterName="w")),
    "copy the status of the job": ("PATCH", f"{JOB}/status", {"status": {"active": 1}}),
    "finish as in the worker": ("PUT", STATUS, conditions(Finished="True")),
    "status of a MultiKueueCluster": ("PATCH", "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters/a/status", {}),
    "status of an AdmissionCheck of MultiKueue": ("PATCH", "/apis/kueue.x-k8s.io/v1beta2/admissionchecks/a/status", {}),
}
OF_WORKER = {
    "create the copy": ("POST", WORKLOADS, {}),
    "create the job": ("POST", JOB.rpartition("/")[0], {}),
    "deactivate the copy": ("PUT", STATUS, conditions(DeactivationTarget="True")),
    "change the priority of the copy": ("PATCH", f"{WORKLOADS}/a", {"spec": {"priority": 7}}),
    "shrink the copy": ("PATCH", f"{WORKLOADS}/a", {"spec": {"podSets": [{"name": "main", "count": 1}]}}),
    "open the preemption gate": ("PATCH", STATUS, {"status": {"preemptionGates": [{"name": "g", "position": "Open"}]}}),
    "change the job": ("PATCH", JOB, {"spec": {"parallelism": 2}}),
    "delete the job": ("DELETE", JOB, {}),
    "release the copy": ("PATCH", f"{WORKLOADS}/a", {"metadata": {"finalizers": None}}),
    "delete the copy": ("DELETE", f"{WORKLOADS}/a", {}),
}


@pytest.mark.parametrize("point", [*OF_MANAGER, *OF_WORKER])
def test_a_request_of_multikueue_is_recognized_as_its_point_and_no_other(point: str) -> None:
    cases, points = (OF_MANAGER, MANAGER_POINTS) if point in OF_MANAGER else (OF_WORKER, WORKER_POINTS)
    method, path, body = cases[point]
    request = Request(method, path, {}, {}, orjson.dumps(body), path)
    assert [name for name, matches in points.items() if matches(request, body)] == [point]


def test_each_point_of_multikueue_has_a_case() -> None:
    assert (set(OF_MANAGER), set(OF_WORKER)) == (set(MANAGER_POINTS), set(WORKER_POINTS))
