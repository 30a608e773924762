from itertools import pairwise
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from api.objects import Key, Raw
from controller.kube.store import NOTIFIED_AT_ONCE, REMEMBERED_SECONDS, SLICE, Store, verbatim


def thing(name: str, version: int | str, uid: str = "", color: str = "red", **metadata: Any) -> Raw:
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": uid or f"u-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
        "color": color,
    }


def colors_by_color(raw: Raw) -> list[str]:
    return [raw["color"]]


@pytest.fixture
def store() -> Store[Raw]:
    return Store("things", verbatim, {"color": colors_by_color})


@pytest.fixture
def told(store: Store[Raw]) -> list[tuple[str | None, str | None]]:
    """What the handlers heard: the colors of old and new."""
    heard: list[tuple[str | None, str | None]] = []
    store.on_change(lambda old, new: heard.append((old["color"] if old else None, new["color"] if new else None)))
    return heard


Told = list[tuple[str | None, str | None]]
A = Key("ns", "a")


def test_a_list_is_stored_and_a_second_list_reports_only_changes(store: Store[Raw], told: Told) -> None:
    store.replace([thing("a", 1), thing("b", 2), thing("c", 3)], "10")
    assert store.synced and len(store) == 3
    told.clear()
    store.replace([thing("a", 1), thing("b", 12, color="blue"), thing("d", 11, color="green")], "20")
    assert sorted(told, key=str) == sorted([("red", "blue"), (None, "green"), ("red", None)], key=str)
    assert [raw["metadata"]["name"] for raw in store.by_index("color", "red")] == ["a"]
    store._check()


def test_keys_are_the_stored_ones_and_not_built_anew(store: Store[Raw]) -> None:
    """Fifty thousand new keys at once would take longer than an admission call may wait."""
    for name in ("a", "b"):
        store.observe("ADDED", thing(name, 1))
    store.put_from_write(thing("c", 2, color="blue"))
    once, again = store.keys(), store.keys()
    assert once == (A, Key("ns", "b"), Key("ns", "c"))
    assert all(type(key) is Key and key is same for key, same in zip(once, again, strict=True))
    assert store.keys_by_index("color", "red") == once[:2]
    assert store.keys_by_index("color", "green") == ()


def test_a_same_name_with_a_new_uid_is_a_deletion_and_an_addition(store: Store[Raw], told: Told) -> None:
    store.replace([thing("a", 1, uid="one")], "5")
    told.clear()
    store.observe("MODIFIED", thing("a", 7, uid="two", color="blue"))
    assert told == [("red", None), (None, "blue")]


def test_a_late_listener_gets_each_object_once_and_then_its_changes(store: Store[Raw]) -> None:
    store.replace([thing(f"n{number}", 1) for number in range(50)], "5")
    heard: Told = []
    catching_up = store.catch_up(
        lambda old, new: heard.append((old["color"] if old else None, new["color"] if new else None))
    )
    next(catching_up)
    assert set(heard) == {(None, "red")} and len(heard) < 50
    heard.clear()
    store.observe("MODIFIED", thing("n0", 6, color="blue"))
    store.observe("MODIFIED", thing("n49", 7, color="green"))
    store.observe("DELETED", thing("n48", 8))
    store.observe("ADDED", thing("n50", 9, color="white"))
    store.observe("MODIFIED", thing("n47", 10, uid="another", color="black"))
    assert heard == [("red", "blue"), (None, "white"), (None, "black")], "of what it knows, and of what is new"
    for _ in catching_up:
        pass
    assert heard.count((None, "green")) == 1
    assert len(heard) == 3 + 50 - NOTIFIED_AT_ONCE - 2, "n48 went and n47 was told as another before their turn came"


def test_a_list_is_entered_and_what_it_lacks_deleted_in_small_steps(store: Store[Raw]) -> None:
    store.replace([thing(f"old{number}", 1) for number in range(100)], "5")
    listing = store.listing()
    for number in range(100):
        assert listing.add(thing(f"new{number}", 6))
    old, sizes = set(store.keys()), [100]
    for _ in listing.enter("10"):
        sizes.append(len(store))
    assert max(abs(after - before) for before, after in pairwise(sizes)) <= SLICE
    assert len(store) == 100
    assert old.isdisjoint(store.keys())
    store._check()


