"""Workloads: what they ask for, what they are given, and what may change."""

from __future__ import annotations

from typing import Any

from api.objects import Raw
from api.v1beta2.base import QUANTITY_PATTERN
from tests.api.objects import NOW, admitted, changed, condition, pod_set, workload
from tests.cluster.rules import Rule, hook, hook_change, hook_status, schema, schema_change, schema_status
from tests.cluster.rules.queues import DNS_SUBDOMAIN, LABEL_VALUE, NAME_PART, NEGATIVE, SUBDOMAIN

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
REPLACING = {"kueue.x-k8s.io/workload-slice-replacement-for": "default/other"}
GATED = "kueue.x-k8s.io/admission-gated-by"
GATES = f"metadata.annotations[{GATED}]"
BOOST = "metadata.annotations[kueue.x-k8s.io/priority-boost]"
POD_SET = "spec.podSets[0]"
TEMPLATE = f"{POD_SET}.template"
REQUESTS = f"{TEMPLATE}.spec.containers[0].resources"
SLICE_SIZE = f"{POD_SET}.topologyRequest.podSetSliceSize"
CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "a"}
WAITING = workload()
ADMITTED = workload(status=admitted(), priority=1, priorityClassRef=POD_CLASS)
HELD = changed(ADMITTED, "status.conditions", [condition("QuotaReserved")])
ASSIGNED = "status.admission.podSetAssignments[0]"
UPDATE = "status.admissionChecks[0].podSetUpdates[0]"


def resources(**fields: Any) -> Raw:
    return changed(WAITING, REQUESTS, fields)


def metadata(**fields: Raw) -> Raw:
    return changed(WAITING, f"{TEMPLATE}.metadata", fields)


def gated(gates: str) -> Raw:
    return workload(annotations={GATED: gates})


def checked(state: str = "Ready", *updates: Raw) -> Raw:
    check = {"name": "c", "state": state, "message": "", "lastTransitionTime": NOW, "podSetUpdates": list(updates)}
    return workload(status={"admissionChecks": [check]})


def tolerating(**toleration: Any) -> Raw:
    return checked("Ready", {"name": "main", "tolerations": [toleration]})


def placed(slices: list[Raw], *levels: str) -> Raw:
    """An admitted Workload of two pods with a topology assignment."""
    assignment = {"levels": list(levels or ("kubernetes.io/hostname",)), "slices": slices}
    return changed(workload(status=admitted()), f"{ASSIGNED}.topologyAssignment", assignment)


def domains(*, count: int = 1, pods: Raw | None = None, levels: list[Raw] | None = None) -> Raw:
    return {
        "domainCount": count,
        "podCounts": {"universal": 2} if pods is None else pods,
        "valuesPerLevel": [{"universal": "n"}] if levels is None else levels,
    }


def reclaimable(count: int) -> Raw:
    return workload(status=admitted(reclaimablePods=[{"name": "main", "count": count}]))


def of_type(path: str, expected: str, found: str) -> str:
    return f'{path}: Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"'


