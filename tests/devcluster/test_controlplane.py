"""A control plane of one's own: apart from others, steadfast through its API server's absence, gone with its owner."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import processes
from devcluster.components import Layout
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster

_ROOT = Path(__file__).parent.parent.parent


def _gone(records: tuple[processes.Record, ...]) -> bool:
    return not any(record.alive() for record in records)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane without nodes, for tests that stop parts of it."""
    with ControlPlane.start(tmp_path / "bare", Spec(nodes=())) as plane:
        yield plane


def test_two_side_by_side_do_not_meet(cluster: ControlPlane, bare: ControlPlane) -> None:
    bare.kubectl("create", "namespace", "only-here", check=True)
    there = cluster.kubectl("get", "namespace", "only-here")
    assert there.returncode == 1
    assert "NotFound" in there.stderr
    assert set(vars_of(cluster)).isdisjoint(vars_of(bare))


def vars_of(plane: ControlPlane) -> tuple[int, int, int]:
    """The ports of a control plane."""
    return plane.ports.etcd, plane.ports.etcd_peer, plane.ports.apiserver


def test_the_api_server_comes_back_with_its_data(bare: ControlPlane) -> None:
    bare.kubectl("create", "namespace", "kept", check=True)
    bare.stop_apiserver()
    assert "refused" in bare.kubectl("get", "namespaces").stderr
    bare.start_apiserver()
    bare.kubectl("get", "namespace", "kept", check=True)
    bare.kill_apiserver()
    bare.start_apiserver()
    bare.kubectl("get", "namespace", "kept", check=True)


def test_a_paused_api_server_answers_nothing_until_resumed(bare: ControlPlane) -> None:
    bare.pause()
    silent = bare.kubectl("get", "namespaces", "--request-timeout=500ms")
    bare.resume()
    assert silent.returncode == 1
    bare.kubectl("get", "namespaces", check=True)


def test_versions_are_those_of_the_pinned_sources(cluster: ControlPlane) -> None:
    from devcluster import tools

    version = tools.module_versions(tools.CONTROL_PLANE.directory)["k8s.io/kubernetes"]
    said = cluster.kubectl("version", check=True).stdout
    assert f"Client Version: {version}" in said
    assert f"Server Version: {version}" in said


def test_leaving_stops_every_process_and_removes_the_directory(tmp_path: Path) -> None:
    with ControlPlane.start(tmp_path / "plane", Spec(nodes=())) as plane:
        records = processes.recorded(plane.layout.records)
        assert not _gone(records)
    assert _gone(records)
    assert not (tmp_path / "plane").exists()


def test_a_control_plane_ends_with_its_owner_even_if_that_is_killed(tmp_path: Path) -> None:
    directory = tmp_path / "orphan"
    code = (
        "import pathlib, sys; from devcluster.controlplane import ControlPlane, Spec; "
        f"plane = ControlPlane.start(pathlib.Path({str(directory)!r}), Spec(nodes=())); "
        "print('up', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        records = processes.recorded(Layout(directory).records)
        pidfds = [os.pidfd_open(record.pid) for record in records]
        owner.kill()
    with contextlib.ExitStack() as stack:
        import select

        for pidfd in pidfds:
            stack.callback(os.close, pidfd)
            assert select.select([pidfd], [], [], PATIENCE)[0], "a component outlived its owner"
    assert _gone(records)


def test_a_component_that_does_not_start_is_explained_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "assets"
    broken.mkdir()
    (broken / "etcd").write_text("#!/bin/sh\necho no disk today >&2\nexit 3\n")
    (broken / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(broken))
    with pytest.raises(ClusterError, match=r"etcd ended while starting \(exit 3\).*\nno disk today"):
        ControlPlane.start(tmp_path / "plane", Spec(nodes=()))
    assert not (tmp_path / "plane").exists()


def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path) -> None:
    environ = _cache(tmp_path)
    starting = subprocess.Popen(
        [sys.executable, "-c", _HEARING_CTRL_C, "cluster", "up", "--name", "brief"], cwd=_ROOT, env=environ
    )
    directory = tmp_path / "seiretsu" / "clusters" / "brief"
    records = _first_records(directory, starting)
    starting.send_signal(signal.SIGINT)
    assert starting.wait(timeout=PATIENCE) == 130
    assert _gone(records)
    assert not directory.exists()


# a shell that starts the tests in the background has its children ignore Ctrl-C, and theirs
_HEARING_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cli.main import main
main()
"""


def _first_records(directory: Path, starting: subprocess.Popen[bytes]) -> tuple[processes.Record, ...]:
    """The records of a cluster as soon as it has one."""
    while not (records := processes.recorded(Layout(directory).records)):
        assert starting.poll() is None
    return records


def _cache(tmp_path: Path) -> dict[str, str]:
    """An environment with separate clusters and the shared programs."""
    from devcluster import build

    programs = build.ensure("etcd")["etcd"].parent
    return os.environ | {"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(programs)}
