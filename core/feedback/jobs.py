"""Warnings for a person who submits a job: about the queue it names, and whether it can ever start.

`core.feedback.job_queue` has the rules about queues, `core.feedback.capacity` those about quota,
`core.feedback.waiting` the reasons to wait now; the table at the end has all rules for jobs, the most important first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from core.feedback import (
    capacity,
    dry_run,
    job_queue,
    nodes,
    outside,
    resource_quotas,
    several,
    topology,
    waiting,
    workers,
)
from core.feedback.budget import TOO_LARGE
from core.feedback.change import lacks_nodes, written
from core.feedback.job_queue import cluster_queue_of
from core.feedback.rules import Finding, IsSpent, Rule, findings, fitted, missing, never, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue
from core.state.lookup import Lookup
from core.workload.priority import OF_THE_SYSTEM


def of_job(job: Submission, lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """Returns all findings about a job that will wait; only one if it names no queue. For a running job: the effect of
    the change, and whether it can ever start again. For a job that is too large: only that.
    """
    if job.too_large:
        return (TOO_LARGE,) if lookup.synced else ()
    if job.runs_with is not None:
        return findings((RESIZED, *(rule for rule in JOB_RULES if rule.name in _FOR_EVER)), job, lookup, spent)
    found = findings(JOB_RULES if job.queue else JOB_RULES[:1], job, lookup.for_one_job(), spent)
    if any(each.rule in _NEVER_STARTS for each in found):  # with what to do: a dry run adds nothing to that
        return tuple(each for each in found if each.rule != "dry-run")
    return found


def of_template(job: Submission, lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """Returns what keeps a future job, for example of a CronJob, from ever starting; nothing about present waiting."""
    if job.too_large:
        return (TOO_LARGE,) if lookup.synced else ()
    return findings(tuple(rule for rule in JOB_RULES if rule.name in _FOR_EVER | _REFERENCES), job, lookup, spent)


def _resized(job: Submission, lookup: Lookup) -> Iterable[str]:
    before, after = job.runs_with, job.pods
    if before is not None and job.elastic:
        if after > before:
            yield f"the elastic job continues to run with {before} pods; {after - before} more start when quota is free"
    elif before is not None and before != after:
        instead = (
            f"for {after - before} more pods submit another job"
            if after > before
            else f"with {before} it continues to run"
        )
        yield f"changing from {before} to {after} pods suspends this running job and requeues it; {instead}"


def _priority_class_not_found(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.priority_class and lookup.priority_class(job.priority_class) is None:
        known = lookup.priority_class_names()
        yield missing("WorkloadPriorityClass", job.priority_class, known, several="WorkloadPriorityClasses")
    if lookup.pod_priority_class(job.pod_priority_class) is None:
        name = job.pod_priority_class
        known = [each for each in lookup.pod_priority_class_names() if not each.startswith(OF_THE_SYSTEM)]
        nothing = f'PriorityClass "{shortened(name)}" does not exist, so no pod can be created'
        if known:
            yield missing("PriorityClass", name, known, nothing, several="PriorityClasses")
        else:
            yield fitted(f"{nothing}: remove priorityClassName")


def _system_priority_class(job: Submission, lookup: Lookup) -> Iterable[str]:
    name = job.pod_priority_class
    known = name and not job.priority_class and lookup.pod_priority_class(name) is not None
    if known and not lookup.system_class_counts(name, job.namespace):
        yield fitted(
            f"PriorityClass {name} does not order the queue in this namespace: the job waits with the default"
            " priority; label it with a WorkloadPriorityClass",
            f"PriorityClass {name} does not order the queue in this namespace: the job waits with the default priority",
            f"PriorityClass {shortened(name)} does not order the queue in this namespace",
        )


def _long_grace_period(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.grace_seconds > LONG_GRACE_SECONDS:
        yield (
            f"terminationGracePeriodSeconds {job.grace_seconds}: when the job is stopped its pods may hold its quota"
            f" for minutes; set {LONG_GRACE_SECONDS} or less"
        )


LONG_GRACE_SECONDS: Final = 300
"""More than this: as long as the default of ``seiretsu.terminatingPodsTimeout``."""


def _complaints(job: Submission, lookup: Lookup) -> Iterable[str]:
    for complaint in job.complaints:
        yield fitted(f"never admitted: {complaint}")


def _no_requests(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.silent and not any(pod_set.requests for pod_set in job.pod_sets):
        uses = f"the {job.words.job} uses no quota; add resources.requests"
        yield fitted(
            f"no container requests anything ({_named(job.silent)}): {uses}",
            or_else=[f"no container requests anything: {uses}"],
        )
    elif job.silent:
        yield fitted(
            f"container {_named(job.silent)} requests nothing, so its share of quota is 0; add resources.requests",
            or_else=[
                f"{len(job.silent)} containers request nothing, so their share of quota is 0; add resources.requests"
            ],
        )


def _limits_as_requests(job: Submission, lookup: Lookup) -> Iterable[str]:
    if job.by_limit:
        container = job.by_limit[0][0]
        limits = [f"{shortened(amount)} {shortened(name)}" for each, name, amount in job.by_limit if each == container]
        others = len({each for each, _, _ in job.by_limit}) - 1
        more = f" (as in {others} other {'container' if others == 1 else 'containers'})" if others else ""
        rest = f" and {len(limits) - 2} more" if len(limits) > 2 else ""
        listed = f"{', '.join(limits[:2])}{rest}"
        count = f"container {shortened(container)}: limits without requests ({listed}) count as requests"
        yield fitted(
            f"{count}{more}; set lower requests if it needs less",
            f"{count}{more}; set requests",
            f"{count}; set requests",
        )


_MOST_DIGITS: Final = 4
"""The number of digits up to which an amount may be meant in gibibytes or mebibytes; a longer one is in bytes."""


def _tiny(job: Submission, lookup: Lookup) -> Iterable[str]:
    for container, resource, amount in job.tiny:
        where = f"container {shortened(container)}"
        if amount.endswith("m"):
            of = f"{resource} {shortened(amount)} means thousandths of a byte"
            yield fitted(f"{where}: {of}; write {amount[:-1]}Mi for mebibytes")
        elif amount.isdigit() and len(amount) <= _MOST_DIGITS:
            of = f"{resource} {amount} means {amount} {'byte' if amount == '1' else 'bytes'}"
            yield fitted(f"{where}: {of}; write {amount}Gi for gibibytes, {amount}Mi for mebibytes")
        else:
            yield fitted(f"{where}: {resource} {shortened(amount)} is less than a mebibyte; units are Mi and Gi")


def _without_nodes(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Where no flavor that could hold the pods has nodes."""
    for demand in capacity.demands(job, queue) if nodes.present(queue, lookup) else ():
        flavors = nodes.possible(demand, queue, lookup)
        if flavors and all(lacks_nodes(flavor, lookup) for flavor in flavors):
            name, labels = shortened(flavors[0].name), written(flavors[0].node_labels)
            then = "its pods stay pending until such a node is added"
            yield fitted(
                f'no node has the labels of flavor "{name}" ({labels}): {then}',
                f'no node has the labels of flavor "{name}" ({labels}): its pods stay pending',
                or_else=[f'no node has the labels of flavor "{name}": {then}'],
            )


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(map(shortened, names[:2])) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _of_queue(judge: capacity.Judgement) -> capacity.OfJob:
    @functools.wraps(judge)  # so that the documentation finds its module
    def texts(job: Submission, lookup: Lookup) -> Iterable[str]:
        queue = cluster_queue_of(job, lookup)
        return judge(job, queue, lookup) if queue is not None else ()

    return texts