ASKED: dict[str, Rule] = {
    "resources that are a text": hook(
        changed(WAITING, REQUESTS, "1"),
        of_type(REQUESTS, "object", "string"),
    ),
    "a request that is no quantity": hook(
        resources(requests={"cpu": "lots"}),
        f'{REQUESTS}.requests.cpu: Invalid value: "lots": {REQUESTS}.requests.cpu in body should match'
        f" '{QUANTITY_PATTERN}'",
    ),
    "a request of half a number": hook(
        resources(requests={"cpu": 0.5}), of_type(f"{REQUESTS}.requests.cpu", "integer,string", "number")
    ),
    "init containers that are none": hook(
        changed(WAITING, f"{TEMPLATE}.spec.initContainers", ["x"]),
        of_type(f"{TEMPLATE}.spec.initContainers[0]", "object", "string"),
    ),
    "a node selector that is a list": hook(
        changed(WAITING, f"{TEMPLATE}.spec.nodeSelector", ["a"]),
        of_type(f"{TEMPLATE}.spec.nodeSelector", "object", "array"),
    ),
    "a toleration of a number": hook(
        changed(WAITING, f"{TEMPLATE}.spec.tolerations", [{"key": 5}]),
        of_type(f"{TEMPLATE}.spec.tolerations[0].key", "string", "integer"),
    ),
    "an affinity that is a text": hook(
        changed(WAITING, f"{TEMPLATE}.spec.affinity", "x"), of_type(f"{TEMPLATE}.spec.affinity", "object", "string")
    ),
    "a pod set whose labels are none": hook(
        metadata(labels={"a b": ""}), f'{TEMPLATE}.metadata.labels: Invalid value: "a b": {NAME_PART}'
    ),
    "a pod set of a label value that is none": hook(
        metadata(labels={"a": "b c"}), f'{TEMPLATE}.metadata.labels: Invalid value: "b c": {LABEL_VALUE}'
    ),
    "a pod set whose annotations are none": hook(
        metadata(annotations={"a b": ""}), f'{TEMPLATE}.metadata.annotations: Invalid value: "a b": {NAME_PART}'
    ),
    "a pod set of too many annotations": hook(
        metadata(annotations={"a": "x" * 262144}),
        f"{TEMPLATE}.metadata.annotations: Too long: may not be more than 262144 bytes",
    ),
    "a request for pods, which are counted": hook(
        resources(requests={"pods": "1"}),
        f'{REQUESTS}.requests[pods]: Invalid value: "pods": the key is reserved for internal kueue use',
    ),
    "a limit of pods": hook(
        resources(limits={"pods": "1"}),
        f'{REQUESTS}.limits[pods]: Invalid value: "pods": the key is reserved for internal kueue use',
    ),
    "a negative request": hook(
        resources(requests={"cpu": "-1"}), f'{REQUESTS}.requests[cpu]: Invalid value: "-1": {NEGATIVE}'
    ),
    "a negative limit": hook(
        resources(limits={"cpu": "-1"}), f'{REQUESTS}.limits[cpu]: Invalid value: "-1": {NEGATIVE}'
    ),
    "a negative request of an init container": hook(
        changed(
            WAITING,
            f"{TEMPLATE}.spec.initContainers",
            [{"name": "i", "resources": {"requests": {"memory": "-1Gi"}}}],
        ),
        f'{TEMPLATE}.spec.initContainers[0].resources.requests[memory]: Invalid value: "-1Gi": {NEGATIVE}',
    ),
    "a negative request of the pod as a whole": hook(
        changed(WAITING, f"{TEMPLATE}.spec.resources", {"requests": {"cpu": "-1"}}),
        f'{TEMPLATE}.spec.resources.requests[cpu]: Invalid value: "-1": {NEGATIVE}',
    ),
    "partial admission of two pod sets": hook(
        workload(pod_set("a", minCount=1), pod_set("b", minCount=1)),
        "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
    ),
    "partial admission of an elastic job": hook(
        workload(pod_set(minCount=1), annotations=ELASTIC),
        "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together",
    ),
    "a minimum above the count": schema(
        workload(pod_set(minCount=3)),
        f"{POD_SET}: Invalid value: minCount should be positive and less or equal to count",
    ),
    "a minimum of none": schema(
        workload(pod_set(minCount=0)),
        f"{POD_SET}.minCount: Invalid value: 0: {POD_SET}.minCount in body should be greater than or equal to 1",
    ),
    "a negative count": schema(
        workload(pod_set(count=-1)),
        f"{POD_SET}.count: Invalid value: -1: {POD_SET}.count in body should be greater than or equal to 0",
    ),
    "a pod set twice": schema(workload(pod_set(), pod_set()), 'spec.podSets[1]: Duplicate value: {"name":"main"}'),
    "no pod sets": schema(
        changed(WAITING, "spec.podSets", []),
        "spec.podSets: Invalid value: 0: spec.podSets in body should have at least 1 items",
    ),
    "nineteen pod sets": schema(
        workload(*(pod_set(f"p{index}") for index in range(19))),
        "spec.podSets: Too many: 19: must have at most 18 items",
    ),
    "a class without priority": schema(
        workload(priorityClassRef=CLASS),
        "spec: Invalid value: priority should not be nil when priorityClassRef is set",
    ),
    "a class of our group and not our kind": schema(
        workload(priority=1, priorityClassRef={**CLASS, "kind": "PriorityClass"}),
        "spec.priorityClassRef: Invalid value: only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io"
        " group",
    ),
    "a class of Kubernetes' group and not its kind": schema(
        workload(priority=1, priorityClassRef={**POD_CLASS, "kind": "WorkloadPriorityClass"}),
        "spec.priorityClassRef: Invalid value: only the PriorityClass kind is allowed for the scheduling.k8s.io group",
    ),
    "a class of another group": schema(
        workload(priority=1, priorityClassRef={**CLASS, "group": "example.com"}),
        'spec.priorityClassRef.group: Unsupported value: "example.com": supported values: "kueue.x-k8s.io",'
        ' "scheduling.k8s.io"',
    ),
    "no time to run": schema(
        workload(maximumExecutionTimeSeconds=0),
        "spec.maximumExecutionTimeSeconds: Invalid value: 0: spec.maximumExecutionTimeSeconds in body should be"
        " greater than or equal to 1",
    ),
    "a queue whose name is none": schema(
        workload(queueName="Main"),
        f'spec.queueName: Invalid value: "Main": spec.queueName in body should match {SUBDOMAIN}',
    ),
    "a slice without size": hook(
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
        f"{SLICE_SIZE}: Required value: must be set when podSetSliceRequiredTopology is specified",
    ),
    "a size without slice": hook(
        workload(pod_set(topologyRequest={"podSetSliceSize": 2})),
        f"{SLICE_SIZE}: Forbidden: may not be set when podSetSliceRequiredTopology is not specified",
    ),
    "a slice of nothing": schema(
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0})),
        f"{SLICE_SIZE}: Invalid value: 0: {SLICE_SIZE} in body should be greater than or equal to 1",
    ),
    "a boost that is no number": hook(
        workload(annotations={"kueue.x-k8s.io/priority-boost": "high"}),
        f'{BOOST}: Invalid value: "high": must be a valid signed integer',
    ),
    "an empty boost": hook(
        workload(annotations={"kueue.x-k8s.io/priority-boost": ""}),
        f'{BOOST}: Invalid value: "": must be a valid signed integer; use "0" explicitly, empty string is not allowed',
    ),
    "an empty gate": hook(
        gated("a.io/x,,a.io/y"),
        f'{GATES}: Invalid value: "a.io/x,,a.io/y": cannot contain empty gate names',
    ),
    "a gate twice": hook(
        gated("a.io/x,a.io/x"), f'{GATES}: Invalid value: "a.io/x,a.io/x": duplicate gate name: a.io/x'
    ),
    "a gate of no domain": hook(
        gated("gate"), f'{GATES}: Invalid value: "gate": must be a domain-prefixed path (such as "acme.io/foo")'
    ),
    "a gate whose domain is none": hook(gated("A.io/x"), f'{GATES}: Invalid value: "A.io": {DNS_SUBDOMAIN}'),
    "a gate whose path is none": hook(
        gated("a.io/x?"),
        f'{GATES}: Invalid value: "x?": Invalid path (regex used for validation is'
        r" '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')",
    ),
    "a gate that is too long": hook(gated(f"a.io/{'x' * 60}"), f"{GATES}: Too long: may not be more than 63 bytes"),
}

