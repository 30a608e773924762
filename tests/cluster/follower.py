"""`seiretsu serve` that answers every call and reconciles nothing, because the test holds the lease."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.controlplane import ControlPlane
from tests.serving import Served, serving

_CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: true, resourceName: held, leaseDuration: 3h, renewDeadline: 2h, retryPeriod: 1h}
"""
_LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "held", "namespace": "kueue-system"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 10800, "renewTime": "2026-01-01T00:00:00.000000Z"},
}


@contextmanager
def follower(plane: ControlPlane, directory: Path, more: str = "") -> Iterator[Served]:
    """The process; what is on the API server is then what the test and its webhooks made it.

    ``more`` is what its Configuration says besides.
    """
    configuration = directory / "config.yaml"
    configuration.write_text(_CONFIGURATION + more)
    plane.kubectl("create", "namespace", "kueue-system", check=True)
    plane.kubectl("create", "-f", "-", stdin=json.dumps(_LEASE), check=True)
    with serving(plane.kubeconfig, directory, "--config", str(configuration)) as process:
        yield process
