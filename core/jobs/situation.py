"""The input of the rules about a job, collected once: the job, its Workloads, and what they depend on.

Separate from the rules (`core.jobs.decide`, `core.jobs.prebuilt`), which are functions of it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from api import names
from core.actions import Write
from core.jobs import meta, template, workload
from core.jobs.actions import AwaitPods
from core.jobs.job_reader import Outcome
from core.jobs.job_starter import StopCause
from core.jobs.kind import JobKind
from core.jobs.kinds.pod import terminates_for
from core.jobs.release import awaits_pods, holds_quota
from core.jobs.stopping import TERMINATING_SECONDS, LastStart, Stopping, stopping, unheeded
from core.jobs.template import ConflictError, FlavorMissingError, Injection
from core.jobs.workload import NOTHING_COPIED, Copied
from core.model import Key, Raw, Workload
from core.model.workload import replace
from core.workload.actions import LifePolicy
from core.workload.priority import Missing, PriorityClasses, of_job


@dataclass(frozen=True)
class JobSituation:
    """The input of the rules. ``workloads`` are those whose controller has the job's name, oldest first.

    ``decoded``: the values that the rest of the controller has of them, and of ``prebuilt``, by key.

    ``managed``: whether the job is managed (queue name, or ``manageJobsWithoutQueueName`` in a matching namespace).
    ``ancestor_admitted``: None for a job that is queued itself; for one that is queued through an object above it,
    whether that is admitted, and ``ancestor_uid`` its uid. ``owner_unread``: whether it has an owner that was not read
    yet; ``nested_wrongly`` is what is wrong with its owners. ``reclaimable_pods`` and ``elastic_jobs``: the feature
    gates ReclaimablePods and ElasticJobsViaWorkloadSlices. ``prebuilt_name`` is the Workload that the job names by
    label or annotation, ``prebuilt`` that Workload, and ``successor`` one without owner that is to replace it.
    ``related``: the objects of other kinds that belong to the job (``JobKind.related``). ``pods_gone``: uids of deleted
    jobs of which no pod is left, if that was checked (``AwaitPods``). ``variants``: those with which
    parents among the Workloads run, by the key of the parent. ``worker_checks``: the names of the admission checks by
    which Workloads run in other clusters. ``last_start``: what is remembered of the latest start of the job
    (``core.jobs.stopping``), ``stopped_pods_gone`` the uids of stopped jobs of which no pod was listed, and
    ``terminating_timeout`` how long its pods may terminate, in seconds. ``awaits_cleanup``: whether the job, which is
    being deleted, keeps its quota until it is gone (DeferRayServiceFinalizationForRedisCleanup). ``adopts_workloads``:
    whether a group of pods takes a Workload of its name that was not made for a group
    (PodIntegrationValidateGroupOwner is off). ``life``: what becomes of Workloads whose job is gone.
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
    successor: Raw | None = None
    elastic_jobs: bool = True
    variants: Mapping[Key, Workload] = field(default_factory=dict)
    worker_checks: Container[str] = frozenset()
    last_start: LastStart | None = None
    stopped_pods_gone: Container[str] = frozenset()
    terminating_timeout: float = TERMINATING_SECONDS
    awaits_cleanup: bool = False
    adopts_workloads: bool = False
    life: LifePolicy = field(default_factory=LifePolicy)

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
        """Whether the job still has pods, or may have some although it is stopped."""
        if self.stopping is not None:
            return True
        return self._shown and not unheeded(self.kind, self.job, self.last_start, self.stopped_pods_gone)

    @cached_property
    def _shown(self) -> bool:
        """Whether the status shows that the job has pods."""
        return self.kind.active(self.job, self.related)

    @cached_property
    def stopping(self) -> Stopping | None:
        """What is to be known before a stopped job counts as one without pods; None if nothing is."""
        return self._stopping(self.terminating_timeout)

    @property
    def overdue(self) -> bool:
        """Whether a stopped job may still have pods, and its time for that has passed."""
        return self.stopping is None and self._stopping(float("inf")) is not None

    def _stopping(self, timeout: float) -> Stopping | None:
        raw = next((raw for raw in self.workloads if self.owns(raw) and holds_quota(self.value(raw))), None)
        if raw is None or self.outcome is not None:
            return None
        return stopping(
            self.kind,
            self.job,
            raw,
            self.value(raw),
            start=self.last_start,
            now=self.now,
            timeout=timeout,
            gone=self.stopped_pods_gone,
            shown=self._shown,
        )

    def terminates_for(self, pod: Raw) -> float:
        """For how many seconds a pod counts for its quota that is on a node: infinitely, if it is not being deleted."""
        if not meta.deleting(pod):
            return float("inf")
        return terminates_for(pod, self.now, self.terminating_timeout)

    @property
    def ends_elsewhere(self) -> bool:
        """Whether the pods of an evicted Workload may run in another cluster, and nothing here shows when they have
        ended: MultiKueue releases the quota.
        """
        if self.match is None or names.Annotation.JOB_OWNER_GVK not in meta.annotations(self.match):
            return False
        ran = self.found.holds(names.Condition.ADMITTED)
        return ran and any(check.name in self.worker_checks for check in self.found.checks)

    @cached_property
    def has_own_quota(self) -> bool:
        """Whether a Workload of this very job holds quota: then the job is decided by it, whatever its owners are."""
        return any(self.owns(raw) and holds_quota(self.value(raw)) for raw in self.workloads)

    @cached_property
    def pod_sets(self) -> list[Raw]:
        """The pod sets of the job as it is."""
        return self.kind.pod_sets(self.job, self.related)

    @property
    def priority(self) -> Raw | Missing:
        """The parts of a new Workload of the job with its priority, or the class that is missing."""
        named, of_pods = meta.priority_class(self.job), self.kind.priority_class(self.job)
        return of_job(named, self.pod_sets, self.classes, namespace=self.job["metadata"]["namespace"], of_pods=of_pods)

    def stop(self, pod_sets: Sequence[Raw], reason: str, message: str) -> Sequence[Write]:
        """Returns the writes until the job is stopped; ``pod_sets`` are those of its Workload, if they are known."""
        return self.kind.stop_because(self.job, pod_sets, StopCause(reason, message, self.now), self.related)

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
        """Whether the job is resized by slices while it runs: its pods wait with a scheduling gate. The slices of a job
        that runs here for another cluster are made there.
        """
        return self.asks_to_be_elastic and any(
            template.is_gated(each["template"]["spec"].get("schedulingGates") or ()) for each in self.pod_sets
        )

    @property
    def asks_to_be_elastic(self) -> bool:
        """Whether the job is to be resized by slices, which it is if its pods have the scheduling gate."""
        made_here = not self.prebuilt_name or names.Label.MULTIKUEUE_ORIGIN in meta.labels(self.job)
        return self.elastic_jobs and self.kind.elastic and meta.elastic(self.job) and made_here

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
        return self._replacing(self.found.key)

    def _replacing(self, slice_key: Key) -> Raw | None:
        """The slice that is to replace this one, or has replaced it, unless it has finished."""
        found = [raw for raw in self.workloads if self.value(raw).replaces == slice_key and raw not in self.replaced]
        standing = (raw for raw in found if not self.value(raw).holds(names.Condition.FINISHED) and self.stands(raw))
        return next(standing, None)

    @property
    def handed_over(self) -> bool:
        """Whether the slice that the job names was replaced by another one, which holds the quota now: the cluster that
        made both will change the name.
        """
        if not self.elastic or self.prebuilt is None or not self._was_replaced(self.prebuilt):
            return False
        by = self._replacing(workload.key(self.prebuilt))
        return by is not None and self.value(by).holds(names.Condition.QUOTA_RESERVED)

    @property
    def joining(self) -> Raw | None:
        """The slice without owner that another cluster made to replace the one that the job names; None for none."""
        made, old = self.successor, self.prebuilt
        if not self.elastic or made is None or old is None or meta.controller(made) is not None or meta.deleting(made):
            return None
        origin = meta.labels(old).get(names.Label.MULTIKUEUE_ORIGIN)
        same = workload.slice_name(made) == workload.slice_name(old)
        ours = origin is not None and meta.labels(made).get(names.Label.MULTIKUEUE_ORIGIN) == origin
        return made if same and ours else None

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

    def injections(self, value: Workload) -> list[Injection]:
        """Returns what the pods of a Workload with quota get; a parent has no checks, its variant has."""
        variant = self.variants.get(value.key)
        given = value if variant is None else replace(value, checks=variant.checks)
        return template.injections(
            given, self.flavors, by_topology=self.copied.topology_requests, queue_labels=self.copied.queue_labels
        )

    def awaits_pods(self, raw: Raw) -> AwaitPods | None:
        """What to wait for before a Workload gives up the quota of a job that is gone."""
        return awaits_pods(raw, self.value(raw), self.pods_gone)

    def owns(self, raw: Raw) -> bool:
        """Whether this very job controls the Workload, not one before it of the same name."""
        return self.kind.owns(self.job, raw)

    def may_delete(self, raw: Raw) -> bool:
        """Whether the Workload was made for this job or an earlier one of its name: never that of another owner."""
        return self.owns(raw) or not self.kind.shares_names()

    def may_give_up(self, raw: Raw) -> bool:
        """Whether no pod of an earlier job uses the quota of a Workload."""
        return self.owns(raw) or self.awaits_pods(raw) is None

    def stands(self, raw: Raw) -> bool:
        """Whether this Workload is that of the job as the job is now."""
        value = self.value(raw)
        admitted = value.holds(names.Condition.ADMITTED)
        running = self._running(value)
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

    def _running(self, value: Workload) -> list[Injection] | None:
        """Returns what the pods of a Workload with quota look like; None if it has none.

        A flavor that was changed or deleted since gives only the number of pods: the job continues to run.
        """
        if value.admission is None or not value.holds(names.Condition.QUOTA_RESERVED):
            return None
        try:
            return self.injections(value)
        except (FlavorMissingError, ConflictError):
            return [Injection(given.name, given.count) for given in value.admission.pod_sets]
