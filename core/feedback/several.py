"""Pods, or groups of pods, that are queued one by one, such as those of a Deployment: how many of them can run.

Separate from `core.feedback.capacity`, whose rules are about one job: here a part may be admitted without the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from api import quantity
from core.feedback import capacity, waiting
from core.feedback.capacity import Amount
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue, FlavorResource
from core.state.lookup import Lookup


def only_some(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Reports that some can never run beside the others, or else that some start later; nothing if none can start,
    which other rules report.
    """
    if job.units < 2:
        return
    name, unit = shortened(queue.name), job.words.unit
    for most, amount in ((True, lookup.most), (False, lookup.available)):
        count, lacks = _that_fit(job, queue, lookup, amount)
        if not count:
            return
        if lacks is None:
            continue
        resource, flavors = lacks
        asked = sum(each.requests.get(resource, 0) * each.count for each in job.pod_sets)
        given = sum(max(0, amount(queue.name, FlavorResource(flavor, resource))) for flavor in flavors)
        each = "each" if unit == "pod" else f"each {unit}"
        asks = f"{each} asks for {quantity.text(resource, asked)} {shortened(resource)}"
        has, of = quantity.text(resource, given), f"{count} of {job.units} {unit}s"
        if most:
            set_to = f"set {job.words.pods} to {count}"
            yield fitted(
                f'at most {of} can run: {asks}, ClusterQueue "{name}" allows {has}; {set_to}',
                or_else=[f"at most {of} can run: {asks}, the maximum is {has}; {set_to}"],
            )
            return
        if waiting.preempts(queue):
            return
        yield fitted(
            f'{of} start now: {asks}, {has} free in ClusterQueue "{name}"; the others start automatically',
            f'{of} start now: {asks}, {has} free in "{name}"; the others start automatically',
            f'{of} start now: {asks}, {has} free in "{name}"',
            or_else=[f"{of} start now: {asks}, {has} free; the others start automatically"],
        )


def _that_fit(
    job: Submission, queue: ClusterQueue, lookup: Lookup, amount: Amount
) -> tuple[int, tuple[str, list[str]] | None]:
    """Returns how many fit together; if not all do also the resource that the next one lacks, and the flavors tried."""
    taken: Counter[FlavorResource] = Counter()

    def left(name: str, fr: FlavorResource) -> int:
        return amount(name, fr) - taken[fr]

    count = 0
    while count < job.units:
        found = capacity.assigned(job, queue, lookup, left)
        if found is None:
            return count, _lacks(job, queue, lookup, left)
        fit = min((left(queue.name, fr) // each for fr, each in found.items() if each), default=job.units)
        times = min(max(1, fit), job.units - count)
        count += times
        for fr, each in found.items():
            taken[fr] += each * times
    return count, None


def _lacks(job: Submission, queue: ClusterQueue, lookup: Lookup, left: Amount) -> tuple[str, list[str]] | None:
    for demand in capacity.demands(job, queue):
        flavors = capacity.suitable(demand, lookup)
        short = [capacity.lacking(demand.least, name, queue, left) for name in flavors]
        if flavors and all(short):
            return sorted(short[0])[0], flavors
    return None  # the pod sets together lack what each of them has
