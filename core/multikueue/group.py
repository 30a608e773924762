"""The input of the rules of MultiKueue, collected once: a Workload, its job, and what workers have of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from api import names
from api.names import Annotation, Condition, FinishedReason, PendingReason
from api.objects import Resource
from core.jobs import meta
from core.jobs.kinds import ALL
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.model import CheckState, Raw, Workload
from core.multikueue.shape import MALFORMED
from core.multikueue.siblings import Siblings, turn
from core.wire.active import condition_of
from core.wire.timestamps import maybe_epoch

SERVED = tuple({kind.resource: None for kind in (*ALL, *MIRRORED_OWNERS)})
_NEVER = (PendingReason.MISCONFIGURED, PendingReason.NO_MATCHING_FLAVOR, PendingReason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True, slots=True)
class Policy:
    """The section ``multiKueue`` of the Configuration; seconds."""

    origin: str = "multikueue"
    worker_lost_timeout: float = 900.0
    dispatcher: str = names.DISPATCHER_ALL_AT_ONCE
    step_size: int = 3
    orchestrated: bool = False
    """Whether workers may preempt others for a Workload only one after the other: each copy has a preemption gate."""
    forwards: bool = True
    """Whether changes of the fields that are ``forwarded`` reach the job in the worker."""
    config_order: bool = True
    """Whether the incremental dispatcher keeps the order of the MultiKueueConfig; else clusters are sorted by name."""
    follows_pods: bool = False
    """Whether the condition PodsReady begins with the admission (``waitForPodsReady``)."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What is seen of a Workload and its job in one worker cluster; nothing while that is not connected.

    ``lost_since`` is when the connection was lost, ``jobs`` are the objects with our origin that were made for the job.
    ``refused`` is why its API server does not take the Workload. ``configured`` is whether the MultiKueueConfig still
    names it: a worker that it names no more may have the job until its pods have ended. ``job_refused`` is why its API
    server does not take the job, or what is wrong with the one that it serves, and ``job_refused_since`` since when.
    ``never`` is why it could never admit the Workload, by what is known of its queues. ``former`` is the job there if
    it names an earlier slice than this one. ``shared`` is whether other Workloads, of other groups of the same object,
    need these objects there. ``served`` are the resources of these objects.
    """

    name: str
    connected: bool = True
    lost_since: float | None = None
    workload: Raw | None = None
    jobs: tuple[Raw, ...] = ()
    refused: str = ""
    configured: bool = True
    job_refused: str = ""
    job_refused_since: float = 0.0
    never: str = ""
    former: Raw | None = None
    shared: bool = False
    served: tuple[Resource, ...] = SERVED

    @property
    def own_jobs(self) -> tuple[Raw, ...]:
        """The objects that no other Workload needs there."""
        return () if self.shared else self.jobs

    @property
    def hopeless(self) -> str:
        """Why the worker never admits the Workload unless somebody changes something there; '' if it may."""
        found = condition_of(self.workload, Condition.QUOTA_RESERVED)
        if found is not None and found["status"] == "True":
            return self.refused
        waits = found is not None and found["reason"] in _NEVER
        return self.refused or self.never or (str(found.get("message", "")) if found is not None and waits else "")

    @property
    def malformed(self) -> str:
        """What is wrong in an object of the job there; '' if nothing is."""
        wrong = (f"serves a malformed {each['kind']}: {each[MALFORMED]}" for each in self.jobs if MALFORMED in each)
        return next(wrong, "")

    @property
    def job_gone(self) -> bool:
        """Whether the Workload there was finished because its job there was deleted, which is no end of the job: by
        someone there, or by a withdrawal that was interrupted before it deleted the Workload too.
        """
        found = condition_of(self.workload, Condition.FINISHED)
        return found is not None and found["status"] == "True" and found["reason"] == FinishedReason.OWNER_NOT_FOUND

    @property
    def origin(self) -> str:
        """The uid of the Workload in the manager that the copy there names; '' for none, as by older versions."""
        annotations = meta.annotations(self.workload) if self.workload is not None else {}
        return str(annotations.get(Annotation.MULTIKUEUE_ORIGIN_UID) or "")

    @property
    def leaves(self) -> bool:
        """Whether the worker evicts the Workload, or has deleted its job, or its copy is being deleted: it may still be
        admitted there.
        """
        deleting = self.workload is not None and meta.deleting(self.workload)
        return deleting or self.job_gone or self.since(Condition.EVICTED) is not None

    def since(self, condition: str) -> float | None:
        """Since when a condition of the Workload there is True; None if it is not."""
        found = condition_of(self.workload, condition)
        return (maybe_epoch(found.get("lastTransitionTime")) or 0.0) if found and found["status"] == "True" else None


@dataclass(frozen=True, slots=True)
class Group:
    """``local`` is the Workload here and ``raw`` its object; None if it was deleted. ``check`` is the state of its
    MultiKueue check, None if it has none (any more). ``workers`` are the clusters of that check in the order of the
    MultiKueueConfig, then others that have something of the Workload. ``ran`` is the worker that was chosen last, '' if
    that is not known.

    ``kind`` is None for a kind of job that cannot run in another cluster, ``owner`` how messages name it; ``job`` is
    None while it is not known. Of slices of an elastic job ``replaced`` is the one that this one replaces, and
    ``successor`` the one that replaces it. ``siblings`` are the Workloads of the groups of the same object.
    ``round_began`` is when the incremental dispatcher nominated last. ``required`` are the checks that its ClusterQueue
    asks for.
    """

    now: float
    local: Workload | None = None
    raw: Raw | None = None
    check: CheckState | None = None
    kind: Mirrored | None = None
    owner: str = ""
    job: Raw | None = None
    related: tuple[Raw, ...] = ()
    workers: tuple[Worker, ...] = ()
    ran: str = ""
    replaced: Workload | None = None
    successor: Workload | None = None
    siblings: Siblings = field(default_factory=Siblings)
    policy: Policy = field(default_factory=Policy)
    round_began: float | None = None
    required: tuple[str, ...] = ()

    @property
    def configured(self) -> tuple[Worker, ...]:
        """The workers that the MultiKueueConfig names."""
        return tuple(each for each in self.workers if each.configured)

    @property
    def offered(self) -> tuple[Worker, ...]:
        """The workers, without what they have of another Workload of that name, and without those that the Workload was
        never offered to: what they report of it does not count.
        """
        assert self.local is not None
        ran = {self.local.cluster_name, self.ran}
        any_ran = ran == {""} and self.local.holds(Condition.EVICTED)  # in which one it ran is not known any more
        kept = (each for each in self.workers if each.configured or any_ran or each.name in ran or self._named(each))
        return tuple(each if self._is_copy(each) else replace(each, workload=None) for each in kept)

    def _named(self, worker: Worker) -> bool:
        return self.raw is not None and worker.origin == meta.uid(self.raw)

    def _is_copy(self, worker: Worker) -> bool:
        assert self.local is not None
        if worker.origin:
            return self._named(worker)
        return not self.unassigned or worker.name in (*self.local.nominated, self.ran)

    @property
    def followed(self) -> bool:
        """Whether workers may have the job: without a check only one that was chosen before the check was removed."""
        if self.check is not None or self.local is None:
            return self.check is not None
        ours = self.kind is not None and self.job is not None and self.kind.left(self.job)
        return bool(self.local.cluster_name) or (ours and self.local.holds(Condition.EVICTED))

    def worker(self, name: str) -> Worker | None:
        """The worker with this name, None if nothing is known of it."""
        return next((each for each in self.workers if each.name == name), None)

    @property
    def over(self) -> bool:
        """Whether the Workload needs no worker: it is gone, has finished or holds no quota."""
        found = self.local
        if found is None or found.deleting or found.holds(Condition.FINISHED):
            return True
        return not found.holds(Condition.QUOTA_RESERVED)

    def runs_in(self, worker: str) -> bool:
        """Whether the Workload holds quota for its job in this worker."""
        if self.local is None or self.over or self.local.holds(Condition.EVICTED):
            return False
        return self.local.cluster_name == worker

    @property
    def others_ready(self) -> bool:
        """Whether all other checks are ready: before that, no worker need reserve quota."""
        assert self.local is not None and self.check is not None
        others = (each for each in self.local.checks if each.name != self.check.name)
        return all(each.state == names.CheckState.READY for each in others)

    @property
    def assigned(self) -> bool:
        """Whether a worker was chosen. The check is pending although one was if it was removed and added again."""
        if self.check is None or self.local is None:
            return False
        again = self.check.state == names.CheckState.PENDING and bool(self.local.cluster_name)
        return self.check.state == names.CheckState.READY or again

    @property
    def elastic(self) -> bool:
        """Whether it is a slice of an elastic job."""
        return self.raw is not None and meta.elastic(self.raw)

    @property
    def growing(self) -> bool:
        """Whether it is a larger slice, for the worker that has the job, and that has not admitted it yet."""
        if self.over or self.check is None or self.check.state != names.CheckState.PENDING or not self.others_ready:
            return False
        assert self.local is not None
        larger = self.elastic and self.local.replaces is not None and bool(self.local.cluster_name)
        return larger and not self.local.holds(Condition.EVICTED)

    @property
    def unassigned(self) -> bool:
        """Whether a worker is looked for: the check is pending, and no worker was chosen yet."""
        if self.over or self.check is None or self.check.state != names.CheckState.PENDING:
            return False
        assert self.local is not None
        return not self.local.cluster_name and not self.local.holds(Condition.EVICTED) and self.others_ready

    @property
    def place(self) -> str:
        """The worker in which other groups of the same object run, so that this one does, too; '' if there is none."""
        return self.siblings.place(self.check.name) if self.check is not None else ""

    @property
    def awaits_another(self) -> bool:
        """Whether another group of the same object is first: the others are not offered until its worker is known."""
        if self.local is None or self.check is None or self.place:
            return False
        first = self.siblings.first(self.check.name)
        return first is not None and first < turn(self.local)


def earliest(workers: Sequence[Worker], condition: str) -> Worker | None:
    """The worker where a condition of the Workload has been True longest; of several in one second the first."""
    since = [(at, place) for place, each in enumerate(workers) if (at := each.since(condition)) is not None]
    return workers[min(since)[1]] if since else None
