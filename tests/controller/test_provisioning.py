"""What the controller of ProvisioningRequests watches, and that it continues after each write, refused or lost."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, cast

import pytest

from api import resources
from api.names import PROVISIONING_REQUEST_CONTROLLER
from api.objects import Key, Raw, Resource, key_of
from controller.cache.caches import Caches
from controller.cache.refusals import REPORT_SECONDS
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, Unreachable, from_status
from controller.kube.flow.precedence import Precedence
from controller.reconcilers.provisioning import Provisioning
from controller.run.dispatch import Dispatcher
from controller.run.watched import dispatch_of, rows
from controller.settings import ControllerSettings
from core.jobs.kinds import BATCH_JOB
from core.model.events import Event
from core.state.state import State
from core.wire.merge import merged
from tests.core.multikueue.groups import NOW, conditions
from tests.core.provisioning.situations import FLAVORS, workload

KEY = Key("ns", "w")
CONFIG: Raw = {"metadata": {"name": "config"}, "spec": {"provisioningClassName": "class"}}
CHECK: Raw = {
    "metadata": {"name": "nodes"},
    "spec": {
        "controllerName": PROVISIONING_REQUEST_CONTROLLER,
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"},
    },
}
FIRST = "w-nodes-1"
OWNER: Raw = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "u-w", "controller": True}
GROUP: Raw = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": []}]}
GUARDS = ("uid", "resourceVersion")


class Told:
    """The recorder of events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.events.append((event.reason, event.message))


class Api:
    """An API server in memory. ``fails`` is raised by the next write, before it is applied or after."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, Key], Raw] = {}
        self.fails: tuple[ApiError, bool] | None = None
        self.versions = 0
        self.writes: list[str] = []
        self.precedence = Precedence()

    def enter(self, resource: Resource, raw: Raw) -> Raw:
        self.versions += 1
        metadata = {"uid": raw["metadata"]["name"], **raw["metadata"], "resourceVersion": str(self.versions)}
        self.objects[resource, key_of(raw)] = {**raw, "metadata": metadata}
        return self.objects[resource, key_of(raw)]

    def _write(self, what: str) -> Any:
        fails, self.fails = self.fails, None
        if fails is not None and not fails[1]:
            raise fails[0]
        self.writes.append(what)
        return fails

    async def create(self, resource: Resource, body: Raw, namespace: str) -> Raw:
        if (resource, key_of(body)) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "it exists")
        fails = self._write(f"create {resource.plural}")
        answer = self.enter(resource, {**body, "metadata": {**body["metadata"], "uid": f"u-{self.versions}"}})
        return self._answer(fails, answer)

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **options: Any) -> Raw:
        old = self.objects[resource, Key(namespace, name)]
        if any(old["metadata"][each] != value for each, value in body["metadata"].items() if each in GUARDS):
            raise Conflict(409, "Conflict", "it has changed")
        fails = self._write(f"patch {resource.plural}")
        return self._answer(fails, self.enter(resource, merged(old, body)))

    async def update(self, resource: Resource, body: Raw, *, subresource: str) -> Raw:
        old = self.objects[resource, key_of(body)]
        if old["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "it has changed")
        fails = self._write(f"patch {resource.plural}")
        return self._answer(fails, self.enter(resource, {**old, "status": body["status"]}))

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str, grace: int | None) -> Raw:
        if (resource, Key(namespace, name)) not in self.objects:
            raise NotFound(404, "NotFound", "it is gone")
        fails = self._write(f"delete {resource.plural}")
        del self.objects[resource, Key(namespace, name)]
        return self._answer(fails, {})

    def _answer(self, fails: tuple[ApiError, bool] | None, answer: Raw) -> Raw:
        if fails is not None:
            raise fails[0]
        return answer


class Process:
    """A process that leads: its stores have what the API server had when it started, and then every change."""

    def __init__(self, api: Api, told: Told | None = None) -> None:
        self.api, self.told, self.now = api, told or Told(), NOW
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.writer = Writer(cast(Any, api), self.caches.stores)
        self.provisioning = Provisioning(
            self.caches, self.writer, cast(Any, self.told), ControllerSettings(), clock=lambda: self.now
        )
        self.look()
        self.caches.start()
        dispatcher = Dispatcher(
            self.caches, cast(Any, Rest()), cast(Any, Rest()), cast(Any, Rest()), (), cast(Any, Rest()),
            provisioning=self.provisioning,
        )  # fmt: skip
        dispatcher.connect(dispatch_of(rows([BATCH_JOB])))
        self.provisioning.connect()

    def look(self) -> None:
        """What the watches report."""
        for (resource, _), raw in list(self.api.objects.items()):
            self.caches.stores[resource].observe("MODIFIED", raw)

    async def step(self) -> str:
        """One reconciliation; returns the error, '' if there is none."""
        try:
            await self.provisioning.reconcile(KEY)
        except ApiError as error:
            return type(error).__name__
        return ""


class Rest:
    """The other reconcilers, which are not here."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def set_up() -> Api:
    api = Api()
    for resource, raw in (
        (resources.ADMISSION_CHECKS, CHECK),
        (resources.PROVISIONING_REQUEST_CONFIGS, CONFIG),
        *((resources.RESOURCE_FLAVORS, each) for each in FLAVORS.values()),
        (resources.WORKLOADS, workload()),
    ):
        api.enter(resource, raw)
    return api


