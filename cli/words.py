"""A command line in the forms that kubectl accepts, as Typer accepts it: options before the command, ``-o=json``,
``--all-namespaces=true``; and kubectl's options for the connection, which all commands of the plugin have.

It imports nothing of the commands, because it is used before one is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_CONNECTION: Final = {
    "--server": "server",
    "-s": "server",
    "--cluster": "cluster",
    "--user": "user",
    "--token": "token",
    "--tls-server-name": "tls_server_name",
    "--certificate-authority": "certificate_authority",
    "--client-certificate": "client_certificate",
    "--client-key": "client_key",
    "--request-timeout": "request_timeout",
    "--as-uid": "as_uid",
    "--as-user-extra": "as_user_extra",
    "--cache-dir": "",
}
_CONNECTION_FLAGS: Final = {"--insecure-skip-tls-verify": "insecure_skip_tls_verify", "--disable-compression": ""}
VALUED: Final = frozenset(
    {
        *_CONNECTION,
        *("-n", "--namespace", "--kubeconfig", "--context", "--as", "--as-group"),
        *("-o", "--output", "-l", "--selector", "--field-selector", "-c", "--clusterqueue", "-q", "--localqueue"),
        *("--status", "--for", "--active", "--dry-run", "--template", "--config"),
    }
)
"""Options with a value that may stand before the command."""
FLAGS: Final = frozenset(
    {
        *_CONNECTION_FLAGS,
        *("-A", "--all-namespaces", "--show-managed-fields", "--allow-missing-template-keys", "--all", "-y", "--yes"),
        *("--keep-already-running", "-i", "--ignore-unknown-cq"),
    }
)
_SHORT: Final = re.compile(r"(-[a-zA-Z])=(.*)", re.S)
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


GIVEN: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))
"""What the command line says of the connection, by the name of the option; ``cli.target`` reads it."""


class WordsError(ValueError):
    """An option has no value, or one without a meaning."""


class CommandLine(NamedTuple):
    """A command line: the words for the command, and what they say of the connection."""

    words: list[str]
    flags: Mapping[str, Any]


def arranged(words: Sequence[str], groups: Collection[str]) -> list[str]:
    """Returns a command line with the command first, then its type if it is one of ``groups``, then everything else."""
    ahead: list[str] = []
    options: list[str] = []
    left = list(words)
    while left and (not ahead or (ahead[0] in groups and len(ahead) < 2)):
        word = left.pop(0)
        if not word.startswith("-"):
            ahead.append(word)
        elif word in VALUED and left:
            options += [word, left.pop(0)]
        elif word in FLAGS or word.partition("=")[0] in VALUED | FLAGS or _SHORT.fullmatch(word):
            options.append(word)
        else:
            return list(words)
    return [*ahead, *_plain([*options, *left])] if ahead else list(words)


def _plain(words: Sequence[str]) -> list[str]:
    """Splits ``-o=json``; ``--flag=true`` is the flag, ``--flag=false`` is nothing."""
    found: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*found, *words[place:]]
        option, equals, value = word.partition("=")
        short = _SHORT.fullmatch(word)
        if equals and option in FLAGS and value.lower() in ("true", "false"):
            found += [option] if value.lower() == "true" else []
        elif short and short[1] in VALUED:
            found += [short[1], short[2]]
        else:
            found.append(word)
    return found


def connected(words: Sequence[str]) -> CommandLine:
    """Takes kubectl's options for the connection out of a command line. Raises WordsError."""
    kept: list[str] = []
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if word == "--":
            return CommandLine([*kept, word, *left], given)
        if option in _CONNECTION_FLAGS:
            if field := _CONNECTION_FLAGS[option]:
                given[field] = value.lower() != "false"
        elif option in _CONNECTION:
            if not equals:
                if not left:
                    raise WordsError(f"{option} needs a value")
                value = left.pop(0)
            _keep(given, option, _CONNECTION[option], value)
        else:
            kept.append(word)
    return CommandLine(kept, given)


def _keep(given: dict[str, Any], option: str, field: str, value: str) -> None:
    if field == "request_timeout":
        match = _SECONDS.fullmatch(value)
        if not match:
            raise WordsError(f"{option} {value}: it must be a duration, for example 30s")
        given[field] = float(match[1]) * _UNITS[match[2]]
    elif field == "as_user_extra":
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise WordsError(f"{option} {value}: it must be KEY=VALUE")
        given[field] = (*given.get(field, ()), (key, text))
    elif field:
        given[field] = value
