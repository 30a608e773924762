"""Installs the program into the image: ``python -m image.application dependencies``, then ``... program``.

Runs in a stage of the image, on the Python of the image, with the pip of a locked package; nothing of pip stays. The
same sources give the same bytes: every file has the time SOURCE_DATE_EPOCH, and compiled modules have no time at all.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

from image import sbom

HERE = Path(__file__).parent
SOURCE = HERE.parent


def dependencies(into: Path, tools: Path) -> None:
    """Install the locked packages that the program runs on, and apart from them what builds the program."""
    for target, file in ((into, "requirements.lock"), (tools, "requirements-build.lock")):
        pip("--target", str(target), "--require-hashes", "--only-binary", ":all:", "-r", str(SOURCE / file))


def program(into: Path, tools: Path) -> None:
    """Install the program beside its packages."""
    pip("--target", str(into), "--no-deps", "--no-index", "--no-build-isolation", str(SOURCE), tools=tools)
    shutil.copy(HERE / "start.py", into / "__main__.py")
    shutil.rmtree(into / "bin", ignore_errors=True)
    for each in (*into.rglob("direct_url.json"), *into.glob("*.dist-info/RECORD")):
        each.unlink()


def finish(root: Path, modules: Path, epoch: int) -> None:
    """Compile the modules of a layer, and give all of its files one time, and the right to read them to everybody.

    A compiled module has neither the time nor the hash of its source checked: the image is read-only.
    """
    for each in root.rglob("__pycache__"):
        shutil.rmtree(each)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(modules, quiet=2, stripdir=str(root), invalidation_mode=unchecked)
    for each in (root, *root.rglob("*")):
        if not each.is_symlink():
            each.chmod(0o755 if each.is_dir() or each.stat().st_mode & 0o100 else 0o644)
        os.utime(each, (epoch, epoch), follow_symlinks=False)


def pip(*words: str, tools: Path | None = None) -> None:
    """Run the locked pip, which is a wheel, with the modules in ``tools``."""
    (wheel,) = Path("/tools/usr/share/python-wheels").glob("pip-*.whl")
    command = [
        sys.executable,
        f"{wheel}/pip",
        "install",
        "--quiet",
        "--root-user-action=ignore",
        "--no-compile",
        *words,
    ]
    more: dict[str, str] = {"PYTHONPATH": str(tools)} if tools else {}
    subprocess.run(command, check=True, env=os.environ | more | {"PYTHONDONTWRITEBYTECODE": "1"})


if __name__ == "__main__":
    layer, tools = Path("/program"), Path("/build")
    into = layer / "opt" / "seiretsu"
    if sys.argv[1] == "dependencies":
        dependencies(into, tools)
    else:
        program(into, tools)
        time = int(os.environ["SOURCE_DATE_EPOCH"])
        (into / "sbom.spdx.json").write_text(sbom.document(Path("/image"), into, SOURCE, time))
        finish(layer, into, time)
        finish(Path("/image"), Path("/image/usr/lib/python3.13"), time)
