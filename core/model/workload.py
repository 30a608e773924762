"""A Workload: the requests of a job, its admission, and its status."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from api.names import DelayedTopology
from api.objects import Key, Raw
from core.model.kubernetes import ANYWHERE, Condition, Placement, Requests
from core.model.owner import Owner
from core.model.topology import TopologyAssignment


class TopologyRequest(Struct, frozen=True, gc=False):
    """Where the pods of a pod set should be relative to each other: all on one domain of the level ``required``, or if
    possible ``preferred``, or anywhere (``unconstrained``); with pod sets of the same ``group``.

    ``slices`` are nested, largest first: each of so many pods on one domain of a level.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    group: str = ""
    slices: tuple[tuple[str, int], ...] = ()


class PodSet(Struct, frozen=True, gc=False):
    """Pods of one shape. ``requests`` are per pod and effective, with overhead, LimitRange and transformations.

    ``topology`` is absent where nothing is asked for. ``own`` are the effective requests of the pod template without
    transformations, which is what a pod uses of a node; None where they are equal to ``requests``.
    """

    name: str
    count: int
    requests: Requests
    min_count: int | None = None
    placement: Placement = ANYWHERE
    topology: TopologyRequest | None = None
    own: Requests | None = None

    @property
    def per_pod(self) -> Requests:
        """What one pod uses of its node, without the pod itself (``pods: 1``)."""
        return self.requests if self.own is None else self.own


class PodSetAssignment(Struct, frozen=True, gc=False):
    """The assignment of a pod set: flavor by resource, total usage by resource, the number of pods, and the domains of
    the topology; while these are decided later, ``delayed`` is Pending, and Ready after that.
    """

    name: str
    flavors: Mapping[str, str]
    usage: Requests
    count: int
    topology: TopologyAssignment | None = None
    delayed: str = ""

    @property
    def awaits_topology(self) -> bool:
        """Whether its domains are decided later, in a second pass."""
        return self.topology is None and self.delayed == DelayedTopology.PENDING


class Admission(Struct, frozen=True, gc=False):
    """``status.admission``: the ClusterQueue that holds quota for a workload, and the assignments."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]


class CheckState(Struct, frozen=True, gc=False):
    """The state of one admission check of a workload: Pending, Ready, Retry or Rejected.

    ``pod_set_updates`` are the additions to the pods from the check's controller, unchanged.
    """

    name: str
    state: str
    message: str = ""
    since: float = 0.0
    retry_count: int = 0
    requeue_after: float | None = None
    pod_set_updates: tuple[Raw, ...] = ()


class GateState(Struct, frozen=True, gc=False):
    """The state of one preemption gate."""

    name: str
    open: bool
    since: float = 0.0


class Workload(Struct, frozen=True, gc=False):
    """A Workload object with the fields that decisions need: about 2 KB, because a hundred thousand may be pending.

    ``priority`` is the effective one. ``reclaimable`` counts by pod set the pods that no longer need their quota.
    ``resource_version`` guards writes. ``invalid`` is the reason why the workload may not be admitted, if the pod sets
    break a rule of the namespace (LimitRange) or of Kubernetes (requests above limits). ``evictions`` counts by reason
    and underlying cause. ``owner`` controls it, ``co_owned`` if it has owners of which none does; ``made_for`` is the
    owner in Kueue's annotation. ``past_execution`` is in seconds, None before the first admission ended. ``replaces``
    is the slice of the same elastic job whose quota it takes over; all slices of a job have one ``slice_name``.
    ``preemption_gates`` must all be open before it may preempt others; ``gate_states`` are those in its status.
    ``cluster_name`` is the worker cluster that it runs in, ``nominated`` are those that it is offered to. With
    concurrent admission a ``parent`` is admitted through its variants, and ``variant_of`` is the uid of that parent;
    only ``allowed_flavors`` may be assigned to it, if there are any. ``from_manager`` is whether MultiKueue of another
    cluster made it. ``unhealthy_nodes`` are the nodes of its pods that failed.
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
    replaces: Key | None = None
    slice_name: str = ""
    cluster_name: str = ""
    nominated: tuple[str, ...] = ()
    preemption_gates: tuple[str, ...] = ()
    gate_states: tuple[GateState, ...] = ()
    parent: bool = False
    variant_of: str = ""
    allowed_flavors: tuple[str, ...] = ()
    from_manager: bool = False
    unhealthy_nodes: tuple[str, ...] = ()

    @property
    def closed_gates(self) -> tuple[str, ...]:
        """The preemption gates that are closed; a gate without a state is, so a Workload can be created gated."""
        if not self.preemption_gates:
            return ()
        opened = {state.name for state in self.gate_states if state.open}
        return tuple(name for name in self.preemption_gates if name not in opened)

    @property
    def owned(self) -> bool:
        """Whether it has any owner reference."""
        return self.owner is not None or self.co_owned

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None if there is none."""
        for found in self.conditions:
            if found.type == kind:
                return found
        return None

    def holds(self, kind: str) -> bool:
        """Whether the condition of that type is True."""
        found = self.condition(kind)
        return found is not None and found.status
