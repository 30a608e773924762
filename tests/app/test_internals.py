"""The process reports itself: leader, fence, caches, budget of writes, certificates, garbage collections."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from api.resources import WORKLOADS
from app.internals import Pauses, of_certificates, of_controller
from app.profile import stack_of
from certs.directory import DirectoryStore
from certs.keeper import Keeper
from certs.live import LiveContext
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.flow.budget import Budget
from controller.kube.reflector import Reflector
from controller.kube.store import Store, verbatim

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def samples(*families: Metric) -> dict[str, float]:
    return {
        "/".join((sample.name, *sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def test_of_the_controller() -> None:
    client = Client(Connection("https://127.0.0.1:1"))
    client.fenced = 2
    now = 100.0
    reflector = Reflector(client, WORKLOADS, Store("workloads", verbatim), clock=lambda: now)
    reflector.relists["start"] += 1
    reflector.watch_errors["Unreachable"] += 3
    now += 40
    found = samples(*of_controller(client, [reflector], Budget(client.pressure), lambda: True))
    assert found == {
        "seiretsu_leader": 1,
        "seiretsu_fenced_writes_total": 2,
        "seiretsu_informer_age_seconds/workloads": 40,
        "seiretsu_informer_relists_total/workloads/start": 1,
        "seiretsu_informer_watch_errors_total/workloads/Unreachable": 3,
        "seiretsu_informer_undecodable_total/workloads": 0,
        "seiretsu_write_budget_interval_seconds": 0,
        "seiretsu_write_slowdown_ratio": 1,
        "seiretsu_write_budget_waiting": 0,
    }


async def test_of_certificates(tmp_path: Path) -> None:
    live = LiveContext()
    assert samples(*of_certificates(live, None)) == {}
    keeper = Keeper(DirectoryStore(tmp_path), live, ("localhost",), clock=lambda: NOW)
    await keeper.tick()
    found = samples(*of_certificates(live, keeper))
    assert live.pair is not None
    assert found["seiretsu_certificate_expiration_timestamp_seconds"] == live.pair.certificate.not_after.timestamp()
    assert (
        found["seiretsu_ca_expiration_timestamp_seconds"] > found["seiretsu_certificate_expiration_timestamp_seconds"]
    )
    assert found["seiretsu_ca_rotation_steps_total/create"] == 1
    assert found["seiretsu_ca_rotation_steps_total/promote"] == 0
    assert found["seiretsu_ca_restorations_total"] == 0


def test_a_pause_of_the_garbage_collector_is_measured() -> None:
    registry, times = CollectorRegistry(), iter((1.0, 1.03))
    pauses = Pauses(registry, clock=lambda: next(times))
    pauses.collected("start", {"generation": 2})
    pauses.collected("stop", {"generation": 2})
    sums = [registry.get_sample_value("seiretsu_gc_pause_seconds_sum", {"generation": each}) for each in "012"]
    assert [round(each or 0, 6) for each in sums] == [0, 0, 0.03]


def test_a_stack_has_its_outermost_function_first() -> None:
    names = stack_of(sys._getframe()).split(";")
    assert names[-1] == "test_internals:test_a_stack_has_its_outermost_function_first"
    assert len(names) > 5
