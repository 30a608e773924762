"""Feature gates of the scheduler that no other test shows on and off; ``tests.api.gates`` has the table of all."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from api.names import Annotation, Label
from core.jobs import meta
from core.jobs.admission import topology as topology_admission
from core.model import (
    Admission,
    PodSetAssignment,
    Preemption,
    Reserve,
    ResourceFlavor,
    StayPending,
    TopologyRequest,
    Workload,
)
from core.model.owner import Owner
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.model.workload import replace
from core.state.state import State
from tests.builders import CPU, FAIR, NOW, cluster_queue, cycle, put, reserved, state, workload
from tests.core.test_cycle import two_flavors
from tests.core.test_placement_cycle import asks, domains, last, node, queue, runs, world
from tests.core.test_rules import in_words

ANY = Preemption(reclaim_within_cohort="Any")
BOTH = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


def words(found: State) -> dict[str, str]:
    """What a cycle decides about each workload."""
    return {name: in_words(decision) for name, decision in cycle(found).items()}


def in_spot(name: str, cpu: int, of: str, **fields: Any) -> Workload:
    given = reserved(name, cpu, of, queue=of, **fields)
    admission = Admission(of, (PodSetAssignment("main", {CPU: "spot"}, {CPU: cpu}, 1),))
    return replace(given, admission=admission)


def of(policy: SchedulingPolicy, *queues: Any) -> State:
    found = state(*queues, policy=policy)
    found.set_flavor("spot", ResourceFlavor("spot"))
    return found


@BOTH
def test_who_needs_no_quota_of_others_comes_first_whatever_its_share_is(on: bool) -> None:
    """FairSharingPrioritizeNonBorrowing: a borrows much of another flavor, and asks for its own quota of this one."""
    found = of(
        dataclasses.replace(FAIR, prioritize_non_borrowing=on),
        two_flavors("a", 2, 0, cohort="all"),
        two_flavors("b", 0, 0, cohort="all"),
        two_flavors("c", 1, 9, cohort="all"),
    )
    put(found, in_spot("much", 9, "a"), workload("mine", 2, queue="a"), workload("lent", 2, queue="b"))
    admitted = [name for name, told in words(found).items() if told == "in default"]
    assert admitted == (["mine"] if on else ["lent"])


@BOTH
def test_who_is_within_its_own_quota_preempts_whatever_its_share_is(on: bool) -> None:
    """FairSharingPreemptWithinNominal: a borrows much of another flavor, and b has what is a's in this one."""
    policy = dataclasses.replace(FAIR, preempt_within_nominal=on)
    found = of(
        policy,
        two_flavors("a", 2, 0, cohort="all", preemption=ANY),
        two_flavors("b", 1, 0, cohort="all"),
        two_flavors("c", 0, 9, cohort="all"),
    )
    put(found, in_spot("much", 9, "a"), reserved("lent", 3, "b", queue="b"), workload("mine", 2, queue="a"))
    assert words(found) == {"mine": "preempts lent" if on else "WaitingForQuota"}


@BOTH
def test_who_wants_the_victim_of_another_finds_a_further_one_in_the_same_cycle(on: bool) -> None:
    """RecomputeAssignmentUponPreemptionTargetsOverlap."""
    queues = [cluster_queue(name, 2, cohort="all", preemption=ANY) for name in ("a", "b")]
    found = of(SchedulingPolicy(recompute_on_overlap=on), *queues, cluster_queue("c", 0, cohort="all"))
    put(found, reserved("old", 2, "c", queue="c", since=1.0), reserved("new", 2, "c", queue="c", since=2.0))
    put(found, workload("first", 2, queue="a", created=1.0), workload("second", 2, queue="b", created=2.0))
    assert words(found) == {"first": "preempts new", "second": "preempts old" if on else "WaitingForQuota"}


def topology(**fields: bool) -> SchedulingPolicy:
    return SchedulingPolicy(topology=TopologyPolicy(**fields))


@BOTH
def test_flavors_that_have_a_node_in_common_count_it_together(on: bool) -> None:
    """TASHandleOverlappingFlavors."""
    policy = topology(overlapping_flavors=on)
    found = world(queue("a", "tas"), queue("b", "same"), nodes=(node("n1", 1),), policy=policy)
    put(found, runs(asks("w", 1), {"n1": 1}), asks("v", 1, "b"))
    assert isinstance(last(found, "v"), StayPending if on else Reserve)


@BOTH
def test_the_workload_of_a_pod_keeps_its_failed_node(on: bool) -> None:
    """SkipReassignmentForPodOwnedWorkloads: a pod cannot move to another node."""
    found = world(queue("a", "tas"), nodes=(node("n1", 1), node("n2", 1)), policy=topology(keep_pod_owned=on))
    put(found, replace(runs(asks("w", 1), {"n1": 1}, unhealthy_nodes=("n1",)), owner=Owner("", "Pod", "ns", "p")))
    found.set_node("n1", None)
    assert domains(last(found, "w", NOW + 1)) == ({"n1": 1} if on else {"n2": 1})


@BOTH
def test_the_pods_of_an_elastic_job_that_run_stay_on_their_nodes(on: bool) -> None:
    """ElasticJobsViaWorkloadSlicesWithTAS: placed anew, all would be on the smallest node that holds them."""
    nodes = (node("n1", 9), node("n2", 3))
    found = world(queue("a", "tas"), nodes=nodes, policy=topology(elastic=on))
    owner = Owner("batch", "Job", "ns", "j")
    free = TopologyRequest(unconstrained=True)
    before = replace(runs(asks("w", 2, request=free), {"n1": 2}), owner=owner, slice_name="w")
    after = replace(asks("v", 3, request=free), owner=owner, slice_name="w", replaces=before.key)
    put(found, before, after)
    assert domains(last(found, "v")) == ({"n1": 2, "n2": 1} if on else {"n2": 3})


@BOTH
def test_several_layers_of_slices_are_accepted(on: bool) -> None:
    """TASMultiLayerTopology."""
    layers = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'
    asked = {Annotation.REQUIRED_TOPOLOGY: "block", Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS: layers}
    template = topology_admission.Annotated("m", asked, 8)
    found = topology_admission.errors(template, elastic=False, enabled=lambda name: on)
    told = "the TASMultiLayerTopology feature gate must be enabled to use this annotation"
    assert [each.detail for each in found] == ([] if on else [told])


@BOTH
def test_identifiers_are_read_from_annotations_before_labels(on: bool) -> None:
    """WorkloadIdentifierAnnotations."""
    labels = {Label.PREBUILT_WORKLOAD: "by-label", Label.POD_GROUP_NAME: "by-label"}
    annotations = {Annotation.PREBUILT_WORKLOAD: "by-annotation", Annotation.POD_GROUP_NAME: "by-annotation"}
    job = {"metadata": {"labels": labels, "annotations": annotations}}
    name = "by-annotation" if on else "by-label"
    assert meta.prebuilt_workload(job, annotation_first=on)[0] == name
    assert meta.pod_group(job, annotation_first=on) == name
