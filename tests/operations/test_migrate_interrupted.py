"""A migration that is killed between any two of its writes: the cluster works meanwhile, and a second run completes it,
in either direction.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Final

import orjson
import pytest

from api import crds, visibility
from api.names import LEADER_ELECTION_ID, Finalizer
from api.objects import Raw, Resource
from controller.kube.client import METHODS, READS, Body, Client, Verb
from controller.kube.elector import LEASES
from controller.kube.errors import from_status
from operations import migrate
from operations.installations import API_SERVICES, DEPLOYMENTS, ENDPOINT_SLICES, HELM, RECORD, SERVICES
from operations.migrate import ClusterToMigrate, MigrationError
from operations.objects import CONVERTED, CRDS, MUTATING, SECRETS, VALIDATING
from tests.faults import Request
from tests.standin import StandIn
from webhook.configurations import Endpoint, HookOptions, mutating, validating

NAMESPACE = "kueue-system"
KUEUE, SEIRETSU = "kueue-webhook-service", "seiretsu-webhook-service"
KUEUES, OURS = "kueue-controller-manager", "seiretsu-controller-manager"
CHART = {"helm.sh/chart": "seiretsu-0.1.0"}
RELEASE = "sh.helm.release.v1.kueue.v1"
HOOKS = {MUTATING: "mutating-webhook-configuration", VALIDATING: "validating-webhook-configuration"}
OWN_KIND = "queues.kueue.x-k8s.io"
"""The CRD that Kueue does not have."""


@cache
def _definitions() -> tuple[Raw, ...]:
    return tuple(crds.definitions({}))


def definitions(conversion: Raw | None = None) -> list[Raw]:
    """Our CRDs without the schemas, which a migration copies as they are."""
    found = copy.deepcopy([{**each, "spec": {**each["spec"], "versions": _versions(each)}} for each in _definitions()])
    for each in found:
        if each["metadata"]["name"] in CONVERTED:
            each["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": conversion}}
    return found


def _versions(definition: Raw) -> list[Raw]:
    return [{key: value for key, value in each.items() if key != "schema"} for each in definition["spec"]["versions"]]


NAMES: Final = tuple(each["metadata"]["name"] for each in _definitions())
TAKE_OVER: Final = (
    f"patch ConfigMap {RECORD}",
    *(f"patch {resource.kind} seiretsu-{name}" for resource, name in HOOKS.items()),
    *(f"delete {resource.kind} kueue-{name}" for resource, name in HOOKS.items()),
    *(f"delete APIService {name}" for name in sorted(visibility.API_SERVICES)),
    *(f"patch CustomResourceDefinition {name}" for name in sorted(CONVERTED) if name != OWN_KIND),
    f"patch Deployment {KUEUES}",
    *(f"patch CustomResourceDefinition {name}" for name in NAMES),
    f"patch Secret {RELEASE}",
)
HAND_BACK: Final = (
    *(f"create {resource.kind} kueue-{name}" for resource, name in HOOKS.items()),
    f"patch Deployment {KUEUES}",
    *(f"update CustomResourceDefinition {name}" for name in sorted(NAMES) if name != OWN_KIND),
    f"delete CustomResourceDefinition {OWN_KIND}",
    *(f"patch {resource.kind} kueue-{name}" for resource, name in HOOKS.items()),
    *(f"create APIService {name}" for name in sorted(visibility.API_SERVICES)),
    *(f"patch {resource.kind} seiretsu-{name}" for resource, name in HOOKS.items()),
    f"patch Secret {RELEASE}",
    f"delete ConfigMap {RECORD}",
)
"""Every write of the two commands, in its order."""


class KilledError(BaseException):
    """The process ends before its next write."""


class World(StandIn):
    """A cluster with Kueue, which leads, and Seiretsu beside it, as step 1 of docs/migrate.md installs it. Kueue runs
    while its Deployment has replicas; Seiretsu leads while it does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        for service, deployment, release in ((KUEUE, KUEUES, "kueue"), (SEIRETSU, OURS, "seiretsu")):
            labels = {"app.kubernetes.io/name": release}
            owner = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": NAMESPACE}
            self.have(SERVICES, service, spec={"selector": labels})
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager"}]}}
            spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
            self.have(DEPLOYMENTS, deployment, metadata={"annotations": owner}, spec=spec)
            ready = {"labels": {"kubernetes.io/service-name": service}}
            self.have(ENDPOINT_SLICES, service, metadata=ready, endpoints=[{"conditions": {"ready": True}}])
        self.have(SECRETS, RELEASE, metadata={"labels": {"owner": HELM, "name": "kueue"}})
        for service, name in ((KUEUE, "kueue"), (SEIRETSU, "seiretsu")):
            for resource, made in ((MUTATING, mutating), (VALIDATING, validating)):
                hooks = made(HookOptions(endpoint=Endpoint(service=service, namespace=NAMESPACE), name=name))[
                    "webhooks"
                ]
                if name == "seiretsu":
                    hooks = [{**each, "failurePolicy": "Ignore"} for each in hooks]
                self.have(resource, f"{name}-{HOOKS[resource]}", webhooks=hooks)
        for name in visibility.API_SERVICES:
            self.visible(name, "kueue-visibility-server")
        config = {"service": {"name": KUEUE, "namespace": NAMESPACE, "path": "/convert"}, "caBundle": "a3VldWU="}
        for each in definitions(config):
            if each["metadata"]["name"] != OWN_KIND:
                metadata = {"labels": {"app.kubernetes.io/name": "kueue"}}
                self.have(CRDS, each["metadata"]["name"], metadata=metadata, spec=each["spec"])
        self.follow()

    def have(self, resource: Resource, name: str, *, metadata: Raw | None = None, **fields: object) -> None:
        """Create or replace an object."""
        path = resource.path(NAMESPACE if resource.namespaced else "", name)
        self.put(path, {"metadata": {"name": name, **(metadata or {})}, **fields})

    def visible(self, name: str, service: str, **labels: str) -> None:
        """Serve a version of the visibility API."""
        spec = {"group": visibility.GROUP, "service": {"name": service, "namespace": NAMESPACE}}
        self.have(API_SERVICES, name, metadata={"labels": labels}, spec=spec)

    @property
    def kueue_runs(self) -> bool:
        """Whether Kueue's Deployment has replicas."""
        return bool(self.objects[DEPLOYMENTS.path(NAMESPACE, KUEUES)]["spec"]["replicas"])

    def follow(self) -> None:
        """What the cluster does after a write: Kueue's pods start or end, and one program leads."""
        holder = KUEUES if self.kueue_runs else OURS
        spec = {"holderIdentity": f"{holder}-1", "renewTime": "2100-01-01T00:00:00Z", "leaseDurationSeconds": 15}
        self.have(LEASES, LEADER_ELECTION_ID, spec=spec)
        endpoints = [{"conditions": {"ready": True}}] if self.kueue_runs else []
        self.have(
            ENDPOINT_SLICES, KUEUE, metadata={"labels": {"kubernetes.io/service-name": KUEUE}}, endpoints=endpoints
        )

    def state(self) -> dict[str, Raw]:
        """Every object, without what the API server numbers."""
        kept = copy.deepcopy(self.objects)
        for raw in kept.values():
            raw.pop("kind", None), raw.pop("apiVersion", None)
            marks = {part: raw["metadata"].get(part) for part in ("labels", "annotations")}
            raw["metadata"] = {part: value for part, value in marks.items() if value}
        return kept

    def hooks(self, program: str) -> list[str]:
        """The failure policies of the webhooks of a program that may refuse; empty unless both configurations exist."""
        found = [self.objects.get(resource.path("", f"{program}-{name}")) for resource, name in HOOKS.items()]
        advice = {each["name"] for each in self._ignoring()}
        every = [each for raw in found if raw for each in raw["webhooks"] if each["name"] not in advice]
        return [each["failurePolicy"] for each in every] if all(found) else []

    def _ignoring(self) -> list[Raw]:
        hooks = HookOptions(endpoint=Endpoint(service=SEIRETSU, namespace=NAMESPACE), name="x")
        every = [each for made in (mutating, validating) for each in made(hooks)["webhooks"]]
        return [each for each in every if each["failurePolicy"] == "Ignore"]

    def check(self) -> None:
        """Jobs are suspended at this moment, and nothing that must answer calls a program that has ended."""
        kueues, ours = set(self.hooks("kueue")), set(self.hooks("seiretsu"))
        assert ours == {"Fail"} or (self.kueue_runs and kueues == {"Fail"}), "a job would be created unsuspended"
        if not self.kueue_runs:
            assert "Fail" not in kueues
            assert not [path for path in self.objects if path.startswith(API_SERVICES.path(""))]
            called = [self.objects[CRDS.path("", name)]["spec"]["conversion"] for name in CONVERTED if name != OWN_KIND]
            assert {each["webhook"]["clientConfig"]["service"]["name"] for each in called} == {SEIRETSU}


