"""Which requests the webhook configurations make the API server send, and which not."""

from __future__ import annotations

import base64
from dataclasses import replace

import cel
import orjson
import pytest

from api.names import Annotation, Label, SchedulingGate
from core.jobs.external import plural
from core.jobs.owners import KNOWN
from core.model import Raw
from tests.webhook.cluster import job, review
from webhook.configurations import Endpoint, HookOptions, mutating, validating, written_by
from webhook.review import parse
from webhook.settings import ControllerAccount, WebhookSettings

QUEUE = {Label.QUEUE_NAME: "main"}


def _webhook(name: str, options: HookOptions) -> Raw:
    (found,) = (
        webhook
        for configuration in (mutating(options), validating(options))
        for webhook in configuration["webhooks"]
        if webhook["name"] == name
    )
    assert isinstance(found, dict)
    return found


def _reaches(
    name: str,
    new: Raw | None,
    old: Raw | None = None,
    *,
    spec_before: Raw | None = None,
    user: str = "alice",
    options: HookOptions | None = None,
) -> bool:
    """Whether all match conditions of the webhook hold, as the API server evaluates them."""
    variables = {
        "object": None if new is None else {"metadata": new},
        "oldObject": None if old is None else {"metadata": old, "spec": spec_before or {}},
        "request": {"operation": "CREATE" if old is None else "UPDATE", "userInfo": {"username": user}},
    }
    conditions = _webhook(name, options or HookOptions()).get("matchConditions", ())
    return all(cel.evaluate(condition["expression"], variables) is True for condition in conditions)


def test_a_workload_that_the_controller_writes_is_not_compared() -> None:
    """An expression that reads what is not there fails; the API server evaluates all conditions of a hook."""
    options = HookOptions(account=ControllerAccount("system:serviceaccount:a:b"))
    request = {"operation": "UPDATE", "userInfo": {"username": options.account.name}}
    *_, last = _webhook("vworkload.kb.io", options)["matchConditions"]
    assert cel.evaluate(last["expression"], {"request": request}) is False
    with pytest.raises(RuntimeError):
        cel.evaluate(last["expression"], {"request": request | {"userInfo": {"username": "alice"}}})


@pytest.mark.parametrize(
    ("hook", "new", "old", "reaches"),
    [
        pytest.param("mjob.kb.io", {"labels": QUEUE}, None, True, id="a Job with the label"),
        pytest.param("mjob.kb.io", {"annotations": QUEUE}, None, True, id="a Job with the annotation of v0.1"),
        pytest.param("mjob.kb.io", {}, None, False, id="a Job without labels and annotations"),
        pytest.param("mjob.kb.io", {"labels": {"a": "b"}}, None, False, id="a Job with other labels"),
        pytest.param("mjob-default.kb.io", {}, None, True, id="an unqueued Job may be given the default queue"),
        pytest.param("mjob-default.kb.io", {"labels": QUEUE}, None, False, id="a queued one needs no default"),
        pytest.param("vjob.kb.io", {"labels": {}}, {"labels": QUEUE}, True, id="removing the label is looked at"),
        pytest.param("vjob.kb.io", {"labels": QUEUE}, {}, True, id="adding the label is looked at"),
        pytest.param("vjob.kb.io", {}, {}, False, id="changing an unqueued Job is not"),
        pytest.param("vjob.kb.io", {"labels": QUEUE}, None, True, id="creating a queued Job is"),
        pytest.param("vjob.kb.io", {}, None, False, id="creating an unqueued Job is not"),
    ],
)
def test_only_queued_jobs_reach_us(hook: str, new: Raw, old: Raw | None, reaches: bool) -> None:
    assert _reaches(hook, new, old) is reaches


def test_every_job_of_managed_namespaces_is_sent_if_all_jobs_are_managed() -> None:
    options = HookOptions(settings=WebhookSettings(manage_jobs_without_queue_name=True))
    assert _reaches("mjob.kb.io", {}, options=options)
    assert _reaches("vjob.kb.io", {}, {}, options=options)
    assert "mjob-default.kb.io" not in [webhook["name"] for webhook in mutating(options)["webhooks"]]


PODS = WebhookSettings(frameworks=frozenset({"pod"}))
PODS_OF_OWNERS = WebhookSettings(frameworks=frozenset({"deployment", "statefulset"}))
MARKED = {"annotations": {Annotation.POD_SUSPENDING_PARENT: "deployment"}}
WATCHED = {"labels": {Label.MANAGED: "true"}}


