"""Kueue's gauges, computed from the caches at each scrape: nothing must be updated, and deleted objects leave no
series.

A scrape visits the queues and the workloads that hold their quota once, on the event loop, because the caches belong to
it, and yields after each queue, because webhooks have precedence. Units are those of Kueue: cpu in cores, everything
else in base units.
"""

from __future__ import annotations

import math
import platform
import sys
from collections import Counter
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from api.metrics.custom_labels import CustomLabels
from api.metrics.families import CLUSTER_QUEUE, COHORT, FAMILIES, ROLE, UNROLED, WORKLOAD, subject_of
from api.names import Condition
from controller.cache.caches import Caches
from controller.metrics.counters import QueueingMetrics
from controller.metrics.tallies import Tallies
from core.model import FlavorResource, Key, Raw, Workload
from core.queue.queue import Queue
from core.quota.arena import Arena
from core.quota.usage import Reservation
from core.state import queries, queue_status

Sample = tuple[Sequence[str], float]
"""The values of a family's labels, followed by those that a Workload promotes; and the number."""
SampleRows = dict[str, list[Sample]]
"""The samples of each gauge, by its name."""

STATUSES = ("pending", "active", "terminating")
ACTIVE = ("True", "False", "Unknown")

QUOTAS: Final = {
    "cluster_queue_nominal_quota": "nominal",
    "cluster_queue_borrowing_limit": "borrowing_limit",
    "cluster_queue_lending_limit": "lending_limit",
}
GAUGES: Final = tuple(name for name, family in FAMILIES.items() if family.kind == "gauge")

SAMPLES = 500
"""So many are put together without letting others run."""


