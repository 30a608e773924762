"""Puts the packages of the program inside of ``seiretsu`` in a wheel.

The program imports its packages by short names (``api``, ``core``), which must not be installed where other programs
import from: they might have packages of the same names. A wheel has them in the folder ``seiretsu/program``, from which
only ``seiretsu.__main__`` imports. Everything else is in pyproject.toml.
"""

from setuptools import find_packages, setup

PROGRAM = ("api", "core", "controller", "webhook", "certs", "operations", "app", "cli", "devcluster")
inside = [f"seiretsu.program.{name}" for name in find_packages(include=[f"{name}*" for name in PROGRAM])]

setup(
    packages=[*find_packages(include=["seiretsu*"]), *inside],
    package_dir={f"seiretsu.program.{name}": name for name in PROGRAM},
    package_data={"seiretsu.program.devcluster": ["tools/**"], "seiretsu.program.app": ["ui/**"]},
)
