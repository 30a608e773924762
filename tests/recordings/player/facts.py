"""The results format: recorded changes, the state they add up to after each step, and how two states differ."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Obj = dict[str, Any]
ANY = "?"  # a golden value that the reference implementation itself did not repeat


def load(path: str | Path) -> Obj:
    """The scenarios of a results file, which may be compressed (``.json.xz``)."""
    content = Path(path).read_bytes()
    text = lzma.decompress(content) if Path(path).suffix == ".xz" else content
    scenarios: Obj = json.loads(text)["scenarios"]
    return scenarios


def save(path: str | Path, results: Obj) -> None:
    """Write results with one scenario on a line, in a stable order."""
    lines = ",\n".join(
        f"{json.dumps(n)}: {json.dumps(r, separators=(',', ':'), sort_keys=True)}" for n, r in sorted(results.items())
    )
    Path(path).write_text(f'{{"format": 1, "scenarios": {{\n{lines}\n}}}}\n')


def changes(before: Obj, after: Obj) -> Obj:
    """The objects that differ between two pictures; None stands for one that is gone."""
    return {key: after.get(key) for key in sorted(before | after) if before.get(key) != after.get(key)}


def pictures(report: Obj) -> list[Obj]:
    """The whole picture after each step, put together from the recorded changes."""
    facts: Obj = {}
    found = []
    for step in report["steps"]:
        facts = {k: v for k, v in (facts | step["changes"]).items() if v is not None}
        found.append({"step": {"result": step["result"]}} | facts)
    return found


def differing(want: Obj, have: Obj) -> Iterator[tuple[str, str, Any, Any]]:
    """Object, fact and both values wherever two pictures differ."""
    for name in sorted(want | have):
        left, right = want.get(name, {}), have.get(name, {})
        if not left or not right:
            yield name, "there", bool(left), bool(right)
            continue
        for key in sorted(left | right):
            if left.get(key) not in (ANY, right.get(key)):
                yield name, key, left.get(key), right.get(key)
