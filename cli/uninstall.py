"""`seiretsu uninstall`: removes what `serve --install` installed, and on demand finalizers and the hold on jobs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from api.names import NAMESPACE
from app.uninstall import RunningError, Wanted, uninstall
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError


def command(
    kubeconfig: Annotated[Path | None, typer.Option(help="Which cluster; else as kubectl finds it.")] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="Remove Seiretsu's finalizers from all objects, so that they can be deleted with namespaces.",
        ),
    ] = False,
    start_jobs: Annotated[
        bool, typer.Option("--start-jobs", help="Start all jobs that wait in a queue, at once and without any quota.")
    ] = False,
    namespace: Annotated[str, typer.Option(help="The namespace of Seiretsu, which has its Lease.")] = NAMESPACE,
    force: Annotated[bool, typer.Option("--force", help="Go on although Seiretsu still runs.")] = False,
) -> None:
    """Remove the webhooks that `serve --install` installed. Queues, Workloads and CRDs stay."""
    wanted = Wanted(release=release, start_jobs=start_jobs, force=force, namespace=namespace)
    try:
        asyncio.run(_run(config.load(kubeconfig), wanted))
    except (RunningError, ApiError, config.ConfigError, OSError, ValueError) as error:
        typer.echo(f"seiretsu uninstall: {error}", err=True)
        raise typer.Exit(1) from None


async def _run(connection: config.Connection, wanted: Wanted) -> None:
    steps: list[str] = []

    def tell(step: str) -> None:
        steps.append(step)
        typer.echo(step)

    async with Client(connection) as client:
        await uninstall(client, wanted, tell, datetime.now(UTC))
    if not steps:
        typer.echo("nothing of Seiretsu was found to remove")
