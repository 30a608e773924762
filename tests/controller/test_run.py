"""What the controller does before it leads, and what it has to complain about."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import pytest

from api import resources
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import ApiError, Unreachable
from controller.kube.flow.pressure import Pressure
from controller.run.controller import Controller
from controller.settings import ControllerSettings, MultiKueueSettings
from core.model import Key
from core.wire.merge import merged
from tests.controller.test_caches import made, workload
from tests.controller.test_provisioning import CHECK
from tests.core.provisioning.situations import workload as waits_for_nodes
from tests.eventually import eventually


class Lists:
    """A stand-in for the client of an API server that comes back after a while; ``faults`` are raised first."""

    def __init__(self, faults: list[ApiError]) -> None:
        self.faults = faults
        self.asked: list[str] = []
        self.pressure = Pressure()

    async def pages(self, resource: Resource, *_: Any) -> AsyncGenerator[Raw, None]:
        self.asked.append(resource.plural)
        found = workload("w") if resource == resources.WORKLOADS else made("ClusterQueue", "cq")
        yield {"items": [found]}
        if self.faults:
            raise self.faults.pop(0)


async def test_a_new_leader_lists_again_until_every_list_succeeds() -> None:
    client = Lists([Unreachable(0, "Reset", "cut"), ApiError(503, "ServiceUnavailable", "starting")])
    controller = Controller(cast(Client, client))
    await controller._read_anew()
    assert client.asked == ["clusterqueues"] * 3 + ["workloads"]
    assert controller.caches.workloads.get(Key("ns", "w")) is not None
    assert controller.caches.cluster_queues.get(Key("", "cq")) is not None


def test_a_decision_knows_what_other_pods_use() -> None:
    controller = Controller(cast(Client, Lists([])))
    controller.topology.others.add("n", {"cpu": 1000})
    for _ in controller.scheduler.entering():
        pass
    placement = controller.caches.state.placement
    assert placement is not None and placement.others == {"n": {"cpu": 1000, "pods": 1}}


def test_the_readiness_of_the_controller_names_a_denied_write() -> None:
    controller = Controller(cast(Client, Lists([])))
    assert controller.complaint == ""
    controller._writer.refused["patch jobs"] = "403 Forbidden: no"
    assert controller.complaint == "the API server denies us to patch jobs: 403 Forbidden: no"


def test_a_kind_of_which_queued_jobs_consist_is_no_external_one_too() -> None:
    externals = ("RayCluster.v1.ray.io", "Foo.v1.example.com")
    settings = ControllerSettings(
        frameworks=("ray.io/rayjob",), multikueue=MultiKueueSettings(enabled=True, externals=externals)
    )
    controller = Controller(cast(Client, Lists([])), settings)
    assert [each.resource.kind for each in controller.multikueue.kinds.externals] == ["Foo"]
    followed = [each.resource for each in controller.reflectors]
    assert len(followed) == len(set(followed))


async def test_workloads_that_were_read_again_in_steps_are_decided_again() -> None:
    controller = Controller(cast(Client, Lists([])))
    done = list[int]()

    def steps() -> Iterator[None]:
        for number in range(3):
            done.append(number)
            yield

    controller.caches.in_steps("steps", steps)
    assert done == []
    task = asyncio.create_task(controller.sweeps.run())
    await eventually(lambda: done == [0, 1, 2])
    assert not controller.scheduler._woken.is_set(), "edits that queue many objects are decided once a second"
    controller.caches.in_steps("read", lambda: controller.caches._reading_again([]))
    await eventually(controller.scheduler._woken.is_set)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_fails_when_it_is_done_in_steps_is_done_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.run.controller.AGAIN_SECONDS", 0.0)
    again = asyncio.Event()
    Controller(cast(Client, Lists([]))).caches.later(again.set)
    assert not again.is_set()
    await eventually(again.is_set)


async def test_workloads_that_wait_for_nodes_are_decided_again_when_requests_are_served() -> None:
    controller = Controller(cast(Client, Lists([])))
    stores = controller.caches.stores
    stores[resources.ADMISSION_CHECKS].observe(
        "ADDED", merged(CHECK, {"metadata": {"uid": "u-c", "resourceVersion": "1"}})
    )
    stores[resources.WORKLOADS].observe("ADDED", waits_for_nodes())
    controller.caches.start()
    controller.caches.in_steps = lambda name, begin: list[None]().extend(begin())
    controller._served(resources.PROVISIONING_REQUESTS, False)
    assert len(controller.provisioning.queue) == 0
    controller.leading.set()
    controller._served(resources.PROVISIONING_REQUESTS, True)
    assert (len(controller.provisioning.queue), len(controller.provisioning.checks.queue)) == (1, 1)
