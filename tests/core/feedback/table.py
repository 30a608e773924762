"""The tables of messages, whose rows become cases of tests: `jobs.yaml` for users who submit jobs, `queues.yaml` for
administrators.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from core.model import Raw
from core.wire.merge import merged
from tests.core.feedback.world import TEAMS, job, parsed, running, waiting


def _read(name: str) -> Raw:
    found: Raw = yaml.load(Path(__file__).with_name(name).read_text(), Loader=yaml.CSafeLoader)
    return found


_JOBS, _QUEUES = _read("jobs.yaml"), _read("queues.yaml")


def _object(written: Raw) -> Raw:
    """An object as a row has it: ``flavors`` are quotas by flavor and resource."""
    flavors = written.get("flavors")
    if flavors is None:
        return written
    groups = [
        {"name": name, "resources": [{"name": each, "nominalQuota": amount} for each, amount in quota.items()]}
        for name, quota in flavors.items()
    ]
    covered = [*next(iter(flavors.values()))]
    spec = {**written.get("spec", {}), "resourceGroups": [{"coveredResources": covered, "flavors": groups}]}
    return {**{key: value for key, value in written.items() if key != "flavors"}, "spec": spec}


def _manifests(listed: list[Raw]) -> str:
    return "".join(f"- {json.dumps(_object(each))}\n" for each in listed)


def _part(part: str | Raw, worlds: Mapping[str, str]) -> str:
    if isinstance(part, str):
        return worlds[part]
    for verb, write in (("running", running), ("waiting", waiting)):
        if verb in part:
            more = {name: value for name, value in part.items() if name != verb}
            return write(*part[verb], **more)
    return _manifests([part])


def _beside(row: Raw, worlds: Mapping[str, str]) -> str:
    return "".join(_part(each, worlds) for each in row.get("beside", ()))


WORLDS: Final = {name: _manifests(listed) for name, listed in _JOBS["worlds"].items()}
"""Manifests by the name under which rows have them."""
_OF_QUEUES: Final = {name: "".join(_part(each, {}) for each in listed) for name, listed in _QUEUES["worlds"].items()}


def cases() -> list[Any]:
    """Returns the rows as parameters: the job, the manifests beside the two teams, the rule, what it says."""
    return [
        pytest.param(
            job(**row.get("job", {})),
            _beside(row, WORLDS),
            row.get("rule", ""),
            row.get("says", ""),
            id=row["case"],
        )
        for row in _JOBS["cases"]
    ]


def known(kind: str, name: str) -> Raw:
    """An object of the two teams as it is."""
    found: Raw = next(raw for raw in parsed(TEAMS) if (raw["kind"], raw["metadata"]["name"]) == (kind, name))
    return found


def _changed(written: str | Raw | None) -> Raw | None:
    """The object before or after a change; of one of the two teams ``is`` the kind and the name."""
    if written is None:
        return None
    change: Raw = {"is": written} if isinstance(written, str) else written
    if "kind" in change:
        return _object(deepcopy(change))
    found = known(*change["is"].split())
    if "cpu" in change:
        found["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= change["cpu"]
    return merged(found, {"spec": _object(change).get("spec", {})})


def changes() -> list[Any]:
    """Returns the rows as parameters: the object after and before, the manifests beside the two teams, the rule, what
    it says.
    """
    return [
        pytest.param(
            _changed(row.get("new")),
            _changed(row.get("old")),
            _beside(row, _OF_QUEUES),
            row.get("rule", ""),
            row.get("says", ""),
            id=row["case"],
        )
        for row in _QUEUES["cases"]
    ]
