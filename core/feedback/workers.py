"""Whether a worker cluster of MultiKueue could ever take a job, by what is known of its queues.

The same sentence is the warning of kubectl when the job is created, and later the message of the check and its event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api import quantity
from core.feedback import capacity
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.matching import placement
from core.model import ClusterQueue, FlavorResource, Key, StopPolicy
from core.multikueue.hopeless import sentence, shortest
from core.state.lookup import Lookup

_REQUEST: Final = "add resources.requests"


def no_worker(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A job whose ClusterQueue has a MultiKueue check, and that none of its worker clusters could ever take, or that is
    never offered to them.
    """
    for check in sorted({rule.name for rule in queue.checks}):
        workers = lookup.workers(check)
        if workers and not capacity.gets_flavor(job, queue):
            asked = f"this {job.words.job} requests nothing of what"
            yield fitted(
                f'no worker cluster gets it: {asked} ClusterQueue "{shortened(queue.name)}" counts; {_REQUEST}',
                f"no worker cluster gets it: {asked} its ClusterQueue counts; {_REQUEST}",
            )
            continue
        reasons = {shortened(name): why_never(job, worker) for name, worker in workers.items() if worker is not None}
        if workers and len(reasons) == len(workers) and all(reasons.values()):
            yield fitted(sentence(reasons), or_else=[shortest(reasons)])


def why_never(job: Submission, worker: Lookup) -> str:
    """Returns what must be changed in a worker cluster before it can take the job; '' if nothing, or if its queues are
    not known.
    """
    if not worker.synced:
        return ""
    labels, local = worker.namespace_labels(job.namespace), worker.local_queue(Key(job.namespace, job.queue))
    if labels is None:
        return f'no namespace "{shortened(job.namespace)}"'
    if local is None:
        return f'no LocalQueue "{shortened(job.queue)}"'
    queue, name = worker.cluster_queue(local.cluster_queue), f'ClusterQueue "{shortened(local.cluster_queue)}"'
    if queue is None:
        return f"no {name}"
    for stopped, policy in ((f'LocalQueue "{shortened(job.queue)}"', local.stop_policy), (name, queue.stop_policy)):
        if policy != StopPolicy.NONE:
            return f"{stopped} is stopped"
    if queue.namespace_selector is None or not placement.matches(queue.namespace_selector, labels):
        return f"{name} does not admit the namespace"
    condition = worker.active_condition(queue.name)
    if condition is not None and not condition.active:
        return f"{name} is inactive"
    return _too_little(job, queue, worker)


def _too_little(job: Submission, queue: ClusterQueue, worker: Lookup) -> str:
    missing = capacity.uncovered(job, queue, worker)
    if missing is not None:
        return f"no quota for {shortened(missing[0])}"
    for demand in capacity.demands(job, queue):
        flavors = capacity.suitable(demand, worker)
        if not flavors:
            return "no flavor matches the pods"
        short = [capacity.lacking(demand.least, flavor, queue, worker.most) for flavor in flavors]
        if all(short):
            resource = sorted(set.intersection(*short) or short[0])[0]
            most = max(worker.most(queue.name, FlavorResource(flavor, resource)) for flavor in flavors)
            asked, given = (quantity.text(resource, amount) for amount in (demand.least[resource], most))
            return f"asks for {asked} {shortened(resource)}, at most {given} is allowed"
    return ""
