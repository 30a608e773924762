"""Which situations an edit of one object is asked about: before it, and after it."""

from __future__ import annotations

from msgspec.structs import replace

from api.objects import Key
from core.forecast.edits import ObjectEdit, PriorityClass, arenas, concerned, situations
from core.forecast.effects import effects
from core.model import Cohort, LocalQueue, ResourceFlavor, StopPolicy
from core.model.effects import Effects, StoppedWorkload
from core.state.state import State
from tests.builders import cluster_queue, put, reserved, state, workload
from tests.core.test_effects import NOW, RECLAIMS, names, two_teams


def told(found: State, edit: ObjectEdit) -> Effects:
    return effects(*situations(found, edit, arenas(found, edit), NOW))


def test_a_cluster_queue_that_joins_a_cohort_is_asked_about_with_the_arena_it_joins() -> None:
    found = put(state(cluster_queue("alone", 2), cluster_queue("b", 4, cohort="all")), workload("waits", 3))
    old = found.reservations.cluster_queues["alone"]
    edit = ObjectEdit(old, replace(old, cohort="all"))
    assert len(arenas(found, edit)) == 2
    assert concerned(found, arenas(found, edit)) == (0, 1)
    assert names(told(found, edit).starting) == ["waits"]


def test_an_edit_of_another_arena_is_not_asked_about() -> None:
    found = state(cluster_queue("a", 2), cluster_queue("b", 4))
    old = found.reservations.cluster_queues["a"]
    assert len(arenas(found, ObjectEdit(old, replace(old, weight=2.0)))) == 1


def test_a_cluster_queue_that_is_deleted_keeps_what_runs_until_it_ends() -> None:
    found = put(state(cluster_queue("a", 2)), reserved("runs", 1, "a"), workload("waits", 2))
    effect = told(found, ObjectEdit(found.reservations.cluster_queues["a"], None))
    assert effect.stopped == ()
    assert names(effect.never) == ["waits"]


def test_a_new_cluster_queue_is_asked_about_with_the_local_queues_that_name_it() -> None:
    found = put(state(cluster_queue("other", 1), local={"lq": "new"}), workload("waits", 1))
    assert names(told(found, ObjectEdit(None, cluster_queue("new", 1))).starting) == ["waits"]


def test_quota_of_a_cohort_that_goes_leaves_a_large_workload_without_a_start() -> None:
    found = state(cluster_queue("a", 1, cohort="all"))
    quotas = {fr: replace(quota, nominal=8) for fr, quota in found.reservations.cluster_queues["a"].quotas.items()}
    found.set_cohort("all", Cohort("all", quotas=quotas))
    put(found, reserved("runs", 1, "a"), workload("large", 9))
    assert names(told(found, ObjectEdit(Cohort("all", quotas=quotas), None)).never) == ["large"]


def test_a_local_queue_that_drains_stops_what_runs_through_it() -> None:
    found = put(state(cluster_queue("a", 2)), reserved("runs", 1, "a"), workload("waits", 2))
    old = found.pending.local_queues[Key("ns", "lq")]
    effect = told(found, ObjectEdit(old, replace(old, stop_policy=StopPolicy.HOLD_AND_DRAIN)))
    assert [stop.key.name for stop in effect.stopped] == ["runs"]
    assert names(effect.never) == ["waits"]
    moved = told(found, ObjectEdit(old, LocalQueue(old.key, "missing")))
    assert names(moved.never) == ["waits"]


def test_the_labels_of_a_flavor_decide_what_can_start_in_it() -> None:
    found = put(state(cluster_queue("a", 2)), workload("waits", 1))
    old = ResourceFlavor("default")
    taken = told(found, ObjectEdit(old, None))
    assert taken == Effects(waiting=1), "a flavor in use is not deleted"
    assert arenas(found, ObjectEdit(old, None)) == arenas(
        found, ObjectEdit(old, replace(old, node_labels={"pool": "x"}))
    )


def test_a_class_that_gets_another_value_is_followed_but_not_where_a_person_set_it() -> None:
    found = put(
        state(cluster_queue("a", 1, preemption=replace(RECLAIMS, within_cluster_queue="LowerPriority"))),
        reserved("runs", 1, "a", priority=5),
        workload("follows", 1, priority=3, priority_class="gold"),
        workload("by-hand", 1, priority=4, priority_class="gold"),
    )
    effect = told(found, ObjectEdit(PriorityClass("gold", 3), PriorityClass("gold", 9)))
    assert effect.stopped == (StoppedWorkload(Key("ns", "runs"), "a", "InClusterQueue", Key("ns", "follows")),)
    assert names(effect.starting) == ["follows"]


def test_asking_changes_nothing() -> None:
    found = two_teams()
    before = dict(found.workloads)
    old = found.reservations.cluster_queues["a"]
    told(found, ObjectEdit(old, None))
    found.check()
    assert found.workloads == before
    assert found.reservations.cluster_queues["a"] is old
