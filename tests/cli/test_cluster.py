"""`seiretsu cluster` as a person types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.cluster import program
from cli.main import main
from devcluster import build, processes, tools
from devcluster.components import Layout
from tests.eventually import PATIENCE

_ROOT = Path(__file__).parent.parent.parent

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def seiretsu(tmp_path: Path) -> Run:
    """The command line with a separate cache: it has no clusters, but the shared programs if they are built."""
    etcd = tools.find("etcd")
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "200", "NO_COLOR": "1"}
    if etcd:
        environ["KUBEBUILDER_ASSETS"] = str(etcd.parent)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli.main", *words]
        return subprocess.run(
            command, cwd=_ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    return run


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same in this process: to start one costs two seconds of CPU."""
    for name, value in {"XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "200", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["seiretsu", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(words, ended.value.code, printed.out, printed.err)

    return run


@pytest.mark.cluster
def test_up_list_kubeconfig_and_down(seiretsu: Run, tmp_path: Path) -> None:
    build.ensure("etcd")
    up = seiretsu("cluster", "up", "--name", "one", "--nodes", "2", "--node-cpu", "3", "--node-memory", "5Gi")
    assert up.returncode == 0, up.stderr
    kubeconfig = seiretsu("cluster", "kubeconfig", "--name", "one").stdout.strip()
    line = up.stdout.splitlines()[-1]
    script = f'{line}\nkubectl config current-context && echo "$KUBECONFIG" && command -v kubectl seiretsu'
    kubectl = tools.find("kubectl")
    assert kubectl
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(kubectl.parent)}
    used = subprocess.run(["bash", "-ec", script], env=environ, capture_output=True, text=True, check=False)
    assert used.stdout.splitlines() == ["one", kubeconfig, str(kubectl), str(program())], used.stderr
    listed = seiretsu("cluster", "list").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["NAME", "STATE"], ["one", "running"]]
    template = "{range .items[*]}{.status.allocatable.cpu} {.status.allocatable.memory};{end}"
    command: list[str | Path] = [kubectl, "--kubeconfig", kubeconfig, "get", "nodes", "-o", f"jsonpath={template}"]
    nodes = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert nodes == "3 5Gi;3 5Gi;"
    again = seiretsu("cluster", "up", "--name", "one")
    assert again.returncode == 1
    assert "running already" in again.stderr
    assert seiretsu("cluster", "down", "--name", "one").stdout == "Cluster one is down.\n"
    assert seiretsu("cluster", "list").stdout.startswith("No clusters.")


@pytest.mark.cluster
def test_what_a_crash_left_is_listed_as_broken_and_cleared_up_by_down(seiretsu: Run, tmp_path: Path) -> None:
    build.ensure("etcd")
    seiretsu("cluster", "up", "--name", "hurt", "--nodes", "0")
    records = processes.recorded(Layout(tmp_path / "seiretsu" / "clusters" / "hurt").records)
    processes.stop([record for record in records if record.name == "kube-apiserver"], grace=0)
    assert seiretsu("cluster", "list").stdout.splitlines()[1].split()[:2] == ["hurt", "broken"]
    assert seiretsu("cluster", "down", "--name", "hurt").returncode == 0
    assert not any(record.alive() for record in records)


@pytest.mark.parametrize("verb", ["down", "kubeconfig"])
def test_an_unknown_cluster_is_answered_with_those_there_are(answered: Run, tmp_path: Path, verb: str) -> None:
    (tmp_path / "seiretsu" / "clusters" / "other").mkdir(parents=True)
    answer = answered("cluster", verb, "--name", "mine")
    assert answer.returncode == 1
    assert answer.stderr == (
        "seiretsu: No cluster is named mine (available: other). Start it with seiretsu cluster up --name mine.\n"
    )


def test_a_name_that_cannot_be_one_is_refused_with_the_rule(answered: Run) -> None:
    answer = answered("cluster", "up", "--name", "My Cluster")
    assert answer.returncode == 1
    assert answer.stderr.startswith("seiretsu: 'My Cluster' cannot be the name of a cluster: use up to 52 lower-case")


def test_a_label_without_a_value_is_a_usage_error(answered: Run) -> None:
    answer = answered("cluster", "up", "--name", "one", "--node-label", "pool")
    assert answer.returncode == 2
    assert "'pool' is no label: write KEY=VALUE" in answer.stderr


@pytest.mark.parametrize("option", ["--node-cpu", "--node-memory"])
def test_a_node_size_that_is_no_quantity_is_a_usage_error(answered: Run, option: str) -> None:
    answer = answered("cluster", "up", "--name", "one", option, "much")
    assert answer.returncode == 2
    assert "'much' is no quantity: write 16, 500m or 64Gi" in answer.stderr


def test_an_unknown_tool_is_a_usage_error(answered: Run) -> None:
    answer = answered("cluster", "tools", "kube-proxy")
    assert answer.returncode == 2
    assert "kube-proxy is none of etcd, kube-apiserver" in answer.stderr
