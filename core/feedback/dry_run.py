"""What would happen to a job that is created with ``--dry-run=server``, if it starts now.

Separate from ``core.feedback.waiting``, which reports why a job does not start: a client that creates a job that starts
is told nothing, but one that only asks wants to know that, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.feedback.change import workloads
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.feedback.waiting import newcomer
from core.model import Admission, ClusterQueue, QueueingStrategy, Victim
from core.quota.checks import required_checks
from core.state.lookup import Lookup


def would_start(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Returns that the job would start now, in which flavors, and which workloads it would preempt for that; nothing if
    it would wait.
    """
    condition = lookup.active_condition(queue.name)
    if not job.dry_run or condition is None or not condition.active:
        return
    made = newcomer(job, lookup)
    ahead = lookup.ahead(queue.name, made.priority)
    if ahead and queue.strategy == QueueingStrategy.STRICT_FIFO and lookup.blocked(queue.name):
        return
    found = lookup.outcome(queue.name, made)
    if found is None:
        yield "the number of workloads with quota is too large to say in time whether it would start now"
        return
    if found.admission is None:
        return
    who = "" if job.units == 1 else f"one of the {job.units} {job.words.unit}s "
    checks = sorted(required_checks(queue, found.admission))
    start = f"{who}would {'get quota' if checks else 'start'} now"
    preempting = _preempting(found.victims, queue)
    where = f", in {_flavors(found.admission)}"
    before = "the workload before it does not" if ahead == 1 else f"none of the {workloads(ahead)} before it does"
    waits = f", if {before}" if ahead else ""
    then = f'; AdmissionCheck "{shortened(checks[0])}" decides then' if checks else ""
    yield fitted(
        f"{start}{preempting}{where}{waits}{then}",
        f"{start}{preempting}{where}{then}",
        or_else=[f"{start}{preempting}{where}", f"{start}{preempting}"],
    )


def _flavors(admission: Admission) -> str:
    used = dict.fromkeys(flavor for each in admission.pod_sets for flavor in each.flavors.values())
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
