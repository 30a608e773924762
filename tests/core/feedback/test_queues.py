"""The messages for an administrator who changes an object: each rule with its exact text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from core.feedback.catalog import TABLES
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.queues import of_cohort, of_flavor, of_local_queue, of_queue, of_topology
from core.feedback.rules import LIMIT
from core.model import Raw
from core.wire import decode
from tests.core.feedback import test_strangers
from tests.core.feedback.world import TEAMS, running, waiting, world

KINDS: dict[str, Any] = {
    "ClusterQueue": (decode.cluster_queue, of_cluster_queue),
    "LocalQueue": (decode.local_queue, of_local_queue),
    "Queue": (decode.local_queue, of_queue),
    "Cohort": (decode.cohort, of_cohort),
    "ResourceFlavor": (decode.resource_flavor, of_flavor),
    "Topology": (decode.topology_object, of_topology),
}
BUSY = running("one", "team-a", "team-a", "6") + running("two", "team-a", "team-a", "4") + waiting("w", "team-a", "9")


def known(kind: str, name: str) -> Raw:
    """An object of the two teams as it is."""
    found: Raw = next(raw for raw in yaml.safe_load(TEAMS) if (raw["kind"], raw["metadata"]["name"]) == (kind, name))
    return found


def team_a(**spec: Any) -> Raw:
    raw = known("ClusterQueue", "team-a")
    raw["spec"] |= spec
    return raw


def with_cpu(**quota: Any) -> Raw:
    raw = team_a()
    raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= quota
    return raw


def two_flavors(**spec: Any) -> Raw:
    raw = known("ClusterQueue", "team-b")
    raw["spec"] |= spec
    return raw


def ours(kind: str, name: str, namespace: str = "", **spec: Any) -> Raw:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def with_flavors(*names: str) -> Raw:
    quota = [{"name": "cpu", "nominalQuota": 1}]
    flavors = [{"name": name, "resources": quota} for name in names]
    return team_a(resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])


def alone(**quota: Any) -> Raw:
    raw = with_cpu(**quota)
    del raw["spec"]["cohortName"]
    return raw


def without_selector() -> Raw:
    raw = team_a()
    del raw["spec"]["namespaceSelector"]
    return raw


def pool(**quota: int) -> Raw:
    """The cohort of the two teams as an object with its own cpu quota."""
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for name, cpu in quota.items()]
    return ours("Cohort", "research", resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])


MAIN = known("LocalQueue", "main")
GREEDY = running("one", "team-b", "team-b", "20") + "- " + json.dumps(pool(standard=4)) + "\n"
NO_QUOTA = [
    {
        "coveredResources": ["cpu", "memory"],
        "flavors": [
            {"name": "standard", "resources": [{"name": each, "nominalQuota": 0} for each in ("cpu", "memory")]}
        ],
    }
]
IDLE_CHECK = "[{kind: AdmissionCheck, metadata: {name: budget}, spec: {controllerName: example.com/budget}}]"
BUILT_IN_CHECKS = """
- kind: AdmissionCheck
  metadata: {name: workers}
  spec: {controllerName: kueue.x-k8s.io/multikueue}
  status: {conditions: [{type: Active, status: "True"}]}
- kind: AdmissionCheck
  metadata: {name: nodes}
  spec: {controllerName: kueue.x-k8s.io/provisioning-request}
  status: {conditions: [{type: Active, status: "True"}]}
