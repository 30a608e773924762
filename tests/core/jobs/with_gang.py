"""A process in which the table of kinds has one line more, for the made-up Gang: prints what each program makes of it.

``python -m tests.core.jobs.with_gang SCENARIO CONFIGURATION``; the line is added before anything reads the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from core.jobs import kinds
from tests.core.jobs.gang import GANG

kinds.ALL = (*kinds.ALL, GANG)  # type: ignore[misc]
kinds.KINDS[GANG.framework] = GANG


def main(scenario: str, config: str) -> None:
    """Prints the lists of every program that contain the kind, and what is simulated."""
    from typer.testing import CliRunner

    from api.configuration import load
    from api.objects import Resource
    from cli.main import application
    from cli.named import sought
    from cli.verbs.listing import pod_selector
    from controller.run import rights, watched
    from core.jobs import owners, page
    from webhook import chart, configuration_table, hooks

    loaded = load(Path(config).read_text(), frameworks=kinds.supported())
    watching: list[Resource] = [row.resource for row in watched.rows(kinds.ALL)]
    played = CliRunner().invoke(application(["simulate"]), ["simulate", scenario, "-o", "json", "--config", config])
    found = {
        "warnings": loaded.warnings,
        "hooks": sorted({each.name for each in hooks.HOOKS if each.job_kind is GANG}),
        "in the chart": GANG.framework in chart.template(),
        "watched": GANG.resource in watching,
        "rights": f"resources: [{GANG.plural}]" in rights.template(),
        "in the table of the chart": GANG.framework in configuration_table.table()["frameworks"],
        "in the page": f"| `{GANG.framework}` | `example.com/v1` [Gang](kinds/gang.md) | `leader` and `worker`: size |"
        in page.table(),
        "owns jobs": ("example.com", "Gang") in owners.makers(("batch", "Job")),
        "passed": ("example.com", "Gang") in owners.KNOWN,
        "its pods are listed": pod_selector({"kind": "Gang", "metadata": {"name": "g"}}) == f"{GANG.pods_label}=g",
        "explained": sought(f"{GANG.singular}/x")[0] is GANG,
        "played": json.loads(played.stdout) if played.exit_code == 0 else played.output,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
