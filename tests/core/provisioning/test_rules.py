"""Which requests and PodTemplates exist, and what each answer of the autoscaler leads to: one case for each rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from api.names import CheckState
from api.objects import Raw
from core.actions import Patch, Wait
from core.provisioning import rules
from core.provisioning.config import Config
from core.workload import transitions
from core.workload.transitions import Backoff
from tests.core.multikueue.groups import AT, NOW, conditions
from tests.core.provisioning.situations import CONFIG, Api, check, pod_set, request, workload

PENDING, READY, RETRY, REJECTED = CheckState.PENDING, CheckState.READY, CheckState.RETRY, CheckState.REJECTED
FIRST = "w-nodes-1"
TEMPLATE = f"ppt-{FIRST}-main"
MADE = ["create template", "create request", "adopt template"]


def api(*checks: Raw, owned: tuple[Raw, ...] = (), config: Config | None = CONFIG, **fields: Any) -> Api:
    """A Workload with quota that owns these requests."""
    found = Api(workload(*checks, **fields), {"nodes": config})
    found.requests = {each["metadata"]["name"]: each for each in owned}
    return found


class Answer(NamedTuple):
    """The state of the check before, the request, and the state and message after; None: nothing is written."""

    request: Raw
    after: tuple[str, str] | None
    before: Raw = check()
    config: Config = CONFIG
    workload: dict[str, Any] = {}  # noqa: RUF012


ANSWERS = {
    "no answer yet": Answer(request(FIRST), None),
    "no answer to a new attempt clears the message": Answer(
        request(FIRST), (PENDING, ""), check(message="Reset to Pending after eviction")
    ),
    "no answer while a template is refused": Answer(request(FIRST), None, check(message="Error creating it")),
    "accepted while a template is refused": Answer(
        request(FIRST, Accepted="True", Provisioned="False"), None, check(message="Error creating it")
    ),
    "failed while the next attempt is refused": Answer(
        request(FIRST, Failed="True"), None, check(retryCount=1, message="Error creating it")
    ),
    "accepted": Answer(request(FIRST, Accepted="True"), None),
    "accepted, with the time at which nodes are expected": Answer(
        request(FIRST, Accepted="True", Provisioned="False"), (PENDING, "Provisioned it is")
    ),
    "provisioned": Answer(request(FIRST, Accepted="True", Provisioned="True"), (READY, "Provisioned it is")),
    "provisioned, and ready already": Answer(request(FIRST, Provisioned="True"), None, check(state=READY)),
    "failed, with an attempt left": Answer(
        request(FIRST, Failed="True"), (RETRY, "Retrying after failure: Failed it is")
    ),
    "failed, and the next attempt follows": Answer(
        request(FIRST, Failed="True"),
        (PENDING, "Retrying after failure: Failed it is"),
        check(retryCount=1),
    ),
    "the last attempt failed": Answer(
        request("w-nodes-2", Failed="True"), (REJECTED, "Failed it is"), check(retryCount=1)
    ),
    "failed without retries": Answer(
        request(FIRST, Failed="True"), (REJECTED, "Failed it is"), config=replace(CONFIG, retries=0)
    ),
    "failed after it was provisioned": Answer(
        request(FIRST, Provisioned="True", Failed="True"), (RETRY, "Retrying after failure: Failed it is")
    ),
    "the booking expired before the admission": Answer(
        request(FIRST, Provisioned="True", BookingExpired="True"),
        (RETRY, "Retrying after booking expired: BookingExpired it is"),
        check(state=READY),
    ),
    "the booking of the last attempt expired": Answer(
        request("w-nodes-2", BookingExpired="True"), (REJECTED, "BookingExpired it is"), check(retryCount=1)
    ),
    "the booking expired after the admission": Answer(
        request(FIRST, Provisioned="True", BookingExpired="True"),
        None,
        check(state=READY),
        workload={"Admitted": "True"},
    ),
    "the capacity was revoked from a running Workload": Answer(
        request(FIRST, Provisioned="True", CapacityRevoked="True"),
        (REJECTED, "CapacityRevoked it is"),
        check(state=READY),
        workload={"Admitted": "True"},
    ),
    "the capacity was revoked before the admission": Answer(
        request(FIRST, CapacityRevoked="True"), (REJECTED, "CapacityRevoked it is")
    ),
    "the capacity was revoked from a Workload that is being deactivated": Answer(
        request(FIRST, CapacityRevoked="True"), None, workload={"active": False}
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_state_of_a_check_follows_from_the_answer(case: str) -> None:
    answer = ANSWERS[case]
    found = api(answer.before, owned=(answer.request,), config=answer.config, **answer.workload)
    written = isinstance(found.decide(), Patch)
    assert written == (answer.after is not None)
    if written:
        found.step()
    (after,) = found.workload.checks
    (before,) = api(answer.before).workload.checks
    assert (after.state, after.message) == (answer.after or (before.state, before.message))
    moved = [] if answer.after is None or answer.after[0] == before.state else [answer.after]
    assert found.events == [
        f"Admission check nodes updated state from {before.state} to {state} with message: {message}"
        for state, message in moved
    ]


@pytest.mark.parametrize(("retries", "seconds"), [(0, 10), (1, 20), (2, 25)])
def test_a_retry_waits_longer_each_time(retries: int, seconds: int) -> None:
    config = replace(CONFIG, retries=5, backoff=Backoff(10, 25))
    number = f"w-nodes-{retries + 1}"
    found = api(check(retryCount=retries), owned=(request(number, Failed="True"),), config=config)
    found.step()
    (after,) = found.workload.checks
    assert (after.state, after.requeue_after, after.retry_count) == (RETRY, seconds, retries)


def test_the_pods_of_a_provisioned_request_name_it_and_the_labels_of_its_nodes() -> None:
    config = replace(CONFIG, node_selector=(("example.com/slice", "Slice"), ("example.com/gone", "Missing")))
    found = api(config=config)
    found.settle()
    found.autoscaler(FIRST, Provisioned="True", details={"Slice": "s1", "More": "x"})
    found.settle()
    (after,) = found.workload.checks
    assert after.pod_set_updates == (
        {
            "name": "main",
            "annotations": {
                "autoscaling.x-k8s.io/consume-provisioning-request": FIRST,
                "autoscaling.x-k8s.io/provisioning-class-name": CONFIG.class_name,
            },
            "nodeSelector": {"example.com/slice": "s1"},
        },
    )


def test_all_pod_sets_that_share_a_template_name_the_request() -> None:
    config = replace(CONFIG, merge_policy="IdenticalPodTemplates")
    found = api(pod_sets=[pod_set("a"), pod_set("b")], config=config)
    assert found.settle() == MADE
    found.autoscaler(FIRST, Provisioned="True")
    found.settle()
    (after,) = found.workload.checks
    assert [each["name"] for each in after.pod_set_updates] == ["a", "b"]


def test_a_request_and_its_templates_are_made_once_quota_is_reserved() -> None:
    annotations = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "0", "provreq.kueue.x-k8s.io/p": "own", "x/Foo": "Bar"}
    found = api(config=replace(CONFIG, parameters={"p": "config", "q": "1"}), annotations=annotations)
    assert found.settle() == MADE
    made, template = found.requests[FIRST], found.templates[TEMPLATE]
    assert made["spec"] == {
        "provisioningClassName": CONFIG.class_name,
        "parameters": {"p": "own", "q": "1", "ValidUntilSeconds": "0"},
        "podSets": [{"podTemplateRef": {"name": TEMPLATE}, "count": 2}],
    }
    assert made["metadata"]["labels"] == template["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "w",
            "uid": "u-w",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert template["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "name": FIRST,
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert template["template"]["spec"]["nodeSelector"] == {"pool": "spot"}


def test_the_capacity_of_a_request_is_revoked_when_the_config_is_missing() -> None:
    revoked = request(FIRST, Provisioned="True", CapacityRevoked="True")
    found = api(check(state=READY), owned=(revoked,), config=None, Admitted="True")
    found.step()
    assert (found.workload.checks[0].state, found.workload.checks[0].message) == (REJECTED, "CapacityRevoked it is")


def test_few_names_are_compared_however_many_retries_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[int]()
    monkeypatch.setattr("core.provisioning.naming.attempt", lambda *given: compared.append(given[-1]))
    found = api(check(retryCount=3), owned=(request("x" * 253),), config=replace(CONFIG, retries=2**31 - 1))
    found.decide()
    assert max(compared) == 3 + rules.MOST_AHEAD + 1


def test_each_check_has_its_own_request() -> None:
    found = Api(workload(check("a"), check("b")), {"a": CONFIG, "b": CONFIG})
    found.settle()
    assert sorted(found.requests) == ["w-a-1", "w-b-1"]


class Course(NamedTuple):
    """What is there, and the actions until nothing is left to do, with the names of the requests that remain."""

    api: Callable[[], Api]
    steps: list[str]
    requests: list[str]


def with_template(found: Api, *, by: str) -> Api:
    """The template of the first attempt exists and belongs to an object with that uid."""
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": by, "controller": True}
    metadata = {"name": TEMPLATE, "namespace": "ns", "uid": "u-t", "resourceVersion": "9", "ownerReferences": [owner]}
    found.templates[TEMPLATE] = {"metadata": metadata, "template": {"spec": {"nodeSelector": {"pool": "spot"}}}}
    return found


def deleting(raw: Raw) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": AT}}


OTHER = replace(CONFIG, class_name="another-class")
KEPT = [FIRST]
COURSES = {
    "without quota": Course(lambda: api(held=False), [], []),
    "without quota a request stays": Course(lambda: api(held=False, owned=(request(FIRST),)), [], KEPT),
    "a Workload that is being deleted": Course(lambda: api(deleting=True), [], []),
    "finished": Course(
        lambda: api(check(state=READY), owned=(request(FIRST),), Finished="True"), ["delete request"], []
    ),
    "evicted": Course(lambda: api(owned=(request(FIRST),), Evicted="True"), ["delete request"], []),
    "evicted, with the gate off": Course(
        lambda: replace(api(owned=(request(FIRST),), Evicted="True"), cleans_up=False), [], KEPT
    ),
    "finished, with the gate off": Course(
        lambda: replace(api(owned=(request(FIRST),), Finished="True"), cleans_up=False), ["delete request"], []
    ),
    "evicted between template and request": Course(
        lambda: with_template(api(Evicted="True"), by="u-w"), ["delete template"], []
    ),
    "the check was removed between template and request": Course(
        lambda: with_template(Api(workload(check("other")), {}), by="u-w"), ["delete template"], []
    ),
    "no pod needs nodes any more after the template was made": Course(
        lambda: with_template(api(config=replace(CONFIG, managed=frozenset({"gpu"}))), by="u-w"),
        ["answer", "delete template"],
        [],
    ),
    "the check is not active after the template was made": Course(
        lambda: with_template(api(config=None), by="u-w"), ["answer"], []
    ),
    "the check is not active": Course(
        lambda: api(owned=(request(FIRST),), config=None), ["answer", "delete request"], []
    ),
    "a running Workload whose check is not active keeps its request": Course(
        lambda: api(check(state=READY), owned=(request(FIRST, Provisioned="True"),), config=None, Admitted="True"),
        [],
        KEPT,
    ),
    "the check was removed": Course(
        lambda: Api(workload(check("other")), {}, requests={FIRST: request(FIRST)}), ["delete request"], []
    ),
    "no pod needs nodes": Course(
        lambda: api(owned=(request(FIRST),), config=replace(CONFIG, managed=frozenset({"gpu"}))),
        ["answer", "delete request"],
        [],
    ),
    "another class": Course(
        lambda: api(owned=(request(FIRST),), config=OTHER),
        ["delete request", "create template", "create request", "adopt template"],
        KEPT,
    ),
    "another parameter": Course(
        lambda: api(owned=(request(FIRST),), config=replace(CONFIG, parameters={"p": "v"})),
        ["delete request", "create template", "create request", "adopt template"],
        KEPT,
    ),
    "another class when the nodes are there": Course(
        lambda: api(check(state=READY), owned=(request(FIRST, Provisioned="True"),), config=OTHER), [], KEPT
    ),
    "a request that was deleted is made again": Course(api, MADE, KEPT),
    "a request that was deleted when the nodes are there is not": Course(lambda: api(check(state=READY)), [], []),
    "a request that was deleted while the check is to be retried is not": Course(
        lambda: api(check(state=RETRY)), [], []
    ),
    "after a retry the next attempt": Course(lambda: api(check(retryCount=1)), MADE, ["w-nodes-2"]),
    "the last attempt is not the current one": Course(
        lambda: api(check(retryCount=1), owned=(request(FIRST), request("w-nodes-2"))),
        ["delete request", "create template", "adopt template"],
        ["w-nodes-2"],
    ),
    "the failed attempt is still there": Course(
        lambda: api(check(retryCount=1), owned=(request(FIRST, Failed="True"),)),
        ["answer", *MADE[:2], "answer", "delete request", "adopt template"],
        ["w-nodes-2"],
    ),
    "a request that is being deleted is waited for": Course(lambda: api(owned=(deleting(request(FIRST)),)), [], KEPT),
    "a template belongs to a request that is gone": Course(
        lambda: with_template(api(), by="u-gone"), ["delete template", *MADE], KEPT
    ),
    "a template that is there is used": Course(
        lambda: with_template(api(), by="u-w"), ["create request", "adopt template"], KEPT
    ),
    "a template that is there is for other nodes": Course(
        lambda: with_template(api(flavor="other"), by="u-w"), ["delete template", *MADE], KEPT
    ),
    "a template is missing": Course(lambda: api(owned=(request(FIRST),)), ["create template", "adopt template"], KEPT),
    "the request asks for the pods of an earlier admission": Course(
        lambda: api(counts={"main": 1}, owned=(request(FIRST),)), ["delete request", *MADE], KEPT
    ),
    "the request asks for the nodes of an earlier admission": Course(
        lambda: with_template(api(flavor="other", owned=(request(FIRST),)), by=f"u-{FIRST}"),
        ["delete request", "delete template", *MADE],
        KEPT,
    ),
}


@pytest.mark.parametrize("case", COURSES)
def test_the_requests_that_should_exist_do(case: str) -> None:
    course = COURSES[case]
    found = course.api()
    assert found.settle() == course.steps
    assert sorted(found.requests) == course.requests


@pytest.mark.parametrize(
    ("fields", "flavors", "reason"),
    [
        (
            {"pod_sets": [pod_set(spec={"nodeSelector": {"pool": "mine"}})]},
            None,
            "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=pool, value1=mine, "
            "value2=spot",
        ),
        ({}, {}, 'ResourceFlavor "spot" not found'),
    ],
)
def test_a_template_that_cannot_be_made_is_reported_once(fields: Any, flavors: Any, reason: str) -> None:
    found = api(**fields)
    found.flavors = flavors if flavors is not None else found.flavors
    assert found.step() == "not created"
    (after,) = found.workload.checks
    assert (after.state, after.message) == (PENDING, f'Error creating PodTemplate "{TEMPLATE}": {reason}')
    assert found.decide() == Wait(rules.AGAIN_SECONDS)


def test_a_template_of_another_workload_or_its_request_is_reported_and_not_deleted() -> None:
    found = with_template(api(), by="u-other")
    found.others = frozenset({"u-other"})
    assert found.step() == "not created"
    reason = 'it exists already and belongs to X "x"'
    assert found.workload.checks[0].message == f'Error creating PodTemplate "{TEMPLATE}": {reason}'
    assert found.decide() == Wait(rules.AGAIN_SECONDS)


def test_a_request_that_was_refused_is_reported_once() -> None:
    found = api()
    report = rules.not_created(found.situation, "nodes", "refused")
    assert report is not None
    found.raw["status"] = {**found.raw["status"], **report.body["status"]}
    assert rules.not_created(found.situation, "nodes", "refused") is None
    assert found.settle() == [*MADE[:2], "answer", MADE[2]]
    assert found.workload.checks[0].message == ""


def test_the_report_is_cleared_when_a_template_that_was_refused_is_there() -> None:
    found = api(check(message="Error creating it"), owned=(request(FIRST, Accepted="True"),))
    assert found.settle() == ["create template", "answer", "adopt template"]
    assert found.workload.checks[0].message == ""


def evict(found: Api) -> None:
    """The rest of Seiretsu: evicts the Workload, and reserves quota for it again."""
    evicted = transitions.evicted(found.workload, "AdmissionCheck", "", found.now)
    checks = [
        check(each.name, each.state, each.message, retryCount=each.retry_count, requeueAfterSeconds=each.requeue_after)
        for each in evicted.checks
    ]
    found.become(admissionChecks=checks, conditions=conditions(QuotaReserved="True", Evicted="True"))


def reserve(found: Api) -> None:
    found.become(conditions=conditions(QuotaReserved="True", Evicted="False"))


@pytest.mark.parametrize("cleans_up", [True, False])
@pytest.mark.parametrize("answer", ["Failed", "BookingExpired"])
def test_attempts_are_made_until_one_succeeds(answer: str, cleans_up: bool) -> None:
    found = api(config=replace(CONFIG, retries=2))
    found.cleans_up = cleans_up
    for number in (1, 2):
        found.settle()
        assert sorted(found.requests) == [f"w-nodes-{number}"]
        found.autoscaler(f"w-nodes-{number}", details=None, **{answer: "True"})
        found.settle()
        assert found.workload.checks[0].state == RETRY
        evict(found)
        found.settle()
        assert bool(found.requests) is not cleans_up
        reserve(found)
    found.settle()
    found.autoscaler("w-nodes-3", Provisioned="True")
    found.settle()
    assert (found.workload.checks[0].state, sorted(found.requests)) == (READY, ["w-nodes-3"])


def test_no_attempt_is_left_after_the_last() -> None:
    found = api(config=replace(CONFIG, retries=1))
    for number in (1, 2):
        found.settle()
        found.autoscaler(f"w-nodes-{number}", Failed="True", message="no nodes")
        found.settle()
        if number == 1:
            evict(found)
            found.settle()
            reserve(found)
    assert (found.workload.checks[0].state, found.workload.checks[0].message) == (REJECTED, "no nodes")
    assert found.now == NOW
