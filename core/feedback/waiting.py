"""Why a job that fits in principle does not start immediately: quota in use, pods that are not ready, checks.

Separate from `core.feedback.capacity` because it reads present usage, which changes from minute to minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from api import quantity
from api.names import BUILT_IN_CONTROLLERS, PreemptionPolicy
from core.feedback import capacity
from core.feedback.change import workloads
from core.feedback.elsewhere import elsewhere
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.model import AdmissionCheck, ClusterQueue, FlavorResource, Key, QueueingStrategy, Workload
from core.model.forecast import StartForecast
from core.state.lookup import Lookup


def will_wait(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Reports the first resource that is missing now, for a job that fits in principle, and its queue position; nothing
    for a job that is admitted by preemption.
    """
    condition = lookup.active_condition(queue.name)
    if condition is None or not condition.active:
        return  # another rule reports the queue, which is the reason
    ahead = lookup.ahead(queue.name, priority(job, lookup))
    where = f'ClusterQueue "{shortened(queue.name)}"'
    for demand in capacity.demands(job, queue):
        flavors = capacity.suitable(demand, lookup)
        if not flavors or not capacity.holds(demand, flavors, queue, lookup.most):
            return
        short = [capacity.lacking(demand.least, name, queue, lookup.available) for name in flavors]
        if all(short):
            preempting = _preempting(job, queue, lookup) if preempts(queue) else False
            if ahead or not preempting:
                waits = "will wait" if preempting is False else "will wait unless it preempts"
                position = f"{_position(ahead)}{_expected(job, lookup)}"
                yield _short_of(waits, job, demand, sorted(short[0])[0], flavors, queue, position, lookup)
            return
    if ahead and queue.strategy == QueueingStrategy.STRICT_FIFO and lookup.blocked(queue.name):
        position = f"{_position(ahead)}{_expected(job, lookup)}"
        fix = _with_room(job, lookup) or ("" if ", " in position else "starts automatically")
        strict = f"will wait: {where} is StrictFIFO and its first workload does not fit; {position}"
        yield fitted(
            f"{strict}; {fix}" if fix else strict,
            or_else=[strict, f"will wait: the first workload of {where} does not fit; {position}"],
        )
    elif not ahead and _reorders_flavors(queue) and _preempting(job, queue, lookup) is False:
        starts = _expected(job, lookup).removeprefix(", ") or "starts automatically"
        yield fitted(
            f"will wait: {where} cannot admit it now, by borrowing or preemption; {starts}",
            or_else=[f"will wait: {where} cannot admit it now; {starts}"],
        )


def _reorders_flavors(queue: ClusterQueue) -> bool:
    """Whether the search may pass over a flavor that fits by borrowing, for one where preemption seems possible. If it
    is not, the workload waits, in Kueue too.
    """
    return queue.fungibility.prefers_preemption and preempts(queue)


def _preempting(job: Submission, queue: ClusterQueue, lookup: Lookup) -> bool | None:
    """Whether the job, which is younger than all others, would be admitted immediately, if need be by preemption; None
    if unknown.
    """
    return lookup.starts(queue.name, newcomer(job, lookup))


def newcomer(job: Submission, lookup: Lookup) -> Workload:
    """Returns the job as a Workload that is younger than all others."""
    return Workload(Key(job.namespace, ""), "", math.inf, job.queue, priority(job, lookup), job.pod_sets)


def expected(job: Submission, lookup: Lookup) -> StartForecast | None:
    """Returns the forecast of a job like it; None where there is none."""
    return lookup.newcomer_forecast(Key(job.namespace, job.queue), priority(job, lookup), tuple(job.pod_sets))


def _expected(job: Submission, lookup: Lookup) -> str:
    """Returns when it starts, as the forecast of a job like it says; '' where none is known."""
    found = expected(job, lookup)
    return f", {found.expected(found.at)}" if found is not None and found.known else ""


