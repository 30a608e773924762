"""Counts and logs the verdicts of webhooks: refusals with their reasons, at the level `debug` every verdict."""

from __future__ import annotations

import logging
import time
from collections import Counter as Counts
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from webhook.hooks import Hook
from webhook.review import Request, Response, clipped

_NAME: Final = "seiretsu.admission"
_LONGEST_MESSAGE: Final = 1000
LINES_A_MINUTE: Final = 20
"""For each namespace."""
ALL_LINES_A_MINUTE: Final = 200
log = structlog.get_logger(_NAME)


def verdict_of(response: Response) -> str:
    """Returns the verdict in one word."""
    if not response.allowed:
        return "failed" if response.code >= 500 else "refused"
    if response.patch:
        return "changed"
    return "warned" if response.warnings else "allowed"


class Lines:
    """Decides which refusals are logged: so many a minute for each namespace and in all. A client that is refused
    repeats its request, and must not fill the log; the metrics count every refusal.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._minute = 0
        self._written: Counts[str] = Counts()
        self._left_out: Counts[str] = Counts()

    def take(self, namespace: str) -> bool:
        """Whether a line about this namespace is logged; before the first line of a minute, logs what was left out."""
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute = minute
            self._report()
        if self._written[namespace] >= LINES_A_MINUTE or self._written.total() >= ALL_LINES_A_MINUTE:
            self._left_out[namespace if namespace in self._written else ""] += 1
            return False
        self._written[namespace] += 1
        return True

    def _report(self) -> None:
        if self._left_out:
            log.info(
                "more admissions were refused than are logged",
                left_out=self._left_out.total(),
                most_in=self._left_out.most_common(1)[0][0],
                metric="seiretsu_admission_verdicts_total",
            )
        self._written.clear()
        self._left_out.clear()


class Verdicts:
    """Observes each review: `webhook.routes.Observe`."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
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
        self._lines = Lines(clock)

    def __call__(self, hook: Hook, request: Request, response: Response) -> None:
        """Counts the verdict, and logs it."""
        verdict = verdict_of(response)
        self._verdicts.labels(hook.path, request.operation, verdict).inc()
        for rule, action in response.rules:
            self._rules.labels(rule, action).inc()
        if not self._every.isEnabledFor(logging.DEBUG) and (
            response.allowed or not self._lines.take(request.namespace)
        ):
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
