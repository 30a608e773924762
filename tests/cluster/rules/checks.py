"""AdmissionChecks, what belongs to them, and WorkloadPriorityClasses."""

from __future__ import annotations

from typing import Any

from tests.api.objects import VALID, changed, obj
from tests.cluster.rules import Rule, schema, schema_change

CHECK = VALID["AdmissionCheck"]()
CONFIG = VALID["ProvisioningRequestConfig"]()
CLASS = VALID["WorkloadPriorityClass"]()
PARAMETERS = {"apiGroup": "example.com", "kind": "Kind", "name": "a"}


def clusters(*names: str) -> dict[str, Any]:
    return obj("MultiKueueConfig", {"clusters": list(names)})


def source(**fields: Any) -> dict[str, Any]:
    return obj("MultiKueueCluster", {"clusterSource": fields})


CHECKS: dict[str, Rule] = {
    "no controller": schema(obj("AdmissionCheck", {}), "spec.controllerName: Required value"),
    "another controller": schema_change(
        CHECK,
        changed(CHECK, "spec.controllerName", "b"),
        'spec.controllerName: Invalid value: "b": field is immutable: delete the object and create it again',
    ),
    "parameters of a kind that is none": schema(
        changed(CHECK, "spec.parameters", {**PARAMETERS, "kind": "A Kind"}),
        'spec.parameters.kind: Invalid value: "A Kind": spec.parameters.kind in body should match'
        " '^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$'",
    ),
    "parameters of a name that is none": schema(
        changed(CHECK, "spec.parameters", {**PARAMETERS, "name": "A"}),
        'spec.parameters.name: Invalid value: "A": spec.parameters.name in body should match'
        " '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
    ),
    "no provisioning class": schema(obj("ProvisioningRequestConfig", {}), "spec.provisioningClassName: Required value"),
    "a resource managed twice": schema(
        changed(CONFIG, "spec.managedResources", ["cpu", "cpu"]),
        'spec.managedResources[1]: Duplicate value: "cpu"',
    ),
    "an unknown way to merge pod sets": schema(
        changed(CONFIG, "spec.podSetMergePolicy", "All"),
        'spec.podSetMergePolicy: Unsupported value: "All": supported values: "IdenticalPodTemplates",'
        ' "IdenticalWorkloadSchedulingRequirements"',
    ),
    "a hundred and one parameters": schema(
        changed(CONFIG, "spec.parameters", {f"p{index}": "" for index in range(101)}),
        "spec.parameters: Too many: 101: must have at most 100 items",
    ),
    "no worker clusters": schema(
        clusters(), "spec.clusters: Invalid value: 0: spec.clusters in body should have at least 1 items"
    ),
    "twenty-one worker clusters": schema(
        clusters(*(f"c{index}" for index in range(21))), "spec.clusters: Too many: 21: must have at most 20 items"
    ),
    "a worker cluster of two sources": schema(
        source(kubeConfig={"location": "a"}, clusterProfileRef={"name": "b"}),
        "spec.clusterSource: Invalid value: exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
    ),
    "a worker cluster of no source": schema(
        source(),
        "spec.clusterSource: Invalid value: exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
    ),
    "a worker cluster of an unknown place": schema(
        source(kubeConfig={"location": "a", "locationType": "Web"}),
        'spec.clusterSource.kubeConfig.locationType: Unsupported value: "Web": supported values: "Secret", "Path"',
    ),
    "no value": schema(obj("WorkloadPriorityClass"), "value: Required value"),
    "a description that is a book": schema(
        {**CLASS, "description": "x" * 2049}, "description: Too long: may not be more than 2048 bytes"
    ),
}
