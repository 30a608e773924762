"""Workloads whose nodes are asked for with ProvisioningRequests: gathers what is known of each for the rules of
``core.provisioning``. The AdmissionChecks get their condition Active here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial

from api import names, resources
from api.names import PROVISIONING_REQUEST_CONTROLLER
from api.objects import Key, Raw, Resource, key_of
from controller.cache.caches import Caches
from controller.cache.checks import CheckConditions
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.refusals import Refusals
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from controller.kube.store import Store, in_steps
from controller.settings import ControllerSettings
from core.actions import Action, Create, Write, Writes
from core.jobs import meta
from core.model import CheckState
from core.model.owner import Owner
from core.provisioning import config, rules
from core.provisioning.config import Config
from core.provisioning.rules import ProvisioningSituation
from core.quota.checks import checks_of
from core.wire.active import Active, decided_by, parameters_name

REFUSALS = (AlreadyExists, Forbidden, Invalid, NotFound)
"""The answers of an API server that does not take an object."""
FAILURES = (400, 500)
"""The status of a webhook that denies without a code, or fails."""


class Provisioning(Reconciler[ProvisioningSituation]):
    """The controller of the AdmissionChecks with ``controllerName: kueue.x-k8s.io/provisioning-request``. ``run`` it
    while this process leads.
    """

    workers = 5

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: ControllerSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("provisioning", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.checks = CheckConditions(
            "provisioning-checks",
            caches,
            writer,
            recorder,
            controller=PROVISIONING_REQUEST_CONTROLLER,
            wanted=self._condition,
            clock=clock,
        )
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
        self.checks.everything()
        yield from self._each(self._concerned)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._enabled:
                group.create_task(super().run())
            group.create_task(self.checks.run())

    def reconfigured(self, name: str) -> None:
        """A ProvisioningRequestConfig changed: queues the checks that refer to it, and their Workloads."""
        for raw in self._admission_checks:
            if parameters_name(raw, names.Kind.PROVISIONING_REQUEST_CONFIG)[0] == name:
                self._check(None, raw)

    def _check(self, old: Raw | None, new: Raw | None) -> None:
        raw = new or old or {}
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            self.checks.queue.add(key_of(raw))
            return
        if any(each is not None and decided_by(each, PROVISIONING_REQUEST_CONTROLLER) for each in (old, new)):
            self.checks.queue.add(key_of(raw))
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
        return in_steps(self.caches.workloads.keys(), lambda key: self.queue.add(key) if selects(key) else None)

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

    def _condition(self, raw: Raw) -> Active:
        """The condition Active that an AdmissionCheck should have."""
        parameters = self.caches.parameters(raw, resources.PROVISIONING_REQUEST_CONFIGS)
        return config.of_check(raw, parameters, served=self._served, enabled=self._enabled)

    def decide(self, situation: ProvisioningSituation) -> Action:
        """The next action about the requests of a Workload."""
        return rules.decide(situation)

    def about(self, situation: ProvisioningSituation) -> tuple[Key, str]:
        """The Workload."""
        return situation.workload.key, situation.workload.uid

    async def refused(self, key: Key, situation: ProvisioningSituation, write: Write, error: ApiError) -> None:
        """Reports an object that is refused on the check that it is for, and tries again with backoff. Its message may
        have a port or an id that differs each time, and each report queues the Workload again.

        An object that exists but has not arrived by watch is not a refusal: a write of this process or of the one
        before was interrupted, and the object is used as soon as it arrives.
        """
        if isinstance(write, Create) and (isinstance(error, REFUSALS) or error.status in FAILURES):
            kind, name = write.resource.kind, write.manifest["metadata"]["name"]
            known = self.caches.stores[write.resource].get((key.namespace, name)) is not None
            if (known or not isinstance(error, AlreadyExists)) and (
                self._refusals.due(key, (kind, name, error.status, error.reason))
                or not rules.is_reported(situation, write.part, kind, name)
            ):
                report = rules.not_created(situation, write.part, rules.refusal(kind, name, error.message))
                if report is not None:
                    with contextlib.suppress(ApiError):  # what was refused is reported again when it is refused again
                        await self.apply(key, situation, report)
        raise error

    def created(self, key: Key, situation: ProvisioningSituation, create: Create, answer: Raw) -> None:
        """Forgets what was refused before."""
        self._refusals.forget(key)

    async def written(self, key: Key, situation: ProvisioningSituation, action: Write | Writes) -> None:
        """Continues at once: not each change of a request or PodTemplate leads to its Workload."""
        self.queue.add(key)

    def gather(self, key: Key) -> ProvisioningSituation | None:
        """Returns what is known of a Workload; None if it is gone, or a reservation of it is being written."""
        raw, workload = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or workload is None or self.caches.state.assumed(key):
            return None
        # Those that are just being listed, before they count as served, are not deleted for a check without a config.
        own = self._owned(self._requests, resources.WORKLOADS, key) if self._served else ()
        return ProvisioningSituation(
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
