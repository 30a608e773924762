"""What was chosen for a Workload and its status does not keep: it is remembered while the quota is reserved."""

from __future__ import annotations

from api import names
from api.objects import Key, Raw
from core.wire.active import condition_of


class Choices:
    """By Workload. Empty after a change of the leader."""

    def __init__(self) -> None:
        self.ran: dict[Key, str] = {}
        """The worker that was chosen last: an eviction removes it from the status."""
        self.rounds: dict[Key, float] = {}
        """When workers were nominated last, in seconds since the epoch."""

    def changed(self, key: Key, raw: Raw | None) -> None:
        """A Workload has changed, or is found by a new leader."""
        held = condition_of(raw, names.Condition.QUOTA_RESERVED)
        if held is None or held["status"] != "True":
            self.ran.pop(key, None)
            self.rounds.pop(key, None)
        elif name := ((raw or {}).get("status") or {}).get("clusterName"):
            self.ran[key] = name
