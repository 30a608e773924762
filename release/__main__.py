"""Makes a release from a tag, twice, and compares: ``make release TAG=v1.2.3``.

The tree of the tag is made by git in a new folder, so nothing that is not committed gets in, and the modules of that
tree build it (``release.build``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from release.build import SUMS
from release.notes import notes, unreleased
from release.version import version

ROOT: Final = Path(__file__).parents[1]


def git(*words: str) -> str:
    """Returns what git prints about this repository."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def problems(tag: str, tree: Path) -> list[str]:
    """Returns why the tree of a tag is no release: its version is another one, or the changelog does not fit."""
    found = []
    stated, changelog = version(tree), (tree / "CHANGELOG.md").read_text()
    if tag != f"v{stated}":
        found.append(f"pyproject.toml has version {stated}: make version VERSION={tag.removeprefix('v')}")
    try:
        notes(changelog, tag.removeprefix("v"))
    except ValueError as error:
        found.append(str(error))
    if left := unreleased(changelog):
        found.append(f"{len(left)} entries of CHANGELOG.md are under Unreleased: move them to [{stated}]")
    return found


def export(tag: str, into: Path) -> None:
    """Writes the tree of a tag into a folder."""
    packed = into.with_suffix(".tar")
    git("-c", "tar.umask=0022", "archive", "--format=tar", f"--output={packed}", tag)
    with tarfile.open(packed) as tar:
        tar.extractall(into, filter="fully_trusted")
    packed.unlink()


def build(tree: Path, out: Path, tag: str, more: list[str]) -> str:
    """Builds everything in a tree; returns the checksums."""
    when = git("log", "-1", "--format=%ct", tag)
    words = [sys.executable, "-m", "release.build", "--out", str(out.absolute()), "--epoch", when, *more]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*words, "--revision", git("rev-parse", f"{tag}^{{commit}}")], cwd=tree, env=environ, check=True)
    return (out / SUMS).read_text()


def main(arguments: list[str]) -> int:
    """Make the release; exit code 1 if the tag is none, or two builds differ."""
    parser = argparse.ArgumentParser(prog="python -m release", epilog="Other options are those of release.build.")
    parser.add_argument("tag")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--once", action="store_true", help="do not build a second time to compare")
    given, more = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory(prefix="seiretsu-release-") as name:
        results = []
        for number in range(1 if given.once else 2):
            tree = Path(name) / f"tree-{number}"
            export(given.tag, tree)
            if wrong := problems(given.tag, tree):
                print(*(f"{given.tag}: {each}" for each in wrong), sep="\n", file=sys.stderr)
                return 1
            out = given.out if number == 0 else Path(name) / "again"
            shutil.rmtree(out, ignore_errors=True)
            results.append(build(tree, out, given.tag, more))
        if differing := sorted(set(results[0].splitlines()) ^ set(results[-1].splitlines())):
            print("two builds of one tag differ:", *differing, sep="\n", file=sys.stderr)
            return 1
    print(f"{given.out}: {len(results[0].splitlines())} files" + ("" if given.once else ", equal in two builds"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
