"""Compares topologies with recorded decisions: `python -m bench.topology_oracle DIRECTORY` (`make oracle
TOPOLOGY=DIRECTORY`).

A directory has any of `placement`, `cycle`, `encoding` and `dra` (claims of devices) as `.jsonl` or `.jsonl.xz`, one
scenario on each line. It prints the first difference of each line that differs, `NAME N/M` for each file, and how many
of the recorded messages are the same word for word. Two kinds of cycles are counted apart, because Kueue's rule gives
domains more than they have and Seiretsu's does not (docs/topology.md): those with the tag `overbooked`, and those that
differ, but not if flavors with the same nodes know nothing of each other within the cycle (`flavors apart`). The exit
code is 0 when the decisions of all others agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.devices_lines import devices_of, expected
from bench.oracle import differences, message_differences, scenarios
from bench.topology_cycles import OVERBOOKED, apart_cycle_of, cycle_of
from bench.topology_encodings import encoding_of
from bench.topology_lines import placement_of
from core.model import Raw

APART = "flavors apart"
WHY: Final = {
    OVERBOOKED: " (Kueue gives a domain more than it has: a difference is right)",
    APART: " (as recorded if flavors with the same nodes knew nothing of each other within a cycle)",
}


class ComparedLine(NamedTuple):
    """The first difference of a line, '' where there is none, and that of each recorded message."""

    difference: str
    messages: Sequence[str] = ()


class JudgedLine(NamedTuple):
    """A line with what was compared, and as what it counts: its file, ``OVERBOOKED`` or ``APART``."""

    line: Raw
    compared: ComparedLine
    kind: str


Compare = Callable[[Raw], ComparedLine]


def _placement(line: Raw) -> ComparedLine:
    """Which pod sets are there, whether each fits, its levels and domains. Texts and stored forms are no difference."""
    want, have = line["expected"].get("podSets") or {}, placement_of(line)
    found = ""
    for name in sorted({*want, *have}):
        one, other = _fit(want.get(name)), _fit(have.get(name))
        if one != other:
            found = found or f"{name}: expected {one}, got {other}"
    return ComparedLine(
        found, [_reason(name, want[name], have.get(name)) for name in sorted(want) if "reason" in want[name]]
    )


def _reason(name: str, want: Raw, have: Raw | None) -> str:
    found = have.get("reason") if have else None
    return "" if found == want["reason"] else f"{name}: expected {want['reason']!r}, got {found!r}"


def _fit(pod_set: Any) -> Any:
    if pod_set is None or "domains" not in pod_set:
        return None if pod_set is None else "does not fit"
    ordered = sorted(pod_set["domains"], key=lambda domain: domain["values"])
    return {"levels": pod_set["levels"], "domains": ordered}


def _cycle(line: Raw) -> ComparedLine:
    got = cycle_of(line)
    return ComparedLine(next(iter(differences(line["expected"], got)), ""), message_differences(line["expected"], got))


def _encoding(line: Raw) -> ComparedLine:
    want, have = _filled(line["expected"]), _filled(encoding_of(line))
    return ComparedLine("" if want == have else f"expected {want}, got {have}")


def _dra(line: Raw) -> ComparedLine:
    want, have = _filled(expected(line)), _filled(devices_of(line))
    return ComparedLine("" if want == have else f"expected {want}, got {have}")


def _filled(value: Any) -> Any:
    """Without empty fields, which are as good as none."""
    if isinstance(value, dict):
        filled = {name: _filled(each) for name, each in value.items()}
        return {name: each for name, each in filled.items() if each not in (None, [], {})}
    return [_filled(each) for each in value] if isinstance(value, list) else value


COMPARED: Final[dict[str, Compare]] = {"placement": _placement, "cycle": _cycle, "encoding": _encoding, "dra": _dra}


def judged(path: Path, only: str = "") -> Iterator[JudgedLine]:
    """Yields each line of a file with what differs."""
    kind = path.name.split(".")[0]
    for line in scenarios(path):
        if only in line["name"]:
            found = COMPARED[kind](line)
            if OVERBOOKED in line.get("tags", ()):
                yield JudgedLine(line, found, OVERBOOKED)
            elif found.difference and kind == "cycle" and is_apart(line):
                yield JudgedLine(line, found, APART)
            else:
                yield JudgedLine(line, found, kind)


def is_apart(line: Raw) -> bool:
    """Whether a cycle comes out as recorded if flavors that share nodes know nothing of each other within it."""
    return next(iter(differences(line["expected"], apart_cycle_of(line))), None) is None


def main(arguments: list[str] | None = None) -> int:
    """Compare all files of a directory."""
    parser = argparse.ArgumentParser(description="Compare topologies with recorded decisions.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="scenarios with this text in their names")
    options = parser.parse_args(arguments)
    every = sorted((*options.directory.glob("*.jsonl"), *options.directory.glob("*.jsonl.xz")))
    paths = [path for path in every if path.name.split(".")[0] in COMPARED]
    if not paths:
        print(f"no {', '.join(COMPARED)} (.jsonl, .jsonl.xz) in {options.directory}: make oracle TOPOLOGY=DIRECTORY")
        return 2
    failed = 0
    for path in paths:
        name = path.name.split(".")[0]
        found: dict[str, list[ComparedLine]] = {name: [], OVERBOOKED: [], APART: []}
        for line, compared, kind in judged(path, options.only):
            found[kind].append(compared)
            if compared.difference and kind != OVERBOOKED:
                print(f"  {line['name']}{f' ({kind})' if kind == APART else ''}: {compared.difference}")
            elif kind == name:
                print(*(f"  {line['name']} message: {each}\n" for each in compared.messages if each), sep="", end="")
        for kind, each in found.items():
            if each or kind == name:
                print(f"{kind} {[one.difference for one in each].count('')}/{len(each)}{WHY.get(kind, '')}")
        failed += sum(1 for each in found[name] if each.difference)
        messages = [message for each in found[name] for message in each.messages]
        if messages:
            print(f"{name} messages {messages.count('')}/{len(messages)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
