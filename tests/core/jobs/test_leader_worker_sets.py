"""LeaderWorkerSets: a Workload for each group, whose pods are marked by the index of their group."""

from __future__ import annotations

import copy

import pytest

from api.feature_gates import DEFAULTS
from api.names import Annotation, Label
from core.actions import Patch
from core.jobs.actions import CreateWorkload, DeleteWorkload, Problem, UpdateWorkload
from core.jobs.fields import changed
from core.jobs.kinds import POD
from core.jobs.leader_worker_sets import GROUP_INDEX, LEADER_NAME, MOST_CREATED, LeaderWorkerSetSituation, name, steps
from core.jobs.pod_owner_groups import GroupStep
from core.jobs.pod_owners import LEADER_WORKER_SET
from core.model import Key, Raw
from core.wire.merge import merged
from tests.core.jobs.samples import CLASSES, decoded
from tests.core.jobs.test_pod import CONTAINER, pod


def made(*, replicas: int = 2, size: int = 3, leader: bool = True, queue: str = "lq") -> Raw:
    labels = {"leaderworkerset.sigs.k8s.io/name": "m", "leaderworkerset.sigs.k8s.io/other": "x", "app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    templates = {"workerTemplate": template, **({"leaderTemplate": template} if leader else {})}
    metadata = {"name": "m", "namespace": "ns", "uid": "set-uid", "labels": {Label.QUEUE_NAME: queue}}
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, **templates}}
    return {"metadata": metadata, "spec": spec, "status": {}}


def decided(owner: Raw, workloads: list[Raw] | None = None, *pods: Raw) -> list[GroupStep]:
    found = workloads or []
    return [
        step
        for step in steps(LeaderWorkerSetSituation(owner, pods, found, decoded(*found), CLASSES))
        if step is not None
    ]


def workloads_of(owner: Raw) -> list[Raw]:
    found = []
    for step in decided(owner):
        assert isinstance(step, CreateWorkload)
        raw = copy.deepcopy(step.manifest)
        raw["metadata"] |= {"uid": raw["metadata"]["name"], "resourceVersion": "9"}
        found.append(raw)
    return found


def test_each_group_gets_a_workload_of_a_leader_and_its_workers() -> None:
    found = workloads_of(made())
    assert [raw["metadata"]["name"] for raw in found] == [name(made(), 0), name(made(), 1)]
    assert all(raw["metadata"]["name"].startswith(f"leaderworkerset-m-{place}-") for place, raw in enumerate(found))
    for place, raw in enumerate(found):
        assert raw["metadata"]["annotations"][Annotation.COMPONENT_WORKLOAD_INDEX] == str(place)
        assert raw["metadata"]["annotations"][Annotation.IS_GROUP_WORKLOAD] == "true"
        assert [(each["name"], each["count"]) for each in raw["spec"]["podSets"]] == [("leader", 1), ("worker", 2)]
        labels = raw["spec"]["podSets"][0]["template"]["metadata"]["labels"]
        assert labels == {"leaderworkerset.sigs.k8s.io/name": "m", "app": "x"}


def test_without_a_leader_template_all_pods_of_a_group_are_one_pod_set() -> None:
    (first, _) = workloads_of(made(leader=False))
    assert [(each["name"], each["count"]) for each in first["spec"]["podSets"]] == [("main", 3)]


