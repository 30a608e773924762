"""The schemas of what the visibility API serves beside queues: reports of the history, and recordings.

Separate from ``api.visibility_openapi``, which has the paths and the schemas of queues and workloads.
"""

from __future__ import annotations

from api.objects import Raw
from api.openapi import described, long, number, of_query, real, several, text
from api.visibility import GROUPS

TIMES: tuple[Raw, ...] = (
    of_query("since", "when the report begins, in seconds since 1970; usual: a week ago", real("Seconds.")),
    of_query("until", "when the report ends, in seconds since 1970; usual: now", real("Seconds.")),
    of_query("offset", "of the workloads that ended: how many to leave out", long("A number.")),
)
"""The parameters of a report."""


def recording(head: Raw) -> Raw:
    """Returns the schema of a recording."""
    return described(
        "The last minutes of the scheduler's recording, which `seiretsu replay` plays.",
        **head,
        data=text("The file.", format="byte"),
    )


def report(head: Raw) -> Raw:
    """Returns the schema of a report, and of the list of workloads that have ended, which has the same kind."""
    return described(
        "Use, waits and preemptions of a time. `reports/workloads` has only the workloads that ended then.",
        **head,
        window=described(
            "The time of the report, in parts of the same length; the last part may be shorter.",
            start=real("When it begins, in seconds since 1970."),
            end=real("When it ends, in seconds since 1970."),
            step=real("The length of a part in seconds."),
        ),
        by=text(f"What is grouped: {', '.join(GROUPS)}."),
        groups=several(_group(), "One entry for each group that used quota, waited or ended workloads."),
        used=_series("What the groups used."),
        waited=_series("How many workloads of the groups waited; flavor and resource are empty."),
        nominal=_series("The nominal quota of the groups, if they are ClusterQueues or cohorts."),
        fairness=several(
            real("Jain's index: 1 if all had equally much.") | {"nullable": True},
            "One entry for each part of the time; null if fewer than two groups used quota or waited.",
        ),
        idle=several(_idle(), "Quota that nobody used, by cohort; empty for a reader who may not list ClusterQueues."),
        preemptions=several(_preemption(), "Who preempted whom, the latest first."),
        workloads=several(_ended(), "The workloads that ended, in `reports/workloads` alone."),
    )


def _flavor_resource() -> Raw:
    return {"flavor": text("The flavor."), "resource": text("The resource.")}


def _group() -> Raw:
    return described(
        "A group.",
        name=text("Its name."),
        hours=several(
            described(
                "A resource of a flavor.",
                **_flavor_resource(),
                amount=real("The amount, in base units (cpu in thousandths), times hours."),
            ),
            "What it used.",
        ),
        waits={
            **described(
                "How long its workloads waited until they were admitted, in seconds; null if none was admitted.",
                group=text("Its name."),
                admitted=number("How many were admitted."),
                p50=real("The median."),
                p90=real("The 90th percentile."),
                longest=real("The longest wait."),
            ),
            "nullable": True,
        },
        ends=described(
            "What became of its workloads.",
            group=text("Its name."),
            finished=number("How many ended, those that failed included."),
            failed=number("How many failed."),
            preempted=number("How many times one was preempted."),
            evicted=number("How many times one was evicted, preemptions included."),
        ),
    )


def _series(description: str) -> Raw:
    each = described(
        "A group, and a resource of a flavor.",
        group=text("The name of the group."),
        **_flavor_resource(),
        parts=several(real("An amount times seconds."), "One entry for each part of the time."),
    )
    return several(each, description)


def _idle() -> Raw:
    return described(
        "A resource of a flavor in a tree of cohorts, or in a ClusterQueue without a cohort.",
        name=text("The name of the root cohort, or of the ClusterQueue."),
        **_flavor_resource(),
        nominal=real("The quota times hours."),
        idle=real("The part of it that nobody used, times hours."),
    )


def _of_workload() -> Raw:
    return {
        "namespace": text("The workload's namespace."),
        "name": text("The workload's name."),
        "job_kind": text("The kind of the workload's job."),
        "job": text("The name of the workload's job."),
        "user": text("Who created the job, as admission saw it."),
        "cluster_queue": text("The ClusterQueue."),
    }


def _preemption() -> Raw:
    by = described("The workload that preempted it; null if it is not known or may not be named.", **_of_workload())
    return described(
        "A preemption.",
        at=real("When, in seconds since 1970."),
        rule=text("Because of which rule: the reason of the condition Preempted."),
        victim=described("The workload that was preempted.", **_of_workload()),
        by=by | {"nullable": True},
    )


def _ended() -> Raw:
    return described(
        "A workload that has ended.",
        uid=text("The workload's uid."),
        **_of_workload(),
        local_queue=text("The LocalQueue."),
        priority=long("The workload's priority."),
        priority_class=text("The name of its priority class."),
        created=real("When it was created, in seconds since 1970."),
        finished=real("When it ended, in seconds since 1970.") | {"nullable": True},
        outcome=text("How it ended, in one word."),
        message=text("How it ended."),
        ran=real("For how many seconds it was admitted.") | {"nullable": True},
    )
