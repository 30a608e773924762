"""The controller: caches that follow the API server, and, on the leader, all reconcilers.

Every replica updates its caches (admission uses them); only the leader decides and writes. Before its first cycle a new
leader lists everything that decisions depend on again, with a quorum read: the last admissions of the old leader must
not be missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial

import structlog
from prometheus_client import CollectorRegistry

from api import resources
from api.metrics import families
from api.metrics.custom_labels import CustomLabels
from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.cache.events import PROVISIONING, SCHEDULER, VARIANTS, WORKLOADS, Events, job_component
from controller.cache.lookup import cache_lookup
from controller.cache.owners import Owners
from controller.cache.sweeps import Sweeps
from controller.cache.writes import Writer
from controller.forecasts.forecasts import Forecasts
from controller.forecasts.remembered import RememberedRunTimes
from controller.history.history import History
from controller.history.recorder import CycleRecorder
from controller.kube.client import Client
from controller.kube.elector import Durations, Elector
from controller.kube.errors import ApiError
from controller.kube.events import EventSender
from controller.kube.flow.budget import Budget
from controller.kube.reflector import Reflector
from controller.kube.store import NOTIFIED_AT_ONCE
from controller.metrics.counters import QueueingMetrics
from controller.metrics.gauges import Gauges
from controller.metrics.series import Series
from controller.multikueue.workloads import MultiKueueController
from controller.notifications.notifications import Notifications
from controller.reconcilers.failure_recovery import FailureRecovery
from controller.reconcilers.guard import PodGuard
from controller.reconcilers.jobs import JobReconciler
from controller.reconcilers.living import FollowedPods, living_pods
from controller.reconcilers.managed import Managed
from controller.reconcilers.mirror import QueueMirror
from controller.reconcilers.node_failures import NodeFailures
from controller.reconcilers.not_running import NotRunning
from controller.reconcilers.pod_owners import PodOwnerReconciler
from controller.reconcilers.population import Population
from controller.reconcilers.provisioning import Provisioning
from controller.reconcilers.queues import QueueStatuses
from controller.reconcilers.time_sharing import TimeSharing
from controller.reconcilers.topology import TopologyNodes
from controller.reconcilers.topology_ungater import TopologyUngater
from controller.reconcilers.variants import Variants
from controller.reconcilers.workloads import WorkloadReconciler
from controller.run.dispatch import Dispatcher
from controller.run.watched import Watched, dispatch_of, rows
from controller.scheduling.scheduler import Scheduler
from controller.scheduling.usage import UsageSampler
from controller.scheduling.waiting import WaitEvents
from controller.settings import ControllerSettings
from core.forecast.basis import Basis
from core.jobs.external import External
from core.jobs.kinds import enabled_kinds
from core.jobs.pod_owners import GROUP_OWNERS
from core.matching.placement import matches
from core.model import Key
from core.quota.tree import above
from core.state.lookup import Lookup
from core.state.state import State
from core.topology.health import FailureRules

log = structlog.get_logger(__name__)

FEW_EVENTS = 20
"""Events about waiting Jobs are emitted only while fewer events of their namespace than this wait to be sent."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 2.0
AGAIN_SECONDS = 30.0
"""After this time Workloads are decoded again for which that failed."""


class LeadershipLostError(Exception):
    """Another replica leads now; the data of this process is no longer current, so it must end."""


