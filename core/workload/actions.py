"""The input and the actions of the rules in ``core.workload.lifecycle``.

Separate from the rules, because the controller and ``simulate`` collect the input and apply the actions without knowing
the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.model import ClusterQueue, Labels, LocalQueue, Raw, Workload
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
    more write.
    """

    pods_ready: PodsReadyPolicy | None = None
    after_finished: float | None = None
    explicit_status: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The input of the rules. ``cluster_queue`` is the one that the LocalQueue of the Workload names, if both exist.

    ``active`` is whether it admits workloads. ``namespace`` are the labels of the Workload's namespace. ``bypassed`` is
    the reason why equal workloads wait, if this one is not decided itself because of them. ``replacement`` is the slice
    of the same elastic job that is to replace it.
    """

    now: float
    policy: LifePolicy = field(default_factory=LifePolicy)
    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    active: bool = True
    namespace: Labels | None = None
    bypassed: str = ""
    replacement: Workload | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """``patch`` of the status, ``after`` the Workload after it.

    ``why`` is backoff, requeue, gate, ungate, checks, admit, pend, reject, overtime, tired, replaced or release; most
    have an event with ``message``.
    """

    patch: Raw
    after: Workload
    why: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Evict:
    """The workload has to stop: ``patch`` of its status. ``cause`` is the underlying one, if any."""

    patch: Raw
    after: Workload
    reason: str
    message: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Deactivate:
    """``spec.active`` becomes false: ``patch`` of the Workload."""

    patch: Raw


@dataclass(frozen=True, slots=True)
class Delete:
    """The retention of a finished Workload has ended: removes the finalizer and deletes it."""


@dataclass(frozen=True, slots=True)
class ReleaseOrphan:
    """It has no owner any more: ``core.jobs.decide.orphan`` decides what to do with it."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do; in ``requeue_after`` seconds time alone will change that."""

    requeue_after: float | None = None


LifecycleAction = Update | Evict | Deactivate | Delete | ReleaseOrphan | Idle
