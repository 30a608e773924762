"""Stored objects become values: absent fields mean the API's defaults, equal shapes are one value."""

import copy
from typing import Any

import pytest

from bench import cycle as bench
from core.model import (
    Admission,
    CheckRule,
    CheckState,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Fungibility,
    Key,
    LocalQueue,
    Placement,
    PodSetAssignment,
    Preemption,
    QueueingStrategy,
    Quota,
    Requirement,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    StopPolicy,
    Taint,
    Toleration,
    TopologyRequest,
)
from core.model.owner import Owner
from core.model.workload import COMMON, replace
from core.wire import decode
from core.wire.pod_requests import RequestRules, limits
from core.wire.timestamps import epoch, stamp

Spec = dict[str, Any]


def raw_workload(name: str = "w", *, cpu: str = "1", spec: Spec | None = None, status: Spec | None = None) -> Spec:
    template = {"spec": {"containers": [{"name": "c", "image": name, "resources": {"requests": {"cpu": cpu}}}]}}
    pod_sets = [{"name": "main", "count": 3, "template": template}]
    metadata = {"name": name, "namespace": "team", "uid": f"u-{name}", "creationTimestamp": "2024-11-01T00:00:01Z"}
    return {
        "metadata": metadata,
        "spec": {"queueName": "lq", "podSets": pod_sets, **(spec or {})},
        "status": status or {},
    }


def test_times_go_to_epoch_seconds_and_back() -> None:
    assert epoch("1970-01-01T00:01:00Z") == 60.0
    assert epoch("1970-01-01T01:01:00+01:00") == 60.0
    assert stamp(60.9) == "1970-01-01T00:01:00Z"


def test_a_cluster_queue_without_settings_has_the_defaults_of_the_api() -> None:
    assert decode.cluster_queue({"metadata": {"name": "cq"}, "spec": {}}) == ClusterQueue("cq")


def test_a_cluster_queue_with_everything() -> None:
    raw = {
        "metadata": {"name": "cq", "uid": "u", "generation": 4, "deletionTimestamp": "2024-11-01T00:00:01Z"},
        "spec": {
            "cohortName": "all",
            "queueingStrategy": "StrictFIFO",
            "stopPolicy": "HoldAndDrain",
            "namespaceSelector": {
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "x", "operator": "Exists"}],
            },
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [
                        {
                            "name": "f",
                            "resources": [
                                {"name": "cpu", "nominalQuota": "2500m", "borrowingLimit": 0},
                                {"name": "memory", "nominalQuota": "1Gi", "lendingLimit": "1M"},
                            ],
                        }
                    ],
                }
            ],
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"},
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5},
            },
            "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}, {"name": "d"}]},
            "fairSharing": {"weight": "500m"},
            "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        },
    }
    assert decode.cluster_queue(raw) == ClusterQueue(
        name="cq",
        uid="u",
        cohort="all",
        groups=(ResourceGroup(("cpu", "memory"), ("f",)),),
        quotas={
            FlavorResource("f", "cpu"): Quota(2500, 0, None),
            FlavorResource("f", "memory"): Quota(1 << 30, None, 1_000_000),
        },
        strategy=QueueingStrategy.STRICT_FIFO,
        namespace_selector=Selector((Requirement("team", "In", ("a",)), Requirement("x", "Exists"))),
        fungibility=Fungibility("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing"),
        preemption=Preemption("LowerPriority", "Any", "LowerPriority", -5),
        checks=(CheckRule("c", frozenset({"f"})), CheckRule("d")),
        stop_policy=StopPolicy.HOLD_AND_DRAIN,
        weight=0.5,
        admission_mode="UsageBasedAdmissionFairSharing",
        deleting=True,
        generation=4,
    )


