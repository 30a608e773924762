"""What tests of the whole path share: one control plane, one `seiretsu serve` in its default configuration, and a
World for each test.

Tests that kill nothing and configure nothing take `world` or `served`. Tests that start a `seiretsu serve` with other
options on the session's control plane take `unserved`: two of them would compete for the Lease.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.guard.judge import ENDED
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.serving import Served, Service


@pytest.fixture(scope="session")
def service(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`seiretsu serve --install` on the session's control plane; it runs from the first test that asks for it."""
    made = Service(cluster, tmp_path_factory.mktemp("certs"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def served(service: Service) -> Served:
    """The session's `seiretsu serve`, ready."""
    return service.ready()


@pytest.fixture(scope="module")
def unserved(cluster: ControlPlane, service: Service) -> ControlPlane:
    """The session's control plane, on which no `seiretsu serve` runs."""
    service.kill()
    return cluster


@pytest.fixture(autouse=True)
def guarded(request: pytest.FixtureRequest) -> Iterator[None]:
    """The guard finds no pod without quota in the test's namespace, whatever happens to its jobs; tests that bring such
    pods about have the mark ``exceeds``.
    """
    names = request.fixturenames
    if request.node.get_closest_marker("exceeds") or not {"served", "world"} <= {*names}:
        yield
        return
    world, served = request.getfixturevalue("world"), request.getfixturevalue("served")
    before = len(served.log)
    yield
    account = f'"account":"{world.namespace}/'
    found = [line for line in served.log[before:] if "pods run without quota" in line and account in line]
    lines = [line for line in found if '"repeated":' not in line]  # those say later what an earlier test brought about
    # How soon the pods of a job that has ended are gone is up to its operator and the nodes: to the machine's speed.
    lines = [line for line in lines if ENDED not in line]
    assert not lines, f"the guard found pods without quota: {lines[:3]}"


@pytest.fixture
def world(cluster: ControlPlane, served: Served, namespace: str) -> World:
    """A namespace with a flavor, and no queues yet."""
    made = World(cluster, namespace)
    made.flavor()
    return made
