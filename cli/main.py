"""The command line: one table of commands, of which only the requested one is imported.

`seiretsu --help` must not import what it does not run: a module is imported when its name is on the command line.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    `module` defines `app`, a Typer application (a group of commands), or else the one function `command`.
    """

    name: str
    module: str
    help: str
    plugin: bool = False
    """Whether `kubectl seiretsu` has it, too."""
    quick: bool = False
    """Whether plain command lines of it are read without Typer (`cli.quick`)."""


COMMANDS = (
    Command("cluster", "cli.cluster", "Start, list and stop real local control planes."),
    Command("serve", "cli.serve", "Serve webhooks and controller of one cluster."),
    Command("demo", "cli.demo", "Show Jobs wait, borrow, start and finish on a real local control plane."),
    Command("simulate", "cli.simulate", "Show which Jobs would be admitted when, without a cluster."),
    Command("explain", "cli.explain", "Show why a Job waits or does not run, and what would help.", True, quick=True),
    Command("when", "cli.when", "Estimate when a waiting Job starts.", plugin=True),
    Command("doctor", "cli.doctor", "Report what is wrong with Seiretsu in a cluster, and how to fix it."),
    Command("bundle", "cli.bundle", "Write an archive for a bug report, without secrets."),
    Command("migrate", "cli.migrate", "Go from Kueue to Seiretsu, and back, while jobs run."),
    Command("uninstall", "cli.uninstall", "Remove what serve --install installed; on demand finalizers, too."),
    Command("version", "cli.version", "Print the version of this program.", plugin=True, quick=True),
)

_COMPLETION = "_SEIRETSU_COMPLETE"
TRACEBACK = "SEIRETSU_TRACEBACK"
"""The environment variable with which an exception that nothing expected is shown as Python shows it."""


def application(words: Sequence[str], commands: Sequence[Command] = COMMANDS) -> typer.Typer:
    """Returns the application for these words: complete for the command they name, with one line for each of the
    others.
    """
    app = typer.Typer(
        name="seiretsu",
        help="Seiretsu: a job queue for Kubernetes.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    named = next((word for word in words if not word.startswith("-")), None)
    for command in available(commands):
        if command.name == named or _COMPLETION in os.environ:
            _add(app, command)
        else:
            app.command(command.name, help=command.help)(_never_called)
    return app


def available(commands: Sequence[Command]) -> list[Command]:
    """Returns the commands whose modules are installed: the image has `serve` alone."""
    return [command for command in commands if importlib.util.find_spec(command.module)]


def main() -> None:
    """The entry point. docs/simulate.md has the exit codes, which are the same for all commands."""
    _run(lambda: _started(sys.argv[1:], COMMANDS, "seiretsu"), "seiretsu")


PLUGIN = tuple(command for command in COMMANDS if command.plugin)
"""The commands of `kubectl seiretsu`: those that need only rights in a namespace."""


def plugin() -> None:
    """The entry point of `kubectl seiretsu`, with the exit codes of `seiretsu`."""
    _run(lambda: _started(sys.argv[1:], PLUGIN, "kubectl seiretsu"), "kubectl seiretsu")


def _started(words: Sequence[str], commands: Sequence[Command], name: str) -> None:
    """Runs the command that these words name."""
    chosen = next((each for each in commands if words and each.name == words[0] and each.quick), None)
    if chosen is not None:
        command = _imported(chosen.module).command
        given = _imported("cli.quick").arguments(command, words[1:])
        if given is not None:
            try:
                command(**given)
            except typer.Exit as end:
                sys.exit(end.exit_code)
            return
    application(words, commands)(words, prog_name=name)


def _run(program: Callable[[], object], name: str) -> None:
    """Ends with a sentence and an exit code, whatever happens."""
    try:
        program()
    except KeyboardInterrupt:
        sys.exit(130)
    except _expected() as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(141)  # as if the signal had ended it: the reader of the output has gone
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        told = " ".join(str(error).split()) or "no message"
        print(f"{name}: a bug in Seiretsu: {type(error).__name__}: {told}", file=sys.stderr)
        print(f"{name}: {TRACEBACK}=1 {name} ... shows where; please report it", file=sys.stderr)
        sys.exit(1)


def complete() -> None:
    """Print what kubectl completes after `kubectl seiretsu`, one word a line, then that it needs no file names (:4)."""
    print(*completions(sys.argv[1:]), ":4", sep="\n")


def completions(words: Sequence[str]) -> list[str]:
    """Returns what the last of the words may become: a command, an option of the command before it, or a name that is
    in the cluster.
    """
    *before, last = words or [""]
    named = next((word for word in before if not word.startswith("-")), None)
    chosen = next((command for command in PLUGIN if command.name == named), None)
    if chosen is None:
        return [command.name for command in PLUGIN if command.name.startswith(last)]
    if not last.startswith("-") or "=" in last or (before and before[-1] in _WITH_NAMES):
        at = list(before).index(chosen.name)
        return importlib.import_module("cli.completion").of_words(before[:at] + before[at + 1 :], last)  # type: ignore[no-any-return]
    app = typer.Typer()
    app.command()(importlib.import_module(chosen.module).command)
    options = [word for each in typer.main.get_command(app).params for word in each.opts]
    return sorted(word for word in [*options, "--help"] if word.startswith(last) and word.startswith("-"))


_WITH_NAMES = ("--namespace", "-n", "--context", "--output", "-o")
"""Options whose value is completed."""


def _add(app: typer.Typer, command: Command) -> None:
    module = _imported(command.module)
    if hasattr(module, "app"):
        app.add_typer(module.app, name=command.name, help=command.help, no_args_is_help=True)
    else:
        app.command(command.name, help=command.help)(module.command)


def _imported(name: str) -> ModuleType:
    """Imports a module without garbage collections: an eighth of the time, and modules are no garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if collects:
            gc.enable()


def _expected() -> tuple[type[Exception], ...]:
    """Returns the errors of which the message is enough: those of local control planes, if this process uses any."""
    errors = sys.modules.get("devcluster.errors")
    return (errors.ClusterError,) if errors else ()


def _version(wanted: bool) -> None:
    if wanted:
        importlib.import_module("cli.version").command()
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version of this program.")
    ] = False,
) -> None:
    """Seiretsu: a job queue for Kubernetes."""


def _never_called() -> None:
    """Replaces a command that the command line does not name."""


if __name__ == "__main__":
    main()
