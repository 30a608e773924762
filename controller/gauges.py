"""Kueue's gauges, read from the caches whenever somebody scrapes: nothing to keep in step, nothing left of what is
gone.

A scrape passes once over the queues and who holds their quota, on the event loop, for the caches belong to it, and
queue by queue, for webhooks come first. Amounts are as Kueue shows them: cpu in cores, all else in base units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.caches import Caches
from controller.metrics import ROLE
from core import figures, status
from core.forest import Tree
from core.model import FlavorResource, Key
from core.usage import Reservation

Sample = tuple[Sequence[str], float]
Rows = dict[str, list[Sample]]
"""The samples of each gauge, by its name."""

STATUSES = ("pending", "active", "terminating")
ACTIVE = ("True", "False", "Unknown")

SAMPLES = 500
"""So many are put together without letting others run."""

_QUEUE = ("cluster_queue",)
_LOCAL = ("name", "namespace")
_COHORT = ("cohort",)
_QUOTA = ("cohort", "cluster_queue", "flavor", "resource")
_FLAVORED = ("flavor", "resource")

QUOTAS: Final = {
    "cluster_queue_nominal_quota": "nominal",
    "cluster_queue_borrowing_limit": "borrowing_limit",
    "cluster_queue_lending_limit": "lending_limit",
}
LABELS: Final = {
    "pending_workloads": (*_QUEUE, "status"),
    "reserving_active_workloads": _QUEUE,
    "admitted_active_workloads": _QUEUE,
    "cluster_queue_status": (*_QUEUE, "status"),
    "cluster_queue_info": (*_QUEUE, "parent_cohort", "root_cohort"),
    "cluster_queue_resource_pending": (*_QUEUE, "resource"),
    "local_queue_pending_workloads": (*_LOCAL, "status"),
    "local_queue_reserving_active_workloads": _LOCAL,
    "local_queue_admitted_active_workloads": _LOCAL,
    "local_queue_resource_reservation": (*_LOCAL, *_FLAVORED),
    "local_queue_resource_usage": (*_LOCAL, *_FLAVORED),
    "local_queue_status": (*_LOCAL, "active"),
    "cohort_info": (*_COHORT, "parent_cohort", "root_cohort"),
    "cohort_subtree_admitted_active_workloads": _COHORT,
    "cohort_subtree_quota": (*_COHORT, *_FLAVORED),
    "cohort_subtree_resource_reservations": (*_COHORT, *_FLAVORED),
    "cohort_weighted_share": _COHORT,
    "cluster_queue_nominal_quota": _QUOTA,
    "cluster_queue_borrowing_limit": _QUOTA,
    "cluster_queue_lending_limit": _QUOTA,
    "cluster_queue_resource_reservation": _QUOTA,
    "cluster_queue_resource_usage": _QUOTA,
    "cluster_queue_weighted_share": ("cluster_queue", "cohort"),
}


class Gauges:
    """``resources`` adds quota and usage by ClusterQueue (``enableClusterQueueResources``), ``local_queues`` says which
    LocalQueues are told of.
    """

    def __init__(
        self,
        caches: Caches,
        *,
        role: Callable[[], str],
        resources: bool = False,
        local_queues: Callable[[Key], bool] = lambda key: True,
    ) -> None:
        self.caches = caches
        self.state = caches.state
        self.role = role
        self.resources = resources
        self.local_queues = local_queues

    def steps(self) -> Iterator[Metric | None]:
        """All gauges, and None after each queue: take up time with others there. What is deleted meanwhile is left out,
        what changes is told as it is when its queue is passed.
        """
        if not self.caches.started:
            return
        rows: Rows = {name: [] for name in LABELS}
        holdings, lines = self.state.holdings, self.state.lines
        for queue in sorted(holdings.cluster_queues):
            if queue in holdings.cluster_queues:
                self._cluster_queue(queue, rows)
            yield None
        for key in sorted(key for key in lines.local_queues if self.local_queues(key)):
            if key in lines.local_queues:
                waiting = yield from figures.pending_locally(self.state, key)
                if key in lines.local_queues:
                    self._local_queue(key, waiting, rows)
            yield None
        for root in sorted(holdings.trees):
            if root in holdings.trees:
                self._tree(holdings.trees[root], rows)
            yield None
        for name, samples in rows.items():
            if samples:
                yield from self._gauge(name, samples)

    def _cluster_queue(self, name: str, rows: Rows) -> None:
        spec = self.state.holdings.cluster_queues[name]
        waiting, held = figures.pending(self.state, name), status.reservations(self.state, name)
        rows["pending_workloads"] += [
            ((name, "active"), waiting.active),
            ((name, "inadmissible"), waiting.inadmissible),
        ]
        rows["reserving_active_workloads"].append(((name,), len(held)))
        rows["admitted_active_workloads"].append(((name,), _admitted(held)))
        now = self._status_of(name)
        rows["cluster_queue_status"] += [((name, each), float(now == each)) for each in STATUSES]
        rows["cluster_queue_info"].append(((name, spec.cohort, self._root(name)), 1))
        asked = sorted(figures.asked(self.state, name).items())
        rows["cluster_queue_resource_pending"] += [((name, res), _shown(res, amount)) for res, amount in asked]
        if not self.resources:
            return
        for family, of in QUOTAS.items():
            for fr, quota in sorted(spec.quotas.items()):
                amount = getattr(quota, of)
                if amount is not None:
                    rows[family].append(((spec.cohort, name, *fr), _shown(fr.resource, amount)))
        for family, only_admitted in (("reservation", False), ("usage", True)):
            rows[f"cluster_queue_resource_{family}"] += [
                ((spec.cohort, name, *fr), _shown(fr.resource, amount))
                for fr, amount in sorted(_used(held, only_admitted=only_admitted).items())
            ]
        share = figures.weighted_share(self.state, name)
        if share is not None:
            rows["cluster_queue_weighted_share"].append(((name, spec.cohort), share))

    def _local_queue(self, key: Key, waiting: figures.Counts, rows: Rows) -> None:
        labels, held = (key.name, key.namespace), status.holders(self.state, key)
        rows["local_queue_pending_workloads"] += [
            ((*labels, "active"), waiting.active),
            ((*labels, "inadmissible"), waiting.inadmissible),
        ]
        rows["local_queue_reserving_active_workloads"].append((labels, len(held)))
        rows["local_queue_admitted_active_workloads"].append((labels, _admitted(held)))
        for family, only_admitted in (("reservation", False), ("usage", True)):
            rows[f"local_queue_resource_{family}"] += [
                ((*labels, *fr), _shown(fr.resource, amount))
                for fr, amount in sorted(_used(held, only_admitted=only_admitted).items())
            ]
        word = "True" if status.local_standing(self.state, self.state.lines.local_queues[key]).active else "False"
        rows["local_queue_status"] += [((*labels, each), float(word == each)) for each in ACTIVE]

    def _tree(self, tree: Tree, rows: Rows) -> None:
        admitted: Counter[str] = Counter()
        for queue in tree.queues.values():
            count = _admitted(queue.reserved.values())
            for above in queue.ancestors():
                admitted[above.name] += count
        for node in sorted(tree.cohorts.values(), key=lambda node: node.name):
            rows["cohort_info"].append(((node.name, node.parent.name if node.parent else "", node.root().name), 1))
            rows["cohort_subtree_admitted_active_workloads"].append(((node.name,), admitted[node.name]))
            for family, amounts in (("quota", node.subtree), ("resource_reservations", node.usage)):
                rows[f"cohort_subtree_{family}"] += [
                    ((node.name, *fr), _shown(fr.resource, amount)) for fr, amount in sorted(amounts.items())
                ]
            share = figures.cohort_share(self.state, node.name)
            if share is not None:
                rows["cohort_weighted_share"].append(((node.name,), share))

    def _gauge(self, name: str, samples: Iterable[Sample]) -> Iterator[Metric | None]:
        labels = (*LABELS[name], ROLE)
        family = GaugeMetricFamily(f"kueue_{name}", f"See Kueue's reference of metrics: {name}.", labels=labels)
        role = self.role()
        for number, (values, value) in enumerate(samples, start=1):
            family.add_metric((*values, role), value)
            if number % SAMPLES == 0:
                yield None
        yield family

    def _status_of(self, name: str) -> str:
        queue = self.state.holdings.cluster_queues[name]
        if queue.deleting:
            return "terminating"
        return "active" if self.state.holdings.standing(name).active else "pending"

    def _root(self, name: str) -> str:
        root = self.state.holdings.roots.get(name)
        node = self.state.holdings.trees[root].queues[name] if root is not None else None
        return node.root().name if node is not None and node.parent is not None else ""


def _admitted(held: Iterable[Reservation]) -> int:
    return sum(each.admitted for each in held)


def _used(held: Iterable[Reservation], *, only_admitted: bool) -> dict[FlavorResource, int]:
    return status.used(each for each in held if each.admitted or not only_admitted)


def _shown(resource: str, amount: int) -> float:
    return amount / 1000 if resource == "cpu" else float(amount)
