"""Whether the request of a job can ever fit its ClusterQueue, fits now, or must be borrowed, for each flavor.

A pod set takes all resources of a resource group from one flavor. These are necessary conditions for each pod set:
every warning is true, but a job of several pod sets may have to wait without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from api import quantity
from api.names import PODS_RESOURCE
from core.feedback.change import lacks_nodes
from core.feedback.elsewhere import elsewhere
from core.feedback.rules import closest, fitted, shortened
from core.feedback.submission import Submission
from core.matching import placement
from core.model import ClusterQueue, FlavorResource, PodSet, Quota, ResourceFlavor, ResourceGroup
from core.state.lookup import Lookup

Judgement: TypeAlias = Callable[[Submission, ClusterQueue, Lookup], Iterable[str]]
OfJob: TypeAlias = Callable[[Submission, Lookup], Iterable[str]]
Amount: TypeAlias = Callable[[str, FlavorResource], int]
"""What a ClusterQueue has of a flavor-resource: at most (``Lookup.most``), or now (``Lookup.available``)."""


@dataclass(frozen=True, slots=True)
class AskedCapacity:
    """The request of one pod set from one resource group: the minimum (its min count), and the full one.

    ``called`` is the part of the job that the pods are, '' where it has no other.
    """

    pod_set: PodSet
    group: ResourceGroup
    least: dict[str, int]
    full: dict[str, int]
    causes: Mapping[tuple[str, str], str]
    called: str = ""

    @property
    def partial(self) -> bool:
        """Whether fewer pods than all would do."""
        return self.pod_set.min_count is not None and self.pod_set.min_count < self.pod_set.count

    def asks(self, resource: str) -> str:
        """``asks for 4 cpu``, or ``10 pods ask for 20 cpu``: as many as it needs at least; with the part of the job
        that asks, if there are several.
        """
        count = self.pod_set.count if self.pod_set.min_count is None else self.pod_set.min_count
        amount = f"{quantity.text(resource, self.least[resource])} {shortened(resource)}"
        if cause := self.causes.get((self.pod_set.name, resource)):
            amount += f" ({shortened(cause)})"
        if count > 1 and resource != PODS_RESOURCE:
            return f"{count} pods{f' of {self.called}' if self.called else ''} ask for {amount}"
        return f"{f'{self.called} ' if self.called else ''}asks for {amount}"


def demands(job: Submission, queue: ClusterQueue) -> Iterator[AskedCapacity]:
    """Every pod set with every resource group that it asks something of."""
    several = len(job.pod_sets) > 1
    for pod_set in job.pod_sets:
        called = job.words.call(pod_set.name) if several else ""
        for group in queue.groups:
            full = _asked(pod_set, group, pod_set.count)
            if full:
                least = pod_set.count if pod_set.min_count is None else pod_set.min_count
                yield AskedCapacity(pod_set, group, _asked(pod_set, group, least), full, job.causes, called)


def _asked(pod_set: PodSet, group: ResourceGroup, count: int) -> dict[str, int]:
    asked = {name: amount * count for name, amount in pod_set.requests.items() if name in group.resources and amount}
    if PODS_RESOURCE in group.resources and count:
        asked[PODS_RESOURCE] = count
    return asked


def gets_flavor(job: Submission, queue: ClusterQueue) -> bool:
    """Whether pods of a job get a flavor: one that requests nothing that the ClusterQueue counts gets none, and so has
    no admission checks, as in Kueue. Also true while nothing is known of the pods.
    """
    counted = {resource for group in queue.groups for resource in group.resources}
    asked = {name for pod_set in job.pod_sets if pod_set.count for name in (*pod_set.requests, PODS_RESOURCE)}
    return not job.pod_sets or bool(asked & counted)


def suitable(demand: AskedCapacity, lookup: Lookup) -> list[str]:
    """The flavors of the group that the pods could run on, as far as they exist, in the order they are tried."""
    found = ((name, lookup.flavor(name)) for name in demand.group.flavors)
    return [
        name
        for name, flavor in found
        if flavor is not None and placement.mismatch(demand.pod_set.placement, flavor) is None
    ]


def holds(demand: AskedCapacity, flavors: list[str], queue: ClusterQueue, amount: Amount) -> bool:
    """Whether one of the flavors has enough of everything."""
    return any(not lacking(demand.least, name, queue, amount) for name in flavors)


def lacking(asked: dict[str, int], flavor: str, queue: ClusterQueue, amount: Amount) -> set[str]:
    """Returns the resources of which the flavor has less than requested."""
    return {name for name, each in asked.items() if each > amount(queue.name, FlavorResource(flavor, name))}


def covers(queue: ClusterQueue, job: Submission, lookup: Lookup) -> bool:
    """Whether a group of the ClusterQueue covers each resource that a job requests, or it need not."""
    return uncovered(job, queue, lookup) is None


def could_hold(job: Submission, queue: ClusterQueue, lookup: Lookup, amount: Amount) -> bool:
    """Whether each pod set by itself fits a ClusterQueue."""
    return covers(queue, job, lookup) and all(
        holds(demand, suitable(demand, lookup), queue, amount)
        for demand in demands(job, queue)  # none: it asks for nothing
    )


def could_run(job: Submission, queue: ClusterQueue, lookup: Lookup, amount: Amount) -> bool:
    """Whether each pod set by itself fits a ClusterQueue, in flavors for which there are nodes and that have no device
    of which the job asks nothing: nobody is sent to the nodes of others.
    """
    asked = {name for pod_set in job.pod_sets for name, each in pod_set.requests.items() if each}
    idle = {
        fr.flavor
        for fr in queue.quotas
        if "/" in fr.resource and fr.resource not in asked and lookup.most(queue.name, fr) > 0
    }

    def plain(name: str, fr: FlavorResource) -> int:
        return 0 if fr.flavor in idle else amount(name, fr)

    return could_hold(job, queue, lookup, plain) and all(
        any((flavor := lookup.flavor(name)) and not lacks_nodes(flavor, lookup) for name in suitable(demand, lookup))
        for demand in demands(job, queue)
    )


def assigned(job: Submission, queue: ClusterQueue, lookup: Lookup, amount: Amount) -> dict[FlavorResource, int] | None:
    """Returns which flavors it will use, with the amounts: of the first flavor with room for all pods, else for the
    least number of them; None if there is no room.
    """
    taken: dict[FlavorResource, int] = {}

    def left(name: str, fr: FlavorResource) -> int:
        return amount(name, fr) - taken.get(fr, 0)

    for demand in demands(job, queue):
        flavors = suitable(demand, lookup)
        ways = ((name, asked) for asked in (demand.full, demand.least) for name in flavors)
        chosen = next((way for way in ways if not lacking(way[1], way[0], queue, left)), None)
        if chosen is None:
            return None
        flavor, asked = chosen
        for resource, each in asked.items():
            fr = FlavorResource(flavor, resource)
            taken[fr] = taken.get(fr, 0) + each
    return taken


def _another(job: Submission, lookup: Lookup) -> str:
    return elsewhere(job, lookup, lambda queue: could_run(job, queue, lookup, lookup.most), "could run it")


def uncovered(job: Submission, queue: ClusterQueue, lookup: Lookup) -> tuple[str, int] | None:
    """Returns the first resource that no group of the queue covers, and how much of it is requested."""
    if lookup.ignores_undeclared:
        return None
    covered = {name for group in queue.groups for name in group.resources}
    for pod_set in job.pod_sets:
        for name, amount in sorted(pod_set.requests.items()):
            if amount and pod_set.count and name not in covered:
                return name, amount * pod_set.count
    return None


def not_covered(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The first resource that no group of the queue covers."""
    found = uncovered(job, queue, lookup)
    if found is None:
        return
    asked = quantity.text(found[0], found[1])
    resources = sorted({name for group in queue.groups for name in group.resources})
    covered = ", ".join(resources)
    no_quota = f'ClusterQueue "{shortened(queue.name)}" has no quota for {shortened(found[0])} (asked: {asked})'
    another = _another(job, lookup)
    meant = _meant(found[0], resources)
    if meant is not None:
        yield fitted(f"{no_quota}: did you mean {shortened(meant)}?")
    elif covered:
        fix = another or "remove the request"
        yield fitted(f"{no_quota}, only for {covered}; {fix}", f"{no_quota}; {fix}")
    else:
        fix = another or "an administrator must add quota"
        yield fitted(f"{no_quota}: it has no resourceGroups; {fix}", f"{no_quota}; {fix}")