class Gauges:
    """``resources`` adds quota and usage by ClusterQueue (``enableClusterQueueResources``), ``local_queues`` returns
    which LocalQueues have series, ``hidden`` families do not exist.

    A scrape also removes from ``metrics`` the series of objects that are deleted or no longer selected.

    As in Kueue, the series of a Cohort end when its object is deleted. If ClusterQueues still name it, they begin again
    with the next admission below it.
    """

    def __init__(
        self,
        caches: Caches,
        metrics: QueueingMetrics,
        *,
        resources: bool = False,
        version: str = "",
        hidden: Container[str] = (),
    ) -> None:
        self.caches = caches
        self.state = caches.state
        self.metrics = metrics
        self.resources = resources
        self.version = version
        self.hidden = hidden
        self.tallies = Tallies()
        self._ended: set[str] = set()
        """Returns the Cohorts that are still named, whose object was deleted and below which nothing was admitted
        since.
        """
        caches.observers.append(self.tallies.changed)
        caches.observers.append(self._resume)
        caches.cohorts.listen(self._end)

    @property
    def custom(self) -> CustomLabels:
        """The labels that objects promote."""
        return self.metrics.custom

    def families(self) -> Iterator[Metric | None]:
        """Yields all gauges, and None after each queue, so that other tasks can run in between. Objects that are
        deleted meanwhile are left out; objects that change have the values of the moment at which their queue is
        visited.
        """
        rows: SampleRows = {name: [] for name in GAUGES}
        rows["build_info"].append(((self.version, "", "", "", platform.python_implementation(), sys.platform), 1))
        if self.caches.started:
            yield from self._all(rows)
        for name, samples in rows.items():
            if samples and name not in self.hidden:
                yield from self._gauge(name, samples)

    def _all(self, rows: SampleRows) -> Iterator[None]:
        reservations, pending = self.state.reservations, self.state.pending
        self._prune()
        for queue in sorted(reservations.cluster_queues):
            if queue in reservations.cluster_queues:
                yield from self._cluster_queue(queue, rows)
            yield None
        chosen = sorted(key for key in pending.local_queues if self.metrics.local_queues(key))
        for key in chosen:
            if key in pending.local_queues:
                waiting = yield from queries.pending_locally(self.state, key)
                if key in pending.local_queues:
                    self._local_queue(key, waiting, rows)
            yield None
        yield from self._totals(frozenset(chosen), rows)
        for name in sorted(reservations.arenas):
            if name in reservations.arenas:
                self._cohorts(reservations.arenas[name], rows)
            yield None

    def _prune(self) -> None:
        """Remove the series of queues and cohorts that are gone, and of LocalQueues that are no longer chosen."""
        cohorts = {name for arena in self.state.reservations.arenas.values() for name in arena.cohorts}
        self._ended &= cohorts
        for kind, key in self.metrics.subjects():
            if kind == COHORT:
                there = key.name in cohorts
            elif kind == CLUSTER_QUEUE:
                there = not key.name or key.name in self.state.reservations.cluster_queues
            else:
                there = key in self.state.pending.local_queues and self.metrics.local_queues(key)
            if not there:
                self.metrics.forget(kind, key)

    def _end(self, old: Raw | None, new: Raw | None) -> None:
        if new is not None:
            self._ended.discard(new["metadata"]["name"])
        elif old is not None:
            self._ended.add(old["metadata"]["name"])

    def _resume(self, old: Workload | None, new: Workload | None) -> None:
        before = old is not None and old.holds(Condition.ADMITTED)
        if self._ended and new is not None and new.admission and new.holds(Condition.ADMITTED) and not before:
            self._ended.difference_update(self.metrics.cohorts(new.admission.cluster_queue))

    def _cluster_queue(self, name: str, rows: SampleRows) -> Iterator[None]:
        spec = self.state.reservations.cluster_queues[name]
        held = queue_status.reservations(self.state, name)
        yield from self._pending(name, rows)
        groups = queries.pending_groups(self.state, name)
        rows["pending_scheduling_hashes"] += [
            ((name, "active"), groups.active),
            ((name, "inadmissible"), groups.inadmissible),
        ]
        rows["reserving_active_workloads"].append(((name,), len(held)))
        rows["admitted_active_workloads"] += self._by_workload((name,), _admitted(held))
        rows["admission_cycle_preemption_skips"].append(((name,), self.metrics.skips.get(name, 0)))
        now = self._status_of(name)
        rows["cluster_queue_status"] += [((name, each), float(now == each)) for each in STATUSES]
        rows["cluster_queue_info"].append(((name, spec.cohort, self._root(name)), 1))
        asked = {resource: 0 for group in spec.groups for resource in group.resources} | queries.asked(self.state, name)
        rows["cluster_queue_resource_pending"] += [((name, res), _shown(res, asked[res])) for res in sorted(asked)]
        if not self.resources:
            return
        for family, of in QUOTAS.items():
            for fr, quota in sorted(spec.quotas.items()):
                amount = getattr(quota, of)
                value = math.inf if amount is None else _shown(fr.resource, amount)
                rows[family].append(((spec.cohort, name, *fr), value))
        for family, only_admitted in (("reservation", False), ("usage", True)):
            used = dict.fromkeys(spec.quotas, 0) | _used(held, only_admitted=only_admitted)
            rows[f"cluster_queue_resource_{family}"] += [
                ((spec.cohort, name, *fr), _shown(fr.resource, used[fr])) for fr in sorted(used)
            ]
        share = queries.weighted_share(self.state, name)
        if share is not None:
            rows["cluster_queue_weighted_share"].append(((name, spec.cohort), _number(share)))

    def _pending(self, name: str, rows: SampleRows) -> Iterator[None]:
        """The workloads that wait for a ClusterQueue; if Workloads promote labels, one series for each of their
        values.
        """
        queue = self.state.pending.queues.get(name)
        if queue is None or not self.custom.promotes(WORKLOAD):
            waiting = queries.pending(self.state, name)
            rows["pending_workloads"] += [
                ((name, "active"), waiting.active),
                ((name, "inadmissible"), waiting.inadmissible),
            ]
            return
        looked_at = self.state.reservations.active_condition(name).active
        found = yield from self._pending_by_workload(queue, looked_at=looked_at)
        rows["pending_workloads"] += [((name, *labels), count) for labels, count in sorted(found.items())]

    def _pending_by_workload(self, queue: Queue, *, looked_at: bool) -> Generator[None, None, Counter[tuple[str, ...]]]:
        found = Counter[tuple[str, ...]]()
        for number, entry in enumerate(tuple(queue), start=1):
            word = "active" if looked_at and queue.is_active(entry) else "inadmissible"
            found[(word, *self.custom.values([(WORKLOAD, entry.workload.key)]))] += 1
            if number % SAMPLES == 0:
                yield
        return found

    def _by_workload(self, labels: tuple[str, ...], held: Iterable[Reservation]) -> list[Sample]:
        """How many hold quota; where Workloads promote labels, one sample for each of their values."""
        if not self.custom.promotes(WORKLOAD):
            return [(labels, sum(1 for _ in held))]
        found = Counter(self.custom.values([(WORKLOAD, each.workload.key)]) for each in held)
        return [((*labels, *values), count) for values, count in sorted(found.items())]

    def _local_queue(self, key: Key, waiting: queries.PendingCounts, rows: SampleRows) -> None:
        labels, held = (key.name, key.namespace), queue_status.holders(self.state, key)
        spec = self.state.pending.local_queues[key]
        rows["local_queue_pending_workloads"] += [
            ((*labels, "active"), waiting.active),
            ((*labels, "inadmissible"), waiting.inadmissible),
        ]
        rows["local_queue_reserving_active_workloads"].append((labels, len(held)))
        rows["local_queue_admitted_active_workloads"] += self._by_workload(labels, _admitted(held))
        for family, only_admitted in (("reservation", False), ("usage", True)):
            rows[f"local_queue_resource_{family}"] += [
                ((*labels, *fr), _shown(fr.resource, amount))
                for fr, amount in sorted(_used(held, only_admitted=only_admitted).items())
            ]
        usage = self.state.pending.local_usage.get(key)
        if usage is not None:
            rows["local_queue_admission_fair_sharing_usage"].append(((*labels, spec.cluster_queue), usage))
        word = "True" if queue_status.local_queue_condition(self.state, spec).active else "False"
        rows["local_queue_status"] += [((*labels, each), float(word == each)) for each in ACTIVE]

    def _totals(self, chosen: frozenset[Key], rows: SampleRows) -> Iterator[None]:
        """Finished and unadmitted workloads, by the ClusterQueue that their LocalQueue submits to now."""
        cluster_queues = self.state.reservations.cluster_queues
        done = Counter[str](dict.fromkeys(cluster_queues, 0))
        waiting: dict[str, Counter[tuple[str, str]]] = {}
        for key, spec in sorted(self.state.pending.local_queues.items()):
            labels, target = (key.name, key.namespace), spec.cluster_queue
            finished, unadmitted = self.tallies.finished[key], self.tallies.unadmitted.get(key, Counter())
            if key in chosen:
                rows["local_queue_finished_workloads"].append((labels, finished))
                rows["local_queue_unadmitted_workloads"] += [
                    ((*labels, target, *why), count) for why, count in sorted(unadmitted.items())
                ]
            if target in cluster_queues:
                done[target] += finished
                waiting.setdefault(target, Counter()).update(unadmitted)
        yield None
        rows["finished_workloads"] += [((name,), count) for name, count in sorted(done.items())]
        rows["unadmitted_workloads"] += [
            ((name, *why), count) for name, counts in sorted(waiting.items()) for why, count in sorted(counts.items())
        ]

    def _cohorts(self, arena: Arena, rows: SampleRows) -> None:
        admitted: Counter[str] = Counter()
        reserved = {name: dict.fromkeys(node.subtree, 0) for name, node in arena.cohorts.items()}
        for queue in arena.queues.values():
            count = sum(1 for _ in _admitted(queue.reserved.values()))
            for above in queue.ancestors():
                admitted[above.name] += count
                for fr, amount in queue.usage.items():  # all of it: a node's own usage is without what is not lent
                    reserved[above.name][fr] = reserved[above.name].get(fr, 0) + amount
        for node in sorted(arena.cohorts.values(), key=lambda node: node.name):
            if node.name in self._ended:
                continue
            rows["cohort_info"].append(((node.name, node.parent.name if node.parent else "", node.root().name), 1))
            rows["cohort_subtree_admitted_active_workloads"].append(((node.name,), admitted[node.name]))
            for family, amounts in (("quota", node.subtree), ("resource_reservations", reserved[node.name])):
                rows[f"cohort_subtree_{family}"] += [
                    ((node.name, *fr), _shown(fr.resource, amount)) for fr, amount in sorted(amounts.items())
                ]
            share = queries.cohort_share(self.state, node.name)
            if share is not None:
                rows["cohort_weighted_share"].append(((node.name,), _number(share)))

    def _gauge(self, name: str, samples: Iterable[Sample]) -> Iterator[Metric | None]:
        family, roles = FAMILIES[name], () if name in UNROLED else (ROLE,)
        labels = (*family.labels, *roles, *self.custom.names(*family.sources))
        shown = GaugeMetricFamily(f"kueue_{name}", family.help, labels=labels)
        role, promoting = (self.metrics.role(),) if roles else (), self.custom.names(*family.sources)
        base = len(family.labels)
        for number, (values, value) in enumerate(samples, start=1):
            promoted: tuple[str, ...] = ()
            if promoting:
                about = subject_of(family, dict(zip(family.labels, values, strict=False)))
                promoted = self.custom.values([about] if about else [])
            shown.add_metric((*values[:base], *role, *promoted, *values[base:]), value)
            if number % SAMPLES == 0:
                yield None
        yield shown

    def _status_of(self, name: str) -> str:
        queue = self.state.reservations.cluster_queues[name]
        if queue.deleting:
            return "terminating"
        return "active" if self.state.reservations.active_condition(name).active else "pending"

    def _root(self, name: str) -> str:
        node = self.state.reservations.node(name)
        return node.root().name if node is not None and node.parent is not None else ""


def _admitted(held: Iterable[Reservation]) -> Iterator[Reservation]:
    return (each for each in held if each.admitted)


def _used(held: Iterable[Reservation], *, only_admitted: bool) -> dict[FlavorResource, int]:
    return queue_status.used(each for each in held if each.admitted or not only_admitted)


def _shown(resource: str, amount: int) -> float:
    return amount / 1000 if resource == "cpu" else float(amount)


def _number(share: float) -> float:
    """Returns a weighted share as in Kueue's gauges: NaN for a queue that borrows with weight zero."""
    return math.nan if math.isinf(share) else share
