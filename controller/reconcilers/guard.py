"""The guard: finds pods that run without quota, and stops them. It knows nothing of how that can be brought about.

It watches the pods that are on a node, counts them for their jobs, and compares that with what the Workloads of the job
were granted (``core.guard``): quota, and the domains of a topology if they have any. A pod is counted for the job that
controls it, through any number of objects; without such a job for the one that its labels name, or that it was counted
for before; else for itself, if it should be queued itself. What exceeds is confirmed by a fresh list of the pods in the
namespace, so that no watch that is late is a reason to stop anything.

It runs in the leader only. Its sentences and its limits are in ``core.guard.judge``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Literal, NamedTuple, get_args

import structlog

from api import names, resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, Forbidden, NotFound, Unauthorized
from controller.kube.workqueue import WorkQueue
from controller.reconcilers.living import LivingPods
from controller.reconcilers.managed import Managed
from controller.settings import ControllerSettings
from core.guard.domains import DomainKey, GrantedDomains, RunningInDomains, granted_domains
from core.guard.grants import NOTHING, STOPS_SECONDS, Grant, evicted_at, granted, holds, job_ended, reserved, since
from core.guard.judge import ENDED, LEAVES_SECONDS, Charged, Excess, GuardVerdict, excess, judge
from core.guard.overlap import UNSPENT, OverlapBudget, Spent, limit, over, overlap
from core.guard.pods import RUNNING, Accounting, Kin, PodShape, RunningPod
from core.jobs import meta
from core.jobs.kinds import POD
from core.jobs.kinds.pod import OF_GROUPS, parent
from core.jobs.owners import NestingError
from core.matching.placement import untolerated
from core.model import Key, Node, Raw, Workload, events
from core.model.owner import GROUP, Reference
from core.wire import decode
from core.wire.conditions import status_patch
from core.workload import transitions

CONFIRM_SECONDS: Final = 0.4
"""Pods run without quota for so long before the API server is asked for them: most of what looks like it is over by
then, because the watches of pods and of Workloads do not report in one order."""
SETTLE_SECONDS: Final = 0.5
"""How often pods whose owners are not known yet are looked at again."""
SWEEP_SECONDS: Final = 30.0
"""How often all pods are looked at that are counted for no job, or terminate."""
SOON_SECONDS: Final = 1.0
IMPATIENT_SECONDS: Final = 600.0
"""When a job has ended and left pods that nobody deleted, the next ones of its kind and namespace have only so short a
time to delete theirs, for so long: one job after the other would else use as much again for a part of the time."""
OVERLAP_SECONDS: Final = 10.0
"""How often an account is looked at of which pods terminate beside those that replace them."""
UNCONFIRMED_SECONDS: Final = 2.0
"""How long an account is left alone of which only the watch, and not the API server, shows an excess."""
LOOKS_AT_ONCE: Final = 20
"""Accounts that are looked at without a pause."""
MANY_SHAPES: Final = 50
"""Pods of an account with more shapes are not counted at each of their changes."""
NODES_AT_ONCE: Final = 50
"""Pods of one account whose nodes are compared without a pause."""
PATIENT_ACTS: Final = 50
MOST_WAIT_SECONDS: Final = 30.0
"""After so many acts in succession that did not help, an account waits so long for the next one; a new pod of it does
not."""
AT_ONCE: Final = 100
"""So many pods are deleted before they are listed again."""
DELETES_AT_ONCE: Final = 10
"""So many of them are deleted at the same time."""
SHARE: Final = 0.1
"""The part of its time for which the guard may list pods of one namespace."""
REPORTED_SECONDS: Final = 300.0
"""How long the same excess is not reported again, if the guard only reports."""
TRIES: Final = 4
"""So often an owner that is not in its store yet is waited for before it is asked for."""

Deed = Literal["evicted_workloads", "deleted_pods", "ended_pods", "reported_jobs"]
DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)

log = structlog.get_logger(__name__)


class QuotaHolder(NamedTuple):
    """What pods are counted for, in a namespace: the uid of a job, or ``workload/`` and the name of a Workload whose
    pods have no job in common.
    """

    namespace: str
    name: str


@dataclass(slots=True, eq=False)
class CountedPods:
    """The pods of an account: how many of each shape, without those that terminate.

    ``kind`` is that of its job, and ``done`` whether that has ended: still so when its Workload is gone. ``grant``
    is what its Workloads grant, None if that is not computed, and until when if they do not change; ``reserved``
    and ``since`` are what they hold and since when. ``left`` is what they granted until ``left_at``, which counts
    for a moment. ``due`` is when the account is looked at again, 0 if nothing exceeds. ``leaving`` are those that
    terminate: ``going`` their shapes, without those whose grace period is over (``over``), ``ended`` the uids of
    those whose grace period was ended, ``spent`` how long they have overlapped. ``strays`` is how many pods nobody
    controls, and ``acts`` how often in succession something was stopped. ``domains`` are those of its Workloads,
    and ``nodes`` has the nodes of its pods by uid if it has any. ``moved`` is whether either has changed since they
    were compared, which is not done before ``settled``; ``outside`` is whether they did not agree.
    """

    account: QuotaHolder
    shapes: Counter[PodShape]
    kind: str = ""
    done: bool = False
    grant: Grant | None = None
    reserved: Grant = NOTHING
    since: float = 0.0
    until: float = inf
    left: Grant = NOTHING
    left_at: float = -inf
    due: float = 0.0
    pods: int = 0
    strays: int = 0
    reported: float = 0.0
    leaving: dict[str, RunningPod] = field(default_factory=dict)
    going: Counter[PodShape] = field(default_factory=Counter)
    over: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    spent: Spent = UNSPENT
    acts: int = 0
    domains: GrantedDomains | None = None
    nodes: dict[str, str] = field(default_factory=dict)
    moved: bool = False
    settled: float = 0.0
    outside: bool = False

    def locate(self, pod: RunningPod | None, old: RunningPod | None = None) -> None:
        """Keeps the node of a pod, as long as it runs; without one, ``old`` is none of the account any more."""
        if self.domains is None:
            return
        either = pod or old
        assert either is not None
        if pod is not None and not pod.deleted:
            if self.nodes.get(pod.uid) != pod.node:
                self.nodes[pod.uid], self.moved = pod.node, True
        elif self.nodes.pop(either.uid, None) is not None:
            self.moved = True


class Charge(NamedTuple):
    """What a pod is counted for; ``stray`` if not its controller shows that."""

    counted: CountedPods
    stray: bool


class PodGuard:
    """``run`` it while this process leads. ``did`` counts what it stopped, for metrics."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        managed: Managed,
        recorder: Recorder,
        settings: ControllerSettings,
        *,
        pods: LivingPods,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``pods`` must be followed by somebody while the guard runs."""
        self.caches = caches
        self.writer = writer
        self.managed = managed
        self.recorder = recorder
        self.settings = settings
        self.clock = clock
        self.did: Counter[Deed] = Counter()
        self.pods = pods
        self.queue = WorkQueue[str]("guard", longest_seconds=30.0)
        self._client = client
        self._enabled = POD in caches.kinds
        self._counted: dict[QuotaHolder, CountedPods] = {}
        self._spent: dict[QuotaHolder, Spent] = {}
        self._suspects: defaultdict[str, dict[QuotaHolder, CountedPods]] = defaultdict(dict)
        self._unsettled: dict[str, int] = {}
        self._local_queues: Counter[str] = Counter()
        self._left_pods_at: dict[tuple[str, str], float] = {}
        """When a job of a kind had ended and left pods, by namespace and kind."""
        self._resources: frozenset[str] | None = None
        self._by_topology = caches.state.placement is not None
        self._not_located: set[QuotaHolder] = set()
        """The accounts that had pods before they had domains: the next sweep finds their nodes."""
        self._since = clock()

    # What pods are counted for

    def changed(self, old: RunningPod | None, new: RunningPod | None) -> None:
        """A pod changed: it is counted for its job."""
        before = old.charge if old is not None else None
        if old is not None and new is not None and _same(old, new):
            new.charge = before
            return
        if new is not None:
            new.charge = self._charged(new, old)
        charge = new.charge if new is not None else None
        if new is not None and isinstance(charge, Charge):
            self._count(charge, new, 1)
        if old is not None and isinstance(before, Charge):  # after the new one, which may be of the same account
            self._count(before, old, -1)
            if new is None:
                before.counted.ended.discard(old.uid)
            if not isinstance(charge, Charge) or charge.counted is not before.counted:
                before.counted.locate(None, old)
        if isinstance(charge, Charge):
            charge.counted.locate(new, old)
            self._compare(charge.counted)
        elif new is None and old is not None:
            self._unsettled.pop(old.uid, None)

    def _charged(self, pod: RunningPod, old: RunningPod | None = None) -> Charge | None:
        """What a pod is counted for."""
        found = self._attributed(pod, old)
        if found is None:
            return None
        account, stray = found
        counted = self._counted.get(account)
        if counted is None:
            spent = self._spent.pop(account, UNSPENT)
            counted = self._counted[account] = CountedPods(account, Counter(), spent=spent)
            if self._by_topology:
                counted.domains = granted_domains(self._workloads(account))
        return Charge(counted, stray)

    def _attributed(self, pod: RunningPod, old: RunningPod | None) -> tuple[QuotaHolder, bool] | None:
        """The account of a pod, and whether it is a stray: what it was counted for before if nothing shows its job, or
        only one that has no Workload although nobody changed the pod. So pods keep the quota of their job when an owner
        between them is gone.
        """
        found = self._account(pod)
        if old is None or not isinstance(old.charge, Charge):
            return found
        before = old.charge.counted.account
        if found is None:
            return before, True
        if pod.kin is not old.kin or found[0] == before or self._workloads(found[0]):
            return found
        return (before, True) if any(map(holds, self._workloads(before))) else found

    def _account(self, pod: RunningPod) -> tuple[QuotaHolder, bool] | None:
        kin = pod.kin
        if not self._concerns(kin.namespace):
            return None
        own = self._of_uid(kin.namespace, pod.uid) or (kin.above and self._of_uid(kin.namespace, kin.above.uid))
        if own:
            return own, False
        if kin.above is not None and (over := self.pods.get(kin.above.uid)) is not None:
            return (over.charge.counted.account, over.charge.stray) if isinstance(over.charge, Charge) else None
        above, unread = self._above(pod)
        if unread:
            self._unsettled.setdefault(pod.uid, 0)
            return None
        self._unsettled.pop(pod.uid, None)
        if above is not None:
            return self._of_uid(kin.namespace, above.uid) or QuotaHolder(kin.namespace, above.uid), False
        group = meta.pod_group(kin.raw)
        of_group = QuotaHolder(kin.namespace, f"workload/{group}")
        if group and self._enabled and (self._workloads(of_group) or self._to_be_queued(pod)):
            return of_group, False
        if kin.above is not None and parent(kin.raw) in OF_GROUPS:
            return self._of_owner(kin.namespace, kin.above.uid)
        if named := self._named(kin):
            return named, True
        return (QuotaHolder(kin.namespace, pod.uid), False) if self._to_be_queued(pod) else None

    def _concerns(self, namespace: str) -> bool:
        """Whether jobs of a namespace may be queued at all: pods of others are not looked at."""
        queues = self.settings.manage_jobs_without_queue_name or self._local_queues[namespace] > 0
        used = queues or bool(self.caches.workloads.by_index("namespace", namespace))
        return used and self.managed.namespace(namespace)

    def _of_uid(self, namespace: str, uid: str) -> QuotaHolder | None:
        """The account of the job with that uid; None if it has no Workload."""
        for raw in self.caches.workloads.by_index("job-uid", uid):
            account = account_of(raw)
            if account.name == uid and account.namespace == namespace:
                return account
        return None

    def _of_owner(self, namespace: str, uid: str) -> tuple[QuotaHolder, bool] | None:
        """The account of a pod that its StatefulSet replaces, which is not one of the group any more; None for other
        owners: admission has gated such a pod, and only Seiretsu lets it go.
        """
        found = [account_of(raw) for raw in self.caches.workloads.by_index("job-uid", uid)]
        return (found[0], False) if len(found) == 1 and found[0].namespace == namespace else None

    def _above(self, pod: RunningPod) -> tuple[Reference | None, bool]:
        """What is queued instead of a pod; True where an owner is not known yet."""
        above = pod.kin.above
        if above is None:
            return None, False
        if self._unsettled.get(pod.uid, 0) < TRIES and self._may_come(pod.kin, above):
            return None, True
        try:
            found = self.managed.above(pod.kin.raw)
        except NestingError:
            return None, False
        return found.ancestor, found.unread is not None and self._unsettled.get(pod.uid, 0) < 60 * TRIES

    def _may_come(self, kin: Kin, above: Reference) -> bool:
        """Whether an owner is of a kind that is watched, and its watch has not reported it yet."""
        kinds = (each for each in self.caches.kinds if (each.group, each.kind) == (above.group, above.kind))
        found = next(kinds, None)
        return found is not None and self.caches.stores[found.resource].get(Key(kin.namespace, above.name)) is None

    def _named(self, kin: Kin) -> QuotaHolder | None:
        """The account of the job that labels and annotations name, which a start sets in the templates."""
        labels = meta.labels(kin.raw)
        for label in (names.Label.JOB_UID, names.JobControllerLabel.CONTROLLER_UID):
            if found := self._of_uid(kin.namespace, str(labels.get(label) or "")):
                return found
        name = meta.annotations(kin.raw).get(names.Annotation.WORKLOAD)
        raw = self.caches.workloads.get(Key(kin.namespace, str(name))) if name else None
        return account_of(raw) if raw is not None else None

    def _to_be_queued(self, pod: RunningPod) -> bool:
        """Whether a pod should wait for quota itself: one that admission has handled, or that came after this process
        began, so that admission has seen it. Pods that ran before are not stopped because a setting changed.
        """
        raw = pod.kin.raw
        if not self._enabled or not POD.covers(raw, self.settings.frameworks):
            return False
        return pod.kin.marked or (pod.created >= self._since and self.managed.selects(raw))

    # Comparison

    def _count(self, charge: Charge, pod: RunningPod, sign: int) -> None:
        counted = charge.counted
        counted.pods += sign
        if not pod.deleted:
            _add(counted.shapes, pod.shape, sign)
            counted.strays += sign * (charge.stray and pod.kin.above is None)
        elif sign > 0:
            if (before := counted.leaving.get(pod.uid)) is not None:
                self._gone(counted, before)
            counted.leaving[pod.uid] = pod
            _add(counted.going, pod.shape, 1)
        elif counted.leaving.get(pod.uid) is pod:
            self._gone(counted, pod)
        if counted.going or counted.spent.share:
            self._measure_soon(counted)
        if not counted.pods:
            self._counted.pop(counted.account, None)
            if counted.spent.seconds:
                self._spent[counted.account] = counted.spent
            self._forget(counted)

    def _gone(self, counted: CountedPods, pod: RunningPod) -> None:
        """A pod that terminates is gone, or has another state."""
        del counted.leaving[pod.uid]
        if pod.uid in counted.over:
            counted.over.discard(pod.uid)
        else:
            _add(counted.going, pod.shape, -1)

    def _measure_soon(self, counted: CountedPods) -> None:
        """Measures the overlap; of an account with very many shapes of pods only when it is looked at, which is soon: a
        tenant may give each pod a shape of its own.
        """
        now = self.clock()
        if len(counted.shapes) + len(counted.going) <= MANY_SHAPES:
            self._measure(counted, now)
        elif not counted.due or counted.due > now + CONFIRM_SECONDS:
            self._suspect(counted, now + CONFIRM_SECONDS)

    def _measure(self, counted: CountedPods, now: float) -> None:
        """Adds up how long pods that terminate have run beside those that replace them."""
        spent, share = counted.spent.until(now), 0.0
        if counted.going:
            self._grant(counted, now)  # computes what is reserved
            pods, has, size = (counted.shapes, counted.going), counted.reserved, self._size(counted, now)
            if share := overlap(*pods, has, size):
                share = overlap(*pods, has, size, accounting=self._accounting(self._workloads(counted.account)))
        counted.spent = Spent(spent, now, share)

    def _size(self, counted: CountedPods, now: float) -> Grant:
        """The whole job, for its overlap: what it holds, or held a moment ago."""
        recent = now < counted.left_at + self.settings.guard.overlap_seconds
        return counted.reserved | counted.left if recent else counted.reserved

    def _budget(self, counted: CountedPods, now: float) -> OverlapBudget:
        most = limit(now - counted.since, self.settings.guard.overlap_seconds)
        return OverlapBudget(self._size(counted, now), counted.spent.until(now), most)

    def _forget(self, counted: CountedPods) -> None:
        """An account is no suspect any more."""
        suspects = self._suspects.get(counted.account.namespace)
        if suspects is not None:
            suspects.pop(counted.account, None)
            if not suspects:
                del self._suspects[counted.account.namespace]

    def _workloads(self, account: QuotaHolder) -> list[Workload]:
        """The Workloads of an account. One that is a job's is not that of a group with its name: users choose that."""
        prefix, _, name = account.name.partition("/")
        if name and prefix == "workload":
            found = self.caches.get(Key(account.namespace, name))
            return [found] if found is not None and _account(found) == account else []
        raws = self.caches.workloads.by_index("job-uid", account.name)
        values = (self.caches.get(key_of(raw)) for raw in raws if account_of(raw) == account)
        return [each for each in values if each is not None]

    def _grant(self, counted: CountedPods, now: float) -> Grant:
        """What is granted to an account, with what was granted until a moment ago."""
        if counted.grant is None or now >= counted.until:
            workloads = self._workloads(counted.account)
            counted.grant, counted.reserved = granted(workloads, now), reserved(workloads)
            counted.since = since(workloads, now)
            counted.done = job_ended(workloads) if workloads else counted.done
            counted.kind = next((each.owner.kind for each in workloads if each.owner is not None), counted.kind)
            ends = (each + STOPS_SECONDS for each in map(evicted_at, workloads) if each)
            counted.until = min((each for each in ends if each > now), default=inf)
        return counted.grant | counted.left if now < self._leaves_at(counted) else counted.grant

    def _leaves_at(self, counted: CountedPods) -> float:
        """Until when pods may run on what their job had before: its controller deletes them in this time."""
        ended = not counted.reserved.pods
        left_pods_at = self._left_pods_at.get((counted.account.namespace, counted.kind), -inf)
        recently = counted.left_at < left_pods_at + IMPATIENT_SECONDS
        return counted.left_at + (SOON_SECONDS if ended and recently else LEAVES_SECONDS)

    def _excess(self, counted: CountedPods, has: Grant) -> tuple[Excess, ...]:
        """What of an account exceeds a grant. What others may add to pods is only looked at if something does."""
        found = excess(counted.shapes, has)
        if not found:
            return found
        return excess(counted.shapes, has, accounting=self._accounting(self._workloads(counted.account)))

    def _accounting(self, workloads: Iterable[Workload]) -> Accounting:
        """What of the requests of pods of these Workloads is counted."""
        injected = self.settings.guard.injected
        known = self._containers(workloads) if injected else frozenset()
        return Accounting(injected, known, self._limited())

    def _limited(self) -> frozenset[str]:
        """The resources of which there is quota: those that any ClusterQueue covers, not only that of the Workload. A
        resource that another queue covers would else be free for all jobs of this one.
        """
        if self._resources is None:
            queues = self.caches.state.reservations.cluster_queues.values()
            self._resources = frozenset(name for queue in queues for group in queue.groups for name in group.resources)
        return self._resources

    def _exceeds(self, counted: CountedPods, now: float) -> bool:
        """Whether something of an account is to be stopped, as far as the watch shows it."""
        if self._excess(counted, self._grant(counted, now)):
            return True
        if counted.strays and counted.grant is not None and self._excess(counted, counted.grant):
            return True
        return counted.outside or self._overlaps(counted, now)

    def _overlaps(self, counted: CountedPods, now: float) -> bool:
        """Whether more pods terminate beside those that replace them than may, and have not been ended."""
        share = counted.spent.share
        if not share or self._budget(counted, now).lasts(share) > 0:
            return False
        return any(uid not in counted.ended and uid not in counted.over for uid in counted.leaving)

    def _compare(self, counted: CountedPods) -> None:
        """Notes when an account is to be looked at: soon if it exceeds, else when it will if nothing changes. One that
        is looked at soon is not compared before: each pod of a tenant may have a shape of its own.
        """
        now = self.clock()
        if counted.due and counted.due <= now + CONFIRM_SECONDS:
            return
        if self._exceeds(counted, now):
            due = now + CONFIRM_SECONDS
        else:
            dues = [counted.until] if counted.shapes else []
            leaves = self._leaves_at(counted)
            if now < leaves and counted.grant is not None and self._excess(counted, counted.grant):
                dues.append(leaves)
            if share := counted.spent.share:
                lasts = max(CONFIRM_SECONDS, self._budget(counted, now).lasts(share))
                dues.append(now + min(lasts, OVERLAP_SECONDS))
            if counted.moved:
                dues.append(max(now + CONFIRM_SECONDS, counted.settled))
            due = min(dues, default=inf)
        if due < inf and (not counted.due or due < counted.due):
            self._suspect(counted, due)

    def _suspect(self, counted: CountedPods, due: float) -> None:
        counted.due = due
        self._suspects[counted.account.namespace][counted.account] = counted
        self.queue.add_after(counted.account.namespace, max(0.01, due - self.clock()))

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload changed: what it grants may have changed."""
        value = new or old
        if value is None:
            return
        counted = self._counted.get(_account(value))
        if counted is None:
            return
        now = self.clock()
        before = self._grant(counted, now)
        counted.grant = None
        after = self._grant(counted, now)
        if before | after != after:
            counted.left, counted.left_at = before, now
        if counted.going:
            self._measure(counted, now)
        if self._by_topology and (
            old is None or new is None or old.admission != new.admission or holds(old) != holds(new)
        ):
            self._place(counted, now)
        self._compare(counted)

    def _place(self, counted: CountedPods, now: float) -> None:
        """The Workloads of an account were given other domains, or none: its pods have a moment to leave the old
        ones.
        """
        before, after = counted.domains, granted_domains(self._workloads(counted.account))
        if before == after:
            return
        counted.domains, counted.moved, counted.outside = after, after is not None, False
        if after is None:
            counted.nodes = {}
        elif before is not None:
            counted.settled = now + LEAVES_SECONDS
        elif counted.pods:
            self._not_located.add(counted.account)

    # Work

    async def run(self) -> None:
        """Stops pods without quota, until cancelled."""
        self.caches.local_queues.on_change(self._queue_changed)
        self.caches.cluster_queues.on_change(self._quota_changed)
        self.caches.observers.append(self.workload_changed)
        try:
            for _ in self.pods.catch_up(self.changed):
                await asyncio.sleep(0)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.queue.run(4, self.reconcile), name="guard-queue")
                group.create_task(self._settle(), name="guard-settle")
                group.create_task(self._sweep(), name="guard-sweep")
        finally:
            self.caches.leave(self.workload_changed)
            self.pods.leave(self.changed)

    def _queue_changed(self, old: Raw | None, new: Raw | None) -> None:
        raw = new or old
        if raw is not None and (old is None) != (new is None):
            self._local_queues[raw["metadata"]["namespace"]] += 1 if old is None else -1

    def _quota_changed(self, old: Raw | None, new: Raw | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._resources = None

    async def _settle(self) -> None:
        """Looks again at pods whose owners were not known."""
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            for place, uid in enumerate(list(self._unsettled), start=1):
                pod = self.pods.get(uid)
                if pod is None:
                    self._unsettled.pop(uid, None)
                elif uid in self._unsettled:  # it may have settled, or ended, in a pause
                    self._unsettled[uid] += 1
                    self._again(pod)
                if not place % 25:
                    await asyncio.sleep(0)

    async def _sweep(self) -> None:
        """Looks again at all pods that are counted for nothing or strays, and at those that terminate for too long."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = self.clock()
            self._spent = {account: each for account, each in self._spent.items() if each.until(now)}
            locating, self._not_located = self._not_located, set()
            for place, pod in enumerate(self.pods, start=1):
                if isinstance(pod.charge, Charge) and pod.charge.counted.account in locating:
                    pod.charge.counted.locate(pod)
                    self._compare(pod.charge.counted)
                if not isinstance(pod.charge, Charge) or pod.charge.stray:
                    self._again(pod)
                if pod.deleted and self._late(pod, now):
                    self.overdue(pod)
                if not place % 100:
                    await asyncio.sleep(0)

    def overdue(self, pod: RunningPod) -> None:
        """A pod terminates for too long: it counts again."""
        if isinstance(pod.charge, Charge):
            self._suspect(pod.charge.counted, self.clock())

    def _late(self, pod: RunningPod, now: float) -> bool:
        return now - pod.deleted > self.settings.guard.terminating_seconds

    def _again(self, pod: RunningPod) -> None:
        """Attributes a pod again; one that is not known any more, or was replaced by a later state, is left alone."""
        if self.pods.get(pod.uid) is not pod:
            return
        before = pod.charge
        charge = pod.charge = self._charged(pod, pod)
        stays = isinstance(charge, Charge) and isinstance(before, Charge) and charge.counted is before.counted
        if stays and (pod.deleted or charge == before):  # it terminates already, stray or not, or is counted as before
            return
        if isinstance(charge, Charge):
            self._count(charge, pod, 1)
        if isinstance(before, Charge):
            self._count(before, pod, -1)
            if not stays:
                before.counted.locate(None, pod)
        if isinstance(charge, Charge):
            charge.counted.locate(pod)
            self._compare(charge.counted)

    async def reconcile(self, namespace: str) -> float | None:
        """Confirms what exceeds in a namespace, and stops it. Returns after how many seconds to look again."""
        now = self.clock()
        waiting = list(self._suspects.get(namespace, {}).values())
        for place, counted in enumerate((each for each in waiting if each.due <= now), start=1):
            counted.grant = None
            self._look_at_leaving(counted, now)
            if counted.moved and now >= counted.settled:
                await self._look_at_domains(counted, now)
            late = any(self._late(pod, now) for pod in counted.leaving.values() if pod.uid not in counted.ended)
            if not late and not self._exceeds(counted, now):
                self._cleared(counted)
            if not place % LOOKS_AT_ONCE:
                await asyncio.sleep(0)
        due = [each for each in self._suspects.get(namespace, {}).values() if each.due <= now]
        if due:
            acted, took = await self._confirm(namespace, due)
            now = self.clock()
            for counted in due:
                if counted.account in acted:
                    counted.acts += 1
                    wait = MOST_WAIT_SECONDS if counted.acts > PATIENT_ACTS else CONFIRM_SECONDS
                else:
                    wait = UNCONFIRMED_SECONDS
                    if not self._exceeds(counted, now):  # it terminates for too long, within quota
                        self._cleared(counted)
                        continue
                counted.due = now + max(wait, took / SHARE)
        waits = [each.due - now for each in self._suspects.get(namespace, {}).values()]
        return max(0.01, min(waits)) if waits else None

    def _look_at_leaving(self, counted: CountedPods, now: float) -> None:
        """Pods whose grace period is over are counted no more."""
        for uid, pod in counted.leaving.items():
            if uid not in counted.over and over(pod, now):
                counted.over.add(uid)
                _add(counted.going, pod.shape, -1)
        self._measure(counted, now)

    async def _look_at_domains(self, counted: CountedPods, now: float) -> None:
        """Compares the nodes of an account's pods with its domains, in steps. Nodes that are not known yet or not ready
        are compared later, and those that are gone never: nobody can use them.
        """
        has, counted.moved = counted.domains, False
        if has is None:
            return
        running = RunningInDomains(has)
        for place, name in enumerate(list(counted.nodes.values()), start=1):
            node = self._working(name)
            if node is not None:
                running.add(name, has.of(node.labels, {}))
            else:
                counted.moved, counted.settled = True, now + SWEEP_SECONDS
            if not place % NODES_AT_ONCE:
                await asyncio.sleep(0)
        counted.outside = bool(running.outside()) and counted.domains is has

    def _cleared(self, counted: CountedPods) -> None:
        """Nothing of an account exceeds any more."""
        counted.due, counted.acts = 0.0, 0
        self._forget(counted)
        self._compare(counted)

    async def _confirm(self, namespace: str, due: Iterable[CountedPods]) -> tuple[set[QuotaHolder], float]:
        """Lists the pods of a namespace as they are, and acts on what exceeds in these accounts. Returns in which it
        did something, and how many seconds the list took.
        """
        began = self.clock()
        found: dict[QuotaHolder, list[Charged]] = {each.account: [] for each in due}
        placed = {each.account: each.domains for each in due if each.domains is not None}
        pages = self._client.pages(resources.PODS, namespace, field_selector=RUNNING, limit=AT_ONCE)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for raw in page["items"]:
                    try:
                        pod = self.pods.lean(raw)
                    except Exception as error:
                        log.warning("pod skipped: not readable", error=repr(error))
                        continue
                    live = self.pods.get(pod.uid)
                    account, stray = self._attributed(pod, live) or (None, False)
                    if live is not None and isinstance(live.charge, Charge):
                        before = live.charge.counted.account
                        if before in found and before != account:  # the next sweep would come late
                            self._again(live)
                    if account in found:
                        domains = self._domains_of(raw, placed[account]) if account in placed else None
                        found[account].append(Charged(pod, stray, domains))
                await asyncio.sleep(0)
        took, acted = self.clock() - began, set()
        for counted in due:
            now, workloads = self.clock(), self._workloads(counted.account)
            counted.grant = None
            verdict = judge(
                found[counted.account],
                self._grant(counted, now),
                workloads,
                now,
                budget=self._budget(counted, now),
                current=counted.grant,
                terminating_seconds=self.settings.guard.terminating_seconds,
                accounting=self._accounting(workloads),
                domains=placed.get(counted.account) if counted.outside else None,
            )
            counted.outside = counted.outside and verdict is not None
            if verdict is not None and self._ends(namespace):
                verdict = replace(verdict, evict=(), delete=())
            if verdict is None:
                continue
            if counted.done:
                verdict = replace(verdict, sentence=f"{verdict.sentence}; {ENDED}")
            try:
                if await self._act(counted, verdict, workloads):
                    acted.add(counted.account)
            except ApiError as error:  # the other accounts of the namespace do not wait for it
                log.warning("pods without quota were not stopped", account="/".join(counted.account), error=str(error))
                acted.add(counted.account)
        return acted, took

    def _domains_of(self, pod: Raw, has: GrantedDomains) -> tuple[DomainKey, ...] | None:
        """The domains in which a pod may count; None if its node is not known, not ready, or gone, or if the pod ran
        there before a taint for which its domain is replaced at once.
        """
        spec = pod["spec"]
        node, rules = self._working(spec["nodeName"]), self.settings.node_failures
        if node is None:
            return None
        at_once = rules is not None and rules.on_taints and not rules.on_termination
        if at_once and untolerated(node.taints, decode.placement(spec).tolerations):
            return None
        return has.of(node.labels, spec.get("nodeSelector") or {})

    def _working(self, name: str) -> Node | None:
        """A node; None also while it is not ready: with some feature gates the domains of its pods are replaced before
        Kubernetes deletes them.
        """
        node = self.caches.nodes.get(("", name))
        return None if node is None or node.unready_since else node

    def _ends(self, namespace: str) -> bool:
        """Whether a namespace is being deleted: its pods too, in no order with their jobs and Workloads."""
        raw = self.caches.namespaces.get(Key("", namespace))
        return raw is None or meta.deleting(raw)

    def _containers(self, workloads: Iterable[Workload]) -> frozenset[str]:
        """The names of the containers in the templates of these Workloads."""
        raws = (self.caches.workloads.get(each.key) for each in workloads)
        specs = (
            (pod_set.get("template") or {}).get("spec") or {}
            for raw in raws
            if raw is not None
            for pod_set in raw["spec"].get("podSets") or ()
        )
        kinds = ("containers", "initContainers")
        return frozenset(str(each["name"]) for spec in specs for kind in kinds for each in spec.get(kind) or ())

    async def _act(self, counted: CountedPods, verdict: GuardVerdict, workloads: Iterable[Workload]) -> bool:
        """Stops what exceeds; returns whether anything was left to do. A grace period is ended once."""
        now = self.clock()
        if not self.settings.guard.evicts:
            counted.acts = PATIENT_ACTS
            if now - counted.reported >= REPORTED_SECONDS:
                counted.reported = now
                self.did["reported_jobs"] += 1
                self._report(verdict, workloads)
            return True
        end = [pod for pod in verdict.end if pod.uid not in counted.ended]
        if not (verdict.evict or verdict.delete or end):
            return False
        log.warning("pods run without quota", account="/".join(counted.account), what=verdict.sentence)
        for value in workloads:
            if value.key in verdict.evict:
                await self._evict(value, verdict.sentence)
        entitled = bool(self._size(counted, now).pods)
        if entitled and verdict.delete and not counted.reserved.pods and now >= self._leaves_at(counted):
            self._left_pods_at[counted.account.namespace, counted.kind] = now
        stopped = (*verdict.delete, *end)[:AT_ONCE]
        counted.ended.update(pod.uid for pod in stopped if pod.deleted or not entitled)
        for first in range(0, len(stopped), DELETES_AT_ONCE):
            some = stopped[first : first + DELETES_AT_ONCE]
            await asyncio.gather(*(self._delete(pod, verdict.sentence, entitled=entitled) for pod in some))
        return True

    def _report(self, verdict: GuardVerdict, workloads: Iterable[Workload]) -> None:
        event = events.without_quota(verdict.sentence)
        log.warning("pods run without quota, and are left", what=verdict.sentence)
        for value in workloads:
            if value.key in verdict.evict:
                self.recorder.record(resources.WORKLOADS, value.key, value.uid, event)
        for pod in (*verdict.delete, *verdict.end)[:AT_ONCE]:
            self.recorder.record(resources.PODS, pod.key, pod.uid, event)

    async def _evict(self, value: Workload, sentence: str) -> None:
        """Evicts a Workload as it is in its turn, if it still has quota; each time it stays out of its queue for
        longer.
        """
        reason = names.EvictedReason.PODS_WITHOUT_QUOTA
        async with self.writer.turn(value.key.namespace, first=True):
            current = self.caches.get(value.key)
            if current is None or current.uid != value.uid or not holds(current) or evicted_at(current):
                return
            patch = status_patch(current, transitions.without_quota(current, sentence, self.clock()))
            if patch is None:
                return
            with contextlib.suppress(NotFound):
                await self.writer.patch(resources.WORKLOADS, value.key, patch, subresource="status")
        self.did["evicted_workloads"] += 1
        self.recorder.record(resources.WORKLOADS, value.key, value.uid, events.evicted(reason, sentence))
        log.info("workload evicted", workload=str(value.key), reason=reason)

    async def _delete(self, pod: RunningPod, sentence: str, *, entitled: bool) -> None:
        """Deletes a pod, or ends the grace period of one that terminates. One whose job has no quota, and had none a
        moment ago, has no grace period: what creates it again would else run it for that long again and again.
        """
        grace = 1 if pod.deleted or not entitled else None
        with contextlib.suppress(NotFound, Conflict, Unauthorized, Forbidden):  # the writer reports missing rights
            async with self.writer.turn(pod.kin.namespace, first=True):
                await self.writer.delete(resources.PODS, pod.key, pod.uid, grace=grace)
            self.did["ended_pods" if pod.deleted else "deleted_pods"] += 1
            self.recorder.record(resources.PODS, pod.key, pod.uid, events.without_quota(sentence))