class Process(Client):
    """`seiretsu migrate` in a cluster; it is killed before the write that would be one too many."""

    def __init__(self, world: World, writes: int | None) -> None:
        self.field_manager = "seiretsu"
        self._world, self._last = world, None if writes is None else len(world.done) + writes

    async def _call(
        self,
        verb: Verb,
        resource: Resource,
        path: str,
        subresource: str = "",
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        *,
        largest: int | None = None,
    ) -> Raw:
        if "dryRun" in (params or {}):
            return {"metadata": {"finalizers": [Finalizer.RESOURCE_IN_USE]}}
        if verb not in READS and len(self._world.done) == self._last:
            raise KilledError
        text = orjson.dumps(body) if body is not None else b""
        headers = {"Content-Type": content_type}
        code, answer = self._world.answer(Request(METHODS[verb], path, params or {}, headers, text, path))
        if code >= 400:
            raise from_status(answer)
        if verb not in READS:
            name = path.rsplit("/", 1)[-1] if verb != "create" else answer["metadata"]["name"]
            self._world.done.append(f"{verb} {resource.kind} {name}")
            self._world.follow()
        found: Raw = orjson.loads(orjson.dumps(answer))
        return found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        """Return at once."""

    monkeypatch.setattr(migrate, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(migrate, "crds", SimpleNamespace(definitions=definitions, CONVERSION_PATH=crds.CONVERSION_PATH))


Command = Callable[[ClusterToMigrate], Awaitable[None]]


def run(world: World, command: Command, writes: int | None = None) -> list[str]:
    """Runs a command, which is killed after so many writes; returns its writes."""
    process, before = Process(world, writes), len(world.done)

    async def whole() -> None:
        await command(ClusterToMigrate(process, process, lambda step: None))

    try:
        asyncio.run(whole())
    except KilledError:
        assert len(world.done) - before == writes
    return world.done[before:]


@cache
def _taken_over() -> World:
    world = World()
    run(world, migrate.take_over)
    return world


def taken_over() -> World:
    """A cluster that Seiretsu has taken over."""
    world = World()
    world.objects = copy.deepcopy(_taken_over().objects)
    return world


def points(writes: tuple[str, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("number", range(len(writes)), ids=[f"before {each}" for each in writes])


def test_the_points_are_all_writes_and_a_second_run_writes_nothing() -> None:
    world = World()
    before = world.state()
    assert tuple(run(world, migrate.take_over)) == TAKE_OVER
    assert run(world, migrate.take_over) == []
    assert tuple(run(world, migrate.hand_back)) == HAND_BACK
    assert world.state() == before


@points(TAKE_OVER)
def test_a_take_over_that_is_killed_is_completed_by_the_next_run(number: int) -> None:
    world = World()
    run(world, migrate.take_over, number)
    world.check()
    run(world, migrate.take_over)
    assert world.state() == taken_over().state()


@points(TAKE_OVER)
def test_a_take_over_that_is_killed_is_undone_by_hand_back(number: int) -> None:
    world = World()
    before = world.state()
    run(world, migrate.take_over, number)
    if number:
        run(world, migrate.hand_back)
    else:
        with pytest.raises(MigrationError, match="nothing was taken over"):
            run(world, migrate.hand_back)
    assert world.state() == before


@points(HAND_BACK)
def test_a_hand_back_that_is_killed_is_completed_by_the_next_run(number: int) -> None:
    world = taken_over()
    run(world, migrate.hand_back, number)
    world.check()
    run(world, migrate.hand_back)
    assert world.state() == World().state()


@points(HAND_BACK)
def test_a_hand_back_that_is_killed_loses_nothing_when_seiretsu_takes_over_again(number: int) -> None:
    """What was stored of Kueue is not replaced by what the killed run had given back of it."""
    world = taken_over()
    run(world, migrate.hand_back, number)
    run(world, migrate.take_over)
    assert world.state() == taken_over().state()
    run(world, migrate.hand_back)
    assert world.state() == World().state()


def test_a_second_take_over_keeps_the_visibility_api_of_seiretsu() -> None:
    """Step 3 of docs/migrate.md installs its APIServices in the namespace of Kueue, with the same names."""
    world = taken_over()
    for name in visibility.API_SERVICES:
        world.visible(name, "seiretsu-visibility-server", **CHART)
    before = world.state()
    assert run(world, migrate.take_over) == []
    assert world.state() == before
