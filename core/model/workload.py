"""A Workload: the requests of a job, its admission, and its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, field, structs

from api.names import DelayedTopology
from api.objects import Key, Raw
from core.model.kubernetes import ANYWHERE, Condition, Placement, Requests
from core.model.owner import Owner
from core.model.topology import TopologyAssignment


class SpreadRule(Struct, frozen=True, gc=False):
    """Where workloads are spread over the domains of ``level``: a domain that has more than this share (in billionths)
    of those in the domain above it takes no more (``required``), or is taken last.
    """

    level: str
    share: int
    required: bool = True


class Spreading(Struct, frozen=True, gc=False):
    """How a pod set is spread beside those of other workloads (KEP 13746): the Workloads of the namespace count whose
    label ``key`` has one of these values; without values none.
    """

    namespace: str
    key: str
    values: tuple[str, ...]
    rules: tuple[SpreadRule, ...]


class TopologyRequest(Struct, frozen=True, gc=False):
    """Where the pods of a pod set should be relative to each other: all on one domain of the level ``required``, or if
    possible ``preferred``, or anywhere (``unconstrained``); with pod sets of the same ``group``.

    ``slices`` are nested, largest first: each of so many pods on one domain of a level. ``spreading`` is absent where
    other workloads do not matter.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    group: str = ""
    slices: tuple[tuple[str, int], ...] = ()
    spreading: Spreading | None = None


class PodSet(Struct, frozen=True, gc=False):
    """Pods of one shape. ``requests`` are per pod and effective, with overhead, LimitRange and transformations.

    ``topology`` is absent where nothing is asked for. ``own`` are the effective requests of the pod template without
    transformations, which is what a pod uses of a node; None where they are equal to ``requests``. ``with_devices`` is
    the same with the devices that it takes of a node, where it takes any.
    """

    name: str
    count: int
    requests: Requests
    min_count: int | None = None
    placement: Placement = ANYWHERE
    topology: TopologyRequest | None = None
    own: Requests | None = None
    with_devices: Requests | None = None

    @property
    def per_pod(self) -> Requests:
        """What the containers of one pod request, without the pod itself (``pods: 1``)."""
        return self.requests if self.own is None else self.own

    @property
    def on_node(self) -> Requests:
        """What one pod takes of its node, without the pod itself."""
        return self.per_pod if self.with_devices is None else self.with_devices


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


class Rare(Struct, frozen=True, gc=False):
    """What few Workloads have. Those that have nothing of it share one value, so that each costs 8 bytes for all of
    these fields; the properties of ``Workload`` explain them.
    """

    active: bool = True
    deleting: bool = False
    co_owned: bool = False
    made_for: str = ""
    invalid: tuple[str, ...] = ()
    uncounted: str = ""
    outgrown: str = ""
    checks: tuple[CheckState, ...] = ()
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    requeue_count: int = 0
    requeue_at: float | None = None
    past_execution: int | None = None
    max_execution: int | None = None
    evictions: tuple[tuple[str, str, int], ...] = ()
    replaces: Key | None = None
    slice_name: str = ""
    gates: tuple[str, ...] = ()
    preemption_gates: tuple[str, ...] = ()
    gate_states: tuple[GateState, ...] = ()
    cluster_name: str = ""
    nominated: tuple[str, ...] = ()
    from_manager: bool = False
    parent: bool = False
    variant_of: str = ""
    allowed_flavors: tuple[str, ...] = ()
    unhealthy_nodes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    coarse_reasons: bool = False


COMMON: Final = Rare()
COARSE: Final = Rare(coarse_reasons=True)
"""The same where UnadmittedWorkloadsObservability is off."""


