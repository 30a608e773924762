"""What the controller counts, under Kueue's names, so that its dashboards and alerts work unchanged.

Counters and histograms live here and are told of each decision where it is applied. Gauges are not kept: they are
read from the caches when somebody scrapes (see ``controller.gauges``), so none can drift or outlive its queue. Every
series carries ``replica_role``: leader, follower or standalone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from core.model import Key

ROLE = "replica_role"
PER_CLUSTER_QUEUE = ("cluster_queue", "priority_class")
PER_LOCAL_QUEUE = ("name", "namespace", "priority_class")


def buckets(count: int) -> tuple[float, ...]:
    """Kueue's buckets in seconds: 1, then 2.5 doubling."""
    return (1.0, *(2.5 * 2**step for step in range(count - 1)))


class Metrics:
    """The counters and histograms. ``role`` is asked at each observation; ``local_queues`` adds the LocalQueue
    series.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        role: Callable[[], str] = lambda: "standalone",
        local_queues: Callable[[Key], bool] = lambda key: True,
    ) -> None:
        self.registry = registry
        self.role = role
        self.local_queues = local_queues
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def attempted(self, seconds: float, admitted: bool) -> None:
        """A scheduling cycle took so long, and admitted somebody or nobody."""
        result = "success" if admitted else "inadmissible"
        self._count("admission_attempts_total", ("result",), (result,))
        self._observe("admission_attempt_duration_seconds", ("result",), (result,), seconds, 14)

    def workload_created(self, job_kind: str, seconds: float) -> None:
        """A Workload was created so long after its job."""
        self._observe("workload_creation_latency_seconds", ("job_kind",), (job_kind,), seconds, 14)

    def quota_reserved(self, cluster_queue: str, queue: Key, priority_class: str, waited: float) -> None:
        """Quota was reserved, ``waited`` seconds after the workload was queued."""
        self._pair("quota_reserved_workloads_total", cluster_queue, queue, priority_class)
        self._pair_of_waits("quota_reserved_wait_time_seconds", cluster_queue, queue, priority_class, waited)

    def admitted(
        self,
        cluster_queue: str,
        queue: Key,
        priority_class: str,
        waited: float,
        checks: float | None,
        cohorts: Iterable[str] = (),
    ) -> None:
        """A workload was admitted, ``waited`` seconds after it was queued and ``checks`` after its reservation.

        ``cohorts`` are those above its ClusterQueue.
        """
        self._pair("admitted_workloads_total", cluster_queue, queue, priority_class)
        self._pair_of_waits("admission_wait_time_seconds", cluster_queue, queue, priority_class, waited)
        if checks is not None:
            self._pair_of_waits("admission_checks_wait_time_seconds", cluster_queue, queue, priority_class, checks)
        for cohort in cohorts:
            self._count(
                "cohort_subtree_admitted_workloads_total", ("cohort", "priority_class"), (cohort, priority_class)
            )

    def evicted(
        self, cluster_queue: str, queue: Key, reason: str, cause: str, priority_class: str, *, first: bool
    ) -> None:
        """A workload was evicted; ``first`` for this reason in its life."""
        names = ("cluster_queue", "reason", "underlying_cause", "priority_class")
        values = (cluster_queue, reason, cause, priority_class)
        self._count("evicted_workloads_total", names, values)
        if first:
            self._count("evicted_workloads_once_total", names, values)
        if self.local_queues(queue):
            self._count(
                "local_queue_evicted_workloads_total",
                ("name", "namespace", "reason", "underlying_cause", "priority_class"),
                (queue.name, queue.namespace, reason, cause, priority_class),
            )

    def stopped(self, cluster_queue: str, reason: str, seconds: float) -> None:
        """An evicted workload gave its quota back, so long after it was evicted."""
        names = ("cluster_queue", "reason")
        self._observe("workload_eviction_latency_seconds", names, (cluster_queue, reason), seconds, 14)

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """A workload was preempted for one in ``preempting_cluster_queue``."""
        self._count(
            "preempted_workloads_total", ("preempting_cluster_queue", "reason"), (preempting_cluster_queue, reason)
        )

    def finished(self, cluster_queue: str, queue: Key, priority_class: str, ran: float | None) -> None:
        """A workload finished after ``ran`` seconds of being admitted."""
        self._pair("finished_workloads_total", cluster_queue, queue, priority_class)
        if ran is not None:
            self._pair_of_waits("execution_time_seconds", cluster_queue, queue, priority_class, ran)

    def became_ready(self, cluster_queue: str, queue: Key, priority_class: str, queued: float, admitted: float) -> None:
        """All pods of a workload are ready, so long after it was queued and after it was admitted."""
        self._pair_of_waits("ready_wait_time_seconds", cluster_queue, queue, priority_class, queued)
        self._pair_of_waits("admitted_until_ready_wait_time_seconds", cluster_queue, queue, priority_class, admitted)

    def _pair(self, name: str, cluster_queue: str, queue: Key, priority_class: str) -> None:
        """Count by ClusterQueue, and by LocalQueue under the same name with its prefix."""
        self._count(name, PER_CLUSTER_QUEUE, (cluster_queue, priority_class))
        if self.local_queues(queue):
            self._count(f"local_queue_{name}", PER_LOCAL_QUEUE, (queue.name, queue.namespace, priority_class))

    def _pair_of_waits(self, name: str, cluster_queue: str, queue: Key, priority_class: str, seconds: float) -> None:
        self._observe(name, PER_CLUSTER_QUEUE, (cluster_queue, priority_class), seconds, 14)
        if self.local_queues(queue):
            values = (queue.name, queue.namespace, priority_class)
            self._observe(f"local_queue_{name}", PER_LOCAL_QUEUE, values, seconds, 14)

    def _count(self, name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> None:
        counter = self._counters.get(name)
        if counter is None:
            counter = Counter(f"kueue_{name}", _help(name), (*labels, ROLE), registry=self.registry)
            self._counters[name] = counter
        counter.labels(*values, self.role()).inc()

    def _observe(self, name: str, labels: tuple[str, ...], values: tuple[str, ...], seconds: float, count: int) -> None:
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = Histogram(
                f"kueue_{name}", _help(name), (*labels, ROLE), buckets=buckets(count), registry=self.registry
            )
            self._histograms[name] = histogram
        histogram.labels(*values, self.role()).observe(max(0.0, seconds))


def _help(name: str) -> str:
    return f"See Kueue's reference of metrics: {name.replace('_', ' ')}."