@pytest.mark.parametrize("without_queue_name", [False, True], ids=["named queues", "all jobs are managed"])
@pytest.mark.parametrize(
    ("hook", "new", "old", "of_pods", "of_owners"),
    [
        pytest.param("mpod.kb.io", {"labels": QUEUE}, None, True, False, id="a new pod that names a queue"),
        pytest.param("mpod.kb.io", MARKED, None, True, True, id="a new pod of a queued owner"),
        pytest.param("vpod.kb.io", {"labels": QUEUE}, None, True, False, id="so, to be validated"),
        pytest.param("vpod.kb.io", {"labels": QUEUE}, {"labels": QUEUE}, False, False, id="a pod that is not watched"),
        pytest.param("vpod.kb.io", MARKED, MARKED, False, False, id="so, of a queued owner"),
        pytest.param("vpod.kb.io", WATCHED | MARKED, MARKED, True, True, id="a pod that becomes watched"),
        pytest.param("vpod.kb.io", MARKED, WATCHED | MARKED, True, True, id="a pod that loses the label"),
        pytest.param("vpod.kb.io", WATCHED, WATCHED | MARKED, True, True, id="a pod that loses its annotation"),
    ],
)
def test_pods_reach_us_when_they_are_queued_and_their_changes_while_they_are_watched(
    hook: str, new: Raw, old: Raw | None, of_pods: bool, of_owners: bool, without_queue_name: bool
) -> None:
    for settings, reaches in ((PODS, of_pods), (PODS_OF_OWNERS, of_owners)):
        options = HookOptions(replace(settings, manage_jobs_without_queue_name=without_queue_name))
        assert _reaches(hook, new, old, options=options) is reaches


@pytest.mark.parametrize(
    ("gate", "reaches"), [(SchedulingGate.ADMISSION, True), ("a.b/c", False)], ids=["Seiretsu's", "another"]
)
@pytest.mark.parametrize("settings", [PODS, PODS_OF_OWNERS], ids=["pods", "pods of queued owners"])
def test_a_change_of_a_pod_behind_our_gate_reaches_us_although_the_pod_is_not_watched(
    settings: WebhookSettings, gate: str, reaches: bool
) -> None:
    options = HookOptions(replace(settings, manage_jobs_without_queue_name=True))
    before = {"schedulingGates": [{"name": gate}]}
    assert _reaches("vpod.kb.io", MARKED, MARKED, spec_before=before, options=options) is reaches


@pytest.mark.parametrize("settings", [PODS, PODS_OF_OWNERS], ids=["pods", "pods of queued owners"])
def test_pods_that_name_no_queue_are_only_sent_where_pods_are_queued_themselves(settings: WebhookSettings) -> None:
    options = HookOptions(settings)
    names = {webhook["name"] for found in (mutating(options), validating(options)) for webhook in found["webhooks"]}
    expected = {"mpod.kb.io", "vpod.kb.io", "mpod-owner.kb.io", "vpod-owner.kb.io", "vpod-counted.kb.io"}
    if settings is PODS:
        expected |= {"mpod-default.kb.io", "pod-unmanaged-feedback.kb.io"}
    else:
        expected |= {"pod-feedback.kb.io"}
    assert {name for name in names if "pod" in name} == expected


def test_a_hook_that_may_refuse_gets_only_queued_jobs_and_seiretsus_kinds() -> None:
    for configuration in (mutating(HookOptions()), validating(HookOptions())):
        for webhook in configuration["webhooks"]:
            (rule,) = webhook["rules"]
            ours = rule["apiGroups"] == ["kueue.x-k8s.io"]
            conditions = [condition["name"] for condition in webhook.get("matchConditions", ())]
            few = conditions in (["queued"], ["claims-an-owner"], ["changes-what-counts"], ["changes-marks"])
            assert ours or webhook["failurePolicy"] == "Ignore" or few, webhook["name"]


def test_system_namespaces_and_seiretsus_are_never_matched_with_any_selector() -> None:
    chosen = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}],
    }
    settings = WebhookSettings(namespace="queueing", managed_jobs_namespace_selector=chosen)
    for name in ("mjob.kb.io", "mjob-default.kb.io", "vjob.kb.io"):
        assert _webhook(name, HookOptions(settings=settings))["namespaceSelector"] == {
            "matchLabels": {"team": "a"},
            "matchExpressions": [
                {"key": "env", "operator": "In", "values": ["prod"]},
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-node-lease", "kube-system", "kueue-system", "queueing"],
                },
            ],
        }


def test_selectors_exclude_what_conditions_need_not_read() -> None:
    """The API server decodes an object once more for the conditions of each hook whose selectors match it."""
    unqueued = _webhook("mjob-default.kb.io", HookOptions())
    assert unqueued["objectSelector"] == {"matchExpressions": [{"key": Label.QUEUE_NAME, "operator": "DoesNotExist"}]}
    unmanaged = _webhook("job-unmanaged-feedback.kb.io", HookOptions(settings=WebhookSettings(namespace="queueing")))
    assert unmanaged["namespaceSelector"] == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": ["kube-node-lease", "kube-system", "kueue-system", "queueing"],
            }
        ]
    }


