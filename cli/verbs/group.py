"""The types of a verb as Typer commands: each under its word, and hidden under its other names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from cli.verbs.kinds import Type


def group(commands: Sequence[tuple[Type, Callable[..., None]]]) -> typer.Typer:
    """Returns an application with one command for each type."""
    app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})
    for kind, function in commands:
        for word in kind.words:
            app.command(word, hidden=word != kind.word)(function)
    return app
