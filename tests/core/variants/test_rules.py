"""A parent and its variants: which exist, which wait, and when the parent runs, stops and moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from api.names import MigrationMode
from api.objects import Key, Raw
from api.resources import WORKLOADS
from core.actions import Create, Delete, Patch, Target, Wait, Writes
from core.jobs.kinds import BATCH_JOB
from core.jobs.situation import JobSituation
from core.model import CheckRule, ClusterQueue, Condition, LocalQueue, Migration, ResourceGroup, Workload
from core.model.workload import replace
from core.scheduling.variants import flavor_of
from core.variants import rules
from core.variants.rules import VariantFamily, decide
from core.wire import decode
from core.wire.conditions import status_patch
from core.wire.decode import WorkloadContext
from core.wire.merge import merged
from core.workload import transitions
from core.workload.actions import Surroundings
from core.workload.lifecycle import next_step
from tests.builders import EVERY
from tests.core.multikueue.groups import NOW

FLAVORS = ("reservation", "on-demand", "spot")
GATE = "kueue.x-k8s.io/concurrent-admission"
CONTEXT = WorkloadContext(preemption_gates=True, concurrent_admission=True)
NODES = (CheckRule("nodes", frozenset({"spot", "reservation"})),)
LOCAL = LocalQueue(Key("ns", "lq"), "cq")
RETAIN = Migration(MigrationMode.RETAIN_FIRST_ADMISSION)
POD_SETS: list[Raw] = [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}]


def queue(
    migration: Migration | None = None, flavors: tuple[str, ...] = FLAVORS, checks: tuple[CheckRule, ...] = ()
) -> ClusterQueue:
    return ClusterQueue(
        "cq",
        groups=(ResourceGroup(("cpu",), flavors),),
        migration=migration or Migration(),
        checks=checks,
        namespace_selector=EVERY,
    )


def parent(**spec: Any) -> Raw:
    """The Workload of a Job, as its controller creates it."""
    metadata = {
        "name": "job-j-12345",
        "namespace": "ns",
        "uid": "u-p",
        "resourceVersion": "1",
        "labels": {"kueue.x-k8s.io/job-uid": "u-j", "team": "a"},
        "annotations": {"x": "y"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True},
        ],
    }
    made = {"queueName": "lq", "priority": 5, "podSets": POD_SETS, "active": True, **spec}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": made}


@dataclass
class Api:
    """An API server with a parent and its variants; ``settle`` applies what the rules of variants and those of every
    Workload ask for. ``admit`` is the scheduler's part, ``stop`` that of the job's controller.
    """

    objects: dict[str, Raw] = field(default_factory=lambda: {"job-j-12345": parent()})
    queue: ClusterQueue = field(default_factory=queue)
    now: float = NOW
    events: list[tuple[str, str, str]] = field(default_factory=list)
    made: int = 1

    def read(self, name: str) -> Workload:
        return decode.workload(self.objects[name], CONTEXT)

    @property
    def parent(self) -> Workload:
        return self.read("job-j-12345")

    @property
    def variants(self) -> dict[str, Workload]:
        """The variants by flavor."""
        found = (self.read(name) for name in self.objects if name != "job-j-12345")
        return {flavor_of(each): each for each in found}

    @property
    def family(self) -> VariantFamily:
        members = tuple((each, self.objects[each.key.name]) for each in self.variants.values())
        return VariantFamily(self.now, self.parent, self.objects["job-j-12345"], self.queue, members)

    def patch(self, of: Workload, patch: Raw) -> None:
        assert patch["metadata"].pop("resourceVersion") == of.resource_version
        self.made += 1
        version = {"metadata": {"resourceVersion": str(self.made)}}
        self.objects[of.key.name] = merged(merged(self.objects[of.key.name], patch), version)

    def step(self) -> bool:
        """Applies one action of the rules of variants; returns whether there was one."""
        action = decide(self.family)
        if isinstance(action, Wait):
            return False
        assert not isinstance(action, Writes)
        match action:
            case Create(manifest, resource):
                self.made += 1
                metadata = {**manifest["metadata"], "uid": f"u-{self.made}", "resourceVersion": str(self.made)}
                assert resource == WORKLOADS and metadata["name"] not in self.objects
                self.objects[metadata["name"]] = {**manifest, "metadata": metadata}
            case Delete(uid, Target(_, key)):
                assert self.objects.pop(key.name)["metadata"]["uid"] == uid
            case Patch(patch, _, target):
                written = self.read(target.key.name) if target is not None else self.parent
                self.patch(written, patch)
                self.events += [(flavor_of(written) or "parent", *event[1:]) for event in action.target_events]
        return True

    def live(self) -> bool:
        """Applies one step of the life of every Workload; returns whether there was one."""
        for name in sorted(self.objects):
            around = Surroundings(self.now, local_queue=LOCAL, cluster_queue=self.queue)
            found = next_step(self.read(name), around)
            if isinstance(found, Patch):
                self.patch(self.read(name), found.body)
                return True
        return False

    def settle(self) -> Api:
        for _ in range(60):
            if not self.step() and not self.live():
                return self
        raise AssertionError(f"no end: {decide(self.family)}")

    def change(self, name: str, after: Workload) -> None:
        patch = status_patch(self.read(name), after)
        assert patch is not None
        self.patch(self.read(name), patch)

    def admit(self, flavor: str, *, checks: tuple[str, ...] = ()) -> Api:
        """Quota is reserved for the variant of a flavor."""
        variant = self.variants[flavor]
        assert variant.active and not variant.holds("QuotaReserved")
        given = {"name": "main", "count": 1, "flavors": {"cpu": flavor}}
        admission = decode.admission({"clusterQueue": "cq", "podSetAssignments": [given]}, {})
        assert admission is not None
        self.now += 1
        self.change(variant.key.name, transitions.reserved(variant, admission, self.now, required_checks=checks))
        return self.settle()

    def evict(self, flavor: str, reason: str = "Preempted") -> Api:
        variant = self.variants[flavor]
        self.now += 1
        self.change(variant.key.name, transitions.evicted(variant, reason, "for another", self.now))
        return self.settle()

    def stop(self) -> Api:
        """The pods of the evicted parent are gone."""
        assert self.parent.holds("Evicted")
        self.now += 1
        self.change("job-j-12345", transitions.released(self.parent, self.now))
        return self.settle()

    def runs_in(self) -> str:
        """The flavor in which the parent runs; '' if it does not, with * while it is evicted."""
        if not self.parent.holds("QuotaReserved"):
            return ""
        assert self.parent.admission is not None
        evicted = "*" if self.parent.holds("Evicted") else ""
        return str(self.parent.admission.pod_sets[0].flavors["cpu"]) + evicted

    def active(self) -> list[str]:
        return [flavor for flavor in FLAVORS if flavor in self.variants and self.variants[flavor].active]

    def holding(self) -> list[str]:
        return [flavor for flavor in FLAVORS if flavor in self.variants and self.variants[flavor].admission]


def test_each_flavor_has_a_variant_that_the_parent_controls() -> None:
    found = Api().settle()
    assert found.objects["job-j-12345"]["metadata"]["labels"]["kueue.x-k8s.io/concurrent-admission-parent"] == "true"
    assert list(found.variants) == list(FLAVORS)
    made = found.objects[found.variants["spot"].key.name]
    assert made["metadata"]["name"].startswith("job-j-variant-spot-")
    assert made["metadata"]["labels"] == {"team": "a"}
    assert made["metadata"]["annotations"] == {
        "x": "y",
        "kueue.x-k8s.io/workload-allowed-resource-flavors": "spot",
    }
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "job-j-12345",
            "uid": "u-p",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert made["spec"] == {**parent()["spec"], "preemptionGates": [{"name": GATE}]}
    assert found.variants["spot"].closed_gates == (GATE,)


def test_a_parent_with_an_admission_gate_gets_no_variants_until_it_is_gone() -> None:
    found = Api()
    gate = {"kueue.x-k8s.io/admission-gated-by": "someone"}
    found.objects["job-j-12345"]["metadata"]["annotations"] |= gate
    assert found.settle().variants == {}
    del found.objects["job-j-12345"]["metadata"]["annotations"]["kueue.x-k8s.io/admission-gated-by"]
    assert list(found.settle().variants) == list(FLAVORS)


def test_the_parent_is_admitted_with_its_variant() -> None:
    found = Api().settle().admit("on-demand")
    assert found.runs_in() == "on-demand"
    condition = found.parent.condition("Admitted")
    assert condition is not None
    assert condition.message == f"The variant {found.variants['on-demand'].key.name} is admitted"
    assert found.parent.checks == ()


def test_the_parent_waits_for_the_checks_of_its_variant() -> None:
    found = Api(queue=queue(checks=NODES)).settle().admit("spot", checks=("nodes",))
    assert (found.runs_in(), found.active()) == ("", list(FLAVORS))
    name = found.variants["spot"].key.name
    found.change(name, transitions.with_check_state(found.read(name), "nodes", "Ready", "", found.now))
    assert found.settle().runs_in() == "spot"
    assert found.parent.checks == ()


def test_a_parent_does_not_keep_checks_that_it_got_before_it_had_variants() -> None:
    found = Api(queue=queue(checks=NODES))
    found.change("job-j-12345", transitions.with_checks(found.parent, ["nodes"], found.now))
    assert found.settle().admit("on-demand").parent.checks == ()


def test_the_pods_of_a_parent_get_what_the_checks_of_its_variant_add() -> None:
    found = Api(queue=queue(checks=NODES)).settle().admit("spot", checks=("nodes",))
    name, updates = found.variants["spot"].key.name, ({"name": "main", "annotations": {"nodes": "made"}},)
    ready = transitions.with_check_state(found.read(name), "nodes", "Ready", "", found.now, pod_set_updates=updates)
    found.change(name, ready)
    found.settle()
    variant = rules.running(found.parent, found.variants.values())
    assert variant is not None and variant.key.name == name
    flavors: Raw = {"spot": {"metadata": {"name": "spot"}, "spec": {}}}
    s = JobSituation(BATCH_JOB, {}, found.now, flavors=flavors, variants={found.parent.key: variant})
    assert [each.annotations.get("nodes") for each in s.injections(found.parent)] == ["made"]


ACTIVE: dict[str, tuple[Migration, str, list[str]]] = {
    "with any migration the preferred flavors wait on": (Migration(), "on-demand", ["reservation", "on-demand"]),
    "in the preferred flavor none waits": (Migration(), "reservation", ["reservation"]),
    "only flavors that are acceptable wait on": (
        Migration(last_acceptable="reservation"),
        "spot",
        ["reservation", "spot"],
    ),
    "an acceptable flavor is not preferred to a better one": (
        Migration(last_acceptable="on-demand"),
        "reservation",
        ["reservation"],
    ),
    "none waits if the first admission is retained": (RETAIN, "spot", ["spot"]),
}


@pytest.mark.parametrize("case", ACTIVE)
def test_only_variants_to_which_the_workload_may_migrate_wait_on(case: str) -> None:
    migration, flavor, active = ACTIVE[case]
    found = Api(queue=queue(migration)).settle().admit(flavor)
    assert (found.active(), found.runs_in()) == (active, flavor)
    reasons = [event[1] for event in found.events]
    assert reasons.count("DeactivatedVariant") == len(FLAVORS) - len(active)


def test_a_migration_stops_the_job_before_it_starts_in_the_other_flavor() -> None:
    found = Api().settle().admit("spot").evict("spot", "FlavorMigration")
    assert (found.runs_in(), found.holding()) == ("spot*", ["spot"])
    assert ("parent", "EvictedDueToVariantEvicted", "Admitted variant was evicted") in found.events
    found.stop()
    assert (found.runs_in(), found.holding()) == ("", [])
    requeued = found.variants["spot"].condition("Requeued")
    assert requeued is not None and requeued.status
    found.admit("reservation")
    assert (found.runs_in(), found.active()) == ("reservation", ["reservation"])


def test_a_preferred_variant_that_is_admitted_later_takes_over() -> None:
    """Its checks became ready while the workload ran in another flavor."""
    found = Api().settle().admit("spot").admit("reservation")
    assert (found.runs_in(), found.active()) == ("spot*", ["reservation"])
    found.stop()
    assert (found.runs_in(), found.holding()) == ("reservation", ["reservation"])


def test_a_variant_that_is_evicted_while_another_runs_does_not_stop_the_job() -> None:
    found = Api(queue=queue(checks=NODES)).settle().admit("spot").admit("reservation", checks=("nodes",))
    assert found.runs_in() == "spot"
    found.evict("reservation", "AdmissionCheck")
    assert (found.runs_in(), found.holding()) == ("spot", ["spot"])


def test_all_variants_wait_again_when_the_one_that_ran_is_preempted() -> None:
    found = Api(queue=queue(RETAIN)).settle().admit("spot").evict("spot")
    assert found.runs_in() == "spot*"
    found.stop()
    assert (found.runs_in(), found.active(), found.holding()) == ("", list(FLAVORS), [])


def test_a_parent_that_is_deactivated_stops_with_all_variants() -> None:
    found = Api().settle().admit("spot")
    found.objects["job-j-12345"]["spec"]["active"] = False
    found.settle()
    assert (found.runs_in(), found.active()) == ("spot*", [])
    found.stop()
    assert found.holding() == []
    found.objects["job-j-12345"]["spec"]["active"] = True
    assert found.settle().active() == list(FLAVORS)


def test_a_variant_with_a_rejected_check_is_not_activated_again_before_its_parent() -> None:
    found = rejected(Api(queue=queue(checks=NODES)).settle(), "spot")
    assert (found.active(), found.holding()) == (["reservation", "on-demand"], [])
    found.objects["job-j-12345"]["spec"]["active"] = False
    assert found.settle().active() == []
    found.objects["job-j-12345"]["spec"]["active"] = True
    assert found.settle().active() == list(FLAVORS)


@pytest.mark.parametrize("ran", [False, True])
def test_a_parent_whose_variants_were_all_rejected_is_deactivated_with_the_cause(ran: bool) -> None:
    """It does not wait without an end, and is tried again when it is activated."""
    found = Api(queue=queue(flavors=("spot",), checks=NODES)).settle()
    if ran:
        found.admit("spot").evict("spot").stop()
    for _ in range(2):
        rejected(found, "spot")
        assert (found.parent.active, found.variants["spot"].active) == (False, False)
        eviction = found.parent.condition("Evicted")
        assert eviction is not None and eviction.status
        assert eviction.reason == "DeactivatedDueToAdmissionCheck"
        assert eviction.message == (
            'The workload is deactivated due to its variants: spot: AdmissionCheck in Rejected state: "nodes"'
        )
        found.now += 60
        found.objects["job-j-12345"]["spec"]["active"] = True
        assert found.settle().active() == ["spot"]
        assert found.parent.active


def rejected(found: Api, flavor: str) -> Api:
    """The check of a variant that has quota is rejected."""
    found.admit(flavor, checks=("nodes",))
    variant = found.variants[flavor]
    found.now += 1
    found.change(variant.key.name, transitions.with_check_state(variant, "nodes", "Rejected", "", found.now))
    return found.settle()


def test_a_variant_is_not_the_copy_of_a_workload_of_a_manager() -> None:
    found = parent()
    found["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "multikueue"
    found["metadata"]["annotations"]["kueue.x-k8s.io/multikueue-origin-uid"] = "u"
    made = rules.manifest(found, "spot")["metadata"]
    assert made["labels"] == {"team": "a"}
    assert "kueue.x-k8s.io/multikueue-origin-uid" not in made["annotations"]


def test_a_flavor_that_is_removed_stops_the_job_that_runs_in_it() -> None:
    found = Api().settle().admit("reservation")
    found.queue = queue(flavors=("on-demand", "spot"))
    found.settle()
    assert (sorted(found.variants), found.runs_in()) == (["on-demand", "spot"], "reservation*")
    condition = found.parent.condition("Evicted")
    assert condition is not None
    assert (condition.reason, condition.message) == ("ConcurrentAdmission", "No variant is running")
    assert found.stop().admit("spot").runs_in() == "spot"


def test_a_flavor_that_is_added_gets_a_variant() -> None:
    found = Api(queue=queue(flavors=("spot",))).settle()
    assert list(found.variants) == ["spot"]
    found.queue = queue()
    assert sorted(found.settle().variants) == sorted(FLAVORS)


def test_variants_finish_with_their_parent() -> None:
    found = Api().settle().admit("spot")
    found.change("job-j-12345", transitions.finished(found.parent, "Succeeded", "done", found.now))
    found.settle()
    for each in found.variants.values():
        done = each.condition("Finished")
        assert done is not None
        assert (done.reason, done.message) == ("Succeeded", "done")


def test_variants_follow_queue_priority_and_pod_sets_of_their_parent() -> None:
    found = Api().settle()
    found.objects["job-j-12345"]["spec"] |= {"queueName": "other", "priority": 9}
    found.settle()
    assert {(each.queue, each.priority) for each in found.variants.values()} == {("other", 9)}
    before = {each.uid for each in found.variants.values()}
    found.objects["job-j-12345"]["spec"]["podSets"] = [{**POD_SETS[0], "count": 2}]
    found.settle()
    assert {each.pod_sets[0].count for each in found.variants.values()} == {2}
    assert before.isdisjoint(each.uid for each in found.variants.values())


@pytest.mark.parametrize(
    "change", [{"podSets": [{**POD_SETS[0], "count": 3}]}, {"queueName": "other"}], ids=["pod sets", "queue"]
)
def test_a_variant_whose_checks_are_open_gives_its_quota_back_when_its_parent_changes(change: Raw) -> None:
    """Else the parent would be admitted with the quota for what it was."""
    found = Api(queue=queue(checks=NODES)).settle().admit("spot", checks=("nodes",))
    found.objects["job-j-12345"]["spec"] |= change
    found.settle()
    assert found.holding() == []
    spec = found.objects[found.variants["spot"].key.name]["spec"]
    assert {field: spec[field] for field in change} == change


def test_a_variant_that_runs_stays_when_the_pod_sets_of_its_parent_change() -> None:
    found = Api().settle().admit("spot")
    found.objects["job-j-12345"]["spec"]["podSets"] = [{**POD_SETS[0], "count": 3}]
    assert found.settle().holding() == ["spot"]


@pytest.mark.parametrize("runs", [True, False], ids=["it runs", "its checks are open"])
def test_a_variant_with_quota_follows_the_priority_of_its_parent_and_keeps_its_quota(*, runs: bool) -> None:
    """Else it would be preempted, or preempt others, by a priority that the job has no more."""
    found = Api(queue=queue(checks=NODES)).settle().admit("spot", checks=() if runs else ("nodes",))
    before = found.variants["spot"].uid
    found.objects["job-j-12345"]["spec"] |= {"priority": 9, **({"queueName": "other"} if runs else {})}
    found.settle()
    assert {each.priority for each in found.variants.values()} == {9}
    assert (found.holding(), found.variants["spot"].uid, found.variants["spot"].queue) == (["spot"], before, "lq")
    assert found.runs_in() == ("spot" if runs else "")


def test_a_workload_that_was_admitted_before_the_gate_was_on_runs_on() -> None:
    found = Api()
    given = {"name": "main", "count": 1, "flavors": {"cpu": "spot"}}
    admission = decode.admission({"clusterQueue": "cq", "podSetAssignments": [given]}, {})
    assert admission is not None
    found.change("job-j-12345", transitions.reserved(found.parent, admission, found.now))
    found.settle()
    assert (found.runs_in(), found.parent.parent, found.variants) == ("spot", False, {})
    found.change("job-j-12345", transitions.evicted(found.parent, "Preempted", "for another", found.now))
    assert list(found.settle().stop().variants) == list(FLAVORS)


def test_an_inactive_parent_gets_no_variants() -> None:
    found = Api({"job-j-12345": parent(active=False)})
    assert found.settle().variants == {}
    found.objects["job-j-12345"]["spec"]["active"] = True
    assert found.settle().active() == list(FLAVORS)


def test_a_slice_of_an_elastic_job_has_no_variants() -> None:
    found = Api()
    found.objects["job-j-12345"]["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] = "true"
    found.settle()
    assert (found.parent.parent, found.variants) == (False, {})


def test_the_variant_that_runs_shows_whether_the_pods_are_ready() -> None:
    found = Api().settle().admit("spot")
    ready = Condition("PodsReady", False, "WaitForStart", "", found.now)
    found.change("job-j-12345", replace(found.parent, conditions=(*found.parent.conditions, ready)))
    found.settle()
    assert found.variants["spot"].condition("PodsReady") is not None
    assert found.variants["reservation"].condition("PodsReady") is None


def blocked(found: Api, *flavors: str) -> Api:
    """The variants of these flavors could be admitted only by preemption."""
    for flavor in flavors:
        variant = found.variants[flavor]
        after = transitions.waiting(variant, "AdmissionGated", "gated", found.now)
        found.change(variant.key.name, transitions.preemption_gated(after, "gated", found.now))
    return found.settle()


def open_gates(found: Api) -> list[str]:
    return [flavor for flavor in FLAVORS if not found.variants[flavor].closed_gates]


def test_one_variant_after_the_other_may_preempt() -> None:
    found = blocked(Api().settle(), "spot", "on-demand")
    assert open_gates(found) == []  # the preferred one was not decided yet
    blocked(found, "reservation")
    assert open_gates(found) == ["reservation"]
    assert decide(found.family) == Wait(rules.PREEMPTION_SECONDS)
    found.now += rules.PREEMPTION_SECONDS
    found.settle()
    assert open_gates(found) == ["reservation", "on-demand"]
    assert [event[1] for event in found.events].count("PreemptionUngatedVariant") == 2


def test_a_variant_whose_eviction_is_decided_starts_no_job() -> None:
    found = Api().settle()
    name = found.variants["spot"].key.name
    given = {"name": "main", "count": 1, "flavors": {"cpu": "spot"}}
    admission = decode.admission({"clusterQueue": "cq", "podSetAssignments": [given]}, {})
    assert admission is not None
    found.change(name, transitions.reserved(found.read(name), admission, found.now))
    evicting = VariantFamily(
        found.now,
        found.parent,
        found.objects["job-j-12345"],
        found.queue,
        found.family.members,
        frozenset({Key("ns", name)}),
    )
    assert not isinstance(decide(evicting), Patch)
    assert isinstance(decide(found.family), Patch)


def on_hold(found: Workload) -> Workload:
    return transitions.waiting(found, "OnHold", "the job is invalid", NOW)


def without_pods(found: Workload) -> Workload:
    after = transitions.released(transitions.evicted(found, "Preempted", "for another", NOW), NOW)
    kind = "WaitingForReplacementPods"
    return transitions.condition(after, kind, status=True, reason="Preempted", message="for another", now=NOW)


KEPT_OUT = {"on hold": on_hold, "waiting for replacement pods": without_pods}


@pytest.mark.parametrize("why", KEPT_OUT)
def test_variants_of_a_parent_that_may_not_wait_hold_no_quota(why: str) -> None:
    """Else the parent would be admitted again without end, or hold quota without pods."""
    found = Api().settle().admit("spot")
    found.change("job-j-12345", KEPT_OUT[why](found.parent))
    found.settle()
    assert (found.runs_in(), found.active(), found.holding()) == ("", [], [])
    text = f'Variant Workload deactivated due to Parent Workload "ns/job-j-12345" {why}'
    assert ("spot", "DeactivatedVariant", text) in found.events
    after = transitions.waiting(found.parent, "PendingEvaluation", "it may wait", NOW)
    kind = "WaitingForReplacementPods"
    found.change("job-j-12345", transitions.condition(after, kind, status=False, reason="", message="", now=NOW))
    assert found.settle().active() == list(FLAVORS)
    assert found.admit("spot").runs_in() == "spot"


def test_a_group_that_runs_while_a_pod_is_replaced_keeps_its_quota() -> None:
    found = Api().settle().admit("spot")
    kind = "WaitingForReplacementPods"
    after = transitions.condition(found.parent, kind, status=True, reason="PodsFailed", message="", now=NOW)
    found.change("job-j-12345", after)
    assert found.settle().runs_in() == "spot"


def test_variants_may_preempt_when_the_gate_of_their_parent_is_open() -> None:
    """A manager cluster opens the gate of the copy, which is the parent, when the copy is blocked."""
    found = Api({"job-j-12345": parent(preemptionGates=[{"name": "theirs"}])}).settle()
    assert not found.parent.holds("BlockedOnPreemptionGates")
    blocked(found, "reservation", "on-demand", "spot")
    assert (found.parent.holds("BlockedOnPreemptionGates"), open_gates(found)) == (True, [])
    assert found.variants["reservation"].closed_gates == ("theirs", GATE)
    opened = tuple(replace(state, open=True) for state in found.parent.gate_states)
    found.change("job-j-12345", replace(found.parent, gate_states=opened))
    assert open_gates(found.settle()) == ["reservation"]
    assert found.variants["spot"].closed_gates == (GATE,)
    found.admit("reservation").evict("reservation")
    assert not found.parent.holds("BlockedOnPreemptionGates")
    assert {flavor for flavor, each in found.variants.items() if "theirs" in each.closed_gates} == set(FLAVORS)
