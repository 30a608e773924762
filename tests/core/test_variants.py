"""Variants of one workload in the cycle: one flavor each, and at most one of them runs."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import MigrationMode
from core.explain.analysis import explain
from core.model import (
    Admission,
    AdmissionCheck,
    CheckRule,
    Condition,
    FlavorResource,
    Key,
    Migration,
    PodSetAssignment,
    Preemption,
    Quota,
    Reserve,
    ResourceFlavor,
    ResourceGroup,
    StayPending,
    Workload,
)
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.state.queries import why_unadmitted
from core.state.queue_status import reservations
from core.state.state import State
from core.wire import decode
from core.wire.decode import WorkloadContext
from tests.builders import CPU, DEFAULT, NOW, SPOT, cluster_queue, cycle, put, state, workload

BEST = FlavorResource("best", CPU)
RETAIN = Migration(MigrationMode.RETAIN_FIRST_ADMISSION)
ONE_FLAVOR = {"kueue.x-k8s.io/workload-allowed-resource-flavors": "spot"}
NOT_ALLOWED = "skipping flavor spot due to WorkloadAllowedResourceFlavorAnnotation annotation"


def queues(*, default: int = 2, spot: int = 2, migration: Migration | None = None, **fields: Any) -> State:
    """A ClusterQueue that prefers flavor ``best``, which has no quota, to ``default``, and that to ``spot``, and admits
    through variants.
    """
    quotas = {BEST: Quota(0), DEFAULT: Quota(default), SPOT: Quota(spot)}
    groups = (ResourceGroup((CPU,), ("best", "default", "spot")),)
    queue = cluster_queue("a", groups=groups, quotas=quotas, migration=migration or Migration(), **fields)
    found = state(queue, policy=SchedulingPolicy(concurrent_admission=True))
    for name in ("best", "spot"):
        found.set_flavor(name, ResourceFlavor(name))
    return found


def variant(flavor: str, *, of: str = "p", cpu: int = 2, admitted: bool = False, **fields: Any) -> Workload:
    """The variant of a parent for a flavor, which waits or is admitted."""
    if admitted:
        given = PodSetAssignment("main", {CPU: flavor}, {CPU: cpu}, 1)
        fields["admission"] = Admission("a", (given,))
        fields["conditions"] = (Condition("QuotaReserved", True), Condition("Admitted", True))
    return workload(f"{of}-{flavor}", cpu, variant_of=f"uid-{of}", allowed_flavors=(flavor,), **fields)


def test_a_variant_gets_its_flavor_only() -> None:
    decision = cycle(put(queues(), variant("spot")))["p-spot"]
    assert isinstance(decision, Reserve)
    assert decision.admission.pod_sets[0].flavors == {CPU: "spot"}
    decision = cycle(put(queues(default=0), variant("default")))["p-default"]
    assert isinstance(decision, StayPending)
    assert NOT_ALLOWED in decision.message


@pytest.mark.parametrize("cached", range(3))
def test_variants_of_equal_workloads_are_decided_by_their_flavor(cached: int) -> None:
    """Workloads of equal demand have one search for flavors: its result is another one for each flavor."""
    found = queues(default=0)
    for each in range(cached):
        put(found, variant("default", of=f"other{each}"))
        cycle(found)
    put(found, variant("default"), variant("spot"))
    decisions = dict[str, object]()
    for _ in range(4):
        decisions |= cycle(found)
    assert isinstance(decisions["p-spot"], Reserve)
    assert "p-default" not in decisions or isinstance(decisions["p-default"], StayPending)


def test_a_workload_that_is_admitted_through_variants_does_not_wait_itself_and_uses_no_quota() -> None:
    found = put(queues(), workload("p", 2))
    assert cycle(found) == {}
    assert cycle(put(found, workload("p", 2, parent=True), variant("default")))["p-default"].__class__ is Reserve
    put(found, variant("default", admitted=True), parent("default"))
    assert found.reservations.get(Key("ns", "p")) is None
    assert found.reservations.get(Key("ns", "p-default")) is not None


def parent(flavor: str, **fields: Any) -> Workload:
    """A parent that runs with the variant for a flavor."""
    given = variant(flavor, admitted=True)
    return workload("p", 2, parent=True, **{"admission": given.admission, "conditions": given.conditions, **fields})


@pytest.mark.parametrize("parent_first", [False, True])
def test_a_parent_holds_the_quota_of_its_variant_that_is_gone_until_its_pods_are(*, parent_first: bool) -> None:
    running, other = variant("default", admitted=True), variant("default", of="q")
    objects = (parent("default"), running) if parent_first else (running, parent("default"))
    found = put(queues(spot=0), *objects)
    assert [held.workload.key for held in reservations(found, "a")] == [running.key]
    found.set_workload(running.key, None)
    assert [held.workload.key for held in reservations(found, "a")] == [Key("ns", "p")]
    assert isinstance(cycle(put(found, other))["q-default"], StayPending)
    evicted = parent("default", conditions=(*running.conditions, Condition("Evicted", True)))
    put(found, evicted)
    assert cycle(found).get("q-default").__class__ is not Reserve
    found.check()
    put(found, parent("default", admission=None, conditions=(Condition("QuotaReserved", False),)))
    assert cycle(found)["q-default"].__class__ is Reserve
    found.check()


def test_a_variant_with_the_quota_of_its_parent_is_counted_instead_of_it() -> None:
    """Also one that replaces the variant with which it was admitted."""
    found = put(queues(), parent("default"), variant("spot", admitted=True))
    assert found.reservations.get(Key("ns", "p")) is not None  # its pods use the other flavor
    put(found, variant("default", admitted=True))
    assert found.reservations.get(Key("ns", "p")) is None
    finished = (*variant("default", admitted=True).conditions, Condition("Finished", True))
    put(found, replace(variant("default", admitted=True), conditions=finished))
    assert found.reservations.get(Key("ns", "p")) is not None
    put(found, parent("default", conditions=finished))
    assert found.reservations.get(Key("ns", "p")) is None
    found.check()


def test_parents_that_name_each_other_as_parents_hold_their_quota() -> None:
    """Nobody makes them so, but who may write metadata could."""
    found = queues(default=4)
    for name, of, flavor in (("p", "q", "default"), ("q", "p", "spot"), ("r", "r", "default")):
        given = replace(parent(flavor), key=Key("ns", name), uid=f"uid-{name}", variant_of=f"uid-{of}")
        put(found, given)
        put(found, replace(given, priority=1))
    assert {held.workload.key.name for held in reservations(found, "a")} == {"p", "q", "r"}
    found.check()


def test_a_workload_waits_itself_while_the_gate_is_off() -> None:
    found = state(cluster_queue("a", 2, migration=Migration()))
    assert isinstance(cycle(put(found, workload("w", 2)))["w"], Reserve)


def test_variants_that_are_left_while_the_gate_is_off_neither_wait_nor_use_quota() -> None:
    found = state(cluster_queue("a", 4, migration=Migration()))
    running = variant("default", admitted=True)
    put(found, workload("p", 2, admission=running.admission, conditions=running.conditions), running)
    put(found, variant("default", of="q"), workload("q", 2))
    decisions = cycle(found)
    assert list(decisions) == ["q"] and isinstance(decisions["q"], Reserve)
    assert found.reservations.get(running.key) is None


def test_a_slice_of_an_elastic_job_waits_itself() -> None:
    assert isinstance(cycle(put(queues(), workload("w", 2, slice_name="w")))["w"], Reserve)


def test_of_variants_that_were_created_at_once_the_one_with_the_preferred_flavor_is_first() -> None:
    """Else the workload would start in the other flavor, and be evicted at once."""
    found = put(queues(), replace(variant("spot"), uid="a"), replace(variant("default"), uid="z"))
    first = cycle(found)
    assert list(first) == ["p-default"] and isinstance(first["p-default"], Reserve)


def test_a_variant_is_refused_while_a_preferred_one_is_admitted() -> None:
    found = put(queues(), variant("default", admitted=True), variant("spot"))
    decision = cycle(found)["p-spot"]
    assert isinstance(decision, StayPending)
    assert (decision.reason, decision.message) == (
        "PendingEvaluation",
        "A more favorable variant is already admitted",
    )
    assert cycle(found) == {}
    found.set_workload(Key("ns", "p-default"), None)
    assert isinstance(cycle(found)["p-spot"], Reserve)


def test_a_variant_of_another_workload_does_not_matter() -> None:
    found = put(queues(default=4), variant("default", of="q", admitted=True), variant("spot"))
    assert isinstance(cycle(found)["p-spot"], Reserve)


def test_a_workload_migrates_to_a_preferred_flavor() -> None:
    found = put(queues(), variant("spot", admitted=True), variant("default"))
    decision = cycle(found)["p-default"]
    assert isinstance(decision, StayPending)
    assert (decision.reason, decision.message, decision.preempting) == (
        "WaitingForPreemptedWorkloads",
        "Pending the migration of 1 workload(s)",
        True,
    )
    (victim,) = decision.victims
    assert (victim.workload.key.name, victim.reason) == ("p-spot", "FlavorMigration")
    assert victim.message == (
        "Evicted to accommodate a workload (UID: uid-p-default) due to migration to more favorable resource flavor"
    )
    found.set_workload(Key("ns", "p-spot"), variant("spot"))
    assert isinstance(cycle(found)["p-default"], Reserve)


KEPT: dict[str, dict[str, Any]] = {
    "the first admission is retained": {"migration": RETAIN},
    "the flavor is less preferred than the last acceptable one": {"migration": Migration(last_acceptable="best")},
    "the preferred flavor is in use": {"default": 1},
}


@pytest.mark.parametrize("case", KEPT)
def test_a_workload_does_not_migrate(case: str) -> None:
    found = queues(**KEPT[case])
    decision = cycle(put(found, variant("spot", admitted=True), variant("default")))["p-default"]
    assert isinstance(decision, StayPending)
    assert (decision.victims, decision.preempting) == ((), False)


def test_nobody_is_preempted_for_a_migration_that_is_forbidden() -> None:
    found = queues(migration=RETAIN, preemption=Preemption(within_cluster_queue="LowerPriority"))
    given = PodSetAssignment("main", {CPU: "default"}, {CPU: 2}, 1)
    conditions = (Condition("QuotaReserved", True), Condition("Admitted", True))
    put(found, workload("w", 2, admission=Admission("a", (given,)), conditions=conditions))
    put(found, variant("spot", admitted=True), variant("default", priority=1))
    decision = cycle(found)["p-default"]
    assert isinstance(decision, StayPending)
    assert (decision.victims, decision.message) == ((), "Target flavor is below LastAcceptableFlavorName")


def test_a_workload_runs_on_while_the_checks_of_the_preferred_flavor_are_open() -> None:
    found = queues(checks=(CheckRule("nodes", frozenset({"default"})),))
    found.set_admission_check("nodes", AdmissionCheck("nodes", "controller", active=True))
    decision = cycle(put(found, variant("spot", admitted=True), variant("default")))["p-default"]
    assert isinstance(decision, Reserve)
    assert not decision.admitted


def test_a_variant_does_not_count_as_a_waiting_workload_of_its_own() -> None:
    assert why_unadmitted(variant("spot")) is None
    assert why_unadmitted(workload("p", 2, parent=True)) == ("NoReservation", "PendingEvaluation")


def test_a_parent_is_explained_by_its_variants() -> None:
    found = put(queues(default=1), variant("spot", admitted=True), variant("default"))
    parent = workload("p", 2, parent=True, conditions=variant("spot", admitted=True).conditions)
    told = explain(put(found, parent), parent.key, NOW)
    assert told is not None
    assert told.state == "admitted"
    first, second = told.message.split("; ")
    assert first.startswith(
        "it has a variant for each flavor, and runs with the one that is admitted: default: waiting (couldn't assign"
    )
    assert second == "spot: admitted (it holds 2m cpu in spot)"
    assert all(way.startswith("for p-default: ") for way in told.ways)
    put(found, workload("q", 2, parent=True))
    told = explain(found, Key("ns", "q"), NOW)
    assert told is not None
    assert told.message.endswith(": no variant was created yet")


def test_a_parent_is_recognized_with_the_gate_only_and_a_variant_always() -> None:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "p", "uid": "u", "controller": True}
    metadata = {
        "name": "v",
        "namespace": "ns",
        "labels": {"kueue.x-k8s.io/concurrent-admission-parent": "true"},
        "annotations": {"kueue.x-k8s.io/workload-allowed-resource-flavors": "spot"},
        "ownerReferences": [owner],
    }
    read = decode.workload({"metadata": metadata}, WorkloadContext(concurrent_admission=True))
    assert (read.parent, read.variant_of, read.allowed_flavors) == (True, "u", ("spot",))
    read = decode.workload({"metadata": metadata}, WorkloadContext())
    assert (read.parent, read.variant_of, read.allowed_flavors) == (False, "u", ())
    spec = {"concurrentAdmissionPolicy": {"migration": {"constraints": {"lastAcceptableFlavorName": "spot"}}}}
    queue = decode.cluster_queue({"metadata": {"name": "a"}, "spec": spec})
    assert queue.migration == Migration("TryPreferredFlavors", "spot")
    assert decode.cluster_queue({"metadata": {"name": "a"}, "spec": {}}).migration is None


OWNED: dict[str, tuple[dict[str, bool], dict[str, str], str]] = {
    "a Workload that a Workload controls, for a flavor, is a variant": ({"controller": True}, ONE_FLAVOR, "u"),
    "a Workload that another one owns, e.g. in a group, is none": ({}, ONE_FLAVOR, ""),
    "a Workload that another one controls without a flavor is none": ({"controller": True}, {}, ""),
}


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("case", OWNED)
def test_only_a_variant_is_left_out_of_quota(case: str, gate: bool) -> None:
    """An owner reference that somebody adds to a running Workload does not release its quota."""
    reference, annotations, parent = OWNED[case]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": "j",
        "controller": "controller" not in reference,
    }
    above = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "p", "uid": "u", **reference}
    metadata = {"name": "w", "namespace": "ns", "uid": "w", "annotations": annotations, "ownerReferences": [job, above]}
    read = decode.workload({"metadata": metadata}, WorkloadContext(concurrent_admission=gate))
    assert read.variant_of == parent
    given = PodSetAssignment("main", {CPU: DEFAULT.flavor}, {CPU: 2}, 1)
    running = workload("w", 2, admission=Admission("a", (given,)), conditions=(Condition("QuotaReserved", True),))
    found = state(cluster_queue("a", 2), policy=SchedulingPolicy(concurrent_admission=gate))
    put(found, replace(running, variant_of=read.variant_of), workload("other", 2))
    waits = [name for name, decision in cycle(found).items() if isinstance(decision, StayPending)]
    assert (waits == ["other"]) == (gate or not parent)
