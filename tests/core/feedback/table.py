"""The table of messages for users who submit jobs: `jobs.yaml`, whose rows become cases of tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from core.model import Raw
from tests.core.feedback.world import job, running, waiting

_TABLE: Final = yaml.load(Path(__file__).with_name("jobs.yaml").read_text(), Loader=yaml.CSafeLoader)


def _manifests(listed: list[Raw]) -> str:
    return "".join(f"- {json.dumps(each)}\n" for each in listed)


WORLDS: Final[dict[str, str]] = {name: _manifests(listed) for name, listed in _TABLE["worlds"].items()}
"""Manifests by the name under which rows have them."""


def _beside(part: str | Raw) -> str:
    if isinstance(part, str):
        return WORLDS[part]
    for verb, write in (("running", running), ("waiting", waiting)):
        if verb in part:
            more = {name: value for name, value in part.items() if name != verb}
            return write(*part[verb], **more)
    return _manifests([part])


def cases() -> list[Any]:
    """Returns the rows as parameters: the job, the manifests beside the two teams, the rule, what it says."""
    return [
        pytest.param(
            job(**row.get("job", {})),
            "".join(map(_beside, row.get("beside", ()))),
            row.get("rule", ""),
            row.get("says", ""),
            id=row["case"],
        )
        for row in _TABLE["cases"]
    ]
