"""Every rule there is, by name: what the Configuration may speak of, and what the documentation lists."""

from __future__ import annotations

from typing import Final

from core.feedback.jobs import JOB_RULES

NAMES: Final = tuple(rule.name for rule in JOB_RULES)
