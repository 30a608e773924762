"""The CPU time of a whole process, user and system: what a command of the shell costs.

``python -m bench.command 9 -- kubectl seiretsu explain JOB`` runs it nine times and prints the median and the range.
With several commands, separated by ``--``, they are run in turns, so that other load falls on all of them alike.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence


def seconds(command: Sequence[str]) -> float:
    """Returns the CPU time of one run, with that of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    runs, commands = int(arguments[0]), _split(arguments[1:])
    found: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for place, command in enumerate(commands):
            found[place].append(seconds(command))
    for command, each in zip(commands, found, strict=True):
        print(f"{statistics.median(each):.2f} s ({min(each):.2f} to {max(each):.2f})  {' '.join(command)}")
    return 0


def _split(words: Sequence[str]) -> list[list[str]]:
    """The commands between the words ``--``."""
    found: list[list[str]] = []
    for word in words:
        if word == "--":
            found.append([])
        else:
            found[-1].append(word)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
