"""Admission fair sharing: decayed usage of LocalQueues, so that the LocalQueue with less usage is first in its
ClusterQueue.

Separate from ``core.quota.shares``, which compares ClusterQueues by what they borrow now. Usage is a history: every
sample adds a part of current usage, which depends on ``half_life``, and an admission counts immediately with the part
that it would add in one sampling interval (the entry penalty). Rule: KEP 4136,
https://kueue.sigs.k8s.io/docs/concepts/admission_fair_sharing/. Amounts are in whole units (cpu in cores).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.model import Key, Requests
from core.model.policy import AdmissionFairSharing

USAGE_BASED = "UsageBasedAdmissionFairSharing"
"""``spec.admissionScope.admissionMode`` of ClusterQueues that order so."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """The consumption of a LocalQueue, by resource, at a time in epoch seconds."""

    resources: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0


def units(requests: Requests) -> dict[str, float]:
    """Integer amounts in whole units."""
    return {resource: amount / 1000 if resource == "cpu" else float(amount) for resource, amount in requests.items()}


def portion(seconds: float, half_life: float) -> float:
    """Returns the part of current usage that the given number of seconds adds to the history; the old history keeps the
    rest.
    """
    return 1.0 - 0.5 ** (seconds / half_life) if half_life > 0 else 0.0


def sampled(old: Consumed, running: Mapping[str, float], now: float, half_life: float) -> Consumed:
    """The history after a time in which so much ran; without a half-life nothing is remembered."""
    if half_life <= 0:
        return Consumed({}, now)
    taken = portion(max(0.0, now - old.at), half_life)
    names = sorted({*old.resources, *running})
    amounts = {name: old.resources.get(name, 0.0) * (1 - taken) + running.get(name, 0.0) * taken for name in names}
    return Consumed(amounts, now)


def entry_penalty(requests: Requests, rules: AdmissionFairSharing) -> dict[str, float]:
    """Returns the amount that an admission counts immediately."""
    part = portion(rules.sampling_interval, rules.half_life)
    return {resource: amount * part for resource, amount in units(requests).items()}


def weighed(resources: Mapping[str, float], weight: float, resource_weights: Mapping[str, float]) -> float:
    """Returns one number for the usage: the lowest is first; a LocalQueue without weight is last."""
    if weight <= 0:
        return math.inf
    return sum(resource_weights.get(name, 1.0) * resources[name] for name in sorted(resources)) / weight


class Ledger:
    """The histories of LocalQueues, and the penalties of admissions that have not shown yet, one for each workload."""

    def __init__(self) -> None:
        self._consumed: dict[Key, Consumed] = {}
        self._penalties: dict[Key, tuple[Key, dict[str, float]]] = {}

    def consumed(self, queue: Key) -> Consumed | None:
        """The history of a LocalQueue, without penalties."""
        return self._consumed.get(queue)

    def remember(self, queue: Key, consumed: Consumed | None) -> None:
        """Sets a history, or removes it."""
        if consumed is None:
            self._consumed.pop(queue, None)
        else:
            self._consumed[queue] = consumed

    def penalties(self) -> list[tuple[Key, Key, dict[str, float]]]:
        """Returns the admissions that have not shown yet: workload, LocalQueue and penalty."""
        return [(workload, queue, dict(penalty)) for workload, (queue, penalty) in self._penalties.items()]

    def charge(self, workload: Key, queue: Key, penalty: dict[str, float]) -> None:
        """Counts an admission, replacing what was counted for the workload."""
        self._penalties[workload] = (queue, penalty)

    def refund(self, workload: Key) -> Key | None:
        """Removes the count of an admission that failed; returns its LocalQueue."""
        queue, _ = self._penalties.pop(workload, (None, None))
        return queue

    def settle(self, workload: Key, now: float) -> Key | None:
        """An admission has shown: its penalty becomes history; the LocalQueue concerned."""
        queue, penalty = self._penalties.pop(workload, (None, None))
        if queue is not None and penalty is not None:
            old = self._consumed.get(queue, Consumed({}, now))
            names = {*old.resources, *penalty}
            amounts = {name: old.resources.get(name, 0.0) + penalty.get(name, 0.0) for name in sorted(names)}
            self._consumed[queue] = Consumed(amounts, old.at)
        return queue

    def total(self, queue: Key) -> dict[str, float]:
        """History and penalties of a LocalQueue together."""
        total = dict(self._consumed.get(queue, Consumed()).resources)
        for charged, penalty in self._penalties.values():
            if charged == queue:
                for name, amount in penalty.items():
                    total[name] = total.get(name, 0.0) + amount
        return total
