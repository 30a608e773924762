"""`seiretsu doctor`: what is wrong with a cluster and its installation, and how to fix it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from cli import installation, target
from cli.target import As, AsGroup, ContextOption, Kubeconfig
from controller.kube.client import Client
from core.diagnosis.facts import Facts
from core.diagnosis.finding import DiagnosisFinding
from core.diagnosis.findings import RULES, findings, unchecked


def command(
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Report what is wrong with Seiretsu in a cluster, and how to fix it. Exit code 1 if there is an error; else 3 if
    some checks could not be made.
    """
    with target.failing("doctor", output):
        facts = asyncio.run(_read(target.target(kubeconfig, context, as_user, as_group)))
    found = findings(facts)
    if output == "json":
        value = {"findings": [{"rule": rule, **asdict(finding)} for rule, finding in found]}
        typer.echo(
            target.written(target.document("Diagnosis", {**value, "notChecked": unchecked(facts)}), output), nl=False
        )
    else:
        typer.echo(text(found, unchecked(facts)), nl=False)
    if any(strict or finding.severity == "error" for _, finding in found):
        raise typer.Exit(target.FAILED)
    if unchecked(facts):
        raise typer.Exit(target.UNREADABLE)


async def _read(where: target.ChosenCluster) -> Facts:
    async with Client(where.connection()) as client:
        return await installation.read(client)


def text(found: Sequence[tuple[str, DiagnosisFinding]], skipped: Sequence[str] = ()) -> str:
    """Returns the findings for a person; ``skipped`` are the rules that could not be checked."""
    lines = []
    for rule, finding in found:
        lines.append(f"{finding.severity.upper():<8} {finding.subject}: {finding.message}  [{rule}]")
        lines.append(f"         fix: {finding.fix}")
    if skipped:
        lines.append(f"{len(RULES) - len(skipped)} of {len(RULES)} checks were made; not checked: {', '.join(skipped)}")
    elif not found:
        lines.append(f"Nothing is wrong: {len(RULES)} checks passed.")
    return "\n".join(lines) + "\n"
