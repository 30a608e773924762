"""The section `seiretsu.history`: whether finished workloads, waits and use are recorded, and where.

Kueue has no history.
"""

from datetime import timedelta

from api.configuration.base import Duration, Section
from api.configuration.resources import Quantity


class History(Section):
    """A record of what happened, in SQLite or PostgreSQL; `seiretsu report` reads it."""

    enable: bool = False
    """Without it nothing is recorded."""
    directory: str = "/var/lib/seiretsu"
    """Where the file of SQLite is: a volume that outlives the process."""
    url_file: str = ""
    """A file with the URL of a PostgreSQL server, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, instead of a
    directory. The URL is a secret, so it is not in the Configuration.
    """
    max_age: Duration = timedelta(days=90)
    """What ended before is deleted."""
    max_size: Quantity = "1Gi"
    """If the file has more than this, what ended first is deleted; PostgreSQL deletes by age alone."""
    users: bool = True
    """Whether it is recorded who queued a job: admission writes the user name into an annotation of the job."""
    shared_volume: bool = False
    """Whether the directory is on a network file system that several replicas use."""
