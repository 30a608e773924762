"""Workloads whose nodes are asked for with ProvisioningRequests: collects what is known of each, calls the rules
(``core.provisioning``), and applies one write. The AdmissionChecks get their condition Active here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import assert_never

import structlog

from api import names, resources
from api.names import PROVISIONING_REQUEST_CONTROLLER
from api.objects import Key, Raw, Resource, key_of
from controller.caches import Caches
from controller.events import Recorder
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from controller.kube.store import HEARD_AT_ONCE, Store
from controller.kube.workqueue import WorkQueue
from controller.refusals import Refusals
from controller.settings import Settings
from controller.writes import Writer
from core.jobs import meta
from core.model import CheckState, events
from core.model.owner import Owner
from core.provisioning import config, rules
from core.provisioning.config import Config
from core.provisioning.rules import Situation
from core.quota.checks import checks_of
from core.wire import active
from core.wire.active import decided_by, parameters_name

log = structlog.get_logger(__name__)

WORKERS = 5
REFUSALS = (AlreadyExists, Forbidden, Invalid, NotFound)
"""The answers of an API server that does not take an object."""
FAILURES = (400, 500)
"""The status of a webhook that denies without a code, or fails."""
AGAIN_SECONDS = 30.0
"""After this time a PodTemplate that could not be made is tried again."""

Written = rules.Update | rules.Adopt | rules.DeleteRequest | rules.DeleteTemplate
"""The actions that change what exists already."""


class Provisioning:
    """The controller of the AdmissionChecks with ``controllerName: kueue.x-k8s.io/provisioning-request``. ``run`` it
    while this process leads.
    """

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.clock = clock
        self.queue = WorkQueue[Key]("provisioning", longest_seconds=30.0)
        self.checks = WorkQueue[str]("provisioning-checks", longest_seconds=30.0)
        self._refusals = Refusals(clock)
        self._changed_checks: set[str] = set()
        self._enabled = settings.provisioning_requests
        self._cleans_up = settings.cleans_up_requests
        self._admission_checks = caches.stores[resources.ADMISSION_CHECKS]
        self._requests = caches.stores[resources.PROVISIONING_REQUESTS]
        self._templates = caches.stores[resources.POD_TEMPLATES]

    def connect(self) -> None:
        """Connects the listeners, after State and the dispatcher."""
        self.caches.workloads.listen(self._workload)
        self._admission_checks.listen(self._check)

    def everything(self) -> Iterator[None]:
        """Queues all objects: this process leads from now on, or whether requests are served has changed."""
        for raw in self._admission_checks:
            self.checks.add(raw["metadata"]["name"])
        yield from self._each(self._concerned)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._enabled:
                group.create_task(self.queue.run(WORKERS, self.reconcile))
            group.create_task(self.checks.run(1, self.reconcile_check))

    def reconfigured(self, name: str) -> None:
        """A ProvisioningRequestConfig changed: queues the checks that refer to it, and their Workloads."""
        for raw in self._admission_checks:
            if parameters_name(raw, names.Kind.PROVISIONING_REQUEST_CONFIG)[0] == name:
                self._check(None, raw)

    def _check(self, old: Raw | None, new: Raw | None) -> None:
        raw = new or old or {}
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            self.checks.add(raw["metadata"]["name"])
            return
        if any(each is not None and decided_by(each, PROVISIONING_REQUEST_CONTROLLER) for each in (old, new)):
            self.checks.add(raw["metadata"]["name"])
            if self._enabled:
                self._changed_checks.add(raw["metadata"]["name"])
                self.caches.in_steps("checks of provisioning", self._with_changed_checks)

    def _workload(self, old: Raw | None, new: Raw | None) -> None:
        if new is not None:
            self.look_at(key_of(new))
        elif old is not None:
            self._refusals.forget(key_of(old))

    def look_at(self, key: Key) -> None:
        """Queues a Workload if it is one of those whose nodes are asked for."""
        if self._concerned(key):
            self.queue.add(key)

    def _with_changed_checks(self) -> Iterator[None]:
        """Queues the Workloads with a check that changed: one walk for any number of checks."""
        checks, self._changed_checks = self._changed_checks, set()
        yield from self._each(partial(self._has, checks))

    def _each(self, selects: Callable[[Key], bool]) -> Iterator[None]:
        """Queues the Workloads that are selected."""
        for place, key in enumerate(self.caches.workloads.keys(), start=1):
            if selects(key):
                self.queue.add(key)
            if not place % HEARD_AT_ONCE:
                yield

    def _concerned(self, key: Key) -> bool:
        """Whether a Workload has a check of this controller, or requests or PodTemplates of one that it had."""
        if not self._enabled:
            return False
        stores = self._requests, self._templates
        return bool(self._states(key)) or any(self._owned(store, resources.WORKLOADS, key) for store in stores)

    def _has(self, checks: Collection[str], key: Key) -> bool:
        """Whether a Workload has one of these checks."""
        workload = self.caches.get(key)
        return workload is not None and any(each.name in checks for each in workload.checks)

    def _states(self, key: Key) -> list[CheckState]:
        """The states of the checks of a Workload that this controller decides."""
        workload, known = self.caches.get(key), self.caches.state.reservations.checks
        return checks_of(workload, known, PROVISIONING_REQUEST_CONTROLLER) if workload is not None else []

    async def reconcile_check(self, name: str) -> None:
        """Writes the condition Active of an AdmissionCheck."""
        raw = self._admission_checks.get(("", name))
        if raw is None or not decided_by(raw, PROVISIONING_REQUEST_CONTROLLER):
            return
        parameters = self.caches.parameters(raw, resources.PROVISIONING_REQUEST_CONFIGS)
        found = config.of_check(raw, parameters, served=self._served, enabled=self._enabled)
        patch = active.patch(raw, found, self.clock())
        if patch is not None:
            with contextlib.suppress(NotFound):
                await self.writer.patch(resources.ADMISSION_CHECKS, Key("", name), patch, subresource="status")

    async def reconcile(self, key: Key) -> float | None:
        """Makes the next write about a Workload. Returns when to look again, in seconds."""
        situation = self.situation(key)
        action = rules.decide(situation) if situation is not None else rules.Wait()
        if isinstance(action, rules.Wait):
            return action.seconds
        async with self.writer.turn(key.namespace, first=True):
            situation = self.situation(key)  # it may have changed while it waited
            return await self._apply(situation, rules.decide(situation)) if situation is not None else None

    async def _apply(self, s: Situation, action: rules.Action) -> float | None:
        key = s.workload.key
        log.debug("provisioning", workload=str(key), action=type(action).__name__)
        match action:
            case rules.Wait():
                return action.seconds
            case rules.CreateRequest():
                await self._create(s, resources.PROVISIONING_REQUESTS, action.manifest, action.check)
                message = f'Created ProvisioningRequest: "{action.manifest["metadata"]["name"]}"'
                self._tell(s, events.Event(events.NORMAL, names.Event.PROVISIONING_REQUEST_CREATED, message))
            case rules.CreateTemplate():
                await self._create(s, resources.POD_TEMPLATES, action.manifest, action.check)
            case rules.Impossible():
                if action.patch is None:
                    return AGAIN_SECONDS
                await self._report(s, action.message, action.patch)
            case _:
                with contextlib.suppress(NotFound):  # it was deleted meanwhile; the watch will report it
                    await self._write(s, action)
        return None

    async def _write(self, s: Situation, action: Written) -> None:
        match action:
            case rules.Update():
                await self.writer.patch(resources.WORKLOADS, s.workload.key, action.patch, subresource="status")
                for message in action.events:
                    self._tell(s, events.Event(events.NORMAL, names.Event.ADMISSION_CHECK_UPDATED, message))
            case rules.Adopt():
                await self.writer.patch(resources.POD_TEMPLATES, action.template, action.patch)
                self.queue.add(s.workload.key)
            case rules.DeleteRequest():
                await self._delete(resources.PROVISIONING_REQUESTS, action.request)
                self.queue.add(s.workload.key)
            case rules.DeleteTemplate():
                await self._delete(resources.POD_TEMPLATES, action.template)
                self.queue.add(s.workload.key)
            case _:
                assert_never(action)

    async def _create(self, s: Situation, resource: Resource, manifest: Raw, check: str) -> None:
        """Creates an object; a refusal is reported on the check, and tried again with backoff. Its message may have a
        port or an id that differs each time, and each report queues the Workload again.

        An object that exists but has not arrived by watch is not a refusal: a write of this process or of the one
        before was interrupted, and the object is used as soon as it arrives.
        """
        try:
            await self.writer.create(resource, manifest)
        except ApiError as error:
            if not isinstance(error, REFUSALS) and error.status not in FAILURES:
                raise
            key, name = s.workload.key, manifest["metadata"]["name"]
            known = self.caches.stores[resource].get((key.namespace, name)) is not None
            message = rules.refusal(resource.kind, name, error.message)
            if (known or not isinstance(error, AlreadyExists)) and (
                self._refusals.due(key, (resource.kind, name, error.status, error.reason))
                or not rules.is_reported(s, check, resource.kind, name)
            ):
                await self._report(s, message, rules.not_created(s, check, message))
            raise
        self._refusals.forget(s.workload.key)
        self.queue.add(s.workload.key)

    async def _report(self, s: Situation, message: str, patch: Raw | None) -> None:
        if patch is None:
            return
        self._tell(s, events.failed(names.Event.FAILED_CREATE, message))
        with contextlib.suppress(ApiError):  # what was refused is reported again when it is refused again
            await self.writer.patch(resources.WORKLOADS, s.workload.key, patch, subresource="status")

    async def _delete(self, resource: Resource, raw: Raw) -> None:
        await self.writer.delete(resource, key_of(raw), raw["metadata"]["uid"])

    def _tell(self, s: Situation, event: events.Event) -> None:
        self.recorder.tell(resources.WORKLOADS, s.workload.key, s.workload.uid, event)

    def situation(self, key: Key) -> Situation | None:
        """Returns what is known of a Workload; None if it is gone, or a reservation of it is being written."""
        raw, workload = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or workload is None or self.caches.state.assumed(key):
            return None
        # Those that are just being listed, before they count as served, are not deleted for a check without a config.
        own = self._owned(self._requests, resources.WORKLOADS, key) if self._served else ()
        return Situation(
            now=self.clock(),
            workload=workload,
            raw=raw,
            checks={state.name: self._config_of(state.name) for state in self._states(key)},
            requests=tuple(each for each in own if meta.controller_uid(each) == workload.uid),
            template=lambda name: self._templates.get((key.namespace, name)),
            own_templates=self._owned(self._templates, resources.WORKLOADS, key),
            exists=lambda reference: self._exists(key.namespace, reference),
            flavors=self.caches.flavors,
            cleans_up=self._cleans_up,
        )

    @property
    def _served(self) -> bool:
        return resources.PROVISIONING_REQUESTS not in self.caches.absent

    def _exists(self, namespace: str, reference: Raw) -> bool:
        """Whether the Workload or request that an owner reference names is there."""
        stores = {names.Kind.WORKLOAD: self.caches.workloads, names.Kind.PROVISIONING_REQUEST: self._requests}
        store = stores.get(reference["kind"])
        found = store.get((namespace, reference["name"])) if store is not None else None
        return found is not None and bool(found["metadata"]["uid"] == reference["uid"])

    def _owned(self, store: Store[Raw], resource: Resource, key: Key) -> tuple[Raw, ...]:
        """The objects in a store that the object of this resource controls, by name."""
        found = store.by_index("owner", Owner(resource.group, resource.kind, key.namespace, key.name))
        return tuple(sorted(found, key=lambda raw: str(raw["metadata"]["name"])))

    def _config_of(self, check: str) -> Config | None:
        """The config of a check; None if it is missing, or there are no ProvisioningRequests."""
        raw = self._admission_checks.get(("", check))
        if raw is None or not self._served:
            return None
        found = self.caches.parameters(raw, resources.PROVISIONING_REQUEST_CONFIGS)
        return config.read(found) if found is not None else None
