"""What each field becomes in another version."""

import json
from typing import Any

import pytest

from api.convert import ConversionError, convert
from api.convert.kept import applied, difference
from api.convert.topology_assignment import domains
from api.objects import Raw


def obj(kind: str, version: str, **fields: Any) -> Raw:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **fields}


def both_ways(older: Raw, stored: Raw) -> None:
    version = older["apiVersion"].partition("/")[2]
    assert convert(older, "v1beta2") == stored
    assert convert(stored, version) == older


V01_QUEUE = obj(
    "ClusterQueue",
    "v1alpha1",
    spec={
        "cohort": "borrowing-cohort",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resources": [
            {
                "name": "cpu",
                "flavors": [{"name": "a", "quota": {"min": 10, "max": 20}}, {"name": "b", "quota": {"min": 0}}],
            },
            {
                "name": "memory",
                "flavors": [{"name": "a", "quota": {"min": "1Gi"}}, {"name": "b", "quota": {"min": "1Gi"}}],
            },
            {"name": "nvidia.com/gpus", "flavors": [{"name": "k80", "quota": {"min": "10", "max": "20"}}]},
        ],
    },
)


def test_resources_with_the_same_flavors_become_one_group_and_max_becomes_what_may_be_borrowed() -> None:
    stored = convert(V01_QUEUE, "v1beta2")
    assert stored["spec"] == {
        "cohortName": "borrowing-cohort",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "a",
                        "resources": [
                            {"name": "cpu", "nominalQuota": 10, "borrowingLimit": 10},
                            {"name": "memory", "nominalQuota": "1Gi"},
                        ],
                    },
                    {
                        "name": "b",
                        "resources": [{"name": "cpu", "nominalQuota": 0}, {"name": "memory", "nominalQuota": "1Gi"}],
                    },
                ],
            },
            {
                "coveredResources": ["nvidia.com/gpus"],
                "flavors": [
                    {
                        "name": "k80",
                        "resources": [{"name": "nvidia.com/gpus", "nominalQuota": "10", "borrowingLimit": "10"}],
                    }
                ],
            },
        ],
    }
    assert convert(stored, "v1alpha1") == V01_QUEUE


def test_a_cap_without_a_cohort_has_no_effect_and_is_still_read_back() -> None:
    quota = {"min": "3", "max": "5"}
    alone = obj(
        "ClusterQueue", "v1alpha1", spec={"resources": [{"name": "cpu", "flavors": [{"name": "a", "quota": quota}]}]}
    )
    stored = convert(alone, "v1beta2")
    (flavor,) = stored["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["resources"] == [{"name": "cpu", "nominalQuota": "3"}]
    assert convert(stored, "v1alpha1") == alone


ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_the_old_status_shows_usage_by_resource_and_flavor() -> None:
    stored = obj(
        "ClusterQueue",
        "v1beta2",
        status={
            "pendingWorkloads": 2,
            "conditions": [ACTIVE],
            "flavorsUsage": [{"name": "a", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}],
        },
    )
    seen = convert(stored, "v1alpha1")
    assert seen["status"] == {"pendingWorkloads": 2, "usedResources": {"cpu": {"a": {"total": "3", "borrowing": "1"}}}}
    assert convert(seen, "v1beta2") == stored


def test_an_old_clients_edit_is_kept_and_costs_nothing_it_could_not_see() -> None:
    quota = {"name": "cpu", "nominalQuota": "3", "lendingLimit": "1"}
    stored = obj(
        "ClusterQueue",
        "v1beta2",
        spec={
            "stopPolicy": "Hold",
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [quota]}]}],
        },
    )
    seen = convert(stored, "v1alpha1")
    seen["spec"]["resources"][0]["flavors"][0]["quota"]["min"] = "9"
    seen["spec"]["cohort"] = "team"
    spec = convert(seen, "v1beta2")["spec"]
    assert spec["cohortName"] == "team"
    assert spec["stopPolicy"] == "Hold"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "9", "lendingLimit": "1"}
    ]


def test_an_old_clients_edit_of_what_it_saw_in_another_form_loses_nothing_else() -> None:
    quota = {"name": "cpu", "nominalQuota": 3, "borrowingLimit": "1", "lendingLimit": "1"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [quota]}]}]
    stored = obj("ClusterQueue", "v1beta2", spec={"cohortName": "c", "stopPolicy": "Hold", "resourceGroups": groups})
    seen = convert(stored, "v1alpha1")
    seen["spec"]["resources"][0]["flavors"][0]["quota"] = {"min": "12", "max": "15"}
    spec = convert(seen, "v1beta2")["spec"]
    assert spec["stopPolicy"] == "Hold"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "12", "borrowingLimit": "3", "lendingLimit": "1"}
    ]


def test_a_newer_clients_edit_wins_over_how_the_old_one_wrote_it() -> None:
    written = obj("ClusterQueue", "v1beta1", spec={"flavorFungibility": {"whenCanBorrow": "Borrow"}})
    stored = convert(written, "v1beta2")
    assert stored["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch"}
    stored["spec"]["flavorFungibility"]["whenCanBorrow"] = "TryNextFlavor"
    assert convert(stored, "v1beta1")["spec"] == {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}


