"""Findings at admission: warned of, refused or kept quiet, as the operator decided."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson
import pytest

from api.configuration import load
from api.names import Label
from core.feedback.accepted import Accepted
from core.feedback.catalog import NAMES
from core.model import Key, Raw, Requirement, Selector
from core.state.lookup import Lookup
from tests.core.feedback.table import WORLDS
from tests.core.feedback.world import running, waiting, world
from tests.webhook.cluster import ask, job, review, review_of
from webhook.hooks import HOOKS
from webhook.policy import FeedbackPolicy, PolicyEntry
from webhook.policy import policy as policy_of
from webhook.review import Request, Response, shortened
from webhook.routes import answer
from webhook.settings import Context, WebhookSettings

MUTATE = "/mutate-batch-v1-job"
VALIDATE = "/validate-batch-v1-job"
VALIDATE_WORKLOAD = "/validate-kueue-x-k8s-io-v1beta2-workload"
MISSPELT = 'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?'


FIXED = "this Job's pod template cannot change: delete the Job and create it again (kubectl replace --force -f FILE)"


def queued(queue: str = "main", cpu: str = "1", **fields: Any) -> Raw:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    template = {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}}
    return job(labels={Label.QUEUE_NAME: queue}, suspend=True, template=template, **fields)


def policy(*entries: PolicyEntry) -> WebhookSettings:
    return WebhookSettings(feedback=FeedbackPolicy(entries))


def test_by_default_a_finding_is_a_warning() -> None:
    response = ask(VALIDATE, review(queued("mian")), knows=world())
    assert (response["allowed"], response["warnings"]) == (True, [MISSPELT])


def test_a_valid_job_is_allowed_without_a_warning() -> None:
    assert ask(VALIDATE, review(queued()), knows=world()) == {"uid": "u-1", "allowed": True}


def test_a_rule_set_to_deny_refuses_and_names_itself() -> None:
    settings = policy(PolicyEntry("local-queue-not-found", "Deny"))
    response = ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings)
    assert response["allowed"] is False
    assert response["status"]["message"] == f"{MISSPELT} (rule local-queue-not-found)"


def test_a_rule_set_to_ignore_gives_no_warning() -> None:
    settings = policy(PolicyEntry("local-queue-not-found", "Ignore"))
    assert ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(("team", "allowed"), [("a", False), ("b", True)])
def test_the_first_entry_whose_namespaces_match_counts(team: str, allowed: bool) -> None:
    selector = Selector((Requirement("team", "In", (team,)),))
    settings = policy(
        PolicyEntry("local-queue-not-found", "Deny", selector), PolicyEntry("local-queue-not-found", "Ignore")
    )
    assert ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings)["allowed"] is allowed


def test_the_configuration_sets_the_action_of_a_rule() -> None:
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  feedback:
    rules:
    - {name: local-queue-not-found, action: Deny, namespaceSelector: {matchLabels: {team: a}}}
    - {name: will-wait, action: Ignore}
"""
    loaded = load(text, feedback_rules=NAMES)
    assert policy_of(loaded.configuration.seiretsu.feedback) == FeedbackPolicy(
        (
            PolicyEntry("local-queue-not-found", "Deny", Selector((Requirement("team", "In", ("a",)),))),
            PolicyEntry("will-wait", "Ignore"),
        )
    )


def test_one_answer_has_refusals_and_warnings() -> None:
    settings = policy(PolicyEntry("request-too-large", "Deny"))
    new = queued(cpu="20", annotations={"a": "b"})
    new["metadata"]["labels"][Label.PRIORITY_CLASS] = "urgnet"
    response = ask(VALIDATE, review(new), knows=world(), settings=settings)
    assert response["status"]["message"].startswith("never starts: asks for 20 cpu")
    assert response["warnings"] == ['WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?']


def test_no_job_is_refused_before_the_caches_have_been_read() -> None:
    settings = policy(PolicyEntry("local-queue-not-found", "Deny"))
    response = ask(VALIDATE, review(queued("mian")), knows=world(synced=False), settings=settings)
    assert response == {"uid": "u-1", "allowed": True}


def test_a_queue_name_that_is_no_name_is_refused_with_the_one_that_was_meant() -> None:
    response = ask(VALIDATE, review(queued("Main")), knows=world())
    assert response["status"]["message"].endswith(
        ": Invalid value: \"Main\": did you mean \"main\"? A queue name has only lowercase letters, digits, '-' and '.'"
    )


