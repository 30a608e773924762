"""The cluster, namespace and account of a command, chosen as kubectl chooses them; and failures in kubectl's words.

One place for all commands, so that an API server that is down is reported with the same sentence and exit code by each.
"""

from __future__ import annotations

import errno
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gaierror
from typing import Annotated, Final, NoReturn

import typer

from api.objects import Raw
from cli.words import GIVEN
from controller.kube import config
from controller.kube.errors import ApiError, Unauthorized, Unreachable

DONE, FAILED, USAGE, UNREADABLE = 0, 1, 2, 3
"""The exit codes of every command; docs/simulate.md lists them."""
API_VERSION: Final = "cli.seiretsu.dev/v1"
"""Of what ``-o json`` and ``-o yaml`` print. Within a version fields are added, but not removed or renamed."""

Kubeconfig = Annotated[Path | None, typer.Option(help="Which kubeconfig; else as kubectl finds it.")]
ContextOption = Annotated[str, typer.Option("--context", help="Which context of the kubeconfig; else the current one.")]
As = Annotated[str, typer.Option("--as", metavar="USER", help="Act as this account, like kubectl --as.")]
AsGroup = Annotated[
    list[str] | None, typer.Option("--as-group", metavar="GROUP", help="With --as: a group; may be repeated.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where it is; else the namespace of the context.")]


class FailedError(Exception):
    """A command cannot do what was asked; the message has the reason and the fix."""

    code = FAILED


class UnreadableError(FailedError):
    """The cluster cannot be read."""

    code = UNREADABLE


class UsageError(FailedError):
    """An argument has no meaning."""

    code = USAGE


@dataclass(frozen=True, slots=True)
class ChosenCluster:
    """Which cluster, and as whom. Empty fields: as kubectl would choose."""

    kubeconfig: Path | None = None
    context: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()

    def connection(self) -> config.Connection:
        """Returns how to connect. Raises ``UnreadableError`` if the kubeconfig cannot be used, ``UsageError``
        for options that do not go together.
        """
        given = GIVEN.get()
        uid, extra = given.get("as_uid", ""), given.get("as_user_extra", ())
        if (self.groups or uid or extra) and not self.user:
            option = "--as-group" if self.groups else "--as-uid" if uid else "--as-user-extra"
            raise UsageError(f"{option} needs --as: it is impersonated together with an account")
        overrides = config.Overrides(**{name: given[name] for name in config.Overrides._fields if name in given})
        try:
            found = config.load(self.kubeconfig, self.context or None, overrides)
        except (config.ConfigError, OSError, ValueError) as error:
            raise UnreadableError(f"no cluster: {error}") from None
        return replace(found, account=config.Impersonation(self.user, self.groups, uid, extra)) if self.user else found


def target(
    kubeconfig: Path | None = None, context: str = "", as_user: str = "", as_group: list[str] | None = None
) -> ChosenCluster:
    """Returns the target of these options."""
    return ChosenCluster(kubeconfig, context, as_user, tuple(as_group or ()))


@contextmanager
def reached(server: str) -> Iterator[None]:
    """Turns an error of a call into an ``UnreadableError`` in kubectl's words."""
    try:
        yield
    except ApiError as error:
        raise UnreadableError(sentence(error, server)) from None


def sentence(error: ApiError, server: str) -> str:
    """Returns what kubectl prints about an error of a call to this API server."""
    host = server.partition("://")[2] or server
    if isinstance(error, Unreachable):
        return _unreachable(error, host)
    if isinstance(error, Unauthorized):
        return f"You must be logged in to the server {host} (Unauthorized)"
    return f"Error from server ({error.reason}): {error.message}"


def _unreachable(error: Unreachable, host: str) -> str:
    cause = error.__cause__
    inner = getattr(cause, "os_error", None) or getattr(cause, "certificate_error", None) or cause
    if error.reason in ("Credentials", "BadCredentials"):
        return f"Unable to connect to the server {host}: {error.message}"
    if getattr(inner, "errno", None) == errno.ECONNREFUSED or _REFUSED.search(str(inner)):
        return f"The connection to the server {host} was refused - did you specify the right host or port?"
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"Unable to connect to the server {host}: its certificate is not valid: {inner.verify_message}"
    if isinstance(inner, gaierror):
        return f"Unable to connect to the server: there is no host {host.rpartition(':')[0] or host}"
    if isinstance(inner, TimeoutError):
        return f"Unable to connect to the server {host}: it does not answer in time"
    why = getattr(inner, "strerror", None) or (str(inner) if inner is not None else error.message)
    return f"Unable to connect to the server {host}: {why or type(inner).__name__}"


_REFUSED = re.compile(r"Connect call failed|Connection refused")


@contextmanager
def failing(command: str, output: str = "text", *others: type[Exception]) -> Iterator[None]:
    """Ends a command with the sentence and exit code of its failure; ``others`` are errors with exit code 1."""
    try:
        yield
    except FailedError as error:
        fail(command, str(error), code=error.code, output=output)
    except others as error:
        fail(command, str(error), output=output)


def fail(command: str, message: str, *, code: int = FAILED, output: str = "text") -> NoReturn:
    """Prints a failure as a sentence on stderr, with ``-o json`` or ``yaml`` also as an object on stdout, and exits."""
    for line in message.splitlines():
        typer.echo(f"seiretsu {command}: {line}", err=True)
    if output in ("json", "yaml"):
        typer.echo(written(document("Error", {"exitCode": code, "message": message}), output), nl=False)
    raise typer.Exit(code)


def document(kind: str, value: Raw) -> Raw:
    """Returns an answer as an object with a version."""
    return {"apiVersion": API_VERSION, "kind": kind, **value}


def written(value: Raw, output: str) -> str:
    """Returns an answer as JSON or YAML."""
    if output == "yaml":
        import yaml

        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
