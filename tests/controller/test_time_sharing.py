"""A Workload gets its boost by one write when its time is over, and loses it by one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from api import resources
from api.configuration import ConfigurationError, load
from api.objects import Key
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.reconcilers.time_sharing import TimeSharing
from controller.run.controller import Controller
from controller.settings import from_configuration
from core.workload.time_sharing import TimeSharingPolicy
from tests.controller.test_forecasts import START, Place
from tests.controller.test_provisioning import Api, Told

KEY = Key("ns", "w")


async def test_a_workload_gives_way_after_its_interval() -> None:
    place, api, told = Place(), Api(), Told()
    for raw in place.caches.workloads:
        api.objects[resources.WORKLOADS, Key("ns", raw["metadata"]["name"])] = raw
    writer = Writer(cast(Any, api), place.caches.stores)
    sharing = TimeSharing(place.caches, writer, cast(Any, told), TimeSharingPolicy(3600.0), clock=lambda: place.now)
    assert await sharing.reconcile(KEY) == 3600.0
    assert await sharing.reconcile(Key("ns", "next")) is None
    place.now = START + 3600
    assert await sharing.reconcile(KEY) is None
    assert api.writes == ["patch workloads"]
    assert [reason for reason, _ in told.events] == ["PriorityBoostSet"]
    found = api.objects[resources.WORKLOADS, KEY]
    assert found["metadata"]["annotations"] == {"kueue.x-k8s.io/priority-boost": "-100000"}
    assert await sharing.reconcile(KEY) is None
    assert len(api.writes) == 1


def test_it_is_there_only_if_it_is_configured_and_needs_the_gate() -> None:
    assert Controller(Client(Connection("http://127.0.0.1:1"))).time_sharing is None
    text = "seiretsu: {timeSharing: {interval: 1h, negativeBoost: 5, maxWorkloadPriority: 9}}"
    with pytest.raises(ConfigurationError, match="needs the feature gate PriorityBoost"):
        load(text)
    settings = from_configuration(load(f"{text}\nfeatureGates: {{PriorityBoost: true}}").configuration, elect=False)
    assert settings.time_sharing == TimeSharingPolicy(3600.0, 5, max_priority=9)
    assert Controller(Client(Connection("http://127.0.0.1:1")), settings).time_sharing is not None