@pytest.mark.parametrize(("name", "asked", "told"), [("", "9", True), ("train", "9", False), ("train", "20", True)])
def test_a_job_whose_name_is_taken_is_not_told_that_it_waits(name: str, asked: str, told: bool) -> None:
    """Kubernetes refuses it after admission. That it can never start is true whoever has the name."""
    busy = world(running("one", "team-a", "team-a", "8"))
    there = replace(busy, exists=lambda resource, key: (resource.plural, *key) == ("jobs", "team-a", "train"))
    made = queued(cpu=asked)
    made["metadata"]["uid"] = "u-9"
    accepted = Accepted()
    response = ask(VALIDATE, review(made, name=name), knows=there, accepted=accepted)
    assert bool(response.get("warnings")) is told
    assert len(accepted) == (name == "")


def test_a_label_of_the_short_name_queue_is_warned_of_if_it_names_a_queue() -> None:
    labels = {"queue": "main"}
    (warning,) = ask("/mutate-batch-v1-job-default", review(job(labels=labels)), knows=world())["warnings"]
    assert warning == "label queue is ignored and the job has no queue: did you mean kueue.x-k8s.io/queue-name?"
    for other in ({"queue": "emails"}, {**labels, Label.QUEUE_NAME: "main"}):
        response = ask("/mutate-batch-v1-job-default", review(job(labels=other)), knows=world())
        assert "warnings" not in response


def test_an_error_of_the_job_itself_comes_before_feedback() -> None:
    response = ask(VALIDATE, review(queued("Mian!")), knows=world())
    assert "RFC 1123" in response["status"]["message"]
    assert "warnings" not in response


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        pytest.param(queued("mian"), queued("mian", annotations={"note": "x"}), False, id="another annotation"),
        pytest.param(queued(), queued("mian"), True, id="another queue"),
        pytest.param(queued(), queued(cpu="20"), True, id="a larger request"),
        pytest.param(
            {**queued("mian"), "spec": {**queued()["spec"], "suspend": False}},
            queued("mian"),
            False,
            id="a Job that is being stopped",
        ),
    ],
)
def test_an_update_is_checked_if_it_changes_a_field_that_feedback_reads(old: Raw, new: Raw, warned: bool) -> None:
    assert ("warnings" in ask(VALIDATE, review(new, old=old), knows=world())) is warned


def test_a_warning_about_what_a_change_leaves_alone_is_not_repeated() -> None:
    old, new = queued("mian", cpu="1"), queued("mian", cpu="2")
    assert "warnings" not in ask(VALIDATE, review(new, old=old), knows=world())
    flavorless = {"coveredResources": ["cpu"], "flavors": [{"name": "gone", "resources": [{"name": "cpu"}]}]}
    made = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "new"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [flavorless]},
    }
    flavorless["flavors"] = [{"name": "gone", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
    after = {**made, "spec": {**made["spec"], "preemption": {"reclaimWithinCohort": "Any"}}}  # type: ignore[dict-item]
    body = review_of(after, old=made, resource="clusterqueues")
    (warning,) = ask(f"{FEEDBACK}-clusterqueue", body, knows=world())["warnings"]
    assert warning.startswith("reclaimWithinCohort: Any has no effect"), "and not again that there is no such flavor"


def test_a_job_that_is_changed_does_not_wait_behind_itself() -> None:
    there = world(running("big", "team-a", "team-a", "10") + waiting("itself", "team-a", "9"))
    own = there.state.workloads[Key("team-a", "itself")]
    old, new = queued(cpu="9"), queued(cpu="10")
    old["metadata"]["uid"] = new["metadata"]["uid"] = "u"
    told = ask(VALIDATE, review(new, old=old), knows=replace(there, job_workload=lambda uid: own))["warnings"]
    assert "queue position 1" in told[-1]


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        pytest.param({}, {"parallelism": 5}, True, id="more pods"),
        pytest.param({}, {"backoffLimit": 5}, False, id="something else"),
        pytest.param({}, {"parallelism": 5, "suspend": True}, True, id="more pods, and suspended for it"),
        pytest.param({}, {"suspend": True}, False, id="suspended"),
        pytest.param({"suspend": True}, {"parallelism": 5, "suspend": True}, False, id="one that waits"),
    ],
)
def test_a_running_job_is_checked_when_it_is_resized(before: Raw, after: Raw, warned: bool) -> None:
    old = {**queued(), "spec": {**queued()["spec"], "suspend": False, "parallelism": 3, "completions": 9, **before}}
    new = {**old, "spec": {**old["spec"], **after}}
    response = ask(VALIDATE, review(new, old=old), knows=world())
    told = "changing from 3 to 5 pods suspends this running job and requeues it; for 2 more pods submit another job"
    assert response.get("warnings", []) == ([told] if warned else [])
    if warned:
        settings = policy(PolicyEntry("running-job-resized", "Deny"))
        refused = ask(VALIDATE, review(new, old=old), knows=world(), settings=settings)
        assert refused["status"]["message"] == f"{told} (rule running-job-resized)"