CHANGED: dict[str, Rule] = {
    "the queue of a Workload that holds quota": schema_change(
        HELD,
        changed(HELD, "spec.queueName", "other"),
        "<nil>: Invalid value: queueName is immutable while workload quota reserved",
    ),
    "its class taken away": schema_change(
        HELD,
        changed(HELD, "spec.priorityClassRef", ...),
        "<nil>: Invalid value: priorityClassRef is immutable while workload quota reserved",
    ),
    "another PriorityClass": schema_change(
        HELD,
        changed(HELD, "spec.priorityClassRef.name", "b"),
        "<nil>: Invalid value: priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload"
        " quota reserved",
    ),
    "a class of another group and kind": schema_change(
        HELD,
        changed(HELD, "spec.priorityClassRef", CLASS),
        "\n* <nil>: Invalid value: priorityClassRef.group is immutable while workload quota reserved"
        "\n* <nil>: Invalid value: priorityClassRef.kind is immutable while workload quota reserved",
    ),
    "the time limit of one that is admitted": schema_change(
        ADMITTED,
        changed(ADMITTED, "spec.maximumExecutionTimeSeconds", 5),
        "<nil>: Invalid value: maximumExecutionTimeSeconds is immutable while workload quota reserved",
    ),
    "more pods": hook_change(
        HELD,
        changed(HELD, "spec.podSets[0].count", 3),
        'spec.podSets.0: Invalid value: {"count":3,"name":"main","template":{"spec":{"containers":[{"name":"c",'
        '"resources":{"requests":{"cpu":"1"}}}]}}}: field is immutable',
    ),
    "a first gate": hook_change(
        WAITING, gated("a.io/x"), f"{GATES}: Forbidden: cannot add admission gate after creation"
    ),
    "another gate": hook_change(
        gated("a.io/x"), gated("a.io/x,a.io/y"), f"{GATES}: Forbidden: can only remove gates, not add new ones"
    ),
}

