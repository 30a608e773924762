"""What holds for every test: generated cases are the same on every run, and a busy machine fails none of them.

And the real control plane: one for the whole session, a fresh namespace for each test that asks for one. Tests that use
it carry `@pytest.mark.cluster`. The first run builds its programs, which is printed as it goes on.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.effort import LONG, cases
from tests.eventually import PATIENCE, until

if TYPE_CHECKING:
    from devcluster.controlplane import ControlPlane
    from tests.faults import FaultProxy
    from tests.standin import StandIn

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=cases(50, 1_000))
settings.load_profile("suite")


# Hundreds of programs are started: those in Go collect garbage less often, those in Python are compiled once. An API
# server with the definitions of all kinds of jobs keeps 500 MiB: with a limit of 700 MiB it collected all the time.
os.environ.setdefault("GOGC", "400")
os.environ.setdefault("GOMEMLIMIT", "2GiB")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # and so are the tests, with their assertions, which take as long as all imports
gc.disable()  # until all tests are collected: what is made until then stays until the end


collect_ignore = [] if LONG else ["cluster/test_cert_manager.py", "cluster/test_multikueue_operators.py"]
"""Only in `make test-long`: what they need takes minutes to build or to start."""

SECOND_TRY = "SEIRETSU_SECOND_TRY" in os.environ
FAILED = pytest.StashKey[frozenset[str]]()
"""What failed at the first try: tests, and files that could not be imported."""
LONGEST = (
    *("kinds_life", "topology_crash", "chart", "scenarios", "serve", "rollout", "crash", "pods"),
    *("multikueue", "demo", "documented_manifests", "life", "life_of_queues"),
)
"""The modules in tests/cluster that take longest. The last modules should be short: few others run beside them."""
LATE = frozenset({"test_topology_kinds.py"})
"""Modules that wait for the lock of operators (``alone``) which another one, the longest of all, takes at once."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts modules on a control plane of their own first, then those on the session's, then the others, and of each the
    longest first: workers that share the files end together, and no control plane of a session is there, idle, while
    the first ones run. What would wait for the first module's operators comes after those on the session's.

    At the second try of `.ci/run` only what failed is run: a test marked ``of_its_file`` with all tests of its file.
    """
    if SECOND_TRY and config.cache is not None:
        failed = config.stash[FAILED] = frozenset(config.cache.get("cache/lastfailed", {}))
        again = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & failed]
        whole = {item.path for item in again if item.get_closest_marker("of_its_file")}
        items[:] = [item for item in items if item in again or item.path in whole]
    order = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    real = {item.path for item in items if item.get_closest_marker("cluster")}
    shared = {item.path for item in items if "cluster" in getattr(item, "fixturenames", ())}

    def place(item: pytest.Item) -> tuple[bool, bool, bool, int]:
        name = item.path.name
        return item.path not in real, name in LATE, item.path in shared, order.get(name, len(order))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Leaves the collected tests, two million objects, out of all later collections: each took a tenth of a second."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints each test that failed at first and passes at the second try of `.ci/run`: no flaky test is hidden."""
    if SECOND_TRY:
        for report in terminalreporter.getreports("passed"):
            if report.when == "call" and report.nodeid in terminalreporter.config.stash[FAILED]:
                terminalreporter.write_line(f"FLAKY {report.nodeid} failed at first and passed at the second try")


Kubectl = Callable[..., subprocess.CompletedProcess[str]]
"""`kubectl(*arguments, stdin=None, check=False, timeout=2 * PATIENCE)`, in the test's own namespace."""


@pytest.fixture
def server() -> StandIn:
    """A stand-in for an API server, empty."""
    from tests.standin import StandIn

    return StandIn()


@pytest.fixture
async def proxy(server: StandIn) -> AsyncIterator[FaultProxy]:
    """The way to ``server``, on which faults can be injected."""
    from tests.faults import FaultProxy

    async with FaultProxy(server) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with four nodes of 16 cpu and 64Gi; it ends with the test session, whatever ends that."""
    from devcluster.controlplane import ControlPlane

    def report(sentence: str) -> None:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print(sentence, flush=True)

    with ControlPlane.start(report=report) as plane:
        yield plane


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a namespace of the test's own, ready to take pods; removed afterwards without waiting for it."""
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": f"{slug}-"}}
    status, answer = cluster.administrator.request("POST", "/api/v1/namespaces", made)
    assert status == 201, answer
    name = str(json.loads(answer)["metadata"]["name"])
    path = f"/api/v1/namespaces/{name}"
    until(lambda: cluster.administrator.get(f"{path}/serviceaccounts/default"), "the namespace has a service account")
    yield name
    cluster.administrator.request("DELETE", path)


@pytest.fixture
def kubectl(cluster: ControlPlane, namespace: str) -> Kubectl:
    """Real kubectl as the administrator, in the test's namespace unless its arguments name another."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        options.setdefault("timeout", 2 * PATIENCE)  # more than `kubectl wait` gets, which reports what it waited for
        return cluster.kubectl("--namespace", namespace, *arguments, **options)  # type: ignore[arg-type]

    return run
