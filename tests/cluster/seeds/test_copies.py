"""The copies are the documents' own lines, and no manifest of the documents is left out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cluster.seeds import Seed, seeds

SEEDS = Path(os.environ.get("SEIRETSU_SEEDS") or Path(__file__).parents[4] / "shared" / "seeds")
GARBLED = ("s0-slide14-settings", "s0-slide15-job")
"""Their slides came out shifted by 31 letters, and without digits and signs."""
_LIGATURES = {"q": "fl", "p": "fi"}
_HEREDOC = ("EOS", "catEOS")
SHOWN = {("000_3ee5327beaebdb1e.txt", 216), ("000_3ee5327beaebdb1e.txt", 218)}
"""What `kubectl get job -o yaml` prints on slide 16; the test of the demo looks at it."""


def lines(document: str) -> list[str]:
    path = SEEDS / document
    assert path.is_file(), f"{path} is missing: put the documents there, or name their folder in SEIRETSU_SEEDS"
    return [line.strip() for line in path.read_text().splitlines()]


def original(copy: Seed) -> list[str]:
    return [line for line in lines(copy.document)[copy.first - 1 : copy.last] if line and line != "---"]


def restored(line: str) -> str:
    """What of a garbled line can be read again: its letters."""
    return "".join(_LIGATURES.get(sign, "") if sign.islower() else chr(ord(sign) + 31) for sign in line if sign <= "z")


def letters(text: str) -> str:
    return "".join(re.findall("[A-Za-z{}]", text))


@pytest.mark.parametrize("copy", [each for each in seeds() if each.name not in GARBLED], ids=lambda copy: copy.name)
def test_a_manifest_is_copied_line_by_line(copy: Seed) -> None:
    caption = {"Match"}  # of a picture on slide 32
    assert [line for line in original(copy) if line not in caption] == copy.lines


@pytest.mark.parametrize("copy", [each for each in seeds() if each.name in GARBLED], ids=lambda copy: copy.name)
def test_a_garbled_manifest_is_restored_letter_by_letter(copy: Seed) -> None:
    read = [letters(restored(line)) for line in original(copy)]
    assert [line for line in read if not line.startswith(_HEREDOC)] == [letters(line) for line in copy.lines]


def test_no_manifest_of_the_documents_is_left_out() -> None:
    covered = {(copy.document, number) for copy in seeds() for number in range(copy.first, copy.last + 1)} | SHOWN
    for path in sorted(SEEDS.glob("*.txt")):
        for number, line in enumerate(lines(path.name), 1):
            if line.startswith(("apiVersion:", "BQJ7FSTJPO")):
                assert (path.name, number) in covered, f"{path.name}:{number} begins a manifest that no copy has"
