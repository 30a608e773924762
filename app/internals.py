"""Metrics of the process, read at each scrape: leader, fence, caches, budget of writes, certificates.

They have Seiretsu's own names: Kueue has no such metrics.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from certs.keeper import Keeper
from certs.live import LiveContext
from certs.plan import RotationStep
from controller.kube.client import Client
from controller.kube.flow.budget import Budget
from controller.kube.reflector import Reflector
from controller.reconcilers.guard import DEEDS, PodGuard

PAUSES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Pauses:
    """Measures how long each garbage collection stops the process."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = 0.0
        self._seconds = Histogram(
            "seiretsu_gc_pause_seconds",
            "Time for which a garbage collection stopped the process",
            ["generation"],
            buckets=PAUSES,
            registry=registry,
        )
        for generation in range(3):
            self._seconds.labels(str(generation))

    def start(self) -> None:
        """Measures from now on."""
        gc.callbacks.append(self.collected)

    def stop(self) -> None:
        """Measures no longer."""
        if self.collected in gc.callbacks:
            gc.callbacks.remove(self.collected)

    def collected(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection starts or stops, as ``gc.callbacks`` reports it."""
        if phase == "start":
            self._began = self._clock()
        else:
            self._seconds.labels(str(info["generation"])).observe(self._clock() - self._began)


def of_controller(
    client: Client,
    reflectors: Iterable[Reflector[Any]],
    budget: Budget,
    leads: Callable[[], bool],
    guard: PodGuard | None = None,
) -> Iterator[Metric]:
    """Yields what is known of the controller."""
    leader = GaugeMetricFamily("seiretsu_leader", "1 if this replica leads: it admits and writes")
    leader.add_metric([], float(leads()))
    yield leader
    fenced = CounterMetricFamily(
        "seiretsu_fenced_writes_total", "Writes that were not sent because the lease had ended"
    )
    fenced.add_metric([], client.fenced)
    yield fenced
    age = GaugeMetricFamily(
        "seiretsu_informer_age_seconds",
        "Time since the last message of a watch; over 95 a cache may be stale",
        labels=["resource"],
    )
    relists = CounterMetricFamily(
        "seiretsu_informer_relists_total", "Lists of a resource, by reason", labels=["resource", "reason"]
    )
    errors = CounterMetricFamily(
        "seiretsu_informer_watch_errors_total", "Watches that failed", labels=["resource", "error"]
    )
    skipped = CounterMetricFamily(
        "seiretsu_informer_undecodable_total",
        "Objects that could not be decoded and were left out",
        labels=["resource"],
    )
    for each in reflectors:
        plural = each.resource.plural
        age.add_metric([plural], each.last_event_age())
        skipped.add_metric([plural], each.undecodable)
        for reason, count in sorted(each.relists.items()):
            relists.add_metric([plural, reason], count)
        for error, count in sorted(each.watch_errors.items()):
            errors.add_metric([plural, error], count)
    yield from (age, relists, errors, skipped)
    interval = GaugeMetricFamily(
        "seiretsu_write_budget_interval_seconds", "Time between writes that can wait: statuses, counts, events"
    )
    interval.add_metric([], budget.pressure.interval)
    slowdown = GaugeMetricFamily(
        "seiretsu_write_slowdown_ratio", "Latency of writes, as a multiple of that of an idle API server"
    )
    slowdown.add_metric([], budget.pressure.slowdown)
    waiting = GaugeMetricFamily("seiretsu_write_budget_waiting", "Writes that wait for the budget")
    waiting.add_metric([], budget.waiting)
    yield from (interval, slowdown, waiting)
    if guard is not None:
        watched = GaugeMetricFamily("seiretsu_guard_pods", "Pods on nodes that the guard counts for their jobs")
        watched.add_metric([], len(guard.pods))
        stopped = CounterMetricFamily(
            "seiretsu_guard_stops_total", "What was stopped, or reported, because it ran without quota", labels=["what"]
        )
        for what in DEEDS:
            stopped.add_metric([what], guard.did[what])
        yield from (watched, stopped)


def of_certificates(live: LiveContext, keeper: Keeper | None) -> Iterator[Metric]:
    """Yields what is known of the certificates."""
    expires = GaugeMetricFamily(
        "seiretsu_certificate_expiration_timestamp_seconds", "When the serving certificate expires, in Unix time"
    )
    if live.pair is not None:
        expires.add_metric([], live.pair.certificate.not_after.timestamp())
    yield expires
    if keeper is None:
        return
    authority = GaugeMetricFamily(
        "seiretsu_ca_expiration_timestamp_seconds", "When the CA that signs expires, in Unix time"
    )
    if keeper.record is not None and keeper.record.signing is not None:
        authority.add_metric([], keeper.record.signing.certificate.not_after.timestamp())
    steps = CounterMetricFamily(
        "seiretsu_ca_rotation_steps_total", "Steps of the rotation of the CA that this replica stored", labels=["step"]
    )
    for step in RotationStep:
        steps.add_metric([step.name.lower()], keeper.steps[step])
    published = CounterMetricFamily("seiretsu_ca_bundle_writes_total", "Times that a caBundle was written")
    published.add_metric([], keeper.writes)
    restored = CounterMetricFamily(
        "seiretsu_ca_restorations_total", "Times that the stored CA was lost, invalid or replaced, and was repaired"
    )
    restored.add_metric([], keeper.restored)
    yield from (authority, steps, published, restored)
