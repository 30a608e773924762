"""`seiretsu uninstall`: removes what `serve --install` installed, and on demand finalizers and the hold on jobs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from api.names import NAMESPACE
from cli.target import UNREADABLE, As, AsGroup, ContextOption, Kubeconfig, UnreadableError, fail, reached, target
from controller.kube import config
from controller.kube.client import Client
from operations.uninstall import RunningError, Wanted, uninstall


def command(
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
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
        here = target(kubeconfig, context, as_user, as_group).connection()
        with reached(here.server):
            asyncio.run(_run(here, wanted))
    except UnreadableError as error:
        fail("uninstall", str(error), code=UNREADABLE)
    except (RunningError, OSError, ValueError) as error:
        fail("uninstall", str(error))


async def _run(connection: config.Connection, wanted: Wanted) -> None:
    steps: list[str] = []

    def report(step: str) -> None:
        steps.append(step)
        typer.echo(step)

    async with Client(connection) as client:
        await uninstall(client, wanted, report, datetime.now(UTC))
    if not steps:
        typer.echo("nothing of Seiretsu was found to remove")
