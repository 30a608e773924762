"""What may not change, and when."""

import pytest

from api import validate
from api.objects import Raw
from tests.api.objects import admitted, changed, cluster_queue, condition, obj, pod_set, workload

RESERVED = workload(
    status=admitted(),
    priority=1,
    priorityClassRef={"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "a"},
)
WAITING = workload()
CHECK = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
GATED = "kueue.x-k8s.io/admission-gated-by"
GATES = f"metadata.annotations[{GATED}]"
BAD_CHECK = cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["gone"]}]})
LEVELS = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]

CASES: dict[str, tuple[Raw, Raw, list[str]]] = {
    "the queue of a LocalQueue": (
        obj("LocalQueue", {"clusterQueue": "a"}),
        obj("LocalQueue", {"clusterQueue": "b"}),
        ['spec.clusterQueue: Invalid value: "b": field is immutable: delete the object and create it again'],
    ),
    "a LocalQueue that had no queue gets one": (obj("LocalQueue", {}), obj("LocalQueue", {"clusterQueue": "b"}), []),
    "the controller of a check": (
        obj("AdmissionCheck", {"controllerName": "a"}),
        obj("AdmissionCheck", {"controllerName": "b"}),
        ['spec.controllerName: Invalid value: "b": field is immutable: delete the object and create it again'],
    ),
    "the topology of a flavor": (
        obj("ResourceFlavor", {"topologyName": "a", "nodeLabels": {"a": "b"}}),
        obj("ResourceFlavor", {"nodeLabels": {"a": "b"}}),
        ["spec: Invalid value: topologyName is immutable when topologyName is set"],
    ),
    "labels, taints and tolerations of a flavor with a topology may change": (
        obj("ResourceFlavor", {"topologyName": "a", "nodeLabels": {"a": "b", "c": "d"}}),
        obj(
            "ResourceFlavor",
            {
                "topologyName": "a",
                "nodeLabels": {"a": "b"},
                "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
                "tolerations": [{"key": "spot", "operator": "Exists"}],
            },
        ),
        [],
    ),
    "levels above hosts may change": (
        obj("Topology", {"levels": LEVELS}),
        obj("Topology", {"levels": [{"nodeLabel": "block"}, *LEVELS]}),
        [],
    ),
    "levels without hosts may not": (
        obj("Topology", {"levels": LEVELS[:1]}),
        obj("Topology", {"levels": LEVELS}),
        [
            "spec.levels: Invalid value: levels are mutable only when kubernetes.io/hostname is the lowest"
            " level both before and after the change"
        ],
    ),
    "the policy of concurrent admission": (
        cluster_queue(),
        cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}),
        [
            'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":"RetainFirstAdmission"}}: field is'
            " immutable"
        ],
    ),
    "a wrong check that was stored stays while others change": (
        BAD_CHECK,
        changed(BAD_CHECK, "spec.cohortName", "other"),
        [],
    ),
    "a wrong check that is new": (
        cluster_queue(),
        BAD_CHECK,
        [
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value:"
            ' "gone": supported values: "a", "b"'
        ],
    ),
    "a waiting Workload may change everything": (
        WAITING,
        workload(pod_set("other", 5), queueName="q2"),
        [],
    ),
    "priority of a Workload that holds quota": (RESERVED, changed(RESERVED, "spec.priority", 5), []),
    "its queue": (
        RESERVED,
        changed(RESERVED, "spec.queueName", "other"),
        ["Invalid value: queueName is immutable while workload quota reserved"],
    ),
    "its queue, as it loses the quota": (
        RESERVED,
        changed(changed(RESERVED, "spec.queueName", "other"), "status.conditions", []),
        [],
    ),
    "its class": (
        RESERVED,
        changed(
            RESERVED, "spec.priorityClassRef", {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}
        ),
        [
            "Invalid value: priorityClassRef.group is immutable while workload quota reserved",
            "Invalid value: priorityClassRef.kind is immutable while workload quota reserved",
        ],
    ),
    "the name of its PriorityClass": (
        RESERVED,
        changed(RESERVED, "spec.priorityClassRef.name", "b"),
        [
            "Invalid value: priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while"
            " workload quota reserved"
        ],
    ),
    "no class any more": (
        RESERVED,
        changed(RESERVED, "spec.priorityClassRef", ...),
        ["Invalid value: priorityClassRef is immutable while workload quota reserved"],
    ),
    "its time limit": (
        RESERVED,
        changed(RESERVED, "spec.maximumExecutionTimeSeconds", 5),
        ["Invalid value: maximumExecutionTimeSeconds is immutable while workload quota reserved"],
    ),
    "its pod sets": (
        RESERVED,
        changed(RESERVED, "spec.podSets[0].count", 3),
        ["spec.podSets.0: Invalid value: ", "is immutable"],
    ),
    "its pod sets and its admission in the words of a Go client": (
        RESERVED,
        changed(
            changed(RESERVED, "spec.podSets[0].template.metadata", {"creationTimestamp": None}),
            "status.admission.podSetAssignments[0].resourceUsage",
            {"cpu": "2000m"},
        ),
        [],
    ),
    "fewer pods": (RESERVED, changed(RESERVED, "spec.podSets[0].count", 1), []),
    "its admission": (
        RESERVED,
        changed(RESERVED, "status.admission.clusterQueue", "other"),
        ["status.admission: Invalid value: ", "is immutable"],
    ),
    "its topology, filled in later": (
        RESERVED,
        changed(
            RESERVED,
            "status.admission.podSetAssignments[0].topologyAssignment",
            {
                "levels": ["kubernetes.io/hostname"],
                "slices": [{"domainCount": 1, "podCounts": {"universal": 2}, "valuesPerLevel": [{"universal": "n"}]}],
            },
        ),
        [],
    ),
    "reclaimable pods that shrink": (
        workload(status=admitted(reclaimablePods=[{"name": "main", "count": 2}])),
        workload(status=admitted(reclaimablePods=[{"name": "main", "count": 1}])),
        ["status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"],
    ),
    "reclaimable pods that vanish": (
        workload(status=admitted(reclaimablePods=[{"name": "main", "count": 2}])),
        workload(status=admitted()),
        ["status.reclaimablePods[main]: Required value: cannot be removed"],
    ),
    "reclaimable pods of an elastic job that shrank": (
        workload(status=admitted(reclaimablePods=[{"name": "main", "count": 2}]), annotations=ELASTIC),
        workload(
            pod_set(count=1), status=admitted(reclaimablePods=[{"name": "main", "count": 1}]), annotations=ELASTIC
        ),
        [],
    ),
    "what a ready check adds": (
        workload(status={"admissionChecks": [CHECK]}),
        workload(status={"admissionChecks": [{**CHECK, "podSetUpdates": [{"name": "main"}]}]}),
        ['status.admissionChecks[0].podSetUpdates: Invalid value: [{"name":"main"}]: field is immutable'],
    ),
    "a reservation of nothing that was there before": (
        workload(status={"conditions": [condition("QuotaReserved")]}),
        workload(status={"conditions": [condition("QuotaReserved"), condition("Evicted")]}),
        [],
    ),
    "a cluster that was not offered": (
        workload(status={"nominatedClusterNames": ["a"]}),
        workload(status={"clusterName": "b"}),
        [
            'status.clusterName: Invalid value: "b": when setting clusterName it must be one of the'
            " nominatedClusterNames"
        ],
    ),
    "another cluster": (
        workload(status={"clusterName": "a"}),
        workload(status={"clusterName": "b"}),
        ["status: Invalid value: clusterName is immutable once set"],
    ),
    "a gate that is taken away": (
        workload(annotations={GATED: "a.io/x, a.io/y"}),
        workload(annotations={GATED: "a.io/y"}),
        [],
    ),
    "a gate that is added": (
        workload(annotations={GATED: "a.io/x"}),
        workload(annotations={GATED: "a.io/x,a.io/y"}),
        [f"{GATES}: Forbidden: can only remove gates, not add new ones"],
    ),
    "a first gate": (
        workload(),
        workload(annotations={GATED: "a.io/x"}),
        [f"{GATES}: Forbidden: cannot add admission gate after creation"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), CASES.values(), ids=CASES.keys())
def test_a_change_is_refused_where_the_field_is_fixed(old: Raw, new: Raw, expected: list[str]) -> None:
    found = [str(error) for error in validate.update(old, new)]
    if len(expected) == 2 and expected[1] == "is immutable":
        (text,) = found
        assert text.startswith(expected[0])
        assert text.endswith(expected[1])
    else:
        assert found == expected
