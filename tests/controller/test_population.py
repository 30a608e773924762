"""Namespaces get their LocalQueues when they, or the ClusterQueues that select them, appear or change."""

from __future__ import annotations

from typing import Any, cast

import pytest

from api import resources
from api.configuration import load
from api.objects import Key, key_of
from controller.cache.caches import Caches
from controller.cache.churn import FREE
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import Forbidden
from controller.reconcilers.population import Population
from controller.run.controller import Controller
from controller.settings import from_configuration
from core.model import Selector
from core.model.kubernetes import Requirement
from core.queue.population import PopulationPolicy
from tests.controller.test_caches import filled, made
from tests.controller.test_provisioning import Api, Told


class Process:
    def __init__(self) -> None:
        self.caches: Caches = filled()
        self.caches.start()
        self.api, self.told, self.version = Api(), Told(), 10
        writer = Writer(cast(Any, self.api), self.caches.stores)
        self.population = Population(
            self.caches, writer, cast(Any, self.told), PopulationPolicy(), own_namespace="kueue-system"
        )
        self.population.connect()
        for _ in self.population.everything():
            pass

    async def settle(self) -> set[tuple[str, str]]:
        for raw in self.caches.namespaces:
            key = Key("", raw["metadata"]["name"])
            if key in self.population.queue:
                await self.population.reconcile(key)
        return {(key.namespace, key.name) for of, key in self.api.objects if of == resources.LOCAL_QUEUES}

    def namespace(self, name: str, **labels: str) -> None:
        self.version += 1
        raw = made("Namespace", name)
        raw["metadata"] |= {"labels": labels, "resourceVersion": str(self.version)}
        self.caches.namespaces.observe("MODIFIED", raw)


async def test_a_namespace_gets_a_queue_once_and_says_so_on_the_cluster_queue() -> None:
    process = Process()
    assert await process.settle() == {("ns", "default")}
    assert process.told.events == [("LocalQueueCreated", "Created LocalQueue default in namespace ns")]
    await process.settle()
    assert process.api.writes == ["create localqueues"]


async def test_a_queue_that_something_deletes_whenever_it_was_created_is_created_less_often() -> None:
    process, waits = Process(), list[float | None]()
    store = process.caches.local_queues
    for _ in range(FREE + 2):
        waits.append(await process.population.reconcile(Key("", "ns")))
        for raw in tuple(store):
            store.remove_from_write(key_of(raw), raw["metadata"]["uid"])
        process.api.objects.clear()
    assert [wait is None for wait in waits] == [True] * FREE + [False] * 2
    assert process.api.writes == ["create localqueues"] * FREE


async def test_new_and_relabelled_namespaces_are_looked_at_and_those_of_the_system_never() -> None:
    process = Process()
    await process.settle()
    process.namespace("team")
    process.namespace("kube-system")
    process.namespace("kueue-system")
    assert await process.settle() == {("ns", "default"), ("team", "default")}


async def test_a_changed_selector_of_a_cluster_queue_reaches_all_namespaces() -> None:
    process = Process()
    await process.settle()
    spec = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "resourceGroups": []}
    raw = made("ClusterQueue", "second", spec)
    raw["metadata"]["resourceVersion"] = "90"
    process.caches.cluster_queues.observe("ADDED", raw)
    process.namespace("ns", team="a")
    await process.settle()
    assert process.told.events[-1] == (
        "LocalQueueExists",
        "Skipping LocalQueue creation in namespace ns, a LocalQueue with name default already exists",
    )


async def test_a_refusal_is_told_and_tried_again() -> None:
    process = Process()
    process.api.fails = (Forbidden(403, "Forbidden", "exceeded quota"), False)
    with pytest.raises(Forbidden):
        await process.settle()
    assert process.told.events == [
        ("LocalQueueCreationFailed", "Failed to create LocalQueue default in namespace ns: exceeded quota")
    ]
    assert await process.settle() == {("ns", "default")}


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", None),
        (
            "{enable: true, localQueueName: main, namespaceSelector: {matchLabels: {a: b}}}",
            PopulationPolicy("main", Selector((Requirement("a", "In", ("b",)),))),
        ),
    ],
)
def test_it_is_there_only_if_it_is_configured(text: str, policy: PopulationPolicy | None) -> None:
    configured = load(f"seiretsu: {{population: {text}}}" if text else "").configuration
    settings = from_configuration(configured, elect=False)
    assert settings.population == policy
    made_there = Controller(Client(Connection("http://127.0.0.1:1")), settings).population
    assert (made_there is not None) is (policy is not None)
