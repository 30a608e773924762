"""The list of writes is complete: a new one in the code must say whether the leader is killed there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.faults import Request
from tests.write_points import POINTS, SITES

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


def test_every_point_is_written_somewhere_and_every_site_names_points() -> None:
    named = {point for points in SITES.values() if not isinstance(points, str) for point in points}
    assert named == set(POINTS)


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