def test_writes_of_the_controller_are_not_sent_to_the_hooks() -> None:
    account = "system:serviceaccount:kueue-system:seiretsu"
    options = HookOptions(account=ControllerAccount(account))
    assert not _reaches("vworkload.kb.io", {}, {}, user=account, options=options)
    assert _reaches("vworkload.kb.io", {}, {}, user="alice", options=options)
    assert _reaches("mjob.kb.io", {"labels": QUEUE}, user=account, options=options), "a new job waits, whoever makes it"
    assert not _reaches("mjob.kb.io", {"labels": QUEUE}, {"labels": QUEUE}, user=account, options=options)
    assert _reaches("mjob.kb.io", {"labels": QUEUE}, {"labels": QUEUE}, user="alice", options=options)


def test_a_persons_write_with_the_controllers_account_is_validated() -> None:
    shared = HookOptions(account=ControllerAccount("admin", shared=True))
    assert _reaches("vjob.kb.io", {"labels": QUEUE}, {"labels": QUEUE}, user="admin", options=shared)


MANAGERS = {"nobody says who": {}, "kubectl": {"fieldManager": "kubectl-patch"}, "ours": {"fieldManager": "seiretsu"}}
NAMES = ["", "admin", "o'brien \\ sons", "system:serviceaccount:kueue-system:seiretsu"]


@pytest.mark.parametrize("options", MANAGERS.values(), ids=MANAGERS.keys())
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "ours alone"])
@pytest.mark.parametrize("user", NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_policies_recognize_the_controller_by_the_same_rule_as_the_webhook(
    name: str, user: str, shared: bool, options: Raw
) -> None:
    account = ControllerAccount(name, shared=shared)
    request = parse(orjson.dumps(review(job(), userInfo={"username": user}, options=options)))
    variables = {"request": {"userInfo": {"username": user}, "options": options}}
    assert cel.evaluate(written_by(account), variables) is account.wrote(request)
    assert not (account.wrote(request) and user != name)


def test_kueues_names_and_paths_are_kept() -> None:
    found = {
        webhook["name"]: webhook["clientConfig"]["service"]["path"]
        for configuration in (mutating(HookOptions()), validating(HookOptions()))
        for webhook in configuration["webhooks"]
    }
    own = {name for name in found if any(word in name for word in ("-owner", "-counted", "-marks"))}
    assert own == {*OTHERS}, "which Kueue does not have"
    assert {name: path for name, path in found.items() if name not in own} == {
        "mjob.kb.io": "/mutate-batch-v1-job",
        "mjob-default.kb.io": "/mutate-batch-v1-job-default",
        "mclusterqueue.kb.io": "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "mresourceflavor.kb.io": "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "vjob.kb.io": "/validate-batch-v1-job",
        "vclusterqueue.kb.io": "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "vcohort.kb.io": "/validate-kueue-x-k8s-io-v1beta2-cohort",
        "vresourceflavor.kb.io": "/validate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "vworkload.kb.io": "/validate-kueue-x-k8s-io-v1beta2-workload",
        "clusterqueue-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-clusterqueue",
        "localqueue-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-localqueue",
        "cohort-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-cohort",
        "resourceflavor-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-resourceflavor",
        "workloadpriorityclass-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-workloadpriorityclass",
        "topology-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-topology",
        "queue-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1alpha1-queue",
        "job-unmanaged-feedback.kb.io": "/feedback-batch-v1-job-unmanaged",
        "pod-feedback.kb.io": "/feedback-core-v1-pod",
        "deployment-feedback.kb.io": "/feedback-apps-v1-deployment",
        "statefulset-feedback.kb.io": "/feedback-apps-v1-statefulset",
        "cronjob-feedback.kb.io": "/feedback-batch-v1-cronjob",
        "workload-deletion-feedback.kb.io": "/feedback-kueue-x-k8s-io-v1beta2-workload-deletion",
    }


def test_workloads_lose_their_min_counts_only_where_partial_admission_is_off() -> None:
    options = HookOptions(settings=WebhookSettings(gates={"PartialAdmission": False}))
    assert "mworkload.kb.io" in [webhook["name"] for webhook in mutating(options)["webhooks"]]


def test_an_integration_that_is_off_has_no_hooks() -> None:
    options = HookOptions(settings=WebhookSettings(frameworks=frozenset()))
    names = [webhook["name"] for webhook in (*mutating(options)["webhooks"], *validating(options)["webhooks"])]
    assert not [name for name in names if "job" in name]


def test_one_webhook_in_full() -> None:
    endpoint = Endpoint(url="https://127.0.0.1:9443/")
    webhook = _webhook("mjob.kb.io", HookOptions(endpoint=endpoint, ca_bundle=b"PEM"))
    conditions = webhook.pop("matchConditions")
    assert [condition["name"] for condition in conditions] == ["queued"]
    assert webhook == {
        "name": "mjob.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": "https://127.0.0.1:9443/mutate-batch-v1-job",
            "caBundle": base64.b64encode(b"PEM").decode(),
        },
        "rules": [
            {
                "apiGroups": ["batch"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["jobs"],
                "scope": "*",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "reinvocationPolicy": "IfNeeded",
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-node-lease", "kube-system", "kueue-system"],
                }
            ]
        },
    }


