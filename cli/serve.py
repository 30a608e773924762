"""`seiretsu serve`: the webhooks, the controller and the pages in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.logs import LEVELS
from app.serve import run
from app.setup import Options


def command(
    kubeconfig: Annotated[Path | None, typer.Option(help="Which cluster; else as kubectl finds it.")] = None,
    config: Annotated[Path | None, typer.Option(help="A Configuration of config.kueue.x-k8s.io.")] = None,
    bind: Annotated[str | None, typer.Option(metavar="ADDR:PORT", help="Where to serve; port 0 takes any.")] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Apply CRDs and webhook configurations that call this process by URL.")
    ] = False,
    cert_dir: Annotated[Path | None, typer.Option(help="Where certificates are kept, or are mounted.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Our own namespace.")] = None,
    lame_duck: Annotated[
        float | None, typer.Option(min=0, help="Seconds to go on answering new calls after SIGTERM.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="One of " + ", ".join(LEVELS) + ".")] = "info",
) -> None:
    """Serve webhooks and controller until SIGTERM; prints `ready` once it does."""
    if log_level not in LEVELS:
        raise typer.BadParameter(f"{log_level!r} is none of {', '.join(LEVELS)}", param_hint="--log-level")
    sys.exit(run(Options(kubeconfig, config, bind, install, cert_dir, namespace, lame_duck, log_level)))
