"""A cluster that does not serve all kinds, as one with Kueue's own CRDs: what is absent holds up nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import crds
from api.kinds import KINDS
from api.names import Kind
from devcluster.controlplane import ControlPlane, Spec
from tests.eventually import WAIT, eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

QUEUES = "queues.kueue.x-k8s.io"
NEEDED = ("clusterqueues", "localqueues", "resourceflavors", "workloads")


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane with those definitions alone without which nothing can be decided, and no webhooks."""
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        for kind in KINDS:
            if kind.plural in NEEDED:
                started.kubectl("create", "-f", "-", stdin=json.dumps(crds.definition(kind, None)), check=True)
        yield started


async def test_serve_is_ready_without_the_optional_kinds_and_uses_one_that_appears(
    plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("leaderElection: {leaderElect: false}\n")
    words = ("--config", str(tmp_path / "config.yaml"), "--lame-duck", "0")
    with serving(plane.kubeconfig, tmp_path, *words, install=False) as process:
        process.ready()
        absent = [event["resource"] for event in process.events if event["event"] == "not served yet: used when it is"]
        assert sorted(absent) == [
            "admissionchecks",
            "cohorts",
            "multikueueclusters",
            "multikueueconfigs",
            "provisioningrequestconfigs",
            "provisioningrequests",
            "queues",
            "topologies",
            "workloadpriorityclasses",
        ]
        of_v01 = next(kind for kind in KINDS if kind.kind == Kind.QUEUE)
        plane.kubectl("create", "-f", "-", stdin=json.dumps(crds.definition(of_v01, None)), check=True)
        plane.kubectl(*WAIT, "--for=condition=Established", f"crd/{QUEUES}", check=True)
        queue = {
            "apiVersion": "kueue.x-k8s.io/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": "old", "namespace": "default"},
            "spec": {"clusterQueue": "all"},
        }
        await eventually(lambda: plane.kubectl("apply", "-f", "-", stdin=json.dumps(queue)).returncode == 0)
        await eventually(lambda: plane.kubectl("get", "localqueue", "old", "-n", "default").returncode == 0)
        assert process.logged("served now")["resource"] == "queues"
        assert process.stop() == 0