def test_the_hook_of_jobs_without_a_queue_times_out_after_two_seconds_and_is_ignored() -> None:
    webhook = _webhook("mjob-default.kb.io", HookOptions(timeout_seconds=10))
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 2)


QUEUED_TEMPLATE = {"template": {"metadata": {"labels": QUEUE}}}
OF_OTHERS = [
    pytest.param("pod-feedback.kb.io", {"metadata": {"labels": QUEUE}}, True, id="a Pod that names a queue"),
    pytest.param("pod-feedback.kb.io", {"metadata": {"labels": {"app": "a"}}}, False, id="a Pod with other labels"),
    pytest.param("pod-feedback.kb.io", {"metadata": {}}, False, id="a Pod without labels"),
    pytest.param(
        "pod-feedback.kb.io",
        {"metadata": {"labels": QUEUE, "ownerReferences": [{"controller": True}]}},
        False,
        id="a Pod of a controller",
    ),
    pytest.param(
        "deployment-feedback.kb.io", {"metadata": {}, "spec": QUEUED_TEMPLATE}, True, id="pods of a Deployment"
    ),
    pytest.param("statefulset-feedback.kb.io", {"metadata": {}, "spec": QUEUED_TEMPLATE}, True, id="of a StatefulSet"),
    pytest.param("statefulset-feedback.kb.io", {"metadata": {}, "spec": {"template": {}}}, False, id="unqueued pods"),
    pytest.param(
        "cronjob-feedback.kb.io",
        {"metadata": {}, "spec": {"jobTemplate": {"metadata": {"annotations": QUEUE}}}},
        True,
        id="an annotation of the Jobs of a CronJob",
    ),
    pytest.param("cronjob-feedback.kb.io", {"metadata": {}, "spec": {"jobTemplate": {}}}, False, id="unqueued Jobs"),
]


@pytest.mark.parametrize(("hook", "made", "reaches"), OF_OTHERS)
def test_objects_of_other_kinds_are_sent_only_if_they_name_a_queue(hook: str, made: Raw, reaches: bool) -> None:
    variables = {"object": made, "oldObject": None, "request": {"operation": "CREATE", "userInfo": {"username": "a"}}}
    conditions = _webhook(hook, HookOptions())["matchConditions"]
    assert all(cel.evaluate(each["expression"], variables) is True for each in conditions) is reaches


MARKS = ("vreplicaset-marks.kb.io", "vstatefulset-marks.kb.io")
OTHERS = ("mjob-owner.kb.io", "vjob-owner.kb.io", "vpod-counted.kb.io", *MARKS)


def test_what_the_policies_refuse_needs_no_hook_where_they_are_enforced() -> None:
    options = HookOptions(WebhookSettings(policies=True))
    names = {webhook["name"] for found in (mutating(options), validating(options)) for webhook in found["webhooks"]}
    assert names & {*OTHERS} == {"mjob-owner.kb.io"}, "only a webhook can take the controller from an owner reference"


@pytest.mark.parametrize("hook", OTHERS)
@pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:kube-system:job-controller",
        "system:kube-controller-manager",
        "system:serviceaccount:ours:seiretsu",
    ],
)
def test_what_controllers_write_is_not_compared(hook: str, user: str) -> None:
    options = HookOptions(account=ControllerAccount("system:serviceaccount:ours:seiretsu"))
    (condition,) = _webhook(hook, options)["matchConditions"]
    request = {"operation": "UPDATE", "userInfo": {"username": user}}
    assert cel.evaluate(condition["expression"], {"request": request}) is False, "nothing else is read"


def test_every_known_kind_has_the_usual_plural() -> None:
    """By which its rights are asked for."""
    for resource in KNOWN.values():
        assert plural(resource.kind) == resource.plural
