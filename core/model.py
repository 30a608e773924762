"""The values that core decides on: what the API objects say, in exact integers and without the wire's noise.

They are separate from the models of ``api`` because the scheduler reads them a million times: frozen structs, which are
made and changed (``msgspec.structs.replace``) many times as fast as dataclasses. Amounts are integers in base units
(milli for cpu, bytes for memory, counts for the rest; see ``api.quantity``); times are seconds since the epoch;
``None`` means "no limit" or "absent".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from core.owner import Owner

Raw = dict[str, Any]
"""A Kubernetes object (or a part of one) as it came over the wire; ours to read and to patch, never to rebuild."""

Requests = Mapping[str, int]
"""Amount by resource name."""

Labels = Mapping[str, str]


class Key(NamedTuple):
    """Namespace and name of a namespaced object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class FlavorResource(NamedTuple):
    """The unit of quota: a resource in a flavor."""

    flavor: str
    resource: str


class StopPolicy(enum.StrEnum):
    """``spec.stopPolicy`` of a ClusterQueue or LocalQueue."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueingStrategy(enum.StrEnum):
    """``spec.queueingStrategy`` of a ClusterQueue."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class Requirement(Struct, frozen=True, gc=False):
    """One term of a label selector or of a node affinity: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(Struct, frozen=True, gc=False):
    """A label selector; all requirements must hold, none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()


class Taint(Struct, frozen=True, gc=False):
    """A node taint of a flavor."""

    key: str
    value: str
    effect: str


class Toleration(Struct, frozen=True, gc=False):
    """A toleration of a pod or of a flavor; no ``effect`` is all effects, no ``key`` with Exists all keys."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ResourceFlavor(Struct, frozen=True, gc=False):
    """A kind of nodes."""

    name: str
    node_labels: Labels = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class Quota(Struct, frozen=True, gc=False):
    """What a ClusterQueue or Cohort has of a flavor's resource."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceGroup(Struct, frozen=True, gc=False):
    """Resources that are taken from one flavor together; flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Fungibility(Struct, frozen=True, gc=False):
    """``spec.flavorFungibility``: MayStopSearch or TryNextFlavor each.

    ``preference`` is BorrowingOverPreemption, PreemptionOverBorrowing or absent ('').
    """

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = ""


class Preemption(Struct, frozen=True, gc=False):
    """``spec.preemption``; ``borrow_within_cohort`` is its policy, Never or LowerPriority."""

    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"
    max_priority_threshold: int | None = None


class CheckRule(Struct, frozen=True, gc=False):
    """An admission check that a ClusterQueue asks for; on no flavors means on all."""

    name: str
    on_flavors: frozenset[str] = frozenset()


class AdmissionCheck(Struct, frozen=True, gc=False):
    """An AdmissionCheck object as far as queueing is concerned."""

    name: str
    controller_name: str
    active: bool


class Cohort(Struct, frozen=True, gc=False):
    """A Cohort object. One that is only named by its members has no quota and no parent."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0


class ClusterQueue(Struct, frozen=True, gc=False):
    """A ClusterQueue object."""

    name: str
    uid: str = ""
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: Selector | None = None
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    checks: tuple[CheckRule, ...] = ()
    stop_policy: StopPolicy = StopPolicy.NONE
    weight: float = 1.0
    admission_mode: str = ""
    deleting: bool = False
    generation: int = 0


class LocalQueue(Struct, frozen=True, gc=False):
    """A LocalQueue object."""

    key: Key
    cluster_queue: str
    uid: str = ""
    stop_policy: StopPolicy = StopPolicy.NONE
    weight: float = 1.0
    deleting: bool = False
    generation: int = 0


class Placement(Struct, frozen=True, gc=False):
    """What a pod asks of its node. ``affinity`` is the required node affinity: any of the terms, all within a term.

    ``None`` means no required node affinity; an empty tuple matches no node. ``fields`` requirements
    (``matchFields``) are not kept: flavors know labels only.
    """

    node_selector: Labels = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE = Placement()
"""Of pods that ask for nothing: one value for all of them, so that it is judged once."""


class PodSet(Struct, frozen=True, gc=False):
    """Pods of one shape. ``requests`` are per pod and effective, with overhead, LimitRange and transformations."""

    name: str
    count: int
    requests: Requests
    min_count: int | None = None
    placement: Placement = ANYWHERE


class PodSetAssignment(Struct, frozen=True, gc=False):
    """What a pod set has been given: flavor by resource, total usage by resource, and the number of pods."""

    name: str
    flavors: Mapping[str, str]
    usage: Requests
    count: int


class Admission(Struct, frozen=True, gc=False):
    """``status.admission``: the ClusterQueue that holds quota for a workload, and for what."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]


class Condition(Struct, frozen=True, gc=False):
    """A status condition; ``since`` is lastTransitionTime in epoch seconds."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""
    since: float = 0.0
    generation: int = 0


