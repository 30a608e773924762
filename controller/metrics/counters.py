"""The controller's counters, with Kueue's names, so that Kueue's dashboards and alerts work unchanged.

Counters and histograms are in this module. Transitions of Workloads are counted from their objects
(``core.workload.milestones``), regardless of the client that wrote them; facts that only a decision has (cycles,
preemptors) are counted where it is applied. Gauges are not stored: they are computed from the caches at each scrape
(see ``controller.metrics.gauges``), so they cannot drift or outlive their queue. ``api.metrics.families`` has the
names and descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import assert_never

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from api import names
from api.metrics.custom_labels import CustomLabels
from api.metrics.families import CLUSTER_QUEUE, FAMILIES, LOCAL_QUEUE, ROLE, WORKLOAD, Subject, full_name, subject_of
from core.model import Key, Plan, Reserve, Workload
from core.quota.reservations import local_queue_of
from core.workload.milestones import Admitted, BecameReady, Evicted, Finished, Milestone, QuotaReserved, Released

# A second series for each counter and histogram would double the page; Kueue has none of them.
disable_created_metrics()  # type: ignore[no-untyped-call]


class QueueingMetrics:
    """The counters and histograms. ``role`` is called at each observation; ``local_queues`` returns which LocalQueues
    have series, ``cohorts`` returns those above a ClusterQueue, and ``hidden`` families do not exist.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        role: Callable[[], str] = lambda: "standalone",
        local_queues: Callable[[Key], bool] = lambda key: True,
        cohorts: Callable[[str], Iterable[str]] = lambda cluster_queue: (),
        custom: CustomLabels | None = None,
        hidden: Container[str] = (),
    ) -> None:
        self.registry = registry
        self.role = role
        self.local_queues = local_queues
        self.cohorts = cohorts
        self.custom = custom or CustomLabels()
        self.skips: dict[str, int] = {}
        """By ClusterQueue, the workloads that its last cycle passed over although they had victims."""
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._series: dict[Subject, set[tuple[str, tuple[str, ...]]]] = {}
        for name, family in FAMILIES.items():
            labels = (*family.labels, ROLE, *self.custom.names(*family.sources))
            if name in hidden:
                continue
            if family.kind == "counter":
                self._counters[name] = Counter(full_name(name), family.help, labels, registry=registry)
            elif family.kind == "histogram":
                bounds = family.buckets
                self._histograms[name] = Histogram(
                    full_name(name), family.help, labels, buckets=bounds, registry=registry
                )

    def cycle(self, plan: Plan, seconds: float) -> None:
        """Count a scheduling cycle that took so long and decided this."""
        admitted = any(isinstance(decision, Reserve) for decision in plan.decisions)
        result = "success" if admitted else "inadmissible"
        self._add("admission_attempts_total", {"result": result})
        self._add("admission_attempt_duration_seconds", {"result": result}, seconds)
        for decision in plan.decisions:
            name = decision.admission.cluster_queue if isinstance(decision, Reserve) else decision.cluster_queue
            self.skips[name] = plan.skipped.get(name, 0)
        for name, outcome in plan.recomputed:
            labels = {"cluster_queue": name, "result": outcome}
            self._add("preemption_target_recomputations_total", labels)

    def workload_created(self, job_kind: str, seconds: float, queue: Key) -> None:
        """Count a Workload that was created so long after its job."""
        self._add("workload_creation_latency_seconds", {"job_kind": job_kind}, seconds, [(LOCAL_QUEUE, queue)])

    def gate_removed(
        self, cluster_queue: str, seconds: float, *, is_group: bool, gate: str = names.SchedulingGate.ADMISSION
    ) -> None:
        """Counts a pod whose gate was removed so long after the admission of its Workload."""
        labels = {
            "name": gate,
            "cluster_queue": cluster_queue,
            "is_group": str(is_group).lower(),
        }
        self._add("pod_scheduling_gate_removal_seconds", labels, seconds)

    def dispatched_to_worker(self, cluster_queue: str, cluster: str) -> None:
        """Counts a Workload that was created in a worker cluster."""
        self._add("multikueue_workloads_dispatched_total", {"cluster_queue": cluster_queue, "cluster": cluster})

    def admitted_by_worker(self, cluster_queue: str, cluster: str) -> None:
        """Counts a Workload that a worker cluster admitted first."""
        self._add("multikueue_workloads_admitted_total", {"cluster_queue": cluster_queue, "cluster": cluster})

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Count a workload that was preempted for one in ``preempting_cluster_queue``."""
        labels = {"preempting_cluster_queue": preempting_cluster_queue, "reason": reason}
        self._add("preempted_workloads_total", labels)

    def happened(self, workload: Workload, milestone: Milestone) -> None:
        """Counts the transitions that the object of a Workload shows for the first time."""
        match milestone:
            case QuotaReserved():
                self._pair("quota_reserved_workloads_total", workload, milestone.cluster_queue)
                self._pair(
                    "quota_reserved_wait_time_seconds", workload, milestone.cluster_queue, seconds=milestone.waited
                )
            case Admitted():
                self._admitted(workload, milestone)
            case BecameReady(cluster_queue, queued, admitted):
                self._pair("ready_wait_time_seconds", workload, cluster_queue, seconds=queued)
                self._pair("admitted_until_ready_wait_time_seconds", workload, cluster_queue, seconds=admitted)
            case Evicted():
                self._evicted(workload, milestone)
            case Released(cluster_queue, reason, after):
                labels = {"cluster_queue": cluster_queue, "reason": reason}
                self._add("workload_eviction_latency_seconds", labels, after)
            case Finished(cluster_queue, ran, replaced):
                if replaced and cluster_queue:
                    self._add("replaced_workload_slices_total", {"cluster_queue": cluster_queue})
                self._pair("finished_workloads_total", workload, cluster_queue)
                if ran is not None:
                    self._pair("execution_time_seconds", workload, cluster_queue, seconds=ran)
            case _:
                assert_never(milestone)

    def forget(self, kind: str, key: Key) -> None:
        """Remove all series about an object that is gone."""
        if kind == CLUSTER_QUEUE:
            self.skips.pop(key.name, None)
        for name, values in self._series.pop((kind, key), ()):
            (self._counters.get(name) or self._histograms[name]).remove(*values)

    def subjects(self) -> Iterator[Subject]:
        """Every object that series are about."""
        yield from tuple(self._series)

    def _admitted(self, workload: Workload, milestone: Admitted) -> None:
        cluster_queue = milestone.cluster_queue
        self._pair("admitted_workloads_total", workload, cluster_queue)
        self._pair("admission_wait_time_seconds", workload, cluster_queue, seconds=milestone.waited)
        if milestone.checks is not None:
            self._pair("admission_checks_wait_time_seconds", workload, cluster_queue, seconds=milestone.checks)
        for cohort in self.cohorts(cluster_queue):
            labels = {"cohort": cohort, "priority_class": workload.priority_class}
            self._add("cohort_subtree_admitted_workloads_total", labels)

    def _evicted(self, workload: Workload, milestone: Evicted) -> None:
        why = {"reason": milestone.reason, "underlying_cause": milestone.cause}
        labels = {"cluster_queue": milestone.cluster_queue, **why, "priority_class": workload.priority_class}
        self._add("evicted_workloads_total", labels)
        if milestone.first:
            self._add("evicted_workloads_once_total", labels)
        if milestone.ready is not None:
            ready = {"cluster_queue": milestone.cluster_queue, **why}
            self._add("pods_ready_to_evicted_time_seconds", ready, milestone.ready)
        queue = local_queue_of(workload)
        if self.local_queues(queue):
            local = {"name": queue.name, "namespace": queue.namespace, **why, "priority_class": workload.priority_class}
            self._add("local_queue_evicted_workloads_total", local)

    def _pair(self, name: str, workload: Workload, cluster_queue: str, *, seconds: float | None = None) -> None:
        """Count by ClusterQueue, and by LocalQueue under the same name with its prefix."""
        by_class, queue = {"priority_class": workload.priority_class}, local_queue_of(workload)
        self._add(name, {"cluster_queue": cluster_queue, **by_class}, seconds)
        if self.local_queues(queue):
            labels = {"name": queue.name, "namespace": queue.namespace, **by_class}
            self._add(f"local_queue_{name}", labels, seconds, [(WORKLOAD, workload.key)])

    def _add(
        self, name: str, labels: Mapping[str, str], seconds: float | None = None, more: Iterable[Subject] = ()
    ) -> None:
        """Increments the counter, or observes ``seconds`` in the histogram, of that name."""
        metric = self._counters.get(name) or self._histograms.get(name)
        if metric is None:
            return
        family = FAMILIES[name]
        about = subject_of(family, labels)
        subjects = [*([about] if about else []), *more]
        promoted = self.custom.values(each for each in subjects if each[0] in family.sources)
        values = (*(labels[label] for label in family.labels), self.role(), *promoted)
        if about is not None:
            self._series.setdefault(about, set()).add((name, values))
        child = metric.labels(*values)
        if isinstance(child, Histogram):
            child.observe(max(0.0, seconds or 0.0))
        else:
            child.inc()
