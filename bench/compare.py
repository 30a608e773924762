"""Figures of several runs side by side: ``python -m bench.compare ours.json kueue.json floor.json``.

The files are those that benches write with ``--json``. The last columns divide the first run by each of the others.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import report


def numbers(figures: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Yields every number of nested figures, with the names on the way to it."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{before}{name}: ")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield before + name, float(value)


def rows(runs: list[Mapping[str, Any]]) -> list[list[object]]:
    """Returns a row for each number of the first run: its name, the number in each run, and the ratios; an empty cell
    where a run lacks it.
    """
    first, *others = (dict(numbers(one)) for one in runs)
    found: list[list[object]] = []
    for name, value in first.items():
        theirs = [one.get(name) for one in others]
        ratios = [value / one if one else "" for one in theirs]
        found.append([name, value, *("" if one is None else one for one in theirs), *ratios])
    return found


def differing_versions(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a warning if the runs served different versions of Workloads, each of which costs conversions."""
    served = {name: ", ".join(one["served versions"]) for name, one in runs.items() if "served versions" in one}
    if len(set(served.values())) <= 1:
        return ""
    found = "; ".join(f"{name}: {versions}" for name, versions in served.items())
    return f"do not compare these runs: they served different versions of Workloads ({found})"


def main() -> None:
    """Parses the arguments and prints the table."""
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="FILE")
    files: list[Path] = parser.parse_args().runs
    runs = [json.loads(one.read_text()) for one in files]
    names = [one.stem for one in files]
    if warning := differing_versions(dict(zip(names, runs, strict=True))):
        print(warning)
    header = ["", *names, *(f"{names[0]} / {other}" for other in names[1:])]
    report.table("figures", header, rows(runs))


if __name__ == "__main__":
    main()
