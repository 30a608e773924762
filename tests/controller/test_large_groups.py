"""Large groups of pods: decided beside the event loop, by what is remembered of their specs."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers import jobs
from controller.reconcilers.jobs import LARGE, JobReconciler
from controller.run.watched import rows
from controller.settings import ControllerSettings
from core.jobs.kinds import POD, POD_GROUP
from core.jobs.kinds.pod_group import Sorted, sort_out
from core.jobs.pod_shape import computed_role, requests, role_hash
from core.model import Key
from core.state.state import State
from core.wire.pod_requests import RequestRules, effective
from tests.controller.test_caches import made
from tests.core.jobs.samples import NOW, read
from tests.core.jobs.test_pod_group import admitted, member, workload_of
from tests.effort import cases

KEY = Key("ns", "group/group")


def reconciler(pods: int) -> JobReconciler:
    caches = Caches(State(), rows([POD]))
    caches.namespaces.observe("ADDED", made("Namespace", "ns"))
    for place in range(pods):
        caches.stores[POD.resource].observe("ADDED", member(f"p{place}"))
    caches.start()
    metrics = QueueingMetrics(CollectorRegistry())
    return JobReconciler(
        POD, caches, cast(Writer, None), cast(Recorder, None), metrics, ControllerSettings(), clock=lambda: NOW
    )


@pytest.mark.parametrize(("pods", "aside"), [(LARGE, False), (LARGE + 1, True)])
async def test_a_large_group_is_decided_in_another_thread(
    pods: int, aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    decide = cast(Any, jobs).decide

    def noted(situation: Any) -> Any:
        threads.append(threading.get_ident())
        return decide(situation)

    monkeypatch.setattr(jobs, "decide", noted)
    found = await reconciler(pods)._decided(KEY)
    assert found is not None
    assert [each != threading.get_ident() for each in threads] == [aside]


@pytest.mark.parametrize(("pods", "delayed"), [(LARGE, 0), (LARGE + 1, 1)])
async def test_many_changes_of_a_large_group_are_one_look_a_moment_later(pods: int, delayed: int) -> None:
    looked = reconciler(pods)
    for _ in range(3):
        looked.changed(KEY)
    assert (looked.queue.delayed, len(looked.queue)) == (delayed, 1 - delayed)


PODS = st.lists(
    st.tuples(
        st.sampled_from(["1", "2", "500m"]),
        st.booleans(),
        st.sampled_from(["Running", "Succeeded", "Failed", "Pending"]),
        st.sampled_from(["", "zzz", "same"]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=cases(50, 500))
@given(PODS, PODS)
def test_what_is_remembered_of_pods_is_what_is_computed_afresh(before: list[Any], now: list[Any]) -> None:
    """A pod that changes is looked at anew; the others are not."""
    caches, rules = Caches(State(), rows([POD])), RequestRules()
    raw = admitted(workload_of(*(member(name, "driver" if name == "a" else "worker") for name in "abc")))
    store = caches.stores[POD.resource]
    for version, pods in enumerate((before, now), start=1):
        received = [
            member(
                f"p{place}", cpu=cpu, gated=gated, phase=phase, resourceVersion=str(10 * version),
                annotations={"kueue.x-k8s.io/role-hash": role} if role else {},
            )
            for place, (cpu, gated, phase, role) in enumerate(pods)
        ]  # fmt: skip
        for each in received:
            store.observe("MODIFIED", {**each, "metadata": {**each["metadata"]}, "spec": {**each["spec"]}})
        kept = [each for each in (store.get(("ns", pod["metadata"]["name"])) for pod in received) if each is not None]
        for pod, lean in zip(received, kept, strict=True):
            assert computed_role(lean) == role_hash(pod["spec"])
            assert requests(lean, rules) == effective(pod["spec"], rules).requests
        found, afresh = (
            sort_out(POD_GROUP.beside(POD_GROUP.whole(pods, NOW), raw, read(raw), rules), raw["spec"]["podSets"])
            for pods in (kept, received)
        )
        assert _names(found) == _names(afresh)


def _names(found: Sorted) -> list[Any]:
    lists = (found.kept, found.excess, found.replaced, found.uncounted)
    return [*([pod["metadata"]["name"] for pod in pods] for pods in lists), found.roles, found.absent]
