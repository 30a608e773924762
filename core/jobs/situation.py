"""The input of the rules about a job, collected once: the job, its Workloads, and what they depend on.

Separate from the rules (`core.jobs.decide`, `core.jobs.prebuilt`), which are functions of it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from api import names
from core.jobs import meta, template, workload
from core.jobs.actions import AwaitPods
from core.jobs.kind import Cause, JobKind, Outcome, Write
from core.jobs.release import awaits_pods
from core.jobs.template import ConflictError, FlavorMissingError, Injection
from core.jobs.workload import NOTHING_COPIED, Copied
from core.model import Key, Raw, Workload
from core.workload.priority import PriorityClasses


@dataclass(frozen=True)
class Situation:
    """The input of the rules. ``workloads`` are those whose controller has the job's name, oldest first.

    ``decoded``: the values that the rest of the controller has of them, and of ``prebuilt``, by key.

    ``managed``: whether the job is managed (queue name, or ``manageJobsWithoutQueueName`` in a matching namespace).
    ``ancestor_admitted``: None for a job that is queued itself; for one that is queued through an object above it,
    whether that is admitted, and ``ancestor_uid`` its uid. ``owner_unread``: whether it has an owner that was not read
    yet; ``nested_wrongly`` is what is wrong with its owners. ``reclaimable_pods`` and ``elastic_jobs``: the feature
    gates ReclaimablePods and ElasticJobsViaWorkloadSlices. ``prebuilt_name`` is the Workload that the job names by
    label or annotation, and ``prebuilt`` that Workload. ``related``: the objects of other kinds that belong to the job
    (``JobKind.related``). ``pods_gone``: uids of deleted jobs of which no pod is left, if that was checked
    (``AwaitPods``).
    """

    kind: JobKind
    job: Raw
    now: float
    workloads: tuple[Raw, ...] = ()
    decoded: Mapping[Key, Workload] = field(default_factory=dict)
    managed: bool = True
    ancestor_admitted: bool | None = None
    ancestor_uid: str = ""
    owner_unread: bool = False
    nested_wrongly: str = ""
    flavors: Mapping[str, Raw] = field(default_factory=dict)
    classes: PriorityClasses = field(default_factory=PriorityClasses)
    wait_for_pods_ready: bool = False
    retention_after_deactivation: float | None = None
    copied: Copied = NOTHING_COPIED
    reclaimable_pods: bool = True
    pods_gone: Container[str] = frozenset()
    related: tuple[Raw, ...] = ()
    prebuilt_name: str = ""
    prebuilt: Raw | None = None
    elastic_jobs: bool = True

    @cached_property
    def outcome(self) -> Outcome | None:
        """How the job ended, if it did."""
        return self.kind.finished(self.job, self.related)

    @cached_property
    def suspended(self) -> bool:
        """Whether the job is wanted not to run."""
        return self.kind.suspended(self.job)

    @cached_property
    def active(self) -> bool:
        """Whether the job still has pods."""
        return self.kind.active(self.job, self.related)

    @cached_property
    def pod_sets(self) -> list[Raw]:
        """The pod sets of the job as it is."""
        return self.kind.pod_sets(self.job, self.related)

    def stop(self, pod_sets: Sequence[Raw], reason: str, message: str) -> Sequence[Write]:
        """Returns the writes until the job is stopped; ``pod_sets`` are those of its Workload, if they are known."""
        return self.kind.stop_because(self.job, pod_sets, Cause(reason, message, self.now), self.related)

    def start(self, injections: Sequence[Injection]) -> Sequence[Write]:
        """Returns the writes that start the job with the injections of its pod sets."""
        return self.kind.start(self.job, injections, self.related)

    @cached_property
    def match(self) -> Raw | None:
        """Returns the Workload that matches the job: of several the one that holds quota, else the oldest.

        Kueue takes any of them; then a running job could be stopped because a user made a copy of its Workload.
        """
        standing = self._standing
        if self.elastic:
            ranked = [(self._rank_of_slice(raw, place), raw) for place, raw in enumerate(standing)]
            return max(ranked, key=lambda each: each[0])[1] if ranked else None
        holding = [raw for raw in standing if (raw.get("status") or {}).get("admission")]
        return next(iter((*holding, *standing)), None)

    @cached_property
    def _standing(self) -> list[Raw]:
        named = self.prebuilt_name
        mine = [raw for raw in self.workloads if not named or raw["metadata"]["name"] == named]
        return [raw for raw in mine if raw not in self.replaced and self.stands(raw)]

    def _rank_of_slice(self, raw: Raw, place: int) -> tuple[bool, bool, bool, bool, int]:
        """The slice with which the job runs ranks first: admitted, not evicted, with quota; of several admitted ones
        the latest, of others the oldest.
        """
        value = self.value(raw)
        reserved, evicted = value.holds(names.Condition.QUOTA_RESERVED), value.holds(names.Condition.EVICTED)
        admitted = reserved and value.holds(names.Condition.ADMITTED)
        runs = (admitted and not evicted, reserved and not evicted, reserved)
        return not value.holds(names.Condition.FINISHED), *runs, place if admitted else -place

    @cached_property
    def elastic(self) -> bool:
        """Whether the job is resized by slices while it runs: its pods wait with a scheduling gate."""
        if not (self.elastic_jobs and self.kind.elastic and meta.elastic(self.job)) or self.prebuilt_name:
            return False
        return any(template.is_gated(each["template"]["spec"].get("schedulingGates") or ()) for each in self.pod_sets)

    @cached_property
    def replaced(self) -> tuple[Raw, ...]:
        """The slices of an elastic job that others have replaced."""
        return tuple(raw for raw in self.workloads if self.elastic and self.owns(raw) and self._was_replaced(raw))

    def _was_replaced(self, raw: Raw) -> bool:
        done = self.value(raw).condition(names.Condition.FINISHED)
        return done is not None and done.status and done.reason == names.FinishedReason.WORKLOAD_SLICE_REPLACED

    @cached_property
    def replacement(self) -> Raw | None:
        """The slice of an elastic job that is to replace the matching one, None if there is none."""
        if not self.elastic or self.match is None:
            return None
        found = [raw for raw in self._standing if raw is not self.match and self.value(raw).replaces == self.found.key]
        return next((raw for raw in found if not self.value(raw).holds(names.Condition.FINISHED)), None)

    @cached_property
    def others(self) -> tuple[Raw, ...]:
        """Returns the Workloads that do not match, and duplicates of the one that does."""
        kept = (self.match, self.replacement, *self.replaced)
        return tuple(
            raw for raw in self.workloads if all(raw is not each for each in kept) and not self._is_being_replaced(raw)
        )

    def _is_being_replaced(self, raw: Raw) -> bool:
        """Whether the matching slice holds the quota of this one, which is about to be finished."""
        if not self.elastic or self.match is None or not self.found.holds(names.Condition.ADMITTED):
            return False
        value = self.value(raw)
        return value.key == self.found.replaces and value.holds(names.Condition.QUOTA_RESERVED)

    @cached_property
    def found(self) -> Workload:
        """The matching Workload as a value."""
        assert self.match is not None
        return self.value(self.match)

    def value(self, raw: Raw) -> Workload:
        """What was decoded from a Workload."""
        return self.decoded[workload.key(raw)]

    def awaits_pods(self, raw: Raw) -> AwaitPods | None:
        """What to wait for before a Workload gives up the quota of a job that is gone."""
        return awaits_pods(raw, self.value(raw), self.pods_gone)

    def owns(self, raw: Raw) -> bool:
        """Whether this very job controls the Workload, not one before it of the same name."""
        return self.kind.owns(self.job, raw)

    def stands(self, raw: Raw) -> bool:
        """Whether this Workload is that of the job as the job is now."""
        value = self.value(raw)
        admitted = value.holds(names.Condition.ADMITTED)
        running = _running(value, self.flavors)
        return workload.stands_for(
            raw,
            self.kind,
            self.job,
            admitted=admitted,
            running=running,
            related=self.related,
            elastic=self.elastic,
        )

    def as_started(self, raw: Raw) -> bool:
        """Whether the job's pod templates still are as a start with this Workload left them."""
        return workload.as_started(raw, self.kind, self.job, self.related)


def _running(value: Workload, flavors: Mapping[str, Raw]) -> list[Injection] | None:
    """Returns what the pods of a Workload with quota look like; None if it has none.

    A flavor that was changed or deleted since gives only the number of pods: the job continues to run.
    """
    if value.admission is None or not value.holds(names.Condition.QUOTA_RESERVED):
        return None
    try:
        return template.injections(value, flavors)
    except (FlavorMissingError, ConflictError):
        return [Injection(given.name, given.count) for given in value.admission.pod_sets]
