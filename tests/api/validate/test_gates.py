"""Rules that hold only where a feature gate is on: what Kueue lets through as it ships is let through here."""

from __future__ import annotations

import pytest

from api import validate
from api.feature_gates import DEFAULTS
from api.objects import Raw
from tests.api.objects import changed, cluster_queue, workload
from tests.api.validate.test_update import BAD_CHECK

GATED_BY = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
CONCURRENT = {"migration": {"mode": "TryPreferredFlavors"}}
POD_SET = "spec.podSets[0]"
CASES: dict[str, tuple[str, Raw | None, Raw, str]] = {
    "concurrent admission in strict order": (
        "ConcurrentAdmission",
        None,
        cluster_queue(queueingStrategy="StrictFIFO", concurrentAdmissionPolicy=CONCURRENT),
        "spec.queueingStrategy",
    ),
    "a boost that is no number": (
        "PriorityBoost",
        None,
        workload(annotations={"kueue.x-k8s.io/priority-boost": "high"}),
        "metadata.annotations[kueue.x-k8s.io/priority-boost]",
    ),
    "a wrong check that was stored, while others change": (
        "RejectUpdatesToCQWithInvalidOnFlavors",
        BAD_CHECK,
        changed(BAD_CHECK, "spec.cohortName", "other"),
        "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]",
    ),
    "a gate that is no path": (
        "AdmissionGatedBy",
        None,
        workload(annotations={"kueue.x-k8s.io/admission-gated-by": "gate"}),
        GATED_BY,
    ),
    "a gate after creation": (
        "AdmissionGatedBy",
        workload(),
        workload(annotations={"kueue.x-k8s.io/admission-gated-by": "a.io/x"}),
        GATED_BY,
    ),
    "a label of the pods that is none": (
        "WorkloadValidationForPodSetMetadata",
        None,
        changed(workload(), "spec.podSets[0].template.metadata", {"labels": {"a b": "c"}}),
        f"{POD_SET}.template.metadata.labels",
    ),
    "less than nothing": (
        "WorkloadValidateResourcesAreNonNegative",
        None,
        changed(workload(), "spec.podSets[0].template.spec.resources", {"requests": {"cpu": "-1"}}),
        f"{POD_SET}.template.spec.resources.requests[cpu]",
    ),
    "a slice without its size": (
        "TASValidateWorkloadSliceSize",
        None,
        changed(workload(), "spec.podSets[0].topologyRequest", {"podSetSliceRequiredTopology": "zone"}),
        f"{POD_SET}.topologyRequest.podSetSliceSize",
    ),
}
OFF = {"ConcurrentAdmission", "PriorityBoost", "RejectUpdatesToCQWithInvalidOnFlavors"}


def paths(old: Raw | None, new: Raw, **gates: bool) -> list[str]:
    found = validate.create(new, gates) if old is None else validate.update(old, new, gates)
    return [error.field for error in found]


@pytest.mark.parametrize(("gate", "old", "new", "path"), CASES.values(), ids=CASES.keys())
def test_a_rule_holds_where_its_gate_is_on(gate: str, old: Raw | None, new: Raw, path: str) -> None:
    assert paths(old, new, **{gate: True}) == [path]
    assert paths(old, new, **{gate: False}) == []
    assert paths(old, new) == ([] if gate in OFF else [path]), "as Kueue ships it"


def test_what_is_off_is_off_in_kueue() -> None:
    assert {gate for gate, _, _, _ in CASES.values() if not DEFAULTS[gate]} == OFF
