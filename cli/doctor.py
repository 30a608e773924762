"""`seiretsu doctor`: what is wrong with a cluster and its installation, and how to fix it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli import installation
from controller.kube.client import Client
from core.diagnosis.facts import Facts
from core.diagnosis.finding import Finding
from core.diagnosis.findings import RULES, findings

HEALTHY, WRONG, UNREADABLE = 0, 1, 3
"""Exit codes; 2 is a wrong option."""


def command(
    kubeconfig: Annotated[Path | None, typer.Option(help="Which cluster; else as kubectl finds it.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Report what is wrong with Seiretsu in a cluster, and how to fix it. Exit code 1 if there is an error."""
    try:
        found = findings(asyncio.run(_read(kubeconfig)))
    except installation.UnreadableError as error:
        typer.echo(f"seiretsu doctor: {error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    typer.echo(plain(found) if output == "json" else text(found), nl=False)
    if any(strict or finding.severity == "error" for _, finding in found):
        raise typer.Exit(WRONG)


async def _read(kubeconfig: Path | None) -> Facts:
    async with Client(installation.connection(kubeconfig)) as client:
        return await installation.read(client)


def plain(found: Sequence[tuple[str, Finding]]) -> str:
    """Returns the findings as JSON."""
    return json.dumps([{"rule": rule, **asdict(finding)} for rule, finding in found], indent=2) + "\n"


def text(found: Sequence[tuple[str, Finding]]) -> str:
    """Returns the findings for a person."""
    if not found:
        return f"Nothing is wrong: {len(RULES)} checks passed.\n"
    lines = []
    for rule, finding in found:
        lines.append(f"{finding.severity.upper():<8} {finding.subject}: {finding.message}  [{rule}]")
        lines.append(f"         fix: {finding.fix}")
    return "\n".join(lines) + "\n"