class Workload(Struct, frozen=True, gc=False):
    """A Workload object with the fields that decisions need: less than 1 KB, because a million may be pending.

    ``priority`` is the effective one. ``owner`` controls it. ``resource_version`` guards writes. All that most do not
    have is in ``rare``; ``replace`` changes any field.
    """

    key: Key
    uid: str
    created: float
    queue: str
    priority: int
    pod_sets: tuple[PodSet, ...]
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    job_uid: str = ""
    owner: Owner | None = None
    priority_class: str = ""
    generation: int = 0
    resource_version: str = ""
    rare: Rare = COMMON

    @property
    def coarse_reasons(self) -> bool:
        """Whether its conditions get Kueue's reasons of earlier releases: UnadmittedWorkloadsObservability is off."""
        return self.rare.coarse_reasons

    @property
    def active(self) -> bool:
        """Whether it may be admitted; a deactivated one may not."""
        return self.rare.active

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.rare.deleting

    @property
    def co_owned(self) -> bool:
        """Whether it has owners of which none controls it."""
        return self.rare.co_owned

    @property
    def made_for(self) -> str:
        """The owner in Kueue's annotation."""
        return self.rare.made_for

    @property
    def invalid(self) -> tuple[str, ...]:
        """Why it may not be admitted: a pod set breaks a LimitRange, or requests more than its limits."""
        return self.rare.invalid

    @property
    def uncounted(self) -> str:
        """Why it is not known which devices its pods use: it is in no queue until that is known."""
        return self.rare.uncounted

    @property
    def outgrown(self) -> str:
        """Why its pods may use more devices than it was admitted for; '' where they may not."""
        return self.rare.outgrown

    @property
    def checks(self) -> tuple[CheckState, ...]:
        """The states of its admission checks."""
        return self.rare.checks

    @property
    def reclaimable(self) -> Mapping[str, int]:
        """The pods that no longer need their quota, by pod set."""
        return self.rare.reclaimable

    @property
    def requeue_count(self) -> int:
        """How often it was requeued since it last ran."""
        return self.rare.requeue_count

    @property
    def requeue_at(self) -> float | None:
        """The time before which it is not decided."""
        return self.rare.requeue_at

    @property
    def past_execution(self) -> int | None:
        """How many seconds it ran in former admissions; None before the first one ended."""
        return self.rare.past_execution

    @property
    def max_execution(self) -> int | None:
        """How many seconds it may run."""
        return self.rare.max_execution

    @property
    def evictions(self) -> tuple[tuple[str, str, int], ...]:
        """How often it was evicted, by reason and underlying cause."""
        return self.rare.evictions

    @property
    def replaces(self) -> Key | None:
        """The slice of the same elastic job whose quota it takes over."""
        return self.rare.replaces

    @property
    def slice_name(self) -> str:
        """The name that all slices of its elastic job have in common."""
        return self.rare.slice_name

    @property
    def gates(self) -> tuple[str, ...]:
        """The admission gates that hold it back."""
        return self.rare.gates

    @property
    def preemption_gates(self) -> tuple[str, ...]:
        """The gates that must all be open before it may preempt others."""
        return self.rare.preemption_gates

    @property
    def gate_states(self) -> tuple[GateState, ...]:
        """The states of preemption gates in its status."""
        return self.rare.gate_states

    @property
    def cluster_name(self) -> str:
        """The worker cluster that it runs in."""
        return self.rare.cluster_name

    @property
    def nominated(self) -> tuple[str, ...]:
        """The worker clusters that it is offered to."""
        return self.rare.nominated

    @property
    def from_manager(self) -> bool:
        """Whether MultiKueue of another cluster made it."""
        return self.rare.from_manager

    @property
    def parent(self) -> bool:
        """Whether it is admitted through its variants (concurrent admission)."""
        return self.rare.parent

    @property
    def variant_of(self) -> str:
        """The uid of the parent of which it is a variant."""
        return self.rare.variant_of

    @property
    def allowed_flavors(self) -> tuple[str, ...]:
        """The only flavors that may be assigned to it, if there are any."""
        return self.rare.allowed_flavors

    @property
    def unhealthy_nodes(self) -> tuple[str, ...]:
        """The nodes of its pods that failed."""
        return self.rare.unhealthy_nodes

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Its labels, in order; only with the feature gate TASTopologySpreading."""
        return self.rare.labels

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


_RARE: Final = frozenset(Rare.__struct_fields__)
_Value = TypeVar("_Value", bound=Struct)


def replace(value: _Value, /, **changes: Any) -> _Value:
    """Returns a copy of a struct with other values in these fields; of a Workload also those of ``rare``."""
    if isinstance(value, Workload) and not _RARE.isdisjoint(changes):
        rare = structs.replace(value.rare, **{name: changes.pop(name) for name in _RARE.intersection(changes)})
        changes["rare"] = COMMON if rare == COMMON else rare
    return structs.replace(value, **changes)
