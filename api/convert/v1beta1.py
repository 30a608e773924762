"""v1beta1 to the stored version and back: renamed fields, two ways to name a priority class, topology by domain."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from api.convert.kept import at, each, renamed, without
from api.convert.topology_assignment import domains, slices
from api.names import GROUP as OUR_GROUP
from api.names import SCHEDULING_GROUP, Fungibility, Kind, PriorityClassSource
from api.objects import Raw

Conversion = Callable[[Raw], Raw]

_REFERENCES: Final = {
    PriorityClassSource.WORKLOAD_PRIORITY_CLASS: (OUR_GROUP, "WorkloadPriorityClass"),
    PriorityClassSource.POD_PRIORITY_CLASS: (SCHEDULING_GROUP, "PriorityClass"),
}
_SOURCES: Final = {reference: source for source, reference in _REFERENCES.items()}
_DEFAULT_RETRY_DELAY: Final = 15


def _check_up(obj: Raw) -> Raw:
    return at(obj, "spec", lambda spec: without(spec, "retryDelayMinutes"))


def _check_down(obj: Raw) -> Raw:
    return at(obj, "spec", lambda spec: {**spec, "retryDelayMinutes": _DEFAULT_RETRY_DELAY})


def _fungibility_up(fungibility: Raw) -> Raw:
    older = (Fungibility.BORROW, Fungibility.PREEMPT)
    return {key: Fungibility.MAY_STOP_SEARCH if value in older else value for key, value in fungibility.items()}


def _queue_spec_up(spec: Raw) -> Raw:
    spec = at(renamed(spec, "cohort", "cohortName"), "flavorFungibility", _fungibility_up)
    checks = spec.get("admissionChecks")
    if checks and isinstance(checks, list):
        spec = {**spec, "admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in checks]}}
    return without(spec, "admissionChecks")


def _queue_spec_down(spec: Raw) -> Raw:
    return renamed(without(spec, "concurrentAdmissionPolicy"), "cohortName", "cohort")


def _shares_up(status: Raw) -> Raw:
    return at(status, "fairSharing", lambda sharing: without(sharing, "admissionFairSharingStatus"))


def _queue_up(obj: Raw) -> Raw:
    obj = at(obj, "status", lambda status: _shares_up(without(status, "pendingWorkloadsStatus")))
    return at(obj, "spec", _queue_spec_up)


def _queue_down(obj: Raw) -> Raw:
    return at(obj, "spec", _queue_spec_down)


def _cohort_up(obj: Raw) -> Raw:
    return at(obj, "status", _shares_up)


def _local_queue_up(obj: Raw) -> Raw:
    return at(obj, "status", lambda status: renamed(without(status, "flavors"), "flavorUsage", "flavorsUsage"))


def _local_queue_down(obj: Raw) -> Raw:
    return at(obj, "status", lambda status: renamed(status, "flavorsUsage", "flavorUsage"))


def _cluster_up(obj: Raw) -> Raw:
    def spec_up(spec: Raw) -> Raw:
        source: Raw = {}
        kube_config = spec.get("kubeConfig")
        if isinstance(kube_config, dict) and kube_config.get("location"):
            source["kubeConfig"] = kube_config
        if spec.get("clusterProfileRef") is not None:
            source["clusterProfileRef"] = spec["clusterProfileRef"]
        return {**without(spec, "kubeConfig", "clusterProfileRef"), "clusterSource": source}

    return at(obj, "spec", spec_up)


def _cluster_down(obj: Raw) -> Raw:
    def spec_down(spec: Raw) -> Raw:
        source = spec.get("clusterSource") or {}
        older = {"kubeConfig": source.get("kubeConfig") or {"location": "", "locationType": "Secret"}}
        if source.get("clusterProfileRef") is not None:
            older["clusterProfileRef"] = source["clusterProfileRef"]
        return {**without(spec, "clusterSource"), **older}

    return at(obj, "spec", spec_down)


def _config_down(obj: Raw) -> Raw:
    return at(obj, "spec", lambda spec: without(spec, "quotaManagement"))


def _workload_spec_up(spec: Raw) -> Raw:
    name, source = spec.get("priorityClassName"), spec.get("priorityClassSource")
    spec = without(spec, "priorityClassName", "priorityClassSource")
    if name and isinstance(source, str) and source in _REFERENCES:
        group, kind = _REFERENCES[source]
        spec = {**spec, "priorityClassRef": {"group": group, "kind": kind, "name": name}}
    return spec


def _workload_spec_down(spec: Raw) -> Raw:
    reference = spec.get("priorityClassRef") or {}
    spec = without(spec, "priorityClassRef", "preemptionGates")
    source = _SOURCES.get((reference.get("group", ""), reference.get("kind", "")))
    older = {"priorityClassSource": source or ""}
    if source is not None:
        older["priorityClassName"] = reference["name"]
    constraints = "podsetSliceRequiredTopologyConstraints"
    return each(
        {**spec, **older},
        "podSets",
        lambda pod_set: at(pod_set, "topologyRequest", lambda request: without(request, constraints)),
    )


_SECONDS, _MISSPELT_SECONDS = "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"


def _assignments(status: Raw, change: Any) -> Raw:
    return at(
        status,
        "admission",
        lambda admission: each(
            admission, "podSetAssignments", lambda assignment: at(assignment, "topologyAssignment", change)
        ),
    )


def _workload_up(obj: Raw) -> Raw:
    def status_up(status: Raw) -> Raw:
        return _assignments(renamed(status, _MISSPELT_SECONDS, _SECONDS), slices)

    return at(at(obj, "spec", _workload_spec_up), "status", status_up)


def _workload_down(obj: Raw) -> Raw:
    def status_down(status: Raw) -> Raw:
        return _assignments(renamed(without(status, "preemptionGates"), _SECONDS, _MISSPELT_SECONDS), domains)

    return at(at(obj, "spec", _workload_spec_down), "status", status_down)


def _same(obj: Raw) -> Raw:
    return obj


CONVERSIONS: Final[Mapping[str, tuple[Conversion, Conversion]]] = {
    Kind.ADMISSION_CHECK: (_check_up, _check_down),
    Kind.CLUSTER_QUEUE: (_queue_up, _queue_down),
    Kind.COHORT: (_cohort_up, _same),
    Kind.LOCAL_QUEUE: (_local_queue_up, _local_queue_down),
    Kind.MULTIKUEUE_CLUSTER: (_cluster_up, _cluster_down),
    Kind.MULTIKUEUE_CONFIG: (_same, _config_down),
    Kind.WORKLOAD: (_workload_up, _workload_down),
}
KINDS: Final = (
    *CONVERSIONS,
    Kind.PROVISIONING_REQUEST_CONFIG,
    Kind.RESOURCE_FLAVOR,
    Kind.TOPOLOGY,
    Kind.WORKLOAD_PRIORITY_CLASS,
)
"""The kinds of this version; those without a conversion are spelled the same."""
