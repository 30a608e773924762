"""Writes the lock files of the image's Debian packages: the newest version of each, with the SHA-256 of its files.

``python -m image.lock``, on a machine with apt: from the mirror that apt uses there.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from image.mirror import SUITE, sources

HERE = Path(__file__).parent
ARCHITECTURES = ("amd64", "arm64")
PACKAGES = {
    "packages.lock": (
        "base-files",
        "libbz2-1.0",
        "libc6",
        "libexpat1",
        "libffi8",
        "libgcc-s1",
        "liblzma5",
        "libpython3.13-minimal",
        "libpython3.13-stdlib",
        "libsqlite3-0",
        "libssl3t64",
        "libstdc++6",
        "libuuid1",
        "libzstd1",
        "python3.13-minimal",
        "zlib1g",
    ),
    "tools.lock": ("ca-certificates", "python3-pip-whl"),
}
"""By lock file: what the image has, and what only builds it."""


def main() -> None:
    """Write both lock files."""
    with tempfile.TemporaryDirectory() as name:
        options = _separate(Path(name))
        subprocess.run(["apt-get", *options, "--quiet=2", "update"], check=True)
        known = records(_shown(options, [name for packages in PACKAGES.values() for name in packages]))
        for file, packages in PACKAGES.items():
            header = (
                f"# Debian {SUITE}, by make image-lock: package, version, SHA-256 for {' and '.join(ARCHITECTURES)}"
            )
            (HERE / file).write_text("\n".join([header, *(row(package, known) for package in packages)]) + "\n")


def records(text: str) -> dict[tuple[str, str], str]:
    """Returns the records that apt-cache printed, by package and architecture."""
    each = [record for record in text.split("\n\n") if record.strip()]
    return {(_field(record, "Package"), _field(record, "Architecture")): record for record in each}


def row(package: str, known: dict[tuple[str, str], str]) -> str:
    """Returns the line of a package, which must have the same version for all architectures."""
    found = [known.get((package, each)) or known.get((package, "all")) for each in ARCHITECTURES]
    if None in found or len({_field(record or "", "Version") for record in found}) != 1:
        raise SystemExit(f"{package} has not the same version for {' and '.join(ARCHITECTURES)}: try again later")
    return " ".join([package, _field(found[0] or "", "Version"), *(_field(record or "", "SHA256") for record in found)])


def _field(record: str, name: str) -> str:
    found = re.search(rf"^{name}: (\S+)$", record, re.MULTILINE)
    if found is None:
        raise SystemExit(f"apt-cache printed no {name}:\n{record}")
    return found[1]


def _shown(options: list[str], packages: list[str]) -> str:
    words = [
        f"{package}{suffix}" for package in packages for suffix in ("", *(f":{each}" for each in ARCHITECTURES[1:]))
    ]
    command = ["apt-cache", *options, "show", "--no-all-versions", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout  # of some there is only `all`


def _separate(folder: Path) -> list[str]:
    """Options for an apt that knows only the suite of the image, and leaves that of the machine alone."""
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(sources())
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Architectures": ",".join(ARCHITECTURES),
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


if __name__ == "__main__":
    main()
