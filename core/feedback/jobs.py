"""What the person who submits a job should know at once: about the queue it names, and whether it could ever start.

Capacity (what fits where) is `core.feedback.capacity`; the table at the end holds all rules for jobs in the order in
which they matter to that person.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api.names import Label
from core import placement
from core.feedback import capacity
from core.feedback.rules import Finding, Rule, did_you_mean, findings, fitted, unknown
from core.feedback.submission import Submission
from core.lookup import Lookup
from core.model import ClusterQueue, Key, Labels, LocalQueue, Requirement, Selector, StopPolicy


def of_job(job: Submission, lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a job that is to wait; of one that names no queue, just that."""
    return findings(JOB_RULES if job.queue else JOB_RULES[:1], job, lookup)


def _queue(job: Submission, lookup: Lookup) -> LocalQueue | None:
    return lookup.local_queue(Key(job.namespace, job.queue))


def _cluster_queue(job: Submission, lookup: Lookup) -> ClusterQueue | None:
    queue = _queue(job, lookup)
    return lookup.cluster_queue(queue.cluster_queue) if queue is not None else None


def _queue_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    if _queue(job, lookup) is None:
        known = tuple(lookup.local_queue_names(job.namespace))
        hint = did_you_mean(job.queue, known, several="LocalQueues")
        yield fitted(
            f'LocalQueue "{job.queue}" does not exist in namespace "{job.namespace}": {hint}',
            f'LocalQueue "{job.queue}" does not exist here: {hint}',
            *unknown("LocalQueue", job.queue, known, hint, several="LocalQueues"),
        )


def _no_queue(job: Submission, lookup: Lookup) -> Iterable[str]:
    if not job.queue:
        waits = f"names no queue and waits until it does: set label {Label.QUEUE_NAME}"
        there = sorted(lookup.local_queue_names(job.namespace))
        yield fitted(*(f"{waits} to {' or '.join(there[:most])}" for most in (3, 2, 1) if there), waits)


def _queue_stopped(job: Submission, lookup: Lookup) -> Iterable[str]:
    queue = _queue(job, lookup)
    if queue is not None and queue.stop_policy != StopPolicy.NONE:
        yield fitted(
            f'LocalQueue "{job.queue}" is stopped (stopPolicy {queue.stop_policy}): the job waits until it is resumed',
            f"the LocalQueue is stopped (stopPolicy {queue.stop_policy}): the job waits until it is resumed",
        )


def _cluster_queue_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    queue = _queue(job, lookup)
    if queue is not None and lookup.cluster_queue(queue.cluster_queue) is None:
        known = tuple(lookup.cluster_queue_names())
        hint = did_you_mean(queue.cluster_queue, known, several="ClusterQueues")
        yield fitted(
            f'LocalQueue "{job.queue}" leads to ClusterQueue "{queue.cluster_queue}", which does not exist: {hint}',
            f'ClusterQueue "{queue.cluster_queue}" does not exist: {hint}',
            *unknown("ClusterQueue", queue.cluster_queue, known, hint, several="ClusterQueues"),
        )


def _cluster_queue_stopped(job: Submission, lookup: Lookup) -> Iterable[str]:
    queue = _cluster_queue(job, lookup)
    if queue is not None and queue.stop_policy != StopPolicy.NONE:
        yield fitted(
            f'ClusterQueue "{queue.name}" is stopped (stopPolicy {queue.stop_policy}):'
            " the job waits until it is resumed",
            f"the ClusterQueue is stopped (stopPolicy {queue.stop_policy}): the job waits until it is resumed",
        )


_PREFIX: Final = "Can't admit new workloads: "


def _cluster_queue_inactive(job: Submission, lookup: Lookup) -> Iterable[str]:
    queue = _cluster_queue(job, lookup)
    if queue is None or queue.stop_policy != StopPolicy.NONE:
        return
    standing = lookup.standing(queue.name)
    if queue.deleting:
        yield fitted(
            f'ClusterQueue "{queue.name}" is being deleted: the job waits until one of its name is made again',
            "the ClusterQueue is being deleted: the job waits until one of its name is made again",
        )
    elif standing is not None and not standing.active:
        why = standing.message.removeprefix(_PREFIX).rstrip(".")
        yield fitted(
            f'ClusterQueue "{queue.name}" admits nothing until an administrator mends it: {why}',
            f'ClusterQueue "{queue.name}" admits nothing: {why}',
            f"the ClusterQueue admits nothing: {standing.reason}: {why}",
        )


