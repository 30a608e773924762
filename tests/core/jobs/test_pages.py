"""The pages of the kinds of jobs: each kind of the tables has one, with a manifest, that docs/job-kinds.md links; the
manifest is the one that the cluster test applies.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.jobs.kinds import ALL
from core.jobs.pod_owners import POD_OWNERS
from tests.core.jobs.test_kinds import ROOT

EXAMPLES = sorted((ROOT / "examples" / "kinds").glob("*.yaml"))
PAGES = ROOT / "docs" / "kinds"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_shows_the_manifest_that_is_applied_and_names_its_framework(example: Path) -> None:
    page = (PAGES / f"{example.stem}.md").read_text()
    kind = next(each for each in ALL if each.singular == example.stem)
    shown = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert shown[0] == example.read_text()
    assert f"`{kind.framework}`" in page


TABLES = {each.resource.kind: each.framework for each in ALL} | {
    each.resource.kind: each.framework for each in POD_OWNERS
}


@pytest.mark.parametrize("kind", TABLES)
def test_each_kind_has_a_page_with_its_manifest_and_its_name_in_the_configuration(kind: str) -> None:
    page = (PAGES / f"{kind.lower()}.md").read_text()
    first = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert first is not None
    assert f"\nkind: {kind}\n" in first[1]
    assert f"`{TABLES[kind]}`" in page


def test_the_list_of_kinds_links_every_page_and_no_other() -> None:
    linked = set(re.findall(r"\(kinds/([a-z-]+)\.md\)", (ROOT / "docs" / "job-kinds.md").read_text()))
    assert {kind.lower() for kind in TABLES} <= linked
    assert linked == {page.stem for page in PAGES.glob("*.md")}
