"""`seiretsu version`: the version of this program."""

from __future__ import annotations

from importlib.metadata import version

import typer


def command() -> None:
    """Print the version of this program."""
    typer.echo(f"Seiretsu {version('seiretsu')}")