def _short_of(
    waits: str,
    job: Submission,
    demand: capacity.AskedCapacity,
    resource: str,
    flavors: list[str],
    queue: ClusterQueue,
    position: str,
    lookup: Lookup,
) -> str:
    free = max(0, *(lookup.available(queue.name, FlavorResource(name, resource)) for name in flavors))
    over = -max(lookup.available(queue.name, FlavorResource(name, resource)) for name in flavors)
    given, lacks = quantity.text(resource, free), demand.least[resource] - free + max(0, over)
    more = f"{quantity.text(resource, lacks)} {'must be released' if over > 0 else 'missing'}"
    asks = f"{waits}: {demand.asks(resource)}, {given} free in"
    name, fix = shortened(queue.name), _with_room(job, lookup) or _now(job, demand, resource, flavors, queue, lookup)
    ends = f"; {fix}" if fix else "" if ", " in position else "; starts automatically"
    return fitted(
        f'{asks} ClusterQueue "{name}", {more}; {position}{ends}',
        f'{asks} "{name}", {more}; {position}{ends}',
        f'{asks} "{name}"; {position}{ends}',
        or_else=[
            f"{waits}: {demand.asks(resource)}, {given} free, {more}; {position}{ends}",
            f'{asks} "{name}", {more}; {position}',
            f"{waits}: {demand.asks(resource)}, {given} free; {position}",
        ],
    )


def _now(
    job: Submission,
    demand: capacity.AskedCapacity,
    resource: str,
    flavors: list[str],
    queue: ClusterQueue,
    lookup: Lookup,
) -> str:
    """Returns the request that would start immediately; '' if other workloads are first, or no request would."""
    if lookup.pending(queue.name):
        return ""
    if demand.pod_set.count > 1:
        fit = capacity.pods_that_fit(demand, flavors, queue, lookup.available)
        return f"set {capacity.count_field(job, demand)} to {fit} to start now" if fit else ""
    asked = capacity.at_most(demand, resource, flavors, queue, lookup.available)
    return f"ask for {asked} to start now" if asked else ""


def _with_room(job: Submission, lookup: Lookup) -> str:
    def room(queue: ClusterQueue) -> bool:
        return not lookup.pending(queue.name) and capacity.could_run(job, queue, lookup, lookup.available)

    return elsewhere(job, lookup, room, "has free quota")


