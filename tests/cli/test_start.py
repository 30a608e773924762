"""What `kubectl seiretsu explain` imports: its time is that of its imports, and these can be counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.world import rules
from controller.settings import ControllerSettings
from tests.cli.api_server import EMPTY, kubeconfig, serving

ROOT = Path(__file__).parents[2]
HEAVY = {
    *(
        "aiohttp",
        "pydantic.main",
        "pydantic_core",
        "cryptography",
        "rich",
        "structlog",
        "starlette",
        "hypercorn",
        "uvloop",
        "celpy",
    ),
    *(
        "prometheus_client",
        "kubernetes",
        "rapidfuzz",
        "webhook",
        "app",
        "operations",
        "certs",
        "common_expression_language",
    ),
    *(
        "cli.world",
        "cli.simulator",
        "controller.run.controller",
        "controller.scheduling.scheduler",
        "controller.kube.client",
    ),
}
"""Each costs at least a tenth of the time in which the rest starts."""
PROGRAM = """
import json, sys
sys.argv[1:] = json.loads(sys.argv[1])
from cli.main import plugin
try:
    plugin()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def imported(*words: str) -> set[str]:
    """The modules of a process that ran a command of the plugin."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", PROGRAM, json.dumps(words)]
    done = subprocess.run(run, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_explain_imports_none_of_the_servers_libraries(tmp_path: Path) -> None:
    with serving(lambda asked: EMPTY) as (url, asked):
        found = imported("explain", "x", "-n", "default", "--kubeconfig", str(kubeconfig(tmp_path / "config", url)))
    assert len(asked) > 10, "it has read the cluster"
    assert found & HEAVY == set()
    assert "cli.explain" in found


@pytest.mark.parametrize(
    "words",
    [
        ("list", "workload", "-A"),
        ("list", "cq", "-o", "yaml"),
        ("create", "rf", "f", "--node-labels", "a=b"),
        ("stop", "cq", "main", "--keep-already-running"),
        ("resume", "-n", "x", "lq", "main"),
        ("delete", "workload", "--all", "--yes"),
        ("why-preempted", "train"),
    ],
    ids=" ".join,
)
def test_the_verbs_import_none_of_the_servers_libraries(tmp_path: Path, words: tuple[str, ...]) -> None:
    with serving(lambda asked: EMPTY) as (url, asked):
        found = imported(*words, "--kubeconfig", str(kubeconfig(tmp_path / "config", url)))
    assert asked, "it has called the API server"
    assert found & (HEAVY | {"cli.explain", "core.state.state", "controller.run.watched"}) == set()


def test_top_imports_curses_alone_beside_them(tmp_path: Path) -> None:
    """Without a terminal it ends before it reads; `tests/cli/top` has the rest of what it imports."""
    found = imported("top", "--kubeconfig", str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1")))
    assert found & (HEAVY | {"curses", "cli.top.feed"}) == set()


def test_only_top_imports_curses_and_its_modules_none_of_the_servers_libraries() -> None:
    code = "import sys, cli.top.screen, cli.top.feed, cli.top.view; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & HEAVY == set()


def test_what_kubectl_does_imports_even_less() -> None:
    assert imported("get", "--help") & (HEAVY | {"asyncio", "ssl", "yaml", "cli.reader"}) == set()


def test_help_and_version_import_even_less() -> None:
    assert imported("version") & (HEAVY | {"asyncio", "msgspec", "ssl", "yaml", "controller"}) == set()


def test_without_a_configuration_the_settings_are_those_of_an_empty_one() -> None:
    """So that `explain` needs no model of the Configuration."""
    other = rules().controller
    assert (ControllerSettings().policy, ControllerSettings().reading) == (other.policy, other.reading)
