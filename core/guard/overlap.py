"""How long pods that terminate may run beside those that replace them: a small part of the time that a job has quota.

A controller that replaces a pod as soon as it is deleted (of a Job, of a RayCluster) runs both until the first one has
terminated, and the job's owner chooses how long that takes and how often pods are deleted. Drains of nodes do that to
honest jobs, too. So it is neither forbidden nor free: it is counted, in seconds of the whole job. A second in which
pods terminate that use as much as was admitted, while others have taken their places, counts as one second; a second
in which a tenth of the job does so, as a tenth of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from core.guard.grants import Grant
from core.guard.pods import ALL_REQUESTS, Accounting, PodShape, RunningPod, counted, totals

SHARE: Final = 0.05
"""The part of the time in which a job has quota for which its pods may overlap. A new job has saved nothing up: else
one new job after the other would overlap all the time."""
MOST_AT_ONCE: Final = 1.0
"""No more pods terminate beside others than as many again as were admitted."""
AGAIN_SECONDS: Final = 60.0
"""When a job has overlapped for so long beyond its limit, although grace periods were ended, its pods are deleted again
and again: it is stopped."""
_SOON_SECONDS: Final = 2.0
_HIGHEST: Final = 10.0


class Spent(NamedTuple):
    """For how many seconds of the whole job its pods had overlapped ``at`` a time, and which share of it has since."""

    seconds: float = 0.0
    at: float = 0.0
    share: float = 0.0

    def until(self, now: float) -> float:
        """The seconds until now; what was spent is forgotten at the rate at which it is allowed."""
        return max(0.0, self.seconds + (min(self.share, _HIGHEST) - SHARE) * max(0.0, now - self.at))


UNSPENT: Final = Spent()


class OverlapBudget(NamedTuple):
    """What a job's pods may overlap: ``size`` is what it was admitted with, now or a moment ago, ``spent`` and
    ``limit`` are in seconds of the whole job.
    """

    size: Grant
    spent: float
    limit: float

    @property
    def share(self) -> float:
        """How much of the job may overlap now."""
        return MOST_AT_ONCE if self.spent < self.limit else 0.0

    @property
    def again(self) -> bool:
        """Whether it goes on although the grace periods are ended."""
        return self.spent >= self.limit + AGAIN_SECONDS

    def lasts(self, share: float) -> float:
        """How many seconds this much of the job may overlap from now on."""
        if share > self.share:
            return 0.0
        return (self.limit - self.spent) / (share - SHARE) if share > SHARE else inf


def limit(age: float, most: float) -> float:
    """For how many seconds a job that has had quota for ``age`` seconds may have overlapped; ``most`` is the
    operator's limit.
    """
    return max(0.0, min(most, age * SHARE))


def overlap(
    living: Mapping[PodShape, int],
    leaving: Mapping[PodShape, int],
    has: Grant,
    size: Grant,
    *,
    accounting: Accounting = ALL_REQUESTS,
) -> float:
    """Returns which part of a job the pods that terminate use beyond what it has; ``size`` is the whole job. Pods that
    only release places use none.
    """
    return _share(totals(living, accounting), totals(leaving, accounting), has, size)


def _share(living: tuple[int, Counter[str]], leaving: tuple[int, Counter[str]], has: Grant, size: Grant) -> float:
    """As ``overlap``, of pods that are counted already."""
    pods, requests = living
    going, freed = leaving
    beyond = [(min(going, pods + going - has.pods), size.pods)]
    for name, amount in freed.items():
        beyond.append((min(amount, requests[name] + amount - has.requests.get(name, 0)), size.requests.get(name, 0)))
    return max((amount / whole if whole else inf for amount, whole in beyond if amount > 0), default=0.0)


def over(pod: RunningPod, now: float) -> bool:
    """Whether the grace period of a pod has ended: its kubelet has killed it, or cannot, and nobody can use that node.
    The quota of a group of pods is released at the same moment.
    """
    return bool(pod.deleted) and now >= pod.ends


def surplus(
    leaving: Sequence[RunningPod],
    living: Mapping[PodShape, int],
    has: Grant,
    budget: OverlapBudget,
    now: float,
    *,
    accounting: Accounting = ALL_REQUESTS,
) -> tuple[RunningPod, ...]:
    """Returns the pods whose grace period is to be ended, so that no more overlap than may: those that end at once
    anyway, then those that were deleted first. Each pod may have a shape of its own: they are counted once.
    """
    runs = totals(living, accounting)
    left, freed = totals(Counter(each.shape for each in leaving), accounting)
    ended = []
    for pod in sorted(leaving, key=lambda pod: (pod.ends > now + _SOON_SECONDS, pod.deleted, pod.name)):
        if _share(runs, (left, freed), has, budget.size) <= budget.share:
            break
        left -= 1
        freed.subtract(dict(counted(pod.shape, accounting)))
        ended.append(pod)
    return tuple(ended)
