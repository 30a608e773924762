"""The kinds of jobs there are. One entry a kind; its file says the rest."""

from __future__ import annotations

from typing import Final

from core.jobs.batch import BatchJob
from core.jobs.kind import JobKind

BATCH_JOB: Final = BatchJob()

_ALL: Final[tuple[JobKind, ...]] = (BATCH_JOB,)
KINDS: Final[dict[str, JobKind]] = {kind.framework: kind for kind in _ALL}
"""By name in ``integrations.frameworks`` of the Configuration."""
