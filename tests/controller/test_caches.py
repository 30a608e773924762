"""What the caches make of what the API server holds: in which order State learns of it, and what makes it read
again.
"""

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from api import resources
from api.objects import Raw
from controller.cache.caches import Caches, Interned
from controller.cache.sweeps import Sweeps
from controller.kube.store import NOTIFIED_AT_ONCE
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Workload
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy
from core.state.state import State
from core.wire import decode
from core.wire.decode import WorkloadContext


def made(kind: str, name: str, spec: Raw | None = None, *, namespace: str = "", **more: Any) -> Raw:
    metadata = {
        "name": name,
        "uid": f"{kind}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "metadata": metadata, "spec": spec or {}, **more}


def workload(name: str, cpu: str | None = "1") -> Raw:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return made("Workload", name, {"queueName": "lq", "podSets": [pod_set]}, namespace="ns")


def limit_range(cpu: str, version: str = "1") -> Raw:
    found = made(
        "LimitRange", "defaults", {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]}, namespace="ns"
    )
    found["metadata"]["resourceVersion"] = version
    return found


def filled(policy: SchedulingPolicy | None = None) -> Caches:
    caches = Caches(State(policy), rows([BATCH_JOB]))
    covered = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": covered}]
    # In the order in which it must not matter: the workload first, what it depends on last.
    caches.workloads.observe("ADDED", workload("w", cpu=None))
    caches.local_queues.observe("ADDED", made("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="ns"))
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    caches.cluster_queues.observe("ADDED", made("ClusterQueue", "cq", spec))
    caches.stores[resources.RESOURCE_FLAVORS].observe("ADDED", made("ResourceFlavor", "default"))
    caches.namespaces.observe("ADDED", made("Namespace", "ns"))
    caches.limit_ranges.observe("ADDED", limit_range("2"))
    return caches


def asked(caches: Caches, name: str = "w") -> int:
    found = caches.get(Key("ns", name))
    assert found is not None
    return found.pod_sets[0].requests["cpu"]


def test_state_is_empty_until_everything_was_listed_and_then_knows_it_all() -> None:
    caches = filled()
    assert (caches.state.workloads, caches.started) == ({}, False)
    caches.start()
    assert caches.started
    assert [head.workload.key.name for head in caches.state.heads(0.0)] == ["w"]


def test_the_first_reading_leaves_room_for_others_and_misses_no_change_meanwhile() -> None:
    caches = filled()
    for number in range(200):
        caches.workloads.observe("ADDED", workload(f"w{number}"))
    reading = caches.starting()
    known = [len(caches.state.workloads)]
    while len(caches.state.workloads) < 100:
        next(reading)
        known.append(len(caches.state.workloads))
    for name in ("w1", "w199"):  # one that was read, and one that was not
        changed = workload(name, cpu="3")
        changed["metadata"]["resourceVersion"] = "2"
        caches.workloads.observe("MODIFIED", changed)
    gone = workload("w198")
    gone["metadata"]["resourceVersion"] = "3"
    caches.workloads.observe("DELETED", gone)
    caches.workloads.observe("ADDED", workload("new"))
    known.append(len(caches.state.workloads))
    for _ in reading:
        known.append(len(caches.state.workloads))
    assert max(after - before for before, after in pairwise(known)) <= NOTIFIED_AT_ONCE, "webhooks have to wait"
    assert caches.started
    assert (asked(caches, "w1"), asked(caches, "w199"), asked(caches, "new")) == (3000, 3000, 1000)
    assert caches.get(Key("ns", "w198")) is None
    assert len(caches.state.workloads) == 201


def test_a_workload_is_read_with_the_limits_of_its_namespace_whatever_was_listed_first() -> None:
    caches = filled()
    caches.start()
    assert asked(caches) == 2000


def test_a_changed_limit_range_makes_the_workloads_of_its_namespace_be_read_again() -> None:
    caches = filled()
    caches.start()
    caches.limit_ranges.observe("MODIFIED", limit_range("3", "2"))
    assert asked(caches) == 3000
    caches.limit_ranges.observe("DELETED", limit_range("3", "3"))
    found = caches.get(Key("ns", "w"))
    assert found is not None
    assert "cpu" not in found.pod_sets[0].requests


def test_an_overhead_that_changes_makes_all_workloads_be_read_again_in_steps() -> None:
    caches, sweeps = filled(), Sweeps()
    for number in range(100):
        raw = workload(f"w{number}")
        raw["spec"]["podSets"][0]["template"]["spec"]["runtimeClassName"] = "heavy"
        caches.workloads.observe("ADDED", raw)
    caches.start()
    caches.in_steps = sweeps.add
    caches.runtime_classes.observe("ADDED", made("RuntimeClass", "heavy") | {"overhead": {"podFixed": {"cpu": "2"}}})
    names = [f"w{number}" for number in range(100)]
    read = [0]
    while sweeps.step():
        read.append(sum(asked(caches, name) == 3000 for name in names))
    assert max(after - before for before, after in pairwise(read)) <= NOTIFIED_AT_ONCE, "webhooks have to wait"
    assert [asked(caches, name) for name in names] == [3000] * 100


def test_a_workload_that_cannot_be_decoded_again_is_decoded_later_and_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches, later = filled(), list[Callable[[], None]]()
    for name in ("broken", "z"):
        caches.workloads.observe("ADDED", workload(name, None))
    caches.start()
    caches.later = later.append
    mend = breaks("broken", monkeypatch)
    caches.limit_ranges.observe("MODIFIED", limit_range("3", "2"))
    assert [asked(caches, name) for name in ("w", "broken", "z")] == [3000, 2000, 3000]
    later.pop()()
    assert len(later) == 1, "it failed again"
    for version in ("3", "4"):
        caches.limit_ranges.observe("MODIFIED", limit_range("3", version))
    assert len(later) == 1, "however often the rules change"
    mend()
    later.pop()()
    assert [asked(caches, name) for name in ("w", "broken", "z")] == [3000, 3000, 3000]
    assert not later


def breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Workloads of this name cannot be decoded, until the function is called that this returns."""
    decoded, broken = decode.workload, {name}

    def fails(raw: Raw, context: WorkloadContext, before: Workload | None = None) -> Workload:
        if raw["metadata"]["name"] in broken:
            raise ValueError("not readable")
        return decoded(raw, context, before)

    monkeypatch.setattr("core.wire.decode.workload", fails)
    return broken.clear


@pytest.mark.parametrize("listed", [False, True])
def test_an_object_that_cannot_enter_state_is_entered_after_a_while_as_it_is_then(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else State would be behind the store for as long as nothing changes the object."""
    caches, later, known = filled(), list[Callable[[], None]](), list[Key]()
    caches.later, caches.caught_up = later.append, known.append
    mend = breaks("broken", monkeypatch)
    if not listed:
        caches.start()
    caches.workloads.observe("ADDED", workload("broken", None))
    if listed:
        caches.start()
    assert caches.get(Key("ns", "broken")) is None
    later.pop()()
    assert (caches.get(Key("ns", "broken")), len(later), known) == (None, 1, []), "it failed again"
    mend()
    later.pop()()
    assert (asked(caches, "broken"), later, known) == (2000, [], [Key("ns", "broken")])
    assert caches.state.pending.where(Key("ns", "broken")) == "cq"


def test_a_workload_that_was_deleted_before_it_could_be_entered_again_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    caches, later = filled(), list[Callable[[], None]]()
    caches.later = later.append
    caches.start()
    breaks("w", monkeypatch)
    changed = workload("w")
    changed["metadata"]["resourceVersion"] = "8"
    caches.workloads.observe("MODIFIED", changed)
    assert (asked(caches), len(later)) == (2000, 1), "its last valid value counts"
    changed["metadata"]["resourceVersion"] = "9"
    caches.workloads.observe("DELETED", changed)
    later.pop()()
    assert (caches.get(Key("ns", "w")), later) == (None, [])


def test_a_deleted_workload_leaves_its_queue() -> None:
    caches = filled()
    caches.start()
    gone = workload("w")
    gone["metadata"]["resourceVersion"] = "9"
    caches.workloads.observe("DELETED", gone)
    assert (caches.get(Key("ns", "w")), caches.state.heads(0.0)) == (None, ())


def controlled_by(owner: Owner, name: str = "w", version: str = "v1") -> Raw:
    """A Workload of that owner."""
    found = workload(name)
    reference = {"apiVersion": f"{owner.group}/{version}", "kind": owner.kind, "name": owner.name, "uid": "u"}
    found["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return found


OWNERS = [
    Owner(group, kind, "ns", name)
    for group in ("batch", "batch.volcano.sh")
    for kind in ("Job", "CronJob")
    for name in ("j", "k")
]


def test_the_workloads_of_an_owner_are_found_by_its_group_kind_and_name() -> None:
    """Whatever the version of its group. A Job of another group is another object."""
    caches = Caches(State(), rows([BATCH_JOB]))
    for number, owner in enumerate(OWNERS):
        caches.workloads.observe("ADDED", controlled_by(owner, f"w{number}", version=f"v1alpha{number}"))
    caches.workloads.observe("ADDED", workload("of-nobody"))
    for number, owner in enumerate(OWNERS):
        assert [raw["metadata"]["name"] for raw in caches.workloads_of(owner)] == [f"w{number}"]
    assert caches.workloads_of(structs.replace(OWNERS[0], namespace="other")) == ()


def test_the_default_priority_class_is_the_global_one() -> None:
    caches = Caches(State(), rows([BATCH_JOB]))
    caches.priority_classes.observe("ADDED", made("PriorityClass", "low", value=1, globalDefault=True))
    caches.workload_priority_classes.observe("ADDED", made("WorkloadPriorityClass", "high", value=9))
    caches.start()
    assert (caches.classes.default, caches.classes.pod, caches.classes.workload) == ("low", {"low": 1}, {"high": 9})
    caches.workload_priority_classes.observe("ADDED", made("WorkloadPriorityClass", "higher", value=10))
    assert caches.classes.workload == {"high": 9, "higher": 10}


def spec_of(raw: Raw) -> Raw:
    spec: Raw = raw["spec"]["podSets"][0]["template"]["spec"]
    return spec


def test_equal_pod_specs_are_stored_once_whatever_labels_their_templates_have() -> None:
    keep = Interned()
    one, other, different = workload("a", "1"), workload("b", "1"), workload("c", "2")
    other["spec"]["podSets"][0]["template"]["metadata"] = {"labels": {"batch.kubernetes.io/job-name": "b"}}
    kept = [keep(each) for each in (one, other, different)]
    assert spec_of(kept[0]) is spec_of(kept[1])
    assert spec_of(kept[2]) == spec_of(workload("c", "2"))
    assert kept[1]["spec"]["podSets"][0]["template"]["metadata"]["labels"] == {"batch.kubernetes.io/job-name": "b"}


def test_different_pod_specs_take_little_more_memory_and_none_when_their_workload_is_gone() -> None:
    keep = Interned()
    raws = [workload(f"w{number}", str(number)) for number in range(1_000)]
    tracemalloc.start()
    for raw in raws:
        keep(raw)
    kept, _ = tracemalloc.get_traced_memory()
    for number in range(1_000):
        keep(workload(f"gone-{number}", str(10_000 + number)))
    later, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / len(raws) < 800, "bytes for each spec, besides the spec"
    assert (later - kept) / len(raws) < 50
