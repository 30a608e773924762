"""Warnings about the queue that a job names: whether it exists, accepts the job, and admits workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api.names import ClusterQueueReason
from core.feedback.capacity import could_run
from core.feedback.elsewhere import elsewhere, taking
from core.feedback.rules import fitted, missing, shortened
from core.feedback.submission import Submission
from core.matching import placement
from core.model import ClusterQueue, Key, Labels, LocalQueue, Requirement, Selector, StopPolicy
from core.state.lookup import Lookup


def local_queue_of(job: Submission, lookup: Lookup) -> LocalQueue | None:
    """The LocalQueue that the job names."""
    return lookup.local_queue(Key(job.namespace, job.queue))


def cluster_queue_of(job: Submission, lookup: Lookup) -> ClusterQueue | None:
    """The ClusterQueue that it leads to."""
    queue = local_queue_of(job, lookup)
    return lookup.cluster_queue(queue.cluster_queue) if queue is not None else None


def no_queue(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A job without a queue, and in which queues it could run."""
    if not job.queue:
        waits = f"has no queue name and waits: set {job.words.queue}"
        there = taking(job, lookup, lambda queue: could_run(job, queue, lookup, lookup.most))
        yield fitted(*(f"{waits} to {' or '.join(there[:most])}" for most in (3, 2, 1) if there), waits)


def queue_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A LocalQueue that is not there, and the closest that is."""
    if local_queue_of(job, lookup) is None:
        yield missing(
            "LocalQueue",
            job.queue,
            lookup.local_queue_names(job.namespace),
            f'LocalQueue "{shortened(job.queue)}" does not exist in namespace "{shortened(job.namespace)}"',
            several="LocalQueues",
        )


def cluster_queue_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A ClusterQueue that is not there, and the closest that is."""
    queue = local_queue_of(job, lookup)
    if queue is not None and lookup.cluster_queue(queue.cluster_queue) is None:
        yield missing(
            "ClusterQueue",
            queue.cluster_queue,
            lookup.cluster_queue_names(),
            f'LocalQueue "{shortened(job.queue)}" points to ClusterQueue "{shortened(queue.cluster_queue)}", which does'
            " not exist",
            several="ClusterQueues",
        )


def _instead(job: Submission, lookup: Lookup) -> str:
    """Another queue that is open, as the end of a sentence."""
    other = elsewhere(job, lookup, lambda queue: could_run(job, queue, lookup, lookup.most), "is active")
    return f"; {other}" if other else ""


def queue_stopped(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A LocalQueue that is stopped, and how many wait in it."""
    queue = local_queue_of(job, lookup)
    if queue is not None and queue.stop_policy != StopPolicy.NONE:
        stopped, waiting = f'LocalQueue "{shortened(job.queue)}" is stopped', lookup.pending_for(queue.key)
        yield _stopped(stopped, queue.stop_policy, waiting, job, lookup)


def cluster_queue_stopped(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A ClusterQueue that is stopped, and how many wait in it."""
    queue = cluster_queue_of(job, lookup)
    if queue is not None and queue.stop_policy != StopPolicy.NONE:
        stopped, waiting = f'ClusterQueue "{shortened(queue.name)}" is stopped', lookup.pending(queue.name)
        yield _stopped(stopped, queue.stop_policy, waiting, job, lookup)


def _stopped(stopped: str, policy: StopPolicy, waiting: int, job: Submission, lookup: Lookup) -> str:
    name, instead = f"the {job.words.job}", _instead(job, lookup)
    others = f" with {waiting} other{'' if waiting == 1 else 's'}" if waiting else ""
    waits = f"{name} waits{others} until {'resumed' if instead else 'an administrator resumes it'}{instead}"
    return fitted(
        f"{stopped} (stopPolicy {policy}): {waits}",
        f"{stopped} ({policy}): {waits}",
        or_else=[f"{stopped} ({policy}): {name} waits{others} until resumed"],
    )


_PREFIX: Final = "Can't admit new workloads: "


def cluster_queue_inactive(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A ClusterQueue that is inactive, except for reasons with their own rule."""
    queue = cluster_queue_of(job, lookup)
    if queue is None or queue.stop_policy != StopPolicy.NONE:
        return
    condition, name = lookup.active_condition(queue.name), shortened(queue.name)
    if queue.deleting:
        deleted = f'ClusterQueue "{name}" is being deleted: the {job.words.job} waits until it is created again'
        yield fitted(f"{deleted}{_instead(job, lookup)}", or_else=[deleted])
    elif (
        condition is not None
        and not condition.active
        and condition.reason != ClusterQueueReason.ADMISSION_CHECK_INACTIVE
    ):
        why = condition.message.removeprefix(_PREFIX).rstrip(".")
        yield fitted(
            f'ClusterQueue "{name}" is inactive until an administrator fixes it: {why}',
            f'ClusterQueue "{name}" admits nothing: {why}',
            or_else=[f"the ClusterQueue admits nothing: {condition.reason}: {why}"],
        )


def namespace_not_selected(job: Submission, lookup: Lookup) -> Iterable[str]:
    """A ClusterQueue that does not admit the namespace, and which label would help."""
    queue = cluster_queue_of(job, lookup)
    labels = lookup.namespace_labels(job.namespace)
    if queue is not None and labels is not None:
        yield from not_admitted(queue, job.namespace, labels)


def not_admitted(queue: ClusterQueue, namespace: str, labels: Labels) -> Iterable[str]:
    """Reports why a ClusterQueue does not admit a namespace."""
    name = f'ClusterQueue "{shortened(queue.name)}"'
    if queue.namespace_selector is None:
        yield fitted(f"{name} admits no namespace at all: its namespaceSelector is not set ({{}} admits all)")
    elif not placement.matches(queue.namespace_selector, labels):
        fix = _fix(queue.namespace_selector, labels)
        yield fitted(
            f'{name} does not admit namespace "{shortened(namespace)}": {fix}',
            or_else=[f"{name} does not admit this namespace: {fix}"],
        )


def _fix(selector: Selector, labels: Labels) -> str:
    """Returns the fix for the first requirement that the labels of a namespace do not meet."""
    unmet = next(each for each in selector.requirements if not placement.holds(each, labels))
    key, found = shortened(unmet.key), labels.get(unmet.key)
    has = f"its label {key}={shortened(found)}" if found is not None else ""
    match unmet.operator:
        case "In":
            wanted = _either(unmet)
            if found is None:
                return f"it needs label {key}={wanted}"
            return f"its label {key} is {shortened(found)}, must be {wanted}"
        case "NotIn":
            return f"{has} excludes it; change it"
        case "DoesNotExist":
            return f"{has} excludes it; remove it"
        case "Exists":
            return f"it needs label {key}"
    return f"its label {key} must be {unmet.operator} {', '.join(unmet.values)}"


def _either(requirement: Requirement) -> str:
    values = [shortened(value) for value in requirement.values]
    if len(values) > 3:
        values = [*values[:2], f"{len(values) - 2} others"]
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))
