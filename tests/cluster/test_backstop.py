"""With no app at all, the policies in the API server keep queued Jobs waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.names import Label
from core.model import Raw
from devcluster.controlplane import ControlPlane, Spec
from tests.eventually import eventually
from webhook.backstop import BY_HAND, policies
from webhook.configurations import Options

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        items = {"apiVersion": "v1", "kind": "List", "items": policies(Options())}
        started.kubectl("apply", "-f", "-", stdin=json.dumps(items), check=True)
        # The API server learns of policies a moment after it has stored them.
        asyncio.run(eventually(lambda: create(started, "probe", dry_run=True)["spec"]["suspend"], within=30))
        yield started


def create(
    plane: ControlPlane, name: str, *, queue: str = "main", namespace: str = "default", dry_run: bool = False
) -> Raw:
    labels = {Label.QUEUE_NAME: queue} if queue else {}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
    arguments = ["--dry-run=server"] if dry_run else []
    done = plane.kubectl("create", "-f", "-", "-o", "json", *arguments, stdin=json.dumps(raw), check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_queued_job_starts_suspended_and_nothing_else_does(plane: ControlPlane) -> None:
    assert create(plane, "queued", dry_run=True)["spec"]["suspend"] is True
    assert create(plane, "plain", queue="", dry_run=True)["spec"]["suspend"] is False
    assert create(plane, "system", namespace="kube-system", dry_run=True)["spec"]["suspend"] is False


def test_nobody_but_us_starts_it(plane: ControlPlane) -> None:
    create(plane, "waits")
    patch = ("patch", "job", "waits", "-p", '{"spec":{"suspend":false}}')
    refused = plane.kubectl(*patch)
    assert refused.returncode == 1
    assert BY_HAND in refused.stderr
    assert plane.kubectl("annotate", "job", "waits", "note=x").returncode == 0
    assert plane.kubectl(*patch, "--field-manager=seiretsu").returncode == 0
