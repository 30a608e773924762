"""A change of one ClusterQueue or Cohort costs one tree: others stay the objects they are, and old ones are freed."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest

from bench.cycle import NOW, admitted_workload, cluster
from core.model import Cohort, Key
from core.model.policy import SchedulingPolicy, Strategy
from core.model.workload import replace
from core.queue.queue import QueueEntry
from core.quota.arena import Arena
from core.quota.node import CohortNode, QueueNode
from core.state.drain import drain
from core.state.state import State

POLICIES = [SchedulingPolicy(), SchedulingPolicy(fair_sharing=tuple(Strategy))]


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Objects of other tests in this process, which may be millions, are not looked through."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def edit(state: State, turn: int) -> None:
    """Change quota, cohort, Cohort or existence of something, in turn; then look, as the scheduler does."""
    name = f"cq-{turn % 20:04}"
    queue = state.reservations.cluster_queues[name]
    match turn % 5:
        case 0:
            state.set_cluster_queue(name, replace(queue, cohort="elsewhere"))
            state.set_cluster_queue(name, queue)
        case 1:
            quotas = {fr: replace(quota, nominal=quota.nominal + turn % 2) for fr, quota in queue.quotas.items()}
            state.set_cluster_queue(name, replace(queue, quotas=quotas))
        case 2:
            state.set_cluster_queue(name, None)
            state.set_cluster_queue(name, queue)
        case 3:
            state.set_cohort(queue.cohort, Cohort(queue.cohort, parent=("", "cohort-0")[turn % 2]))
        case 4:
            state.set_workload(Key("ns", "passing"), admitted_workload(100_000, name))
            state.set_workload(Key("ns", "passing"), None)
    for plan in drain(state, state.policy, NOW):
        for decision in plan.decisions:
            state.set_workload(decision.workload.key, None)


def nodes() -> int:
    """How many trees and nodes of trees were made since the test began."""
    return sum(type(each) in (Arena, QueueNode, CohortNode) for each in gc.get_objects())


def in_use(state: State) -> int:
    """How many of them the State has."""
    return sum(1 + len(tree.queues) + len(tree.cohorts) for tree in state.reservations.arenas.values())


@pytest.mark.parametrize("policy", POLICIES, ids=["classical", "fair sharing"])
def test_trees_that_are_replaced_are_freed_without_a_garbage_collection(policy: SchedulingPolicy) -> None:
    state = cluster(queues=20, cohorts=4, pending=400, admitted=40, policy=policy)
    for turn in range(100):
        edit(state, turn)
        if turn % 7 == 0:
            assert nodes() == in_use(state)


def test_a_thousand_changes_of_queues_leave_no_objects_and_no_memory_behind() -> None:
    state = cluster(queues=20, cohorts=4, pending=0, admitted=40)

    def after_a_thousand() -> tuple[int, int]:
        for turn in range(1000):
            edit(state, turn)
        return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        objects, size = after_a_thousand()
        more_objects, more_size = after_a_thousand()
    finally:
        tracemalloc.stop()
    assert more_objects <= objects + 20
    assert more_size <= size + 200 * 1000, "more than the interpreter keeps of small tuples for reuse"


_RESIDENT = """
import resource
from app.collector import settle
from bench.cycle import cluster
from tests.core.test_trees import edit

settle()
state = cluster(queues=500, cohorts=5, pending=0, admitted=500)
for turn in range(100):
    edit(state, turn)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for turn in range(1000):
    edit(state, turn)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_process_does_not_grow_by_a_thousand_changes_of_queues() -> None:
    done = subprocess.run([sys.executable, "-c", _RESIDENT], capture_output=True, text=True, check=True)
    kib = int(done.stdout)
    assert kib < 10 * 1024, f"{kib} KiB more"


def test_a_change_of_one_clusterqueue_leaves_the_trees_of_others_the_objects_they_are() -> None:
    state = cluster(queues=20, cohorts=4, pending=0, admitted=40)
    before = dict(state.reservations.arenas)
    queue = state.reservations.cluster_queues["cq-0001"]
    state.set_cluster_queue(queue.name, replace(queue, cohort="cohort-2"))
    after = state.reservations.arenas
    assert {root for root in before if before[root] is after[root]} == {"cohort/cohort-0", "cohort/cohort-3"}
    state.check()


def test_nothing_is_left_of_workloads_that_waited_once_they_or_their_clusterqueue_are_gone() -> None:
    state = cluster(queues=2, cohorts=1, pending=200, admitted=0, full=True)
    for _ in drain(state, state.policy, NOW):
        pass
    state.set_cluster_queue("cq-0000", None)
    for number in range(1, 200, 2):
        state.set_workload(Key("ns", f"wait-{number}"), None)
    assert [each for each in gc.get_objects() if type(each) is QueueEntry] == []
