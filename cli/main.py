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

from cli.words import GIVEN, WordsError, arranged, connected


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
    passes: bool = False
    """Whether kubectl runs it, for types that the module has not itself (`cli.verbs.passthrough`)."""
    types: bool = False
    """Whether a type of objects follows its name."""


_PASSED = "cli.verbs.passthrough"
COMMANDS = (
    Command("cluster", "cli.cluster", "Start, list and stop real local control planes."),
    Command("serve", "cli.serve", "Serve webhooks and controller of one cluster."),
    Command("demo", "cli.demo", "Show Jobs wait, borrow, start and finish on a real local control plane."),
    Command("simulate", "cli.simulate", "Show which Jobs would be admitted when, without a cluster.", plugin=True),
    Command("plan", "cli.plan", "Show what manifests would change, and whom that hits; nothing is written.", True),
    Command("explain", "cli.explain", "Show why a Job waits or does not run, and what would help.", True, quick=True),
    Command("when", "cli.when", "Estimate when a waiting Job starts.", plugin=True),
    Command(
        "why-preempted", "cli.why_preempted", "Show which workload preempted a Job, and by which rule.", True, True
    ),
    Command("report", "cli.history.command", "Show who used how much, and who waited, from the history.", plugin=True),
    Command("top", "cli.top.command", "Show a live page of queues, who runs, and who waits and why.", True, True),
    Command(
        "list", "cli.verbs.listing", "List queues, workloads, flavors, or the pods of a job.", True, True, types=True
    ),
    Command("create", "cli.verbs.create", "Create a queue or a flavor.", True, True, types=True),
    Command("get", _PASSED, "Get objects of a type, as kubectl get does.", True, passes=True, types=True),
    Command(
        "describe", _PASSED, "Describe objects of a type, as kubectl describe does.", True, passes=True, types=True
    ),
    Command("edit", _PASSED, "Edit an object in an editor, as kubectl edit does.", True, passes=True, types=True),
    Command("patch", _PASSED, "Change fields of an object, as kubectl patch does.", True, passes=True, types=True),
    Command("delete", "cli.verbs.delete", "Delete workloads with their jobs, or queues.", True, True, True, types=True),
    Command("stop", "cli.verbs.stop", "Stop a queue or a workload.", True, True, types=True),
    Command("resume", "cli.verbs.resume", "Resume a queue or a workload that was stopped.", True, True, types=True),
    Command("replay", "cli.replay", "Play a recording of the scheduler, and show where it decides differently."),
    Command("doctor", "cli.doctor", "Report what is wrong with Seiretsu in a cluster, and how to fix it.", plugin=True),
    Command("bundle", "cli.bundle", "Write an archive for a bug report, without secrets."),
    Command("import", "cli.importing", "Take in running pods and Jobs that no queue has seen.", plugin=True),
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
    return [command for command in commands if _installed(command.module)]


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not installed either
        return False


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
    given = arranged(words, [each.name for each in commands if each.types])
    chosen = next((each for each in commands if given and each.name == given[0]), None)
    if chosen is not None and chosen.passes and (code := _passed(given)) is not None:
        sys.exit(code)
    if chosen is not None and chosen.plugin:
        line = connected(given)
        given = line.words
        GIVEN.set(line.flags)
    if chosen is not None and chosen.quick and _quickly(chosen, given):
        return
    application(given, commands)(given, prog_name=name)


def _passed(words: Sequence[str]) -> int | None:
    """Runs kubectl, if it does what these words say; returns its exit code. For the help of a verb it prints that."""
    passthrough = _imported(_PASSED)
    if passthrough.passes(words):
        return int(passthrough.run(words))
    if words[0] == "delete" and len(words) > 1:
        return None
    print(passthrough.usage(words[0]), end="", file=sys.stdout if {"-h", "--help"} & {*words} else sys.stderr)
    return 0 if {"-h", "--help"} & {*words} else 2


def _quickly(chosen: Command, words: Sequence[str]) -> bool:
    """Runs a command without Typer, if its words are plain; returns whether they were."""
    module, quick = _imported(chosen.module), _imported("cli.quick")
    found = (
        quick.of_group(module.app, words[1]) if chosen.types and len(words) > 1 else getattr(module, "command", None)
    )
    given = quick.arguments(found, words[2 if chosen.types else 1 :]) if found is not None else None
    if found is None or given is None:
        return False
    try:
        found(**given)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    return True


def _run(program: Callable[[], object], name: str) -> None:
    """Ends with a sentence and an exit code, whatever happens."""
    try:
        program()
    except KeyboardInterrupt:
        sys.exit(130)
    except WordsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    except _expected() as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(141)  # as if the signal had ended it: the reader of the output has gone
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        message = " ".join(str(error).split()) or "no message"
        print(f"{name}: a bug in Seiretsu: {type(error).__name__}: {message}", file=sys.stderr)
        print(f"{name}: {TRACEBACK}=1 {name} ... shows where; please report it", file=sys.stderr)
        sys.exit(1)


def complete() -> None:
    """Print what kubectl completes after `kubectl seiretsu`, one word a line, then that it needs no file names (:4)."""
    print(*completions(sys.argv[1:]), ":4", sep="\n")


def completions(words: Sequence[str]) -> list[str]:
    """Returns what the last of the words may become: a command, a type, an option of the command before it, a value of
    an option, or a name that is in the cluster.
    """
    *before, last = words or [""]
    given = arranged(before, [each.name for each in PLUGIN if each.types])
    chosen = next((command for command in PLUGIN if given and command.name == given[0]), None)
    completion = _imported("cli.completion") if last.startswith("-") or before else None
    if completion is not None and (values := completion.of_option(before, last)) is not None:
        return list(values)
    if chosen is None:
        return [command.name for command in PLUGIN if command.name.startswith(last)]
    module = _imported(chosen.module)
    if chosen.types and (len(given) < 2 or given[1].startswith("-")):
        types = (
            [each.name for each in module.app.registered_commands if not each.hidden]
            if hasattr(module, "app")
            else module.WORDS
        )
        return sorted(each for each in types if each.startswith(last))
    if last.startswith("-"):
        command = _imported("cli.quick").of_group(module.app, given[1]) if hasattr(module, "app") else module.command
        return completion.options(command, last) if completion is not None else []
    return list(completion.names(given, last)) if completion is not None else []


def _add(app: typer.Typer, command: Command) -> None:
    module = _imported(command.module)
    if command.passes and not hasattr(module, "app"):
        app.command(command.name, help=command.help)(_never_called)
    elif hasattr(module, "app"):
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