def created(uid: str, cpu: str = "6", **request: Any) -> Raw:
    new = queued(cpu=cpu)
    new["metadata"]["uid"] = uid
    return review(new, **request)


def test_jobs_created_together_get_a_warning_if_they_must_wait() -> None:
    accepted = Accepted()
    counts = [
        len(ask(VALIDATE, created(str(each)), knows=world(), accepted=accepted).get("warnings", ()))
        for each in range(6)
    ]
    assert counts == [0, 0, 1, 1, 1, 1], "12 cpu can be had, each asks for 6"


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        pytest.param(created("a", dryRun=True), WebhookSettings(), id="a dry run"),
        pytest.param(
            created("a", cpu="20"), policy(PolicyEntry("request-too-large", "Deny")), id="one that is refused"
        ),
    ],
)
def test_what_is_not_created_is_not_counted(body: Raw, settings: WebhookSettings) -> None:
    accepted = Accepted()
    ask(VALIDATE, body, knows=world(), settings=settings, accepted=accepted)
    assert len(accepted) == 0


def test_warnings_are_at_most_five_of_120_characters_and_fit_a_header() -> None:
    found = shortened([f"{number}\n{'x' * 200}" for number in range(8)])
    assert len(found) == 5
    assert all(len(text) <= 120 and text.isprintable() for text in found)
    assert found[-1] == "... and 4 more warnings"


FEEDBACK = "/feedback-kueue-x-k8s-io-v1beta2"


def local_queue(cluster_queue: str, **metadata: Any) -> Raw:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "new", "namespace": "team-a", **metadata},
        "spec": {"clusterQueue": cluster_queue},
    }


def test_administrators_are_warned_too() -> None:
    body = review_of(local_queue("taem-a"), resource="localqueues")
    message = (
        'ClusterQueue "taem-a" does not exist: jobs of this LocalQueue wait until it is created; did you mean "team-a"?'
    )
    assert ask(f"{FEEDBACK}-localqueue", body, knows=world()) == {"uid": "u-1", "allowed": True, "warnings": [message]}
    denied = ask(
        f"{FEEDBACK}-localqueue", body, knows=world(), settings=policy(PolicyEntry("cluster-queue-not-found", "Deny"))
    )
    assert denied["status"]["message"] == f"{message} (rule cluster-queue-not-found)"


def v01_queue(cluster_queue: str, name: str = "new") -> Raw:
    """A Queue as v0.1 wrote it."""
    metadata = {"name": name, "namespace": "team-a"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": metadata,
        "spec": {"clusterQueue": cluster_queue},
    }


