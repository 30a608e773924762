"""Thousands of admission calls to the whole process, its controller busy with Jobs all the while: not one fails."""

import asyncio
import ssl
from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane
from tests.app.http import Wire, get
from tests.app.test_load import call_under_load, counted
from tests.conftest import Kubectl
from tests.effort import cases
from tests.serving import serving

pytestmark = pytest.mark.cluster

CALLS, JOBS = cases(2_000, 20_000), cases(40, 100)
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: load-{number}, labels: {{kueue.x-k8s.io/queue-name: main}}}}
spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: x}}]}}}}}}
"""


async def test_calls_fail_none_while_jobs_are_created(unserved: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    with serving(unserved.kubeconfig, tmp_path) as process:
        process.ready()
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        jobs = "---\n".join(JOB.format(number=number) for number in range(JOBS))
        creating = asyncio.create_task(asyncio.to_thread(kubectl, "create", "-f", "-", stdin=jobs))
        asked, failed = await call_under_load(process.address, trust, CALLS)
        created = await creating
        async with Wire(process.address, trust) as wire:
            page = (await wire.call(get("/metrics"))).body.decode()
        assert failed == []
        assert created.stdout.count("created") == JOBS, created.stderr[:500]
        assert sum(counted(page).values()) >= asked + 2 * JOBS
        assert all('code="200"' in labels for labels in counted(page))
