"""The documents lead to what exists: links, headings, files of the code, and an index with every document."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
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
NAMED = re.compile(rf"`([\w.]+)` in `((?:{'|'.join(TOPS)})/[\w/.-]*\.py)`")
"""What a document finds in a file: `NAME` in `path`."""
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


def defined(name: str, path: str) -> bool:
    text = (ROOT / path).read_text()
    return all(
        re.search(rf"^\s*(?:(?:async def|def|class) {each}\b|{each}(?::| =))", text, re.M) for each in name.split(".")
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_refers_to_exists(document: Path) -> None:
    text = text_of(document)
    assert [link for link in LINK.findall(text) if broken(document, link)] == []
    assert [path for path in PATH.findall(text) if path not in BUILT and not (ROOT / path).exists()] == []
    assert [found for found in NAMED.findall(text) if not defined(*found)] == []


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
        for top in ("controller", "webhook", "certs", "operations", "app", "cli", "seiretsu")
        for path in (ROOT / top).rglob("*.py")
        if any(map(_writes_a_status, ast.walk(ast.parse(path.read_text()))))
    }
    assert writes == {*PATH.findall(section)} - {"tests/write_points.py", "tests/test_docs.py"}


def _writes_a_status(node: ast.AST) -> bool:
    """Whether this is a call that names a subresource, not one that passes on what its caller named; or the path of an
    object's status, which is more than the name of a resource with its subresource.
    """
    if isinstance(node, ast.JoinedStr) and isinstance(last := node.values[-1], ast.Constant):
        return len(node.values) > 2 and str(last.value).endswith("/status")
    given = [each.value for each in node.keywords if each.arg == "subresource"] if isinstance(node, ast.Call) else []
    return any(not isinstance(each, ast.Name) for each in given)


def _sentences(path: str, names: Collection[str] = ()) -> Iterator[tuple[str, ...]]:
    """The fixed parts of each text in a module, or in some of its functions and constants; not of docstrings."""
    tree = ast.parse((ROOT / path).read_text())
    wanted: list[ast.AST] = [tree]
    if names:
        wanted = [each for each in ast.walk(tree) if _name(each) in names]
        assert len(wanted) == len(names), f"{path} has not all of {names}"
    inside: set[ast.AST] = set()
    for top in wanted:
        for node in ast.walk(top):  # outer nodes before inner ones
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                inside.add(node.value)
            if isinstance(node, ast.JoinedStr):
                inside.update(ast.walk(node))
                yield tuple(str(each.value) for each in node.values if isinstance(each, ast.Constant))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
                yield tuple(re.split(r"\{\w*\}|%s", node.value))


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef):
        return node.name
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


TOPOLOGY_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "core/topology/reasons.py": (),
    "core/topology/request.py": (),
    "core/topology/place.py": (),
    "core/topology/replace.py": (),
    "core/topology/flavors.py": (),
    "core/topology/counts.py": ("exclusion", "_why", "_lacking"),
    "core/quota/placement.py": ("_flavor",),
    "core/workload/node_failures.py": ("SEVERAL",),
    "core/model/messages.py": ("no_replacement",),
}
"""Modules and, where not all of them is about topologies, the names of functions and constants."""


def test_each_message_about_a_topology_has_its_row_and_each_row_its_message() -> None:
    section = (ROOT / "docs" / "topology.md").read_text().partition("\n## Why it waits\n")[2].partition("\n## ")[0]
    rows = [" ".join(re.findall(r"`([^`]+)`", line.split(" | ")[0])) for line in section.splitlines() if "| `" in line]
    told = [parts for path, names in TOPOLOGY_MESSAGES.items() for parts in _sentences(path, names)]
    parts = {part.strip() for each in told for part in each if len(part.strip()) > 4}
    assert sorted(part for part in parts if not any(part in row for row in rows)) == []
    others = ("There are pending delayed topology requests", "SchedulingGated: ")
    assert [row for row in rows if not any(part in row for part in parts) and not row.startswith(others)] == []