def workload(queue: str = "main", cpu: str = "1", count: int = 1, status: Raw | None = None, **spec: Any) -> Raw:
    """A Workload that a user creates without a job."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    pods = {"name": "main", "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "by-hand", "namespace": "team-a"},
        "spec": {**({"queueName": queue} if queue else {}), "podSets": [pods], **spec},
        **({"status": status} if status else {}),
    }


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(workload(), "", id="a good one"),
        pytest.param(workload("mian"), MISSPELT, id="a misspelt queue"),
        pytest.param(workload(""), "has no queue name and waits: set spec.queueName to main", id="no queue at all"),
        pytest.param(
            workload(cpu="4", count=5),
            'never starts: 5 pods ask for 20 cpu, ClusterQueue "team-a" allows 12 in standard; set count to 3 or less',
            id="more than there can be",
        ),
        pytest.param(
            workload(
                priority=5,
                priorityClassRef={"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgnet"},
            ),
            'WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',
            id="a misspelt priority class",
        ),
        pytest.param(
            workload(
                priority=5, priorityClassRef={"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "hgih"}
            ),
            'PriorityClass "hgih" does not exist, so no pod can be created; available: high-priority',
            id="a PriorityClass of Kubernetes that is not there",
        ),
    ],
)
def test_a_workload_without_a_job_gets_the_warnings_of_a_job(made: Raw, message: str) -> None:
    response = ask(VALIDATE_WORKLOAD, review_of(made, resource="workloads"), knows=world())
    assert response == {"uid": "u-1", "allowed": True, **({"warnings": [message]} if message else {})}


def test_a_workload_of_another_object_gets_no_warnings() -> None:
    made = workload("mian")
    made["metadata"]["ownerReferences"] = [{"kind": "Any", "name": "x", "uid": "u", "controller": True}]
    response = ask(VALIDATE_WORKLOAD, review_of(made, resource="workloads"), knows=world())
    assert response == {"uid": "u-1", "allowed": True}


def test_a_workload_is_refused_for_its_errors_without_advice() -> None:
    made = workload("mian")
    made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["pods"] = "1"
    response = ask(VALIDATE_WORKLOAD, review_of(made, resource="workloads"), knows=world())
    assert (response["allowed"], "warnings" in response) == (False, False)
    assert "reserved for internal kueue use" in response["status"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (VALIDATE_WORKLOAD, review_of(workload("mian"), resource="workloads")),
        (MUTATE, review(queued(cpu="2"), old=queued())),
    ],
)
def test_a_failure_of_advice_refuses_nothing(path: str, body: Raw) -> None:
    """The hook itself may refuse (``Fail``), advice may not."""

    def fails(request: Request, context: Context) -> Response:
        raise AssertionError("a bug")

    (hook,) = (hook for hook in HOOKS if hook.path == path)
    assert hook.advice is not None
    status, text = answer(replace(hook, advice=fails), orjson.dumps(body), Context(WebhookSettings(), world()))
    assert (status, orjson.loads(text)["response"]) == (200, {"uid": "u-1", "allowed": True})


@pytest.mark.parametrize("kind", ["QuotaReserved", "Finished"])
def test_a_workload_that_no_longer_waits_gets_no_warning(kind: str) -> None:
    condition = {
        "type": kind,
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    old = workload("mian", status={"conditions": [condition]})
    body = review_of({**old, "spec": {**old["spec"], "active": False}}, old=old, resource="workloads")
    assert ask(VALIDATE_WORKLOAD, body, knows=world()) == {"uid": "u-1", "allowed": True}


def test_the_priority_of_a_workload_determines_its_queue_position() -> None:
    busy = running("big", "team-a", "team-a", "10") + waiting("w-1", "team-a", "9", 10)
    for priority, place in ((5, "queue position 2"), (11, "queue position 1")):
        body = review_of(workload(cpu="4", priority=priority), resource="workloads")
        (warning,) = ask(VALIDATE_WORKLOAD, body, knows=world(busy))["warnings"]
        assert place in warning


def test_a_job_with_a_misspelt_queue_label_gets_a_warning_before_it_starts() -> None:
    new = job(labels={"kueue.x-k8s.io/queue-nmae": "main"})
    response = ask("/mutate-batch-v1-job-default", review(new), knows=world())
    assert response == {
        "uid": "u-1",
        "allowed": True,
        "warnings": ["label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?"],
    }


HELD_UP = WORLDS["checked"] + WORLDS["run-check"] + running("one", "team-a", "team-a", "1", check="budget")
JOB_LABEL, DEFAULT_HOOK = {Label.QUEUE_NAME: "main"}, "/mutate-batch-v1-job-default"
AS_ANNOTATION = {**queued(), "metadata": {**queued()["metadata"], "labels": {}, "annotations": JOB_LABEL}}
RULES = [
    ("unknown-key", VALIDATE, review(queued(annotations={"kueue.x-k8s.io/job-min-paralelism": "1"})), world()),
    ("unknown-key", DEFAULT_HOOK, review(job(labels={"kueue.x-k8s.io/queue-nmae": "main"})), world()),
    ("misplaced-key", VALIDATE, review(queued(annotations={Label.PRIORITY_CLASS: "urgent"})), world()),
    ("queue-by-annotation", VALIDATE, review(AS_ANNOTATION), world()),
    ("queue-named-twice", VALIDATE, review(queued(annotations={Label.QUEUE_NAME: "other"})), world()),
    ("admission-check-inactive", VALIDATE, review(queued()), world(WORLDS["checked"] + WORLDS["idle-check"])),
    ("admission-check-pending", VALIDATE, review(queued()), world(HELD_UP)),
    ("pods-not-ready", VALIDATE, review(queued()), world(running("a", "team-a", "team-a", "1"), one_by_one=True)),
    (
        "negative-weight",
        f"{FEEDBACK}-localqueue",
        review_of(
            {**local_queue("team-a"), "spec": {"clusterQueue": "team-a", "fairSharing": {"weight": "-1"}}},
            resource="localqueues",
        ),
        world(),
    ),
    (
        "queue-name-taken",
        "/feedback-kueue-x-k8s-io-v1alpha1-queue",
        review_of(v01_queue("team-b", "main"), resource="queues"),
        world("[{kind: ClusterQueue, metadata: {name: team-b}, spec: {namespaceSelector: {}}}]"),
    ),
    (
        "cluster-queue-not-found",
        "/feedback-kueue-x-k8s-io-v1alpha1-queue",
        review_of(v01_queue("taem-a"), resource="queues"),
        world(),
    ),
    ("local-queue-not-found", VALIDATE_WORKLOAD, review_of(workload("mian"), resource="workloads"), world()),
    ("no-queue", VALIDATE_WORKLOAD, review_of(workload(""), resource="workloads"), world()),
]


@pytest.mark.parametrize(
    ("rule", "path", "body", "knows"), RULES, ids=[f"{path}: {rule}" for rule, path, _, _ in RULES]
)
def test_a_rule_has_the_configured_action_in_the_selected_namespaces(
    rule: str, path: str, body: Raw, knows: Lookup
) -> None:
    def answered(*entries: PolicyEntry) -> Raw:
        return ask(path, body, knows=knows, settings=policy(*entries))

    (warning,) = answered()["warnings"]
    here, elsewhere = (Selector((Requirement("team", "In", (team,)),)) for team in ("a", "b"))
    denied = answered(PolicyEntry(rule, "Deny", here))
    assert (denied["allowed"], denied["status"]["message"]) == (False, f"{warning} (rule {rule})")
    assert answered(PolicyEntry(rule, "Deny", elsewhere))["warnings"] == [warning]
    assert answered(PolicyEntry(rule, "Ignore", here)) == {"uid": "u-1", "allowed": True}


def test_a_change_outside_of_the_spec_is_not_checked() -> None:
    body = review_of(local_queue("gone", finalizers=["a"]), old=local_queue("gone"), resource="localqueues")
    assert ask(f"{FEEDBACK}-localqueue", body, knows=world()) == {"uid": "u-1", "allowed": True}


def test_a_deletion_without_a_new_object_is_checked() -> None:
    old = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"}, "spec": {}}
    body = review_of(old, resource="resourceflavors")
    body["request"] |= {"operation": "DELETE", "object": None, "oldObject": old}
    response = ask(f"{FEEDBACK}-resourceflavor", body, knows=world())
    (warning,) = response["warnings"]
    assert warning.startswith("ClusterQueue team-b uses this flavor: it is deleted only after")


def cron_job(labels: Raw, template_labels: Raw, cpu: str = "1") -> Raw:
    job = queued(cpu=cpu)
    template = {"metadata": {"labels": template_labels}, "spec": job["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team-a", "labels": labels},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
    }


@pytest.mark.parametrize(
    ("made", "warnings"),
    [
        pytest.param(cron_job({}, JOB_LABEL), [], id="a good one"),
        pytest.param(
            cron_job(JOB_LABEL, {}),
            [
                "label kueue.x-k8s.io/queue-name has no effect on the CronJob itself: set it in"
                " spec.jobTemplate.metadata.labels"
            ],
            id="the label on the CronJob",
        ),
        pytest.param(cron_job(JOB_LABEL, JOB_LABEL), [], id="the label in both places, as kustomize writes it"),
        pytest.param(
            cron_job({}, {"kueue.x-k8s.io/queue-nmae": "main"}),
            ["label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?"],
            id="a typo in the key",
        ),
        pytest.param(cron_job({}, {Label.QUEUE_NAME: "mian"}), [MISSPELT], id="a typo in the queue"),
        pytest.param(
            cron_job({}, JOB_LABEL, cpu="20"),
            [
                'never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard (8 own, 4 borrowed);'
                " ask for 12 or less"
            ],
            id="more than there can be",
        ),
    ],
)
def test_a_cron_job_gets_the_warnings_about_its_jobs(made: Raw, warnings: list[str]) -> None:
    kind = {"group": "batch", "version": "v1", "kind": "CronJob"}
    resource = {"group": "batch", "version": "v1", "resource": "cronjobs"}
    body = review(made, kind=kind, resource=resource)
    assert ask("/feedback-batch-v1-cronjob", body, knows=world()).get("warnings", []) == warnings
    again = review(made, old=made, kind=kind, resource=resource)
    assert "warnings" not in ask("/feedback-batch-v1-cronjob", again, knows=world()), "nothing has changed"


INSTEAD = "spec.template: field is immutable: delete the Job and create it again (kubectl replace --force -f FILE)"


def test_another_image_is_refused_with_a_sentence_in_the_place_of_kubernetes_dump() -> None:
    old, new = queued(), queued(cpu="2")
    new["spec"] |= {"suspend": False}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    response = ask(MUTATE, review(new, old=old), knows=world())
    assert (response["allowed"], response["status"]["code"], response["status"]["reason"]) == (False, 422, "Invalid")
    assert response["status"]["message"] == INSTEAD
    assert "warnings" not in response, "nothing of what would happen if it were accepted"
    ignored = ask(MUTATE, review(new, old=old), knows=world(), settings=policy(PolicyEntry("pods-immutable", "Ignore")))
    assert ignored["allowed"], "then Kubernetes says it"


def test_changed_pods_get_a_warning_with_the_fix_before_kubernetes_refuses_them() -> None:
    old, new = queued(), queued(cpu="2")
    new["spec"]["template"]["spec"]["dnsPolicy"] = "None"
    response = ask(MUTATE, review(new, old=old), knows=world())
    assert response["warnings"] == [FIXED]
    assert "patch" not in response
    new["metadata"]["labels"] = {}
    assert "warnings" not in ask(MUTATE, review(new, old=old), knows=world()), "it is not queued any more"


def test_advice_about_a_change_is_added_to_what_the_hook_itself_does() -> None:
    old, new = queued(), queued()
    new["spec"] |= {"suspend": False, "template": queued(cpu="2")["spec"]["template"]}
    new["spec"]["template"]["spec"]["dnsPolicy"] = "None"
    response = ask(MUTATE, review(new, old=old), knows=world())
    kept, fixed = response["warnings"]
    assert kept.startswith("spec.suspend stays true")
    assert fixed == FIXED
    assert orjson.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/spec/suspend", "value": True}]


def test_a_change_that_kubernetes_will_refuse_can_be_refused_with_the_fix() -> None:
    new = queued()
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    settings = policy(PolicyEntry("pods-immutable", "Deny"))
    response = ask(MUTATE, review(new, old=queued()), knows=world(), settings=settings)
    assert not response["allowed"]
    assert FIXED in response["status"]["message"]


def deleted_workload(group_version: str) -> list[str]:
    """The warnings when a user deletes the Workload of a Job of this API group."""
    owner = {"apiVersion": group_version, "kind": "Job", "name": "train", "uid": "u", "controller": True}
    old = workload()
    old["metadata"]["ownerReferences"] = [owner]
    body = review_of(old, resource="workloads")
    body["request"] |= {"operation": "DELETE", "object": None, "oldObject": old}
    warnings: list[str] = ask(f"{FEEDBACK}-workload-deletion", body, knows=world()).get("warnings", [])
    return warnings


def test_a_warning_says_how_to_hold_the_job_whose_workload_is_deleted() -> None:
    assert deleted_workload("batch/v1") == [
        'Job "train" gets a new Workload; to end it delete the Job; to hold it set spec.active: false in the Workload'
    ]


def test_nothing_is_promised_about_jobs_of_another_api_group() -> None:
    assert deleted_workload("batch.volcano.sh/v1alpha1") == []


@pytest.mark.parametrize(("external", "warned"), [("Deployment.v1.apps", False), ("Deployment.v1.example.com", True)])
def test_a_kind_is_left_to_the_external_controller_of_its_own_api_group_alone(external: str, warned: bool) -> None:
    """Kinds of two groups may have one name."""
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a", "labels": JOB_LABEL},
    }
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    body = review(made, kind=kind, resource={"group": "apps", "version": "v1", "resource": "deployments"})
    settings = WebhookSettings(external_frameworks=frozenset({external}))
    response = ask("/feedback-apps-v1-deployment", body, knows=world(), settings=settings)
    assert ("warnings" in response) is warned
