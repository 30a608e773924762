"""Whoever follows the pods is told of each once, and then of its changes, also of those in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.reconcilers import living
from controller.reconcilers.living import LivingPods, living_pods, read
from controller.settings import Reading
from core.guard.pods import RunningPod
from tests.controller.test_guard import pod
from tests.effort import cases


class Follower:
    """What a handler knows of the pods; it is called with what it knows as the old state."""

    def __init__(self) -> None:
        self.known: dict[str, RunningPod] = {}

    def changed(self, old: RunningPod | None, new: RunningPod | None) -> None:
        either = new or old
        assert either is not None
        assert self.known.pop(either.uid, None) is old
        if new is not None:
            self.known[new.uid] = new


def see(pods: LivingPods, number: int, version: int, event: str) -> None:
    found = pod(f"p{number}", resourceVersion=str(version))
    assert pods.observe(event, found)


@settings(max_examples=cases(40, 1000), deadline=None)
@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["MODIFIED", "DELETED"])), max_size=60),
    st.integers(1, 3),
)
def test_a_handler_knows_all_pods_whatever_changes_while_it_catches_up(
    count: int, changes: list[tuple[int, str]], at_once: int
) -> None:
    follower, left = Follower(), list(changes)
    version = 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(living, "SLICE", 2)
        patch.setattr(living, "PARTS", 3)
        pods = living_pods(Reading())
        for number in range(count):
            see(pods, number, 1, "ADDED")
        for _ in pods.catch_up(follower.changed):
            for number, event in left[:at_once]:
                version += 1
                see(pods, number, version, event)
            left = left[at_once:]
        for number, event in left:
            version += 1
            see(pods, number, version, event)
        assert follower.known == {each.uid: each for each in pods}
        assert len(pods) == len(follower.known)
        assert all(pods.get(uid) is each for uid, each in follower.known.items())


def test_a_pod_that_is_nested_too_deep_is_read() -> None:
    pod = b'{"metadata":{"name":"x","uid":"u","managedFields":[DEEP]},"spec":{"nodeName":"n"}}'
    line = b'{"type":"ADDED","object":' + pod.replace(b"DEEP", b'{"a":' * 9_000 + b"1" + b"}" * 9_000) + b"}"
    event, found = read(line)
    assert event == "ADDED"
    assert (found["metadata"]["name"], found["spec"]) == ("x", {"nodeName": "n"})
