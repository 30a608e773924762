"""What is asked of a topology, in terms of its levels.

Separate from the search so that each rule of which level is meant can be read, and refused, before any domain is
looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from core.model import Placement, PodSet, Requests, TopologyAssignment, TopologyRequest
from core.topology.spread import Spread

_NOTHING = TopologyRequest()


class Options(NamedTuple):
    """The feature gates that change placements, with Kueue's defaults.

    ``mixed_profile`` (TASProfileMixed), ``balanced`` (TASBalancedPlacement), ``preferred_affinity``
    (TASRespectNodeAffinityPreferred), ``elastic`` (ElasticJobsViaWorkloadSlicesWithTAS), ``keep_pod_owned``
    (SkipReassignmentForPodOwnedWorkloads).
    """

    mixed_profile: bool = True
    balanced: bool = False
    preferred_affinity: bool = False
    elastic: bool = False
    keep_pod_owned: bool = True


class Asked(Struct, frozen=True, gc=False):
    """A pod set to place: ``count`` of its pods. Pod sets of one ``group`` are placed together.

    ``implied``: it asks for no topology, but all flavors of its ClusterQueue have one. ``updates`` are node selectors
    and tolerations from admission checks. ``previous`` is the assignment of the workload slice that is replaced.
    ``spread`` is how it is spread beside other workloads.
    """

    pod_set: PodSet
    count: int
    group: str = ""
    implied: bool = False
    updates: tuple[Placement, ...] = ()
    previous: TopologyAssignment | None = None
    spread: Spread | None = None

    @property
    def topology(self) -> TopologyRequest:
        """The request; an empty one if it is implied."""
        return self.pod_set.topology or _NOTHING

    @property
    def per_pod(self) -> Requests:
        """What one pod uses, without the pod itself."""
        return self.pod_set.on_node


@dataclass(frozen=True, slots=True)
class Misfit:
    """A pod set that cannot be placed; ``text`` is why."""

    text: str


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be found. Pods come in slices of ``sizes[slice_level]``; below that level in units of
    ``sizes[level]``, which divide each other. All slices on one domain of ``level``: else ``required`` fails, and
    others take several domains, at ``level`` (``unconstrained``) or at the highest.

    ``layers`` are the level and the size of each constraint, highest first.
    ``best_fit`` chooses the domain with the fewest slices that is enough, else the first that holds all.
    """

    level: int
    required: bool
    unconstrained: bool
    best_fit: bool
    slice_level: int
    sizes: tuple[int, ...]
    layers: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of pods in a slice."""
        return self.sizes[self.slice_level]

    @property
    def unit(self) -> str:
        """What reasons count."""
        return "pod(s)" if self.size == 1 else "slice(s)"


def goal(topology: TopologyRequest, levels: Sequence[str], options: Options, *, implied: bool) -> Goal | Misfit:
    """Returns what a request means for a topology with these levels, or which mistake it has."""
    name = topology.required or topology.preferred
    if not name and not (topology.slices or topology.unconstrained or implied):
        return Misfit("topology level not specified")
    key = name or (levels[0] if topology.slices else levels[-1])
    if key not in levels:
        return Misfit(f"no requested topology level: {key}")
    constraints = topology.slices or ((levels[-1], 1),)
    layers: list[tuple[int, int]] = []
    for index, (label, size) in enumerate(constraints):
        if not size:
            return Misfit("slice topology requested, but slice size not provided")
        if label not in levels:
            return Misfit(f"no requested topology level for {'additional ' * (index > 0)}slices: {label}")
        layers.append((levels.index(label), size))
    if layers[0][0] < levels.index(key):
        return Misfit(f"podset slice topology {constraints[0][0]} is above the podset topology {key}")
    for (above, outer), (below, inner) in itertools.pairwise(layers):
        if below <= above:
            return Misfit(f"additional slice layer topology {levels[below]} must be below {levels[above]}")
        if outer % inner:
            return Misfit(f"additional slice layer size {inner} must evenly divide parent layer size {outer}")
    unconstrained = not name
    return Goal(
        level=levels.index(key),
        required=bool(topology.required),
        unconstrained=unconstrained,
        best_fit=not (unconstrained and options.mixed_profile),
        slice_level=layers[0][0],
        sizes=_sizes(layers, len(levels)),
        layers=tuple(layers),
    )


def _sizes(layers: Sequence[tuple[int, int]], depth: int) -> tuple[int, ...]:
    """The unit of each level: that of the first constraint at or below it, else one pod."""
    return tuple(next((size for at, size in layers if at >= level), 1) for level in range(depth))
