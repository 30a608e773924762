"""The manifests of the documents this project started from, as they are written there, and what may be asked of them.

A file begins with the document and the lines it is copied from; what the documents lost (indentation, the lines
between objects, the digits of two garbled slides) is put back, and nothing else is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Seed:
    """One manifest file; its first line names the document and the lines it was copied from."""

    name: str
    text: str

    def corrected(self, *corrections: tuple[str, str]) -> str:
        """Returns the text with its errors replaced; a replacement that finds nothing is an error of the test."""
        text = self.text
        for wrong, right in corrections:
            assert wrong in text, f"{self.name} does not say {wrong!r}"
            text = text.replace(wrong, right)
        return text


def seed(name: str) -> Seed:
    """Returns the manifests of a file."""
    return Seed(name, (HERE / f"{name}.yaml").read_text())