def test_what_changes_while_a_list_is_entered_stays_as_it_is(store: Store[Raw]) -> None:
    store.replace([thing(f"old{number}", 1) for number in range(2 * SLICE)], "5")
    entering = store.listing().enter("10")
    next(entering)
    first, *_, last = store.keys()
    store.remove_from_write(first, f"u-{first.name}")
    store.put_from_write(thing(last.name, 12, color="blue"))
    for _ in entering:
        pass
    assert [raw["color"] for raw in store] == ["blue"]
    store.observe("MODIFIED", thing(first.name, 11))
    assert first not in store, "its deletion is known"


def test_a_version_seen_is_no_news(store: Store[Raw], told: Told) -> None:
    store.observe("ADDED", thing("a", 5))
    store.observe("MODIFIED", thing("a", 5, color="blue"))
    assert told == [(None, "red")]


def test_the_answer_of_a_write_is_stored_immediately_and_older_events_do_not_undo_it(
    store: Store[Raw], told: Told
) -> None:
    store.replace([thing("a", 5)], "5")
    told.clear()
    store.put_from_write(thing("a", 9, color="blue"))
    assert told == [("red", "blue")]
    store.observe("MODIFIED", thing("a", 7, color="green"))
    store.observe("MODIFIED", thing("a", 9, color="blue"))
    assert told == [("red", "blue")]
    store.observe("MODIFIED", thing("a", 10, color="black"))
    assert told[-1] == ("blue", "black")


def test_a_write_answered_late_does_not_take_the_watch_back(store: Store[Raw]) -> None:
    store.observe("ADDED", thing("a", 20, color="blue"))
    assert store.put_from_write(thing("a", 9))["color"] == "blue"


def test_a_created_object_is_kept_if_the_list_is_older(store: Store[Raw]) -> None:
    store.replace([], "10")
    store.put_from_write(thing("a", 15))
    store.replace([], "12")
    assert A in store
    store.replace([], "16")
    assert A not in store


def test_a_deletion_wins_over_answers_that_come_later(store: Store[Raw]) -> None:
    store.observe("ADDED", thing("a", 5))
    store.observe("DELETED", thing("a", 9))
    store.put_from_write(thing("a", 8))
    assert A not in store
    store.put_from_write(thing("a", 12, uid="new"))
    assert A in store


def test_a_delete_is_not_undone_by_older_events(store: Store[Raw], told: Told) -> None:
    store.observe("ADDED", thing("a", 5))
    store.remove_from_write(A, "u-a")
    store.observe("MODIFIED", thing("a", 7))
    store.observe("DELETED", thing("a", 8))
    assert told == [(None, "red"), ("red", None)]


def test_a_deletion_is_remembered_as_long_as_an_answer_to_a_write_can_be_on_its_way() -> None:
    """Not longer: hours of deletions would take megabytes."""
    now = [0.0]
    store = Store("things", verbatim, clock=lambda: now[0])
    for at, name in ((0.0, "a"), (REMEMBERED_SECONDS - 1, "b"), (REMEMBERED_SECONDS + 1, "c")):
        now[0] = at
        store.observe("ADDED", thing(name, 1))
        store.remove_from_write(Key("ns", name), f"u-{name}")
    for name in "abc":
        store.put_from_write(thing(name, 2))
    assert [raw["metadata"]["name"] for raw in store] == ["a"]


def test_a_late_deletion_of_a_predecessor_leaves_the_successor(store: Store[Raw]) -> None:
    store.put_from_write(thing("a", 9, uid="two"))
    store.observe("DELETED", thing("a", 7, uid="one"))
    assert A in store


def test_an_object_that_leaves_a_selector_may_come_back(store: Store[Raw]) -> None:
    store.observe("ADDED", thing("a", 5))
    store.observe("DELETED", thing("a", 6))
    store.observe("ADDED", thing("a", 7))
    assert A in store


def test_after_a_restore_from_backup_the_list_is_right_about_everything(store: Store[Raw]) -> None:
    store.replace([thing("a", 90), thing("gone", 95)], "100")
    store.observe("DELETED", thing("back", 101))
    store.replace([thing("a", 40, color="blue"), thing("back", 30)], "50")
    assert {raw["metadata"]["name"]: raw["color"] for raw in store} == {"a": "blue", "back": "red"}
    store.observe("MODIFIED", thing("a", 51, color="green"))
    assert store.get(A) == thing("a", 51, color="green")


