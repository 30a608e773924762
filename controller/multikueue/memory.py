"""How much memory may be used for what worker clusters serve: a share of what the process has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from controller.kube.size_limit import MEBIBYTE

USUAL: Final = 1024 * MEBIBYTE
"""The memory limit of the chart, for a process without a limit."""
ONE_OF: Final = 32
"""One worker may use this part: 32 MiB of 1 GiB, which is enough for some thousand Jobs; never less than that."""
ALL_OF: Final = 4
"""All workers together may use this part."""
_NONE: Final = 2**60
"""A number that means no limit, in version 1 of cgroups."""


def shares(limit: int | None) -> tuple[int, int]:
    """Returns how many bytes one worker may use, and all together, of a process with this memory limit."""
    memory = USUAL if limit is None else limit
    return max(memory, USUAL) // ONE_OF, memory // ALL_OF


def limit(root: Path = Path("/sys/fs/cgroup"), member: Path = Path("/proc/self/cgroup")) -> int | None:
    """Returns the memory limit of this process, in bytes: the smallest of its cgroup and those above it; None if there
    is none.
    """
    try:
        lines = member.read_text().splitlines()
    except OSError:
        return None
    found: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top, name = (root, "memory.max") if not controllers else (root / "memory", "memory.limit_in_bytes")
            group = top / path.lstrip("/")
            found += [number for each in (group, *group.parents) if (number := _number(each / name)) is not None]
    return min(found, default=None)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < _NONE else None
