"""Fields of a job by their path: the object or list element that is there, and a copy with another value there."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from core.model import Raw

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and indexes of lists, from the job down; ``()`` is the job itself."""


class Setting(NamedTuple):
    """A field and the value it has or gets."""

    path: Path
    value: Any


def at(job: Raw, path: Path) -> Any:
    """Returns the value at a path; None if there is none."""
    found: Any = job
    for step in path:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list) and step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def changed(job: Raw, path: Path, value: Any) -> Raw:
    """Returns a copy of the job with ``value`` at a path; other parts are shared with the job."""
    result: Raw = _changed(job, path, value)
    return result


def without(job: Raw, path: Path) -> Raw:
    """Returns a copy of the job without the field at a path; the job itself if it has none."""
    parent = at(job, path[:-1])
    if not isinstance(parent, dict) or path[-1] not in parent:
        return job
    return changed(job, path[:-1], {key: value for key, value in parent.items() if key != path[-1]})


def dotted(path: Path) -> str:
    """The path as messages have it, for example ``spec.replicatedJobs[0].template``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _changed(holder: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [_changed(each, rest, value) if place == step else each for place, each in enumerate(holder)]
    holder = holder or {}
    return {**holder, step: _changed(holder.get(step), rest, value)}
