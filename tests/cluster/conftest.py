"""What tests of the whole path share: a process that serves the session's control plane, and a world a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.serving import Served, serving


@pytest.fixture(scope="module")
def served(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`seiretsu serve --install` on the session's control plane, ready."""
    with serving(cluster.kubeconfig, Path(tmp_path_factory.mktemp("certs"))) as process:
        process.ready()
        yield process


@pytest.fixture
def world(cluster: ControlPlane, served: Served, namespace: str) -> World:
    """A namespace with a flavor, and no queues yet."""
    made = World(cluster, namespace)
    made.flavor()
    return made
