"""The table of watched resources: what a row says is all there is to do for a resource."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from api import resources
from api.objects import Resource
from controller.cache.caches import Caches
from controller.kube.client import Client
from controller.kube.flow.pressure import Pressure
from controller.run.controller import Controller
from controller.run.watched import WATCHED, Watched, dispatch_of, rows
from controller.settings import ControllerSettings, MultiKueueSettings
from core.jobs.kinds import BATCH_JOB, KINDS
from core.model import Raw
from core.state.state import State
from tests.controller.test_caches import made
from tests.controller.test_dispatch import connected

ALL = rows(KINDS.values())
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget", namespaced=False)


def named(row: Watched) -> str:
    return row.resource.plural


def test_a_row_is_all_that_a_new_resource_needs() -> None:
    entered: list[tuple[Raw | None, Raw | None]] = []
    woken: list[tuple[Raw | None, Raw | None]] = []
    row = Watched(
        resource=GADGETS,
        indexes={"colour": lambda raw: (raw["spec"]["colour"],)},
        enters=lambda caches, old, new: entered.append((old, new)),
        wakes=lambda wakes, old, new: woken.append((old, new)),
    )
    table = (*rows([BATCH_JOB]), row)
    caches = Caches(State(), table)
    first, second = made("Gadget", "a", {"colour": "red"}), made("Gadget", "b", {"colour": "blue"})
    caches.stores[GADGETS].observe("ADDED", first)
    wakes, *_ = connected(caches)
    wakes.connect(dispatch_of(table))
    caches.stores[GADGETS].observe("ADDED", second)
    assert entered == [(None, first), (None, second)], "what was listed first, then what changes"
    assert woken == [(None, second)], "what was listed is looked at as a whole"
    assert caches.stores[GADGETS].by_index("colour", "blue") == (second,)


def test_each_row_is_followed_once_and_may_be_absent_where_it_says_so() -> None:
    controller = Controller(cast(Client, Lists()))
    followed = {each.resource: each._optional for each in controller.reflectors}
    assert followed == {row.resource: row.optional for row in rows([BATCH_JOB])}
    assert len(controller.reflectors) == len(followed)


def test_without_multikueue_its_kinds_are_not_watched_and_nothing_waits_for_them() -> None:
    controller = Controller(cast(Client, Lists()), ControllerSettings(multikueue=MultiKueueSettings(enabled=False)))
    followed = {each.resource for each in controller.reflectors}
    assert {row.resource for row in rows([BATCH_JOB])} - followed == {
        resources.MULTIKUEUE_CONFIGS,
        resources.MULTIKUEUE_CLUSTERS,
    }
    for resource in followed:
        controller.caches.stores[resource].replace([], "1")
    assert controller.caches.synced


class Lists:
    """A stand-in for a client of which only lists are asked."""

    def __init__(self) -> None:
        self.asked: list[Resource] = []
        self.pressure = Pressure()

    async def pages(self, resource: Resource, *_: Any) -> AsyncGenerator[Raw, None]:
        self.asked.append(resource)
        yield {"items": []}


async def test_a_new_leader_lists_again_the_resources_whose_rows_say_so() -> None:
    client = Lists()
    await Controller(cast(Client, client))._read_anew()
    assert client.asked == [row.resource for row in ALL if row.read_anew]


@pytest.mark.parametrize("row", ALL, ids=named)
def test_nothing_is_decided_by_a_resource_before_it_was_listed(row: Watched) -> None:
    decides = row.enters is not None or row.wakes is not None
    assert decides == row.awaited, "what decides is waited for, and nothing else is"


@pytest.mark.parametrize("row", ALL, ids=named)
def test_caches_are_synced_once_each_resource_that_is_waited_for_was_listed(row: Watched) -> None:
    caches = Caches(State(), ALL)
    for resource, store in caches.stores.items():
        if resource != row.resource:
            store.replace([], "1")
    assert caches.synced != row.awaited
    caches.stores[row.resource].replace([], "1")
    assert caches.synced


@pytest.mark.parametrize("row", ALL, ids=named)
def test_a_new_leader_reconciles_each_resource_with_a_status_or_finalizer(row: Watched) -> None:
    caches = Caches(State(), ALL)
    caches.stores[row.resource].observe("ADDED", made(row.resource.kind, "a", namespace="ns", value=1))
    wakes, queues, _ = connected(caches)
    for _ in wakes.everything():
        pass
    looked = {resource for resource, _ in queues.queue}
    assert (row.resource in looked) == (row.status is not None or row.in_use is not None)


def test_what_others_refer_to_is_entered_before_them() -> None:
    order = [row.resource for row in WATCHED]
    before = [
        (resources.LIMIT_RANGES, resources.WORKLOADS),
        (resources.RUNTIME_CLASSES, resources.WORKLOADS),
        (resources.TOPOLOGIES, resources.CLUSTER_QUEUES),
        (resources.RESOURCE_FLAVORS, resources.CLUSTER_QUEUES),
        (resources.ADMISSION_CHECKS, resources.CLUSTER_QUEUES),
        (resources.COHORTS, resources.CLUSTER_QUEUES),
        (resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES),
        (resources.LOCAL_QUEUES, resources.WORKLOADS),
        (resources.NAMESPACES, resources.WORKLOADS),
    ]
    assert [pair for pair in before if order.index(pair[0]) > order.index(pair[1])] == []


UNREADABLE: list[tuple[Resource, Raw]] = [
    (resources.LIMIT_RANGES, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "many"}}]}}),
    (resources.RUNTIME_CLASSES, {"overhead": {"podFixed": {"cpu": "many"}}}),
    (resources.PRIORITY_CLASSES, {"value": "high"}),
    (resources.WORKLOAD_PRIORITY_CLASSES, {"value": "high"}),
    (resources.COHORTS, {"spec": {"fairSharing": {"weight": "heavy"}}}),
    (resources.RESOURCE_QUOTAS, {"spec": {"hard": {"cpu": "many"}}}),
]


@pytest.mark.parametrize(("resource", "content"), UNREADABLE, ids=[each[0].plural for each in UNREADABLE])
def test_an_object_of_a_file_that_cannot_be_decoded_is_reported_immediately(resource: Resource, content: Raw) -> None:
    """Where the API server holds it, the stores log it; of a file its author must learn."""
    metadata = {"name": "a", **({"namespace": "ns"} if resource.namespaced else {})}
    with pytest.raises((ValueError, TypeError)):
        Caches(State(), WATCHED).enter({"metadata": metadata, **content}, resource)


def test_what_a_file_has_is_known_as_if_an_api_server_held_it_and_may_be_entered_again() -> None:
    caches = Caches(State(), WATCHED)
    for labels in ({"team": "red"}, {"team": "blue"}):
        caches.enter({"metadata": {"name": "ns", "labels": labels}}, resources.NAMESPACES)
    assert caches.state.namespaces == {"ns": {"team": "blue"}}
    assert [raw["metadata"]["labels"] for raw in caches.namespaces] == [{"team": "blue"}]