def only_by_borrowing(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """The request exceeds the own quota of every flavor and cannot be borrowed now, but fits with what can be
    borrowed; nothing where preemption could make room.
    """
    for demand in capacity.demands(job, queue):
        flavors = capacity.suitable(demand, lookup)
        able = [name for name in flavors if not capacity.lacking(demand.least, name, queue, lookup.most)]
        beyond = {name: _borrowed(demand, name, queue) for name in flavors}
        if not able or not all(beyond.values()) or capacity.holds(demand, flavors, queue, lookup.available):
            continue
        if preempts(queue) and _preempting(job, queue, lookup) is not False:
            continue
        flavor = min(able, key=lambda name: len(beyond[name]))  # the first that has most of the requested resources
        resource = min(beyond[flavor])
        own, missing = (
            capacity.quota(queue, flavor, resource).nominal,
            quantity.text(resource, beyond[flavor][resource]),
        )
        asks = f"{demand.asks(resource)}, own quota in {shortened(flavor)} is {quantity.text(resource, own)}"
        owned = {name: capacity.quota(queue, flavor, name).nominal for name in sorted(beyond[flavor])}
        fix = f"; ask for {capacity.amounts(owned, resource)} or less" if all(owned.values()) else ""
        yield fitted(
            f'{asks}: starts only when {missing} can be borrowed in cohort "{shortened(queue.cohort)}"{fix}',
            f'{asks}: starts only when {missing} can be borrowed in cohort "{shortened(queue.cohort)}"',
            or_else=[f"{asks}: starts only when {missing} can be borrowed{fix}"],
        )


def _borrowed(demand: capacity.AskedCapacity, flavor: str, queue: ClusterQueue) -> dict[str, int]:
    """Returns the part of the request above the own quota of a flavor."""
    own = {resource: capacity.quota(queue, flavor, resource).nominal for resource in demand.least}
    return {resource: amount - own[resource] for resource, amount in demand.least.items() if amount > own[resource]}


def preempts(queue: ClusterQueue) -> bool:
    """Whether workloads of the ClusterQueue may preempt others at all."""
    never = PreemptionPolicy.NEVER
    return queue.preemption.within_cluster_queue != never or queue.preemption.reclaim_within_cohort != never


def priority(job: Submission, lookup: Lookup) -> int:
    """Returns the expected priority of the Workload, from the classes that exist."""
    if job.priority is not None:
        return job.priority
    if job.priority_class:
        return lookup.priority_class(job.priority_class) or 0
    counts = lookup.system_class_counts(job.pod_priority_class, job.namespace)
    return lookup.pod_priority_class(job.pod_priority_class if counts else "") or 0


def _position(ahead: int) -> str:
    return f"queue position {ahead + 1}"


def pods_not_ready(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """How many admitted workloads must have their pods ready first, where one starts after the other."""
    awaited = lookup.pods_awaited()
    if awaited:
        whose = f"the pods of {workloads(len(awaited))}"
        here = sorted(key.name for key in awaited if key.namespace == job.namespace)
        fix = f"see {shortened(here[0])}" if here else "they are in other namespaces"
        yield fitted(
            f"will wait until {whose} are ready: waitForPodsReady.blockAdmission admits one at a time; {fix}",
            f"will wait until {whose} are ready (waitForPodsReady.blockAdmission); {fix}",
        )


def check_inactive(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A check that is inactive, and why: the ClusterQueue admits nothing."""
    for check in inactive_checks(queue, lookup):
        inactive = f'AdmissionCheck "{shortened(check.name)}" is inactive'
        nothing = f'ClusterQueue "{shortened(queue.name)}" admits nothing'
        why = inactive_because(check, lookup)
        if why:
            yield fitted(
                f"{nothing}: {inactive}: {why}", f"{inactive}: {why}", or_else=[f"{inactive}: {shortened(why)}"]
            )
            continue
        until = f"until controller {shortened(check.controller_name)} runs"
        yield fitted(f"{inactive}: {nothing} {until}", f"{inactive}: nothing is admitted {until}")


def inactive_because(check: AdmissionCheck, lookup: Lookup) -> str:
    """Why an AdmissionCheck is inactive, as its controller or that of a worker cluster says; '' if its controller has
    said nothing and may not run.
    """
    cluster, message = lookup.cause(check.name)
    message = " ".join(message.split())
    if cluster:
        return f'MultiKueueCluster "{shortened(cluster)}": {message}'
    return message or ("not checked yet" if check.controller_name in BUILT_IN_CONTROLLERS else "")


def check_pending(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A check for which other workloads with quota wait."""
    for check in _checks(queue, lookup):
        held = lookup.checked(queue.name, check.name) if check.active else 0
        if held:
            do = "does" if held == 1 else "do"
            waits = f'will wait for AdmissionCheck "{shortened(check.name)}", as {workloads(held)} with quota {do}'
            yield fitted(f"{waits}; controller {shortened(check.controller_name)} decides it", waits)


def inactive_checks(queue: ClusterQueue, lookup: Lookup) -> list[AdmissionCheck]:
    """The AdmissionChecks of a ClusterQueue that exist, and that no controller looks after."""
    return [check for check in _checks(queue, lookup) if not check.active]


def _checks(queue: ClusterQueue, lookup: Lookup) -> list[AdmissionCheck]:
    names = sorted({rule.name for rule in queue.checks})
    return [found for name in names if (found := lookup.admission_check(name)) is not None]
