"""The section `seiretsu.guard`: what is done about pods that run without quota.

Kueue does not look for them.
"""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from api.configuration.base import Duration, Section
from api.configuration.resources import Quantity


def _injected() -> dict[str, Quantity]:
    return {"cpu": "500m", "memory": "512Mi"}


class Guard(Section):
    """The guard, which compares the pods that run with what was admitted."""

    action: Literal["Evict", "Warn", "Ignore"] = "Evict"
    """Evict stops what runs without quota, Warn writes an event and counts it, Ignore does not look: pods are not
    watched.
    """
    injected_requests: dict[str, Quantity] = Field(default_factory=_injected)
    """What a pod may request beyond its template if it has containers that the template has not: those that other
    webhooks and operators add.
    """
    overlap: Duration = timedelta(seconds=60)
    """For how long pods of a whole job that terminate may run beside those that replace them, before their grace period
    is ended: 5 % of the time in which the job has had quota, up to this.
    """
