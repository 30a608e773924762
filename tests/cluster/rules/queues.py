"""ClusterQueues, Cohorts and LocalQueues."""

from __future__ import annotations

from typing import Any

from tests.api.objects import VALID, changed, cluster_queue, group, obj, quota
from tests.cluster.rules import Rule, hook, hook_change, schema, schema_change

RG = "spec.resourceGroups[0]"
QUOTA = f"{RG}.flavors[0].resources[0]"
NEGATIVE = "must be greater than or equal to 0"
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
DNS_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
SUBDOMAIN = r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"
COHORT = VALID["Cohort"]()
ROOT = changed(COHORT, "spec.parentName", ...)
ALONE = changed(cluster_queue(), "spec.cohortName", ...)


def flavors(number: int, resource: str) -> dict[str, Any]:
    return group(*(f"{resource}-{index}" for index in range(number)), resources=(resource,))


def selecting(**requirement: Any) -> dict[str, Any]:
    return cluster_queue(namespaceSelector={"matchExpressions": [requirement]})


def concurrent(mode: str = "TryPreferredFlavors", **constraints: str) -> dict[str, Any]:
    return {"migration": {"mode": mode, **({"constraints": constraints} if constraints else {})}}


CLUSTER_QUEUES: dict[str, Rule] = {
    "a queue that borrows from nobody": schema(
        changed(ALONE, f"{QUOTA}.borrowingLimit", "1"),
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
    "a queue that lends to nobody": hook(
        changed(ALONE, f"{QUOTA}.lendingLimit", "1"),
        f'{QUOTA}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
    ),
    "lending more than there is": hook(
        changed(cluster_queue(), f"{QUOTA}.lendingLimit", "5"),
        f'{QUOTA}.lendingLimit: Invalid value: "5": must be less than or equal to the nominalQuota',
    ),
    "a negative quota": hook(
        changed(cluster_queue(), f"{QUOTA}.nominalQuota", "-1"),
        f'{QUOTA}.nominalQuota: Invalid value: "-1": {NEGATIVE}',
    ),
    "a negative borrowing limit": hook(
        changed(cluster_queue(), f"{QUOTA}.borrowingLimit", "-1Gi"),
        f'{QUOTA}.borrowingLimit: Invalid value: "-1Gi": {NEGATIVE}',
    ),
    "a negative lending limit": hook(
        changed(cluster_queue(), f"{QUOTA}.lendingLimit", "-500m"),
        f'{QUOTA}.lendingLimit: Invalid value: "-500m": {NEGATIVE}',
    ),
    "resources in another order than covered": hook(
        changed(cluster_queue(), f"{RG}.flavors[1].resources", [quota("memory"), quota("cpu")]),
        f'[{RG}.flavors[1].resources[0].name: Invalid value: "memory": must match the name in coveredResources, '
        f'{RG}.flavors[1].resources[1].name: Invalid value: "cpu": must match the name in coveredResources]',
    ),
    "a flavor that lacks a resource": schema(
        changed(cluster_queue(), f"{RG}.flavors[0].resources", [quota("cpu")]),
        f"{RG}: Invalid value: flavors must have the same number of resources as the coveredResources",
    ),
    "a resource of an empty domain": hook(
        cluster_queue(resourceGroups=[group("a", resources=("/gpu",))]),
        f'{RG}.coveredResources[0]: Invalid value: "/gpu": prefix part must be non-empty',
    ),
    "a resource of a domain and no name": hook(
        cluster_queue(resourceGroups=[group("a", resources=("example.com/",))]),
        f'[{RG}.coveredResources[0]: Invalid value: "example.com/": name part must be non-empty,'
        f' {RG}.coveredResources[0]: Invalid value: "example.com/": {NAME_PART}]',
    ),
    "a resource of a domain that is none": hook(
        cluster_queue(resourceGroups=[group("a", resources=("Example.com/gpu",))]),
        f'{RG}.coveredResources[0]: Invalid value: "Example.com/gpu": prefix part {DNS_SUBDOMAIN}',
    ),
    "a resource of two domains": hook(
        cluster_queue(resourceGroups=[group("a", resources=("a.io/b/c",))]),
        f'{RG}.coveredResources[0]: Invalid value: "a.io/b/c": a valid label key {NAME_PART.removeprefix("name part ")}'
        " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    ),
    "a resource covered by two groups": hook(
        cluster_queue(resourceGroups=[group("a", resources=("cpu",)), group("b", resources=("cpu",))]),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "a flavor in two groups": hook(
        cluster_queue(resourceGroups=[group("a", resources=("cpu",)), group("a", resources=("memory",))]),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
    ),
    "a flavor twice in a group": schema(
        cluster_queue(resourceGroups=[group("a", "a")]), f'{RG}.flavors[1]: Duplicate value: {{"name":"a"}}'
    ),
    "a resource twice in a flavor": schema(
        changed(cluster_queue(), f"{RG}.flavors[0].resources[1].name", "cpu"),
        f'{RG}.flavors[0].resources[1]: Duplicate value: {{"name":"cpu"}}',
    ),
    "a resource whose name is none": hook(
        cluster_queue(resourceGroups=[group("a", resources=("-cpu",))]),
        f'{RG}.coveredResources[0]: Invalid value: "-cpu": {NAME_PART}',
    ),
    "a quantity that is none": schema(
        changed(cluster_queue(), f"{QUOTA}.nominalQuota", "many"),
        f'{QUOTA}.nominalQuota: Invalid value: "many": {QUOTA}.nominalQuota in body should match'
        r" '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
        r"(\.[0-9]+))))?$'",
    ),
    "no quota at all": schema(
        changed(cluster_queue(), f"{QUOTA}.nominalQuota", ...), f"{QUOTA}.nominalQuota: Required value"
    ),
    "a flavor without resources": schema(
        cluster_queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": []}]}]),
        f"\n* {RG}.flavors[0].resources: Invalid value: 0: {RG}.flavors[0].resources in body should have at least 1"
        " items"
        f"\n* {RG}: Invalid value: flavors must have the same number of resources as the coveredResources",
    ),
    "seventeen groups": schema(
        cluster_queue(resourceGroups=[group(f"f{index}", resources=(f"r{index}",)) for index in range(17)]),
        "spec.resourceGroups: Too many: 17: must have at most 16 items",
    ),
    "more than 256 flavors": hook(
        cluster_queue(resourceGroups=[flavors(52, f"r{index}") for index in range(5)]),
        "spec.resourceGroups: Invalid value: 260: total number of flavors across all resourceGroups must be ≤ 256,"
        " got 260",
    ),
    "more than 256 covered resources": hook(
        cluster_queue(
            resourceGroups=[
                group(f"f{index}", resources=tuple(f"r{index}-{place}" for place in range(52))) for index in range(5)
            ]
        ),
        "spec.resourceGroups: Invalid value: 260: total number of covered resources across all resourceGroups must be"
        " ≤ 256, got 260",
    ),
    "more than 512 quotas in a group": hook(
        cluster_queue(
            resourceGroups=[
                group(*(f"f{index}" for index in range(52)), resources=tuple(f"r{place}" for place in range(10)))
            ]
        ),
        f"{RG}: Invalid value: 520: number of flavor-resource combinations in a resourceGroup must be ≤ 512, got 520",
    ),
    "a selector with an unknown operator": hook(
        selecting(key="team", operator="Is"),
        'spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
    ),
    "a selector In nothing": hook(
        selecting(key="team", operator="In"),
        "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In'"
        " or 'NotIn'",
    ),
    "a selector that Exists as something": hook(
        selecting(key="team", operator="Exists", values=["a"]),
        "spec.namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is"
        " 'Exists' or 'DoesNotExist'",
    ),
    "a selector of a key that is none": hook(
        selecting(key="a b", operator="Exists"),
        f'spec.namespaceSelector.matchExpressions[0].key: Invalid value: "a b": {NAME_PART}',
    ),
    "a selector of a value that is none": hook(
        selecting(key="team", operator="In", values=["a b"]),
        f'spec.namespaceSelector.matchExpressions[0].values[0]: Invalid value: "a b": {LABEL_VALUE}',
    ),
    "a selector of a label that is none": hook(
        cluster_queue(namespaceSelector={"matchLabels": {"team": "a b"}}),
        f'spec.namespaceSelector.matchLabels: Invalid value: "a b": {LABEL_VALUE}',
    ),
    "labels where the selector should be": hook(
        cluster_queue(namespaceSelector={"team": "team-a"}),
        "spec.namespaceSelector.team: Forbidden: unknown field; it would be dropped and leave a selector that"
        " matches more namespaces than meant (write matchLabels: {team: ...})",
    ),
    "borrowing preemption without reclaim": schema(
        cluster_queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    "a preference that the search never reaches": schema(
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"}),
        "spec.flavorFungibility: Invalid value: preference can only be set when both whenCanBorrow and whenCanPreempt"
        " are TryNextFlavor",
    ),
    "a negative weight": hook(
        cluster_queue(fairSharing={"weight": "-0.5"}), f'spec.fairSharing: Invalid value: "-500m": {NEGATIVE}'
    ),
    "a weight that counts as nothing": hook(
        cluster_queue(fairSharing={"weight": "1n"}),
        'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
    ),
    "a check for a flavor the queue has not": hook(
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["c"]}]}),
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "c": supported values:'
        ' "a", "b"',
    ),
    "a check twice": schema(
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "x"}, {"name": "x"}]}),
        'spec.admissionChecksStrategy.admissionChecks[1]: Duplicate value: {"name":"x"}',
    ),
    "a strategy of no checks": schema(
        cluster_queue(admissionChecksStrategy={"admissionChecks": []}),
        "spec.admissionChecksStrategy.admissionChecks: Invalid value: 0: spec.admissionChecksStrategy.admissionChecks"
        " in body should have at least 1 items",
    ),
    "concurrent admission over two groups": hook(
        cluster_queue(
            concurrentAdmissionPolicy=concurrent(),
            resourceGroups=[group("a", resources=("cpu",)), group("b", resources=("memory",))],
        ),
        "spec.resourceGroups: Invalid value: 2: must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is"
        " defined",
    ),
    "concurrent admission over seventeen flavors": hook(
        cluster_queue(concurrentAdmissionPolicy=concurrent(), resourceGroups=[flavors(17, "cpu")]),
        f"{RG}.flavors: Invalid value: 17: cannot have more than 16 resource flavors in the ResourceGroup when"
        " ConcurrentAdmissionPolicy is defined",
    ),
    "concurrent admission in strict order": hook(
        cluster_queue(concurrentAdmissionPolicy=concurrent(), queueingStrategy="StrictFIFO"),
        'spec.queueingStrategy: Invalid value: "StrictFIFO": StrictFIFO queueing strategy cannot be used when'
        " ConcurrentAdmissionPolicy is defined",
    ),
    "constraints of a migration that does not happen": hook(
        cluster_queue(concurrentAdmissionPolicy=concurrent("RetainFirstAdmission", lastAcceptableFlavorName="a")),
        "spec.concurrentAdmissionPolicy.migration.constraints: Forbidden: may only be set when migration.mode is"
        ' "TryPreferredFlavors" (got "RetainFirstAdmission")',
    ),
    "a last flavor the queue has not": hook(
        cluster_queue(concurrentAdmissionPolicy=concurrent(lastAcceptableFlavorName="c")),
        'spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName: Invalid value: "c": must be'
        " one of the flavors defined in the ClusterQueue: [a b]",
    ),
    "another concurrent admission": hook_change(
        cluster_queue(concurrentAdmissionPolicy=concurrent()),
        cluster_queue(concurrentAdmissionPolicy=concurrent("RetainFirstAdmission")),
        'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":"RetainFirstAdmission"}}: field is'
        " immutable",
    ),
    "a check for a flavor that leaves": hook_change(
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["b"]}]}),
        cluster_queue(
            resourceGroups=[group("a")],
            admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["b"]}]},
        ),
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "b": supported values: "a"',
    ),
    "a cohort that leaves limits behind": schema_change(
        changed(cluster_queue(), f"{QUOTA}.borrowingLimit", "1"),
        changed(ALONE, f"{QUOTA}.borrowingLimit", "1"),
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
    "a cohort whose name is none": schema(
        cluster_queue(cohortName="Team A"),
        f'spec.cohortName: Invalid value: "Team A": spec.cohortName in body should match {SUBDOMAIN}',
    ),
    "an unknown strategy": schema(
        cluster_queue(queueingStrategy="FIFO"),
        'spec.queueingStrategy: Unsupported value: "FIFO": supported values: "StrictFIFO", "BestEffortFIFO"',
    ),
    "an unknown way to stop": schema(
        cluster_queue(stopPolicy="Later"),
        'spec.stopPolicy: Unsupported value: "Later": supported values: "None", "Hold", "HoldAndDrain"',
    ),
    "an unknown preemption": schema(
        cluster_queue(preemption={"withinClusterQueue": "Always"}),
        'spec.preemption.withinClusterQueue: Unsupported value: "Always": supported values: "Never", "LowerPriority",'
        ' "LowerOrNewerEqualPriority"',
    ),
    "an unknown reclaim": schema(
        cluster_queue(preemption={"reclaimWithinCohort": "Always"}),
        'spec.preemption.reclaimWithinCohort: Unsupported value: "Always": supported values: "Never", "LowerPriority",'
        ' "Any"',
    ),
    "an unknown fungibility": schema(
        cluster_queue(flavorFungibility={"whenCanBorrow": "Borrow"}),
        'spec.flavorFungibility.whenCanBorrow: Unsupported value: "Borrow": supported values: "MayStopSearch",'
        ' "TryNextFlavor"',
    ),
}