def _namespace_not_selected(job: Submission, lookup: Lookup) -> Iterable[str]:
    queue = _cluster_queue(job, lookup)
    labels = lookup.namespace_labels(job.namespace)
    if queue is None or labels is None:
        return
    if queue.namespace_selector is None:
        yield fitted(
            f'ClusterQueue "{queue.name}" admits no namespace at all: its namespaceSelector is not set',
            "the ClusterQueue admits no namespace at all: its namespaceSelector is not set",
        )
    elif not placement.matches(queue.namespace_selector, labels):
        wanted = unmet(queue.namespace_selector, labels)
        yield fitted(
            f'ClusterQueue "{queue.name}" does not admit namespace "{job.namespace}": it wants {wanted}',
            f'ClusterQueue "{queue.name}" does not admit this namespace: it wants {wanted}',
            f"the ClusterQueue wants of the namespace {wanted}",
        )


def unmet(selector: Selector, labels: Labels) -> str:
    """The first requirement that labels do not meet, as kubectl's ``-l`` writes it."""
    missing = next(each for each in selector.requirements if not placement.holds(each, labels))
    return _written(missing)


def _written(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In":
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({', '.join(values)})"
        case "NotIn":
            return f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({', '.join(values)})"
        case "Exists":
            return f"the label {key}"
        case "DoesNotExist":
            return f"no label {key}"
    return f"{key} {requirement.operator} {', '.join(values)}"


def _priority_class_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.priority_class and lookup.priority_class(job.priority_class) is None:
        known, several = tuple(lookup.priority_class_names()), "WorkloadPriorityClasses"
        hint = did_you_mean(job.priority_class, known, several=several)
        yield fitted(
            f'WorkloadPriorityClass "{job.priority_class}" does not exist: {hint}',
            *unknown("WorkloadPriorityClass", job.priority_class, known, hint, several=several),
        )
    if lookup.pod_priority_class(job.pod_priority_class) is None:
        known, several = tuple(lookup.pod_priority_class_names()), "PriorityClasses"
        hint = did_you_mean(job.pod_priority_class, known, several=several)
        yield fitted(
            f'PriorityClass "{job.pod_priority_class}" does not exist, so no pod can be made: {hint}',
            f"the PriorityClass does not exist, so no pod can be made: {hint}",
            *unknown("PriorityClass", job.pod_priority_class, known, hint, several=several),
        )


def _complaints(job: Submission, lookup: Lookup) -> Iterable[str]:
    for complaint in job.complaints:
        yield fitted(f"never admitted: {complaint}")


def _no_requests(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.silent and not any(pod_set.requests for pod_set in job.pod_sets):
        yield fitted(
            f"no container requests anything ({_named(job.silent)}): the job takes no quota; add resources.requests",
            "no container requests anything: the job takes no quota; add resources.requests",
        )
    elif job.silent:
        yield fitted(
            f"container {_named(job.silent)} requests nothing, so its share of quota is 0; add resources.requests",
            f"{len(job.silent)} containers request nothing, so their share of quota is 0; add resources.requests",
        )


def _limits_as_requests(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.by_limit:
        container, resource, amount = job.by_limit[0]
        more = f" (and {len(job.by_limit) - 1} more)" if len(job.by_limit) > 1 else ""
        yield fitted(
            f"container {container} limits {resource} to {amount} but requests none: the limit counts as request{more}",
            f"a limit of {resource} {amount} without a request counts as the request{more}",
        )


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _of_capacity(says: capacity.Judgement) -> capacity.OfJob:
    def texts(job: Submission, lookup: Lookup) -> Iterable[str]:
        queue = _cluster_queue(job, lookup)
        return says(job, queue, lookup) if queue is not None and queue.groups else ()

    return texts


JOB_RULES: Final[tuple[Rule[Submission], ...]] = (
    Rule(
        "no-queue",
        "The job names no queue, and jobs without one wait here (`manageJobsWithoutQueueName`).",
        _no_queue,
        example="names no queue and waits until it does: set label kueue.x-k8s.io/queue-name to main",
    ),
    Rule(
        "local-queue-not-found",
        "The queue that the job names does not exist in its namespace.",
        _queue_not_found,
        example='LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?',
    ),
    Rule(
        "priority-class-not-found",
        "The WorkloadPriorityClass does not exist, or the PriorityClass of the pods.",
        _priority_class_not_found,
        example='WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',
    ),
    Rule(
        "cluster-queue-not-found",
        "The LocalQueue leads to a ClusterQueue that is not there.",
        _cluster_queue_not_found,
        example='LocalQueue "main" leads to ClusterQueue "taem-a", which does not exist: did you mean "team-a"?',
    ),
    Rule(
        "namespace-not-selected",
        "The ClusterQueue does not admit the namespace.",
        _namespace_not_selected,
        example='ClusterQueue "team-a" admits no namespace at all: its namespaceSelector is not set',
    ),
    Rule(
        "invalid-pods",
        "Kubernetes or a LimitRange of the namespace forbids the pods.",
        _complaints,
        example="never admitted: containers[0] asks for 4 cpu, its limit is 2",
    ),
    Rule(
        "resource-not-covered",
        "The ClusterQueue gives none of a resource that the job asks for.",
        _of_capacity(capacity.not_covered),
        example='ClusterQueue "team-a" gives no nvidia.com/gpu (asked: 4): it covers cpu, memory',
    ),
    Rule(
        "no-matching-flavor",
        "Node selector, affinity or missing tolerations keep the pods off every flavor of the queue.",
        _of_capacity(capacity.no_flavor),
        example='no flavor of ClusterQueue "team-a" takes pod set main: standard has pool=standard, not fast',
    ),
    Rule(
        "nobody-lends",
        "More than the queue's own quota is asked, and nobody in its cohort lends any.",
        _of_capacity(capacity.nobody_lends),
        example=(
            'never starts: asks for 40Gi memory, ClusterQueue "team-a" owns 32Gi, nobody in cohort "research" lends'
        ),
    ),
    Rule(
        "request-too-large",
        "No flavor could ever hold the request, with all that can be borrowed.",
        _of_capacity(capacity.too_large),
        example=(
            'never starts: asks for 20 cpu, ClusterQueue "team-a" gives at most 12 in standard (8 own, 4 borrowed)'
        ),
    ),
    Rule(
        "min-parallelism-too-large",
        "Even the least number of pods could never start together.",
        _of_capacity(capacity.min_too_large),
        example=(
            'never starts: even 7 pods ask for 14 cpu, ClusterQueue "team-a" gives 12;'
            " set job-min-parallelism to 6 or less"
        ),
    ),
    Rule(
        "local-queue-stopped",
        "The LocalQueue is stopped.",
        _queue_stopped,
        example='LocalQueue "main" is stopped (stopPolicy Hold): the job waits until it is resumed',
    ),
    Rule(
        "cluster-queue-stopped",
        "The ClusterQueue is stopped.",
        _cluster_queue_stopped,
        example='ClusterQueue "team-a" is stopped (stopPolicy HoldAndDrain): the job waits until it is resumed',
    ),
    Rule(
        "cluster-queue-inactive",
        "The ClusterQueue is inactive for another reason.",
        _cluster_queue_inactive,
        example=(
            'ClusterQueue "team-a" admits nothing until an administrator mends it: references missing'
            " ResourceFlavor(s): gone"
        ),
    ),
    Rule(
        "no-requests",
        "Containers request nothing, and so take no quota.",
        _no_requests,
        example="no container requests anything (main): the job takes no quota; add resources.requests",
    ),
    Rule(
        "limits-as-requests",
        "Limits without requests: the limit is what counts.",
        _limits_as_requests,
        example="container main limits cpu to 4 but requests none: the limit counts as request",
    ),
    Rule(
        "only-by-borrowing",
        "The request is above the queue's own quota: it starts only when others leave theirs unused.",
        _of_capacity(capacity.only_by_borrowing),
        example='asks for 10 cpu, 8 is its own: starts only while 2 can be borrowed in cohort "research"',
    ),
    Rule(
        "only-partly",
        "With job-min-parallelism the job may start, but never with all of its pods.",
        _of_capacity(capacity.only_partly),
        example='starts with 6 of its 10 pods at most: ClusterQueue "team-a" cannot give more',
    ),
    Rule(
        "will-wait",
        "The job will not start at once: its place in line, what is ahead of it, and what is missing.",
        _of_capacity(capacity.will_wait),
        example=('will wait: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; place 3 in line, 2 workloads ahead'),
    ),
)
