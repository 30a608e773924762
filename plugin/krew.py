"""Makes an archive of the plugin, and the manifest with which krew installs it: ``make krew``.

``python -m plugin.krew archive --packages DIR --platform linux-amd64`` packs a directory into which pip has installed
the program and what it needs. ``python -m plugin.krew manifest --url URL --homepage URL`` describes all archives in
``dist``, which may have been made on several machines, one for each platform.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import Final

import yaml

from release import archives
from release.version import version

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent
PROGRAM: Final = "kubectl-seiretsu"
PLATFORMS: Final = ("linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64")
PYTHON: Final = "{}.{}".format(*sys.version_info)
VERSION: Final = version(ROOT)
_ARCHIVE: Final = re.compile(rf"{PROGRAM}-{re.escape(VERSION)}-(?P<os>[a-z]+)-(?P<arch>[a-z0-9]+)\.tar\.gz")


def archive(packages: Path, platform: str, out: Path, epoch: int = 0) -> Path:
    """Writes the archive for a platform: the program that kubectl runs, its packages and the license. All files have
    the time ``epoch``.
    """
    start = (HERE / PROGRAM).read_text().replace("@PYTHON@", PYTHON).encode()
    files = [("LICENSE", ROOT / "LICENSE"), *archives.below(packages, "lib", _belongs)]
    return archives.pack(out / f"{PROGRAM}-{VERSION}-{platform}.tar.gz", files, epoch, [(PROGRAM, start, 0o755)])


def _belongs(path: Path) -> bool:
    """Leaves out what depends on the machine: compiled modules, scripts, and the records of pip."""
    recorded = path.parts[0].endswith(".dist-info") and path.name in ("RECORD", "direct_url.json")
    return "__pycache__" not in path.parts and path.parts[0] != "bin" and not recorded


def manifest(out: Path, url: str, homepage: str) -> str:
    """Returns the manifest of all archives of this version in a directory. They are downloaded from below ``url``.

    Raises ``ValueError`` if there is none.
    """
    found = {path: name for path in sorted(out.iterdir()) if (name := _ARCHIVE.fullmatch(path.name))}
    if not found:
        raise ValueError(f"{out}: no archive of {PROGRAM} {VERSION}: `make krew-archive` makes it")
    text = (HERE / "krew.yaml").read_text()
    for word, value in {"VERSION": VERSION, "HOMEPAGE": homepage, "PYTHON": PYTHON}.items():
        text = text.replace(f"@{word}@", value)
    platforms = [
        {
            "selector": {"matchLabels": {"os": name["os"], "arch": name["arch"]}},
            "uri": f"{url.rstrip('/')}/{path.name}",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bin": PROGRAM,
        }
        for path, name in found.items()
    ]
    listed = yaml.safe_dump({"platforms": platforms}, sort_keys=False, width=1000)
    return text + "".join(f"  {line}\n" for line in listed.splitlines())


def main(arguments: list[str]) -> int:
    """Write an archive, or the manifest, into the directory ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m plugin.krew")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    what = parser.add_subparsers(dest="what", required=True)
    packed = what.add_parser("archive")
    packed.add_argument("--packages", type=Path, required=True)
    packed.add_argument("--platform", choices=PLATFORMS, required=True)
    described = what.add_parser("manifest")
    described.add_argument("--url", required=True)
    described.add_argument("--homepage", required=True)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "archive":
        print(archive(given.packages, given.platform, given.out))
        return 0
    try:
        text = manifest(given.out, given.url, given.homepage)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    (given.out / "seiretsu.yaml").write_text(text)
    print(given.out / "seiretsu.yaml")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
