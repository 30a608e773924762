"""Admission fair sharing: the LocalQueue with the lower decaying usage goes first."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model import Key, LocalQueue, QueueingStrategy, Reserve, StopPolicy
from core.model.policy import AdmissionFairSharing, SchedulingPolicy
from core.queue.admission_fair_sharing import USAGE_BASED, Consumed, entry_penalty, portion, sampled, weighed
from core.state.drain import drain
from core.state.queue_status import local_queue_status
from core.state.state import State
from core.wire.timestamps import stamp
from tests.builders import cluster_queue, reserved, state, workload

RULES = AdmissionFairSharing(half_life=600.0, sampling_interval=600.0)
X, Y = Key("ns", "x"), Key("ns", "y")


def two_queues(nominal: int = 2000) -> State:
    policy = SchedulingPolicy(admission_fair_sharing=RULES)
    return state(cluster_queue("a", nominal, admission_mode=USAGE_BASED), policy=policy, local={"x": "a", "y": "a"})


def admitted(found: State) -> list[str]:
    plans = drain(found, found.policy, 0.0)
    return [d.workload.key.name for plan in plans for d in plan.decisions if isinstance(d, Reserve)]


def test_half_of_what_runs_is_history_after_a_half_life() -> None:
    after = sampled(Consumed({"cpu": 8.0}, 0.0), {"cpu": 2.0}, 600.0, 600.0)
    assert after == Consumed({"cpu": 5.0}, 600.0)
    assert sampled(Consumed({"cpu": 8.0}), {}, 600.0, 0.0) == Consumed({}, 600.0)


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_two_samples_come_to_what_one_over_both_times_does(half_life: float, first: float, second: float) -> None:
    old, running = Consumed({"cpu": 3.0}), {"cpu": 1.0}
    twice = sampled(sampled(old, running, first, half_life), running, first + second, half_life)
    once = sampled(old, running, first + second, half_life)
    assert math.isclose(twice.resources["cpu"], once.resources["cpu"], rel_tol=1e-9)
    assert 0 <= portion(first, half_life) <= 1


def test_resources_and_queues_are_weighed() -> None:
    assert weighed({"cpu": 2.0, "memory": 8.0}, 2.0, {"memory": 0.25}) == 2.0
    assert weighed({}, 0.0, {}) == math.inf
    assert entry_penalty({"cpu": 3000}, RULES) == {"cpu": 1.5}


def test_the_local_queue_that_used_less_goes_first_whatever_the_priority() -> None:
    found = two_queues()
    found.local_queue_usage.set_consumed(X, Consumed({"cpu": 5.0}))
    for name, queue, priority in (("mine", "x", 9), ("theirs", "y", 0)):
        found.set_workload(Key("ns", name), workload(name, 2000, queue=queue, priority=priority))
    assert admitted(found) == ["theirs"]


def test_each_admission_counts_at_once_so_queues_take_turns() -> None:
    found = two_queues(4)
    for number in range(4):
        for queue in "xy":
            name = f"{queue}{number}"
            found.set_workload(
                Key("ns", name), workload(name, 1, queue=queue, created=float(number + 10 * (queue == "y")))
            )
    assert admitted(found) == ["x0", "y0", "x1", "y1"]


def test_a_failed_write_gives_the_penalty_back_and_a_shown_one_becomes_history() -> None:
    found = two_queues()
    for name in ("one", "two"):
        found.set_workload(Key("ns", name), workload(name, 1000, queue="x"))
    assert admitted(found) == ["one", "two"]
    assert found.local_queue_usage.ledger.total(X) == {"cpu": 1.0}
    found.unassume(Key("ns", "two"))
    assert found.local_queue_usage.ledger.total(X) == {"cpu": 0.5}
    found.set_workload(Key("ns", "one"), reserved("one", 1000, "a", queue="x"))
    history = found.local_queue_usage.ledger.consumed(X)
    assert history is not None and history.resources == {"cpu": 0.5}


def test_a_sample_takes_what_runs_into_the_history() -> None:
    found = two_queues()
    found.local_queue_usage.set_consumed(Y, Consumed({}, 0.0))
    found.set_workload(Key("ns", "run"), reserved("run", 2000, "a", queue="y"))
    assert found.local_queue_usage.sample(600.0)[Y] == Consumed({"cpu": 1.0}, 600.0)


def test_a_local_queue_that_uses_nothing_has_used_zero_of_what_its_cluster_queue_has() -> None:
    assert two_queues().local_queue_usage.sample(600.0)[X] == Consumed({"cpu": 0.0}, 600.0)


def test_a_heavier_local_queue_may_have_used_more() -> None:
    found = two_queues()
    found.set_local_queue(X, LocalQueue(X, "a", weight=9.0))
    found.local_queue_usage.set_consumed(X, Consumed({"cpu": 5.0}))
    found.local_queue_usage.set_consumed(Y, Consumed({"cpu": 1.0}))
    for name, queue in (("mine", "x"), ("theirs", "y")):
        found.set_workload(Key("ns", name), workload(name, 2000, queue=queue))
    assert admitted(found) == ["mine"]


def test_a_local_queue_that_is_created_again_starts_without_usage() -> None:
    found = two_queues()
    found.local_queue_usage.set_consumed(X, Consumed({"cpu": 5.0}))
    found.set_workload(Key("ns", "one"), workload("one", 1000, queue="x"))
    assert admitted(found) == ["one"]
    found.set_local_queue(X, None)
    assert found.local_queue_usage.ledger.consumed(X) is None
    assert X not in found.pending.local_usage
    found.set_workload(Key("ns", "one"), reserved("one", 1000, "a", queue="x"))
    assert found.local_queue_usage.ledger.consumed(X) is None, "what was charged to it is not remembered either"
    found.set_local_queue(X, LocalQueue(X, "a"))
    assert found.pending.local_usage[X] == 0.0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda found: found.local_queue_usage.set_consumed(X, Consumed({"cpu": 9.0})), id="by what a status tells"
        ),
        pytest.param(lambda found: found.local_queue_usage.sample(6000.0), id="by a sample"),
        pytest.param(lambda found: found.set_local_queue(Y, LocalQueue(Y, "a", weight=90.0)), id="by another weight"),
    ],
)
def test_a_cycle_follows_where_usage_changed_the_order(change: Callable[[State], object]) -> None:
    policy = SchedulingPolicy(admission_fair_sharing=RULES)
    strict = cluster_queue("a", 2000, admission_mode=USAGE_BASED, strategy=QueueingStrategy.STRICT_FIFO)
    found = state(strict, policy=policy, local={"x": "a", "y": "a"})
    found.set_workload(Key("ns", "run"), reserved("run", 1000, "a", queue="x"))
    found.local_queue_usage.set_consumed(X, Consumed({"cpu": 0.1}))
    found.local_queue_usage.set_consumed(Y, Consumed({"cpu": 0.2}))
    found.set_workload(Key("ns", "blocks"), workload("blocks", 2000, queue="x"))
    found.set_workload(Key("ns", "behind"), workload("behind", 1000, queue="y"))
    assert admitted(found) == []
    assert found.heads(0.0) == (), "nobody is looked at without a change"
    change(found)
    assert admitted(found) == ["behind"]


@pytest.mark.parametrize("mode", ["", USAGE_BASED])
def test_a_local_queue_shows_its_usage_whether_or_not_its_clusterqueue_orders_by_it(mode: str) -> None:
    policy = SchedulingPolicy(admission_fair_sharing=RULES)
    found = state(cluster_queue("a", 2000, admission_mode=mode), policy=policy, local={"x": "a", "y": "a"})
    found.set_workload(Key("ns", "run"), reserved("run", 2000, "a", queue="y"))
    found.local_queue_usage.set_consumed(Y, Consumed({}, 0.0))
    none = {"weightedShare": 0, "admissionFairSharingStatus": {"consumedResources": {}, "lastUpdate": stamp(9.0)}}
    assert local_queue_status(found, X, {}, 9.0)["fairSharing"] == none
    assert "fairSharing" not in local_queue_status(found, X, {"fairSharing": none}, 9.0), "samples write it from now on"
    assert found.local_queue_usage.sample(600.0)[Y] == Consumed({"cpu": 1.0}, 600.0)
    found.set_local_queue(X, LocalQueue(X, "a", stop_policy=StopPolicy.HOLD))
    assert "fairSharing" not in local_queue_status(found, X, {}, 9.0), "a stopped one is not sampled"
    assert X not in found.local_queue_usage.sample(600.0)
