"""Kueue's gauges, read from the caches whenever somebody scrapes: nothing to keep in step, nothing left of what is
gone.

A scrape passes once over who waits and who holds quota. Amounts are as Kueue shows them: cpu in cores, all else in base
units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.caches import Caches
from controller.metrics import ROLE
from core import figures, status
from core.model import FlavorResource, Key
from core.usage import Reservation, totals

Sample = tuple[Sequence[str], float]


class Gauges(Collector):
    """Register it beside the counters. ``resources`` adds quota and usage by ClusterQueue
    (``enableClusterQueueResources``).
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

    def describe(self) -> Iterable[Metric]:
        """Nothing: the caches need not be read for the registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All gauges as they are now."""
        if not self.caches.started:
            return
        names_of_queues = sorted(self.state.holdings.cluster_queues)
        held = {name: status.reservations(self.state, name) for name in names_of_queues}
        yield from self._cluster_queues(names_of_queues, held)
        yield from self._local_queues()
        yield from self._cohorts(held)
        if self.resources:
            yield from self._quotas(names_of_queues, held)

    def _cluster_queues(self, queues: Sequence[str], held: Mapping[str, list[Reservation]]) -> Iterator[Metric]:
        by_queue = ("cluster_queue",)
        waiting = {name: figures.pending(self.state, name) for name in queues}
        yield self._gauge(
            "pending_workloads",
            ("cluster_queue", "status"),
            [((name, "active"), waiting[name].active) for name in queues]
            + [((name, "inadmissible"), waiting[name].inadmissible) for name in queues],
        )
        yield self._gauge("reserving_active_workloads", by_queue, [((name,), len(held[name])) for name in queues])
        yield self._gauge("admitted_active_workloads", by_queue, [((name,), _admitted(held[name])) for name in queues])
        standings = {name: self._status_of(name) for name in queues}
        yield self._gauge(
            "cluster_queue_status",
            ("cluster_queue", "status"),
            [((name, each), float(standings[name] == each)) for name in queues for each in STATUSES],
        )
        yield self._gauge(
            "cluster_queue_info",
            ("cluster_queue", "parent_cohort", "root_cohort"),
            [((name, self.state.holdings.cluster_queues[name].cohort, self._root(name)), 1) for name in queues],
        )
        yield self._gauge(
            "cluster_queue_resource_pending",
            ("cluster_queue", "resource"),
            [((name, res), value) for name in queues for res, value in sorted(self._asked(name).items())],
        )

    def _local_queues(self) -> Iterator[Metric]:
        keys = sorted(key for key in self.state.lines.local_queues if self.local_queues(key))
        by_queue = ("name", "namespace")
        waiting = {key: figures.pending_locally(self.state, key) for key in keys}
        held = {key: status.holders(self.state, key) for key in keys}
        yield self._gauge(
            "local_queue_pending_workloads",
            (*by_queue, "status"),
            [((key.name, key.namespace, "active"), waiting[key].active) for key in keys]
            + [((key.name, key.namespace, "inadmissible"), waiting[key].inadmissible) for key in keys],
        )
        for name, count in (("reserving", len), ("admitted", _admitted)):
            yield self._gauge(
                f"local_queue_{name}_active_workloads",
                by_queue,
                [((key.name, key.namespace), count(held[key])) for key in keys],
            )
        for name, only_admitted in (("reservation", False), ("usage", True)):
            yield self._gauge(
                f"local_queue_resource_{name}",
                (*by_queue, "flavor", "resource"),
                [
                    ((key.name, key.namespace, fr.flavor, fr.resource), _shown(fr.resource, amount))
                    for key in keys
                    for fr, amount in sorted(_used(held[key], only_admitted=only_admitted).items())
                ],
            )
        queues = self.state.lines.local_queues
        active = {key: status.local_standing(self.state, queues[key]).active for key in keys}
        yield self._gauge(
            "local_queue_status",
            (*by_queue, "active"),
            [((key.name, key.namespace, each), float(_word(active[key]) == each)) for key in keys for each in ACTIVE],
        )

    def _cohorts(self, held: Mapping[str, list[Reservation]]) -> Iterator[Metric]:
        trees = list(self.state.holdings.trees.values())
        nodes = [(node, tree) for tree in trees for node in tree.cohorts.values()]
        nodes.sort(key=lambda pair: pair[0].name)
        yield self._gauge(
            "cohort_info",
            ("cohort", "parent_cohort", "root_cohort"),
            [((node.name, node.parent.name if node.parent else "", node.root().name), 1) for node, _ in nodes],
        )
        admitted: dict[str, int] = {}
        for tree in trees:
            for queue in tree.queues.values():
                for above in queue.ancestors():
                    admitted[above.name] = admitted.get(above.name, 0) + _admitted(held.get(queue.name, []))
        yield self._gauge(
            "cohort_subtree_admitted_active_workloads",
            ("cohort",),
            [((node.name,), admitted.get(node.name, 0)) for node, _ in nodes],
        )
        for name, of in (("quota", "subtree"), ("resource_reservations", "usage")):
            yield self._gauge(
                f"cohort_subtree_{name}",
                ("cohort", "flavor", "resource"),
                [
                    ((node.name, fr.flavor, fr.resource), _shown(fr.resource, amount))
                    for node, _ in nodes
                    for fr, amount in sorted(getattr(node, of).items())
                ],
            )
        if self.state.policy.fair_sharing is not None:
            shares = [((node.name,), figures.cohort_share(self.state, node.name)) for node, _ in nodes]
            yield self._gauge(
                "cohort_weighted_share", ("cohort",), [(key, value) for key, value in shares if value is not None]
            )

    def _quotas(self, queues: Sequence[str], held: Mapping[str, list[Reservation]]) -> Iterator[Metric]:
        labels = ("cohort", "cluster_queue", "flavor", "resource")
        specs = [self.state.holdings.cluster_queues[name] for name in queues]
        for name, of in (
            ("nominal_quota", "nominal"),
            ("borrowing_limit", "borrowing_limit"),
            ("lending_limit", "lending_limit"),
        ):
            yield self._gauge(
                f"cluster_queue_{name}",
                labels,
                [
                    ((spec.cohort, spec.name, fr.flavor, fr.resource), _shown(fr.resource, amount))
                    for spec in specs
                    for fr, quota in sorted(spec.quotas.items())
                    if (amount := getattr(quota, of)) is not None
                ],
            )
        for name, only_admitted in (("reservation", False), ("usage", True)):
            yield self._gauge(
                f"cluster_queue_resource_{name}",
                labels,
                [
                    ((spec.cohort, spec.name, fr.flavor, fr.resource), _shown(fr.resource, amount))
                    for spec in specs
                    for fr, amount in sorted(_used(held[spec.name], only_admitted=only_admitted).items())
                ],
            )
        if self.state.policy.fair_sharing is not None:
            shares = [((spec.name, spec.cohort), figures.weighted_share(self.state, spec.name)) for spec in specs]
            yield self._gauge(
                "cluster_queue_weighted_share",
                ("cluster_queue", "cohort"),
                [(key, value) for key, value in shares if value is not None],
            )

    def _gauge(self, name: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
        family = GaugeMetricFamily(
            f"kueue_{name}", f"See Kueue's reference of metrics: {name}.", labels=(*labels, ROLE)
        )
        role = self.role()
        for values, value in samples:
            family.add_metric((*values, role), value)
        return family

    def _status_of(self, name: str) -> str:
        queue = self.state.holdings.cluster_queues[name]
        if queue.deleting:
            return "terminating"
        return "active" if self.state.holdings.standing(name).active else "pending"

    def _root(self, name: str) -> str:
        root = self.state.holdings.roots.get(name)
        node = self.state.holdings.trees[root].queues[name] if root is not None else None
        return node.root().name if node is not None and node.parent is not None else ""

    def _asked(self, name: str) -> dict[str, float]:
        """What all who wait in a ClusterQueue ask for, by resource."""
        queue = self.state.lines.queues.get(name)
        found: dict[str, int] = {}
        for entry in queue or ():
            for total in totals(entry.workload):
                for res, amount in total.requests.items():
                    found[res] = found.get(res, 0) + amount
        return {res: _shown(res, amount) for res, amount in found.items()}


STATUSES = ("pending", "active", "terminating")
ACTIVE = ("True", "False", "Unknown")


def _word(active: bool) -> str:
    return "True" if active else "False"


def _admitted(held: Sequence[Reservation]) -> int:
    return sum(each.admitted for each in held)


def _used(held: Iterable[Reservation], *, only_admitted: bool) -> dict[FlavorResource, int]:
    return status.used(each for each in held if each.admitted or not only_admitted)


def _shown(resource: str, amount: int) -> float:
    return amount / 1000 if resource == "cpu" else float(amount)