def test_an_object_nothing_is_lost_of_gets_no_annotation() -> None:
    written = obj("ClusterQueue", "v1beta1", spec={"cohort": "team", "queueingStrategy": "StrictFIFO"})
    both_ways(written, obj("ClusterQueue", "v1beta2", spec={"cohortName": "team", "queueingStrategy": "StrictFIFO"}))


def test_a_list_of_checks_becomes_a_strategy_and_reads_back_as_the_list() -> None:
    written = obj("ClusterQueue", "v1beta1", spec={"admissionChecks": ["a", "b"]})
    stored = convert(written, "v1beta2")
    assert stored["spec"] == {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}
    assert convert(stored, "v1beta1") == written


PAIRS: dict[str, tuple[Raw, Raw]] = {
    "v0.1's flavor": (
        obj("ResourceFlavor", "v1alpha1", labels={"a": "b"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        obj(
            "ResourceFlavor",
            "v1beta2",
            spec={"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k", "effect": "NoSchedule"}]},
        ),
    ),
    "an empty flavor": (obj("ResourceFlavor", "v1alpha1"), obj("ResourceFlavor", "v1beta2", spec={})),
    "the parent of a Cohort": (
        obj("Cohort", "v1alpha1", spec={"parent": "root"}),
        obj("Cohort", "v1beta2", spec={"parentName": "root"}),
    ),
    "the levels of a Topology": (
        obj("Topology", "v1alpha1", spec={"levels": [{"nodeLabel": "rack"}]}),
        obj("Topology", "v1beta2", spec={"levels": [{"nodeLabel": "rack"}]}),
    ),
    "a workload priority class": (
        obj(
            "Workload",
            "v1beta1",
            spec={"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"},
        ),
        obj(
            "Workload",
            "v1beta2",
            spec={"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}},
        ),
    ),
    "a pod priority class": (
        obj(
            "Workload",
            "v1beta1",
            spec={"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"},
        ),
        obj(
            "Workload",
            "v1beta2",
            spec={"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}},
        ),
    ),
    "the misspelt seconds": (
        obj("Workload", "v1beta1", status={"accumulatedPastExexcutionTimeSeconds": 5}),
        obj("Workload", "v1beta2", status={"accumulatedPastExecutionTimeSeconds": 5}),
    ),
    "usage of a LocalQueue": (
        obj("LocalQueue", "v1beta1", status={"flavorUsage": [{"name": "a", "resources": []}]}),
        obj("LocalQueue", "v1beta2", status={"flavorsUsage": [{"name": "a", "resources": []}]}),
    ),
    "a kubeconfig": (
        obj("MultiKueueCluster", "v1beta1", spec={"kubeConfig": {"location": "s", "locationType": "Secret"}}),
        obj(
            "MultiKueueCluster",
            "v1beta2",
            spec={"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        ),
    ),
    "a cluster of an inventory": (
        obj(
            "MultiKueueCluster",
            "v1beta1",
            spec={"kubeConfig": {"location": "", "locationType": "Secret"}, "clusterProfileRef": {"name": "p"}},
        ),
        obj("MultiKueueCluster", "v1beta2", spec={"clusterSource": {"clusterProfileRef": {"name": "p"}}}),
    ),
    "a check": (
        obj("AdmissionCheck", "v1beta1", spec={"controllerName": "c", "retryDelayMinutes": 15}),
        obj("AdmissionCheck", "v1beta2", spec={"controllerName": "c"}),
    ),
}


@pytest.mark.parametrize(("older", "stored"), PAIRS.values(), ids=PAIRS.keys())
def test_a_field_has_its_place_in_both_versions(older: Raw, stored: Raw) -> None:
    both_ways(older, stored)


def assignment(**fields: Any) -> Raw:
    return {"admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "topologyAssignment": fields}]}}


def test_domains_are_written_once_for_what_they_share() -> None:
    domains = [{"values": ["r1", "node-1.zone"], "count": 2}, {"values": ["r1", "node-22.zone"], "count": 2}]
    older = obj("Workload", "v1beta1", status=assignment(levels=["rack", "host"], domains=domains))
    shared = {"individual": {"prefix": "node-", "suffix": ".zone", "roots": ["1", "22"]}}
    parts = [
        {"domainCount": 2, "valuesPerLevel": [{"universal": "r1"}, shared], "podCounts": {"universal": 2}},
    ]
    stored = obj("Workload", "v1beta2", status=assignment(levels=["rack", "host"], slices=parts))
    both_ways(older, stored)


def scattered(hosts: int) -> Raw:
    """A Workload with preemption gates whose pods are spread over hosts in many slices."""
    parts = [
        {"domainCount": 1, "valuesPerLevel": [{"universal": f"host-{place}" + "x" * 40}], "podCounts": {"universal": 1}}
        for place in range(hosts)
    ]
    state = {"name": "example.com/gate", "position": "Closed", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return obj(
        "Workload",
        "v1beta2",
        spec={
            "preemptionGates": [{"name": "example.com/gate"}],
            "podSets": [{"name": "main", "count": hosts, "template": {}}],
        },
        status=assignment(levels=["host"], slices=parts) | {"preemptionGates": [state]},
    )


def test_a_huge_topology_assignment_does_not_cost_what_else_an_old_client_cannot_see() -> None:
    stored = scattered(hosts=4000)
    seen = convert(stored, "v1beta1")
    assert len(str(seen["metadata"]["annotations"])) < 1000
    back = convert(seen, "v1beta2")
    assert back["spec"] == stored["spec"]
    assert back["status"]["preemptionGates"] == stored["status"]["preemptionGates"]
    (found,) = back["status"]["admission"]["podSetAssignments"]
    assert domains(found["topologyAssignment"]) == domains(
        stored["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
    )
    small = scattered(hosts=40)
    assert convert(convert(small, "v1beta1"), "v1beta2") == small


def test_a_status_too_long_to_be_kept_does_not_cost_the_spec() -> None:
    conditions = [{**ACTIVE, "type": f"C{place}", "message": "x" * 30_000} for place in range(8)]
    stored = obj("Cohort", "v1beta2", spec={"fairSharing": {"weight": "2"}}, status={"conditions": conditions})
    back = convert(convert(stored, "v1alpha1"), "v1beta2")
    assert back["spec"] == {"fairSharing": {"weight": "2"}}
    assert "status" not in back


MIGRATION = {"migration": {"mode": "RetainFirstAdmission"}}


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("v1alpha1", {"stopPolicy": "Junk"}),
        ("v1alpha1", {"stopPolicy": 3}),
        ("v1alpha1", {"preemption": []}),
        ("v1beta1", {"concurrentAdmissionPolicy": 3}),
    ],
)
def test_a_forged_annotation_puts_nothing_into_store_that_the_schema_refuses(version: str, spec: Raw) -> None:
    def forged(fields: Raw) -> Raw:
        queue = obj("ClusterQueue", version, spec={"cohort": "team"})
        held = json.dumps({".": {"spec": {"=": fields}}})
        return {**queue, "metadata": {"name": "x", "annotations": {"conversion.kueue.x-k8s.io/v1beta2": held}}}

    assert convert(forged(spec), "v1beta2") == obj("ClusterQueue", "v1beta2", spec={"cohortName": "team"})
    well_formed = {"stopPolicy": "Hold"} if version == "v1alpha1" else {"concurrentAdmissionPolicy": MIGRATION}
    assert convert(forged(well_formed), "v1beta2")["spec"] == {"cohortName": "team"} | well_formed


def test_two_older_versions_meet_in_the_stored_one() -> None:
    assert convert(obj("Cohort", "v1alpha1", spec={"parent": "a"}), "v1beta1")["spec"] == {"parentName": "a"}


@pytest.mark.parametrize(
    "given",
    [
        obj("Job", "v1beta1"),
        obj("Queue", "v1alpha1"),
        obj("Workload", "v1alpha1"),
        {"apiVersion": "batch/v1", "kind": "Job"},
        {"kind": "Workload"},
        {},
    ],
)
def test_what_we_do_not_convert_is_said(given: Raw) -> None:
    with pytest.raises(ConversionError, match="cannot convert"):
        convert(given, "v1beta2")


def test_an_unknown_version_is_reported() -> None:
    with pytest.raises(ConversionError, match=r"cannot convert Cohort of kueue.x-k8s.io/v1beta2 to kueue.x-k8s.io/v2"):
        convert(obj("Cohort", "v1beta2"), "v2")


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"*":{"a":1}}', '{"=":{"":5}}', '{"=":5}', "[" * 9999])
def test_a_damaged_annotation_is_ignored(text: str) -> None:
    key = "conversion.kueue.x-k8s.io/v1beta1"
    spoilt = obj("Cohort", "v1beta2", spec={"parentName": "a"})
    spoilt["metadata"]["annotations"] = {key: text, "mine": "stays"}
    seen = convert(spoilt, "v1beta1")
    assert seen["spec"] == {"parentName": "a"}
    assert seen["metadata"]["annotations"] == {"mine": "stays"}


def test_a_difference_applied_gives_what_it_was_taken_of() -> None:
    before = {"spec": {"a": 1, "b": [{"name": "x", "v": 1}, {"name": "y"}], "c": {"d": 1}, "e": [1, 2]}}
    after = {"spec": {"b": [{"name": "x", "v": 2}, {"name": "y"}], "c": {"d": 1, "f": None}, "e": [1]}}
    held = difference(before, after)
    assert held == {
        ".": {
            "spec": {
                "-": ["a"],
                ".": {"b": {"*": {"x": {".": {"v": {"=": {"": 2}}}}}}, "c": {"=": {"f": None}}, "e": {"=": {"": [1]}}},
            }
        }
    }
    assert applied(before, held) == after
    assert difference(before, before) is None