COHORTS: dict[str, Rule] = {
    "a root that borrows": hook(
        changed(ROOT, f"{QUOTA}.borrowingLimit", "1"),
        f'{QUOTA}.borrowingLimit: Invalid value: "1": must be nil when parent is empty',
    ),
    "a root that lends": hook(
        changed(ROOT, f"{QUOTA}.lendingLimit", "1"),
        f'{QUOTA}.lendingLimit: Invalid value: "1": must be nil when parent is empty',
    ),
    "a negative quota of a Cohort": hook(
        changed(COHORT, f"{QUOTA}.nominalQuota", "-1"), f'{QUOTA}.nominalQuota: Invalid value: "-1": {NEGATIVE}'
    ),
    "a resource covered twice by a Cohort": hook(
        obj("Cohort", {"resourceGroups": [group("a", resources=("cpu",)), group("b", resources=("cpu",))]}),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "a flavor twice in a Cohort": hook(
        obj("Cohort", {"resourceGroups": [group("a", resources=("cpu",)), group("a", resources=("memory",))]}),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
    ),
    "a flavor of a Cohort that lacks a resource": schema(
        changed(COHORT, f"{RG}.flavors[0].resources", [quota("cpu")]),
        f"{RG}: Invalid value: flavors must have the same number of resources as the coveredResources",
    ),
    "a negative weight of a Cohort": hook(
        changed(COHORT, "spec.fairSharing", {"weight": "-1"}), f'spec.fairSharing: Invalid value: "-1": {NEGATIVE}'
    ),
    "a parent whose name is none": schema(
        changed(COHORT, "spec.parentName", "A"),
        f'spec.parentName: Invalid value: "A": spec.parentName in body should match {SUBDOMAIN}',
    ),
    "a parent that leaves limits behind": hook_change(
        changed(COHORT, f"{QUOTA}.lendingLimit", "1"),
        changed(ROOT, f"{QUOTA}.lendingLimit", "1"),
        f'{QUOTA}.lendingLimit: Invalid value: "1": must be nil when parent is empty',
    ),
}

LOCAL_QUEUES: dict[str, Rule] = {
    "another ClusterQueue": schema_change(
        obj("LocalQueue", {"clusterQueue": "a"}, namespace="default"),
        obj("LocalQueue", {"clusterQueue": "b"}, namespace="default"),
        'spec.clusterQueue: Invalid value: "b": field is immutable: delete the object and create it again',
    ),
    "a ClusterQueue whose name is none": schema(
        obj("LocalQueue", {"clusterQueue": "Team A"}, namespace="default"),
        f'spec.clusterQueue: Invalid value: "Team A": spec.clusterQueue in body should match {SUBDOMAIN}',
    ),
    "an unknown way to stop a LocalQueue": schema(
        obj("LocalQueue", {"clusterQueue": "a", "stopPolicy": "Later"}, namespace="default"),
        'spec.stopPolicy: Unsupported value: "Later": supported values: "None", "Hold", "HoldAndDrain"',
    ),
}