def test_cohort_local_queue_flavor_and_check() -> None:
    quota = [
        {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}]}
    ]
    assert decode.cohort(
        {"metadata": {"name": "c"}, "spec": {"parentName": "root", "resourceGroups": quota}}
    ) == Cohort("c", "root", {FlavorResource("f", "cpu"): Quota(1000)})
    local = {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"}}
    assert decode.local_queue(local) == LocalQueue(Key("team", "lq"), "cq", stop_policy=StopPolicy.HOLD)
    flavor = {
        "nodeLabels": {"arch": "arm64"},
        "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
        "tolerations": [{"operator": "Exists"}],
    }
    assert decode.resource_flavor({"metadata": {"name": "f"}, "spec": flavor}) == ResourceFlavor(
        "f", {"arch": "arm64"}, (Taint("spot", "", "NoSchedule"),), (Toleration(operator="Exists"),)
    )
    check = {"metadata": {"name": "ac"}, "spec": {"controllerName": "me"}}
    assert not decode.admission_check(check).active
    assert decode.admission_check({**check, "status": {"conditions": [{"type": "Active", "status": "True"}]}}).active


def test_no_selector_is_no_namespace_and_an_empty_one_is_every_namespace() -> None:
    assert decode.selector(None) is None
    assert decode.selector({}) == Selector()


def test_a_workload_with_its_whole_status() -> None:
    status = {
        "conditions": [
            {"type": "Evicted", "status": "True", "reason": "Preempted", "lastTransitionTime": "1970-01-01T00:00:05Z"}
        ],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}}],
        },
        "admissionChecks": [{"name": "ac", "state": "Retry", "retryCount": 2, "requeueAfterSeconds": 60}],
        "reclaimablePods": [{"name": "main", "count": 1}],
        "requeueState": {"count": 3, "requeueAt": "1970-01-01T00:01:00Z"},
        "accumulatedPastExecutionTimeSeconds": 7,
    }
    found = decode.workload(
        raw_workload(spec={"priority": 9, "active": False}, status=status), decode.WorkloadContext()
    )
    assert (found.key, found.queue, found.priority, found.active) == (Key("team", "w"), "lq", 9, False)
    assert found.admission == Admission("cq", (PodSetAssignment("main", {"cpu": "f"}, {"cpu": 3000}, 3),))
    assert found.checks == (CheckState("ac", "Retry", retry_count=2, requeue_after=60),)
    assert (found.reclaimable, found.requeue_count, found.requeue_at, found.past_execution) == ({"main": 1}, 3, 60.0, 7)
    evicted = found.condition("Evicted")
    assert evicted is not None and (evicted.reason, evicted.since, evicted.status) == ("Preempted", 5.0, True)


def test_a_workload_names_its_gates_its_class_and_its_owner() -> None:
    raw = raw_workload(spec={"priorityClassRef": {"name": "high"}, "maximumExecutionTimeSeconds": 60})
    raw["metadata"] |= {
        "annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/a, example.com/b"},
        "labels": {"kueue.x-k8s.io/job-uid": "j"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j1", "controller": True},
        ],
    }
    found = decode.workload(raw, decode.WorkloadContext())
    assert found.gates == ("example.com/a", "example.com/b")
    assert (found.priority_class, found.max_execution, found.job_uid) == ("high", 60, "j")
    assert found.owner == Owner("batch", "Job", "team", "j1")


@pytest.mark.parametrize(("gate", "boost", "expected"), [(True, "5", 15), (False, "5", 10), (True, "much", 10)])
def test_the_effective_priority_has_the_boost_where_its_gate_is_on(gate: bool, boost: str, expected: int) -> None:
    raw = raw_workload(spec={"priority": 10})
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": boost}
    assert decode.workload(raw, decode.WorkloadContext(priority_boost=gate)).priority == expected


def test_with_coarse_reasons_workloads_share_one_value_of_what_is_rare() -> None:
    coarse = decode.WorkloadContext(coarse_reasons=True)
    one, other = (decode.workload(raw_workload(), context) for context in (coarse, coarse))
    assert one.coarse_reasons
    assert one.rare is other.rare
    assert not decode.workload(raw_workload(), decode.WorkloadContext()).coarse_reasons


@pytest.mark.parametrize("gate", [True, False])
def test_gates_of_admission_and_reclaimable_pods_count_where_their_feature_gates_are_on(gate: bool) -> None:
    raw = raw_workload(status={"reclaimablePods": [{"name": "main", "count": 2}]})
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/a"}
    gated = decode.workload(raw, decode.WorkloadContext(admission_gates=gate))
    reclaimed = decode.workload(raw, decode.WorkloadContext(reclaimable_pods=gate))
    assert (gated.gates, gated.reclaimable) == (("example.com/a",) if gate else (), {"main": 2})
    assert (reclaimed.gates, reclaimed.reclaimable) == (("example.com/a",), {"main": 2} if gate else {})


