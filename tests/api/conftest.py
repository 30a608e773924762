"""One control plane with our CRDs for all tests of the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.controlplane import ControlPlane, Spec
from tests.api.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The API server with our CRDs and without our webhooks."""
    with ControlPlane.start(spec=Spec(name="api", nodes=())) as plane:
        made = Server(plane)
        made.install()
        yield made
        made.close()