def account_of(raw: Raw) -> QuotaHolder:
    """The account of a Workload: its job's, or its own where its pods are a group."""
    metadata = raw["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    grouped = annotations.get(names.Annotation.IS_GROUP_WORKLOAD) == "true"
    uid = "" if grouped or annotations.get(names.Annotation.JOB_OWNER_NAME) else labels.get(names.Label.JOB_UID, "")
    return QuotaHolder(metadata["namespace"], uid or f"workload/{metadata['name']}")


def _account(value: Workload) -> QuotaHolder:
    """As ``account_of``, of a Workload that was decoded."""
    grouped = bool(value.made_for) or (value.owner is not None and value.owner.name.startswith(GROUP))
    uid = "" if grouped else value.job_uid
    return QuotaHolder(value.key.namespace, uid or f"workload/{value.key.name}")


def _add(shapes: Counter[PodShape], shape: PodShape, sign: int) -> None:
    """Counts a pod, or one less; nothing is kept of shapes of which there are none."""
    shapes[shape] += sign
    if not shapes[shape]:
        del shapes[shape]


def _same(old: RunningPod, new: RunningPod) -> bool:
    """Whether nothing changed that the guard depends on."""
    return old.kin is new.kin and old.shape is new.shape and (old.deleted, old.ends) == (new.deleted, new.ends)
