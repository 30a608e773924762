"""The promises of the queue, judged on every change in the order in which etcd stored them.

At every moment: a reservation exceeds no quota, of a ClusterQueue or of any Cohort above it, limits of borrowing and
lending included; pods of queued Jobs use no more than the quota of their tree; no pod runs without quota for longer
than the patience (``without_quota``); domains of topologies are given within what their nodes have, and pods run where
they were given (``topology``); a Job has at most one Workload that holds quota, or slices, of which the newest counts;
a Job that runs has an admitted Workload; a Workload is admitted again only after it was evicted.

When nothing happens any more (``at_rest``): no Job is lost, no quota is held for a Job that is gone, and the status of
each ClusterQueue reports exactly what is reserved, admitted and pending in it.

A quota may be lowered below what is in use: what is reserved is judged when it is written, with the quotas of then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

from observer.decode import Amounts, Decoded, Job, Node, Pod, Queue, Quota, Workload, amount
from observer.topology import Topology
from observer.without_quota import WithoutQuota

NO_QUOTA = Quota(Fraction(0), None, None)
FlavorResource = tuple[str, str]


class Change(NamedTuple):
    """One state of one object, and when it was read; ``value`` is None where it was deleted."""

    revision: int
    kind: str
    key: str
    value: Decoded | None
    at: float = 0.0


class Judge:
    """Takes the changes in order. ``broken`` has a sentence for each moment at which a rule did not hold.

    ``admitted`` counts the admissions of each Workload by its name, ``evictions`` those of Workloads that held quota;
    ``finished`` has the uids of the Workloads that have finished, ``most`` the most that was reserved at once of each
    resource, ``made`` the names of all Workloads by their uids.
    """

    def __init__(self, namespaces: Collection[str] = (), without_quota_seconds: float = inf) -> None:
        self.broken: list[str] = []
        self.without_quota = WithoutQuota(without_quota_seconds)
        self.admitted: Counter[str] = Counter()
        self.evictions = 0
        self.finished: set[str] = set()
        self.made: dict[str, str] = {}
        self.most: defaultdict[str, Fraction] = defaultdict(Fraction)
        self._topology = Topology()
        self._on_nodes: dict[str, Node | Workload | Pod] = {}
        """What ``topology`` judges: of all namespaces, because they share the nodes."""
        self._namespaces = namespaces
        self._jobs: dict[str, Job] = {}
        self._pods: dict[str, Pod] = {}
        self._workloads: dict[str, Workload] = {}
        self._cluster_queues: dict[str, Queue] = {}
        self._cohorts: dict[str, Queue] = {}
        self._used: dict[str, defaultdict[FlavorResource, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self._slices: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        """The Workloads by the name that slices share, and by uid, in the order in which they were made."""
        self._counted: dict[str, Workload] = {}
        """The one of each name whose usage is in ``_used``."""
        self._of_job: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        self._queue_of_job: dict[str, str] = {}
        self._running: dict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self._was_evicted: set[str] = set()
        self._was_admitted: set[str] = set()

    def see(self, change: Change) -> None:
        """Judges one change."""
        self._see_topology(change)
        match change.kind:
            case "Workload":
                self._see_workload(change)
            case "Job":
                self._see_job(change)
            case "Pod":
                self._see_pod(change)
            case "ClusterQueue":
                _replace(self._cluster_queues, change)
            case "Cohort":
                _replace(self._cohorts, change)
        self.passed(change.at)

    def passed(self, at: float) -> None:
        """Judges what must not last; it is this time now."""
        self.broken += self.without_quota.broken(at)

    def _see_topology(self, change: Change) -> None:
        before: Any = self._on_nodes.get(change.key)
        match change.kind:
            case "Node":
                self._topology.see_node(before, _replace(self._on_nodes, change))
                return
            case "Workload":
                found = self._topology.see_workload(before, _replace(self._on_nodes, change), change.at)
            case "Pod":
                now = _replace(self._on_nodes, change)
                owners = self.without_quota.owners(now or before) if now or before else ()
                found = self._topology.see_pod(before, now, owners, change.at)
            case _:
                return
        for sentence in found:
            if self._ours(change):
                self._report(change, sentence)

    def _ours(self, change: Change) -> bool:
        """Whether its namespace is observed: the key ends in namespace and name."""
        return not self._namespaces or change.key.split("/")[-2] in self._namespaces

    def _report(self, change: Change, sentence: str) -> None:
        self.broken.append(f"revision {change.revision}, {change.kind} {change.key.split('/', 3)[-1]}: {sentence}")

    def _see_workload(self, change: Change) -> None:
        if not self._ours(change):
            return
        before = self._workloads.get(change.key)
        now = _replace(self._workloads, change)
        self.without_quota.see_workload(before, now, change.at)
        if before is not None and (now is None or now.uid != before.uid):
            self._of_job[before.job].pop(before.uid, None)
        for name in {each.shared for each in (before, now) if each is not None}:
            self._count(name, before, now)
        if now is None:
            return
        if before is not None and before.uid != now.uid:
            before = None
        self.made.setdefault(now.uid, now.name)
        if now.job:
            self._of_job[now.job][now.uid] = now
            self._queue_of_job[now.job] = now.queue or self._queue_of_job.get(now.job, "")
        if now.holds and _rises(before, now):
            self._judge_quota(change, now)
        if now.holds and len({each.shared for each in self._of_job.get(now.job, {}).values() if each.holds}) > 1:
            self._report(change, "two Workloads hold quota for its Job")
        self._judge_admission(change, before, now)

    def _count(self, name: str, before: Workload | None, now: Workload | None) -> None:
        """Counts the usage of the newest Workload of this name that holds quota: slices replace each other."""
        slices = self._slices[name]
        if before is not None and (now is None or (now.uid, now.shared) != (before.uid, before.shared)):
            slices.pop(before.uid, None)
        if now is not None and now.shared == name:
            slices[now.uid] = now
        counted = next((each for each in reversed(slices.values()) if each.holds), None)
        for state, sign in ((self._counted.pop(name, None), -1), (counted, 1)):
            if state is not None:
                for place, used in state.usage.items():
                    self._used[state.queue][place] += sign * used
        if counted is not None:
            self._counted[name] = counted
        if not slices:
            del self._slices[name]

    def _judge_quota(self, change: Change, workload: Workload) -> None:
        for _, resource in workload.usage:
            amounts = (used[place] for used in self._used.values() for place in used if place[1] == resource)
            self.most[resource] = max(self.most[resource], sum(amounts, Fraction(0)))
        tree = _Tree(self._cluster_queues, self._cohorts, self._used)
        for place in workload.usage:
            for sentence in tree.exceeded(workload.queue, place):
                self._report(change, sentence)

    def _judge_admission(self, change: Change, before: Workload | None, now: Workload) -> None:
        if now.evicted and before is not None and before.holds and not before.evicted:
            self.evictions += 1
        if now.finished:
            self.finished.add(now.uid)
        if now.evicted:
            self._was_evicted.add(now.uid)
        if now.runs and (before is None or not before.runs):
            self.admitted[now.name] += 1
            if now.uid in self._was_admitted and now.uid not in self._was_evicted:
                self._report(change, "admitted again without an eviction")
            self._was_admitted.add(now.uid)
            if not now.evicted:
                self._was_evicted.discard(now.uid)
        if before is not None and before.runs and now.runs and before.queue != now.queue:
            self._report(change, f"moved from {before.queue} to {now.queue} while it was admitted")

    def _see_job(self, change: Change) -> None:
        if not self._ours(change):
            return
        now = _replace(self._jobs, change)
        self.without_quota.see_job(now)
        if now is not None and now.queued and now.runs and not self._admitted_job(now.uid):
            self._report(change, "runs without an admitted Workload")

    def _admitted_job(self, uid: str) -> bool:
        return any(each.runs for each in self._of_job.get(uid, {}).values())

    def _see_pod(self, change: Change) -> None:
        if not self._ours(change):
            return
        before = self._pods.get(change.key)
        now = _replace(self._pods, change)
        self.without_quota.see_pod(before, now, change.at)
        for state, sign in ((before, -1), (now, 1)):
            if state is not None and state.job:
                for resource, requested in state.requests.items():
                    self._running[state.job][resource] += sign * requested
        if now is None or not now.requests or (before is not None and before.requests):
            return
        queue = self._queue_of_job.get(now.job)
        if queue:
            self._judge_pods(change, queue, now)

    def _judge_pods(self, change: Change, queue: str, pod: Pod) -> None:
        tree = _Tree(self._cluster_queues, self._cohorts, self._used)
        members = tree.members(queue)
        granted: defaultdict[str, Fraction] = defaultdict(Fraction)
        for name in members:
            for (_, resource), quota in (self._cluster_queues | self._cohorts)[name].quotas.items():
                granted[resource] += quota.nominal
        for resource in pod.requests:
            runs = sum(
                running[resource]
                for job, running in self._running.items()
                if self._queue_of_job.get(job, "") in members
            )
            if resource in granted and runs > granted[resource]:
                self._report(change, f"pods of {_number(runs)} {resource} run on {_number(granted[resource])}")

    def at_rest(self, *, drained: bool = False) -> list[str]:
        """Returns a sentence for each rule that does not hold now, when nothing changes any more.

        With ``drained`` every Job must have ended, or be gone.
        """
        return [*self._lost(drained), *self._orphans(), *self._wrong_statuses()]

    def _lost(self, drained: bool) -> Iterator[str]:
        for job in self._jobs.values():
            if not job.queued:
                continue
            workloads = self._of_job.get(job.uid, {}).values()
            if job.ended and any(not each.finished for each in workloads):
                yield f"Job {job.name} has ended, and its Workload has not finished"
            elif not job.ended and not workloads:
                yield f"Job {job.name} is lost: it has no Workload"
            elif not job.ended and drained:
                yield f"Job {job.name} has not ended"
            elif job.runs and not self._admitted_job(job.uid):
                yield f"Job {job.name} runs without an admitted Workload"
            elif not job.ended and not job.runs and self._admitted_job(job.uid):
                yield f"Job {job.name} is suspended, and its Workload is admitted"

    def _orphans(self) -> Iterator[str]:
        uids = {each.uid for each in self._jobs.values()}
        for each in self._workloads.values():
            if (
                each.holds
                and each.owner == "Job"
                and each.job not in uids
                and not any(self._running[each.job].values())
            ):
                yield f"Workload {each.name} holds quota, and its Job is gone"

    def _wrong_statuses(self) -> Iterator[str]:
        for queue in self._cluster_queues.values():
            here = [each for each in self._workloads.values() if each.queue == queue.name and each.holds]
            if self._namespaces and queue.name not in self._used:  # other namespaces use it, or nobody
                continue
            for field, holders in (("flavorsReservation", here), ("flavorsUsage", [e for e in here if e.admitted])):
                wanted = _sum(each.usage for each in holders)
                found = _reported(queue.status.get(field) or ())
                for place in sorted(wanted.keys() | found.keys()):
                    if wanted.get(place, 0) != found.get(place, 0):
                        yield (
                            f"ClusterQueue {queue.name} reports {_number(found.get(place, Fraction(0)))} of "
                            f"{'/'.join(place)} in {field}, and it is {_number(wanted.get(place, Fraction(0)))}"
                        )
            for field, count in (
                ("reservingWorkloads", len(here)),
                ("admittedWorkloads", sum(each.admitted for each in here)),
            ):
                if queue.status.get(field, 0) != count:
                    yield f"ClusterQueue {queue.name} reports {queue.status.get(field, 0)} {field}, and it is {count}"


class _Tree:
    """The usage and the quotas of ClusterQueues and Cohorts, for one question."""

    def __init__(
        self,
        cluster_queues: Mapping[str, Queue],
        cohorts: Mapping[str, Queue],
        used: Mapping[str, Mapping[FlavorResource, Fraction]],
    ) -> None:
        self._used = used
        named = {each.parent for each in (*cluster_queues.values(), *cohorts.values()) if each.parent}
        implied = {name: Queue(name, "", {}, {}) for name in named}
        # A ClusterQueue and a Cohort may have the same name.
        self._nodes = {("cq", name): each for name, each in cluster_queues.items()}
        self._nodes |= {("cohort", name): each for name, each in (implied | dict(cohorts)).items()}
        self._below: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for node, each in self._nodes.items():
            if each.parent:
                self._below["cohort", each.parent].append(node)

    def exceeded(self, cluster_queue: str, place: FlavorResource) -> Iterator[str]:
        """Yields a sentence for the ClusterQueue and each Cohort above it that uses more than it may."""
        node: tuple[str, str] | None = ("cq", cluster_queue)
        while node is not None:
            queue = self._nodes.get(node)
            if queue is None:
                yield f"reserves in {cluster_queue}, which does not exist"
                return
            used, quota = self._usage(node, place), queue.quotas.get(place, NO_QUOTA)
            limit = None
            if not queue.parent:
                limit = self._subtree(node, place)
            elif quota.borrowing is not None:
                limit = self._subtree(node, place) + quota.borrowing
            if limit is not None and used > limit:
                name = f"{'ClusterQueue' if node[0] == 'cq' else 'Cohort'} {node[1]}"
                yield f"{name} uses {_number(used)} of {'/'.join(place)}, and may use {_number(limit)}"
            node = ("cohort", queue.parent) if queue.parent else None

    def members(self, cluster_queue: str) -> set[str]:
        """The names of all ClusterQueues and Cohorts in the tree of a ClusterQueue that exist."""
        node = ("cq", cluster_queue)
        while node in self._nodes and self._nodes[node].parent:
            node = ("cohort", self._nodes[node].parent)
        found, open_ones = set[str](), [node]
        while open_ones:
            node = open_ones.pop()
            if node in self._nodes and self._nodes[node].quotas:
                found.add(node[1])
            open_ones += self._below[node]
        return found

    def _usage(self, node: tuple[str, str], place: FlavorResource) -> Fraction:
        """What a node uses; a Cohort uses what those below use beyond what they do not lend."""
        own = self._used.get(node[1], {}).get(place, Fraction(0)) if node[0] == "cq" else Fraction(0)
        beyond = (self._usage(each, place) - self._kept(each, place) for each in self._below[node])
        return own + sum((max(Fraction(0), each) for each in beyond), Fraction(0))

    def _subtree(self, node: tuple[str, str], place: FlavorResource) -> Fraction:
        """The quota of a node, and what those below lend to it."""
        lent = (self._subtree(each, place) - self._kept(each, place) for each in self._below[node])
        return self._nodes[node].quotas.get(place, NO_QUOTA).nominal + sum(lent, Fraction(0))

    def _kept(self, node: tuple[str, str], place: FlavorResource) -> Fraction:
        """What a node lends to nobody."""
        lending = self._nodes[node].quotas.get(place, NO_QUOTA).lending
        return max(Fraction(0), self._subtree(node, place) - lending) if lending is not None else Fraction(0)


def _rises(before: Workload | None, now: Workload) -> bool:
    if before is None or not before.holds or before.queue != now.queue:
        return True
    return any(used > before.usage.get(place, 0) for place, used in now.usage.items())


def _replace(kept: dict[str, Any], change: Change) -> Any:
    key = change.key.rpartition("/")[2] if change.kind in ("ClusterQueue", "Cohort") else change.key
    if change.value is None:
        kept.pop(key, None)
    else:
        kept[key] = change.value
    return change.value


def _sum(usages: Iterable[Amounts]) -> dict[FlavorResource, Fraction]:
    total: defaultdict[FlavorResource, Fraction] = defaultdict(Fraction)
    for usage in usages:
        for place, used in usage.items():
            total[place] += used
    return total


def _reported(flavors: Iterable[Mapping[str, Any]]) -> dict[FlavorResource, Fraction]:
    return {
        (flavor["name"], each["name"]): amount(each.get("total", "0"))
        for flavor in flavors
        for each in flavor["resources"]
    }


def _number(value: float | Fraction) -> str:
    return f"{float(value):g}"
