"""The parts of the process and their connections: the only module that knows certificates, hooks and controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Protocol

import structlog
from prometheus_client.core import Metric
from starlette.types import Scope

from api.crds import CONVERSION_PATH
from api.objects import Key, Raw, Resource
from app.access import Access, Reviews
from app.application import METRICS, Application, metrics_page
from app.cluster import Aggregated, Charted, Converted, Installed, SecretStore
from app.collector import reading, sweep
from app.connection import CLIENT
from app.edits import Edit
from app.identity import pod_of, take_name, user_info
from app.internals import of_certificates
from app.limits import check_client
from app.metrics import ProcessMetrics
from app.page.served import ServedPage, Shown, served_page
from app.probes import Heartbeat, dial, probe, remembered
from app.published import Published
from app.reports import Reports
from app.server import Address, Listener, Server
from app.setup import Setup
from app.standing import forecasts_of
from app.tasks import Tasks
from app.verdicts import Verdicts
from app.visibility import Visibility
from app.watchdog import Watchdog
from certs.directory import DirectoryStore
from certs.keeper import Keeper
from certs.live import LiveContext
from certs.mounted import MountedFiles
from certs.pki import CertificateError
from certs.store import BundleTarget
from controller.history.history import HistoryReader
from controller.kube.client import Client
from controller.kube.errors import ApiError, Unintelligible, Unreachable
from controller.kube.events import EventSender, ObjectReference
from controller.kube.flow.throttle import Throttle
from core.forecast.basis import Basis
from core.state.lookup import Lookup
from operations.install import NotEstablishedError, await_admission, install_definitions
from operations.objects import MUTATING, VALIDATING
from operations.policies import LABELS, install_policies
from webhook.backstop import guards
from webhook.configurations import HookOptions as HookOptions
from webhook.configurations import mutating, validating
from webhook.conversion import convert
from webhook.routes import routes
from webhook.settings import Context, ControllerAccount

log = structlog.get_logger("seiretsu")

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 10.0
LONGEST_UNREACHABLE_SECONDS = 1.0
"""A refused connection costs the API server nothing, and it is noticed sooner that it is back."""
PAGE_REVIEWS_PER_SECOND, PAGE_REVIEWS_AT_ONCE = 50.0, 200
"""A viewer of the page has half a dozen rights, and all viewers come back together after a restart."""
HOPELESS = (400, 401, 405, 406, 413, 415, 422)
"""Answers of the API server to a request that will never succeed: credentials that it does not accept, an invalid
object. All others may change soon: rights that are granted (403), a namespace or a kind that is created (404), another
writer (409).
"""


class ControllerInterface(Protocol):
    """The interface of the controller."""

    @property
    def client(self) -> Client:
        """The client that it writes with."""

    @property
    def lookup(self) -> Lookup:
        """The caches, as admission reads them."""

    @property
    def basis(self) -> Basis | None:
        """What a forecast for a question of its own is made from; None if nothing is forecast."""

    @property
    def workload(self) -> Callable[[Key], Raw | None]:
        """Returns a Workload from the caches."""

    @property
    def synced(self) -> bool:
        """Every cache has been read once."""

    @property
    def complaint(self) -> str:
        """What prevents it from writing, as a sentence; empty if nothing does."""

    async def run(self) -> None:
        """Watch, schedule and write until cancelled. Returning or raising ends the process."""


class Composition:
    """One process: `start()` starts everything, `stop()` ends it; `tasks` owns the background tasks."""

    def __init__(
        self,
        setup: Setup,
        client: Client,
        controller: ControllerInterface,
        metrics: ProcessMetrics | None = None,
        shown: Shown | None = None,
    ) -> None:
        """``shown`` is what the page shows; without it there is none."""
        self.setup = setup
        self.client = client
        self.controller = controller
        self.tasks = Tasks()
        self.metrics = metrics or ProcessMetrics()
        self.account = ControllerAccount()
        self._enforced = False
        self.recorder = EventSender(client)
        self._pod: ObjectReference | None = None
        self.heartbeat = Heartbeat(self.metrics)
        self.watchdog = Watchdog(self.heartbeat.late)
        self.live = LiveContext(minimum=setup.tls_minimum, ciphers=setup.tls_ciphers, client_ca=setup.client_ca)
        self.certificates = self._certificates()
        self.converted = Converted(client, lambda: self._conversion(b""))
        self.metrics.sources.append(self._families)
        self.published = self._published_configurations()
        kept = self.setup.controller.history
        self.history = HistoryReader(kept) if kept is not None else None
        self.visibility = self._visibility()
        self.page = self._page(shown)
        own = [served.listener for served in (self.page,) if served is not None]
        self.server = Server([*self._listeners(), *([self.visibility[1]] if self.visibility else []), *own])

    @property
    def bound(self) -> Address:
        """The address of the main port, when it is open."""
        found = self.server.listeners[0].bound
        assert found is not None, "the port is asked for before it is open"
        return found

    async def start(self) -> None:
        """Bring everything up, in order; returns when the process serves and the caches are read."""
        self.tasks.start("event loop", self.heartbeat.run())
        self.watchdog.start()
        self.metrics.pauses.start()
        await persistently("reading the certificates", self.certificates.tick)
        if isinstance(self.certificates, Keeper):
            self.certificates.add_target(self._target())
            self.certificates.add_target(self.converted)
            if self.visibility and not self.setup.install:
                self.certificates.add_target(Aggregated(self.client))
        await self.server.start()
        others = [str(listener.bound) for listener in self.server.listeners[1:]]
        log.info("Listening", address=str(self.bound), **({"others": others} if others else {}))
        if self.setup.install:
            await persistently("installing the CRDs", self._define)
            await persistently("taking a name", lambda: take_name(self.controller.client))
        await persistently("asking for our user name", self._learn_account)
        if self.setup.install:
            await persistently("installing the admission policies", self._install_policies)
        await persistently("publishing the CA bundle", self._publish)
        if self.setup.install:
            await await_admission(self.client)
        self.tasks.start("certificates", self.certificates.run())
        self.tasks.start("webhook configurations", self.published.run())
        if isinstance(self.certificates, Keeper):
            self.tasks.start("conversion webhooks", self.converted.follow(self.certificates.wake))
        if self.visibility:
            self.tasks.start("visibility", self.visibility[0].run(self._trust_front_proxy))
        if self.page:
            self.tasks.start("page", self.page.hub.run())
        self.tasks.start("events", self.recorder.run())
        with reading():
            self.tasks.start("controller", self.controller.run())
            while not self.controller.synced:  # noqa: ASYNC110 - many caches, none of which knows that it is the last
                await asyncio.sleep(0.02)
        self.tasks.start("collector", sweep(lambda: self.controller.client.precedence.free))

    def report(self, edit: Edit) -> None:
        """Records an event on the pod of this process, if it runs in one."""
        if self._pod is not None:
            self.recorder.record(self._pod, edit.type, edit.reason, edit.message, component="seiretsu")

    async def stop(self) -> list[str]:
        """Accepts no more work, answers the calls in progress, ends; returns the names of tasks that do not stop."""
        self.server.draining = True
        if self.page:
            self.page.hub.close()
        self.watchdog.stop()
        self.metrics.pauses.stop()
        leaving = self.tasks.stop("controller", seconds=self.setup.farewell.total)
        stuck, _ = await asyncio.gather(leaving, self.server.stop(self.setup.farewell))
        return [*stuck, *await self.tasks.stop(seconds=0.5)]

    def _certificates(self) -> Keeper | MountedFiles:
        clock = self.client.clock.now
        if self.setup.mounted and self.setup.cert_dir is not None:
            return MountedFiles(self.setup.cert_dir, self.live, self.setup.names[0], clock=clock)
        if self.setup.cert_dir is not None:
            return Keeper(DirectoryStore(self.setup.cert_dir), self.live, self.setup.names, clock=clock)
        store = SecretStore(self.client, self.setup.secret, self.setup.namespace)
        return Keeper(store, self.live, self.setup.names, clock=clock)

    async def _define(self) -> None:
        await install_definitions(self.client, self._conversion(self.certificates.bundle))

    def _conversion(self, bundle: bytes) -> Raw:
        return self.setup.endpoint(self.bound).client_config(CONVERSION_PATH, bundle)

    async def _learn_account(self) -> None:
        client = self.controller.client
        shared = self.setup.install and not client.impersonate
        user = await user_info(client)
        self.account = ControllerAccount(str(user.get("username", "")), shared=shared)
        self._pod = pod_of(user, self.setup.namespace)

    async def _install_policies(self) -> None:
        options = HookOptions(
            settings=self.setup.settings, name=self.setup.configuration_prefix, labels=LABELS, account=self.account
        )
        # While its account is not known, policies would refuse the controller's own writes.
        self._enforced = await install_policies(self.client, guards(options) if self.account.name else ())

    async def _publish(self) -> None:
        if isinstance(self.certificates, Keeper):
            await self.certificates.tick()
        elif self.setup.install:
            await self._target().publish(self.certificates.bundle)

    def _families(self) -> Iterator[Metric | None]:
        return of_certificates(self.live, self.certificates if isinstance(self.certificates, Keeper) else None)

    def _target(self) -> BundleTarget:
        if self.setup.install:
            return Installed(self.client, self._configurations)
        return Charted(self.client, self._configuration_names())

    def _configuration_names(self) -> dict[Resource, str]:
        prefix, suffix = self.setup.configuration_prefix, "webhook-configuration"
        return {MUTATING: f"{prefix}-mutating-{suffix}", VALIDATING: f"{prefix}-validating-{suffix}"}

    def _published_configurations(self) -> Published:
        certificates = self.certificates
        return Published(
            self.client,
            self._configuration_names(),
            self.live,
            self.setup.names[0],
            clock=self.client.clock.now,
            required=self.setup.install,
            spoiled=certificates.wake if isinstance(certificates, Keeper) else lambda: None,
        )

    def _configurations(self, bundle: bytes) -> list[Raw]:
        options = HookOptions(
            settings=replace(self.setup.settings, policies=self._enforced),
            endpoint=self.setup.endpoint(self.bound),
            ca_bundle=bundle,
            name=self.setup.configuration_prefix,
            account=self.account,
        )
        return [mutating(options), validating(options)]

    def _listeners(self) -> list[Listener]:
        context = Context(
            self.setup.settings, self.controller.lookup, account=lambda: self.account, basis=self.controller.basis
        )
        hooks = routes(context, Verdicts(self.metrics.registry))
        ready = f"/{self.setup.readiness}"
        probes = [
            probe(f"/{self.setup.liveness}", {"event-loop": self.heartbeat.check}),
            probe(ready, {"tls": remembered(self._tls), "ca-bundle": self._trusted, "shutdown": self._serving}),
            probe(f"{ready}/controller", {"caches": self._synced, "writes": self._allowed}),
        ]
        exposed = [metrics_page(self.metrics)]
        own_ports = [(self.setup.health, probes), (self.setup.metrics, exposed)]
        main = [*probes, *(exposed if self.setup.install else [])]
        access = Access(Reviews(self.client), METRICS)
        guarded = {} if self.setup.bind.local else {METRICS: access}
        routed = {**hooks, CONVERSION_PATH: convert}
        app = Application(routed, main, self.metrics, guarded=guarded, client=self._client, called=self._called)
        found = [Listener(app, self.setup.bind, self.live.context)]
        for address in dict.fromkeys(address for address, _ in own_ports if address is not None):
            served = [route for wanted, pages in own_ports if wanted == address for route in pages]
            if address.local or address != self.setup.metrics:
                found.append(Listener(Application({}, served, self.metrics), address))
            else:
                app = Application({}, served, self.metrics, guarded={METRICS: access})
                found.append(Listener(app, address, self.live.context))
        return found

    def _visibility(self) -> tuple[Visibility, Listener] | None:
        """Returns the server of the visibility API, and where it listens."""
        if self.setup.visibility is None:
            return None
        lookup = self.controller.lookup
        reports = Reports(self.history, self.setup.controller.recorder)
        forecast = forecasts_of(lookup)
        served = Visibility(self.client, lookup, self.controller.workload, forecast=forecast, reports=reports)
        return served, Listener(served, self.setup.visibility, self.live.for_clients_of(b""))

    def _page(self, shown: Shown | None) -> ServedPage | None:
        """Returns the page, and where it listens: without TLS only on this machine."""
        if self.setup.ui is None or shown is None:
            return None
        authority = self.setup.ui_proxy.ca
        return served_page(
            shown,
            self.controller.lookup,
            self.client,
            Reviews(self.client, throttle=Throttle(PAGE_REVIEWS_PER_SECOND, PAGE_REVIEWS_AT_ONCE)),
            self.setup.ui,
            None if self.setup.ui.local and not authority else self.live.for_clients_of(authority),
            self.setup.ui_proxy,
            self.history,
        )

    def _trust_front_proxy(self, authority: bytes) -> None:
        assert self.visibility is not None
        self.visibility[1].tls = self.live.for_clients_of(authority)

    def _client(self, scope: Scope) -> None:
        # The API server has no certificate for conversions, which also depend on nothing but the objects in the call.
        if self.setup.client_ca and scope["path"] != CONVERSION_PATH:
            check_client(scope["state"].get(CLIENT), self.setup.client_names)

    def _called(self, path: str) -> None:
        if path != CONVERSION_PATH:  # those are caused by the process's own writes, too
            self.controller.client.precedence.called()

    async def _tls(self) -> str:
        if self.live.pair is not None:
            served, now = self.live.pair.certificate, self.client.clock.now()
            if not served.valid_at(now):
                return f"the serving certificate is valid from {served.not_before} to {served.not_after}, it is {now}"
        return await dial(self.bound, self.certificates.bundle, self.setup.names[0])

    async def _trusted(self) -> str:
        if isinstance(self.certificates, Keeper) and not self.certificates.published:
            return "the webhook configurations do not carry our CA bundle"
        return self.published.complaint() if self.published.known else ""

    async def _serving(self) -> str:
        return "shutting down" if self.server.draining else ""

    async def _allowed(self) -> str:
        return self.controller.complaint

    async def _synced(self) -> str:
        return "" if self.controller.synced else "the caches have not been read yet"


async def persistently(
    what: str,
    attempt: Callable[[], Awaitable[object]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Repeats a call, after waits that double, until it succeeds. Raises only what is ``HOPELESS``.

    A process that ended at the first refusal would be restarted by a supervisor that waits longer each time.
    """
    logged, wait = "", FIRST_WAIT_SECONDS
    while True:
        try:
            await attempt()
            return
        except (ApiError, CertificateError, NotEstablishedError) as error:
            if isinstance(error, ApiError) and not isinstance(error, Unintelligible) and error.status in HOPELESS:
                raise
            away = isinstance(error, ApiError) and (isinstance(error, Unreachable) or error.status >= 500)
            if str(error) != logged:
                event = "The API server does not answer, trying again" if away else "Refused, trying again"
                log.warning(event, doing=what, error=str(error))
                logged = str(error)
        await sleep(wait)
        wait = min(2 * wait, LONGEST_UNREACHABLE_SECONDS if away else LONGEST_WAIT_SECONDS)
