"""`seiretsu serve`: the webhooks, the controller and the pages in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.logs import LEVELS
from app.serve import run
from app.setup import SetupOptions


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
    client_ca: Annotated[
        Path | None, typer.Option(help="Refuse admission calls without a client certificate of this CA (PEM).")
    ] = None,
    client_name: Annotated[
        list[str] | None, typer.Option(help="With --client-ca: a name that the certificate may have; may be repeated.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="One of " + ", ".join(LEVELS) + ".")] = "info",
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write where the time is spent, as stacks with their samples.")
    ] = None,
) -> None:
    """Serve webhooks and controller until SIGTERM; prints `ready` once it does."""
    if log_level not in LEVELS:
        raise typer.BadParameter(f"{log_level!r} is none of {', '.join(LEVELS)}", param_hint="--log-level")
    options = SetupOptions(
        kubeconfig=kubeconfig,
        config=config,
        bind=bind,
        install=install,
        cert_dir=cert_dir,
        namespace=namespace,
        lame_duck=lame_duck,
        client_ca=client_ca,
        client_names=tuple(client_name or ()),
        log_level=log_level,
        profile=profile,
    )
    sys.exit(run(options))
