"""Whether what a job asks for could ever fit its ClusterQueue, fits now, or has to be borrowed, flavor by flavor.

A pod set takes all resources of a resource group from one flavor. These are necessary conditions, pod set by pod set:
what is said here is true, though a job of several pod sets may have to wait without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from api import quantity
from api.names import PODS_RESOURCE, PreemptionPolicy
from core import placement
from core.feedback.rules import fitted
from core.feedback.submission import Submission
from core.lookup import Lookup
from core.model import ClusterQueue, FlavorResource, PodSet, QueueingStrategy, Quota, ResourceGroup

Judgement: TypeAlias = Callable[[Submission, ClusterQueue, Lookup], Iterable[str]]
OfJob: TypeAlias = Callable[[Submission, Lookup], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod set asks of one resource group: at least this much (its min count), and at most."""

    pod_set: PodSet
    group: ResourceGroup
    least: dict[str, int]
    full: dict[str, int]

    @property
    def partial(self) -> bool:
        """Whether fewer pods than all would do."""
        return self.pod_set.min_count is not None and self.pod_set.min_count < self.pod_set.count


def demands(job: Submission, queue: ClusterQueue) -> Iterator[Demand]:
    """Every pod set with every resource group that it asks something of."""
    for pod_set in job.pod_sets:
        for group in queue.groups:
            full = _asked(pod_set, group, pod_set.count)
            if full:
                least = pod_set.count if pod_set.min_count is None else pod_set.min_count
                yield Demand(pod_set, group, _asked(pod_set, group, least), full)


def _asked(pod_set: PodSet, group: ResourceGroup, count: int) -> dict[str, int]:
    asked = {name: amount * count for name, amount in pod_set.requests.items() if name in group.resources and amount}
    if PODS_RESOURCE in group.resources and count:
        asked[PODS_RESOURCE] = count
    return asked


def _suitable(demand: Demand, lookup: Lookup) -> list[str]:
    """The flavors of the group that the pods could run on, as far as they exist, in the order they are tried."""
    found = ((name, lookup.flavor(name)) for name in demand.group.flavors)
    return [
        name
        for name, flavor in found
        if flavor is not None and placement.mismatch(demand.pod_set.placement, flavor) is None
    ]


