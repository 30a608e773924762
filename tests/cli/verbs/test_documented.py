"""docs/plugin.md has every command and flag of kueuectl's reference (Kueue 0.20), and the commands accept the flags."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Final, get_args

import pytest

from cli.main import COMMANDS
from cli.quick import of_group
from cli.words import FLAGS, VALUED

PAGE: Final = (Path(__file__).parents[3] / "docs" / "plugin.md").read_text()
_PRINTS: Final = ("--allow-missing-template-keys", "--show-managed-fields", "--template", "-o", "--output")
_SELECTS: Final = (*_PRINTS, "-l", "--selector", "--field-selector")
_EVERYWHERE: Final = ("-A", "--all-namespaces")
_QUOTAS: Final = ("--nominal-quota", "--borrowing-limit", "--lending-limit")
KUEUECTL: Final[dict[str, tuple[str, ...]]] = {
    "create clusterqueue": (
        *(*_PRINTS, *_QUOTAS, "--dry-run", "--cohort", "--queuing-strategy", "--namespace-selector"),
        *("--reclaim-within-cohort", "--preemption-within-cluster-queue"),
    ),
    "create localqueue": (*_PRINTS, "--dry-run", "-c", "--clusterqueue", "-i", "--ignore-unknown-cq"),
    "create resourceflavor": (*_PRINTS, "--dry-run", "--node-labels", "--node-taints", "--tolerations"),
    "list clusterqueue": (*_SELECTS, "--active"),
    "list localqueue": (*_SELECTS, *_EVERYWHERE, "-c", "--clusterqueue"),
    "list workload": (*_SELECTS, *_EVERYWHERE, "-c", "--clusterqueue", "-q", "--localqueue", "--status", "--for"),
    "list resourceflavor": _SELECTS,
    "list pods": (*_SELECTS, *_EVERYWHERE, "--for"),
    "delete workload": (*_EVERYWHERE, "--all", "-y", "--yes", "--dry-run"),
    "stop workload": (*_PRINTS, "--dry-run"),
    "stop clusterqueue": (*_PRINTS, "--dry-run", "--keep-already-running"),
    "stop localqueue": (*_PRINTS, "--dry-run", "--keep-already-running"),
    "resume workload": (*_PRINTS, "--dry-run"),
    "resume clusterqueue": (*_PRINTS, "--dry-run"),
    "resume localqueue": (*_PRINTS, "--dry-run"),
}
"""The commands of its reference with flags of their own."""
CONNECTION: Final = (
    *("--as", "--as-group", "--as-uid", "--as-user-extra", "--cache-dir", "--certificate-authority", "--cluster"),
    *("--client-certificate", "--client-key", "--context", "--disable-compression", "--insecure-skip-tls-verify"),
    *(
        "--kubeconfig",
        "--request-timeout",
        "--tls-server-name",
        "--token",
        "--user",
        "-n",
        "--namespace",
        "-s",
        "--server",
    ),
)
"""The flags that all its commands have."""
PASSED: Final = ("get", "describe", "edit", "patch", "delete")
TYPES: Final = ("workload", "clusterqueue", "localqueue", "resourceflavor")


def accepted(line: str) -> set[str]:
    """The options of a command."""
    verb, kind = line.split()
    app = importlib.import_module(next(each.module for each in COMMANDS if each.name == verb)).app
    found: set[str] = set()
    function = of_group(app, kind)
    assert function is not None
    for each in inspect.signature(function).parameters.values():
        info = get_args(each.annotation)[1]
        spelt = (info.default, *(info.param_decls or ()))
        found |= {word for word in spelt if isinstance(word, str)}
    return found


@pytest.mark.parametrize("line", KUEUECTL)
def test_a_command_has_the_flags_of_kueuectl_and_its_page_names_them(line: str) -> None:
    assert set(KUEUECTL[line]) <= accepted(line)
    assert f"`{line}`" in PAGE
    for flag in KUEUECTL[line]:
        assert f"`{flag}`" in PAGE, flag


def test_the_flags_for_the_connection_are_accepted_by_all_and_documented() -> None:
    for flag in CONNECTION:
        assert flag in VALUED | FLAGS, flag
        assert f"`{flag}`" in PAGE, flag


def test_what_kubectl_does_is_documented() -> None:
    for verb in PASSED:
        assert f"`{verb}" in PAGE
    for kind in TYPES:
        assert f"`{kind}`" in PAGE
    assert next(each for each in COMMANDS if each.name == "version").plugin
