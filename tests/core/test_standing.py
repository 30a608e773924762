"""Where a LocalQueue and its workloads stand: the numbers are the scheduler's, and no other tenant is named."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from msgspec import structs

from api import quantity
from core.explain import document
from core.explain.analysis import Audience, ExplanationBounds, explain, explain_in_steps
from core.explain.explanation import DomainRoom, Explanation, Rooms
from core.explain.sight import EVERYTHING, Sight, of_namespace
from core.explain.standing import free, standing, waiting
from core.model import (
    FlavorResource,
    Key,
    LocalQueue,
    PodSet,
    QueueingStrategy,
    Raw,
    Reserve,
    TopologyRequest,
    Workload,
)
from core.model.policy import AdmissionFairSharing, SchedulingPolicy, Strategy
from core.model.workload import replace as changed
from core.queue.admission_fair_sharing import USAGE_BASED, Consumed
from core.queue.order import queue_time
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Head
from core.state.orders import KEPT, KEPT_SECONDS, Order, Orders
from core.state.queries import PIECE, order_in_steps
from core.state.state import State
from core.steps import Steps
from tests.builders import CPU, DEFAULT, NOW, cluster_queue, cycle, put, reserved, state, workload
from tests.core.explain.test_topology import HOSTNAME, asks, racks
from tests.core.worlds import worlds
from tests.effort import cases

OTHERS = "elsewhere"
BOUNDS = ExplanationBounds(queues=100, holders=100, tries=24, nodes=100, names=20)
Result = TypeVar("Result")


def ended(steps: Steps[Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Result = end.value
            return found


def elsewhere(each: Workload) -> Workload:
    """The workload in another namespace."""
    return structs.replace(each, key=Key(OTHERS, each.key.name))


def told(found: State, name: str, sight: Sight, bounds: ExplanationBounds | None = BOUNDS) -> Explanation:
    answer = ended(explain_in_steps(found, Key("ns", name), NOW, Audience(sight, bounds)))
    assert answer is not None
    return answer


def shared() -> State:
    """A cohort of two ClusterQueues that is full: of two workloads of this namespace and three of another one."""
    found = state(cluster_queue("cq", 8000, cohort="c"), cluster_queue("secret", 4000, cohort="c"))
    found.set_namespace(OTHERS, {})
    for queue, target in (("lq", "cq"), ("theirs", "secret")):
        found.set_local_queue(Key(OTHERS, queue), LocalQueue(Key(OTHERS, queue), target))
    put(found, reserved("mine", 2000, "cq", since=5.0))
    put(found, *(elsewhere(reserved(f"hidden-{n}", 3000, "cq", since=float(n), queue="lq")) for n in range(2)))
    put(found, elsewhere(reserved("hidden-far", 4000, "secret", since=9.0, queue="theirs")))
    put(found, elsewhere(workload("hidden-first", 6000, created=1.0)), workload("ahead", 6000, created=2.0))
    return put(found, workload("next", 6000, created=3.0))


@settings(max_examples=cases(100, 2000))
@given(worlds())
def test_what_is_available_is_what_the_scheduler_would_give_and_not_one_more(found: State) -> None:
    """By flavor and resource: a workload of that size fits without preemption, one that is larger by one does not."""
    for name, arena in found.reservations.arena_of.items():
        node = found.reservations.arenas[arena].queues[name]
        if not found.reservations.active_condition(name).active:
            continue
        for fr, quota in node.quotas.items():
            available, borrowable = free(node, fr)
            assert available >= borrowable >= 0
            assert borrowable <= max(0, node.potential(fr) - quota.nominal)
            assert available == 0 or fits(found, name, fr, available)
            assert not fits(found, name, fr, available + 1)


def fits(found: State, cluster_queue: str, fr: FlavorResource, amount: int) -> bool:
    pod_sets = (PodSet("main", 1, {fr.resource: amount}),)
    newcomer = changed(
        Workload(Key("ns", "new"), "new", 99.0, cluster_queue, 0, pod_sets), allowed_flavors=(fr.flavor,)
    )
    head = Head(newcomer, cluster_queue, found.pending.demands.of(newcomer), queue_time(newcomer, found.policy))
    snapshot = found.snapshot()
    (decision,) = schedule(snapshot, [head], found.policy, NOW).decisions
    found.release(snapshot)
    return isinstance(decision, Reserve)


def test_a_local_queue_has_its_limits_by_flavor_and_what_it_could_borrow_now() -> None:
    found = state(cluster_queue("cq", 8000, cohort="c", borrowing=2000), cluster_queue("other", 4000, cohort="c"))
    put(found, reserved("a", 3000, "cq"), reserved("b", 1000, "cq", queue="cq"))
    answer = standing(found, found.pending.local_queues[Key("ns", "lq")])
    assert answer["clusterQueue"] == "cq"
    assert (answer["active"], answer["reservingWorkloads"], answer["admittedWorkloads"]) == (True, 1, 1)
    assert answer["flavors"] == [
        {
            "name": "default",
            "resources": [
                {
                    "name": CPU,
                    "nominal": "8",
                    "borrowingLimit": "2",
                    "maximum": "10",
                    "available": "6",
                    "borrowable": "2",
                    "reserved": "4",
                    "reservedInLocalQueue": "3",
                    "usedInLocalQueue": "3",
                }
            ],
        }
    ]


def test_what_others_have_taken_of_the_own_quota_can_not_be_borrowed_on_top() -> None:
    found = state(cluster_queue("cq", 8000, cohort="c"), cluster_queue("other", 4000, cohort="c"))
    put(found, reserved("a", 9000, "other", queue="other"))
    node = found.reservations.node("cq")
    assert node is not None
    assert free(node, DEFAULT) == (3000, 0)


def test_a_local_queue_without_cluster_queue_says_so() -> None:
    found = state(cluster_queue("cq"), local={"lq": "absent"})
    answer = standing(found, found.pending.local_queues[Key("ns", "lq")])
    assert (answer["active"], answer["reason"], answer["flavors"]) == (False, "ClusterQueueDoesNotExist", [])


def test_the_share_is_that_of_the_cluster_queue_and_the_usage_orders_local_queues() -> None:
    found = state(
        cluster_queue("cq", 2000, cohort="c", weight=2.0),
        cluster_queue("other", 4000, cohort="c"),
        policy=SchedulingPolicy(fair_sharing=tuple(Strategy)),
    )
    put(found, reserved("a", 5000, "cq"))
    fair = standing(found, found.pending.local_queues[Key("ns", "lq")])["fairSharing"]
    assert fair == {"weight": 2.0, "weightedShare": 250}

    rules = AdmissionFairSharing(half_life=60.0)
    found = state(
        cluster_queue("cq", 2000, admission_mode=USAGE_BASED),
        policy=SchedulingPolicy(admission_fair_sharing=rules),
        local={"lq": "cq", "idle": "cq"},
    )
    found.local_queue_usage.set_consumed(Key("ns", "lq"), Consumed({CPU: 3.0}, NOW))
    shown = standing(found, found.pending.local_queues[Key("ns", "lq")])["admissionFairSharing"]
    assert shown == {"weight": 1.0, "usage": 3.0, "localQueuesWithLess": 2, "localQueues": 3}


def page(found: State, offset: int, limit: int) -> list[tuple[str, Raw]]:
    queue = found.pending.local_queues[Key("ns", "lq")]
    order = ended(Orders(found).computed(queue.cluster_queue, 0.0))
    listed = ended(waiting(found, queue, order, offset, limit, of_namespace("ns")))
    return [(key.name, shown) for key, shown in listed]


def test_each_of_its_workloads_has_both_positions_and_what_it_lacks_by_flavor() -> None:
    found = shared()
    (first, shown), (second, _) = page(found, 0, 10)
    assert (first, second) == ("ahead", "next")
    assert (shown["positionInClusterQueue"], shown["positionInLocalQueue"]) == (1, 0)
    lacks = {"name": CPU, "requested": "6", "available": "0", "missing": "6"}
    assert shown["lacking"] == [{"name": "default", "resources": [lacks]}]
    assert [name for name, _ in page(found, 1, 10)] == ["next"]
    assert page(found, 5, 10) == page(found, 0, 0) == []


def test_a_flavor_in_which_all_is_free_is_none_that_it_lacks() -> None:
    found = state(cluster_queue("cq", 4000))
    ((_, shown),) = page(put(found, workload("w", 4000)), 0, 10)
    assert shown["lacking"] == []


def test_the_first_workload_of_a_strict_queue_is_not_named_to_another_tenant() -> None:
    found = state(cluster_queue("cq", 4000, strategy=QueueingStrategy.STRICT_FIFO))
    found.set_namespace(OTHERS, {})
    found.set_local_queue(Key(OTHERS, "lq"), LocalQueue(Key(OTHERS, "lq"), "cq"))
    put(found, elsewhere(workload("hidden", 4000, created=1.0)), workload("mine", 1000, created=2.0))
    put(found, elsewhere(reserved("hidden-too", 2000, "cq", queue="lq")))
    ((_, shown),) = page(found, 0, 10)
    assert shown["message"].startswith("behind a workload of another namespace, which is first in ClusterQueue cq")
    seen = told(found, "mine", of_namespace("ns"))
    assert seen.message.startswith("It fits now, but a workload of another namespace is first in the queue")
    assert "hidden" not in repr(document.written(seen, str))
    assert "elsewhere/hidden" in told(found, "mine", EVERYTHING).message


def test_other_tenants_are_counted_and_what_they_hold_is_added_up() -> None:
    answer = told(shared(), "next", of_namespace("ns"))
    assert (answer.place, answer.waiting) == (3, 3)
    assert ([key.name for key in answer.ahead], answer.ahead_more) == (["ahead"], 1)
    assert [holder.key.name for holder in answer.holders] == ["mine"]
    assert [(each.workloads, each.cluster_queue, dict(each.amounts)) for each in answer.others] == [
        (2, "cq", {DEFAULT: 6000}),
        (1, "", {DEFAULT: 4000}),
    ]
    assert answer.ways[0] == "it fits when 2 workloads of other namespaces have ended"
    assert answer.hidden == {OTHERS}


def test_no_name_of_another_tenant_is_in_an_answer() -> None:
    fair = SchedulingPolicy(fair_sharing=tuple(Strategy))
    for policy in (None, fair):
        found = shared()
        if policy is not None:
            found.policy = policy
        answer = told(found, "next", of_namespace("ns"))
        text = repr(document.written(answer, lambda key: f"job-of-{key}"))
        for name in ("hidden", OTHERS, "secret"):
            assert name not in text, text


def test_who_may_read_all_gets_what_is_computed_with_all_rights() -> None:
    found = shared()
    full = explain(found, Key("ns", "next"), NOW)
    seen = told(found, "next", EVERYTHING)
    assert seen == full
    assert [str(key) for key in seen.ahead] == ["elsewhere/hidden-first", "ns/ahead"]


@settings(max_examples=cases(100, 1000))
@given(worlds())
def test_a_document_is_read_as_what_was_written(found: State) -> None:
    for key in sorted(found.workloads):
        answer = ended(explain_in_steps(found, key, NOW, Audience(EVERYTHING, BOUNDS)))
        assert answer is not None
        raw = {"metadata": {"namespace": key.namespace, "name": key.name}, **document.written(answer, lambda key: "j")}
        cells = [each for each in raw["flavors"] if each["name"] == CPU]
        assert all(quantity.amount(CPU, each["requested"]) >= 0 for each in cells)
        read = document.read(raw)
        assert read == replace(answer, hidden=frozenset())
        assert set(document.jobs(raw)) == {str(key) for key in (*answer.ahead, *(h.key for h in answer.holders))}


@settings(max_examples=cases(100, 1000))
@given(worlds())
def test_an_explanation_leaves_state_as_it_was(found: State) -> None:
    """Also one that is given up half-way: nothing reads the arena any more."""
    for key in sorted(found.workloads):
        steps = explain_in_steps(found, key, NOW, Audience(EVERYTHING, BOUNDS))
        next(steps, None)
        steps.close()
    assert all(arena.readers == 0 for arena in found.reservations.arenas.values())
    found.check()


TENANT = Sight(frozenset({"none"}), cluster_queues=False, nodes=False)


def test_racks_are_named_to_all_and_who_is_there_is_counted_for_who_may_not_read_it() -> None:
    found = racks()
    for each in (asks("first", 3, 2), asks("second", 3, 2)):
        cycle(put(found, each))
    cycle(put(found, asks("third", 2, 2)))
    seen = told(found, "third", TENANT)
    (rooms,) = seen.rooms
    assert [(each.domain, each.now, each.ever, each.taken, each.others) for each in rooms.domains] == [
        ("a", 1, 4, (), 3),
        ("b", 1, 4, (), 3),
    ]
    assert rooms.tree == ()
    assert seen.ways[0] == "it fits when 1 workload of another namespace ends"
    few = replace(BOUNDS, nodes=3)
    answer = told(found, "third", EVERYTHING, few)
    assert answer.rooms == ()
    assert answer.omitted == ("the room in the topology is only computed for fewer nodes than 4",)


def test_nodes_are_counted_for_who_may_not_read_them() -> None:
    found = racks()
    cycle(put(found, asks("first", 3, 2)))
    put(found, asks("one", 3, 2, TopologyRequest(required=HOSTNAME)))
    (rooms,) = told(found, "one", TENANT).rooms
    assert {each.domain for each in rooms.domains} == {""} and rooms.tree == ()
    (rooms,) = told(found, "one", EVERYTHING).rooms
    assert "" not in {each.domain for each in rooms.domains}


def test_in_a_large_arena_the_answer_has_the_numbers_and_says_what_it_leaves_out() -> None:
    answer = told(shared(), "next", of_namespace("ns"), replace(BOUNDS, holders=3))
    assert (answer.place, answer.holders, answer.others, answer.ways) == (3, (), (), ())
    assert answer.cells[0].missing == 6000
    assert answer.omitted[0].startswith("4 workloads hold quota in 2 ClusterQueues")


def test_no_more_cycles_are_run_than_allowed() -> None:
    found = state(cluster_queue("cq", 100_000))
    put(found, *(reserved(f"r{number}", 1000, "cq", since=float(number), priority=number) for number in range(100)))
    put(found, workload("big", 99_000))
    tries = sum(1 for _ in explain_in_steps(found, Key("ns", "big"), NOW, Audience(EVERYTHING, BOUNDS)))
    assert tries <= BOUNDS.tries + 4
    assert told(found, "big", EVERYTHING).ways[0].startswith("it fits when ns/r0, ns/r1")


@settings(max_examples=cases(60, 500))
@given(worlds())
def test_the_order_in_steps_is_the_order_of_the_queue(found: State) -> None:
    for name, queue in found.pending.queues.items():
        assert ended(order_in_steps(found, name)) == queue.in_order(found.pending.local_usage)


def test_a_long_queue_is_ordered_in_short_steps() -> None:
    found = state(cluster_queue("cq", 1))
    number = 25 * PIECE
    for each in range(number):
        put(found, workload(f"w{each}", 1000, created=float(each * 7919 % number), priority=each % 3))
    assert ended(order_in_steps(found, "cq")) == found.pending.queues["cq"].in_order({})
    for each in range(0, number, 40):
        found.set_workload(Key("ns", f"w{each}"), None)
        put(found, workload(f"again-{each}", 1000, created=float(each), priority=each % 4))
    before = found.pending.queues["cq"].in_order({})[::-1]
    assert ended(order_in_steps(found, "cq", before[10:])) == found.pending.queues["cq"].in_order({})
    sticky = Key("ns", f"w{number - 1}")
    found.pending.queues["cq"].sticky = sticky
    assert ended(order_in_steps(found, "cq"))[0].workload.key == sticky


def test_orders_are_kept_for_a_second_and_in_a_bounded_number() -> None:
    names = [f"q{number}" for number in range(KEPT + 2)]
    found = state(*(cluster_queue(name, 1) for name in names), local={})
    put(found, workload("w", 1000, queue="q0"))
    orders = Orders(found)
    order = ended(orders.computed("q0", 10.0))
    assert orders.kept("q0", 10.0 + KEPT_SECONDS / 2) is order
    assert (order.has(Key("ns", "w")), order.has(Key("ns", "x"))) == (True, False)
    assert orders.kept("q0", 10.0 + KEPT_SECONDS) is order, "nothing has changed"
    put(found, workload("x", 1000, queue="q0"))
    assert orders.kept("q0", 10.0 + KEPT_SECONDS / 2) is order, "young enough"
    assert orders.kept("q0", 10.0 + KEPT_SECONDS) is None
    assert ended(orders.computed("q0", 20.0)).has(Key("ns", "x"))
    for name in names:
        ended(orders.computed(name, 20.0))
    assert sum(orders.kept(name, 20.0) is not None for name in names) == KEPT


def test_a_workload_that_the_order_does_not_have_yet_has_no_position() -> None:
    found = put(state(cluster_queue("cq", 1000)), workload("w", 2000))
    audience = Audience(EVERYTHING, BOUNDS, lambda name: Order(0.0).entries)
    answer = ended(explain_in_steps(found, Key("ns", "w"), NOW, audience))
    assert answer is not None
    assert (answer.place, answer.waiting, answer.ahead_more, answer.state) == (0, 0, 0, "waiting")


def test_a_document_keeps_the_pods_that_no_whole_slice_has() -> None:
    rooms = Rooms("main", "tas", "cloud/rack", 2, "slice of 2 pods", True, (DomainRoom("a", 1, 2),), left=1)
    key = Key("ns", "w")
    raw = document.written(Explanation(key, "waiting", rooms=(rooms,)), lambda key: "j")
    read = document.read({"metadata": {"namespace": key.namespace, "name": key.name}, **raw})
    assert read.rooms == (rooms,)
