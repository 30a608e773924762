"""A finding of ``seiretsu doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
"""An error is something that does not work; a warning is something that will not, or that few people want."""


@dataclass(frozen=True, slots=True)
class DiagnosisFinding:
    """Something that is wrong: where, what, and what to do."""

    severity: Severity
    subject: str
    message: str
    fix: str