class CheckState(Struct, frozen=True, gc=False):
    """The state of one admission check of a workload: Pending, Ready, Retry or Rejected.

    ``pod_set_updates`` are what the check's controller wants added to the pods, as it wrote them.
    """

    name: str
    state: str
    message: str = ""
    since: float = 0.0
    retry_count: int = 0
    requeue_after: float | None = None
    pod_set_updates: tuple[Raw, ...] = ()


class Workload(Struct, frozen=True, gc=False):
    """A Workload object, slim: about 2 KB, for there may be a hundred thousand pending.

    ``priority`` is the effective one. ``reclaimable`` counts by pod set the pods that no longer need their quota.
    ``resource_version`` guards writes. ``invalid`` says, where the pod sets break a rule of the namespace
    (LimitRange) or of Kubernetes (requests above limits), why they may not be admitted. ``evictions`` counts by reason
    and underlying cause. ``owner`` controls it, ``co_owned`` where it has owners of which none does; ``made_for`` is
    the owner that Kueue's annotation names. ``past_execution`` is in seconds, None before the first admission ended.
    """

    key: Key
    uid: str
    created: float
    queue: str
    priority: int
    pod_sets: tuple[PodSet, ...]
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    active: bool = True
    checks: tuple[CheckState, ...] = ()
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    requeue_count: int = 0
    requeue_at: float | None = None
    past_execution: int | None = None
    max_execution: int | None = None
    job_uid: str = ""
    owner: Owner | None = None
    co_owned: bool = False
    made_for: str = ""
    priority_class: str = ""
    deleting: bool = False
    generation: int = 0
    resource_version: str = ""
    invalid: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    evictions: tuple[tuple[str, str, int], ...] = ()

    @property
    def owned(self) -> bool:
        """Whether it has any owner reference."""
        return self.owner is not None or self.co_owned

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, if there is one."""
        for found in self.conditions:
            if found.type == kind:
                return found
        return None

    def holds(self, kind: str) -> bool:
        """Whether the condition of that type is True."""
        found = self.condition(kind)
        return found is not None and found.status


class Requeue(enum.Enum):
    """Where a workload that was looked at and not admitted goes."""

    HEAP = "heap"
    """Back into the heap, to be looked at in the next cycle."""
    PARKED = "parked"
    """Inadmissible: until something that could let it in has changed."""


class Tried(Struct, frozen=True, gc=False):
    """How far the search for flavors came: index of the last flavor tried by resource, by pod set; -1 is the last.

    Holds while ``generation`` of the tree is the same, or in the very next cycle.
    """

    flavors: tuple[Mapping[str, int], ...]
    generation: int
    cycle: int

    @property
    def unfinished(self) -> bool:
        """Whether there are flavors that have not been looked at."""
        for pod_set in self.flavors:
            for index in pod_set.values():
                if index != -1:
                    return True
        return False


class Reserve(Struct, frozen=True, gc=False):
    """Quota is reserved: ``status.admission`` is to be written, and Admitted as well when no check is required.

    ``considered`` tells, as Kueue's QuotaReserved event does, which flavors did not simply fit.
    """

    workload: Workload
    admission: Admission
    admitted: bool
    considered: str = ""


class Victim(Struct, frozen=True, gc=False):
    """A workload that must go, and why; ``reason`` is that of its Preempted condition."""

    workload: Workload
    cluster_queue: str
    reason: str
    message: str


class Wait(Struct, frozen=True, gc=False):
    """Not now: ``reason`` and ``message`` are those of QuotaReserved=False.

    ``requests`` were looked at (total by pod set), ``requeue`` is where the workload goes (with ``alike``, those of its
    shape go too), and ``victims`` are to be evicted for it (those already on their way are not listed). ``tried`` is
    where the search for flavors goes on, and ``hopeless`` whether quota that becomes free would not help.
    """

    workload: Workload
    cluster_queue: str
    reason: str
    message: str
    requeue: Requeue
    requests: Mapping[str, Requests] = field(default_factory=dict)
    victims: tuple[Victim, ...] = ()
    alike: bool = False
    preempting: bool = False
    """Whether it waits for victims to go, its own or another's, and so keeps its place in the queue."""
    tried: Tried | None = None
    hopeless: bool = False


Decision = Reserve | Wait


class Plan(Struct, frozen=True, gc=False):
    """What one scheduling cycle decided, in the order in which it decided; one decision a head.

    ``skipped`` counts by ClusterQueue the heads that had victims and were passed over. ``recomputed`` has the
    ClusterQueue of each head whose victims were chosen again and the result: new_targets, deferred_fit or skipped.
    """

    decisions: tuple[Decision, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    recomputed: tuple[tuple[str, str], ...] = ()
