"""The metrics of the process: calls of its webhooks, the delay of its event loop, the expiration of its certificate.

A separate registry, in which the controller's metrics (Kueue's names) are registered too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.internals import Pauses

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""The delay of the event loop is to be under 20 ms: a bucket ends there."""


SLICE_SECONDS = 0.002
"""The time for which a scrape reads data of the event loop before it yields."""

FamilySource = Callable[[], Iterator[Metric | None]]
"""Reads data of the event loop; other tasks can run after each step (None: no family is complete yet)."""


class ProcessMetrics:
    """The registry and the series of the process. The registry is rendered in a thread; data of the event loop is read
    by ``sources``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sources: list[FamilySource] = []
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.calls = Counter(
            "seiretsu_webhook_requests_total", "Webhook calls", ["path", "code"], registry=self.registry
        )
        self.refused = Counter(
            "seiretsu_webhook_bad_requests_total",
            "Requests refused before or for what they contain (status 4xx)",
            ["code"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "seiretsu_webhook_request_duration_seconds",
            "Time from the end of the request's head to the end of the answer",
            ["path"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "seiretsu_webhook_requests_in_flight", "Webhook calls being answered", registry=self.registry
        )
        self.lag = Histogram(
            "seiretsu_event_loop_lag_seconds",
            "Seconds by which a timer of the event loop ran late",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        tasks = Gauge(
            "seiretsu_event_loop_tasks", "Tasks of the event loop that have not ended", registry=self.registry
        )
        self.sources.append(lambda: _counted(tasks))
        self.pauses = Pauses(self.registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Counts a call of a hook and its answer (status `0`: no answer)."""
        self.calls.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)
        if 400 <= status < 500:
            self.refused.labels(str(status)).inc()

    async def page(self) -> bytes:
        """Returns all series as text, rendered in a thread: thousands take longer than a webhook may wait."""
        families: list[Metric] = []
        resumed = time.monotonic()
        for source in self.sources:
            for family in source():
                if family is not None:
                    families.append(family)
                if time.monotonic() - resumed >= SLICE_SECONDS:
                    await asyncio.sleep(0)
                    resumed = time.monotonic()
        read = CollectorRegistry()
        read.register(_Read(families))
        return b"".join([await asyncio.to_thread(generate_latest, each) for each in (self.registry, read)])


def _counted(tasks: Gauge) -> Iterator[None]:
    """Sets the number of tasks, which only the event loop's own thread can count."""
    tasks.set(len(asyncio.all_tasks()))
    yield None


class _Read(Collector):
    """A collector of metric families that have been read already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def describe(self) -> Iterator[Metric]:
        """Yields nothing, so that the registry does not compare names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Returns the families."""
        return iter(self._families)


class ClientCalls(Collector):
    """`rest_client_requests_total`, controller-runtime's name for calls to the API server, read from the client."""

    def __init__(self, answers: Mapping[tuple[str, str, int], int]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Metric]:
        """Yields one series for each verb, resource and status; a call without an answer has status `0`."""
        family = CounterMetricFamily(
            "rest_client_requests_total", "Calls to the API server", labels=["method", "resource", "code"]
        )
        for (verb, resource, status), count in sorted(self._answers.items()):
            family.add_metric([verb, resource, str(status)], count)
        yield family
