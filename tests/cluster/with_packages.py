"""The programs of examples/python with the packages that users have, from PyPI. They are too large for every test run,
and one wants another version of the official client than Seiretsu; so this file is run by its name:

.venv/bin/python -m pytest tests/cluster/with_packages.py
"""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.kinds import runtime
from tests.cluster.test_kinds_life import ROOT, plane, queue, served, world  # noqa: F401
from tests.cluster.world import EXAMPLES, World
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster
PACKAGES = ("kubeflow==0.5.0", "ray==2.60.0")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages, and without those of Seiretsu."""
    directory = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    found = directory / "bin" / "python"
    subprocess.run([found, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return found


def test_the_example_with_the_kubeflow_sdk_runs_as_it_is(world: World, python: Path) -> None:  # noqa: F811
    queue(world, "main", 4)
    world.create(runtime("torch-distributed", "0"))
    assert "succeeded" in world.example("kubeflow_sdk.py", python, PYTHONPATH=str(ROOT))


def test_the_entrypoint_of_the_example_with_ray_runs_with_ray(python: Path) -> None:
    spec = importlib.util.spec_from_file_location("ray_job", EXAMPLES / "ray_job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program, *arguments = shlex.split(module.manifest()["spec"]["entrypoint"])
    assert program == "python"
    done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "328350", done.stderr