"""
NO_PREEMPTION = {"whenCanPreempt": "MayStopSearch"}
CASES = [
    pytest.param(team_a(), None, "", "", "", id="nothing to say of a good ClusterQueue"),
    pytest.param(two_flavors(), None, "", "", "", id="nor of one with two flavors"),
    pytest.param(
        team_a(
            resourceGroups=[
                {"coveredResources": ["cpu"], "flavors": [{"name": "standrad", "resources": [{"name": "cpu"}]}]}
            ]
        ),
        None,
        "",
        "flavor-not-found",
        'ResourceFlavor "standrad" does not exist, the ClusterQueue is inactive: did you mean "standard"?',
        id="a misspelt flavor",
    ),
    pytest.param(
        with_flavors("spt", "x-1", "x-2", "x-3"),
        None,
        "",
        "flavor-not-found",
        [
            'ResourceFlavor "spt" does not exist, the ClusterQueue is inactive: did you mean "spot"?',
            "ResourceFlavors x-1, x-2, x-3 do not exist yet: the ClusterQueue is inactive until they are created",
        ],
        id="several flavors that are not there",
    ),
    pytest.param(
        ours("ClusterQueue", "new", namespaceSelector={}),
        None,
        "",
        "no-quota",
        "no resourceGroups: a job that requests anything never starts; add resources, flavors and their quota",
        id="a ClusterQueue without resources",
    ),
    pytest.param(
        team_a(cohortName="", resourceGroups=NO_QUOTA),
        None,
        "",
        "no-quota",
        "2 nominalQuotas are 0 and no cohort is set: a job that requests anything"
        " never starts; set nominalQuota or cohortName",
        id="a ClusterQueue of zeros",
    ),
    pytest.param(team_a(resourceGroups=NO_QUOTA), None, "", "", "", id="zeros are fine where there is a cohort"),
    pytest.param(
        with_flavors("fast"),
        None,
        "[{kind: ResourceFlavor, metadata: {name: fast}, spec: {nodeLabels: {pool: fast}}}]",
        "flavor-without-nodes",
        'none of 2 nodes has the labels pool=fast of flavor "fast": its pods stay pending; label nodes',
        id="a ClusterQueue of a flavor without nodes",
    ),
    pytest.param(
        team_a(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}),
        None,
        "",
        "admission-check-not-found",
        'AdmissionCheck "budget" does not exist yet: the ClusterQueue is inactive until it is created',
        id="a check that is not there",
    ),
    pytest.param(
        team_a(admissionChecksStrategy={"admissionChecks": [{"name": "budgte"}]}),
        None,
        IDLE_CHECK,
        "admission-check-not-found",
        'AdmissionCheck "budgte" does not exist, the ClusterQueue is inactive: did you mean "budget"?',
        id="a misspelt check",
    ),
    pytest.param(
        team_a(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}),
        None,
        IDLE_CHECK,
        "admission-check-inactive",
        'AdmissionCheck "budget" is inactive: the ClusterQueue admits nothing; start its controller example.com/budget',
        id="a check without a controller",
    ),
    pytest.param(
        team_a(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}),
        None,
        IDLE_CHECK.replace("example.com/budget", "kueue.x-k8s.io/provisioning-request"),
        "admission-check-inactive",
        'the ClusterQueue admits nothing: AdmissionCheck "budget" is inactive: not checked yet',
        id="a check whose controller is built in",
    ),
    pytest.param(
        team_a(admissionChecksStrategy={"admissionChecks": [{"name": "nodes"}, {"name": "workers"}]}),
        None,
        BUILT_IN_CHECKS,
        "admission-checks-conflict",
        "inactive: Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: workers, nodes",
        id="checks that exclude each other",
    ),
    pytest.param(
        team_a(
            admissionChecksStrategy={"admissionChecks": [{"name": "workers"}]},
            concurrentAdmissionPolicy={"migration": {"mode": "TryPreferredFlavors"}},
        ),
        None,
        BUILT_IN_CHECKS,
        "admission-checks-conflict",
        "the ClusterQueue is inactive: Cannot use MultiKueue AdmissionChecks with concurrentAdmissionPolicy,"
        " found: workers",
        id="a MultiKueue check with concurrent admission",
    ),
    pytest.param(
        ours("LocalQueue", "new", "team-a", clusterQueue="team-a", fairSharing={"weight": -1}),
        None,
        "",
        "negative-weight",
        "fairSharing.weight -1 counts as 0: jobs of this queue are admitted after those of all other LocalQueues;"
        " set 1",
        id="a LocalQueue of negative weight",
    ),
    pytest.param(
        ours("LocalQueue", "new", "team-a", clusterQueue="team-a", fairSharing={"weight": 0}),
        None,
        "",
        "",
        "",
        id="a weight of 0 says what it means",
    ),
    pytest.param(
        ours("Queue", "main", "team-a", clusterQueue="team-b"),
        None,
        "",
        "queue-name-taken",
        'LocalQueue "main" exists and points to ClusterQueue "team-a": this Queue has no effect; choose another name',
        id="a Queue of v0.1 where a LocalQueue leads elsewhere",
    ),
    pytest.param(
        ours("Queue", "main", "team-a", clusterQueue="team-a"),
        None,
        "",
        "",
        "",
        id="a Queue of v0.1 beside its LocalQueue",
    ),
    pytest.param(
        ours("Queue", "new", "team-a", clusterQueue="taem-b"),
        None,
        "",
        "cluster-queue-not-found",
        'ClusterQueue "taem-b" does not exist: jobs of this LocalQueue wait until it is created; did you mean'
        ' "team-b"?',
        id="a Queue of v0.1 that leads nowhere",
    ),
    pytest.param(
        without_selector(),
        None,
        "",
        "no-namespace-admitted",
        "namespaceSelector is not set, so no namespace is admitted; {} admits all namespaces",
        id="a ClusterQueue without namespaceSelector",
    ),
    pytest.param(
        ours("Cohort", "root", parentName="research"),
        None,
        "[{kind: Cohort, metadata: {name: research}, spec: {parentName: root}}]",
        "cohort-cycle",
        "the parents of cohort root form a cycle: root -> research -> root;"
        " nothing is admitted there; change a parentName",
        id="a Cohort that closes a circle",
    ),
    pytest.param(
        team_a(),
        None,
        "[{kind: Cohort, metadata: {name: research}, spec: {parentName: research}}]",
        "cohort-cycle",
        "the parents of cohort research form a cycle: research -> research;"
        " nothing is admitted there; change a parentName",
        id="a ClusterQueue joins a circle",
    ),
    pytest.param(
        with_cpu(borrowingLimit=20),
        None,
        "",
        "borrowing-limit-idle",
        'borrowingLimit 20 of cpu in standard has no effect: cohort "research" lends at most 8; lower or remove it',
        id="a borrowing limit above all there is",
    ),
    pytest.param(
        team_a(flavorFungibility=NO_PREEMPTION),
        None,
        "",
        "fungibility-idle",
        "whenCanPreempt: MayStopSearch has no effect: withinClusterQueue, reclaimWithinCohort are Never; change one",
        id="preemption preferred where none is allowed",
    ),
    pytest.param(
        team_a(flavorFungibility={"preference": "PreemptionOverBorrowing"}),
        None,
        "",
        "fungibility-idle",
        "preference: PreemptionOverBorrowing has no effect: withinClusterQueue, reclaimWithinCohort are Never;"
        " change one",
        id="a preference for what is not allowed",
    ),
    pytest.param(
        two_flavors(cohortName="", flavorFungibility={"whenCanBorrow": "TryNextFlavor"}),
        None,
        "",
        "fungibility-idle",
        "whenCanBorrow: TryNextFlavor has no effect: no cohort to borrow from; set cohortName or remove it",
        id="a preference against borrowing in a cohort that lends nothing",
    ),
    pytest.param(
        team_a(flavorFungibility={"whenCanBorrow": "TryNextFlavor"}),
        None,
        "",
        "fungibility-idle",
        "whenCanBorrow: TryNextFlavor has no effect: each resource has 1 flavor; add a flavor or remove it",
        id="the next flavor of one",
    ),
    pytest.param(
        two_flavors(
            flavorFungibility={**NO_PREEMPTION, "whenCanBorrow": "TryNextFlavor"},
            preemption={"withinClusterQueue": "LowerPriority"},
        ),
        None,
        "",
        "fungibility-contradiction",
        "whenCanPreempt: MayStopSearch preempts even if a later flavor has free quota; TryNextFlavor would use that"
        " flavor",
        id="preemption before the next flavor",
    ),
    pytest.param(
        team_a(cohortName="", preemption={"reclaimWithinCohort": "Any"}),
        None,
        "",
        "preemption-idle",
        "reclaimWithinCohort: Any has no effect: the ClusterQueue is in no cohort; set cohortName or remove it",
        id="reclaiming without a cohort",
    ),
    pytest.param(
        team_a(preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"maxPriorityThreshold": 7}}),
        None,
        "",
        "preemption-idle",
        "maxPriorityThreshold 7 has no effect: borrowWithinCohort.policy is Never; set LowerPriority or remove it",
        id="a threshold for nothing",
    ),
    pytest.param(
        with_cpu(nominalQuota=4, borrowingLimit=8),
        with_cpu(borrowingLimit=8),
        BUSY,
        "quota-below-usage",
        "cpu in standard goes from 8 to 4, but 10 is in use: 6 is then borrowed; keep 10 to avoid this",
        id="less quota than is in use",
    ),
    pytest.param(
        with_cpu(nominalQuota=4),
        team_a(),
        BUSY,
        "quota-below-usage",
        "cpu in standard goes from 8 to 4, but 10 is in use: 2 must be released"
        " before anything starts; keep 10 to avoid this",
        id="less quota than is in use, and not enough may be borrowed",
    ),
    pytest.param(
        with_cpu(borrowingLimit=1),
        team_a(),
        BUSY,
        "quota-below-usage",
        "borrowingLimit of cpu in standard is then 1, but 2 is borrowed: 1 must be"
        " released before anything starts; keep 2",
        id="less than is borrowed may be borrowed",
    ),
    pytest.param(
        with_cpu(borrowingLimit=2),
        team_a(),
        BUSY,
        "",
        "",
        id="no less than is borrowed may be borrowed",
    ),
    pytest.param(
        alone(nominalQuota=4),
        alone(),
        BUSY,
        "quota-below-usage",
        "cpu in standard goes from 8 to 4, but 10 is in use: 6 must be released"
        " before anything starts; keep 10 to avoid this",
        id="less quota than is in use, and no cohort",
    ),
    pytest.param(
        two_flavors(cohortName="other"),
        two_flavors(),
        BUSY,
        "cohort-left-short",
        'cohort "research" then uses 2 cpu more than it has in standard:'
        " no borrowing there until it is released; add 2 first",
        id="leaving a cohort that borrows from here",
    ),
    pytest.param(
        None,
        two_flavors(),
        BUSY,
        "cohort-left-short",
        'cohort "research" then uses 2 cpu more than it has in standard:'
        " no borrowing there until it is released; add 2 first",
        id="deleting a ClusterQueue that others borrow from",
    ),
    pytest.param(
        team_a(stopPolicy="HoldAndDrain"),
        team_a(),
        BUSY,
        "drain-stops-workloads",
        "HoldAndDrain evicts 2 running workloads, which then wait; Hold lets them finish",
        id="draining a busy ClusterQueue",
    ),
    pytest.param(team_a(stopPolicy="Hold"), team_a(), BUSY, "", "", id="holding a busy ClusterQueue"),
    pytest.param(
        team_a(cohortName="other"),
        team_a(),
        BUSY,
        "cohort-left-in-debt",
        'leaving cohort "research" with 2 cpu borrowed: nothing starts until 2'
        " workloads release quota; drain the queue first",
        id="leaving a cohort in debt",
    ),
    pytest.param(
        None,
        team_a(),
        BUSY,
        "cluster-queue-in-use",
        "2 workloads hold quota here and 1 waits: deleted when the last one finishes; HoldAndDrain evicts them now",
        id="deleting a busy ClusterQueue",
    ),
    pytest.param(
        None,
        team_a(),
        waiting("w", "team-a", "9"),
        "cluster-queue-in-use",
        "1 workload waits here and stays pending until a ClusterQueue of this name is created again; move it first",
        id="deleting a ClusterQueue with waiting and without running workloads",
    ),
    pytest.param(None, team_a(), "", "", "", id="deleting an idle one"),
    pytest.param(
        ours("LocalQueue", "new", "team-a", clusterQueue="taem-b"),
        None,
        "",
        "cluster-queue-not-found",
        'ClusterQueue "taem-b" does not exist: jobs of this LocalQueue wait until it is created; did you mean'
        ' "team-b"?',
        id="a LocalQueue that leads nowhere",
    ),
    pytest.param(
        ours("LocalQueue", "new", "team-b", clusterQueue="team-a"),
        None,
        "",
        "namespace-not-selected",
        'ClusterQueue "team-a" does not admit namespace "team-b": its label team is b, must be a',
        id="a LocalQueue whose ClusterQueue admits nothing",
    ),
    pytest.param(
        {**MAIN, "spec": {**MAIN["spec"], "stopPolicy": "HoldAndDrain"}},
        MAIN,
        running("one", "team-a", "team-a", "6"),
        "drain-stops-workloads",
        "HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish",
        id="draining a busy LocalQueue",
    ),
    pytest.param(
        None,
        MAIN,
        BUSY,
        "local-queue-in-use",
        "1 workload waits here and stays pending until this LocalQueue is created again; move it first; 2 running"
        " continue",
        id="deleting a LocalQueue in which somebody waits",
    ),
    pytest.param(
        None,
        MAIN,
        running("one", "team-a", "team-a", "6"),
        "local-queue-in-use",
        "1 running workload continues and holds quota until it finishes; HoldAndDrain evicts it",
        id="deleting a LocalQueue of which somebody runs",
    ),
    pytest.param(
        pool(standrad=4),
        None,
        "",
        "flavor-not-found",
        'ResourceFlavor "standrad" does not exist, its quota in the cohort cannot be used: did you mean "standard"?',
        id="quota of a cohort in a misspelt flavor",
    ),
    pytest.param(
        pool(**{f"nothing-like-it-it-{number}": 1 for number in range(9)}),
        None,
        "",
        "flavor-not-found",
        "9 ResourceFlavors do not exist yet (nothing-..it-it-0, nothing-..it-it-1, ...):"
        " their quota in the cohort cannot be used",
        id="quota of a cohort in many flavors that are not there",
    ),
    pytest.param(
        pool(**{f"standar{number}": 1 for number in range(5)}),
        None,
        "",
        "flavor-not-found",
        [
            'ResourceFlavor "standar0" does not exist, its quota in the cohort cannot be used: did you mean'
            ' "standard"?',
            'ResourceFlavor "standar1" does not exist, its quota in the cohort cannot be used: did you mean'
            ' "standard"?',
            "... and 3 more of rule flavor-not-found",
        ],
        id="one rule says three things at most",
    ),
    pytest.param(
        pool(standard=2),
        pool(standard=4),
        GREEDY,
        "quota-below-usage",
        "the cohort then uses 2 cpu more than it has in standard: no borrowing in it until it is released; keep 2 more",
        id="less quota of a cohort than is in use",
    ),
    pytest.param(
        None,
        pool(standard=4),
        "",
        "cohort-in-use",
        "2 ClusterQueues are members: they stay in the cohort but lose its quota; move them first",
        id="deleting a Cohort that has members",
    ),
    pytest.param(None, ours("Cohort", "nobody", parentName="root"), "", "", "", id="deleting one that has none"),
    pytest.param(
        None,
        ours("Cohort", "knot", parentName="knot"),
        "[{kind: Cohort, metadata: {name: knot}, spec: {parentName: knot}}]",
        "",
        "",
        id="deleting one that has itself",
    ),
    pytest.param(
        ours("ResourceFlavor", "fast", nodeLabels={"pool": "fast"}),
        None,
        "",
        "flavor-without-nodes",
        "none of 2 nodes has the labels pool=fast: its pods stay pending; label nodes or change nodeLabels",
        id="a flavor without nodes",
    ),
    pytest.param(known("ResourceFlavor", "standard"), None, "", "", "", id="a flavor with nodes"),
    pytest.param(
        ours("ResourceFlavor", "racks", topologyName="racks"),
        None,
        "",
        "topology-without-effect",
        'topologyName "racks" has no effect: feature gate TopologyAwareScheduling is off',
        id="a flavor with a topology",
    ),
    pytest.param(
        ours("Topology", "racks", levels=[{"nodeLabel": "rack"}]),
        None,
        "",
        "topology-without-effect",
        'Topology "racks" has no effect: feature gate TopologyAwareScheduling is off',
        id="a Topology",
    ),
    pytest.param(
        None,
        known("ResourceFlavor", "standard"),
        "",
        "flavor-in-use",
        "ClusterQueues team-a, team-b use this flavor: it is deleted only after they remove it from resourceGroups",
        id="deleting a flavor that is used",
    ),
    pytest.param(
        None,
        known("ResourceFlavor", "spot"),
        "",
        "flavor-in-use",
        "ClusterQueue team-b uses this flavor: it is deleted only after it removes it from resourceGroups",
        id="deleting a flavor that one ClusterQueue uses",
    ),
]


@pytest.mark.parametrize(("new", "old", "more", "rule", "message"), CASES)
def test_the_messages_of_each_case(
    new: Raw | None, old: Raw | None, more: str, rule: str, message: str | list[str]
) -> None:
    read, find = KINDS[(new or old or {})["kind"]]
    lookup = world(more, nodes=[{"pool": "standard", "zone": "a"}, {"pool": "spot"}], concurrent=True)
    found = find(Change(old and read(old), new and read(new)), lookup)
    messages = message if isinstance(message, list) else [message]
    assert [(finding.rule, finding.message) for finding in found] == ([(rule, m) for m in messages] if rule else [])
    assert all(len(finding.message) <= LIMIT for finding in found)


ELSEWHERE = {"resource-without-nodes", "topology-not-found", "topology-labels-not-found", "workloads-affected"}
"""Rules with a test of their own: test_nodes.py and test_topology.py."""


def test_every_rule_for_administrators_has_its_case() -> None:
    tables = [rules for subject, rules in TABLES.items() if subject not in ("jobs", "labels and annotations")]
    seen = {case.values[-2] for case in (*CASES, *test_strangers.CASES)} - {""}
    assert {rule.name for rules in tables for rule in rules} == seen | ELSEWHERE


def test_the_first_member_of_a_cohort_gets_no_warning_that_the_cohort_lends_none() -> None:
    first = with_cpu(borrowingLimit=20)
    first["metadata"]["name"], first["spec"]["cohortName"] = "first", "new"
    assert of_cluster_queue(Change(None, decode.cluster_queue(first)), world()) == ()


def test_nothing_is_reported_before_the_caches_have_been_read() -> None:
    change = Change(None, decode.cluster_queue(ours("ClusterQueue", "new")))
    assert of_cluster_queue(change, world(synced=False)) == ()


def test_a_cluster_without_nodes_gets_no_warning_about_nodes() -> None:
    flavor = decode.resource_flavor(ours("ResourceFlavor", "fast", nodeLabels={"pool": "fast"}))
    assert of_flavor(Change(None, flavor), world(nodes=[])) == ()
    assert of_flavor(Change(None, flavor), world(nodes=None)) == ()