def test_opaque_versions_follow_the_watch(store: Store[Raw]) -> None:
    store.replace([thing("a", "x-9")], "x-10")
    store.observe("MODIFIED", thing("a", "x-1", color="blue"))
    assert store.get(A) == thing("a", "x-1", color="blue")


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": "x"}},
        thing("x", 5) | {"color": None},
        {"metadata": {"name": ["x"]}},
    ],
    ids=["empty", "null metadata", "no uid", "null where a list is made", "a list as name"],
)
def test_an_object_that_does_not_decode_is_skipped_and_the_rest_flow(odd: Raw) -> None:
    store: Store[str] = Store("things", lambda raw: str(raw["color"].upper()))
    assert store.replace([odd, thing("a", 1)], "9") == 1
    assert not store.observe("ADDED", odd)
    assert store.observe("ADDED", thing("b", 12))
    assert list(store) == ["RED", "RED"]


def test_an_object_that_stops_decoding_keeps_its_last_good_value() -> None:
    store: Store[str] = Store("things", lambda raw: str(raw["color"].upper()))
    store.replace([thing("a", 1)], "9")
    store.replace([thing("a", 10) | {"color": None}], "19")
    assert list(store) == ["RED"]


def test_a_handler_that_fails_stops_neither_the_others_nor_the_store(store: Store[Raw]) -> None:
    heard: list[Raw | None] = []

    def fail(old: Raw | None, new: Raw | None) -> None:
        raise RuntimeError("ours")

    store.on_change(fail)
    store.on_change(lambda old, new: heard.append(new))
    with structlog.testing.capture_logs() as logs:
        store.observe("ADDED", thing("a", 1))
    assert len(heard) == 1 and A in store
    assert [each["event"] for each in logs] == ["store handler failed"]


def test_a_late_handler_gets_the_existing_objects(store: Store[Raw]) -> None:
    store.observe("ADDED", thing("a", 1))
    heard: list[Any] = []
    store.on_change(lambda old, new: heard.append((old, new)))
    assert heard == [(None, thing("a", 1))]


def test_managed_fields_are_not_kept(store: Store[Raw]) -> None:
    store.observe("ADDED", thing("a", 1, managedFields=[{"manager": "kubectl"}]))
    assert store.get(A) == thing("a", 1)


def test_an_index_that_is_not_declared_is_an_error(store: Store[Raw]) -> None:
    with pytest.raises(KeyError):
        store.by_index("size", "1")


@given(st.data())
def test_whatever_the_watch_repeats_or_delays_the_store_ends_as_the_server(data: st.DataObject) -> None:
    """A server's history; our writes' answers arrive any time after the fact, the watch in order but later."""
    store: Store[Raw] = Store("things", verbatim, {"color": colors_by_color})
    live: dict[str, Raw] = {}
    history: list[tuple[str, Raw]] = []
    answers: list[Raw] = []
    seen = 0
    for version in range(1, data.draw(st.integers(1, 30)) + 1):
        name = data.draw(st.sampled_from("abc"))
        if name in live and data.draw(st.booleans()):
            history.append(("DELETED", thing(name, version, uid=live.pop(name)["metadata"]["uid"])))
        else:
            uid = live[name]["metadata"]["uid"] if name in live else f"{name}-{version}"
            raw = thing(name, version, uid=uid, color=data.draw(st.sampled_from(["red", "blue"])))
            history.append(("MODIFIED" if name in live else "ADDED", raw))
            live[name] = raw
            answers += [raw] * data.draw(st.integers(0, 1))
        while data.draw(st.booleans()) and answers:
            store.put_from_write(answers.pop(data.draw(st.integers(0, len(answers) - 1))))
        while seen < len(history) and data.draw(st.booleans()):
            store.observe(*history[seen])
            seen += 1
        store._check()
    for answer in answers:
        store.put_from_write(answer)
    for event in history[seen:]:
        store.observe(*event)
    store._check()
    assert {raw["metadata"]["name"]: raw for raw in store} == live
