"""What the life of a Workload depends on, and what can be done for it: the values around ``core.workload.lifecycle``.

Apart from the rules, for the controller and ``simulate`` gather the one and apply the other knowing no rule.
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
    """What the Configuration says about the life of Workloads; ``after_finished`` seconds of retention.

    ``explicit_status``: a Workload's status says that it waits before a cycle has looked at it, at the cost of a write.
    """

    pods_ready: PodsReadyPolicy | None = None
    after_finished: float | None = None
    explicit_status: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a Workload's life depends on. ``cluster_queue`` is the one its LocalQueue names, if both exist.

    ``active`` is whether that admits workloads. ``namespace`` are the labels of the Workload's. ``bypassed`` is the
    reason that those like it wait for, where it is not looked at itself because of them.
    """

    now: float
    policy: LifePolicy = field(default_factory=LifePolicy)
    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    active: bool = True
    namespace: Labels | None = None
    bypassed: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """``patch`` of the status, ``after`` the value it leads to.

    ``why`` is backoff, requeue, gate, ungate, checks, admit, pend, reject, overtime, tired or release; people are told
    of most with ``message``.
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
    """Finished long enough ago: take our finalizer off and delete it."""


@dataclass(frozen=True, slots=True)
class ReleaseOrphan:
    """It has no owner any more: ``core.jobs.decide.orphan`` says what to do with it."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do; in ``requeue_after`` seconds time alone will change that."""

    requeue_after: float | None = None


Step = Update | Evict | Deactivate | Delete | ReleaseOrphan | Idle
