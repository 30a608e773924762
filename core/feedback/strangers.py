"""Objects that name a queue and are not queued: of another kind than a job, a CronJob itself, or in a namespace that is
not managed.

Separate from `core.feedback.keys`, which checks queued jobs: here nothing waits, although the user who set the label
expects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api.names import Label
from core.feedback.change import Change
from core.feedback.keys import names_queue
from core.feedback.rules import Finding, Rule, findings, fitted, shortened
from core.model import Labels
from core.state.lookup import Lookup


@dataclass(frozen=True, slots=True)
class Stranger:
    """An object that names a queue. ``labels`` are those of the object and of its pod template, if it has one.

    ``jobs_queued`` is whether the Jobs of a CronJob name a queue too, ``queued`` are the enabled kinds of jobs.
    """

    kind: str
    namespace: str
    labels: Labels
    jobs_queued: bool = False
    queued: tuple[str, ...] = ("Job",)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A Workload that a person deletes. ``job`` is the name of its job, '' for none."""

    workload: str
    job: str
    running: bool


def of_stranger(change: Change[Stranger], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about an object that is not queued."""
    return findings(STRANGER_RULES, change, lookup)


def of_deletion(deletion: Deletion, lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about the deletion of a Workload."""
    return findings(DELETION_RULES, deletion, lookup)


def _come(change: Change[Stranger]) -> Labels:
    """The labels that are new."""
    before = change.old.labels if change.old is not None else {}
    return {key: value for key, value in change.new.labels.items() if key not in before} if change.new else {}


def _other_kind(change: Change[Stranger], lookup: Lookup) -> Iterable[str]:
    if change.new is None or change.new.kind in (*change.new.queued, "CronJob"):
        return
    # Without a prefix it is mostly the name of a message queue that a service reads.
    key = names_queue({key: value for key, value in _come(change).items() if "/" in key})
    if not key:
        return
    kind, start = change.new.kind, "it starts" if change.new.kind == "Pod" else "its pods start"
    nothing = f"label {shortened(key)} queues no {kind}: {start} now"
    yield fitted(f'{nothing}; enable "{kind.lower()}" in integrations.frameworks')


def _cron_job(change: Change[Stranger], lookup: Lookup) -> Iterable[str]:
    key = names_queue(_come(change))
    if change.new is not None and key and change.new.kind == "CronJob" and not change.new.jobs_queued:
        nothing = f"label {shortened(key)} has no effect on the CronJob itself"
        it = "it" if key == Label.QUEUE_NAME else Label.QUEUE_NAME
        yield fitted(
            f"{nothing}: set {it} in spec.jobTemplate.metadata.labels",
            f"{nothing}: set {it} in its jobTemplate",
        )


def _unmanaged(change: Change[Stranger], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.kind in change.new.queued and names_queue(_come(change)):
        yield fitted(
            f'namespace "{shortened(change.new.namespace)}" is never managed: this {change.new.kind} is not queued and'
            f" starts immediately; use another namespace"
        )


def _deleted(deletion: Deletion, lookup: Lookup) -> Iterable[str]:
    if deletion.job:
        then = "is suspended and requeued" if deletion.running else "gets a new Workload"
        job = shortened(deletion.job)
        end = "to end it delete the Job; to hold it set spec.active: false in the Workload"
        yield fitted(f'Job "{job}" {then}; {end}')


STRANGER_RULES: Final[tuple[Rule[Change[Stranger]], ...]] = (
    Rule(
        "kind-not-queued",
        "A Pod, Deployment or StatefulSet names a queue.",
        _other_kind,
        example='label kueue.x-k8s.io/queue-name queues no Deployment: its pods start now; enable "deployment" in'
        " integrations.frameworks",
    ),
    Rule(
        "queue-on-cron-job",
        "A CronJob has a queue label, but its jobTemplate has none.",
        _cron_job,
        example="label kueue.x-k8s.io/queue-name has no effect on the CronJob itself: set it in"
        " spec.jobTemplate.metadata.labels",
    ),
    Rule(
        "namespace-not-managed",
        "A Job names a queue in a system namespace or in Seiretsu's namespace.",
        _unmanaged,
        example='namespace "kube-system" is never managed: this Job is not queued and starts immediately; use'
        " another namespace",
    ),
)
DELETION_RULES: Final[tuple[Rule[Deletion], ...]] = (
    Rule(
        "workload-of-job-deleted",
        "Somebody deletes the Workload of a Job.",
        _deleted,
        example='Job "train" is suspended and requeued; to end it delete the Job; to hold it set spec.active: false'
        " in the Workload",
    ),
)
