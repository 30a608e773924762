"""`seiretsu migrate`: from Kueue to Seiretsu and back, while jobs run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Literal, TypeVar

import typer

from cli import doctor
from cli.target import (
    FAILED,
    UNREADABLE,
    As,
    AsGroup,
    ChosenCluster,
    ContextOption,
    Kubeconfig,
    UnreadableError,
    document,
    fail,
    reached,
    target,
    written,
)
from controller.kube.client import Client
from controller.kube.config import Connection
from core.diagnosis import migration
from core.diagnosis.finding import DiagnosisFinding
from operations import migrate
from operations.install import NotEstablishedError
from operations.installations import HELM, read
from operations.migrate import ClusterToMigrate, MigrationError

app = typer.Typer(help="Go from Kueue to Seiretsu, and back, while jobs run.")

Result = TypeVar("Result")
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the steps, and change nothing.")]


@app.command()
def check(
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Report what would change, and what Seiretsu does not support. Exit code 1 if that prevents the migration."""
    found = _run("check", target(kubeconfig, context, as_user, as_group), read, output)
    rows = migration.problems(found)
    if output == "json":
        problems = [{"rule": rule, **asdict(finding)} for rule, finding in rows]
        value = document("MigrationCheck", {"problems": problems, "changes": migration.changes(found)})
        typer.echo(written(value, output), nl=False)
    else:
        typer.echo(text(rows, migration.changes(found)), nl=False)
    if any(strict or finding.severity == "error" for _, finding in rows):
        raise typer.Exit(FAILED)


@app.command("take-over")
def take_over(
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    dry_run: DryRunOption = False,
    force: Annotated[bool, typer.Option("--force", help="Go on although check reports errors.")] = False,
) -> None:
    """Let Seiretsu, which is installed beside Kueue, do its work. Can be repeated."""
    _steps(
        "take-over",
        target(kubeconfig, context, as_user, as_group),
        dry_run,
        lambda cluster: migrate.take_over(cluster, force=force),
    )
    if not dry_run:
        typer.echo("Seiretsu has taken over. Let its Helm release have the CRDs now: helm upgrade --reset-values")


@app.command("hand-back")
def hand_back(
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give everything back to Kueue. Can be repeated."""
    _steps("hand-back", target(kubeconfig, context, as_user, as_group), dry_run, migrate.hand_back)
    if not dry_run:
        typer.echo("Kueue is ready and takes the Lease as soon as Seiretsu ends: helm uninstall seiretsu")
        typer.echo("If you set crds.keep=false: first helm upgrade with crds.keep=true, or all queues are deleted")


def text(problems: Sequence[tuple[str, DiagnosisFinding]], changes: Sequence[str]) -> str:
    """Returns what `check` prints for a person."""
    lines = [doctor.text(problems)] if problems else ["Nothing prevents the migration.\n"]
    if changes:
        lines += ["\nWhat seiretsu migrate take-over does:\n", *(f"- {each}\n" for each in changes)]
    return "".join(lines)


def _steps(
    command: str, where: ChosenCluster, dry_run: bool, do: Callable[[ClusterToMigrate], Awaitable[None]]
) -> None:
    async def run(client: Client) -> None:
        async with Client(client.connection, field_manager=HELM) as helm:
            await do(ClusterToMigrate(client, helm, typer.echo, dry_run))

    _run(command, where, run)


def _run(command: str, where: ChosenCluster, do: Callable[[Client], Awaitable[Result]], output: str = "text") -> Result:
    async def connected(here: Connection) -> Result:
        async with Client(here) as client:
            return await do(client)

    try:
        here = where.connection()
        with reached(here.server):
            return asyncio.run(connected(here))
    except UnreadableError as error:
        fail(f"migrate {command}", str(error), code=UNREADABLE, output=output)
    except (MigrationError, NotEstablishedError) as error:
        fail(f"migrate {command}", str(error), output=output)
