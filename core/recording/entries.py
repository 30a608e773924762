"""The form of a recording: all input of State in its order, and the heads and decisions of each cycle.

A recording begins with an ``Opening``, all that State holds at a moment; every later entry is a change of State's input
or a step of a cycle. Heads and decisions are small records, which name workloads by their keys. The form is typed and
has no code in it: a recording is sent with bug reports, and is read by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.model import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Decision,
    Key,
    Labels,
    LocalQueue,
    Node,
    Plan,
    PodSet,
    Requests,
    Requeue,
    Reserve,
    ResourceFlavor,
    StayPending,
    Topology,
    Tried,
    Victim,
    Workload,
)
from core.model.policy import SchedulingPolicy
from core.queue.admission_fair_sharing import Consumed
from core.scheduling.snapshot import Head

MAGIC: Final = b"seiretsu-recording-1\n"


class HeadRecord(Struct, frozen=True, gc=False, array_like=True):
    """One head of a cycle."""

    key: Key
    cluster_queue: str
    time: float
    tried: Tried | None = None
    preemptor: bool = False
    blocked: bool = False
    second_pass: bool = False


class VictimRecord(Struct, frozen=True, gc=False, array_like=True):
    """One victim of a decision."""

    key: Key
    cluster_queue: str
    reason: str
    message: str


class DecisionRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision; with an ``admission`` quota is reserved, else the workload waits."""

    key: Key
    admission: Admission | None = None
    admitted: bool = False
    considered: str = ""
    cluster_queue: str = ""
    reason: str = ""
    message: str = ""
    parked: bool = False
    victims: tuple[VictimRecord, ...] = ()
    alike: bool = False
    preempting: bool = False
    tried: Tried | None = None
    hopeless: bool = False
    short: bool = False
    gated: bool = False
    second_pass: bool = False
    postponed: bool = False


class Opening(Struct, frozen=True, gc=False, tag="o"):
    """All that State holds at a moment. ``complete``: nothing was decided before, so the order of the queues follows
    from the recording too. ``holding`` are workloads as they are counted by a decision that their object does not show.
    """

    at: float
    policy: SchedulingPolicy
    complete: bool = False
    cycle: int = 0
    namespaces: Mapping[str, Labels] = {}
    topologies: Mapping[str, Topology] = {}
    flavors: Mapping[str, ResourceFlavor] = {}
    checks: Mapping[str, AdmissionCheck] = {}
    cohorts: Mapping[str, Cohort] = {}
    cluster_queues: Mapping[str, ClusterQueue] = {}
    local_queues: tuple[LocalQueue, ...] = ()
    consumed: tuple[tuple[Key, Consumed], ...] = ()
    nodes: tuple[Node, ...] = ()
    others: Mapping[str, Requests] = {}
    workloads: tuple[Workload, ...] = ()
    holding: tuple[Workload, ...] = ()
    evicting: tuple[Key, ...] = ()
    penalties: tuple[tuple[Key, Key, dict[str, float]], ...] = ()


class PodSetsShared(Struct, frozen=True, gc=False, tag="h"):
    """Pod sets that workloads have in common."""

    number: int
    pod_sets: tuple[PodSet, ...]


class WorkloadSet(Struct, frozen=True, gc=False, tag="w"):
    """A Workload changed; its pod sets are those of ``shape``."""

    workload: Workload
    shape: int = -1


class WorkloadGone(Struct, frozen=True, gc=False, tag="x"):
    """A Workload was deleted."""

    key: Key


class FlavorSet(Struct, frozen=True, gc=False, tag="f"):
    """A ResourceFlavor changed; None: it was deleted, and so below."""

    name: str
    value: ResourceFlavor | None


class TopologySet(Struct, frozen=True, gc=False, tag="t"):
    """A Topology changed."""

    name: str
    value: Topology | None


class NodeSet(Struct, frozen=True, gc=False, tag="n"):
    """A Node changed."""

    name: str
    value: Node | None


class OthersSet(Struct, frozen=True, gc=False, tag="p"):
    """What pods outside of topologies use of a node changed."""

    name: str
    value: Requests


class CheckSet(Struct, frozen=True, gc=False, tag="c"):
    """An AdmissionCheck changed."""

    name: str
    value: AdmissionCheck | None


class CohortSet(Struct, frozen=True, gc=False, tag="k"):
    """A Cohort changed."""

    name: str
    value: Cohort | None


