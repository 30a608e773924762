"""The input of one scheduling cycle: plain values, which the cycle never changes.

Separate from ``core.state.state``, which owns and changes them: a snapshot can be kept, sent elsewhere, or used for a
what-if.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from core.model import Key, Labels, ResourceFlavor, Topology, Tried, Workload
from core.quota.arena import Arena
from core.quota.demand import Demand


class Head(Struct, frozen=True, gc=False):
    """The first of a ClusterQueue's pending workloads; ``time`` is the one it queues from.

    ``preemptor`` ones wait for the victims of their preemption to go. ``blocked`` ones would have been admitted
    before if the pods of others had been ready (``blockAdmission``). ``second_pass`` ones hold quota, and are placed
    in the topology of their flavors, anew or at last (``core.quota.placement.needs_second_pass``).
    """

    workload: Workload
    cluster_queue: str
    demand: Demand
    time: float
    tried: Tried | None = None
    preemptor: bool = False
    blocked: bool = False
    second_pass: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Arenas by name, the arena of each ClusterQueue, and everything else that a decision depends on.

    ``local_usage`` is the decayed usage by LocalQueue (admission fair sharing). ``pods_ready`` is whether the pods of
    all admitted workloads are ready. ``topologies`` are None if topology-aware scheduling is off.
    """

    arenas: Mapping[str, Arena]
    arena_of: Mapping[str, str]
    flavors: Mapping[str, ResourceFlavor]
    namespaces: Mapping[str, Labels]
    cycle: int = 0
    local_usage: Mapping[Key, float] = field(default_factory=dict)
    pods_ready: bool = True
    topologies: Mapping[str, Topology] | None = None
