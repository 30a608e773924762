"""The input of the rules in ``core.workload.lifecycle``, and the actions that no other rules have.

Separate from the rules, because the controller and ``simulate`` gather the input and apply the actions without knowing
the rules.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from core.actions import Deferred, Patch
from core.model import ClusterQueue, Labels, LocalQueue, Raw, Workload
from core.workload.priority import PriorityClasses
from core.workload.transitions import Backoff


@dataclass(frozen=True, slots=True)
class PodsReadyPolicy:
    """``waitForPodsReady`` of the Configuration, in seconds; ``limit`` evictions, then deactivation (None: never)."""

    timeout: float = 1800.0
    recovery_timeout: float | None = 1800.0
    backoff: Backoff = field(default_factory=Backoff)
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LifePolicy:
    """The settings of the Configuration for the lifecycle of Workloads; ``after_finished`` are seconds of retention.

    ``explicit_status``: the status of a Workload reports that it waits before a cycle has decided it, which costs one
    more write. ``guards``: a Workload is evicted whose pods may use more devices than it was admitted for.
    ``finishes_orphans``: a Workload is finished whose job is gone (FinishOrphanedWorkloads). ``requeues_pods``: that of
    a single Pod that was evicted is said to be requeued (SkipReassignmentForPodOwnedWorkloads is off).
    """

    pods_ready: PodsReadyPolicy | None = None
    after_finished: float | None = None
    explicit_status: bool = False
    guards: bool = True
    finishes_orphans: bool = True
    requeues_pods: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The input of the rules. ``cluster_queue`` is the one that the LocalQueue of the Workload names, if both exist.

    ``active`` is whether it admits workloads. ``namespace`` are the labels of the Workload's namespace. ``bypassed`` is
    the reason why equal workloads wait, if this one is not decided itself because of them. ``replacement`` is the slice
    of the same elastic job that is to replace it. ``raw`` is the Workload as an object; ``classes`` are those whose
    priority it follows, None where its job copies the priority. Simulations have neither.
    """

    now: float
    policy: LifePolicy = field(default_factory=LifePolicy)
    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    active: bool = True
    namespace: Labels | None = None
    bypassed: str = ""
    replacement: Workload | None = None
    raw: Raw | None = None
    classes: PriorityClasses | None = None


@dataclass(frozen=True, slots=True)
class Evict(Patch):
    """The workload has to stop: a patch of its status. ``cause`` is the underlying reason, if any."""

    _: KW_ONLY
    after: Workload
    reason: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseOrphan(Deferred):
    """It has no owner any more: ``core.jobs.decide.orphan`` decides what to do with it."""
