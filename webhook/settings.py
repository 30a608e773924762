"""What the operator decided, as far as admission goes: the part of the Configuration that hooks and handlers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from api import names
from core.lookup import Lookup
from core.model import Raw
from webhook.expressions import Expression
from webhook.policy import Policy


@dataclass(frozen=True, slots=True)
class Settings:
    """Frozen for the life of the process.

    ``managed_jobs_namespace_selector`` is a metav1.LabelSelector (None is Kueue's default: all but system namespaces).
    ``frameworks`` are the enabled integrations by Kueue's names, ``external_frameworks`` those whose controllers are
    others' (``Kind.version.group``). ``gates`` holds those the operator set; one that is not there has Kueue's default.
    """

    namespace: str = names.NAMESPACE
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: Raw | None = None
    frameworks: frozenset[str] = frozenset({"batch/job"})
    external_frameworks: frozenset[str] = frozenset()
    gates: Mapping[str, bool] = field(default_factory=dict)
    feedback: Policy = field(default_factory=Policy)
    expressions: tuple[Expression, ...] = ()

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on."""
        return self.gates.get(gate, gate not in OFF_BY_DEFAULT)


OFF_BY_DEFAULT = frozenset({"PriorityBoost", "RejectUpdatesToCQWithInvalidOnFlavors", "ConcurrentAdmission"})
"""The gates that admission reads and that Kueue 0.20 ships switched off."""


@dataclass(frozen=True, slots=True)
class Context:
    """All that a handler may look at besides its request."""

    settings: Settings
    lookup: Lookup