class Controller:
    """Everything that communicates with the API server. ``run`` it in one task, once.

    ``synced`` is true when the caches are complete; ``lookup`` answers admission from then on, ``workload`` has the
    Workloads as they are. ``reflectors``,
    ``client.requests`` and ``scheduler.cycles`` are for metrics.
    """

    def __init__(
        self, client: Client, settings: ControllerSettings | None = None, registry: CollectorRegistry | None = None
    ) -> None:
        self.client = client
        self.settings = settings or ControllerSettings()
        self.synced = False
        self.leading = asyncio.Event()
        kinds = enabled_kinds(self.settings.frameworks)
        owners = [each for each in GROUP_OWNERS if each.framework in self.settings.frameworks]
        own = rows(kinds, owners)
        externals = self._externals(own)
        self._rows = rows(kinds, owners, externals)
        registry = registry or CollectorRegistry()
        recorded = self.settings.recorder
        self.recorder = CycleRecorder(recorded, registry) if recorded is not None else None
        policy = self.settings.policy
        state = State(policy) if self.recorder is None else self.recorder.state(policy)
        self.caches = Caches(state, self._rows, self.settings.reading)
        self.sweeps = Sweeps()
        self.caches.in_steps = self.sweeps.add
        self.caches.later = lambda call: asyncio.get_running_loop().call_later(AGAIN_SECONDS, call)
        self.owners = Owners(self.caches, client, external=bool(self.settings.external_frameworks))
        self.lookup: Lookup = cache_lookup(
            self.caches,
            self.owners,
            lambda check: self.multikueue.surveys(check),  # noqa: PLW0108 - it is made later
        )
        self.workload: Callable[[Key], Raw | None] = self.caches.workloads.get
        hidden = self.settings.hidden_metrics
        self.metrics = QueueingMetrics(
            registry,
            role=self._role,
            local_queues=self._shows,
            cohorts=self._cohorts,
            custom=CustomLabels(self.settings.custom_labels, self._object),
            hidden=hidden,
        )
        self.gauges = Gauges(
            self.caches,
            self.metrics,
            resources=self.settings.queue_resources,
            version=importlib.metadata.version("seiretsu"),
            hidden=hidden,
        )
        self._series = Series(self.caches, self.metrics)
        features = self.settings.features
        followed = [row for row in self._rows if row.feature is None or row.feature in features]
        for row in self._rows:
            if row not in followed:  # known to be empty: nothing waits for its first list
                self.caches.stores[row.resource].replace([], "")
        self.reflectors = [
            Reflector(
                client,
                row.resource,
                self.caches.stores[row.resource],
                label_selector=row.selector,
                optional=row.optional,
                on_served=partial(self._served, row.resource),
            )
            for row in followed
        ]
        self.budget = Budget(client.pressure, crowded=lambda: client.precedence.crowded)
        self._recorder = EventSender(client, budget=self.budget)
        writer = Writer(client, self.caches.stores)
        self._writer = writer
        self.scheduler = Scheduler(
            self.caches,
            writer,
            Events(self._recorder, SCHEDULER),
            self.metrics,
            follow_pods=self.settings.wait_for_pods_ready,
            budget=self.budget,
        )
        self.caches.read_again = self.scheduler.wake
        self.budget.urgent = lambda: self.scheduler.urgent
        recorder = Events(self._recorder, WORKLOADS)
        self.workloads = WorkloadReconciler(self.caches, writer, recorder, self.settings)
        self.multikueue = MultiKueueController(
            self.caches, writer, client, recorder, self.metrics, self.settings, externals=externals
        )
        recorder = Events(self._recorder, PROVISIONING)
        self.provisioning = Provisioning(self.caches, writer, recorder, self.settings)
        longest = self.settings.copied.longest_name
        self.variants = Variants(self.caches, writer, Events(self._recorder, VARIANTS), longest_name=longest)
        self.queues = QueueStatuses(self.caches, writer, budget=self.budget)
        self.mirror = QueueMirror(self.caches, writer)
        self.jobs = [
            JobReconciler(
                kind,
                self.caches,
                writer,
                Events(self._recorder, job_component(kind.framework)),
                self.metrics,
                self.settings,
                budget=self.budget,
                owners=self.owners,
            )
            for kind in kinds
        ]
        people = Events(self._recorder, SCHEDULER)
        self.waiting = WaitEvents(self.caches, people, kinds, room=self._room)
        self.not_running = NotRunning(self.caches, writer, people, kinds)
        self.pods = living_pods(self.settings.reading)
        self._followed_pods = FollowedPods(self.pods, client)
        self.topology = TopologyNodes(
            self.caches,
            self.pods,
            follow=partial(self._followed_pods.want, "topology"),
            wake=self.scheduler.wake,
        )
        self.scheduler.entering = self.topology.flush
        self.guard: PodGuard | None = None
        if self.settings.guard.enabled:
            of_pods = Managed(self.caches, self.settings, self.owners)
            people = Events(self._recorder, WORKLOADS)
            self.guard = PodGuard(self.caches, writer, client, of_pods, people, self.settings, pods=self.pods)
        self.failure_recovery: FailureRecovery | None = None
        if self.settings.recovers_from_failures:
            people = Events(self._recorder, WORKLOADS)
            self.failure_recovery = FailureRecovery(self.caches, writer, client, people)
        self.usage = UsageSampler(self.caches, writer, self.scheduler.wake)
        self.time_sharing: TimeSharing | None = None
        if (shared := self.settings.time_sharing) is not None:
            self.time_sharing = TimeSharing(self.caches, writer, Events(self._recorder, WORKLOADS), shared)
        self.population: Population | None = None
        if (wanted := self.settings.population) is not None:
            people = Events(self._recorder, WORKLOADS)
            self.population = Population(self.caches, writer, people, wanted, own_namespace=self.settings.namespace)
        self.forecasts: Forecasts | None = None
        self.basis: Basis | None = None
        self.run_times: RememberedRunTimes | None = None
        if self.settings.forecasts:
            self.forecasts = forecasts = Forecasts(
                self.caches, self.settings.life, registry, arrivals=self.settings.expects_arrivals
            )
            self.basis = forecasts.basis
            self.lookup = dataclasses.replace(
                self.lookup, forecast=forecasts.of, newcomer_forecast=forecasts.of_newcomer
            )
            if self.settings.remembers_run_times:
                self.run_times = RememberedRunTimes(client, writer, forecasts, self.caches, self.settings.namespace)
        kept = self.settings.history
        self.history = History(self.caches, kept, registry) if kept is not None else None
        notifying = self.settings.notifications
        self.notifications: Notifications | None = None
        if notifying.recipients:
            self.notifications = Notifications(
                self.caches, notifying.recipients, notifying.policy, notifying.source, registry
            )
        self.pod_owners = [
            PodOwnerReconciler(
                each,
                self.caches,
                writer,
                Events(self._recorder, job_component(each.framework)),
                self.settings,
                owners=self.owners,
            )
            for each in owners
        ]
        self._dispatcher = Dispatcher(
            self.caches,
            self.scheduler,
            self.workloads,
            self.queues,
            self.jobs,
            self.mirror,
            self.pod_owners,
            self.owners,
            self.multikueue if self.settings.multikueue.enabled else None,
            self.provisioning,
        )
        self.scheduler.taken_back = self._dispatcher.taken_back

    def _externals(self, own: Iterable[Watched]) -> list[External]:
        """The kinds of other vendors that may run in worker clusters, without those that are queued here or of which
        queued jobs consist: such objects are followed as what they are here.
        """
        followed = {(row.resource.group, row.resource.kind) for row in own}
        multikueue = self.settings.multikueue
        found = [External(name) for name in (multikueue.externals if multikueue.enabled else ())]
        for each in found:
            if (each.group, each.kind) in followed:
                log.warning("multiKueue.externalFrameworks: left out, it is followed already", kind=each.kind)
        return [each for each in found if (each.group, each.kind) not in followed]

    @property
    def complaint(self) -> str:
        """Returns which writes the API server denies, as a sentence; empty if none."""
        return "; ".join(f"the API server denies us to {what}: {why}" for what, why in self._writer.refused.items())

    async def run(self) -> None:
        """Follows the API server and, when leading, reconciles until cancelled; raises when leadership is lost or a
        part fails.
        """
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"reflector-{reflector.resource.plural}")
            group.create_task(self.owners.run(), name="owners")
            group.create_task(self.sweeps.run(), name="sweeps")
            group.create_task(self._followed_pods.run(), name="reflector-living-pods")
            await self._sync()
            nodes = next(each for each in self.reflectors if each.resource == resources.NODES)
            group.create_task(self.topology.run(nodes, self._followed_pods), name="topology-nodes")
            await self.topology.complete()
            if self.settings.multikueue.enabled:
                group.create_task(self.multikueue.clusters.run(), name="worker-clusters")
            if self.forecasts is not None:
                group.create_task(self._forecast(self.forecasts), name="forecasts")
            async with self._leadership():
                await self._lead()

    async def _sync(self) -> None:
        """Waits for every first list. A kind that is not served yet is waited for unless it is optional: it may be
        installed soon.
        """
        for reflector in self.reflectors:
            if not self.caches.rows[reflector.resource].awaited:
                continue
            try:
                async with asyncio.timeout(5):
                    await reflector.synced.wait()
            except TimeoutError:
                log.warning("waiting for the first list", resource=reflector.resource.plural)
                await reflector.synced.wait()
        for _ in self.caches.starting():
            await asyncio.sleep(0)  # webhooks have precedence
        self.synced = True
        log.info("caches synced", objects=sum(len(store) for store in self.caches.stores.values()))

    @contextlib.asynccontextmanager
    async def _leadership(self) -> AsyncIterator[None]:
        """Leads: immediately if no other replica may run, else with the lease, and with every write fenced by it."""
        wanted = self.settings.leader_election
        if wanted is None:
            self.leading.set()
            yield
            return
        durations = Durations(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period)
        elector = Elector(self.client.connection, namespace=wanted.namespace, name=wanted.name, durations=durations)
        self.client.may_write = elector.may_write
        async with elector, asyncio.TaskGroup() as group:
            watch = group.create_task(_lost(elector))
            await elector.elected.wait()
            await self._read_anew()
            self.leading.set()
            yield
            watch.cancel()

    async def _read_anew(self) -> None:
        """The last writes of the old leader may not have arrived by watch yet: lists them, and enters newer versions.

        If the API server does not answer (which may be why the old leader is gone), the list is repeated while the
        lease lasts.
        """
        for resource in (row.resource for row in self._rows if row.read_anew):
            wait = FIRST_WAIT_SECONDS
            while True:
                try:
                    await self._read(resource)
                    break
                except ApiError as error:
                    log.warning("not read before leading", resource=resource.plural, error=str(error))
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def _read(self, resource: Resource) -> None:
        store = self.caches.stores[resource]
        async for page in self.client.pages(resource):
            for place, raw in enumerate(page["items"], start=1):
                store.put_from_write(raw)
                if not place % NOTIFIED_AT_ONCE:
                    await asyncio.sleep(0)

    async def _lead(self) -> None:
        # Only now: the queues of a follower, which nothing empties, would grow with every change.
        self._series.connect()
        self._dispatcher.connect(dispatch_of(self._rows))
        self.owners.wake = self._dispatcher.jobs_below
        self.caches.caught_up = self._dispatcher.taken_back
        self.waiting.connect()
        self.not_running.connect()
        if self.settings.multikueue.enabled:
            self.multikueue.connect()
            for _ in self.multikueue.everything():
                await asyncio.sleep(0)
        self.provisioning.connect()
        for _ in self.provisioning.everything():
            await asyncio.sleep(0)
        for _ in self._dispatcher.everything():
            await asyncio.sleep(0)
        for each in (self.waiting, self.not_running):
            for _ in each.everything():
                await asyncio.sleep(0)
        more = {"time-sharing": self.time_sharing, "population": self.population, "notifications": self.notifications}
        wanted = {name: each for name, each in more.items() if each is not None}
        for part in wanted.values():
            part.connect()
            for _ in part.everything():
                await asyncio.sleep(0)
        if self.settings.policy.concurrent_admission:
            self.variants.connect()
            for _ in self.variants.everything():
                await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="events")
            group.create_task(self.scheduler.run(), name="scheduler")
            group.create_task(self.workloads.run(), name="workloads")
            group.create_task(self.queues.run(), name="queues")
            group.create_task(self.usage.run(), name="usage")
            if self.run_times is not None:
                group.create_task(self.run_times.run(), name="run-times")
            if self.recorder is not None:
                group.create_task(self.recorder.run(), name="recorder")
            if self.history is not None:
                group.create_task(self.history.run(), name="history")
            group.create_task(self.mirror.run(), name="queue-mirror")
            for name, part in wanted.items():
                group.create_task(part.run(), name=name)
            group.create_task(self.waiting.run(), name="waiting")
            group.create_task(self.not_running.run(), name="not-running")
            if self.guard is not None:
                self._followed_pods.want("guard", True)
                group.create_task(self.guard.run(), name="guard")
            group.create_task(self.provisioning.run(), name="provisioning")
            if self.settings.policy.concurrent_admission:
                group.create_task(self.variants.run(), name="variants")
            if self.settings.multikueue.enabled:
                group.create_task(self.multikueue.run(), name="multikueue")
            on = self.settings.policy.topology is not None
            ungating = self.topology.while_known(self._ungate) if on else self._ungater().run_for_placed()
            group.create_task(ungating, name="topology-ungater")
            if on and (rules := self.settings.node_failures) is not None:
                failing = self.topology.while_known(partial(self._follow_node_failures, rules))
                group.create_task(failing, name="node-failures")
            if self.failure_recovery is not None:
                self.failure_recovery.connect()
                group.create_task(self.failure_recovery.run(), name="failure-recovery")
            for owners in self.pod_owners:
                group.create_task(owners.run(), name=owners.resource.plural)
            for reconciler in self.jobs:
                group.create_task(reconciler.run(), name=f"jobs-{reconciler.kind.kind}")

    async def _forecast(self, forecasts: Forecasts) -> None:
        """Every replica forecasts, because every replica answers."""
        if self.run_times is not None:
            await self.run_times.read()
        forecasts.connect()
        await forecasts.run()

    def _ungater(self) -> TopologyUngater:
        return TopologyUngater(self.caches, self._writer, self.client, self.metrics)

    async def _ungate(self) -> None:
        await self._ungater().run()

    async def _follow_node_failures(self, rules: FailureRules) -> None:
        """To be begun when all nodes are known: another one would seem to be gone."""
        people = Events(self._recorder, WORKLOADS)
        await NodeFailures(self.caches, self._writer, self.client, people, self.pods, rules).run()

    def _served(self, resource: Resource, served: bool) -> None:
        """The API server serves an optional resource, or does not."""
        (self.caches.absent.discard if served else self.caches.absent.add)(resource)
        if resource == resources.PROVISIONING_REQUESTS and self.leading.is_set():
            self.caches.in_steps("provisioning", self.provisioning.everything)

    def _room(self, namespace: str) -> bool:
        return self._recorder.waiting_in(namespace) < FEW_EVENTS

    def _shows(self, key: Key) -> bool:
        """Whether there are series of this LocalQueue."""
        wanted = self.settings.local_queue_metrics
        raw = self.caches.local_queues.get(key)
        return wanted is not None and raw is not None and matches(wanted, raw["metadata"].get("labels") or {})

    def _cohorts(self, cluster_queue: str) -> list[str]:
        """The Cohorts above a ClusterQueue."""
        reservations = self.caches.state.reservations
        spec = reservations.cluster_queues.get(cluster_queue)
        return above(reservations.cohorts, spec.cohort) if spec is not None else []

    def _object(self, kind: str, key: Key) -> Raw | None:
        """Returns the object of a kind that labels of metrics may come from."""
        stores = {
            families.CLUSTER_QUEUE: self.caches.cluster_queues,
            families.COHORT: self.caches.cohorts,
            families.LOCAL_QUEUE: self.caches.local_queues,
            families.WORKLOAD: self.caches.workloads,
        }
        return stores[kind].get(key)

    def _role(self) -> str:
        if self.settings.leader_election is None:
            return "standalone"
        return "leader" if self.leading.is_set() else "follower"


async def _lost(elector: Elector) -> None:
    await elector.lost.wait()
    raise LeadershipLostError("the lease was lost: another replica leads")
