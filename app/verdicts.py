"""Counts and logs the verdicts of webhooks: refusals with their reasons, at the level `debug` every verdict."""

from __future__ import annotations

import logging
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from webhook.hooks import Hook
from webhook.review import Request, Response, clipped

_NAME: Final = "seiretsu.admission"
_LONGEST_MESSAGE: Final = 1000
log = structlog.get_logger(_NAME)


def verdict_of(response: Response) -> str:
    """Returns the verdict in one word."""
    if not response.allowed:
        return "failed" if response.code >= 500 else "refused"
    if response.patch:
        return "changed"
    return "warned" if response.warnings else "allowed"


class Verdicts:
    """Observes each review: `webhook.routes.Observe`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._verdicts = Counter(
            "seiretsu_admission_verdicts_total",
            "Verdicts of webhooks: allowed, warned, changed, refused, failed",
            ["hook", "operation", "verdict"],
            registry=registry,
        )
        self._rules = Counter(
            "seiretsu_feedback_findings_total",
            "Findings of the rules of feedback, by what the Configuration does about them: Ignore, Warn, Deny",
            ["rule", "action"],
            registry=registry,
        )
        self._every = logging.getLogger(_NAME)

    def __call__(self, hook: Hook, request: Request, response: Response) -> None:
        """Counts the verdict, and logs it."""
        verdict = verdict_of(response)
        self._verdicts.labels(hook.path, request.operation, verdict).inc()
        for rule, action in response.rules:
            self._rules.labels(rule, action).inc()
        if response.allowed and not self._every.isEnabledFor(logging.DEBUG):
            return
        (log.debug if response.allowed else log.info)(
            f"admission {verdict}",
            kind=request.kind,
            namespace=request.namespace,
            name=request.name,
            operation=request.operation,
            user=request.username,
            hook=hook.path,
            **({"message": clipped(response.message, _LONGEST_MESSAGE)} if response.message else {}),
            **({"warnings": list(response.warnings)} if response.warnings else {}),
            **({"dry_run": True} if request.dry_run else {}),
        )
