"""The consumption of LocalQueues as State stores it: charged at admission, sampled from running workloads, weighted for
the order.

Separate from ``core.queue.admission_fair_sharing``, which is the arithmetic, and from ``core.state.state``, which
updates it when workloads change. It orders only ClusterQueues with admission mode UsageBasedAdmissionFairSharing.
"""

from __future__ import annotations

from core.model import Key, Requests, StopPolicy, Workload
from core.queue.admission_fair_sharing import Consumed, Ledger, entry_penalty, sampled, units, weighed
from core.queue.routing import PendingWorkloads
from core.quota.reservations import Reservations, local_queue_of
from core.quota.usage import totals


class LocalQueueUsage:
    """Updates ``pending.local_usage`` while the policy has admission fair sharing."""

    def __init__(self, pending: PendingWorkloads, reservations: Reservations) -> None:
        self._pending = pending
        self._reservations = reservations
        self.ledger = Ledger()
        self.reordered: set[str] = set()
        """ClusterQueues in which the order may have changed; State decides them again and empties this set."""

    def set_consumed(self, key: Key, consumed: Consumed | None) -> None:
        """Sets the consumption of a LocalQueue, as its status reports it after a restart; None removes it."""
        self.ledger.remember(key, consumed)
        self.update(key)

    def sample(self, now: float) -> dict[Key, Consumed]:
        """Adds current usage to the histories; returns those of all running LocalQueues of a ClusterQueue, to be
        written.

        To be called once in a sampling interval. As in Kueue, a LocalQueue has a history even if its ClusterQueue does
        not order by it.
        """
        rules = self._pending.policy.admission_fair_sharing
        if rules is None:
            return {}
        found: dict[Key, Consumed] = {}
        for key, queue in self._pending.local_queues.items():
            if queue.stop_policy == StopPolicy.NONE and queue.cluster_queue in self._pending.queues:
                old = self.ledger.consumed(key) or Consumed({}, now)
                running = self._running(key, queue.cluster_queue)
                found[key] = sampled(old, units(running), now, rules.half_life)
                self.ledger.remember(key, found[key])
                self.update(key)
        return found

    def charge(self, workload: Workload, cluster_queue: str) -> None:
        """Counts the admission of a workload immediately."""
        rules = self._pending.policy.admission_fair_sharing
        if rules is not None and self._counts(cluster_queue):
            asked: dict[str, int] = {}
            for pod_set in totals(workload):
                for resource, amount in pod_set.requests.items():
                    asked[resource] = asked.get(resource, 0) + amount
            queue = local_queue_of(workload)
            self.ledger.charge(workload.key, queue, entry_penalty(asked, rules))
            self.update(queue)

    def refund(self, key: Key) -> None:
        """Removes the count of an admission that failed."""
        self.update(self.ledger.refund(key))

    def confirm(self, key: Key) -> None:
        """The admission of a workload has shown."""
        self.update(self.ledger.settle(key, self._pending.now))

    def update(self, key: Key | None) -> None:
        """Updates the value that orders a LocalQueue; removes it if the LocalQueue is deleted."""
        if key is None:
            return
        rules = self._pending.policy.admission_fair_sharing
        queue = self._pending.local_queues.get(key)
        if queue is None:
            self.ledger.remember(key, None)
            self._pending.local_usage.pop(key, None)
        elif rules is not None:
            usage = weighed(self.ledger.total(key), queue.weight, rules.resource_weights)
            if self._pending.local_usage.get(key) != usage and self._counts(queue.cluster_queue):
                self.reordered.add(queue.cluster_queue)
            self._pending.local_usage[key] = usage

    def _counts(self, cluster_queue: str) -> bool:
        queue = self._pending.queues.get(cluster_queue)
        return queue is not None and queue.by_local_queue

    def _running(self, key: Key, cluster_queue: str) -> Requests:
        """Returns the usage of a LocalQueue for each resource that it can request: zero for a resource that it does not
        use.
        """
        spec = self._reservations.cluster_queues.get(cluster_queue)
        total = {resource: 0 for group in (spec.groups if spec else ()) for resource in group.resources}
        for workload in self._reservations.by_local_queue.get(key, ()):
            held = self._reservations.get(workload)
            for fr, amount in held.usage.quota.items() if held is not None and held.admitted else ():
                total[fr.resource] = total.get(fr.resource, 0) + amount
        return total
