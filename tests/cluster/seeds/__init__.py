"""The manifests of the documents this project started from, as they are written there, and what may be asked of them.

A file begins with the document and the lines it is copied from; what the documents lost (indentation, the lines
between objects, the digits of two garbled slides) is put back, and nothing else is touched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_PLACE = re.compile(r"# seed: (?P<document>\S+) lines (?P<first>\d+)-(?P<last>\d+)")


@dataclass(frozen=True, slots=True)
class Seed:
    """One manifest file; the lines it was copied from are counted from 1, both ends included."""

    name: str
    text: str
    document: str
    first: int
    last: int

    @property
    def lines(self) -> list[str]:
        """What the file says, without our comments, separators and indentation."""
        stripped = (line.strip() for line in self.text.splitlines())
        return [line for line in stripped if line and line != "---" and not line.startswith("#")]

    def mended(self, *mends: tuple[str, str]) -> str:
        """The text with what was wrong in it replaced; a mend that finds nothing is a mistake of the test."""
        text = self.text
        for wrong, right in mends:
            assert wrong in text, f"{self.name} does not say {wrong!r}"
            text = text.replace(wrong, right)
        return text


def seed(name: str) -> Seed:
    """The manifests of a file."""
    text = (HERE / f"{name}.yaml").read_text()
    place = _PLACE.match(text)
    assert place, f"{name} does not begin with the place it was copied from"
    return Seed(name, text, place["document"], int(place["first"]), int(place["last"]))


def seeds() -> list[Seed]:
    """All of them."""
    return [seed(path.stem) for path in sorted(HERE.glob("*.yaml"))]