class ClusterQueueSet(Struct, frozen=True, gc=False, tag="q"):
    """A ClusterQueue changed."""

    name: str
    value: ClusterQueue | None


class LocalQueueSet(Struct, frozen=True, gc=False, tag="l"):
    """A LocalQueue changed."""

    key: Key
    value: LocalQueue | None


class NamespaceSet(Struct, frozen=True, gc=False, tag="s"):
    """The labels of a namespace changed."""

    name: str
    value: Labels | None


class ConsumedSet(Struct, frozen=True, gc=False, tag="u"):
    """The consumption of a LocalQueue was read."""

    key: Key
    value: Consumed | None


class UsageSampled(Struct, frozen=True, gc=False, tag="v"):
    """The usage of all LocalQueues was sampled."""

    at: float


class DecisionWithdrawn(Struct, frozen=True, gc=False, tag="r"):
    """The write of a decision failed."""

    key: Key
    not_before: float


class Taken(Struct, frozen=True, gc=False, tag="a"):
    """The heads of a cycle were taken at a time, with the generation of each arena that has heads."""

    at: float
    cycle: int
    heads: tuple[HeadRecord, ...]
    generations: Mapping[str, int]


class Decided(Struct, frozen=True, gc=False, tag="b"):
    """The decisions about these heads, in the order in which they are applied."""

    decisions: tuple[DecisionRecord, ...]


class Applied(Struct, frozen=True, gc=False, tag="d"):
    """So many decisions were applied before the next entry; -1: all, and the cycle has ended."""

    number: int


class Stopped(Struct, frozen=True, gc=False, tag="e"):
    """Cycle after cycle made no progress."""


RecordingEntry = (
    Opening
    | PodSetsShared
    | WorkloadSet
    | WorkloadGone
    | FlavorSet
    | TopologySet
    | NodeSet
    | OthersSet
    | CheckSet
    | CohortSet
    | ClusterQueueSet
    | LocalQueueSet
    | NamespaceSet
    | ConsumedSet
    | UsageSampled
    | DecisionWithdrawn
    | Taken
    | Decided
    | Applied
    | Stopped
)


def head_record(head: Head) -> HeadRecord:
    """Returns what is kept of a head."""
    flags = (head.preemptor, head.blocked, head.second_pass)
    return HeadRecord(head.workload.key, head.cluster_queue, head.time, head.tried, *flags)


def decision_record(decision: Decision) -> DecisionRecord:
    """Returns what is kept of a decision."""
    key = decision.workload.key
    if isinstance(decision, Reserve):
        return DecisionRecord(
            key,
            admission=decision.admission,
            admitted=decision.admitted,
            considered=decision.considered,
            second_pass=decision.second_pass,
        )
    return DecisionRecord(
        key,
        cluster_queue=decision.cluster_queue,
        reason=decision.reason,
        message=decision.message,
        parked=decision.requeue is Requeue.PARKED,
        victims=tuple(VictimRecord(v.workload.key, v.cluster_queue, v.reason, v.message) for v in decision.victims),
        alike=decision.alike,
        preempting=decision.preempting,
        tried=decision.tried,
        hopeless=decision.hopeless,
        short=decision.short,
        gated=decision.gated,
        second_pass=decision.second_pass,
        postponed=decision.postponed,
    )


def planned(plan: Plan) -> Decided:
    """Returns what is kept of a plan."""
    return Decided(tuple(map(decision_record, plan.decisions)))


def decided(record: DecisionRecord, workload: Workload, victims: Mapping[Key, Workload]) -> Decision:
    """Returns the decision of a record, about a workload as it was."""
    if record.admission is not None:
        return Reserve(workload, record.admission, record.admitted, record.considered, record.second_pass)
    return StayPending(
        workload,
        record.cluster_queue,
        record.reason,
        record.message,
        Requeue.PARKED if record.parked else Requeue.HEAP,
        victims=tuple(
            Victim(victims[each.key], each.cluster_queue, each.reason, each.message)
            for each in record.victims
            if each.key in victims
        ),
        alike=record.alike,
        preempting=record.preempting,
        tried=record.tried,
        hopeless=record.hopeless,
        short=record.short,
        gated=record.gated,
        second_pass=record.second_pass,
        postponed=record.postponed,
    )


def without_pod_sets(workload: Workload) -> Workload:
    """Returns the Workload as it is written beside its ``PodSetsShared``."""
    return replace(workload, pod_sets=())
