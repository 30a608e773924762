"""The settings of admission: the part of the Configuration that hooks and handlers use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from api import feature_gates, names
from core.feedback.accepted import Accepted
from core.feedback.rules import IsSpent, never
from core.forecast.basis import Basis
from core.model import Labels, Raw
from core.state.lookup import Lookup
from core.wire.pod_requests import RequestRules
from webhook.expressions import Expression
from webhook.policy import FeedbackPolicy
from webhook.review import Request

ADVICE_SECONDS: Final = 0.3
"""The CPU time for advice about one object; other requests wait meanwhile, the API server for seconds at most."""


@dataclass(frozen=True, slots=True)
class TrustedControllers:
    """Which accounts are believed to be controllers of jobs (``webhook.trust``): those named, ``:*`` at the end for all
    ServiceAccounts of a namespace, and with ``by_rights`` those that may do what only a controller does.
    """

    accounts: frozenset[str] = frozenset()
    by_rights: bool = True


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Constant for the life of the process.

    ``managed_jobs_namespace_selector`` is a metav1.LabelSelector (None is Kueue's default: all but system namespaces).
    ``frameworks`` are the enabled integrations by Kueue's names, ``external_frameworks`` those with other controllers
    (``Kind.version.group``). ``gates`` has those the operator set; the others have Kueue's default. ``policies`` is
    whether the API server enforces the validating policies of ``webhook.backstop``: no hook is needed for the same.
    ``records_users`` is whether a job gets the name of the user who queued it.
    """

    namespace: str = names.NAMESPACE
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: Raw | None = None
    frameworks: frozenset[str] = frozenset(names.DEFAULT_FRAMEWORKS)
    external_frameworks: frozenset[str] = frozenset()
    gates: feature_gates.Gates = field(default_factory=dict)
    feedback: FeedbackPolicy = field(default_factory=FeedbackPolicy)
    expressions: tuple[Expression, ...] = ()
    controllers: TrustedControllers = field(default_factory=TrustedControllers)
    policies: bool = False
    records_users: bool = False

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on."""
        return feature_gates.enabled(gate, self.gates)


@dataclass(frozen=True, slots=True)
class ControllerAccount:
    """The account with which the controller writes: its user name as the API server authenticates it, '' for unknown.

    ``shared`` means that people write with this account too (``serve`` outside the cluster with a person's kubeconfig):
    then a write is the controller's only if it also has its field manager. The field manager alone proves nothing, any
    client can set it.
    """

    name: str = ""
    shared: bool = False

    def wrote(self, request: Request) -> bool:
        """Whether the controller sent this request; False while the account is not known."""
        if not self.name or request.username != self.name:
            return False
        return not self.shared or request.field_manager in names.JOB_WRITERS


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a handler may read besides its request. ``accepted`` has earlier jobs.

    ``account`` is a function because the process gets its account from the API server after the routes are created.
    ``worked`` returns the CPU time of this thread, and ``spent`` is whether the time for advice about this review is
    used up. ``basis`` is what a forecast for a dry run is made from; None if nothing is forecast.
    """

    settings: WebhookSettings
    lookup: Lookup
    accepted: Accepted = field(default_factory=Accepted)
    clock: Callable[[], float] = time.monotonic
    account: Callable[[], ControllerAccount] = ControllerAccount
    worked: Callable[[], float] = time.thread_time
    spent: IsSpent = never
    basis: Basis | None = None

    def for_one(self) -> Context:
        """Returns the context of one review, whose advice may cost ``ADVICE_SECONDS`` of CPU from now on."""
        began, end = self.clock(), self.worked() + ADVICE_SECONDS

        def spent() -> bool:  # a thread works no longer than time passes, and only its CPU time costs a system call
            return self.clock() - began >= ADVICE_SECONDS and self.worked() >= end

        return replace(self, spent=spent)

    def labels_of(self, namespace: str) -> Labels | None:
        """Returns the labels of a namespace; None for no namespace, or while the caches do not have it."""
        return self.lookup.namespace_labels(namespace) if namespace and self.lookup.synced else None

    def rules_of(self, namespace: str) -> RequestRules:
        """Returns the rules of effective requests in a namespace; without additions while the caches do not have it."""
        return self.lookup.request_rules(namespace) if self.lookup.synced else RequestRules()
