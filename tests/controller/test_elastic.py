"""Pods of elastic jobs lose their gate in turns, as many as have quota then."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from api.objects import Key, Raw, Resource
from controller.cache.writes import Writer
from controller.reconcilers.elastic import ungate
from core.jobs.actions import Ungate
from core.jobs.elastic import GATE

ACTION = Ungate("job-uid", "label", {"main": 3})


def pod(name: str) -> Raw:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": GATE}]}}


class Pods:
    """A writer that lists three gated pods, and what has quota when each turn begins."""

    def __init__(self, *granted: Mapping[str, int]) -> None:
        self.granted = list(granted)
        self.ungated: list[str] = []

    async def all_of(self, resource: Resource, namespace: str, **_: Any) -> list[Raw]:
        return [pod(name) for name in ("a", "b", "c")]

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str, *, first: bool) -> AsyncIterator[None]:
        yield

    async def patch(self, resource: Resource, key: Key, body: Raw) -> None:
        self.ungated.append(key.name)

    async def now(self) -> Mapping[str, int]:
        return self.granted.pop(0)


@pytest.mark.parametrize(
    ("granted", "ungated"),
    [
        pytest.param([{"main": 3}] * 3, ["a", "b", "c"], id="as many as were granted"),
        pytest.param([{"main": 3}, {"main": 1}, {"main": 1}], ["a"], id="fewer are granted while the others wait"),
        pytest.param([{"main": 3}, {"main": 2}, {"main": 2}], ["a", "b"], id="one less is granted"),
        pytest.param([{}] * 3, [], id="the workload was evicted"),
    ],
)
async def test_each_pod_loses_its_gate_only_if_it_has_quota_when_its_turn_comes(
    granted: list[Mapping[str, int]], ungated: list[str]
) -> None:
    pods = Pods(*granted)
    await ungate(cast("Writer", pods), "ns", ACTION, pods.now)
    assert pods.ungated == ungated
