"""Which changes and waits of Workloads become notifications."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import Admission, Key, PodSetAssignment, Workload
from core.model.workload import replace
from core.notifications.model import Notification, NotificationKind, NotificationPolicy
from core.notifications.watch import Watch
from core.workload import transitions
from core.workload.transitions import condition
from tests.effort import cases

NEW = Workload(Key("ns", "w"), "uid", 1_000.0, "lq", 5, ())
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "default"}, {"cpu": 1000}, 1),))
HELD = transitions.reserved(NEW, ADMISSION, 1_010.0)
PREEMPTED = transitions.preempted(HELD, "InClusterQueue", "", 1_050.0)
POLICY = NotificationPolicy(waiting_seconds=100.0, overtaken_by=2, evictions=3, within_seconds=1000.0)
K = NotificationKind


def ended(reason: str, message: str = "") -> Workload:
    return condition(HELD, "Finished", status=True, reason=reason, message=message, now=1_060.0)


def told(old: Workload | None, new: Workload | None, policy: NotificationPolicy = POLICY) -> list[Notification]:
    return Watch(policy).changed(old, new, 1_100.0)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        pytest.param(NEW, HELD, [K.ADMITTED], id="admitted"),
        pytest.param(None, HELD, [], id="what was admitted before the controller led is no news"),
        pytest.param(HELD, HELD, [], id="nothing has changed"),
        pytest.param(HELD, PREEMPTED, [K.PREEMPTED], id="preempted"),
        pytest.param(HELD, ended("Failed", "BackoffLimitExceeded"), [K.FAILED], id="the job failed"),
        pytest.param(HELD, ended("Succeeded"), [], id="a job that succeeded causes none"),
        pytest.param(
            HELD,
            condition(
                HELD, "Evicted", status=True, reason="DeactivatedDueToRequeuingLimitExceeded", message="", now=9.0
            ),
            [K.FAILED],
            id="a workload that was given up has failed",
        ),
        pytest.param(
            HELD,
            condition(HELD, "Evicted", status=True, reason="Deactivated", message="", now=9.0),
            [],
            id="one that its owner deactivated has not",
        ),
        pytest.param(replace(NEW, variant_of="p"), replace(HELD, variant_of="p"), [], id="variants are their parent's"),
        pytest.param(HELD, None, [], id="deleted"),
    ],
)
def test_changes(old: Workload | None, new: Workload | None, kinds: list[NotificationKind]) -> None:
    assert [each.kind for each in told(old, new)] == kinds


def test_a_notification_has_what_the_condition_has() -> None:
    assert told(HELD, ended("Failed", "why")) == [
        Notification(K.FAILED, 1_060.0, NEW.key, "uid", None, "lq", "cq", 5, reason="Failed", message="why")
    ]
    assert [each.seconds for each in told(NEW, HELD)] == [100]


def test_only_what_a_receiver_wants_is_made() -> None:
    policy = NotificationPolicy(wanted=frozenset({K.FAILED}))
    assert told(NEW, HELD, policy) == []
    assert [each.kind for each in told(HELD, ended("Failed"), policy)] == [K.FAILED]


def waits(watch: Watch, workload: Workload, until: float) -> list[tuple[int, NotificationKind, int | None]]:
    found = watch.due(until, {workload.key: workload}.get, lambda _: ("cq", "no quota"), 100)
    watch._check()
    return [(int(each.at), each.kind, each.times) for each in found]


def test_a_wait_is_told_when_it_is_long_enough_and_each_time_that_it_has_doubled() -> None:
    watch = Watch(POLICY)
    watch.changed(None, NEW, 1_000.0)
    assert waits(watch, NEW, 1_099.0) == []
    assert waits(watch, NEW, 1_850.0) == [(1_100, K.WAITING, None), (1_200, K.WAITING, None),
                                          (1_400, K.WAITING, None), (1_800, K.WAITING, None)]  # fmt: skip


def test_a_controller_that_starts_repeats_only_what_may_have_been_lost() -> None:
    watch = Watch(POLICY)
    watch.changed(None, NEW, 1_500.0)
    assert waits(watch, NEW, 1_500.0) == [(1_400, K.WAITING, None)]
    again = Watch(POLICY)
    again.changed(None, NEW, 1_700.0)
    assert waits(again, NEW, 1_799.0) == []


@pytest.mark.parametrize("end", [HELD, ended("Succeeded"), replace(NEW, active=False), replace(NEW, deleting=True)])
def test_what_no_longer_waits_is_not_told(end: Workload) -> None:
    watch = Watch(POLICY)
    watch.changed(None, NEW, 1_000.0)
    watch.changed(NEW, end, 1_010.0)
    assert waits(watch, NEW, 2_000.0) == []


def test_a_wait_begins_anew_when_the_workload_is_requeued() -> None:
    watch = Watch(POLICY)
    watch.changed(None, NEW, 1_000.0)
    back = condition(NEW, "Requeued", status=True, reason="Preempted", message="", now=1_090.0)
    watch.changed(NEW, back, 1_090.0)
    assert waits(watch, back, 1_189.0) == []
    assert waits(watch, back, 1_190.0) == [(1_190, K.WAITING, None)]


def overtaker(name: str, *, created: float = 1_001.0, priority: int = 5, queue: str = "cq") -> Workload:
    new = replace(NEW, key=Key("ns", name), uid=name, created=created, priority=priority)
    return transitions.reserved(new, replace(ADMISSION, cluster_queue=queue), created + 9)


@pytest.mark.parametrize(
    ("overtakers", "starves"),
    [
        pytest.param([overtaker("a"), overtaker("b", priority=0)], True, id="younger, and no higher priority"),
        pytest.param([overtaker("a"), overtaker("a")], False, id="one that is admitted twice counts once"),
        pytest.param([overtaker("a"), overtaker("b", created=900.0)], False, id="an older one came first"),
        pytest.param([overtaker("a"), overtaker("b", priority=6)], False, id="a higher priority goes first"),
        pytest.param([overtaker("a"), overtaker("b", queue="other")], False, id="of another ClusterQueue"),
    ],
)
def test_a_workload_starves_when_others_overtake_it(overtakers: list[Workload], starves: bool) -> None:
    watch = Watch(POLICY)
    watch.changed(None, NEW, 1_000.0)
    for each in overtakers:
        watch.changed(replace(each, admission=None, conditions=()), each, 1_010.0)
    found = waits(watch, NEW, 1_100.0)
    assert found == [(1_100, K.WAITING, None), *([(1_100, K.STARVING, 2)] if starves else [])]


def evicted(watch: Watch, at: float, reason: str = "InClusterQueue") -> list[NotificationKind]:
    running = transitions.reserved(NEW, ADMISSION, at - 1)
    if reason == "InClusterQueue":
        gone = transitions.preempted(running, reason, "", at)
    else:
        gone = condition(running, "Evicted", status=True, reason=reason, message="", now=at)
    return [each.kind for each in watch.changed(running, gone, at)]


def test_the_same_eviction_again_and_again_is_a_loop() -> None:
    watch = Watch(POLICY)
    assert [evicted(watch, at) for at in (1_100.0, 1_200.0)] == [[K.PREEMPTED], [K.PREEMPTED]]
    assert evicted(watch, 1_300.0) == [K.PREEMPTED, K.LOOP]
    assert evicted(watch, 1_400.0) == [K.PREEMPTED], "the next loop begins anew"
    watch._check()


@pytest.mark.parametrize(
    "times",
    [
        pytest.param([(1_100.0, "InClusterQueue"), (1_200.0, "PodsReadyTimeout"), (1_300.0, "InClusterQueue")]),
        pytest.param([(1_100.0, "InClusterQueue"), (1_200.0, "InClusterQueue"), (2_200.0, "InClusterQueue")]),
    ],
    ids=["other reasons between", "too far apart"],
)
def test_other_evictions_are_no_loop(times: list[tuple[float, str]]) -> None:
    watch = Watch(POLICY)
    assert K.LOOP not in [kind for at, reason in times for kind in evicted(watch, at, reason)]


@settings(max_examples=cases(30, 300))
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([NEW, HELD, PREEMPTED, None]), st.integers(0, 400))))
def test_any_order_of_changes_leaves_the_structure_whole(
    steps: list[tuple[int, Workload | None, int]],
) -> None:
    watch, now, known = Watch(POLICY), 1_000.0, dict[Key, Workload]()
    for number, state, passed in steps:
        now += passed
        key = Key("ns", str(number))
        old = known.pop(key, None)
        if state is not None:
            known[key] = replace(state, key=key, uid=str(number))
        if old is not None or state is not None:
            watch.changed(old, known.get(key), now)
        for each in watch.due(now, known.get, lambda _: ("cq", ""), 1000):
            assert each.at <= now
        watch._check()
