"""The contention bench on the real control plane, with a small share of its load."""

from __future__ import annotations

import os
from typing import Any

import pytest

from bench.contention import contend
from bench.load import LOADS
from devcluster.controlplane import ControlPlane
from tests.serving import Served

pytestmark = pytest.mark.cluster
LIMIT_SECONDS = 240.0


@pytest.mark.parametrize("name", ("baseline", "jobs"))
async def test_a_short_run_ends_with_every_workload_finished(name: str, cluster: ControlPlane, served: Served) -> None:
    load = LOADS[name]._replace(cohorts=1, queues=3).share(0.05)
    pids = {"controller": served.process.pid, "bench": os.getpid()}
    published: list[tuple[dict[str, Any], bool]] = []

    def publish(figures: dict[str, Any]) -> None:
        queues = cluster.kubectl("get", "clusterqueues", "-o", "name", check=True).stdout
        published.append((figures, f"{load.name}-0-0" in queues))

    figures = await contend(cluster.kubeconfig, load, pids, LIMIT_SECONDS, publish=publish)
    assert published == [(figures, True)]  # a run that is ended while its objects are removed has its figures
    assert figures["broken"] == []
    assert figures["finished"] == load.workloads == sum(one["calls"] for one in figures["admission ms"].values())
    assert load.cpu_seconds / (load.quota * figures["wall seconds"]) <= figures["mean use of quota"] <= 1
    for times in figures["job ms"].values():
        assert times["calls"] == load.workloads
    written = "jobs" if load.jobs else "workloads"
    assert figures["requests of the bench"][f"POST {written}"] == load.workloads
    statuses = [made for name, made in figures["writes"].items() if name.endswith(" workloads/status")]
    assert sum(statuses) >= load.workloads  # each was admitted by the controller
    assert figures["writes a workload"] >= 1
    assert min(figures["cpu seconds"].values()) > 0
    assert min(figures["peak MiB"].values()) > 0