async def play(api: Api, *, restarts: bool, lost: bool | None) -> list[str]:
    """Makes all writes until the job's nodes are there and it has finished. Each write is the last of its process if
    ``restarts``; each is first lost, before it reached the API server or after, if ``lost`` is False or True.
    """
    process = Process(api)

    async def settle() -> None:
        nonlocal process
        quiet = 0
        for _ in range(100):
            before = len(api.writes)
            if lost is not None and quiet == 0:
                api.fails = Unreachable(0, "Reset", "the connection was lost"), lost
                await process.step()
                api.fails = None
            if restarts:
                process = Process(api)
            await process.step()
            process.look()
            quiet = quiet + 1 if len(api.writes) == before else 0
            if quiet > 1:
                return
        raise AssertionError(f"no end: {api.writes}")

    await settle()
    request = api.objects[resources.PROVISIONING_REQUESTS, Key("ns", FIRST)]
    api.enter(
        resources.PROVISIONING_REQUESTS, merged(request, {"status": {"conditions": conditions(Provisioned="True")}})
    )
    process.look()
    await settle()
    raw = api.objects[resources.WORKLOADS, KEY]
    (state,) = raw["status"]["admissionChecks"]
    assert (state["state"], len(state["podSetUpdates"])) == ("Ready", 1)
    done = conditions(QuotaReserved="True", Finished="True")
    api.enter(resources.WORKLOADS, merged(raw, {"status": {"conditions": done}}))
    process.look()
    await settle()
    assert (resources.PROVISIONING_REQUESTS, Key("ns", FIRST)) not in api.objects
    return api.writes


WRITES = [
    "create podtemplates",
    "create provisioningrequests",
    "patch podtemplates",
    "patch workloads",
    "delete provisioningrequests",
]


