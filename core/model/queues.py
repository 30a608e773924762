"""The specifications of an administrator: ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and AdmissionChecks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from api import names
from api.objects import Key
from core.model.kubernetes import Labels, Selector, Taint, Toleration


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


class ResourceFlavor(Struct, frozen=True, gc=False):
    """A kind of nodes."""

    name: str
    node_labels: Labels = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class Quota(Struct, frozen=True, gc=False):
    """The quota that a ClusterQueue or Cohort has of a flavor's resource."""

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

    @property
    def prefers_preemption(self) -> bool:
        """Whether a flavor in which others can be preempted is better than one that needs borrowed quota."""
        return self.preference == names.Fungibility.PREEMPTION_OVER_BORROWING


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

    def concerns(self, flavor: str) -> bool:
        """Whether workloads with this flavor need it."""
        return not self.on_flavors or flavor in self.on_flavors


class Parameters(Struct, frozen=True, gc=False):
    """A reference to the object with the parameters of an AdmissionCheck."""

    api_group: str
    kind: str
    name: str


class AdmissionCheck(Struct, frozen=True, gc=False):
    """An AdmissionCheck object as far as queueing is concerned."""

    name: str
    controller_name: str
    active: bool
    parameters: Parameters | None = None


class Cohort(Struct, frozen=True, gc=False):
    """A Cohort object. One that is only named by its members has no quota and no parent."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0


class Migration(Struct, frozen=True, gc=False):
    """``spec.concurrentAdmissionPolicy.migration``: whether a running workload moves to a preferred flavor, and the
    last flavor in order to which it may; '' is every one.
    """

    mode: str = names.MigrationMode.TRY_PREFERRED_FLAVORS
    last_acceptable: str = ""


class ClusterQueue(Struct, frozen=True, gc=False):
    """A ClusterQueue object. With a ``migration`` its workloads are admitted through variants, one for each flavor."""

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
    migration: Migration | None = None
    deleting: bool = False
    generation: int = 0

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors of its first resource group, the preferred one first."""
        return self.groups[0].flavors if self.groups else ()


class LocalQueue(Struct, frozen=True, gc=False):
    """A LocalQueue object."""

    key: Key
    cluster_queue: str
    uid: str = ""
    stop_policy: StopPolicy = StopPolicy.NONE
    weight: float = 1.0
    deleting: bool = False
    generation: int = 0
