"""The documents lead to what exists: links, headings, files of the code, and an index with every document."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(<?([^()\s>]+)>?\)")
TOPS = (
    "api",
    "app",
    "bench",
    "certs",
    "cli",
    "controller",
    "core",
    "observer",
    "operations",
    "seiretsu",
    "tests",
    "webhook",
)
PATH = re.compile(rf"`((?:{'|'.join(TOPS)})/[\w/.-]*)`")
BUILT = {"seiretsu/program"}
"""Is in a wheel only."""
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)


@cache
def text_of(path: Path) -> str:
    return FENCE.sub("", path.read_text())


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of the headings of a document, as GitHub derives them."""
    found: Counter[str] = Counter()
    named = set(re.findall(r'<a (?:id|name)="([^"]+)"', text_of(path)))
    for heading in re.findall(r"^#+ +(.+?) *#*$", text_of(path), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        named.add(f"{anchor}-{found[anchor]}" if found[anchor] else anchor)
        found[anchor] += 1
    return frozenset(named)


def broken(document: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    name, _, anchor = link.partition("#")
    path = (document.parent / name).resolve() if name else document
    return not path.exists() or (bool(anchor) and path.suffix == ".md" and anchor not in anchors(path))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_refers_to_exists(document: Path) -> None:
    text = text_of(document)
    assert [link for link in LINK.findall(text) if broken(document, link)] == []
    assert [path for path in PATH.findall(text) if path not in BUILT and not (ROOT / path).exists()] == []


def test_the_index_has_every_document() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {link.partition("#")[0] for link in LINK.findall(index.read_text())}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - linked == {"README.md"}


@pytest.mark.parametrize(
    ("heading", "folder"), [("## The packages of `core`", "core"), ("## The rooms of `controller`", "controller")]
)
def test_the_tables_of_packages_have_each_package(heading: str, folder: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition(heading)[2].partition("\n## ")[0]
    firsts = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    named = {name for cell in firsts for name in re.findall(r"`(\w+)`", cell)}
    assert {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")} - named == set()


def test_the_table_of_status_writes_is_complete() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Status writes\n")[2].partition("\n## ")[0]
    writes = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "controller").rglob("*.py")
        if re.search(r"writer\.patch\([^\n]*subresource=", path.read_text())
    }
    assert writes == {*PATH.findall(section)} - {"tests/write_points.py", "tests/test_docs.py"}
