"""The pages of the kinds of jobs: each shows the manifest that the cluster test applies, and is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.jobs.kinds import ALL
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
    assert f"kinds/{example.stem}.md" in (ROOT / "docs" / "job-kinds.md").read_text()