GIVEN: dict[str, Rule] = {
    "a reservation of nothing": hook_status(
        WAITING,
        workload(status={"conditions": [condition("QuotaReserved")]}),
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
    ),
    "an assignment too few": schema_status(
        workload(pod_set(), pod_set("b")),
        workload(pod_set(), pod_set("b"), status=admitted()),
        "<nil>: Invalid value: podSetAssignments must have the same number of podSets as the spec",
    ),
    "an assignment of another pod set": hook_status(
        WAITING,
        changed(workload(status=admitted()), f"{ASSIGNED}.name", "other"),
        f'{ASSIGNED}.name: Not found: "other"',
    ),
    "an assignment that does not divide": hook_status(
        WAITING,
        changed(workload(status=admitted()), f"{ASSIGNED}.resourceUsage", {"cpu": "1001m"}),
        f'{ASSIGNED}.resourceUsage[cpu]: Invalid value: "1001m": is not a multiple of 2',
    ),
    "another admission": hook_status(
        ADMITTED,
        changed(ADMITTED, "status.admission.clusterQueue", "other"),
        'status.admission: Invalid value: {"clusterQueue":"other","podSetAssignments":[{"count":2,"flavors":{"cpu":'
        '"a"},"name":"main","resourceUsage":{"cpu":"2"}}]}: field is immutable',
    ),
    "a condition of a type that is none": hook_status(
        WAITING,
        workload(status={"conditions": [condition("x" * 64)]}),
        f'status.conditions[0].type: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
    ),
    "a condition of the beginning of time": hook_status(
        WAITING,
        workload(status={"conditions": [{**condition("Ready"), "lastTransitionTime": "0001-01-01T00:00:00Z"}]}),
        "status.conditions[0].lastTransitionTime: Required value: must be set",
    ),
    "a condition twice": schema_status(
        WAITING,
        workload(status={"conditions": [condition("Ready"), condition("Ready")]}),
        'status.conditions[1]: Duplicate value: {"type":"Ready"}',
    ),
    "a condition that is perhaps": schema_status(
        WAITING,
        workload(status={"conditions": [condition("Ready", "Perhaps")]}),
        'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "True", "False", "Unknown"',
    ),
    "more reclaimable pods than there are": hook_status(
        WAITING,
        workload(status={"reclaimablePods": [{"name": "main", "count": 3}]}),
        "status.reclaimablePods[main].count: Invalid value: 3: should be less or equal to 2",
    ),
    "reclaimable pods of another set": hook_status(
        WAITING,
        workload(status={"reclaimablePods": [{"name": "b", "count": 0}]}),
        'status.reclaimablePods[b].name: Unsupported value: "b": supported values: "main"',
    ),
    "reclaimable pods that grow fewer": hook_status(
        reclaimable(2), reclaimable(1), "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"
    ),
    "reclaimable pods that vanish": hook_status(
        reclaimable(2), workload(status=admitted()), "status.reclaimablePods[main]: Required value: cannot be removed"
    ),
    "an update for another pod set": hook_status(
        WAITING, checked("Ready", {"name": "b"}), f'{UPDATE}.name: Unsupported value: "b": supported values: "main"'
    ),
    "an update with a label that is none": hook_status(
        WAITING,
        checked("Ready", {"name": "main", "labels": {"a b": ""}}),
        f'{UPDATE}.labels: Invalid value: "a b": {NAME_PART}',
    ),
    "an update with an annotation that is none": hook_status(
        WAITING,
        checked("Ready", {"name": "main", "annotations": {"a b": ""}}),
        f'{UPDATE}.annotations: Invalid value: "a b": {NAME_PART}',
    ),
    "an update with a node label that is none": hook_status(
        WAITING,
        checked("Ready", {"name": "main", "nodeSelector": {"a": "b c"}}),
        f'{UPDATE}.nodeSelector: Invalid value: "b c": {LABEL_VALUE}',
    ),
    "an update with a toleration whose key is none": hook_status(
        WAITING,
        tolerating(key="a b", operator="Exists"),
        f'{UPDATE}.tolerations[0].key: Invalid value: "a b": {NAME_PART}',
    ),
    "an update with a toleration of no key": schema_status(
        WAITING,
        tolerating(operator="Equal"),
        f"{UPDATE}.tolerations: Invalid value: operator must be Exists when 'key' is empty, which means 'match all"
        " values and all keys'",
    ),
    "an update with a toleration for a while": schema_status(
        WAITING,
        tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=1),
        f"{UPDATE}.tolerations: Invalid value: effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    "an update with a toleration by an unknown operator": schema_status(
        WAITING,
        tolerating(key="a", operator="In"),
        f"{UPDATE}.tolerations: Invalid value: supported toleration values: 'Equal'(default), 'Exists'",
    ),
    "an update with a toleration that exists as something": schema_status(
        WAITING,
        tolerating(key="a", operator="Exists", value="b"),
        f"{UPDATE}.tolerations: Invalid value: a value must be empty when 'operator' is 'Exists'",
    ),
    "an update with a toleration of an unknown effect": schema_status(
        WAITING,
        tolerating(key="a", operator="Exists", effect="Never"),
        f"{UPDATE}.tolerations: Invalid value: supported taint effect values: 'NoSchedule', 'PreferNoSchedule',"
        " 'NoExecute'",
    ),
    "other updates of a check that is ready": hook_status(
        checked("Ready"),
        checked("Ready", {"name": "main"}),
        'status.admissionChecks[0].podSetUpdates: Invalid value: [{"name":"main"}]: field is immutable',
    ),
    "a check in an unknown state": schema_status(
        WAITING,
        checked("Done"),
        'status.admissionChecks[0].state: Unsupported value: "Done": supported values: "Pending", "Ready", "Retry",'
        ' "Rejected"',
    ),
    "a cluster that was not offered": hook_status(
        workload(status={"nominatedClusterNames": ["a"]}),
        workload(status={"clusterName": "b"}),
        'status.clusterName: Invalid value: "b": when setting clusterName it must be one of the nominatedClusterNames',
    ),
    "a cluster chosen while others are offered": schema_status(
        workload(status={"nominatedClusterNames": ["a"]}),
        workload(status={"clusterName": "a", "nominatedClusterNames": ["a"]}),
        "status: Invalid value: clusterName and nominatedClusterNames are mutually exclusive",
    ),
    "another cluster": schema_status(
        workload(status={"clusterName": "a"}, annotations=REPLACING),
        workload(status={"clusterName": "b"}, annotations=REPLACING),
        "status: Invalid value: clusterName is immutable once set",
    ),
    "a slice of fewer levels": schema_status(
        WAITING,
        placed([domains()], "rack", "kubernetes.io/hostname"),
        f"{ASSIGNED}.topologyAssignment: Invalid value: valuesPerLevel must have the same length as the number of"
        " levels in this TopologyAssignment",
    ),
    "counts of fewer domains": schema_status(
        WAITING,
        placed([domains(count=2, pods={"individual": [2]})]),
        f"{ASSIGNED}.topologyAssignment.slices[0]: Invalid value: podCounts.individual must have length equal to"
        " domainCount",
    ),
    "values of fewer domains": schema_status(
        WAITING,
        placed([domains(count=2, levels=[{"individual": {"roots": ["a"]}}])]),
        f"{ASSIGNED}.topologyAssignment.slices[0]: Invalid value: valuesPerLevel.individual, if set, must have roots"
        " of length equal to domainCount of this TopologyAssignmentSlice",
    ),
    "counts that are both one and many": schema_status(
        WAITING,
        placed([domains(pods={"universal": 2, "individual": [2]})]),
        f"{ASSIGNED}.topologyAssignment.slices[0].podCounts: Invalid value: exactly one of the fields in [universal"
        " individual] must be set",
    ),
    "values that are neither one nor many": schema_status(
        WAITING,
        placed([domains(levels=[{}])]),
        f"{ASSIGNED}.topologyAssignment.slices[0].valuesPerLevel[0]: Invalid value: exactly one of the fields in"
        " [universal individual] must be set",
    ),
}