def not_covered(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The first resource that no group of the queue covers."""
    covered = {name for group in queue.groups for name in group.resources}
    for pod_set in job.pod_sets:
        for name, amount in sorted(pod_set.requests.items()):
            if amount and name not in covered:
                asked = quantity.text(name, amount * pod_set.count)
                listed = ", ".join(sorted(covered))
                yield fitted(
                    f'ClusterQueue "{queue.name}" gives no {name} (asked: {asked}): it covers {listed}',
                    f"the ClusterQueue gives no {name} (asked: {asked}): it covers {listed}",
                    f"the ClusterQueue gives no {name} (asked: {asked})",
                )
                return


def no_flavor(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """For each pod set and group that no flavor suits: what is in the way, flavor by flavor."""
    for demand in demands(job, queue):
        flavors = [found for name in demand.group.flavors if (found := lookup.flavor(name)) is not None]
        if not flavors or _suitable(demand, lookup):
            continue
        why = "; ".join(_obstacle(demand.pod_set, flavor.name, lookup) for flavor in flavors)
        first = _obstacle(demand.pod_set, flavors[0].name, lookup)
        rest = f"; {len(flavors) - 1} more flavors" if len(flavors) > 1 else ""
        yield fitted(
            f'no flavor of ClusterQueue "{queue.name}" takes pod set {demand.pod_set.name}: {why}',
            f"no flavor takes pod set {demand.pod_set.name}: {why}",
            f"no flavor takes pod set {demand.pod_set.name}: {first}{rest}",
        )


def _obstacle(pod_set: PodSet, name: str, lookup: Lookup) -> str:
    flavor = lookup.flavor(name)
    assert flavor is not None
    taint = placement.untolerated(flavor.node_taints, pod_set.placement.tolerations + flavor.tolerations)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"{name} needs a toleration of {taint.key}{value}:{taint.effect}"
    for key, value in sorted(pod_set.placement.node_selector.items()):
        if flavor.node_labels.get(key, value) != value:
            return f"{name} has {key}={flavor.node_labels[key]}, not {value}"
    return f"{name} is not in the node affinity"


def too_large(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The first resource that even the flavor with most of it could never give, where nobody's lending is at fault."""
    for demand, resource, flavors in _never(job, queue, lookup):
        if not demand.partial and not _unlent(queue, resource, flavors, lookup):
            yield _at_most(demand, resource, flavors, queue, lookup)


def min_too_large(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A least number of pods that could never start together, and how many could."""
    for demand, resource, flavors in _never(job, queue, lookup):
        if demand.partial:
            most = max(lookup.most(queue.name, FlavorResource(name, resource)) for name in flavors)
            asked, given = (quantity.text(resource, amount) for amount in (demand.least[resource], most))
            fit = _pods_that_fit(demand, flavors, queue, lookup)
            mend = f"set job-min-parallelism to {fit} or less" if fit else "not even one pod fits"
            least = demand.pod_set.min_count
            asks = f"even {'1 pod asks' if least == 1 else f'{least} pods ask'} for {asked} {resource}"
            yield fitted(
                f'never starts: {asks}, ClusterQueue "{queue.name}" gives {given}; {mend}',
                f"never starts: {asks}, {given} can be given; {mend}",
                f"never starts: the least number of pods is too large; {mend}",
            )


def only_partly(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A job that may start with fewer pods, and never will with all of them."""
    for demand in demands(job, queue):
        flavors = _suitable(demand, lookup)
        whole = any(not _lacking(demand.full, name, queue, lookup.most) for name in flavors)
        if demand.partial and flavors and not whole and _holds(demand, flavors, queue, lookup):
            fit = _pods_that_fit(demand, flavors, queue, lookup)
            yield fitted(
                f'starts with {fit} of its {demand.pod_set.count} pods at most: ClusterQueue "{queue.name}" cannot give'
                " more",
                f"starts with {fit} of its {demand.pod_set.count} pods at most: the ClusterQueue cannot give more",
            )


def _pods_that_fit(demand: Demand, flavors: list[str], queue: ClusterQueue, lookup: Lookup) -> int:
    """How many of the pods one flavor could hold at once, were nothing in use."""
    each = {resource: amount // demand.pod_set.count for resource, amount in demand.full.items()}
    return max(
        min(max(0, lookup.most(queue.name, FlavorResource(name, resource))) // one for resource, one in each.items())
        for name in flavors
    )


def _never(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterator[tuple[Demand, str, list[str]]]:
    """Demands that no suitable flavor can ever hold, with the resource that is shortest and the flavors tried."""
    for demand in demands(job, queue):
        flavors = _suitable(demand, lookup)
        lacking = [_lacking(demand.least, name, queue, lookup.most) for name in flavors]
        if flavors and all(lacking):
            # The resource that fails in every flavor tells more than one that fails in some.
            common = [name for name in sorted(demand.least) if all(name in each for each in lacking)]
            yield demand, (common or sorted(lacking[0]))[0], flavors


def _lacking(
    asked: dict[str, int], flavor: str, queue: ClusterQueue, most: Callable[[str, FlavorResource], int]
) -> set[str]:
    return {
        resource for resource, amount in asked.items() if amount > most(queue.name, FlavorResource(flavor, resource))
    }


def _quota(queue: ClusterQueue, flavor: str, resource: str) -> Quota:
    return queue.quotas.get(FlavorResource(flavor, resource), Quota())


def _at_most(demand: Demand, resource: str, flavors: list[str], queue: ClusterQueue, lookup: Lookup) -> str:
    asks = f"asks for {quantity.text(resource, demand.least[resource])} {resource}"
    most = {name: lookup.most(queue.name, FlavorResource(name, resource)) for name in flavors}
    each = [f"{quantity.text(resource, most[name])} in {name}" for name in flavors]
    own = _quota(queue, flavors[0], resource).nominal
    split = f" ({quantity.text(resource, own)} own, {quantity.text(resource, most[flavors[0]] - own)} borrowed)"
    detail = split if len(flavors) == 1 and most[flavors[0]] > own else ""
    best = max(flavors, key=lambda name: (most[name], -flavors.index(name)))
    return fitted(
        f'never starts: {asks}, ClusterQueue "{queue.name}" gives at most {", ".join(each)}{detail}',
        f"never starts: {asks}, the ClusterQueue gives at most {', '.join(each)}{detail}",
        f"never starts: {asks}, at most {quantity.text(resource, most[best])} can be given (in flavor {best})",
        f"never starts: {asks}, at most {quantity.text(resource, most[best])} can be given",
    )


def _unlent(queue: ClusterQueue, resource: str, flavors: list[str], lookup: Lookup) -> bool:
    """Whether the queue may borrow, and yet would get no more than its own from anybody."""

    def alone(flavor: str) -> bool:
        quota = _quota(queue, flavor, resource)
        own = lookup.most(queue.name, FlavorResource(flavor, resource)) <= quota.nominal
        return own and quota.borrowing_limit != 0

    return bool(queue.cohort) and all(alone(flavor) for flavor in flavors)


def nobody_lends(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """What is above the own quota in every flavor, where nobody in the cohort lends."""
    for demand, resource, flavors in _never(job, queue, lookup):
        if not demand.partial and _unlent(queue, resource, flavors, lookup):
            asked = quantity.text(resource, demand.least[resource])
            own = max(_quota(queue, name, resource).nominal for name in flavors)
            owned = quantity.text(resource, own)
            yield fitted(
                f'never starts: asks for {asked} {resource}, ClusterQueue "{queue.name}" owns {owned},'
                f' nobody in cohort "{queue.cohort}" lends',
                f"never starts: asks for {asked} {resource}, the ClusterQueue owns {owned}, nobody in its cohort lends",
            )


def _holds(demand: Demand, flavors: list[str], queue: ClusterQueue, lookup: Lookup) -> bool:
    return any(not _lacking(demand.least, name, queue, lookup.most) for name in flavors)


def only_by_borrowing(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """What fits no flavor's own quota, though it fits with what can be borrowed."""
    for demand in demands(job, queue):
        flavors = _suitable(demand, lookup)
        if not flavors or not _holds(demand, flavors, queue, lookup):
            continue
        beyond = [
            {r for r, amount in demand.least.items() if amount > _quota(queue, name, r).nominal} for name in flavors
        ]
        if not all(beyond):
            continue
        resource = sorted(beyond[0])[0]
        asked = demand.least[resource]
        own = max(_quota(queue, name, resource).nominal for name in flavors)
        missing = quantity.text(resource, asked - own)
        asks = f"asks for {quantity.text(resource, asked)} {resource}, {quantity.text(resource, own)} is its own"
        yield fitted(
            f'{asks}: starts only while {missing} can be borrowed in cohort "{queue.cohort}"',
            f"{asks}: starts only while {missing} can be borrowed",
        )


def will_wait(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The first thing that is missing now, of what fits in the long run, and how many wait before it."""
    ahead = lookup.ahead(queue.name, _priority(job, lookup))
    standing = lookup.standing(queue.name)
    if standing is None or not standing.active:
        return  # which is said of the queue, and is why
    unless = "will wait unless it can preempt" if preempts(queue) else "will wait"
    for demand in demands(job, queue):
        flavors = _suitable(demand, lookup)
        if not flavors or not _holds(demand, flavors, queue, lookup):
            return
        lacking = [_lacking(demand.least, name, queue, lookup.available) for name in flavors]
        if all(lacking):
            resource = sorted(lacking[0])[0]
            free = max(0, *(lookup.available(queue.name, FlavorResource(name, resource)) for name in flavors))
            asked = quantity.text(resource, demand.least[resource])
            yield fitted(
                f"{unless}: asks for {asked} {resource}, {quantity.text(resource, free)} is free in ClusterQueue"
                f' "{queue.name}"; {_place(ahead)}',
                f"{unless}: asks for {asked} {resource}, {quantity.text(resource, free)} is free; {_place(ahead)}",
            )
            return
    if ahead and queue.strategy == QueueingStrategy.STRICT_FIFO and lookup.blocked(queue.name):
        yield fitted(
            f'will wait: ClusterQueue "{queue.name}" is StrictFIFO and its head does not fit; {_place(ahead)}',
            f"will wait: the ClusterQueue is StrictFIFO and its head does not fit; {_place(ahead)}",
        )


def preempts(queue: ClusterQueue) -> bool:
    """Whether workloads of the ClusterQueue may preempt others at all."""
    never = PreemptionPolicy.NEVER
    return queue.preemption.within_cluster_queue != never or queue.preemption.reclaim_within_cohort != never


def _priority(job: Submission, lookup: Lookup) -> int:
    """What the Workload will have, as far as the classes exist."""
    if job.priority_class:
        return lookup.priority_class(job.priority_class) or 0
    return lookup.pod_priority_class(job.pod_priority_class) or 0


def _place(ahead: int) -> str:
    if not ahead:
        return "it is next in line"
    return f"place {ahead + 1} in line, {ahead} {'workload' if ahead == 1 else 'workloads'} ahead"
