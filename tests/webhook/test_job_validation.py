"""Every rule for a Job, with the line that kubectl prints for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from api.names import Annotation, Label
from core.model import Raw
from core.model.owner import Level
from core.state.lookup import Lookup
from tests.webhook.cluster import ask, cluster, job, review
from webhook.settings import WebhookSettings

ANEW = "delete the job and create it again"
FIXED = f"field is immutable while the job runs: {ANEW}"
VALIDATE = "/validate-batch-v1-job"
QUEUE = {Label.QUEUE_NAME: "main"}
AT_QUEUE = "metadata.labels[kueue.x-k8s.io/queue-name]"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def refused(body: Raw, *, knows: Lookup | None = None, settings: WebhookSettings | None = None) -> str:
    """The message of the refusal; '' if the Job is allowed."""
    response = ask(VALIDATE, body, knows=knows, settings=settings)
    if response["allowed"]:
        return ""
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    return str(response["status"]["message"])


def annotated(**fields: str) -> Raw:
    known = {
        "least": Annotation.MIN_PARALLELISM,
        "synced": Annotation.COMPLETIONS_EQUAL_PARALLELISM,
        "gates": Annotation.ADMISSION_GATED_BY,
        "elastic": Annotation.ELASTIC_JOB,
        "prebuilt": Annotation.PREBUILT_WORKLOAD,
        "stopping": Annotation.STOPPING,
    }
    return {known[name]: value for name, value in fields.items()}


def template(**annotations: str) -> Raw:
    found = {f"kueue.x-k8s.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"annotations": found}, "spec": {"containers": []}}


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
AT_LEAST = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"
AT_SYNC = "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]"
AT_GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
AT_TIME = "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"
AT_CLASS = "metadata.labels[kueue.x-k8s.io/priority-class]"
AT_TEMPLATE = "spec.template.metadata.annotations"

CREATED = [
    pytest.param(job(labels=QUEUE), "", id="a good Job"),
    pytest.param(
        job(labels={Label.QUEUE_NAME: "Main_Q"}), f'{AT_QUEUE}: Invalid value: "Main_Q": {SUBDOMAIN}', id="queue syntax"
    ),
    pytest.param(
        job(labels={Label.QUEUE_NAME: ""}),
        f'{AT_QUEUE}: Invalid value: "": name a queue or remove the label',
        id="an empty queue",
    ),
    pytest.param(
        job(annotations={Label.QUEUE_NAME: "A"}),
        f'metadata.annotations[kueue.x-k8s.io/queue-name]: Invalid value: "A": {SUBDOMAIN}',
        id="queue syntax in v0.1's annotation",
    ),
    pytest.param(
        job(labels={**QUEUE, Label.MAX_EXEC_TIME_SECONDS: "soon"}),
        f'{AT_TIME}: Invalid value: "soon": must be a whole number in digits, such as "3"',
        id="an execution time that is no number",
    ),
    pytest.param(
        job(labels={**QUEUE, Label.MAX_EXEC_TIME_SECONDS: "0"}),
        f"{AT_TIME}: Invalid value: 0: should be greater than 0",
        id="no execution time at all",
    ),
    pytest.param(
        job(annotations=annotated(least="4"), parallelism=4, completions=4),
        f"{AT_LEAST}: Invalid value: 4: should be between 0 and 3",
        id="min-parallelism as large as parallelism",
    ),
    pytest.param(
        job(annotations=annotated(least="3"), parallelism=8, completions=3),
        f"{AT_LEAST}: Invalid value: 3: should be between 0 and 2",
        id="min-parallelism as large as completions",
    ),
    pytest.param(job(annotations=annotated(least="3"), parallelism=4, completions=4), "", id="a good min-parallelism"),
    pytest.param(
        job(annotations=annotated(least="x"), parallelism=4),
        f'{AT_LEAST}: Invalid value: "x": must be a whole number in digits, such as "3"',
        id="min-parallelism that is no number",
    ),
    pytest.param(
        job(annotations=annotated(least="1", elastic="true"), parallelism=4, completions=4),
        f'{AT_LEAST}: Invalid value: "1": partial admission and elastic job cannot be used together',
        id="partial and elastic",
    ),
    pytest.param(
        job(annotations=annotated(synced="yes")),
        f'{AT_SYNC}: Invalid value: "yes": must be "true" or "false"',
        id="synced completions that are neither true nor false",
    ),
    pytest.param(
        job(annotations=annotated(synced="true"), parallelism=2, completions=1),
        f'[{AT_SYNC}: Invalid value: "true": should not be enabled for NonIndexed jobs, '
        "spec.completions: Invalid value: 1: should be equal to parallelism when"
        " kueue.x-k8s.io/job-completions-equal-parallelism annotation is true]",
        id="synced completions, two errors at once",
    ),
    pytest.param(
        job(annotations=annotated(gates="a.b/c,,a.b/c,nodomain")),
        f'[{AT_GATES}: Invalid value: "a.b/c,,a.b/c,nodomain": cannot contain empty gate names, '
        f'{AT_GATES}: Invalid value: "a.b/c,,a.b/c,nodomain": duplicate gate name: a.b/c, '
        f'{AT_GATES}: Invalid value: "nodomain": must be a domain-prefixed path (such as "acme.io/foo")]',
        id="gates: empty, twice, without a domain",
    ),
    pytest.param(
        job(annotations=annotated(gates=f"a.b/{'c' * 60}")),
        f"{AT_GATES}: Too long: may not be more than 63 bytes",
        id="a gate too long",
    ),
    pytest.param(
        job(annotations=annotated(prebuilt="UPPER")),
        f'metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "UPPER": {SUBDOMAIN}',
        id="the name of a prebuilt workload",
    ),
    pytest.param(
        job(template=template(podset_required_topology="rack", podset_preferred_topology="rack")),
        f"{AT_TEMPLATE}: Invalid value: must not contain more than one topology annotation:"
        ' ["kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology",'
        ' "kueue.x-k8s.io/podset-unconstrained-topology"]',
        id="two topologies",
    ),
    pytest.param(
        job(annotations=annotated(elastic="true"), template=template(podset_required_topology="rack")),
        f"{AT_TEMPLATE}.kueue.x-k8s.io/podset-required-topology: Forbidden: required topology is not supported with"
        " elastic jobs",
        id="an elastic job in one rack",
    ),
    pytest.param(
        job(template=template(podset_required_topology="a b")),
        f'{AT_TEMPLATE}[kueue.x-k8s.io/podset-required-topology]: Invalid value: "a b": {NAME_PART}',
        id="a topology level that is none",
    ),
    pytest.param(
        job(template=template(podset_slice_required_topology="rack")),
        f"{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Required value: must be set when"
        " 'kueue.x-k8s.io/podset-slice-required-topology' is specified",
        id="a slice without size",
    ),
    pytest.param(
        job(template=template(podset_required_topology="rack", podset_group_name="7")),
        f'{AT_TEMPLATE}[kueue.x-k8s.io/podset-group-name]: Invalid value: "7": must not be a number',
        id="a group that is a number",
    ),
    pytest.param(
        job(template=template(podset_group_name="pair")),
        f"{AT_TEMPLATE}[kueue.x-k8s.io/podset-group-name]: Forbidden: may not be set when neither"
        " 'kueue.x-k8s.io/podset-preferred-topology' nor 'kueue.x-k8s.io/podset-required-topology' is specified",
        id="a group of no topology",
    ),
    pytest.param(
        job(template=template(podset_slice_required_topology_constraints="rack")),
        f'{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-required-topology-constraints]: Invalid value: "rack": must be a'
        " valid JSON array: unexpected character, expected a JSON value: line 1 column 1 (char 0)",
        id="layers that are no list",
    ),
    pytest.param(
        job(template=template(podset_unconstrained_topology="maybe")),
        f'{AT_TEMPLATE}[kueue.x-k8s.io/podset-unconstrained-topology]: Invalid value: "maybe": must be a boolean value',
        id="unconstrained is true or false",
    ),
    pytest.param(
        job(template=template(podset_slice_required_topology="rack", podset_slice_size="5"), parallelism=4),
        f"{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Invalid value:"
        ' "5": must not be greater than pod set count 1',
        id="a slice larger than the pod set",
    ),
    pytest.param(
        job(template=template(podset_slice_size="0")),
        f'[{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Invalid value: "0": must be greater than or equal to 1, '
        f"{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Forbidden: may not be set when"
        " 'kueue.x-k8s.io/podset-slice-required-topology' is not specified]",
        id="a slice of nothing, of no topology",
    ),
    pytest.param(
        job(
            template=template(
                podset_slice_required_topology_constraints='[{"topology":"a","size":4},{"topology":"a","size":3}]'
            )
        ),
        f"[{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-required-topology-constraints][1].topology:"
        ' Duplicate value: "a (also at index 0)", '
        f"{AT_TEMPLATE}[kueue.x-k8s.io/podset-slice-required-topology-constraints][1].size:"
        " Invalid value: 3: must evenly divide the parent layer size 4]",
        id="layers that repeat and do not divide",
    ),
]


@pytest.mark.parametrize(("new", "message"), CREATED)
def test_create(new: Raw, message: str) -> None:
    new = {**new, "spec": {**new["spec"], "suspend": True}}  # as our mutating webhook leaves it
    assert refused(review(new)) == message


def test_a_job_that_another_webhook_labels_or_unsuspends_later_is_refused() -> None:
    assert refused(review(job(labels=QUEUE))) == (
        "spec.suspend: Forbidden: a job that waits in a queue is created suspended: another webhook unset spec.suspend"
    )


def suspended(**fields: Raw) -> Raw:
    return job(suspend=True, **fields)


HIGH = {**QUEUE, Label.PRIORITY_CLASS: "high"}
CHANGED = [
    pytest.param(job(labels=QUEUE), job(labels=QUEUE), "", id="nothing changes"),
    pytest.param(
        job(labels=QUEUE),
        job(labels={Label.QUEUE_NAME: "other"}),
        f'{AT_QUEUE}: Invalid value: "other": {FIXED}',
        id="another queue while it runs",
    ),
    pytest.param(suspended(labels=QUEUE), suspended(labels={Label.QUEUE_NAME: "b"}), "", id="another queue in time"),
    pytest.param(job(labels=QUEUE), job(), f'{AT_QUEUE}: Invalid value: "": {FIXED}', id="no queue any more"),
    pytest.param(
        job(annotations=QUEUE), job(labels=QUEUE), "", id="from v0.1's annotation to the label of the same name"
    ),
    pytest.param(
        job(labels=QUEUE),
        job(labels=HIGH),
        f'{AT_CLASS}: Invalid value: "high": WorkloadPriorityClass cannot be added to a non-suspended workload: {ANEW}',
        id="a priority class while it runs",
    ),
    pytest.param(suspended(labels=QUEUE), suspended(labels=HIGH), "", id="a priority class in time"),
    pytest.param(job(labels=HIGH), job(labels={**HIGH, Label.PRIORITY_CLASS: "low"}), "", id="another priority class"),
    pytest.param(
        suspended(labels=HIGH),
        suspended(labels=QUEUE),
        f'{AT_CLASS}: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload: name another class'
        " instead",
        id="no priority class any more",
    ),
    pytest.param(
        job(labels=QUEUE),
        job(labels={**QUEUE, Label.MAX_EXEC_TIME_SECONDS: "9"}),
        f'{AT_TIME}: Invalid value: "9": {FIXED}',
        id="an execution time while it runs",
    ),
    pytest.param(
        suspended(labels=QUEUE), suspended(labels={**QUEUE, Label.MAX_EXEC_TIME_SECONDS: "9"}), "", id="one in time"
    ),
    pytest.param(
        job(annotations=annotated(least="1"), parallelism=4, completions=4),
        job(annotations=annotated(least="1"), parallelism=3, completions=4),
        "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended:"
        f" {ANEW}",
        id="parallelism of a partial Job while it runs",
    ),
    pytest.param(
        job(annotations=annotated(synced="true"), completionMode="Indexed"),
        job(completionMode="Indexed"),
        f"{AT_SYNC}: Forbidden: field is immutable while the job is not suspended: {ANEW}",
        id="synced completions while it runs",
    ),
    pytest.param(
        suspended(),
        suspended(annotations=annotated(gates="a.b/c")),
        f"{AT_GATES}: Forbidden: cannot add admission gate after creation",
        id="a gate after creation",
    ),
    pytest.param(
        suspended(annotations=annotated(gates="a.b/c")),
        suspended(annotations=annotated(gates="a.b/c, a.b/d")),
        f"{AT_GATES}: Forbidden: can only remove gates, not add new ones",
        id="one more gate",
    ),
    pytest.param(
        suspended(annotations=annotated(gates="a.b/c,a.b/d")),
        suspended(annotations=annotated(gates="a.b/d")),
        "",
        id="one gate less",
    ),
    pytest.param(
        suspended(),
        suspended(annotations=annotated(elastic="true")),
        f"metadata.annotations[kueue.x-k8s.io/elastic-job]: Invalid value: true: field is immutable: {ANEW}",
        id="elastic from now on",
    ),
    pytest.param(
        job(),
        job(annotations=annotated(prebuilt="mine")),
        f'metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "mine": {FIXED}',
        id="a prebuilt workload while it runs",
    ),
    pytest.param(
        suspended(labels=QUEUE, annotations=annotated(stopping="true")),
        suspended(labels={Label.QUEUE_NAME: "b"}, annotations=annotated(stopping="true")),
        f'{AT_QUEUE}: Invalid value: "b": {FIXED}',
        id="a Job that is still being stopped runs",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), CHANGED)
def test_update(old: Raw, new: Raw, message: str) -> None:
    assert refused(review(new, old=old)) == message


def test_a_job_does_not_leave_the_queue_where_there_is_a_default_one() -> None:
    knows = cluster(default_queue_in=["team-a"])
    message = f'{AT_QUEUE}: Invalid value: "": queue-name must not be empty in namespace with default queue'
    assert refused(review(suspended(), old=suspended(labels=QUEUE)), knows=knows) == message


def test_causes_name_each_field_for_clients_that_read_json() -> None:
    new = suspended(labels={Label.QUEUE_NAME: "A", Label.MAX_EXEC_TIME_SECONDS: "0"})
    causes = ask(VALIDATE, review(new))["status"]["details"]["causes"]
    assert [cause["field"] for cause in causes] == [AT_QUEUE, AT_TIME]


def test_gates_that_are_off_check_nothing() -> None:
    settings = WebhookSettings(gates={"AdmissionGatedBy": False, "TopologyAwareScheduling": False})
    new = job(annotations=annotated(gates=","), template=template(podset_slice_size="0"))
    assert refused(review(new), settings=settings) == ""


GONE = Level("", gone=True)


@pytest.mark.parametrize(
    ("known", "deleting", "refuses"),
    [
        (GONE, True, True),
        (Level("another"), True, True),
        (Level("u-o"), True, False),
        (None, True, False),
        (GONE, False, False),
    ],
)
def test_a_job_that_is_deleted_after_its_owner_may_be_changed(
    known: Level | None, deleting: bool, refuses: bool
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": "u-o", "controller": True}
    old = job(labels={Label.QUEUE_NAME: "main"}, owner=owner, suspend=True)
    if deleting:
        old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}}}
    knows = replace(cluster(), owner=lambda namespace, above: known)
    assert refused(review(new, old=old), knows=knows) == ""
    off = WebhookSettings(gates={"SkipAncestorCheckForDeletedWorkloads": False})
    told = refused(review(new, old=old), knows=knows, settings=off)
    assert told.startswith("metadata.ownerReferences") == refuses, told
    assert ("workload owner not found" in told) == refuses


def test_v01s_annotation_is_honoured_with_a_warning_and_the_label_wins() -> None:
    def warned(body: Raw) -> list[str]:
        response = ask(VALIDATE, body)
        assert response["allowed"]
        return [text for text in response.get("warnings", []) if "annotation" in text]

    assert warned(review(suspended(annotations=QUEUE))) == [
        "annotation kueue.x-k8s.io/queue-name is from v0.1: this job is queued, but use a label instead"
    ]
    assert warned(review(suspended(annotations=QUEUE, labels=QUEUE))) == []
    assert warned(review(job(annotations=QUEUE), old=job(annotations=QUEUE))) == []
    other = suspended(annotations=QUEUE, labels={Label.QUEUE_NAME: "other"})
    assert warned(review(other)) == [
        'label and annotation name different queues: label "other" is used; remove annotation kueue.x-k8s.io/queue-name'
    ]
    assert warned(review(other, old=other)) == []


def test_the_names_of_all_local_queues_are_looked_at_only_for_a_name_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, listed = list[str](), Lookup.local_queue_names

    def counted(self: Lookup, namespace: str) -> Iterable[str]:
        looked.append(namespace)
        return listed(self, namespace)

    monkeypatch.setattr(Lookup, "local_queue_names", counted)
    knows = cluster(default_queue_in=["team-a"])
    assert refused(review(job(labels={Label.QUEUE_NAME: "default"}, suspend=True)), knows=knows) == ""
    assert looked == []
    assert 'did you mean "default"' in refused(review(job(labels={Label.QUEUE_NAME: "Default"})), knows=knows)
    assert looked == ["team-a"]
