"""The cost of a cycle depends on the number of heads, not of workloads behind them. (Ratios of one run.)"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from bench.cycle import NOW, cluster
from core.model import Key, LocalQueue, QueueingStrategy, ResourceFlavor
from core.model.policy import AdmissionFairSharing, SchedulingPolicy
from core.queue.admission_fair_sharing import USAGE_BASED
from core.scheduling.cycle import schedule
from core.scheduling.search_cache import MAX_DEMANDS, MAX_RESULTS, Memory
from core.state.state import State
from tests.builders import cluster_queue, reserved, state, workload
from tests.cost import times


def looking(state: State) -> Callable[[], None]:
    """A whole cycle, heads and snapshot and plan, that is not applied."""

    def look() -> None:
        heads = state.heads(NOW)
        assert heads
        assert len(schedule(state.snapshot(), heads, state.policy, NOW).decisions) == len(heads)

    return look


def test_a_cycle_with_a_hundred_times_as_many_pending_workloads_costs_the_same() -> None:
    few, many = (cluster(queues=100, cohorts=5, pending=pending, admitted=2_000) for pending in (300, 30_000))
    small, large = times(looking(few), looking(many))
    assert large < 2 * small, f"{large * 1000:.2f} ms with 30,000 pending, {small * 1000:.2f} ms with 300"


def test_a_cycle_costs_in_proportion_to_its_heads() -> None:
    few, many = (cluster(queues=queues, cohorts=5, pending=queues * 3, admitted=queues) for queues in (50, 500))
    small, large = times(looking(few), looking(many))
    assert large < 2 * 10 * small, f"{large * 1000:.2f} ms for 500 heads, {small * 1000:.2f} ms for 50"


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "of other shapes"])
def test_nothing_is_kept_of_workloads_deleted_behind_a_waiting_one(strategy: QueueingStrategy, alike: bool) -> None:
    found = state(cluster_queue("q", 10, strategy=strategy))
    first = workload("first", 50)
    found.set_workload(first.key, first)
    for number in range(2_000):
        passing = workload(f"w{number}", 50 if alike else 51 + number, created=float(number + 1))
        found.set_workload(passing.key, passing)
        found.set_workload(passing.key, None)
    queue = found.pending.queues["q"]
    assert sum(len(group.heap) for group in queue._groups.values()) < 100
    assert sum(len(order) for order in queue._orders.values()) < 100
    found.check()
    assert [head.workload.key for head in found.heads(NOW)] == [first.key]


def test_nothing_is_kept_of_local_queues_without_pending_workloads() -> None:
    policy = SchedulingPolicy(admission_fair_sharing=AdmissionFairSharing(half_life=60.0))
    found = state(cluster_queue("q", 10, admission_mode=USAGE_BASED), policy=policy, local={"first": "q"})
    for number in range(50):
        found.set_local_queue(Key("ns", f"lq{number}"), LocalQueue(Key("ns", f"lq{number}"), "q"))
        passing = workload(f"w{number}", 50, queue=f"lq{number}")
        found.set_workload(passing.key, passing)
        found.set_workload(passing.key, None)
        found.set_local_queue(Key("ns", f"lq{number}"), None)
    assert found.heads(NOW) == ()
    found.pending.head("q")
    assert not found.pending.queues["q"]._orders


def test_a_change_to_a_large_cohort_costs_in_proportion_to_its_queues() -> None:
    def changing(size: int) -> Callable[[], None]:
        found = state(*(cluster_queue(f"q{number:04}", 10, cohort="all") for number in range(size)))
        turns = itertools.count()

        def change() -> None:
            found.set_flavor("default", ResourceFlavor("default", node_labels={"turn": str(next(turns))}))
            found.heads(NOW)

        return change

    small, large = times(changing(100), changing(1000))
    assert large < 3 * 10 * small, f"{large * 1000:.2f} ms with 1,000 queues, {small * 1000:.2f} ms with 100"


def test_a_new_cluster_queue_costs_the_same_however_many_local_queues_others_have() -> None:
    def creating(size: int) -> Callable[[], None]:
        found = state(cluster_queue("other", 10), local={f"lq{number}": "other" for number in range(size)})

        def create() -> None:
            for number in range(10):
                found.set_cluster_queue("new", None)
                found.set_cluster_queue("new", cluster_queue("new", 10 + number))

        return create

    few, many = times(creating(10), creating(10_000))
    assert many < 3 * few, f"{many * 1000:.2f} ms with 10,000 LocalQueues, {few * 1000:.2f} ms with 10"


def test_a_change_of_quota_costs_the_same_however_much_others_hold() -> None:
    """Other trees are not changed, and their reservations are not counted again."""

    def changing(admitted: int) -> Callable[[], None]:
        found = cluster(queues=100, cohorts=20, pending=100, admitted=admitted)
        for number in range(admitted):
            if number % 20 == 0:  # nobody in the cohort that changes
                found.set_workload(Key("ns", f"run-{number}"), None)
        turns = itertools.count(1)

        def change() -> None:
            queue = found.reservations.cluster_queues["cq-0000"]
            quotas = {fr: replace(quota, nominal=next(turns)) for fr, quota in queue.quotas.items()}
            found.set_cluster_queue(queue.name, replace(queue, quotas=quotas))
            assert found.heads(NOW)

        return change

    small, large = times(changing(100), changing(10_000))
    assert large < 3 * small, f"{large * 1000:.2f} ms where 10,000 are admitted, {small * 1000:.2f} ms where 100 are"


def test_a_change_of_a_namespace_costs_the_same_however_many_workloads_wait() -> None:
    def changing(pending: int) -> Callable[[], None]:
        found = cluster(queues=100, cohorts=5, pending=pending, admitted=100)
        turns = itertools.count()

        def change() -> None:
            for _ in range(10):
                found.set_namespace("ns", {"turn": str(next(turns))})

        return change

    few, many = times(changing(300), changing(30_000))
    assert many < 3 * few, f"{many * 1000:.2f} ms with 30,000 pending, {few * 1000:.2f} ms with 300"


def test_cached_data_of_a_clusterqueue_is_bounded() -> None:
    found = state(cluster_queue("a", 1000))
    for used in range(1, 3 * MAX_RESULTS):
        found.set_workload(Key("ns", f"r{used}"), reserved(f"r{used}", 1, "a"))
        for asked in range(1001 - used, 1001 - used + 2 * MAX_DEMANDS):
            found.set_workload(Key("ns", "w"), workload("w", asked))
            for _ in range(2):
                schedule(found.snapshot(), found.heads(NOW), found.policy, NOW)
    known = found.reservations.arenas["queue/a"].queues["a"].known
    memories = [memory for memory in known.values() if isinstance(memory, Memory)]
    assert memories, "nothing was remembered, and nothing is shown"
    assert len(known) <= MAX_DEMANDS
    assert max(len(memory.ends) for memory in memories) <= MAX_RESULTS
