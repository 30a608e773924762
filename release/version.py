"""The version: `pyproject.toml` has it, and this writes it into the files that must repeat it.

``python -m release.version`` prints it, ``python -m release.version 1.2.3`` changes it everywhere.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = ("README.md", "docs/install.md", "docs/image.md", "docs/release.md")
FILES: Final = ("Dockerfile", "charts/seiretsu/Chart.yaml", *DOCUMENTS)
"""The files that repeat the version, where a reader copies it from or a program cannot read pyproject.toml."""
_NUMBER: Final = r"\d+\.\d+\.\d+"
_REPEATED: Final = re.compile(
    rf"(^version: |^appVersion: |^ARG VERSION=|seiretsu:|seiretsu-|/v|TAG=v|git tag v|origin v){_NUMBER}", re.MULTILINE
)
_STATED: Final = re.compile(rf'(^version = "){_NUMBER}', re.MULTILINE)


def version(root: Path = ROOT) -> str:
    """Returns the version of this tree."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def repeated(text: str, wanted: str) -> str:
    """Returns a text in which the version of Seiretsu is the one that is wanted."""
    return _REPEATED.sub(rf"\g<1>{wanted}", text)


def change(wanted: str, root: Path = ROOT) -> None:
    """Write another version into all files that have it."""
    if not re.fullmatch(_NUMBER, wanted):
        raise ValueError(f"{wanted!r} is no version: write 1.2.3")
    stated = root / "pyproject.toml"
    stated.write_text(_STATED.sub(rf"\g<1>{wanted}", stated.read_text(), count=1))
    for name in FILES:
        (root / name).write_text(repeated((root / name).read_text(), wanted))


if __name__ == "__main__":
    if sys.argv[1:]:
        change(sys.argv[1])
    print(version())
