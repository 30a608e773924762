"""Only admission starts a waiting job.

An update that unsuspends it is changed so that it stays suspended, with a warning. If another webhook unsuspends it
after that, the update is refused.
"""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from api.names import Annotation, Label
from core.model import Condition, Key, Raw, Workload
from core.state.lookup import Lookup
from core.state.state import State
from tests.webhook.cluster import ask, job, review
from webhook.settings import ControllerAccount, WebhookSettings

QUEUE = {Label.QUEUE_NAME: "main"}
REFUSAL = (
    'spec.suspend: Forbidden: the job waits in LocalQueue "main" and is started when its workload is admitted,'
    " not by hand"
)
COULD_NOT = (
    "spec.suspend: Forbidden: the job cannot run, its workload is finished (why Finished): change the job so that it"
    " can start, or create it again"
)


ADMITTED = "spec.suspend: Forbidden: the job is admitted: it is started with the nodes of its flavors, not by hand"


def knows(*true: str, synced: bool = True, exists: bool = True) -> Lookup:
    workload = Workload(
        Key("team-a", "w"), "w", 0.0, "main", 0, (), tuple(Condition(kind, True, "", f"why {kind}") for kind in true)
    )
    return Lookup(
        State(), ready=lambda: synced, job_workload=lambda uid: workload if exists and uid == "job-1" else None
    )


def with_uid(raw: Raw) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "uid": "job-1"}}


def started(
    lookup: Lookup,
    *,
    labels: Raw | None = None,
    annotations: Raw | None = None,
    settings: WebhookSettings | None = None,
    account: ControllerAccount | None = None,
    **request: Any,
) -> str:
    """What is said when the job is unsuspended; '' where that is let through."""
    found = QUEUE if labels is None else labels
    new = with_uid(job(labels=found))
    old = with_uid(job(labels=found, annotations=annotations, suspend=True))
    response = ask(
        "/validate-batch-v1-job", review(new, old=old, **request), knows=lookup, settings=settings, account=account
    )
    return str(response.get("status", {}).get("message", ""))


def kept(lookup: Lookup, *, suspend: bool | None = False, **request: Any) -> Raw:
    """What defaulting answers when the job is unsuspended."""
    new, old = with_uid(job(labels=QUEUE)), with_uid(job(labels=QUEUE, suspend=True))
    if suspend is not None:
        new["spec"]["suspend"] = suspend
    return ask("/mutate-batch-v1-job", review(new, old=old, **request), knows=lookup)


WARNING = 'spec.suspend stays true: the job waits in LocalQueue "main" and starts when it is admitted'


@pytest.mark.parametrize("suspend", [False, None], ids=["suspend: false", "suspend was removed"])
@pytest.mark.parametrize(
    "lookup",
    [knows(), knows("QuotaReserved"), knows(exists=False)],
    ids=["it waits for quota", "it waits for its checks", "it was just created"],
)
def test_an_update_that_unsuspends_a_job_that_waits_keeps_it_suspended_and_warns(
    lookup: Lookup, suspend: bool | None
) -> None:
    response = kept(lookup, suspend=suspend)
    assert response["allowed"] and response["warnings"] == [WARNING]
    operations = orjson.loads(base64.b64decode(response["patch"]))
    assert operations == [{"op": "add", "path": "/spec/suspend", "value": True}]


@pytest.mark.parametrize(
    "lookup",
    [knows(synced=False)],
    ids=["we know nothing yet: the controller will suspend it"],
)
def test_an_update_that_may_unsuspend_a_job_is_left_as_it_is(lookup: Lookup) -> None:
    response = kept(lookup)
    assert response["allowed"] and "patch" not in response and "warnings" not in response


RUNS = ("QuotaReserved", "Admitted")


def test_a_job_that_is_admitted_is_not_started_by_hand_either() -> None:
    """It would run on any nodes: whoever starts it could change its node selector in the same write."""
    response = kept(knows(*RUNS))
    told = "spec.suspend stays true: the job is admitted: it is started with the nodes of its flavors"
    assert response["allowed"] and response["warnings"] == [told]


HOLD = [
    "spec.suspend: true stops the pods of this job and requeues it: it may start again immediately",
    "to hold the job, set spec.active: false on Workload w",
]


