"""What is refused when an object is created, and the words for it."""

import pytest

from api import validate
from api.errors import FieldError
from api.feature_gates import DEFAULTS
from api.objects import Raw
from tests.api.objects import (
    VALID,
    admitted,
    changed,
    cluster_queue,
    condition,
    group,
    obj,
    pod_set,
    quota,
    workload,
)


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_object_of_each_kind_has_no_errors(kind: str) -> None:
    assert texts(validate.create(VALID[kind]())) == []


RG = "spec.resourceGroups[0]"
QUOTA = f"{RG}.flavors[0].resources[0]"
COHORT = obj("Cohort", {"resourceGroups": [group("a")]})
RF = VALID["ResourceFlavor"]()
LONE = changed(cluster_queue(), "spec.cohortName", ...)
CONCURRENT = {"migration": {"mode": "RetainFirstAdmission", "constraints": {"lastAcceptableFlavorName": "a"}}}
GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
BOOST = "metadata.annotations[kueue.x-k8s.io/priority-boost]"
SLICES = "status.admission.podSetAssignments[0].topologyAssignment.slices"
SLICE_SIZE = "spec.podSets[0].topologyRequest.podSetSliceSize"

CASES: dict[str, tuple[Raw, list[str]]] = {
    "a borrowing limit without a cohort": (
        changed(LONE, f"{QUOTA}.borrowingLimit", "1"),
        [f'{QUOTA}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty'],
    ),
    "a lending limit without a cohort": (
        changed(LONE, f"{QUOTA}.lendingLimit", "1000m"),
        [f'{QUOTA}.lendingLimit: Invalid value: "1": must be nil when cohort is empty'],
    ),
    "a limit of a Cohort without parent": (
        changed(COHORT, f"{QUOTA}.borrowingLimit", 1),
        [f'{QUOTA}.borrowingLimit: Invalid value: "1": must be nil when parent is empty'],
    ),
    "lending more than there is": (
        changed(cluster_queue(), f"{QUOTA}.lendingLimit", "4001m"),
        [f'{QUOTA}.lendingLimit: Invalid value: "4001m": must be less than or equal to the nominalQuota'],
    ),
    "a Cohort may lend more than its own quota": (
        changed(obj("Cohort", {"parentName": "root", "resourceGroups": [group("a")]}), f"{QUOTA}.lendingLimit", 9),
        [],
    ),
    "negative quotas, all of them": (
        cluster_queue(
            resourceGroups=[
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {"name": "a", "resources": [quota("cpu", -1, borrowingLimit="-2", lendingLimit="-3Gi")]}
                    ],
                }
            ]
        ),
        [
            f'{QUOTA}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
            f'{QUOTA}.borrowingLimit: Invalid value: "-2": must be greater than or equal to 0',
            f'{QUOTA}.lendingLimit: Invalid value: "-3Gi": must be greater than or equal to 0',
        ],
    ),
    "resources out of order": (
        changed(cluster_queue(), f"{RG}.flavors[1].resources", [quota("memory"), quota("cpu")]),
        [
            f'{RG}.flavors[1].resources[0].name: Invalid value: "memory": must match the name in coveredResources',
            f'{RG}.flavors[1].resources[1].name: Invalid value: "cpu": must match the name in coveredResources',
        ],
    ),
    "a resource too many": (
        changed(cluster_queue(), f"{RG}.flavors[0].resources[2]", quota("gpu", -1)),
        [
            f"{RG}: Invalid value: flavors must have the same number of resources as the coveredResources",
            f'{RG}.flavors[0].resources[2].name: Invalid value: "gpu": must match the name in coveredResources',
            f'{RG}.flavors[0].resources[2].nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a resource too few": (
        changed(cluster_queue(), f"{RG}.flavors[0].resources", [quota("cpu")]),
        [f"{RG}: Invalid value: flavors must have the same number of resources as the coveredResources"],
    ),
    "a flavor and a resource in two groups": (
        cluster_queue(resourceGroups=[group("a", resources=("cpu",)), group("a", resources=("cpu",))]),
        [
            'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
            'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
        ],
    ),
    "a flavor twice in a group": (
        cluster_queue(resourceGroups=[group("a", "a")]),
        [f'{RG}.flavors[1]: Duplicate value: {{"name":"a"}}'],
    ),
    "a quantity that is none": (
        changed(cluster_queue(), f"{QUOTA}.nominalQuota", "many"),
        [f'{QUOTA}.nominalQuota: Invalid value: "many": {QUOTA}.nominalQuota in body should match \''],
    ),
    "an exponent beyond reason": (
        changed(cluster_queue(), f"{QUOTA}.nominalQuota", "1e999"),
        [f'{QUOTA}.nominalQuota: Invalid value: "1e999": the exponent is beyond 256'],
    ),
    "a resource with a bad name": (
        cluster_queue(resourceGroups=[group("a", resources=("-cpu",))]),
        [f'{RG}.coveredResources[0]: Invalid value: "-cpu": name part must consist of'],
    ),
    "borrowing preemption without reclaim": (
        cluster_queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        [
            'spec.preemption: Invalid value: {"reclaimWithinCohort":"Never","borrowWithinCohort":{"policy":'
            '"LowerPriority"},"withinClusterQueue":"Never"}: reclaimWithinCohort=Never and'
            " borrowWithinCohort.Policy!=Never"
        ],
    ),
    "a preference that the search never reaches": (
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"}),
        [
            'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": preference'
            ' "BorrowingOverPreemption" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
        ],
    ),
    "a weight that counts as nothing": (
        cluster_queue(fairSharing={"weight": "1n"}),
        ['spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9'],
    ),
    "a negative weight": (
        cluster_queue(fairSharing={"weight": "-0.5"}),
        ['spec.fairSharing: Invalid value: "-500m": must be greater than or equal to 0'],
    ),
    "a check on a flavor the queue has not": (
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["a", "c"]}]}),
        [
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]: Unsupported value: "c": supported values:'
            ' "a", "b"'
        ],
    ),
    "a selector that is none": (
        cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
        ['spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator'],
    ),
    "labels where the selector should be": (
        cluster_queue(namespaceSelector={"team": "team-a"}),
        [
            "spec.namespaceSelector.team: Forbidden: unknown field; it would be dropped and leave a selector that"
            " matches more namespaces than meant (write matchLabels: {team: ...})"
        ],
    ),
    "a field of the selector misspelt": (
        cluster_queue(namespaceSelector={"matchlabels": {"team": "team-a"}, "matchExpression": []}),
        [
            f"spec.namespaceSelector.{written}: Forbidden: unknown field; it would be dropped and leave a selector that"
            f" matches more namespaces than meant (write {meant}: ...)"
            for written, meant in (("matchExpression", "matchExpressions"), ("matchlabels", "matchLabels"))
        ],
    ),
    "concurrent admission with everything wrong": (
        cluster_queue(
            queueingStrategy="StrictFIFO",
            concurrentAdmissionPolicy=CONCURRENT,
            resourceGroups=[group("a", resources=("cpu",)), group("b", resources=("memory",))],
        ),
        [
            "spec.resourceGroups: Invalid value: 2: must have exactly one ResourceGroup when"
            " ConcurrentAdmissionPolicy is defined",
            "spec.concurrentAdmissionPolicy.migration.constraints: Forbidden: may only be set when migration.mode is"
            ' "TryPreferredFlavors" (got "RetainFirstAdmission")',
            'spec.queueingStrategy: Invalid value: "StrictFIFO": StrictFIFO queueing strategy cannot be used when'
            " ConcurrentAdmissionPolicy is defined",
        ],
    ),
    "more flavors than a queue may have": (
        cluster_queue(
            resourceGroups=[
                group(*(f"f{index}-{place}" for place in range(52)), resources=(f"r{index}",)) for index in range(5)
            ]
        ),
        [
            "spec.resourceGroups: Invalid value: 260: total number of flavors across all resourceGroups must be ≤ 256,"
            " got 260"
        ],
    ),
    "an enum, a bound and a pattern at once": (
        cluster_queue(queueingStrategy="FIFO", cohortName="A", stopPolicy=None),
        [
            'spec.cohortName: Invalid value: "A": spec.cohortName in body should match \'',
            'spec.queueingStrategy: Unsupported value: "FIFO": supported values: "StrictFIFO", "BestEffortFIFO"',
        ],
    ),
    "a taint twice": (
        changed(RF, "spec.nodeTaints[1]", {"key": "spot", "effect": "NoSchedule"}),
        [
            'spec.nodeTaints[1]: Duplicate value: {"key":"spot","effect":"NoSchedule"}: taints must be unique by key'
            " and effect pair"
        ],
    ),
    "a taint of no known effect": (
        changed(RF, "spec.nodeTaints[0].effect", "Never"),
        [
            'spec.nodeTaints[0].effect: Unsupported value: "Never": supported values: "NoSchedule",'
            ' "PreferNoSchedule", "NoExecute"'
        ],
    ),
    "a label that is none": (
        changed(RF, "spec.nodeLabels", {"a b": "c d"}),
        [
            'spec.nodeLabels: Invalid value: "a b": name part must consist of',
            'spec.nodeLabels: Invalid value: "c d": a valid label must be an empty string or consist of',
        ],
    ),
    "nine node labels": (
        changed(RF, "spec.nodeLabels", {f"l{index}": "" for index in range(9)}),
        ["spec.nodeLabels: Too many: 9: must have at most 8 items"],
    ),
    "a topology without labels": (
        obj("ResourceFlavor", {"topologyName": "t"}),
        ["spec: Invalid value: at least one nodeLabel is required when topology is set"],
    ),
    "the same level twice": (
        obj("Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}] * 2}),
        [
            "spec.levels: Invalid value: must be unique",
            "spec.levels: Invalid value: the kubernetes.io/hostname label can only be used at the lowest"
            " level of topology",
        ],
    ),
    "a cluster twice": (
        obj("MultiKueueConfig", {"clusters": ["a", "a"]}),
        ["spec.clusters: Invalid value: must be unique"],
    ),
    "two sources of a cluster": (
        obj(
            "MultiKueueCluster",
            {"clusterSource": {"kubeConfig": {"location": "a"}, "clusterProfileRef": {"name": "b"}}},
        ),
        ["spec.clusterSource: Invalid value: exactly one of the fields in [kubeConfig clusterProfileRef] must be set"],
    ),
    "no value": (obj("WorkloadPriorityClass"), ["value: Required value"]),
    "a value beyond int32": (
        {**obj("WorkloadPriorityClass"), "value": 1 << 31},
        ["value: Invalid value: 2147483648: must be within the range of int32"],
    ),
    "no controller": (obj("AdmissionCheck", {}), ["spec.controllerName: Required value"]),
    "an unknown kind": ({"kind": "Job"}, ['kind: Unsupported value: "Job": supported values: "AdmissionCheck"']),
    "no kind": ({}, ["kind: Unsupported value: null: supported values"]),
    "a spec that is a list": (
        {**obj("Cohort"), "spec": []},
        ['spec: Invalid value: "array": spec in body must be of type object: "array"'],
    ),
    "partial admission of two pod sets": (
        workload(pod_set("a", minCount=1), pod_set("b", minCount=1)),
        ["spec.podSets: Invalid value: 2: at most one podSet can use minCount"],
    ),
    "partial admission of an elastic job": (
        workload(pod_set(minCount=1), annotations={"kueue.x-k8s.io/elastic-job": "true"}),
        ["spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together"],
    ),
    "a minimum above the count": (
        workload(pod_set(minCount=3)),
        ["spec.podSets[0]: Invalid value: minCount should be positive and less or equal to count"],
    ),
    "a class without priority": (
        workload(priorityClassRef={"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "a"}),
        [
            "spec: Invalid value: priority should not be nil when priorityClassRef is set",
            "spec.priorityClassRef: Invalid value: only the WorkloadPriorityClass kind is allowed for the"
            " kueue.x-k8s.io group",
        ],
    ),
    "a request for what we count ourselves, and a negative one": (
        changed(
            workload(),
            "spec.podSets[0].template.spec.containers[0].resources",
            {"requests": {"pods": "1"}, "limits": {"cpu": "-1"}},
        ),
        [
            'spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid value: "pods": the key is'
            " reserved for internal kueue use",
            'spec.podSets[0].template.spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater'
            " than or equal to 0",
        ],
    ),
    "a slice without size": (
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
        [f"{SLICE_SIZE}: Required value: must be set when podSetSliceRequiredTopology is specified"],
    ),
    "a size without slice": (
        workload(pod_set(topologyRequest={"podSetSliceSize": 2})),
        [f"{SLICE_SIZE}: Forbidden: may not be set when podSetSliceRequiredTopology is not specified"],
    ),
    "labels of the pods that are none": (
        workload(pod_set(template={"metadata": {"labels": {"-": ""}}, "spec": {"containers": [{"name": "c"}]}})),
        ['spec.podSets[0].template.metadata.labels: Invalid value: "-": name part must consist of'],
    ),
    "a boost that is no number": (
        workload(annotations={"kueue.x-k8s.io/priority-boost": "high"}),
        [f'{BOOST}: Invalid value: "high": must be a valid signed integer'],
    ),
    "an empty boost": (
        workload(annotations={"kueue.x-k8s.io/priority-boost": ""}),
        [
            f'{BOOST}: Invalid value: "": must be a valid signed integer; use "0" explicitly, empty string is not'
            " allowed"
        ],
    ),
    "gates that are none": (
        workload(annotations={"kueue.x-k8s.io/admission-gated-by": "a.io/x,,a.io/x,gate"}),
        [
            f'{GATES}: Invalid value: "a.io/x,,a.io/x,gate": cannot contain empty gate names',
            f'{GATES}: Invalid value: "a.io/x,,a.io/x,gate": duplicate gate name: a.io/x',
            f'{GATES}: Invalid value: "gate": must be a domain-prefixed path (such as "acme.io/foo")',
        ],
    ),
    "a reservation of nothing": (
        workload(status={"conditions": [condition("QuotaReserved")]}),
        ["status.admission: Required value: must be set while the QuotaReserved condition is true"],
    ),
    "an assignment of another pod set, not divisible": (
        changed(
            workload(status=admitted()),
            "status.admission.podSetAssignments[0]",
            {"name": "other", "count": 2, "resourceUsage": {"cpu": "1001m", "memory": "2"}},
        ),
        [
            'status.admission.podSetAssignments[0].name: Not found: "other"',
            'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1001m": is not a multiple of 2',
        ],
    ),
    "an assignment too few": (
        workload(pod_set(), pod_set("b"), status=admitted()),
        ["Invalid value: podSetAssignments must have the same number of podSets as the spec"],
    ),
    "reclaimable pods that are not there": (
        workload(status={"reclaimablePods": [{"name": "main", "count": 3}, {"name": "b", "count": 0}]}),
        [
            "status.reclaimablePods[main].count: Invalid value: 3: should be less or equal to 2",
            'status.reclaimablePods[b].name: Unsupported value: "b": supported values: "main"',
        ],
    ),
    "an update for a pod set that is not there": (
        workload(
            status={
                "admissionChecks": [
                    {
                        "name": "c",
                        "state": "Ready",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                        "podSetUpdates": [{"name": "b", "labels": {"-": ""}}],
                    }
                ]
            }
        ),
        [
            'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "b": supported values: "main"',
            'status.admissionChecks[0].podSetUpdates[0].labels: Invalid value: "-": name part must consist of',
        ],
    ),
    "conditions that metav1 would refuse": (
        workload(
            status={
                "conditions": [
                    {**condition("x" * 64), "lastTransitionTime": "0001-01-01T00:00:00Z"},
                ]
            }
        ),
        [
            f'status.conditions[0].type: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
            "status.conditions[0].lastTransitionTime: Required value: must be set",
        ],
    ),
    "a topology of domains that do not fit together": (
        changed(
            workload(status=admitted()),
            "status.admission.podSetAssignments[0].topologyAssignment",
            {
                "levels": ["rack", "kubernetes.io/hostname"],
                "slices": [
                    {"domainCount": 2, "podCounts": {"individual": [1]}, "valuesPerLevel": [{}]},
                    {
                        "domainCount": 2,
                        "podCounts": {"universal": 1, "individual": [1, 1]},
                        "valuesPerLevel": [{"universal": "r"}, {"individual": {"roots": ["a"]}}],
                    },
                ],
            },
        ),
        [
            f"{SLICES}[0].valuesPerLevel[0]: Invalid value: exactly one of the fields in [universal individual] must"
            " be set",
            f"{SLICES}[0]: Invalid value: podCounts.individual must have length equal to domainCount",
            f"{SLICES}[1].podCounts: Invalid value: exactly one of the fields in [universal individual] must be set",
            f"{SLICES}[1]: Invalid value: valuesPerLevel.individual, if set, must have roots of length equal to"
            " domainCount of this TopologyAssignmentSlice",
            f"{SLICES.removesuffix('.slices')}: Invalid value: valuesPerLevel must have the same length as the number"
            " of levels in this TopologyAssignment",
        ],
    ),
    "a cluster chosen while others are offered": (
        workload(status={"clusterName": "a", "nominatedClusterNames": ["a"]}),
        ["status: Invalid value: clusterName and nominatedClusterNames are mutually exclusive"],
    ),
}


@pytest.mark.parametrize(("bad", "expected"), CASES.values(), ids=CASES.keys())
def test_a_bad_object_is_refused_with_all_its_errors(bad: Raw, expected: list[str]) -> None:
    found = texts(validate.create(bad, dict.fromkeys(DEFAULTS, True)))
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)
        assert text == start or start.endswith(("'", "of", '"AdmissionCheck"', "supported values")), text
