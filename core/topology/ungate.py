"""Which pods of an admitted pod set get which domain, and with it their node selector.

Pods are created by the controller of their job and wait behind a scheduling gate. Those that their controller numbers
get the domain of their rank: the counts of the assignment, laid one after the other in stored order. Others, and those
whose numbers contradict each other or the pods that have a domain already, get a domain with room, in stored order.

No domain gets more pods than it is assigned: pods that have it count until they have ended or are gone. So a pod that
is created again waits for the one that it replaces, and gets its domain. Kueue would give it any domain with room while
that one terminates. Source: KEP 2724.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec import Struct, field

from core.model import TopologyAssignment
from core.model.kubernetes import Labels
from core.topology.nodes import HOSTNAME


class PodNumbering(NamedTuple):
    """By which labels the pods of a pod set are numbered: ``pod`` is the number of a pod, in its replica where there is
    a label ``replica`` with one of ``replicas`` numbers; '' for none. The first pod has the number ``first``.
    """

    pod: str = ""
    replica: str = ""
    replicas: int = 0
    first: int = 0


UNNUMBERED: Final = PodNumbering()


class AssignedPod(Struct, frozen=True, gc=False):
    """A pod of a pod set that has not ended. ``waits`` is whether the gate for topologies is the only one of Seiretsu
    on it: it has no domain yet; then ``terminates`` means that it never needs one. ``numbers`` are the labels that may
    number it, ``offset`` is what its annotation adds to the number of the first pod.
    """

    uid: str
    name: str
    waits: bool
    terminates: bool = False
    numbers: Labels = field(default_factory=dict)
    offset: int = 0
    node_selector: Labels = field(default_factory=dict)


class GroupMember(NamedTuple):
    """A pod set, the group in which it is placed ('' for none), and its number of pods."""

    name: str
    group: str
    pods: int


Values = tuple[str, ...]
"""The values of a domain."""


def first_numbers(pod_sets: Sequence[GroupMember]) -> dict[str, int]:
    """Returns by pod set the number of its first pod: in a group of a leader and workers the leader has the first
    numbers. The leader is the smaller pod set, of equal ones the first.
    """
    found = dict.fromkeys((each.name for each in pod_sets), 0)
    for group in dict.fromkeys(each.group for each in pod_sets if each.group):
        leader, *workers = sorted((each for each in pod_sets if each.group == group), key=lambda each: each.pods)
        found |= dict.fromkeys((each.name for each in workers), leader.pods)
    return found


def node_selectors(
    assignment: TopologyAssignment,
    pods: Iterable[AssignedPod],
    numbering: PodNumbering = UNNUMBERED,
    *,
    count: int,
    avoided: Collection[str] = (),
) -> dict[str, dict[str, str]]:
    """Returns the node selector of each pod that gets its domain now, by uid; ``count`` is the number of admitted pods.

    ``avoided`` are hostnames of failed nodes: no pod gets one of them, because the assignment is about to be changed.
    """
    alive = [each for each in pods if not (each.waits and each.terminates)]
    waiting = sorted((each for each in alive if each.waits), key=lambda each: (each.name, each.uid))
    room = _room(assignment, alive, avoided)
    ranked = _Ranked(assignment)
    ranks = _ranks(assignment, ranked, alive, numbering, count)
    found: dict[str, Values] = {}
    if ranks is None:
        free = (values for values, number in room.items() for _ in range(number))
        found = {pod.uid: values for pod, values in zip(waiting, free, strict=False)}
    else:
        for pod in waiting:
            values = ranked.domain(ranks[pod.uid])
            if room[values] > 0:  # else a pod that terminates has its place
                room[values] -= 1
                found[pod.uid] = values
    return {uid: dict(zip(assignment.levels, values, strict=True)) for uid, values in found.items()}


class _Ranked:
    """The domain of each rank. Costs the number of domains: an assignment may name more pods than memory holds."""

    def __init__(self, assignment: TopologyAssignment) -> None:
        self._domains = assignment.domains
        self._ends = list(accumulate(domain.count for domain in assignment.domains))

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._ends[-1] if self._ends else 0

    def domain(self, rank: int) -> Values:
        """The values of the domain of a rank."""
        return self._domains[bisect_right(self._ends, rank)].values


def _room(assignment: TopologyAssignment, pods: Iterable[AssignedPod], avoided: Collection[str]) -> Counter[Values]:
    """How many more pods each domain gets, in stored order; less than none if it has too many."""
    by_hostname = assignment.levels[-1:] == (HOSTNAME,)
    room: Counter[Values] = Counter()
    for domain in assignment.domains:
        failed = by_hostname and domain.values[-1] in avoided
        room[domain.values] += 0 if failed else domain.count
    for pod in pods:
        if not pod.waits:
            room[_domain(assignment, pod)] -= 1
    return room


def _domain(assignment: TopologyAssignment, pod: AssignedPod) -> Values:
    """The domain that the node selector of a pod names."""
    return tuple(pod.node_selector.get(level, "") for level in assignment.levels)


def _ranks(
    assignment: TopologyAssignment,
    ranked: _Ranked,
    pods: Iterable[AssignedPod],
    numbering: PodNumbering,
    count: int,
) -> dict[str, int] | None:
    """The rank of each pod that does not terminate, by uid; None where a rank is missing, is that of two pods or has
    no domain, or where a pod has another domain than that of its rank.
    """
    found: dict[str, int] = {}
    for pod in pods:
        if pod.terminates:
            continue
        rank = _rank(pod, numbering, count)
        if rank is None or rank >= ranked.size:
            return None
        if not pod.waits and _domain(assignment, pod) != ranked.domain(rank):
            return None
        found[pod.uid] = rank
    return found if len(set(found.values())) == len(found) else None


def _rank(pod: AssignedPod, numbering: PodNumbering, count: int) -> int | None:
    """The rank of a pod by its labels, None for none below ``count``."""
    number = _number(pod.numbers, numbering.pod)
    if number is None:
        return None
    first = numbering.first + pod.offset
    if numbering.replica:
        replica = _number(pod.numbers, numbering.replica)
        size = count // numbering.replicas if numbering.replicas > 0 else 0
        if replica is None or replica >= numbering.replicas or number >= size:
            return None
        number += replica * size
    return number - first if 0 <= number - first < count else None


def _number(labels: Mapping[str, str], label: str) -> int | None:
    text = labels.get(label, "")
    return int(text) if label and is_number(text) else None


def is_number(text: str) -> bool:
    """Whether the value of a label can be the number of a pod."""
    return text.isascii() and text.isdigit() and len(text) < 10