@pytest.mark.parametrize("leader", [True, False])
def test_the_pod_sets_have_the_topology_requests_of_their_templates(*, leader: bool) -> None:
    owner = made(replicas=1, leader=leader)
    worker = owner["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    marks = {Annotation.PREFERRED_TOPOLOGY: "rack"}
    marked = {**worker, "metadata": {**worker["metadata"], "annotations": marks}}
    owner["spec"]["leaderWorkerTemplate"]["workerTemplate"] = marked
    (step,) = steps(LeaderWorkerSetSituation(owner, (), [], {}, CLASSES, topology_requests=True))
    assert isinstance(step, CreateWorkload)
    asked = {"preferred": "rack", "podIndexLabel": "leaderworkerset.sigs.k8s.io/worker-index"}
    requests = [each.get("topologyRequest") for each in step.manifest["spec"]["podSets"]]
    assert requests == ([None, asked] if leader else [asked])
    (raw,) = workloads_of(owner)
    assert not any("topologyRequest" in each for each in raw["spec"]["podSets"]), "the feature gate is off"


def test_the_workload_of_a_group_that_is_not_wanted_any_more_is_deleted() -> None:
    found = workloads_of(made())
    assert decided(made(replicas=1), found) == [DeleteWorkload.of(Key("ns", name(made(), 1)), name(made(), 1), None)]


def test_a_set_of_a_million_groups_gets_a_limited_number_of_workloads_at_a_time() -> None:
    huge = made(replicas=1_000_000)
    first = workloads_of(huge)
    assert [raw["metadata"]["name"] for raw in first] == [name(huge, index) for index in range(MOST_CREATED)]
    (second, *_) = decided(huge, first)
    assert isinstance(second, CreateWorkload)
    assert second.manifest["metadata"]["name"] == name(huge, MOST_CREATED)


def test_groups_that_exist_are_considered_one_by_one() -> None:
    owner = made(replicas=50)
    found = workloads_of(owner)
    some = LeaderWorkerSetSituation(owner, (), found, decoded(*found), CLASSES)
    assert list(steps(some)) == [None] * 50, "the caller can pause after each of them"


def test_a_group_whose_workload_is_that_of_another_owner_waits_and_is_reported() -> None:
    owner = made(replicas=2)
    mine = workloads_of(owner)[1:]
    pods = [pod(name=f"m-{index}", labels={GROUP_INDEX: str(index)}) for index in range(2)]
    existing = {name(owner, 0), name(owner, 1)}
    found = LeaderWorkerSetSituation(owner, pods, mine, decoded(*mine), CLASSES, existing=existing)
    problem, mark = (each for each in steps(found) if each is not None)
    assert isinstance(problem, Problem)
    assert problem.reason == "WorkloadNameConflict"
    assert isinstance(mark, Patch)
    assert mark.target is not None
    assert mark.target.key.name == "m-1"


def test_a_missing_priority_class_is_one_problem_and_not_one_for_each_group() -> None:
    owner = made(replicas=50)
    owner["metadata"]["labels"][Label.PRIORITY_CLASS] = "missing"
    (problem,) = decided(owner)
    assert isinstance(problem, Problem)


def test_groups_that_an_update_adds_for_a_time_keep_their_workloads() -> None:
    owner = made(replicas=1)
    owner["status"] = {"updatedReplicas": 0, "replicas": 2}
    owner["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": 1}}
    assert len(workloads_of(owner)) == 2


def test_waiting_workloads_follow_the_queue_of_their_set() -> None:
    found = decided(made(queue="other"), workloads_of(made()))
    assert [type(step) for step in found] == [UpdateWorkload] * 2


def test_workloads_follow_the_gates_of_their_set() -> None:
    owner, found = made(), workloads_of(made())
    owner["metadata"]["annotations"] = {Annotation.ADMISSION_GATED_BY: "a.b/c"}
    changes = decided(owner, found)
    assert [type(step) for step in changes] == [UpdateWorkload] * 2
    again = [merged(raw, step.body) for raw, step in zip(found, changes, strict=True) if isinstance(step, Patch)]
    assert decided(owner, again) == []


@pytest.mark.parametrize(
    ("annotations", "leader", "role"),
    [({}, True, "leader"), ({LEADER_NAME: "m-1"}, True, "worker"), ({}, False, "main")],
    ids=["leader", "worker", "no leader template"],
)
def test_a_pod_becomes_a_member_of_the_group_of_its_index(annotations: Raw, leader: bool, role: str) -> None:
    owner = made(leader=leader)
    found = pod(labels={Label.MANAGED: "true", GROUP_INDEX: "1"}, annotations=annotations)
    (step,) = decided(owner, workloads_of(owner), found)
    assert isinstance(step, Patch)
    marked = merged(found, step.body)
    assert POD.key(marked) == Key("ns", f"group/{name(owner, 1)}")
    assert marked["metadata"]["annotations"][Annotation.POD_GROUP_TOTAL_COUNT] == "3"
    assert marked["metadata"]["annotations"][Annotation.ROLE_HASH] == role
    assert Annotation.POD_GROUP_FAST_ADMISSION not in marked["metadata"]["annotations"]
    assert decided(owner, workloads_of(owner), marked) == []


