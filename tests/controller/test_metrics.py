"""The series a dashboard made for Kueue looks for."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from app.metrics import Metrics as Process
from controller.gauges import Gauges
from controller.metrics import Metrics
from core.model import Key
from tests.builders import cluster_queue
from tests.controller.test_caches import filled

QUEUE = Key("ns", "lq")


def shown(registry: CollectorRegistry) -> set[str]:
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


async def told(gauges: Gauges, between: Callable[[], None] = lambda: None) -> set[str]:
    """What a scrape has of the gauges, where so much happens between two steps."""

    def steps() -> Iterator[Metric | None]:
        for family in gauges.steps():
            yield family
            between()

    process = Process()
    process.steps.append(steps)
    page = (await process.page()).decode()
    return {line for line in page.splitlines() if line.startswith("kueue_")}


async def test_gauges_tell_what_the_caches_hold() -> None:
    caches = filled()
    gauges = Gauges(caches, role=lambda: "leader", resources=True)
    assert await told(gauges) == set(), "nothing is told before the caches have been read"
    caches.start()
    assert {
        'kueue_pending_workloads{cluster_queue="cq",replica_role="leader",status="active"} 1.0',
        'kueue_cluster_queue_status{cluster_queue="cq",replica_role="leader",status="active"} 1.0',
        'kueue_cluster_queue_status{cluster_queue="cq",replica_role="leader",status="pending"} 0.0',
        'kueue_cluster_queue_resource_pending{cluster_queue="cq",replica_role="leader",resource="cpu"} 2.0',
        'kueue_local_queue_pending_workloads{name="lq",namespace="ns",replica_role="leader",status="active"} 1.0',
        'kueue_cluster_queue_nominal_quota{cluster_queue="cq",cohort="",flavor="default",replica_role="leader",'
        'resource="cpu"} 4.0',
    } <= await told(gauges)


async def test_what_is_deleted_while_somebody_reads_the_gauges_is_left_out() -> None:
    caches = filled()
    caches.start()
    names = [f"more-{number}" for number in range(3)]
    for name in names:
        caches.state.set_cluster_queue(name, cluster_queue(name, 1))

    def lose_one() -> None:
        if names:
            caches.state.set_cluster_queue(names.pop(), None)

    lines = await told(Gauges(caches, role=lambda: "leader"), lose_one)
    assert any('cluster_queue="cq"' in line for line in lines)
    assert not any('cluster_queue="more-2"' in line for line in lines)


def test_counters_and_waits_carry_kueues_names_and_the_role() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, role=lambda: "standalone")
    metrics.quota_reserved("cq", QUEUE, "high", 3.0)
    metrics.admitted("cq", QUEUE, "high", 3.0, None)
    metrics.preempted("cq", "InClusterQueue")
    metrics.attempted(0.01, admitted=True)
    assert {
        'kueue_quota_reserved_workloads_total{cluster_queue="cq",priority_class="high",replica_role="standalone"} 1.0',
        'kueue_local_queue_admitted_workloads_total{name="lq",namespace="ns",priority_class="high",'
        'replica_role="standalone"} 1.0',
        'kueue_preempted_workloads_total{preempting_cluster_queue="cq",reason="InClusterQueue",'
        'replica_role="standalone"} 1.0',
        'kueue_admission_attempts_total{replica_role="standalone",result="success"} 1.0',
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="cq",le="5.0",priority_class="high",'
        'replica_role="standalone"} 1.0',
    } <= shown(registry)


def test_a_local_queue_that_is_not_chosen_has_no_series() -> None:
    registry = CollectorRegistry()
    Metrics(registry, local_queues=lambda key: False).admitted("cq", QUEUE, "", 1.0, None)
    assert not any("local_queue" in line for line in shown(registry))
