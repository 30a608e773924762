"""Compares topologies with recorded decisions: `python -m bench.topology_oracle DIRECTORY` (`make oracle
TOPOLOGY=DIRECTORY`).

A directory has any of `placement`, `cycle`, `encoding` and `dra` (claims of devices) as `.jsonl` or `.jsonl.xz`, one
scenario on each line. It prints the first difference of each line that differs, and `NAME N/M` for each file. Cycles
with the tag `overbooked` are counted apart: there Kueue gives a domain more than it has, and Seiretsu does not
(docs/topology.md). The exit code is 0 when all others agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.devices_lines import devices_of, expected
from bench.oracle import differences, scenarios
from bench.topology_cycles import OVERBOOKED, cycle_of
from bench.topology_encodings import encoding_of
from bench.topology_lines import placement_of
from core.model import Raw

Compare = Callable[[Raw], str]
"""Returns the first difference of a line, '' where there is none."""


def _placement(line: Raw) -> str:
    """Which pod sets are there, whether each fits, its levels and domains. Texts and stored forms are no difference."""
    want, have = line["expected"].get("podSets") or {}, placement_of(line)
    for name in sorted({*want, *have}):
        one, other = _fit(want.get(name)), _fit(have.get(name))
        if one != other:
            return f"{name}: expected {one}, got {other}"
    return ""


def _fit(pod_set: Any) -> Any:
    if pod_set is None or "domains" not in pod_set:
        return None if pod_set is None else "does not fit"
    ordered = sorted(pod_set["domains"], key=lambda domain: domain["values"])
    return {"levels": pod_set["levels"], "domains": ordered}


def _cycle(line: Raw) -> str:
    return next(iter(differences(line["expected"], cycle_of(line))), "")


def _encoding(line: Raw) -> str:
    want, have = _filled(line["expected"]), _filled(encoding_of(line))
    return "" if want == have else f"expected {want}, got {have}"


def _dra(line: Raw) -> str:
    want, have = _filled(expected(line)), _filled(devices_of(line))
    return "" if want == have else f"expected {want}, got {have}"


def _filled(value: Any) -> Any:
    """Without empty fields, which are as good as none."""
    if isinstance(value, dict):
        filled = {name: _filled(each) for name, each in value.items()}
        return {name: each for name, each in filled.items() if each not in (None, [], {})}
    return [_filled(each) for each in value] if isinstance(value, list) else value


COMPARED: Final[dict[str, Compare]] = {"placement": _placement, "cycle": _cycle, "encoding": _encoding, "dra": _dra}


def judged(path: Path, only: str = "") -> Iterator[tuple[Raw, str]]:
    """Yields each line of a file with its first difference."""
    compare = COMPARED[path.name.split(".")[0]]
    for line in scenarios(path):
        if only in line["name"]:
            yield line, compare(line)


def is_overbooked(line: Raw) -> bool:
    """Whether Kueue gave a domain more than it has."""
    return OVERBOOKED in line.get("tags", ())


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
        found: dict[str, list[str]] = {path.name.split(".")[0]: [], OVERBOOKED: []}
        for line, difference in judged(path, options.only):
            kind = OVERBOOKED if is_overbooked(line) else path.name.split(".")[0]
            found[kind].append(difference)
            if difference and kind != OVERBOOKED:
                print(f"  {line['name']}: {difference}")
        for kind, each in found.items():
            if each or kind != OVERBOOKED:
                agree = each.count("")
                apart = " (Kueue gives a domain more than it has: a difference is right)" if kind == OVERBOOKED else ""
                print(f"{kind} {agree}/{len(each)}{apart}")
                failed += len(each) - agree if kind != OVERBOOKED else 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
