"""What would happen to a job that is created with ``--dry-run=server``: whether it starts now, or when, or never.

Separate from ``core.feedback.waiting``, which reports why a job does not start: a client that creates a job that starts
gets no warning, but one that only asks wants to know that, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from core.feedback.change import workloads
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.feedback.waiting import expected, newcomer
from core.model import Admission, ClusterQueue, QueueingStrategy, Victim
from core.model.forecast import StartForecast, span
from core.quota.checks import required_checks
from core.state.lookup import Lookup
from core.state.what_if import NewcomerDecision


def would_start(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Returns when the job would start and in which flavors: now, and how many workloads it would preempt for that;
    later, as the forecast says; or never. Nothing if the job would wait and nothing is forecast.
    """
    condition = lookup.active_condition(queue.name)
    if not job.dry_run or condition is None or not condition.active:
        return
    if not job.pod_sets:
        yield "not known when it would start: its pods are defined by another object"
        return
    made, who = newcomer(job, lookup), "" if job.units == 1 else f"one of the {job.units} {job.words.unit}s "
    ahead, forecast = lookup.ahead(queue.name, made.priority), expected(job, lookup)
    later = forecast is not None and (forecast.never or (forecast.p50 or 0) >= 1)
    blocked = ahead and queue.strategy == QueueingStrategy.STRICT_FIFO and lookup.blocked(queue.name)
    found = NewcomerDecision(None) if blocked or later else lookup.outcome(queue.name, made)
    if found is None or found.admission is None:
        if forecast is not None:
            yield from _later(forecast, who)
        elif found is None:
            yield "the number of workloads with quota is too large to say in time whether it would start now"
        return
    checks = sorted(required_checks(queue, found.admission))
    start = f"{who}would {'get quota' if checks else 'start'} now"
    preempting = _preempting(found.victims, queue)
    sure = forecast is not None and forecast.known  # with those before it
    where = f", in {_named(forecast.flavors) if forecast is not None and sure else _flavors(found.admission)}"
    before = "the workload before it does not" if ahead == 1 else f"none of the {workloads(ahead)} before it does"
    waits = f", if {before}" if ahead and not sure else ""
    then = f'; AdmissionCheck "{shortened(checks[0])}" decides then' if checks else ""
    yield fitted(
        f"{start}{preempting}{where}{waits}{then}",
        f"{start}{preempting}{where}{then}",
        or_else=[f"{start}{preempting}{where}", f"{start}{preempting}"],
    )


def _later(found: StartForecast, who: str) -> Iterable[str]:
    """Returns what the forecast says about a job that does not start now."""
    if found.p50 is None:
        if found.never:
            why = found.unknown.partition(": ")[2]
            never = f"{who}would never start as things are"
            yield fitted(f"{never}: {shortened(why)}", or_else=[never])
        else:
            yield fitted(f"not known when {who or 'it '}would start: {shortened(found.unknown)}")
        return
    start, between = ("get quota" if found.checks else "start"), f" {found.between(found.at)}".rstrip()
    then = f'; AdmissionCheck "{shortened(found.checks[0])}" decides then' if found.checks else ""
    when = f"in about {span(found.p50)}" if found.p50 >= 1 else "now"
    flavors = _named(found.flavors)
    yield fitted(
        f"{who}would {start} {when}{between}, in {flavors}{then}",
        or_else=[f"{who}would {start} {when}{between}, in {flavors}", f"{who}would {start} {when}{between}"],
    )


def _flavors(admission: Admission) -> str:
    return _named(dict.fromkeys(flavor for each in admission.pod_sets for flavor in each.flavors.values()))


def _named(used: Collection[str]) -> str:
    if not used:
        return "no flavor: it requests nothing that has quota"
    return "flavor " + " and ".join(f'"{shortened(each)}"' for each in used)


def _preempting(victims: Iterable[Victim], queue: ClusterQueue) -> str:
    """Names no workload and no other ClusterQueue: who creates jobs may have no right to read either."""
    own = [each.cluster_queue == queue.name for each in victims]
    others = own.count(False)
    if not any(own):
        where = "another ClusterQueue" if others == 1 else "other ClusterQueues"
        return f" by preempting {workloads(others)} of {where}" if others else ""
    more = f" and {others} of others" if others else ""
    return f' by preempting {workloads(own.count(True))} of ClusterQueue "{shortened(queue.name)}"{more}'