def test_a_pod_spec_says_where_it_wants_to_run() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}]
    spec = {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
    }
    assert decode.placement(spec) == Placement(
        {"zone": "a"}, ((Requirement("a", "In", ("x",)),),), (Toleration("spot", "Equal", "true", "NoSchedule"),)
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"required": "rack", "podIndexLabel": "i"}, TopologyRequest(required="rack")),
        ({"preferred": "rack", "podSetGroupName": "g"}, TopologyRequest(preferred="rack", group="g")),
        (
            {"unconstrained": True, "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4},
            TopologyRequest(unconstrained=True, slices=(("rack", 4),)),
        ),
        (
            {
                "podsetSliceRequiredTopologyConstraints": [
                    {"topology": "block", "size": 8},
                    {"topology": "rack", "size": 2},
                ]
            },
            TopologyRequest(slices=(("block", 8), ("rack", 2))),
        ),
        ({"podIndexLabel": "i", "subGroupIndexLabel": "j", "subGroupCount": 2}, None),
    ],
    ids=["required", "preferred in a group", "slices", "nested slices", "only the labels with the index"],
)
def test_a_topology_request_of_a_pod_set_is_a_value(asked: Spec, expected: TopologyRequest | None) -> None:
    raw = raw_workload()
    raw["spec"]["podSets"][0]["topologyRequest"] = asked
    plain, found = (decode.workload(each, decode.WorkloadContext()).pod_sets[0] for each in (raw_workload(), raw))
    assert (plain.topology, found.topology) == (None, expected)


def test_complaints_of_kubernetes_come_before_those_of_the_namespace() -> None:
    bound = {"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    context = decode.WorkloadContext(RequestRules(limits([bound])))
    assert decode.workload(raw_workload(cpu="2"), context).invalid == (
        "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: "
        'Invalid value: ["cpu"]: requests must not be above the limitRange max',
    )
    raw = raw_workload(cpu="2")
    raw["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    raw["spec"]["podSets"] *= 2
    place = 'spec.podSets[{}].template.spec.containers[0]: Invalid value: ["cpu"]: requests must not exceed its limits'
    assert decode.workload(raw, context).invalid == (
        f"resources validation failed: [{place.format(0)}, {place.format(1)}]",
    )


def test_pod_sets_of_equal_shape_are_one_value_whatever_their_images() -> None:
    context = decode.WorkloadContext()
    first = decode.workload(raw_workload("a"), context).pod_sets[0]
    assert decode.workload(raw_workload("b"), context).pod_sets[0] is first
    assert decode.workload(raw_workload("c", cpu="2"), context).pod_sets[0] is not first


def test_a_waiting_workload_takes_less_than_a_kilobyte_in_state() -> None:
    assert bench.memory(2_500, alike=True) < 1024


def test_a_new_version_of_a_workload_shares_its_key_and_uid_with_the_one_before() -> None:
    context = decode.WorkloadContext()
    first = decode.workload(raw_workload(), context)
    second = decode.workload(copy.deepcopy(raw_workload()), context, first)
    assert (second.key is first.key, second.uid is first.uid) == (True, True)
    other = copy.deepcopy(raw_workload())
    other["metadata"]["uid"] = "another"
    assert decode.workload(other, context, first).uid == "another"


def test_conditions_and_the_fields_that_few_workloads_have_are_shared() -> None:
    status = {
        "conditions": [{"type": "QuotaReserved", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    }
    first, second = (decode.workload(raw_workload(name, status=status), decode.WorkloadContext()) for name in "ab")
    assert first.conditions is second.conditions
    assert first.rare is COMMON
    changed = replace(first, active=False, queue="other")
    assert (changed.active, changed.queue) == (False, "other")
    assert replace(changed, active=True, queue=first.queue) == first
    assert replace(changed, active=True).rare is COMMON