RESIZED: Final = Rule(
    "running-job-resized",
    "The number of pods of a running job is changed.",
    _resized,
    example="changing from 3 to 5 pods suspends this running job and requeues it; for 2 more pods submit another job",
)
_FOR_EVER: Final = frozenset({"nobody-lends", "request-too-large"})
"""The rules for a job that is stopped because of its new size."""

_NEVER_STARTS: Final = _FOR_EVER | {
    *("namespace-not-selected", "resource-not-covered", "no-matching-flavor", "min-parallelism-too-large"),
    *("topology-level-not-found", "topology-too-small"),
}
"""The rules for a job that waits until its owner, or an administrator, changes something."""

OF_NOW: Final = frozenset(
    {"only-by-borrowing", "will-wait", "topology-full", "pods-not-ready", "admission-check-pending", "dry-run"}
)
"""The rules about how the job will wait, which say nothing of a job that will not be created."""

_REFERENCES: Final = frozenset(
    {
        "local-queue-not-found",
        "priority-class-not-found",
        "cluster-queue-not-found",
        "namespace-not-selected",
        "invalid-pods",
        "resource-quota-too-small",
        "resource-not-covered",
        "no-matching-flavor",
        "devices-not-counted",
        "device-class-not-found",
    }
)
"""The rules about the objects that a job names, and whether its pods can be created and placed."""

