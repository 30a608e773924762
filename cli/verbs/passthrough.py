"""``kubectl seiretsu get``, ``describe``, ``edit``, ``patch`` and ``delete``: kubectl does them.

The type is given to kubectl in its full form, which no other group has. If kubectl fails, and an object of the name
does not exist, the closest name is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from cli.verbs.kinds import TYPES, WORKLOAD, Type, closest, type_of
from cli.words import VALUED

VERBS: Final = ("get", "describe", "edit", "patch", "delete")
WORDS: Final = tuple(each.word for each in TYPES)
MISSING: Final = 127
"""The exit code of a shell for a program that does not exist."""
_VALUED: Final = VALUED | {
    *("-p", "--patch", "--patch-file", "--type", "-f", "--filename", "-k", "--kustomize", "-L", "--label-columns"),
    *("--sort-by", "--chunk-size", "--subresource", "--grace-period", "--cascade", "--field-manager", "--timeout"),
}
"""Options of kubectl with a value, which is no name of an object."""


def passes(words: Sequence[str]) -> bool:
    """Whether kubectl does what these words say: all but the help of a verb, and ``delete workload``."""
    kind = _type(words[1:])
    return words[0] in VERBS and kind is not None and not (words[0] == "delete" and kind is WORKLOAD)


def run(words: Sequence[str]) -> int:
    """Runs kubectl with these words; returns its exit code."""
    program = shutil.which("kubectl")
    if program is None:
        print(
            f"seiretsu {words[0]}: kubectl does it, and is not on PATH ({os.environ.get('PATH', '')})", file=sys.stderr
        )
        return MISSING
    given = arguments(words)
    code = subprocess.run([program, *given], check=False).returncode
    if code == 1:
        _hint(program, words)
    return code


def arguments(words: Sequence[str]) -> list[str]:
    """Returns the words for kubectl: the type in its full form, everything else as it is."""
    place = next((at for at, word in enumerate(words[1:], 1) if _of_word(word) is not None), 0)
    if not place:
        return [*words]
    typed, slash, name = words[place].partition("/")
    kind = type_of(typed)
    full = f"{kind.full if kind is not None else typed}{slash}{name}"
    return [*words[:place], full, *words[place + 1 :]]


def names(words: Sequence[str]) -> list[str]:
    """Returns the names of objects that are among the words after the verb."""
    found = list(_plain(words[1:]))
    if not found:
        return []
    _, slash, name = found[0].partition("/")
    return [name] if slash else found[1:]


def usage(verb: str) -> str:
    """Returns the help of a verb."""
    types = "\n".join(f"  {each.word:<16} {', '.join(each.aliases)}" for each in TYPES)
    line = f"Usage: kubectl seiretsu {verb} TYPE [NAME] [options of kubectl {verb}]"
    return f"{line}\n\nTypes, and their other names:\n{types}\n"


def _type(words: Sequence[str]) -> Type | None:
    first = next(_plain(words), "")
    return _of_word(first)


def _of_word(word: str) -> Type | None:
    return type_of(word.partition("/")[0]) if word and not word.startswith("-") else None


def _plain(words: Sequence[str]) -> Iterator[str]:
    """The words that are neither options nor their values."""
    left = iter(words)
    for word in left:
        if word in _VALUED:
            next(left, None)
        elif not word.startswith("-"):
            yield word


def _hint(program: str, words: Sequence[str]) -> None:
    """Prints the closest name of each object that does not exist."""
    kind, wanted = _type(words[1:]), names(words)
    if kind is None or not wanted:
        return
    kept = _connection(words)
    done = subprocess.run([program, "get", kind.full, "-o", "name", *kept], check=False, capture_output=True, text=True)
    known = [line.rpartition("/")[2] for line in done.stdout.splitlines()]
    for name in wanted:
        if name not in known and (hint := closest(name, known)):
            print(f"{name}{hint}", file=sys.stderr)


def _connection(words: Sequence[str]) -> list[str]:
    """The options that choose cluster, account and namespace."""
    chosen = ("-n", "--namespace", "--context", "--kubeconfig", "--as", "--as-group", "--cluster", "--user", "-s")
    kept: list[str] = []
    for place, word in enumerate(words):
        option, equals, _ = word.partition("=")
        if option in chosen or option in ("--server", "--token"):
            kept += [word] if equals else list(words[place : place + 2])
    return kept
