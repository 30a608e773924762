"""The wheel in a clean Python environment: what other programs there can import, and that the program runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = ("api", "core", "controller", "webhook", "certs", "operations", "app", "cli", "devcluster", "seiretsu")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, built from a copy: setuptools writes beside what it builds."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("out")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(out), str(tree))
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with this wheel and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment)
    pip("--python", str(environment), "install", str(wheel))
    return environment / "bin" / "python"


def pip(*words: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    at = next(index for index, word in enumerate(words) if word in ("wheel", "install")) + 1
    command = [sys.executable, "-m", "pip", *words[:at], *options, *words[at:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(command: list[str | Path], *, dependencies: bool, at: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of the new environment; with the dependencies of this one, but nothing else of it."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if dependencies:
        environ["PYTHONPATH"] = sysconfig.get_path("platlib")
    return subprocess.run(command, cwd=at, env=environ, capture_output=True, text=True, check=False)


def test_the_wheel_installs_one_top_level_name(wheel: Path) -> None:
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"seiretsu"}


def test_the_wheel_has_every_module_and_data_file_of_the_program(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {f"seiretsu/program/{name}" for name in tracked.stdout.split() if not name.startswith("seiretsu/")}
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_other_programs_import_the_client_and_none_of_the_programs_packages(python: Path, tmp_path: Path) -> None:
    names = [*PACKAGES, "seiretsu.client"]
    code = f"from importlib.util import find_spec; print(*[n for n in {names} if find_spec(n)])"
    found = run([python, "-c", code], dependencies=False, at=tmp_path)
    assert found.stdout.split() == ["seiretsu", "seiretsu.client"], found.stderr
    assert run([python, "-c", "import seiretsu.client"], dependencies=False, at=tmp_path).returncode == 0


def test_the_installed_program_runs_even_where_other_packages_have_its_names(python: Path, tmp_path: Path) -> None:
    for name in PACKAGES[:-1]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of another program')")
    files = [ROOT / "examples" / "queues.yaml", ROOT / "examples" / "jobs" / "train.yaml"]
    for command in ([python.with_name("seiretsu")], [python, "-m", "seiretsu"]):
        done = run([*command, "simulate", *files], dependencies=True, at=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "team-a" in done.stdout


def test_every_command_of_the_installed_program_can_be_imported(python: Path, tmp_path: Path) -> None:
    modules = " ".join(command.module for command in COMMANDS)
    code = f"import sys, importlib, seiretsu.__main__ as program; program.use(); \
[importlib.import_module(name) for name in {modules.split()}]"
    done = run([python, "-c", code], dependencies=True, at=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_process_that_makes_forecasts_starts_from_the_installed_program(python: Path, tmp_path: Path) -> None:
    code = "import subprocess, sys, seiretsu.__main__ as program; program.use(); \
from controller.forecasts.process import worker_command; \
sys.exit(subprocess.run(worker_command(), stdin=subprocess.DEVNULL).returncode)"
    done = run([python, "-c", code], dependencies=True, at=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