JOB_RULES: Final[tuple[Rule[Submission], ...]] = (
    Rule(
        "no-queue",
        "The job has no queue name, and jobs without one are suspended (`manageJobsWithoutQueueName`).",
        job_queue.no_queue,
        example="has no queue name and waits: set label kueue.x-k8s.io/queue-name to main",
    ),
    Rule(
        "local-queue-not-found",
        "The queue that the job names does not exist in its namespace.",
        job_queue.queue_not_found,
        example='LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?',
    ),
    Rule(
        "priority-class-not-found",
        "The WorkloadPriorityClass does not exist, or the PriorityClass of the pods.",
        _priority_class_not_found,
        example='WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',
    ),
    Rule(
        "system-priority-class",
        "The pods name a PriorityClass of Kubernetes (`system-`), which orders no queue in the namespace.",
        _system_priority_class,
        example="PriorityClass system-node-critical does not order the queue in this namespace: the job waits with the"
        " default priority",
    ),
    Rule(
        "cluster-queue-not-found",
        "The ClusterQueue of the LocalQueue does not exist.",
        job_queue.cluster_queue_not_found,
        example='LocalQueue "main" points to ClusterQueue "taem-a", which does not exist: did you mean "team-a"?',
    ),
    Rule(
        "namespace-not-selected",
        "The ClusterQueue does not admit the namespace.",
        job_queue.namespace_not_selected,
        example='ClusterQueue "team-a" does not admit namespace "team-b": its label team is b, must be a',
    ),
    Rule(
        "invalid-pods",
        "Kubernetes or a LimitRange of the namespace forbids the pods.",
        _complaints,
        example="never admitted: container main asks for 4 cpu, its limit is 2; ask for 2 or raise the limit",
    ),
    Rule(
        "resource-quota-too-small",
        "A ResourceQuota of the namespace does not allow all pods of the job: it would hold quota without them.",
        resource_quotas.too_small,
        example='no pod can be created: each asks for 4 cpu, ResourceQuota "q0" allows 2; ask for 2 or less',
    ),
    Rule(
        "resource-not-covered",
        "The ClusterQueue has no quota for a resource that the job asks for.",
        _of_queue(capacity.not_covered),
        example='ClusterQueue "team-a" has no quota for nvidia.com/gpu (asked: 4), only for cpu, memory; remove the'
        " request",
    ),
    Rule(
        "no-matching-flavor",
        "Node selector, affinity or missing tolerations exclude every flavor of the ClusterQueue.",
        _of_queue(capacity.no_flavor),
        example='no flavor of ClusterQueue "team-a" matches pod set main: standard has pool=standard, not fast;'
        " select pool=standard",
    ),
    Rule(
        "nobody-lends",
        "The request is larger than the ClusterQueue's own quota, and the cohort lends none.",
        _of_queue(capacity.nobody_lends),
        example=(
            'never starts: asks for 40Gi memory, ClusterQueue "team-a" has 32Gi, cohort "research" lends none; ask'
            " for 32Gi or less"
        ),
    ),
    Rule(
        "request-too-large",
        "The request is larger than any flavor allows, including everything that can be borrowed.",
        _of_queue(capacity.too_large),
        example=(
            'never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard (8 own, 4 borrowed);'
            " ask for 12 or less"
        ),
    ),
    Rule(
        "min-parallelism-too-large",
        "The request of job-min-parallelism pods is larger than the ClusterQueue allows.",
        _of_queue(capacity.min_too_large),
        example=(
            'never starts: even 7 pods ask for 14 cpu, ClusterQueue "team-a" allows 12;'
            " set job-min-parallelism to 6 or less"
        ),
    ),
    Rule(
        "local-queue-stopped",
        "The LocalQueue is stopped.",
        job_queue.queue_stopped,
        example='LocalQueue "main" is stopped (stopPolicy Hold): the job waits until an administrator resumes it',
    ),
    Rule(
        "cluster-queue-stopped",
        "The ClusterQueue is stopped.",
        job_queue.cluster_queue_stopped,
        example=(
            'ClusterQueue "team-a" is stopped (stopPolicy HoldAndDrain): the job waits until an administrator'
            " resumes it"
        ),
    ),
    Rule(
        "cluster-queue-inactive",
        "The ClusterQueue is inactive for another reason.",
        job_queue.cluster_queue_inactive,
        example=(
            'ClusterQueue "team-a" is inactive until an administrator fixes it: references missing'
            " ResourceFlavor(s): gone"
        ),
    ),
    Rule(
        "admission-check-inactive",
        "The controller of an AdmissionCheck of the ClusterQueue does not run.",
        _of_queue(waiting.check_inactive),
        example=(
            'AdmissionCheck "budget" is inactive: ClusterQueue "team-a" admits nothing until controller'
            " example.com/budget runs"
        ),
    ),
    Rule(
        "no-worker-cluster",
        "The ClusterQueue has a MultiKueue check, and no worker cluster could take the job before something is changed"
        " there.",
        _of_queue(workers.no_worker),
        example="No worker cluster can run it: west: asks for 20 cpu, at most 12 is allowed; east: no namespace"
        ' "team-a"',
    ),
    Rule(
        "devices-not-counted",
        "The devices that the pods request cannot be counted: the job waits, or uses them without quota. `Deny` refuses"
        " such jobs.",
        outside.devices,
        example='ResourceClaimTemplate "one-gpu" does not exist: nothing starts; create it in this namespace',
    ),
    Rule(
        "device-class-not-found",
        "A ResourceClaimTemplate of the pods names a DeviceClass that does not exist.",
        outside.device_classes,
        example='DeviceClass "gpu.exmple.com" of ResourceClaimTemplate "one-gpu" does not exist: did you mean'
        ' "gpu.example.com"?',
    ),
    Rule(
        "other-controller",
        "`managedBy` names another controller than the kind's, or MultiKueue where no check of it exists.",
        _of_queue(outside.other_controller),
        example="spec.managedBy is example.com/runner: only that controller creates the pods; unset managedBy if it"
        " does not run here",
    ),
    Rule(
        "no-requests",
        "Containers request nothing and so use no quota.",
        _no_requests,
        example="no container requests anything (main): the job uses no quota; add resources.requests",
    ),
    Rule(
        "limits-as-requests",
        "Limits without requests: the limit counts as the request.",
        _limits_as_requests,
        example="container main: limits without requests (4 cpu) count as requests; set lower requests if it needs"
        " less",
    ),
    Rule(
        "tiny-memory",
        "Less than a mebibyte of memory or storage: the unit is missing or wrong.",
        _tiny,
        example="container main: memory 8 means 8 bytes; write 8Gi for gibibytes, 8Mi for mebibytes",
    ),
    Rule(
        "long-grace-period",
        "`terminationGracePeriodSeconds` is longer than 5 minutes: pods of a stopped job hold its quota, or nodes.",
        _long_grace_period,
        example="terminationGracePeriodSeconds 86400: when the job is stopped its pods may hold its quota for minutes;"
        " set 300 or less",
    ),
    Rule(
        "flavor-without-nodes",
        "No node has the labels of any flavor that the job could use.",
        _of_queue(_without_nodes),
        example='no node has the labels of flavor "standard" (pool=standard): its pods stay pending until such a'
        " node is added",
    ),
    Rule(
        "node-labels-not-found",
        "No node has the labels that node selector or node affinity require, such as an architecture.",
        _of_queue(nodes.no_labels),
        example="no node has kubernetes.io/arch=s390x now: the pods stay pending until one does; nodes have amd64,"
        " arm64",
    ),
    Rule(
        "resource-without-nodes",
        "No node of the flavors that the job could use has a device or another extended resource.",
        _of_queue(nodes.no_resource),
        example='no node of flavor "standard" has nvidia.com/gpu now: the pods stay pending until such a node is added',
    ),
    Rule(
        "pod-larger-than-nodes",
        "One pod asks for more than the largest node has.",
        _of_queue(nodes.too_large),
        example='each pod asks for 8 cpu, the largest node of flavor "standard" has 4 now: the pods stay pending; ask'
        " for 4 or less",
    ),
    Rule(
        "topology-level-not-found",
        "No topology of the ClusterQueue has the level that the pods ask for.",
        _of_queue(topology.no_level),
        example='never starts: no topology of ClusterQueue "team-a" has level row; ask for block, rack,'
        " kubernetes.io/hostname",
    ),
    Rule(
        "topology-labels-not-found",
        "No node of the flavors that the job could use has the label of a level of their Topology.",
        _of_queue(topology.no_label),
        example='no node of flavor "tas" has label rack now: the job waits; ask an administrator to label nodes',
    ),
    Rule(
        "topology-slices-uneven",
        "The size of the slices does not divide the number of pods.",
        _of_queue(topology.uneven),
        example="1 pod of 5 never runs: slices have 2 pods, and only whole ones are placed; ask for 4 or 6 pods",
    ),
    Rule(
        "topology-too-small",
        "No domain of the topology could ever hold the pods.",
        _of_queue(topology.too_small),
        example="asks for 20 pods in one rack: the largest could ever hold 16 (4 nodes with 4 cpu each); ask for"
        " preferred, or a block",
    ),
    Rule(
        "topology-full",
        "No domain of the topology has room for the pods now.",
        _of_queue(topology.full),
        example="fits no rack now: rack a has room for 10 pods, 4 missing: will wait",
    ),
    Rule(
        "only-by-borrowing",
        "The request is larger than the ClusterQueue's own quota, and the rest cannot be borrowed now.",
        _of_queue(waiting.only_by_borrowing),
        example="asks for 10 cpu, own quota in standard is 8: starts only when 2 can be borrowed"
        ' in cohort "research"; ask for 8 or less',
    ),
    Rule(
        "only-partly",
        "With job-min-parallelism the job may start, but never with all of its pods.",
        _of_queue(capacity.only_partly),
        example="starts with at most 6 of 10 pods: all ask for 20 cpu, ClusterQueue"
        ' "team-a" allows 12; set parallelism to 6',
    ),
    Rule(
        "only-some-replicas",
        "Of pods, or groups of pods, that are queued one by one not all can run, or not all now.",
        _of_queue(several.only_some),
        example='at most 6 of 10 pods can run: each asks for 2 cpu, ClusterQueue "team-a" allows 12; set replicas to 6',
    ),
    Rule(
        "will-wait",
        "The job will not start at once: its queue position, and what is missing.",
        _of_queue(waiting.will_wait),
        example=(
            'will wait: asks for 4 cpu, 2 free in ClusterQueue "team-a", 2 missing; queue position 3; starts'
            " automatically"
        ),
    ),
    Rule(
        "pods-not-ready",
        "With `waitForPodsReady.blockAdmission`: the pods of other workloads must be ready first.",
        _of_queue(waiting.pods_not_ready),
        example=(
            "will wait until the pods of 2 workloads are ready (waitForPodsReady.blockAdmission);"
            " they are in other namespaces"
        ),
    ),
    Rule(
        "admission-check-pending",
        "Workloads with quota already wait for an AdmissionCheck of the ClusterQueue.",
        _of_queue(waiting.check_pending),
        example=(
            'will wait for AdmissionCheck "budget", as 1 workload with quota does; controller example.com/budget'
            " decides it"
        ),
    ),
    Rule(
        "dry-run",
        "With `--dry-run=server`: when the job would start (now, later as forecast, or never), in which flavor, and how"
        " many workloads it would preempt now. Why it would wait is said by the other rules.",
        _of_queue(dry_run.would_start),
        example='would start now by preempting 2 workloads of other ClusterQueues, in flavor "standard"',
    ),
    RESIZED,
)
