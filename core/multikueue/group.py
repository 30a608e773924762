"""The input of the rules of MultiKueue, collected once: a Workload, its job, and what workers have of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from api import names
from api.names import Condition, PendingReason
from core.jobs.mirrored import Mirrored
from core.model import CheckState, Raw, Workload
from core.wire.active import condition_of
from core.wire.timestamps import maybe_epoch

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


@dataclass(frozen=True, slots=True)
class Worker:
    """What is seen of a Workload and its job in one worker cluster; nothing while that is not connected.

    ``lost_since`` is when the connection was lost, ``jobs`` are the objects with our origin that were made for the job.
    ``refused`` is why its API server does not take the Workload. ``configured`` is whether the MultiKueueConfig still
    names it: a worker that it names no more may have the job until its pods have ended. ``job_refused`` is why its API
    server does not take the job, and ``job_refused_since`` since when. ``never`` is why it could never admit the
    Workload, by what is known of its queues.
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

    @property
    def hopeless(self) -> str:
        """Why the worker never admits the Workload unless somebody changes something there; '' if it may."""
        found = condition_of(self.workload, Condition.QUOTA_RESERVED)
        if found is not None and found["status"] == "True":
            return self.refused
        waits = found is not None and found["reason"] in _NEVER
        return self.refused or self.never or (str(found.get("message", "")) if found is not None and waits else "")

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
    None while it is not known. ``round_began`` is when the incremental dispatcher nominated last.
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
    policy: Policy = field(default_factory=Policy)
    round_began: float | None = None

    @property
    def configured(self) -> tuple[Worker, ...]:
        """The workers that the MultiKueueConfig names."""
        return tuple(each for each in self.workers if each.configured)

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

    @property
    def others_ready(self) -> bool:
        """Whether all other checks are ready: before that, no worker need reserve quota."""
        assert self.local is not None and self.check is not None
        others = (each for each in self.local.checks if each.name != self.check.name)
        return all(each.state == names.CheckState.READY for each in others)

    @property
    def unassigned(self) -> bool:
        """Whether a worker is looked for: the check is pending, and no worker was chosen yet."""
        if self.over or self.check is None or self.check.state != names.CheckState.PENDING:
            return False
        assert self.local is not None
        return not self.local.cluster_name and not self.local.holds(Condition.EVICTED) and self.others_ready


def first(workers: Sequence[Worker], condition: str) -> Worker | None:
    """The worker where a condition of the Workload has been True longest; of several in one second the first."""
    since = [(at, place) for place, each in enumerate(workers) if (at := each.since(condition)) is not None]
    return workers[min(since)[1]] if since else None
