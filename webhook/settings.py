"""What the operator decided, as far as admission goes: the part of the Configuration that hooks and handlers read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from api import feature_gates, names
from core.feedback.accepted import Accepted
from core.feedback.rules import Spent, never
from core.model import Labels, Raw
from core.state.lookup import Lookup
from core.wire.pod_requests import RequestRules
from webhook.expressions import Expression
from webhook.policy import Policy
from webhook.review import Request

ADVICE_SECONDS: Final = 0.3
"""What advice about one object may take; others wait meanwhile, the API server for seconds at most."""


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
    gates: feature_gates.Gates = field(default_factory=dict)
    feedback: Policy = field(default_factory=Policy)
    expressions: tuple[Expression, ...] = ()

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on."""
        return feature_gates.enabled(gate, self.gates)


@dataclass(frozen=True, slots=True)
class Account:
    """The account that our controller writes with: its user name as the API server authenticates it, '' for unknown.

    ``shared`` means that people write with this account too (``serve`` outside the cluster with a person's
    kubeconfig): there a write is ours only if it also has our field manager. The field manager alone proves nothing,
    any client can set it.
    """

    name: str = ""
    shared: bool = False

    def wrote(self, request: Request) -> bool:
        """Whether our controller sent this request; False as long as the account is not known."""
        if not self.name or request.username != self.name:
            return False
        return not self.shared or request.field_manager in names.JOB_WRITERS


@dataclass(frozen=True, slots=True)
class Context:
    """All that a handler may look at besides its request. ``accepted`` is what it remembers of earlier ones.

    ``account`` is a function because the process learns its account from the API server, after the routes are made.
    ``worked`` counts the CPU time of this thread, and ``spent`` is whether advice about this review has had its share.
    """

    settings: Settings
    lookup: Lookup
    accepted: Accepted = field(default_factory=Accepted)
    clock: Callable[[], float] = time.monotonic
    account: Callable[[], Account] = Account
    worked: Callable[[], float] = time.thread_time
    spent: Spent = never

    def for_one(self) -> Context:
        """The context of one review, whose advice may cost ``ADVICE_SECONDS`` of CPU from now on."""
        end = self.worked() + ADVICE_SECONDS
        return replace(self, spent=lambda: self.worked() >= end)

    def labels_of(self, namespace: str) -> Labels | None:
        """The labels of a namespace; None for none, or as long as the caches do not know."""
        return self.lookup.namespace_labels(namespace) if namespace and self.lookup.synced else None

    def rules_of(self, namespace: str) -> RequestRules:
        """What pods of a namespace really ask for follows from; nothing is added as long as the caches do not know."""
        return self.lookup.request_rules(namespace) if self.lookup.synced else RequestRules()