@pytest.mark.parametrize("lost", [None, False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_every_write_is_made_once_whichever_is_the_last_of_a_process(restarts: bool, lost: bool | None) -> None:
    assert asyncio.run(play(set_up(), restarts=restarts, lost=lost)) == WRITES


def test_a_change_queues_the_workload_and_its_check() -> None:
    api = set_up()
    process = Process(api)
    made = process.provisioning

    def queued() -> tuple[int, int]:
        found = len(made.queue), len(made.checks.queue)
        made.queue.drop()
        made.checks.queue.drop()
        return found

    queued()
    api.enter(resources.WORKLOADS, api.objects[resources.WORKLOADS, KEY])
    process.look()
    assert queued()[0] == 1
    api.enter(resources.PROVISIONING_REQUEST_CONFIGS, merged(CONFIG, {"spec": {"provisioningClassName": "other"}}))
    process.look()
    assert queued() == (1, 1)
    asyncio.run(process.step())
    queued()
    for resource in (resources.POD_TEMPLATES, resources.PROVISIONING_REQUESTS):
        asyncio.run(process.step())
        queued()
        (key,) = (key for found, key in api.objects if found == resource)
        api.enter(resource, api.objects[resource, key])
        process.look()
        assert queued()[0] == 1
    api.enter(resources.ADMISSION_CHECKS, merged(CHECK, {"spec": {"parameters": {"name": "gone"}}}))
    process.look()
    assert queued() == (1, 1)


def test_a_template_that_was_left_is_found_after_a_restart_without_its_check() -> None:
    api = set_up()
    process = Process(api)
    asyncio.run(process.step())
    assert api.writes == ["create podtemplates"]
    raw = api.objects[resources.WORKLOADS, KEY]
    api.enter(resources.WORKLOADS, {**raw, "status": {**raw["status"], "admissionChecks": []}})
    process = Process(api)
    process.provisioning.queue.drop()
    for _ in process.provisioning.everything():
        pass
    assert len(process.provisioning.queue) == 1
    asyncio.run(process.step())
    assert api.writes == ["create podtemplates", "delete podtemplates"]


def test_a_change_of_a_flavor_queues_the_workloads_that_may_use_it() -> None:
    api = set_up()
    queue: Raw = {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [GROUP]}}
    api.enter(resources.CLUSTER_QUEUES, queue)
    process = Process(api)
    process.provisioning.queue.drop()
    api.enter(resources.RESOURCE_FLAVORS, merged(FLAVORS["spot"], {"spec": {"nodeLabels": {"pool": "new"}}}))
    process.look()
    assert len(process.provisioning.queue) == 1


def test_a_request_that_is_refused_is_reported_on_the_check_and_as_an_event() -> None:
    api = set_up()
    process = Process(api)

    async def refused() -> None:
        assert await process.step() == ""  # the template
        for _ in range(2):
            api.fails = Forbidden(403, "Forbidden", "you may not"), False
            assert await process.step() == "Forbidden"

    asyncio.run(refused())
    message = f'Error creating ProvisioningRequest "{FIRST}": you may not'
    (state,) = api.objects[resources.WORKLOADS, KEY]["status"]["admissionChecks"]
    assert (state["state"], state["message"]) == ("Pending", message)
    assert process.told.events == [("FailedCreate", message)]


@pytest.mark.parametrize(("status", "reports"), [(400, 1), (403, 1), (404, 1), (422, 1), (500, 1), (503, 0)])
def test_an_object_that_is_refused_with_another_message_each_time_is_reported_once(status: int, reports: int) -> None:
    api = set_up()
    process = Process(api)

    async def denied() -> None:
        for number in range(3):
            error = from_status({"code": status, "message": f"denied, id {number}"})
            api.fails = error, False
            assert await process.step() == type(error).__name__
            process.look()

    asyncio.run(denied())
    message = f'Error creating PodTemplate "ppt-{FIRST}-main": denied, id 0'
    assert process.told.events == [("FailedCreate", message)] * reports
    assert api.writes == ["patch workloads"] * reports


def test_a_refusal_is_reported_again_when_its_kind_changes_and_after_some_time() -> None:
    api = set_up()
    process, ids = Process(api), count()

    async def denied(status: int, later: float = 0.0) -> int:
        process.now += later
        before = len(process.told.events)
        api.fails = from_status({"code": status, "message": f"denied, id {next(ids)}"}), False
        await process.step()
        return len(process.told.events) - before

    async def reports() -> list[int]:
        return [await denied(403), await denied(422), await denied(403), await denied(403, REPORT_SECONDS)]

    assert asyncio.run(reports()) == [1, 1, 0, 1]


def test_a_request_of_another_owner_is_reported_and_one_that_has_not_arrived_is_not() -> None:
    for known in (True, False):
        api = set_up()
        process = Process(api)
        asyncio.run(process.step())
        metadata = {"name": FIRST, "namespace": "ns", "uid": "other"}
        made = api.enter(resources.PROVISIONING_REQUESTS, {"metadata": metadata, "spec": {}})
        if known:
            process.caches.stores[resources.PROVISIONING_REQUESTS].observe("ADDED", made)
        assert asyncio.run(process.step()) == "AlreadyExists"
        assert bool(process.told.events) is known


@pytest.mark.parametrize("kind", ["Workload", "ProvisioningRequest"])
@pytest.mark.parametrize("uid", ["u-other", "u-gone"])
def test_a_template_is_deleted_only_if_its_owner_is_gone(kind: str, uid: str) -> None:
    api = set_up()
    resource = resources.WORKLOADS if kind == "Workload" else resources.PROVISIONING_REQUESTS
    other = workload(held=False) if kind == "Workload" else {"metadata": {"namespace": "ns"}, "spec": {}}
    api.enter(resource, merged(other, {"metadata": {"name": "other", "uid": "u-other"}}))
    owner = {"apiVersion": "v1", "kind": kind, "name": "other", "uid": uid, "controller": True}
    metadata = {"name": f"ppt-{FIRST}-main", "namespace": "ns", "uid": "u-t", "ownerReferences": [owner]}
    api.enter(resources.POD_TEMPLATES, {"metadata": metadata, "template": {"spec": {}}})
    asyncio.run(Process(api).step())
    assert api.writes == ["delete podtemplates" if uid == "u-gone" else "patch workloads"]


def test_a_check_is_not_active_while_requests_are_not_served() -> None:
    api = set_up()
    process = Process(api)

    def reason() -> str:
        asyncio.run(process.provisioning.checks.reconcile(Key("", "nodes")))
        (found,) = api.objects[resources.ADMISSION_CHECKS, Key("", "nodes")]["status"]["conditions"]
        return str(found["reason"])

    process.caches.absent.add(resources.PROVISIONING_REQUESTS)
    assert reason() == "ProvisioningRequestNotServed"
    asyncio.run(process.step())
    (state,) = api.objects[resources.WORKLOADS, KEY]["status"]["admissionChecks"]
    assert (state["state"], state["message"]) == ("Pending", "the check is not active")
    made = {"metadata": {"name": FIRST, "namespace": "ns", "uid": "u-r", "ownerReferences": [OWNER]}, "spec": {}}
    api.enter(resources.PROVISIONING_REQUESTS, made)
    process.look()  # it is listed, but not all of its kind are yet
    writes = len(api.writes)
    asyncio.run(process.step())
    assert len(api.writes) == writes
    process.caches.absent.clear()
    assert reason() == "Active"
