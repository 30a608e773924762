"""The rules of topologies: no domain is given more than its nodes have free, and no pod runs outside of what its
Workload was given, or more of them on a domain than that.

What is given is judged when it is written, with the nodes of then: a node may go away. Pods of others take room: those
of no Workload that has domains, in any namespace. Pods are stored and seen by different programs, so such a pod counts
for the Workloads that are made after it was on its node, and for all after ``OTHERS_SECONDS``.

A pod runs where any assignment had it that its Workload had since the pod was made: pods that are there when the
assignment changes may stay until they are gone, and those that replace them go where the new one has them. As many pods
may run elsewhere as the pod sets have that were given no domain. The slices of an elastic job are one: the newest that
holds quota decides. Which Workload a pod belongs to is read from its owners, else from its annotation; not from what it
asks for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from observer.decode import Domain, Node, Pod, Workload

OTHERS_SECONDS = 60.0
"""A pod of others that has been on its node for so long counts for every Workload."""


class _Assignment(NamedTuple):
    """The domains of a job until a change, and how many pods may be elsewhere."""

    domains: Mapping[Domain, int]
    anywhere: int
    until: int


class _Running(NamedTuple):
    """A pod of a job on a node: when it was made and when it came there, as numbers of changes; ``at`` is the time of
    that.
    """

    pod: Pod
    job: str
    made: int
    there: int
    at: float


class Topology:
    """Takes the states of nodes, Workloads and pods in order; each call yields a sentence for each broken rule."""

    def __init__(self) -> None:
        self._changes = 0
        self._nodes: dict[str, Node] = {}
        self._made: dict[str, int] = {}
        """The change with which each Workload and each pod was seen first, by its uid."""
        self._jobs: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        """The Workloads of each job, by their names."""
        self._of_uid: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """By the uid of a job the names of its Workloads, with the name that they have in ``_jobs``."""
        self._given: dict[str, Workload] = {}
        """By job the Workload that decides, if it has domains."""
        self._in: defaultdict[Domain, dict[str, Workload]] = defaultdict(dict)
        self._earlier: defaultdict[str, list[_Assignment]] = defaultdict(list)
        """By job what was given before; a job that has had domains has an entry, or has them now."""
        self._running: dict[str, _Running] = {}
        self._on: defaultdict[str, dict[str, _Running]] = defaultdict(dict)
        """The pods on each node by uid."""
        self._of: defaultdict[str, dict[str, _Running]] = defaultdict(dict)
        """Those of each job."""

    def see_node(self, before: Node | None, now: Node | None) -> None:
        """A node changed."""
        if before is not None:
            self._nodes.pop(before.name, None)
        if now is not None:
            self._nodes[now.name] = now

    def see_workload(self, before: Workload | None, now: Workload | None, at: float = 0.0) -> Iterator[str]:
        """A Workload changed; it is this time now."""
        self._changes += 1
        if before is not None and (now is None or (now.uid, now.shared) != (before.uid, before.shared)):
            self._forget(before)
        if now is None:
            return
        self._made.setdefault(now.uid, self._changes)
        self._jobs[now.shared][now.name] = now
        if now.job and not now.group:
            self._of_uid[now.job][now.name] = now.shared
        was = self._given.get(now.shared)
        self._decide(now.shared)
        given = self._given.get(now.shared)
        if given is None:
            return
        for domain, pods in given.domains.items():
            if was is None or pods > was.domains.get(domain, 0):
                yield from self._exceeded(domain, given, at)

    def see_pod(
        self, before: Pod | None, now: Pod | None, owners: Sequence[str] = (), at: float = 0.0
    ) -> Iterator[str]:
        """A pod changed; ``owners`` are its own uid, that of its controller, that of the controller of this, ..."""
        self._changes += 1
        old = self._running.pop(before.uid, None) if before is not None else None
        if old is not None:
            del self._on[old.pod.node][old.pod.uid], self._of[old.job][old.pod.uid]
        if before is not None and (now is None or now.uid != before.uid):
            self._made.pop(before.uid, None)
        if now is None:
            return
        made = self._made.setdefault(now.uid, self._changes)
        if not now.runs:
            return
        same = old if old is not None and old.pod.requests == now.requests else None
        there, since = (same.there, same.at) if same is not None else (self._changes, at)
        runs = _Running(now, self._job(now, owners), made, there, since)
        self._running[now.uid] = self._on[now.node][now.uid] = self._of[runs.job][now.uid] = runs
        if old is None and now.node in self._nodes:
            yield from self._outside(runs)

    def _forget(self, workload: Workload) -> None:
        """A Workload is gone; the last of a job takes with it what the job was given."""
        self._made.pop(workload.uid, None)
        self._jobs[workload.shared].pop(workload.name, None)
        self._of_uid[workload.job].pop(workload.name, None)
        self._decide(workload.shared)
        if not self._of_uid[workload.job]:
            del self._of_uid[workload.job]
        if not self._jobs[workload.shared]:
            del self._jobs[workload.shared]
            self._earlier.pop(workload.shared, None)

    def _decide(self, job: str) -> None:
        """Keeps what a job is given now. Variants of a Workload have what it has."""
        held = (each for each in self._jobs[job].values() if each.holds and each.owner != "Workload")
        newest = max(held, key=lambda each: (self._made[each.uid], each.name), default=None)
        now = newest if newest is not None and newest.domains else None
        before = self._given.pop(job, None)
        if before is not None:
            for domain in before.domains:
                self._in[domain].pop(job, None)
            if now is None or (now.domains, now.anywhere) != (before.domains, before.anywhere):
                self._earlier[job].append(_Assignment(before.domains, before.anywhere, self._changes))
        if now is not None:
            self._given[job] = now
            for domain in now.domains:
                self._in[domain][job] = now

    def _outside(self, runs: _Running) -> Iterator[str]:
        """A sentence if a pod that has just come to its node has no place there."""
        if runs.job not in self._given:
            return
        node, places = self._nodes[runs.pod.node], self._places(runs)
        there = [each for each in self._of[runs.job].values() if each.pod.node in self._nodes]
        mine = next((domain for domain in places if _in(node, domain)), None)
        if mine is None:
            elsewhere = sum(not self._has_place(each) for each in there)
            if elsewhere > max(each.anywhere for each in self._assignments(runs)):
                yield f"pod {runs.pod.name} runs on {runs.pod.node}, which its Workload was not given"
            return
        running = sum(_in(self._nodes[each.pod.node], mine) for each in there)
        if running > places[mine]:
            yield f"{running} pods run on {_named(mine)}, and {places[mine]} were given to their Workload"

    def _has_place(self, runs: _Running) -> bool:
        node = self._nodes[runs.pod.node]
        return any(_in(node, domain) for domain in self._places(runs))

    def _places(self, runs: _Running) -> Mapping[Domain, int]:
        """The domains where a pod may be, each with the most pods that it was given at once; those of now first."""
        found: dict[Domain, int] = {}
        for each in self._assignments(runs):
            for domain, pods in each.domains.items():
                found[domain] = max(pods, found.get(domain, 0))
        return found

    def _assignments(self, runs: _Running) -> Iterator[_Assignment]:
        """What the job of a pod was given at any moment since the pod was made; first what it is given now."""
        now = self._given[runs.job]
        yield _Assignment(now.domains, now.anywhere, self._changes)
        yield from (each for each in self._earlier.get(runs.job, ()) if each.until > runs.made)

    def _job(self, pod: Pod, owners: Sequence[str]) -> str:
        """The name of the job of a pod, as in ``_jobs``; '' for none."""
        for uid in owners:
            names = set(self._of_uid.get(uid, {}).values())
            if len(names) == 1:
                return names.pop()
        return pod.workload or pod.group

    def _exceeded(self, domain: Domain, workload: Workload, at: float) -> Iterator[str]:
        """A sentence if a domain is given more than its nodes have beside the pods of others."""
        nodes = [node for node in self._nodes.values() if _in(node, domain)]
        if not nodes:
            return
        capacity: defaultdict[str, Fraction] = defaultdict(Fraction)
        others: defaultdict[str, Fraction] = defaultdict(Fraction)
        for node in nodes:
            used = self._used_by_others(node, workload, at)
            for resource, amount in node.allocatable.items():
                capacity[resource] += amount
                others[resource] += min(amount, used.get(resource, Fraction(0)))
        given: defaultdict[str, Fraction] = defaultdict(Fraction)
        for each in self._in[domain].values():
            for resource, amount in each.on.get(domain, {}).items():
                given[resource] += amount
        for resource, amount in sorted(given.items()):
            if resource in capacity and amount > capacity[resource] - others[resource]:
                beside = f", of which pods of others use {float(others[resource]):g}" if others[resource] else ""
                has = f"{_named(domain)} has {float(capacity[resource]):g} {resource}{beside}"
                yield f"{has}, and {float(amount):g} are given"

    def _used_by_others(self, node: Node, workload: Workload, at: float) -> Mapping[str, Fraction]:
        """What pods of no job that has, or has had, domains request on a node, as far as a Workload must know it."""
        found: defaultdict[str, Fraction] = defaultdict(Fraction)
        for each in self._on.get(node.name, {}).values():
            known = each.there < self._made[workload.uid] or at - each.at > OTHERS_SECONDS
            if known and each.job not in self._given and each.job not in self._earlier:
                for resource, amount in (*each.pod.requests.items(), ("pods", Fraction(1))):
                    found[resource] += amount
        return found


def _in(node: Node, domain: Domain) -> bool:
    return all(node.labels.get(level) == value for level, value in zip(domain.levels, domain.values, strict=True))


def _named(domain: Domain) -> str:
    return f"domain {','.join(domain.values)}"
