"""``kubectl seiretsu top``: a live page of queues, of who runs, and of who waits and why.

It reads what your rights show: all namespaces, or that of the context. It writes nothing.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from api.objects import Key
from cli import target
from cli.target import As, AsGroup, ContextOption, Kubeconfig, UsageError


def command(
    queue: Annotated[str, typer.Argument(metavar="[CLUSTERQUEUE]", help="Open this ClusterQueue first.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")] = "",
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
) -> None:
    """Show a live page in the terminal; ? shows its keys."""
    with target.failing("top"):
        here = target.target(kubeconfig, context, as_user, as_group).connection()
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("it needs a terminal: for a file or a pipe use list workload -A -o wide")
        try:
            from cli.top import screen  # curses, which only this command uses
        except ImportError as error:
            raise target.FailedError(f"there is no curses in this Python: {error}") from None
        from cli.top.feed import Feed
        from cli.top.view import View

        feed = Feed(here, namespace)
        first = View()
        view = View(page="queue", queue=Key("", queue), back=(first,)) if queue else first
        feed.open((view.queue,) if view.queue is not None else ())
        feed.start()
        try:
            screen.run(feed, view)
        finally:
            feed.stop()
