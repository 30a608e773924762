"""What a release says of itself: the section of its version in CHANGELOG.md."""

from __future__ import annotations

import re


def notes(changelog: str, version: str) -> str:
    """Returns the section of a version, with a title. Raises ``ValueError`` if there is none, or it is empty."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    text = found[1].strip() if found else ""
    if not text:
        raise ValueError(f"CHANGELOG.md has no section [{version}] with text")
    return f"# Seiretsu {version}\n\n{text}\n"


def unreleased(changelog: str) -> list[str]:
    """Returns the entries of the section Unreleased, which a release must not leave behind."""
    section = changelog.partition("## [Unreleased]")[2].partition("\n## [")[0]
    return [line for line in section.splitlines() if line.startswith("- ")]