def _meant(resource: str, known: list[str]) -> str | None:
    """The resource that was probably meant: one spelt nearly like it, or of the same name in another domain."""
    name = resource.rpartition("/")[2]
    return closest(resource, known) or next((each for each in known if each.rpartition("/")[2] == name), None)


def no_flavor(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """For each pod set and group that no flavor matches: the reason for each flavor."""
    for demand in demands(job, queue):
        flavors = [found for name in demand.group.flavors if (found := lookup.flavor(name)) is not None]
        if not flavors or suitable(demand, lookup):
            continue
        able = [each for each in flavors if not lacking(demand.least, each.name, queue, lookup.most)]
        flavors.sort(key=lambda each: each not in able)
        obstacles, fixes = zip(*(_obstacle(demand.pod_set, flavor) for flavor in flavors), strict=True)
        pods = job.words.call(demand.pod_set.name)
        rest = f"; {len(flavors) - 1} more flavors" if len(flavors) > 1 else ""
        advice = (
            (fixes[0] if len(flavors) == 1 else "select one of these")
            if able
            else _less(demand, flavors, queue, lookup)
        )
        another = _another(job, lookup) or advice
        fix = f"; {another}" if another else ""
        where = f'ClusterQueue "{shortened(queue.name)}"'
        every = "; ".join(obstacles)
        yield fitted(
            f"no flavor of {where} matches {pods}: {every}{fix}",
            f"no flavor matches {pods}: {every}{fix}",
            or_else=[
                f"no flavor matches {pods}: {every}",
                f"no flavor matches {pods}: {obstacles[0]}{rest}{fix}",
                f"no flavor matches {pods}: {obstacles[0]}{rest}",
            ],
        )


def _less(demand: AskedCapacity, flavors: list[ResourceFlavor], queue: ClusterQueue, lookup: Lookup) -> str:
    """That none of the flavors could hold the pods either."""
    resource = sorted(lacking(demand.least, flavors[0].name, queue, lookup.most))[0]
    most = max(lookup.most(queue.name, FlavorResource(each.name, resource)) for each in flavors)
    return f"and {demand.asks(resource)}, the maximum is {quantity.text(resource, most)}"


def _obstacle(pod_set: PodSet, flavor: ResourceFlavor) -> tuple[str, str]:
    """Returns why the pods cannot use a flavor, and the fix if the reason does not contain it."""
    name = shortened(flavor.name)
    taint = placement.untolerated(flavor.node_taints, pod_set.placement.tolerations + flavor.tolerations)
    if taint is not None:
        value = f"={shortened(taint.value)}" if taint.value else ""
        return f"{name} needs a toleration of {shortened(taint.key)}{value}:{taint.effect}", ""
    for key, value in sorted(pod_set.placement.node_selector.items()):
        if flavor.node_labels.get(key, value) != value:
            has = f"{shortened(key)}={shortened(flavor.node_labels[key])}"
            return f"{name} has {has}, not {shortened(value)}", f"select {has}"
    labels = ",".join(f"{shortened(key)}={shortened(value)}" for key, value in sorted(flavor.node_labels.items()))
    return f"{name} has {labels}, which the node affinity excludes", "change the affinity"


def too_large(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The first resource for which the request exceeds even the largest flavor, if a cohort that lends nothing is not
    the reason.
    """
    for demand, resource, flavors in _never(job, queue, lookup):
        if demand.partial or _unlent(queue, resource, flavors, lookup):
            continue
        most = {name: lookup.most(queue.name, FlavorResource(name, resource)) for name in flavors}
        each = [f"{quantity.text(resource, most[name])} in {shortened(name)}" for name in flavors]
        own = quota(queue, flavors[0], resource).nominal
        split = f" ({quantity.text(resource, own)} own, {quantity.text(resource, most[flavors[0]] - own)} borrowed)"
        detail = split if len(flavors) == 1 and most[flavors[0]] > own else ""
        best = max(flavors, key=lambda name: (most[name], -flavors.index(name)))
        asks, where = demand.asks(resource), f'ClusterQueue "{shortened(queue.name)}"'
        fix = _another(job, lookup) or _barred(demand, flavors, queue, lookup)
        fix = fix or _smaller(job, demand, resource, flavors, queue, lookup)
        yield fitted(
            f"never starts: {asks}, {where} allows {', '.join(each)}{detail}; {fix}",
            f"never starts: {asks}, {where} allows {', '.join(each)}; {fix}",
            f"never starts: {asks}, the ClusterQueue allows {', '.join(each)}; {fix}",
            f"never starts: {asks}, it allows {', '.join(each)}; {fix}",
            f"never starts: {asks}, the ClusterQueue allows {', '.join(each)}",
            or_else=[
                f"never starts: {asks}, the maximum is {quantity.text(resource, most[best])}; {fix}",
            ],
        )


def _barred(demand: AskedCapacity, flavors: list[str], queue: ClusterQueue, lookup: Lookup) -> str:
    """Returns why the pods cannot use another flavor of the queue that is large enough; '' if there is none."""
    others = (lookup.flavor(name) for name in demand.group.flavors if name not in flavors)
    able = (each for each in others if each and not lacking(demand.least, each.name, queue, lookup.most))
    return next((_obstacle(demand.pod_set, each)[0] for each in able), "")


def _smaller(
    job: Submission, demand: AskedCapacity, resource: str, flavors: list[str], queue: ClusterQueue, lookup: Lookup
) -> str:
    """Returns a request that fits: as many pods as fit, else as much as there is."""
    count = demand.pod_set.count if demand.pod_set.min_count is None else demand.pod_set.min_count
    fit = pods_that_fit(demand, flavors, queue, lookup.most)
    if count > 1 and fit:
        return f"set {count_field(job, demand)} to {fit} or less"
    asked = at_most(demand, resource, flavors, queue, lookup.most)
    return f"ask for {asked} or less{' a pod' if count > 1 else ''}" if asked else "its quota is too small for any pod"


def count_field(job: Submission, demand: AskedCapacity) -> str:
    """The field in which the number of pods is changed, or the least number where fewer would do."""
    return job.words.least if demand.partial else job.words.field_of(demand.pod_set.name)


def at_most(demand: AskedCapacity, resource: str, flavors: list[str], queue: ClusterQueue, amount: Amount) -> str:
    """How much a pod may ask for at most, of all that is too much in the flavor where the fewest resources are: ``2``,
    or with names where it is not about this ``resource`` alone; '' where there is nothing left of something.
    """
    count = max(1, demand.pod_set.count if demand.pod_set.min_count is None else demand.pod_set.min_count)

    def left(flavor: str) -> dict[str, int]:
        short = sorted(lacking(demand.least, flavor, queue, amount))
        return {name: amount(queue.name, FlavorResource(flavor, name)) // count for name in short}

    ways = [found for name in flavors if (found := left(name)) and min(found.values()) > 0]
    best = min((way for way in ways if PODS_RESOURCE not in way), key=len, default={})
    return amounts(best, resource)


def amounts(asked: dict[str, int], resource: str) -> str:
    """Returns ``2``, or ``2 cpu and 4Gi memory`` where it is not about this resource alone."""
    if list(asked) == [resource]:
        return quantity.text(resource, asked[resource])
    return " and ".join(f"{quantity.text(name, each)} {shortened(name)}" for name, each in asked.items())


def min_too_large(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A least number of pods that could never start together, and how many could."""
    for demand, resource, flavors in _never(job, queue, lookup):
        if demand.partial:
            most = max(lookup.most(queue.name, FlavorResource(name, resource)) for name in flavors)
            asked, given = (quantity.text(resource, amount) for amount in (demand.least[resource], most))
            least = demand.pod_set.min_count
            asks = f"even {'1 pod asks' if least == 1 else f'{least} pods ask'} for {asked} {shortened(resource)}"
            fix = _smaller(job, demand, resource, flavors, queue, lookup)
            yield fitted(
                f'never starts: {asks}, ClusterQueue "{shortened(queue.name)}" allows {given}; {fix}',
                or_else=[f"never starts: {asks}, the maximum is {given}; {fix}"],
            )


def only_partly(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A job that may start with fewer pods, and never will with all of them."""
    for demand in demands(job, queue):
        flavors = suitable(demand, lookup)
        short = [lacking(demand.full, name, queue, lookup.most) for name in flavors]
        if demand.partial and flavors and all(short) and holds(demand, flavors, queue, lookup.most):
            fit, count = pods_that_fit(demand, flavors, queue, lookup.most), demand.pod_set.count
            resource = sorted(short[0])[0]
            most = max(lookup.most(queue.name, FlavorResource(name, resource)) for name in flavors)
            asked, given = (quantity.text(resource, amount) for amount in (demand.full[resource], most))
            of, all_ask = f"starts with at most {fit} of {count} pods", f"all ask for {asked} {shortened(resource)}"
            set_to = f"set {job.words.field_of(demand.pod_set.name)} to {fit}"
            # The least number of pods has to be less than all.
            fix = f"{set_to} without {job.words.least}" if fit == demand.pod_set.min_count else set_to
            where = f'ClusterQueue "{shortened(queue.name)}"'
            yield fitted(
                f"{of}: {all_ask}, {where} allows {given}; {fix}",
                f"{of}: {all_ask}, the maximum is {given}; {fix}",
                f"{of}: {all_ask}, maximum {given}; {fix}",
                or_else=[f"{of}: {all_ask}, the maximum is {given}; {set_to}"],
            )


def pods_that_fit(demand: AskedCapacity, flavors: list[str], queue: ClusterQueue, amount: Amount) -> int:
    """Returns how many of the pods one flavor can hold at the same time."""
    each = {resource: whole // demand.pod_set.count for resource, whole in demand.full.items()}
    return max(
        min(max(0, amount(queue.name, FlavorResource(name, resource))) // one for resource, one in each.items())
        for name in flavors
    )


def _never(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterator[tuple[AskedCapacity, str, list[str]]]:
    """Demands that no suitable flavor can ever hold, with the resource that is shortest and the flavors tried."""
    for demand in demands(job, queue):
        flavors = suitable(demand, lookup)
        short = [lacking(demand.least, name, queue, lookup.most) for name in flavors]
        if flavors and all(short):
            # A resource that is missing in every flavor is a better reason than one that is missing in some.
            common = [name for name in sorted(demand.least) if all(name in each for each in short)]
            yield demand, (common or sorted(short[0]))[0], flavors


def quota(queue: ClusterQueue, flavor: str, resource: str) -> Quota:
    """The quota of a ClusterQueue for a resource in a flavor; without any, none at all."""
    return queue.quotas.get(FlavorResource(flavor, resource), Quota())


def _unlent(queue: ClusterQueue, resource: str, flavors: list[str], lookup: Lookup) -> bool:
    """Whether the queue may borrow, but its cohort lends it nothing."""

    def alone(flavor: str) -> bool:
        given = quota(queue, flavor, resource)
        own = lookup.most(queue.name, FlavorResource(flavor, resource)) <= given.nominal
        return own and given.borrowing_limit != 0

    return bool(queue.cohort) and all(alone(flavor) for flavor in flavors)


def nobody_lends(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The request exceeds the own quota in every flavor, and the cohort lends nothing."""
    for demand, resource, flavors in _never(job, queue, lookup):
        if not demand.partial and _unlent(queue, resource, flavors, lookup):
            own = max(quota(queue, name, resource).nominal for name in flavors)
            owned, cohort = quantity.text(resource, own), shortened(queue.cohort)
            fix = _another(job, lookup) or _smaller(job, demand, resource, flavors, queue, lookup)
            yield fitted(
                f'never starts: {demand.asks(resource)}, ClusterQueue "{shortened(queue.name)}" has {owned},'
                f' cohort "{cohort}" lends none; {fix}',
                f'never starts: {demand.asks(resource)}, "{shortened(queue.name)}" has {owned},'
                f' cohort "{cohort}" lends none; {fix}',
                or_else=[
                    f"never starts: {demand.asks(resource)}, own quota is {owned}, its cohort lends none; {fix}",
                    f"never starts: {demand.asks(resource)}, own quota is {owned}, cohort lends none; {fix}",
                ],
            )
