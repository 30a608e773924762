"""What a question about the standing of a LocalQueue or a workload costs: `python -m bench.standing`.

The process that serves the visibility API, without network and authentication: State, the answer, its JSON.
``first`` is the first question about a ClusterQueue, which computes its order; ``later`` each further one in the same
second, or while nothing changes; ``changed`` the first one in a later second in which a hundredth of the workloads came
or left. CPU time is that of the process; the longest step is the time for which nothing else runs on the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple

import orjson
from msgspec import structs

from api import visibility
from api.objects import Key, Raw
from app.access import Reviews, User
from app.standing import Standings
from core.model import (
    Admission,
    ClusterQueue,
    Condition,
    FlavorResource,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Workload,
)
from core.state.lookup import Lookup
from core.state.orders import KEPT_SECONDS
from core.state.state import State

QUEUES: Final = 50
FLAVOR: Final = FlavorResource("standard", "cpu")
ROUNDS: Final = 15


class AnswerCost(NamedTuple):
    """Milliseconds of CPU, of the longest step, and the bytes of an answer."""

    cpu: float
    longest: float
    size: int


class Nobody(Reviews):
    """Reviews in which a user may read nothing but his own namespace."""

    def __init__(self) -> None:
        pass

    async def may(self, user: User, attributes: Mapping[str, str]) -> bool:
        """Returns the refusal."""
        return False


def world(pending: int, running: int) -> State:
    """A full cohort of 50 ClusterQueues; all that wait are in one of them, a hundredth of them in the namespace `mine`.
    They come in random order, as from a list after a restart.
    """
    state = State()
    state.set_flavor("standard", ResourceFlavor("standard"))
    for namespace in ("mine", "others"):
        state.set_namespace(namespace, {})
    for number in range(QUEUES):
        name = f"cq-{number}"
        queue = ClusterQueue(
            name=name,
            cohort="cohort",
            groups=(ResourceGroup(("cpu",), ("standard",)),),
            quotas={FLAVOR: Quota(10_000)},
            namespace_selector=Selector(),
            preemption=Preemption("LowerPriority", "Any"),
        )
        state.set_cluster_queue(name, queue)
        for namespace in ("mine", "others"):
            state.set_local_queue(Key(namespace, name), LocalQueue(Key(namespace, name), name))
    for number in range(running):
        size = QUEUES * 10_000 // running
        assigned = PodSetAssignment("main", {"cpu": "standard"}, {"cpu": size}, 1)
        name = f"cq-{number % QUEUES}"
        conditions = tuple(Condition(kind, True, since=float(number)) for kind in ("QuotaReserved", "Admitted"))
        _add(
            state, "others", f"r{number}", name, size, 5, admission=Admission(name, (assigned,)), conditions=conditions
        )
    order = list(range(pending))
    random.Random(1).shuffle(order)
    for number in order:
        namespace = "others" if number % 100 else "mine"
        _add(state, namespace, f"w{number}", "cq-0", 1000 + number % 20 * 100, number % 3, created=float(number))
    return state


def _add(state: State, namespace: str, name: str, queue: str, cpu: int, priority: int, **fields: Any) -> None:
    key = Key(namespace, name)
    made = Workload(key, f"uid-{name}", fields.pop("created", 0.0), queue, priority, **fields,
                    pod_sets=(PodSet("main", 1, {"cpu": cpu}),))  # fmt: skip
    state.set_workload(key, made)


def change(state: State, number: int) -> None:
    """As many workloads leave and come back as the last ones, of those of others."""
    queue = state.pending.queues["cq-0"]
    leaving = [each.workload for each in list(queue)[: 2 * number] if each.workload.key.namespace == "others"][:number]
    last = max(each.workload.created for each in queue)
    for each in leaving:
        state.set_workload(each.key, None)
    for position, each in enumerate(leaving, start=1):
        state.set_workload(each.key, structs.replace(each, created=last + position))


def _raw(key: Key) -> Raw:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{key.name}", "uid": "u", "controller": True}
    return {"metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]}, "spec": {}}


async def cost(ask: Callable[[], Coroutine[Any, Any, Raw]]) -> AnswerCost:
    """Asks once."""
    gc.collect()
    asked = ask()
    longest, started = 0.0, time.process_time()
    waits = None
    while True:
        step = time.process_time()
        try:
            waits = asked.send(None)
        except StopIteration as end:
            size = len(orjson.dumps(end.value))
            now = time.process_time()
            return AnswerCost((now - started) * 1000, max(longest, now - step) * 1000, size)
        longest = max(longest, time.process_time() - step)
        if waits is not None:  # a pause: others would run now
            idle = time.process_time()
            over = asyncio.Event()
            waits.add_done_callback(lambda _, over=over: over.set())
            await over.wait()
            started += time.process_time() - idle


async def main() -> None:
    """Prints the cost of each question: the median of some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=100)
    given = parser.parse_args()
    state = world(given.pending, given.running)
    base = f"/apis/{visibility.GROUP}/{visibility.VERSIONS[0]}/namespaces/mine"
    page = visibility.Page(0, visibility.DEFAULT_STANDING_LIMIT)
    print(f"{given.pending} pending in one ClusterQueue, {given.running} with quota in {QUEUES}; medians of {ROUNDS}")
    print(f"{'question':24} {'':8} {'CPU ms':>8} {'longest step ms':>16} {'bytes':>8}")
    middle = given.pending // 200 * 100
    for path in (f"{base}/localqueues/cq-0/standing", f"{base}/workloads/w{middle}/standing"):
        about = visibility.asked(path)
        assert about is not None
        found: dict[str, list[AnswerCost]] = {"first": [], "later": [], "changed": []}
        for _ in range(ROUNDS):
            now = [0.0]
            standings = Standings(Lookup(state), _raw, asyncio.Lock(), monotonic=lambda: now[0])  # noqa: B023
            for when, costs in found.items():
                if when == "changed":
                    now[0] += KEPT_SECONDS
                    change(state, given.pending // 200)
                costs.append(await cost(lambda: standings.answer(about, page, User("u"), Nobody())))  # noqa: B023
        for when, costs in found.items():
            cpu, longest, size = (sorted(each)[ROUNDS // 2] for each in zip(*costs, strict=True))
            print(f"{about.resource:24} {when:8} {cpu:8.2f} {longest:16.2f} {size:8}")


if __name__ == "__main__":
    asyncio.run(main())
