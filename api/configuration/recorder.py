"""The section `seiretsu.recorder`: whether the decisions of each cycle are recorded with their input, and where.

Kueue has no recorder.
"""

from api.configuration.base import Section
from api.configuration.resources import Quantity


class Recorder(Section):
    """A recording of the scheduler, which `seiretsu replay` plays again."""

    enable: bool = False
    """Without it nothing is recorded."""
    directory: str = "/var/lib/seiretsu/recordings"
    """Where the files are."""
    max_size: Quantity = "256Mi"
    """The most that all files together have; then the oldest is deleted."""
