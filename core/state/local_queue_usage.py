"""What LocalQueues have consumed, as State keeps it: charged at admission, sampled from what runs, weighed for order.

Separate from ``core.queue.admission_fair_sharing``, the arithmetic, and from ``core.state.state``, for which it is one
of the things that change with workloads. Only ClusterQueues of admission mode UsageBasedAdmissionFairSharing order by
it.
"""

from __future__ import annotations

from core.model import Key, Requests, StopPolicy, Workload
from core.queue.admission_fair_sharing import Consumed, Ledger, entry_penalty, sampled, units, weighed
from core.queue.routing import PendingWorkloads
from core.quota.reservations import Reservations, local_queue_of
from core.quota.usage import totals


class LocalQueueUsage:
    """Keeps ``pending.local_usage`` for as long as the policy has admission fair sharing."""

    def __init__(self, pending: PendingWorkloads, reservations: Reservations) -> None:
        self._pending = pending
        self._reservations = reservations
        self.ledger = Ledger()
        self.reordered: set[str] = set()
        """ClusterQueues in which the order may have changed; State looks at them again, and empties this."""

    def set_consumed(self, key: Key, consumed: Consumed | None) -> None:
        """What a LocalQueue has consumed so far, as its status tells after a restart; None forgets it."""
        self.ledger.remember(key, consumed)
        self.update(key)

    def sample(self, now: float) -> dict[Key, Consumed]:
        """Take what runs now into the histories; those of all running LocalQueues of a ClusterQueue, to be written.

        To be called once in a sampling interval. As in Kueue a LocalQueue has a history also where its ClusterQueue
        does not order by it.
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
        """A workload is being admitted: that counts at once."""
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
        """The admission of a workload came to nothing."""
        self.update(self.ledger.refund(key))

    def confirm(self, key: Key) -> None:
        """The admission of a workload has shown."""
        self.update(self.ledger.settle(key, self._pending.now))

    def update(self, key: Key | None) -> None:
        """Bring the figure that orders a LocalQueue up to date; one that is gone is forgotten, whatever it used."""
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
        """What runs from a LocalQueue, by each resource that it may ask for: a queue that uses nothing shows zeros."""
        spec = self._reservations.cluster_queues.get(cluster_queue)
        total = {resource: 0 for group in (spec.groups if spec else ()) for resource in group.resources}
        for workload in self._reservations.by_local_queue.get(key, ()):
            held = self._reservations.get(workload)
            for fr, amount in held.usage.items() if held is not None and held.admitted else ():
                total[fr.resource] = total.get(fr.resource, 0) + amount
        return total
