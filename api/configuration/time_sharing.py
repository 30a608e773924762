"""The section `seiretsu.timeSharing`: workloads that have run for long give way to others of the same priority.

What Kueue's separate program kueue-priority-booster does, with its names.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from api.configuration.base import Duration, Int32, Section
from api.v1beta2.base import LabelSelector


class TimeSharing(Section):
    """The priority of a workload is lower once it has been admitted for so long."""

    interval: Duration = timedelta()
    """0: never."""
    negative_boost: Annotated[int, Field(ge=1, lt=1 << 31)] = 100_000
    """By so much lower."""
    workload_selector: LabelSelector | None = None
    """Which workloads; absent is all."""
    max_workload_priority: Int32 | None = None
    """Workloads with a higher priority keep it."""
