"""`seiretsu migrate`: from Kueue to Seiretsu and back, while jobs run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from app import migrate
from app.install import NotEstablishedError
from app.installations import HELM, read
from app.migrate import Cluster, MigrationError
from cli import doctor, installation
from controller.kube.client import Client
from controller.kube.errors import ApiError
from core.diagnosis import migration
from core.diagnosis.finding import Finding

READY, PREVENTED, UNREADABLE = 0, 1, 3
"""Exit codes; 2 is a wrong option."""

app = typer.Typer(help="Go from Kueue to Seiretsu, and back, while jobs run.")

Kubeconfig = Annotated[Path | None, typer.Option(help="Which cluster; else as kubectl finds it.")]
Result = TypeVar("Result")
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the steps, and change nothing.")]


@app.command()
def check(
    kubeconfig: Kubeconfig = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Report what would change, and what Seiretsu does not support. Exit code 1 if that prevents the migration."""
    found = _run("check", kubeconfig, read, UNREADABLE)
    rows = migration.problems(found)
    if output == "json":
        problems = [{"rule": rule, **asdict(finding)} for rule, finding in rows]
        typer.echo(json.dumps({"problems": problems, "changes": migration.changes(found)}, indent=2))
    else:
        typer.echo(text(rows, migration.changes(found)), nl=False)
    if any(strict or finding.severity == "error" for _, finding in rows):
        raise typer.Exit(PREVENTED)


@app.command("take-over")
def take_over(
    kubeconfig: Kubeconfig = None,
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Go on although check reports errors.")] = False,
) -> None:
    """Let Seiretsu, which is installed beside Kueue, do its work. Can be repeated."""
    _steps("take-over", kubeconfig, dry_run, lambda cluster: migrate.take_over(cluster, force=force))
    if not dry_run:
        typer.echo("Seiretsu has taken over. Let its Helm release have the CRDs now: helm upgrade --reset-values")


@app.command("hand-back")
def hand_back(kubeconfig: Kubeconfig = None, dry_run: DryRun = False) -> None:
    """Give everything back to Kueue. Can be repeated."""
    _steps("hand-back", kubeconfig, dry_run, migrate.hand_back)
    if not dry_run:
        typer.echo("Kueue is ready and takes the Lease as soon as Seiretsu ends: helm uninstall seiretsu")
        typer.echo("If you set crds.keep=false: first helm upgrade with crds.keep=true, or all queues are deleted")


def text(problems: Sequence[tuple[str, Finding]], changes: Sequence[str]) -> str:
    """Returns what `check` prints for a person."""
    lines = [doctor.text(problems)] if problems else ["Nothing prevents the migration.\n"]
    if changes:
        lines += ["\nWhat seiretsu migrate take-over does:\n", *(f"- {each}\n" for each in changes)]
    return "".join(lines)


def _steps(command: str, kubeconfig: Path | None, dry_run: bool, do: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run(client: Client) -> None:
        async with Client(client.connection, field_manager=HELM) as helm:
            await do(Cluster(client, helm, typer.echo, dry_run))

    _run(command, kubeconfig, run, PREVENTED)


def _run(command: str, kubeconfig: Path | None, do: Callable[[Client], Awaitable[Result]], code: int) -> Result:
    async def connected() -> Result:
        async with Client(installation.connection(kubeconfig)) as client:
            return await do(client)

    try:
        return asyncio.run(connected())
    except (MigrationError, NotEstablishedError, installation.UnreadableError, ApiError) as error:
        typer.echo(f"seiretsu migrate {command}: {error}", err=True)
        raise typer.Exit(code) from None