def test_a_pod_without_an_index_is_not_marked_yet() -> None:
    assert decided(made(), workloads_of(made()), pod(labels={Label.MANAGED: "true"})) == []


def test_both_templates_get_the_marks_by_which_their_pods_are_gated_and_serve() -> None:
    places = {each.path for each in LEADER_WORKER_SET.marks(made())}
    for template in LEADER_WORKER_SET.templates:
        annotations = (Annotation.POD_SUSPENDING_PARENT, Annotation.POD_GROUP_SERVING)
        assert {(*template, "metadata", "annotations", key) for key in annotations} <= places
        assert (*template, "metadata", "labels", Label.QUEUE_NAME) in places


@pytest.mark.parametrize(
    ("leader", "asked", "offset"),
    [
        (True, {Annotation.REQUIRED_TOPOLOGY: "rack"}, "1"),
        (True, {Annotation.REQUIRED_TOPOLOGY: "rack", Annotation.POD_SET_GROUP_NAME: "all"}, None),
        (False, {Annotation.REQUIRED_TOPOLOGY: "rack"}, None),
        (True, {}, None),
    ],
    ids=["beside a leader", "in a group with the leader", "without a template of the leader", "without a topology"],
)
def test_workers_that_ask_for_a_topology_are_numbered_from_one(leader: bool, asked: Raw, offset: str | None) -> None:
    owner = made(leader=leader)
    path = LEADER_WORKER_SET.templates[1]
    owner = changed(owner, (*path, "metadata", "annotations"), asked)
    found = {each.path: each.value for each in LEADER_WORKER_SET.marks(owner)}
    assert found.get((*path, "metadata", "annotations", Annotation.POD_INDEX_OFFSET)) == offset


@pytest.mark.parametrize(
    ("new", "errors"),
    [
        (made(replicas=5), []),
        (made(size=4), ["spec.leaderWorkerTemplate.size: Invalid value: 4: field is immutable"]),
    ],
    ids=["replicas", "size"],
)
def test_the_number_of_groups_may_change_and_their_size_may_not(new: Raw, errors: list[str]) -> None:
    assert [str(each) for each in LEADER_WORKER_SET.change_errors(made(), new, DEFAULTS.__getitem__)] == errors


def test_the_size_may_change_without_its_feature_gate() -> None:
    gates = {**DEFAULTS, "LWSImmutableGroupSize": False}
    assert LEADER_WORKER_SET.change_errors(made(), made(size=4), gates.__getitem__) == []


def test_a_set_of_another_cluster_has_the_workloads_that_were_made_there() -> None:
    """It becomes an owner of each of them, creates none for other groups, and deletes none."""
    origin = made()
    given = [{**raw, "metadata": {**raw["metadata"], "ownerReferences": []}} for raw in workloads_of(origin)]
    there = made()
    there["metadata"] |= {
        "uid": "uid-there",
        "labels": {**there["metadata"]["labels"], Label.MULTIKUEUE_ORIGIN: "multikueue"},
        "annotations": {Annotation.MULTIKUEUE_ORIGIN_UID: origin["metadata"]["uid"]},
    }
    assert [name(there, index) for index in range(2)] == [raw["metadata"]["name"] for raw in given]
    (adopted,) = decided(there, given[:1])
    assert isinstance(adopted, UpdateWorkload)
    owned = merged(given[0], adopted.body)
    assert owned["metadata"]["labels"][Label.JOB_UID] == "uid-there"
    assert [each["uid"] for each in owned["metadata"]["ownerReferences"]] == ["uid-there"]
    assert decided(there, [owned]) == []
    fewer = {**there, "spec": {**there["spec"], "replicas": 0}}
    assert decided(fewer, [owned]) == []
