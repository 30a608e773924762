"""Makes the files of a release from the tree in which this module lies: ``python -m release.build --out DIST``.

The same tree, time and revision give the same bytes: archives are packed by ``release.archives``, setuptools and the
image take the time from SOURCE_DATE_EPOCH. ``release.__main__`` calls it for the tree of a tag.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugin import krew
from release import archives
from release.notes import notes
from release.version import version

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts" / "seiretsu"
SUMS: Final = "SHA256SUMS"
NOTES: Final = "RELEASE_NOTES.md"
_TAGS: Final = {
    "linux-amd64": [f"manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)] + ["manylinux2014_x86_64"],
    "linux-arm64": [f"manylinux_2_{minor}_aarch64" for minor in range(35, 16, -1)] + ["manylinux2014_aarch64"],
    "darwin-arm64": ["macosx_14_0_arm64"],
}
"""The wheels that run on a platform, by the name that krew has for it. For macOS on Intel some locked packages have no
wheel: `make krew-archive` packs it on such a machine.
"""


def packages(out: Path, epoch: int) -> None:
    """Writes the wheel and the source distribution; setuptools writes beside the sources, too."""
    environ = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    for what in ("sdist", "wheel"):
        code = f"import sys; from setuptools import build_meta; build_meta.build_{what}(sys.argv[1])"
        words = [sys.executable, "-c", code, str(out.absolute())]
        done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"setuptools built no {what}: {done.stderr}")
    (source,) = out.glob("*.tar.gz")
    archives.again(source, epoch)


def chart(out: Path, epoch: int) -> Path:
    """Writes the chart's archive, as ``helm package`` does but for the time."""
    ignored = [line for line in (CHART / ".helmignore").read_text().split() if line]
    files = archives.below(
        CHART, "seiretsu", lambda path: path.name != ".helmignore" and not any(path.match(each) for each in ignored)
    )
    return archives.pack(out / f"seiretsu-{version(ROOT)}.tgz", files, epoch)


def plugins(out: Path, epoch: int, platforms: Sequence[str]) -> None:
    """Writes the archive of the plugin for each platform, with the locked wheels for that platform."""
    (wheel,) = out.glob("*.whl")
    for platform in platforms:
        with tempfile.TemporaryDirectory() as name:
            tags = [f"--platform={tag}" for tag in _TAGS[platform]]
            where = [*tags, "--only-binary=:all:", f"--python-version={krew.PYTHON}", f"--target={name}"]
            pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
            subprocess.run([*pip, *where, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True)
            subprocess.run([*pip, *where, "--no-deps", "--no-index", str(wheel)], check=True)
            krew.archive(Path(name), platform, out, epoch)


def image(out: Path, epoch: int, revision: str) -> None:
    """Writes the image as an OCI archive, for the architecture of this machine, and the list of its packages. It needs
    root, and a machine with apt.
    """
    from image import clean_root, oci

    with tempfile.TemporaryDirectory() as name:
        given = {"VERSION": version(ROOT), "REVISION": revision, "SOURCE_DATE_EPOCH": str(epoch)}
        built = clean_root.build(Path(name) / "image", given)
        named = f"seiretsu-{version(ROOT)}-image-{oci.architecture()}"
        oci.write(built, out / f"{named}.tar", f"seiretsu:{version(ROOT)}", epoch)
        shutil.copyfile(built.root / "opt/seiretsu/sbom.spdx.json", out / f"{named}.spdx.json")


def sums(out: Path) -> str:
    """Writes the SHA-256 of all files, in the form that ``sha256sum --check`` reads."""
    found = (path for path in sorted(out.iterdir()) if path.name != SUMS)
    text = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in found)
    (out / SUMS).write_text(text)
    return text


def main(arguments: list[str]) -> int:
    """Write all files into the directory ``--out``, which must be empty."""
    parser = argparse.ArgumentParser(prog="python -m release.build")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True, help="the time of all files, in seconds since 1970")
    parser.add_argument("--revision", default="unknown")
    parser.add_argument("--platforms", default=",".join(_TAGS), help="of the plugin's archives")
    parser.add_argument("--without", action="append", default=[], choices=["image"])
    given = parser.parse_args(arguments)
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        print(f"{out} is not empty", file=sys.stderr)
        return 1
    os.umask(0o022)
    (out / NOTES).write_text(notes((ROOT / "CHANGELOG.md").read_text(), version(ROOT)))
    packages(out, given.epoch)
    chart(out, given.epoch)
    plugins(out, given.epoch, [each for each in given.platforms.split(",") if each])
    if "image" not in given.without:
        image(out, given.epoch, given.revision)
    print(sums(out), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