@pytest.mark.parametrize(
    ("lookup", "user", "warnings"),
    [
        pytest.param(knows(*RUNS), "alice", HOLD, id="a person suspends a job that runs"),
        pytest.param(knows(*RUNS), "us", [], id="we do"),
        pytest.param(knows("QuotaReserved"), "alice", [], id="a job that is not admitted"),
        pytest.param(knows(*RUNS, "Finished"), "alice", [], id="a job that has finished"),
        pytest.param(knows(*RUNS, synced=False), "alice", [], id="we know nothing yet"),
    ],
)
def test_suspending_a_running_job_gives_a_warning_that_it_starts_again(
    lookup: Lookup, user: str, warnings: list[str]
) -> None:
    new, old = with_uid(job(labels=QUEUE, suspend=True)), with_uid(job(labels=QUEUE))
    asked = review(new, old=old, userInfo={"username": user})
    response = ask("/validate-batch-v1-job", asked, knows=lookup, account=ControllerAccount("us"))
    assert response["allowed"]
    assert response.get("warnings", []) == warnings


@pytest.mark.parametrize(
    ("lookup", "message"),
    [
        pytest.param(knows(), REFUSAL, id="it waits for quota"),
        pytest.param(knows("QuotaReserved"), REFUSAL, id="it waits for its checks"),
        pytest.param(knows(exists=False), REFUSAL, id="it was just created"),
        pytest.param(knows("QuotaReserved", "Admitted"), ADMITTED, id="it is admitted"),
        pytest.param(knows("QuotaReserved", "Admitted", "Finished"), COULD_NOT, id="it could not start"),
        pytest.param(knows(synced=False), "", id="we know nothing yet: the controller will suspend it"),
    ],
)
def test_jobs_that_may_be_started(lookup: Lookup, message: str) -> None:
    assert started(lookup) == message


@pytest.mark.parametrize("left", [{"active": 2, "terminating": 0}, {"terminating": 2}], ids=["not seen", "terminate"])
def test_a_job_that_was_stopped_does_not_start_beside_its_old_pods(left: Raw) -> None:
    """Although its Workload is admitted: who stops and starts it again and again would run them all."""
    new, old = with_uid(job(labels=QUEUE)), with_uid(job(labels=QUEUE, suspend=True))
    new["spec"]["suspend"] = False
    asked = review({**new, "status": left}, old={**old, "status": left})
    response = ask("/mutate-batch-v1-job", asked, knows=knows(*RUNS))
    text = "the job was stopped and its pods still terminate: it starts again when they are gone"
    assert response["warnings"] == [f"spec.suspend stays true: {text}"]
    assert orjson.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/spec/suspend", "value": True}]
    refused = ask("/validate-batch-v1-job", asked, knows=knows(*RUNS), account=ControllerAccount("us"))
    assert text in refused["status"]["message"]


OUR_OWN, ADMINS = (
    ControllerAccount("system:serviceaccount:kueue-system:seiretsu"),
    ControllerAccount("admin", shared=True),
)


@pytest.mark.parametrize("manager", ["seiretsu", "kueue-job-controller", "kubectl-patch"])
@pytest.mark.parametrize("account", [OUR_OWN, ADMINS, ControllerAccount()], ids=["our own", "a person's", "not known"])
@pytest.mark.parametrize("user", ["alice", "", OUR_OWN.name, ADMINS.name])
def test_the_controllers_start_is_recognized_by_account_and_never_by_field_manager(
    user: str, account: ControllerAccount, manager: str
) -> None:
    said = started(knows(), account=account, userInfo={"username": user}, options={"fieldManager": manager})
    ours = user == account.name and (account is OUR_OWN or (account is ADMINS and manager != "kubectl-patch"))
    assert said == ("" if ours else REFUSAL)


def test_any_client_may_unsuspend_a_finished_job() -> None:
    new, old = with_uid(job(labels=QUEUE)), with_uid(job(labels=QUEUE, suspend=True))
    new["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert ask("/validate-batch-v1-job", review(new, old=old), knows=knows("Finished"))["allowed"]


def test_a_mark_that_it_is_being_stopped_starts_nothing() -> None:
    assert started(knows(), annotations={Annotation.STOPPING: "true"}) == REFUSAL


def test_any_client_may_start_a_job_without_a_queue() -> None:
    assert started(knows(), labels={}) == ""


def test_where_all_jobs_are_managed_one_without_a_queue_does_not_start_either() -> None:
    settings = WebhookSettings(manage_jobs_without_queue_name=True)
    assert started(knows(), labels={}, settings=settings) == (
        "spec.suspend: Forbidden: the job names no queue (label kueue.x-k8s.io/queue-name) and is started when its"
        " workload is admitted, not by hand"
    )


def test_an_owner_that_comes_with_the_same_write_starts_nothing() -> None:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    settings = WebhookSettings(frameworks=frozenset({"batch/job", "jobset.x-k8s.io/jobset"}))
    new, old = with_uid(job(labels=QUEUE, owner=owner)), with_uid(job(labels=QUEUE, suspend=True))
    response = ask("/validate-batch-v1-job", review(new, old=old), knows=knows(), settings=settings)
    assert response["status"]["message"] == REFUSAL
