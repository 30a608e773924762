"""Makes the table of the kinds of jobs in docs/job-kinds.md: ``python -m core.jobs.page FILE`` writes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from core.jobs.fields import dotted
from core.jobs.kinds import ALL

HEAD: Final = "| `integrations.frameworks` | kind | pod sets | suspended by |\n|---|---|---|---|\n"
_TABLE: Final = re.compile(re.escape(HEAD) + r"(\|[^\n]*\n)*")


def table() -> str:
    """Returns the table: a row for each kind, in their order, with a link to its page."""
    rows = (
        f"| `{kind.framework}` | `{kind.api_version}` [{kind.kind}](kinds/{kind.singular}.md)"
        f" | {kind.counted} | `{dotted(kind.suspend_path)}` |\n"
        for kind in ALL
    )
    return HEAD + "".join(rows)


def page(text: str) -> str:
    """Returns the page with the present table."""
    return _TABLE.sub(lambda found: table(), text, count=1)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text()))
